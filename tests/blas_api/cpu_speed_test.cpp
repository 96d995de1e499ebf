// What is believed of the CPU BLAS after which measurements.
#include "blas_api/cpu_speed.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tessera::api {
namespace {

Level3 product(index_t m, index_t n, index_t k, ScalarType type = ScalarType::d) {
  Level3 call;
  call.type = type;
  call.m = m;
  call.n = n;
  call.k = k;
  return call;
}
Level3 square(index_t n, ScalarType type = ScalarType::d) { return product(n, n, n, type); }

void record_rate(CpuSpeed& speed, const Level3& call, double flops_per_s, int times = 1) {
  for (int i = 0; i < times; ++i) speed.record(call, flops_of(call) / flops_per_s);
}
double expected_rate(const CpuSpeed& speed, const Level3& call) {
  return flops_of(call) / speed.estimate(call).expected_s;
}
double best_rate(const CpuSpeed& speed, const Level3& call) { return flops_of(call) / speed.estimate(call).least_s; }
double worst_rate(const CpuSpeed& speed, const Level3& call) { return flops_of(call) / speed.estimate(call).most_s; }

TEST(CpuSpeed, BeforeAnythingIsKnownTheRooflineOfTheMachineCounts) {
  const CpuSpeed speed(4);
  EXPECT_FALSE(speed.knows(ScalarType::d));
  EXPECT_NEAR(expected_rate(speed, square(4000)), 4 * 30e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(4000, ScalarType::s)), 8 * 30e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(4000, ScalarType::z)), 4 * 30e9, 1);
  EXPECT_EQ(speed.estimate(square(4000)).least_s, speed.estimate(square(4000)).most_s);
  // An outer product does two operations on 16 bytes that it writes, 40 GB/s in all, and has next to no input.
  EXPECT_NEAR(expected_rate(speed, product(4000, 4000, 1)), 2.0 / 8 * 40e9, 1e7);
  EXPECT_GE(CpuSpeed::available_processors(1), 1);
  EXPECT_LE(CpuSpeed::available_processors(1 << 20), CpuSpeed::available_processors(1));
  EXPECT_GE(CpuSpeed::available_processors(1 << 20), 1);
}

TEST(CpuSpeed, AMeasuredSizeAnswersForItself) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 1.5e9, CpuSpeed::trusted_count);
  EXPECT_TRUE(speed.knows(ScalarType::d));
  EXPECT_FALSE(speed.knows(ScalarType::s));
  for (const auto rate : {expected_rate, best_rate, worst_rate}) EXPECT_NEAR(rate(speed, square(1000)), 1.5e9, 1e3);
  // Other types are other functions.
  EXPECT_NEAR(expected_rate(speed, square(1000, ScalarType::z)), 4 * 30e9, 1);
}

TEST(CpuSpeed, ASlowFirstCallIsForgotten) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 1e9);  // it started the threads of the BLAS
  // One measurement is not trusted: better is still thought possible.
  EXPECT_NEAR(expected_rate(speed, square(1000)), 1e9, 1e3);
  EXPECT_NEAR(best_rate(speed, square(1000)), 4 * 30e9, 1);
  EXPECT_NEAR(worst_rate(speed, square(1000)), 1e9, 1e3);
  record_rate(speed, square(1000), 100e9, 5);
  EXPECT_GT(expected_rate(speed, square(1000)), 95e9);
}

TEST(CpuSpeed, OneInterruptedCallDoesNotCount) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 100e9, 5);
  record_rate(speed, square(1000), 1e9);
  EXPECT_GT(expected_rate(speed, square(1000)), 85e9);
}

TEST(CpuSpeed, LastingSlownessIsBelieved) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 100e9, 5);
  record_rate(speed, square(1000), 10e9, 40);
  EXPECT_LT(expected_rate(speed, square(1000)), 11e9);
}

TEST(CpuSpeed, UnseenSizesLieBetweenTheirNeighbours) {
  CpuSpeed speed(64);
  record_rate(speed, square(110), 2e9, 3);
  // As fast as the small one at least; as the machine at best.
  EXPECT_NEAR(worst_rate(speed, square(4000)), 2e9, 1e3);
  EXPECT_NEAR(best_rate(speed, square(4000)), 64 * 30e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(4000)), std::sqrt(2e9 * 64 * 30e9), 1e6);
  // A large call is no slower than a small one, and a small one no quicker than a large one.
  record_rate(speed, square(8000), 3e9, 3);
  EXPECT_NEAR(worst_rate(speed, square(2000)), 2e9, 1e3);
  EXPECT_NEAR(best_rate(speed, square(2000)), 3e9, 1e3);
  EXPECT_NEAR(worst_rate(speed, square(20000)), 3e9, 1e3);
  // A thin call of a large volume is bounded by the thick one, but tells nothing about it.
  EXPECT_NEAR(best_rate(speed, product(4000, 4000, 20)), 3e9, 1e3);
  record_rate(speed, product(4000, 4000, 20), 1e9, 3);
  EXPECT_NEAR(worst_rate(speed, square(2000)), 2e9, 1e3);
  EXPECT_NEAR(expected_rate(speed, product(4000, 4000, 20)), 1e9, 1e3);
}

TEST(CpuSpeed, EverySizeHasAnEstimate) {
  CpuSpeed speed(2);
  const std::vector<index_t> sizes = {1, 31, 32, 127, 128, 600, 5000, 3000000};
  for (const bool known : {false, true}) {
    for (const index_t m : sizes) {
      for (const index_t n : sizes) {
        for (const index_t k : sizes) {
          const Level3 call = product(m, n, k);
          if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < CpuSpeed::least_volume)
            continue;
          const CpuEstimate estimate = speed.estimate(call);
          ASSERT_GT(estimate.least_s, 0);
          ASSERT_LE(estimate.least_s, estimate.expected_s);
          ASSERT_LE(estimate.expected_s, estimate.most_s * (1 + 1e-12));
          ASSERT_TRUE(std::isfinite(estimate.most_s));
          if (known) record_rate(speed, call, 1e9 + 1e6 * static_cast<double>(m + n));
        }
      }
    }
  }
}

TEST(CpuSpeed, WhatIsPassedOverForLongIsNotTrustedAnyMore) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 2e9, 5);
  for (int i = 0; i < CpuSpeed::lifetime - 1; ++i) speed.passed_over(square(1000));
  EXPECT_NEAR(best_rate(speed, square(1000)), 2e9, 1e3);
  speed.passed_over(square(1000));
  EXPECT_NEAR(best_rate(speed, square(1000)), 4 * 30e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(1000)), 2e9, 1e3);
  // A measurement makes it trusted again.
  record_rate(speed, square(1000), 2e9);
  EXPECT_NEAR(best_rate(speed, square(1000)), 2e9, 1e3);
}

TEST(CpuSpeed, ManyThreadsRecordAtOnce) {
  CpuSpeed speed(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        record_rate(speed, square(1000), 5e9);
        speed.passed_over(square(1000));
        static_cast<void>(speed.estimate(square(1000)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NEAR(expected_rate(speed, square(1000)), 5e9, 1e4);
}

}  // namespace
}  // namespace tessera::api
