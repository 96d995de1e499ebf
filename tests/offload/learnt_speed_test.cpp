// The speeds that are learnt from the times of calls.
#include "offload/learnt_speed.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tessera::offload {
namespace learnt_speed_test {

TEST(LearntSpeed, NothingIsLearntOfNothing) {
  LearntSpeed speed;
  speed.record(0, true);
  speed.record(std::numeric_limits<double>::quiet_NaN(), true);
  speed.passed_over(1);
  EXPECT_EQ(speed.seen().count, 0);
}

TEST(LearntSpeed, GoesUpByHalvesAndDownByEighths) {
  LearntSpeed speed;
  speed.record(1, true);
  EXPECT_FALSE(speed.seen().is_believed());
  speed.record(8, true);  // the faster one of the first two
  EXPECT_TRUE(speed.seen().is_believed());
  EXPECT_FLOAT_EQ(speed.seen().speed, 8);
  speed.record(16, true);
  EXPECT_FLOAT_EQ(speed.seen().speed, 12);
  speed.record(4, true);
  EXPECT_FLOAT_EQ(speed.seen().speed, 11);
}

TEST(LearntSpeed, BesideTheOtherSideOnlyWhatIsBetterCounts) {
  LearntSpeed speed;
  speed.record(2, false);
  speed.record(1, false);
  EXPECT_TRUE(speed.seen().is_believed()) << "slower ones settle it all the same";
  EXPECT_FLOAT_EQ(speed.seen().speed, 2);
  speed.record(1, true);  // no better without
  EXPECT_FLOAT_EQ(speed.seen().speed, 2);
  EXPECT_TRUE(speed.seen().was_alone);
  speed.record(1, false);
  EXPECT_FLOAT_EQ(speed.seen().speed, 2);
  speed.record(4, false);
  EXPECT_FLOAT_EQ(speed.seen().speed, 3);
}

constexpr index_t volume = 1 << 27;

TEST(DeviceBias, IsBelievedFromTheSecondCallOn) {
  DeviceBias bias;
  EXPECT_EQ(bias.of(volume), 1);
  bias.record(volume, 50, true);  // loads kernels
  EXPECT_EQ(bias.of(volume), 1);
  bias.record(volume, 6, true);
  EXPECT_NEAR(bias.of(volume), 6, 1e-5);
  EXPECT_EQ(bias.of(volume * 64), 1);  // another class
}

TEST(DeviceBias, IsForgottenWhenCallsStayAway) {
  DeviceBias bias;
  // Soon at first, since the first calls may be slow ones, then ever later.
  for (const int patience : {1, 2, 4, 8, LearntSpeed::longest_patience, LearntSpeed::longest_patience}) {
    for (int i = 0; i < 2; ++i) bias.record(volume, 8, true);
    for (int i = 1; i < patience; ++i) bias.passed_over(volume, 1);
    EXPECT_EQ(bias.of(volume), 8) << patience;
    bias.passed_over(volume, 1);
    EXPECT_EQ(bias.of(volume), 1) << patience;
  }
  bias.passed_over(volume, 1);  // nothing is known, nothing to forget
  for (int i = 0; i < 2; ++i) bias.record(volume, 4, true);
  EXPECT_EQ(bias.of(volume), 4);
}

TEST(DeviceBias, HopesForMoreWithoutCallsOnTheCpu) {
  DeviceBias bias;
  for (int i = 0; i < 2; ++i) bias.record(volume, 8, false);
  EXPECT_EQ(bias.of(volume), 2);
  bias.record(volume, 16, false);
  EXPECT_EQ(bias.of(volume), 2);
  bias.record(volume, 4, true);  // no better by themselves
  EXPECT_EQ(bias.of(volume), 4);
  bias.record(volume, 24, false);
  EXPECT_EQ(bias.of(volume), 4);
}

TEST(DeviceBias, HasAClassForEveryVolume) {
  DeviceBias bias;
  for (index_t size = 0; size >= 0; size = size < 2 ? size + 1 : size * 2) {
    for (int i = 0; i < 2; ++i) bias.record(size, 2, true);
    EXPECT_EQ(bias.of(size), 2);
    if (size > (index_t{1} << 62) - 1) break;
  }
  bias.record(std::numeric_limits<index_t>::max(), 2, true);
}

}  // namespace learnt_speed_test
}  // namespace tessera::offload
