#include "offload/learnt_rate.hpp"

#include <gtest/gtest.h>

namespace tessera::offload {
namespace learnt_rate_test {

TEST(LearntRate, GoesUpByHalvesAndDownByEighths) {
  LearntRate rate;
  EXPECT_FALSE(rate.is_known());
  rate.record(800, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(rate.flops_per_s()), 800);
  rate.record(1600, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(rate.flops_per_s()), 1200);
  rate.record(400, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(rate.flops_per_s()), 1100);
}

TEST(LearntRate, NothingIsLearntOfNothing) {
  LearntRate rate;
  rate.record(0, 1);
  rate.record(1, 0);
  EXPECT_FALSE(rate.is_known());
}

TEST(LearntRate, IsForgottenWhenCallsGoElsewhereInARow) {
  LearntRate rate;
  rate.record(1, 1);
  for (int call = 1; call < LearntRate::lifetime; ++call) rate.passed_over();
  EXPECT_TRUE(rate.is_known());
  rate.record(1, 1);
  for (int call = 1; call < LearntRate::lifetime; ++call) rate.passed_over();
  EXPECT_TRUE(rate.is_known());
  rate.passed_over();
  EXPECT_FALSE(rate.is_known());
}

}  // namespace learnt_rate_test
}  // namespace tessera::offload
