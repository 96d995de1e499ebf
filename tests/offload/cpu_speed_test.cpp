// The speed that is expected of the CPU BLAS after certain measurements.
#include "offload/cpu_speed.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "offload/work.hpp"
#include "tests/offload/batches.hpp"

namespace tessera::offload {
namespace cpu_speed_test {

using test::cubes;

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
  for (int i = 0; i < times; ++i) speed.record(work_of(call), flops_of(call) / flops_per_s, true);
}
double expected_rate(const CpuSpeed& speed, const Level3& call) {
  return flops_of(call) / speed.estimate(work_of(call)).expected_s;
}
double best_rate(const CpuSpeed& speed, const Level3& call) {
  return flops_of(call) / speed.estimate(work_of(call)).least_s;
}
double worst_rate(const CpuSpeed& speed, const Level3& call) {
  return flops_of(call) / speed.estimate(work_of(call)).most_s;
}

TEST(CpuSpeed, BeforeAnythingIsKnownTheRooflineOfTheMachineCounts) {
  const CpuSpeed speed(4);
  EXPECT_FALSE(speed.knows(ScalarType::d));
  EXPECT_NEAR(expected_rate(speed, square(4000)), 4 * 64e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(4000, ScalarType::s)), 8 * 64e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(4000, ScalarType::z)), 4 * 64e9, 1);
  EXPECT_EQ(speed.estimate(work_of(square(4000))).least_s, speed.estimate(work_of(square(4000))).most_s);
  // An outer product does two operations on 16 bytes that it writes, 40 GB/s in all, and has next to no input.
  EXPECT_NEAR(expected_rate(speed, product(4000, 4000, 1)), 2.0 / 8 * 40e9, 1e7);
  EXPECT_GE(CpuSpeed::available_processors(1), 1);
  EXPECT_LE(CpuSpeed::available_processors(1 << 20), CpuSpeed::available_processors(1));
  EXPECT_GE(CpuSpeed::available_processors(1 << 20), 1);
}

TEST(CpuSpeed, AMeasuredSizeAnswersForItself) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 1.5e9, 2);
  EXPECT_TRUE(speed.knows(ScalarType::d));
  EXPECT_FALSE(speed.knows(ScalarType::s));
  for (const auto rate : {expected_rate, best_rate, worst_rate}) EXPECT_NEAR(rate(speed, square(1000)), 1.5e9, 1e3);
  // Other types are other functions.
  EXPECT_NEAR(expected_rate(speed, square(1000, ScalarType::z)), 4 * 64e9, 1);
}

TEST(CpuSpeed, ASlowFirstCallIsForgotten) {
  CpuSpeed speed(4);
  record_rate(speed, square(1000), 1e9);  // it started the threads of the BLAS
  // One measurement is not trusted: better is still thought possible.
  EXPECT_NEAR(expected_rate(speed, square(1000)), 1e9, 1e3);
  EXPECT_NEAR(best_rate(speed, square(1000)), 4 * 64e9, 1);
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
  EXPECT_NEAR(best_rate(speed, square(4000)), 64 * 64e9, 1);
  EXPECT_NEAR(expected_rate(speed, square(4000)), std::sqrt(2e9 * 64 * 64e9), 1e6);
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
          const CpuEstimate estimate = speed.estimate(work_of(call));
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

// Beside calls on devices a rate is a lower bound.
TEST(CpuSpeed, WhatIsNotAloneCountsOnlyIfItIsBetter) {
  CpuSpeed speed(4);
  const Level3 call = square(1000);
  const auto record_beside_devices = [&](double flops_per_s) {
    speed.record(work_of(call), flops_of(call) / flops_per_s, false);
  };
  record_beside_devices(1e9);  // better than nothing
  EXPECT_NEAR(expected_rate(speed, call), 1e9, 1e3);
  record_rate(speed, call, 2e9, 20);
  record_beside_devices(1e9);
  EXPECT_NEAR(expected_rate(speed, call), 2e9, 1e5);
  record_beside_devices(4e9);
  EXPECT_NEAR(expected_rate(speed, call), 3e9, 1e5);
}

/// Times all that next_probe asks for, on a BLAS of a constant rate. @return the seconds that it took
double probe_all(CpuSpeed& speed, const Level3& call, double devices_s, double flops_per_s) {
  double spent_s = 0;
  while (const auto probe = speed.next_probe(work_of(call), devices_s)) {
    EXPECT_FALSE(speed.has_seen(work_of(*probe)));
    EXPECT_EQ(probe->routine, Routine::gemm);
    EXPECT_EQ(probe->type, call.type);
    spent_s += flops_of(*probe) / flops_per_s;
    record_rate(speed, *probe, flops_per_s);
  }
  return spent_s;
}

TEST(CpuSpeed, ProbesSettleWhatIsInDoubtForASmallPartOfItsTime) {
  for (const double rate : {1e9, 50e9, 1e12, 4e12}) {
    for (const double devices_s : {0.01, 0.1, 1.0}) {
      CpuSpeed speed(16);
      record_rate(speed, square(104), std::min(rate, 50e9));
      const double seconds = flops_of(square(4000)) / rate;
      const double spent_s = probe_all(speed, square(4000), devices_s, rate);
      EXPECT_LT(spent_s, 0.1 * std::min(seconds, devices_s)) << rate << ' ' << devices_s;
      if (spent_s == 0) continue;
      EXPECT_GT(expected_rate(speed, square(4000)), 0.3 * rate) << rate << ' ' << devices_s;
    }
  }
}

TEST(CpuSpeed, ProbesHaveTheShapeOfTheCall) {
  CpuSpeed speed(16);
  record_rate(speed, square(104), 50e9);
  const auto thin = speed.next_probe(work_of(product(20000, 5000, 64)), 0.1);
  ASSERT_TRUE(thin);
  EXPECT_EQ(thin->k, 64);
  EXPECT_EQ(thin->m, thin->n);
  Level3 solve = product(20000, 64, 0, ScalarType::z);
  solve.routine = Routine::trsm;
  solve.side = Side::left;
  record_rate(speed, square(104, ScalarType::z), 50e9);
  const auto of_solve = speed.next_probe(work_of(solve), 0.5);
  ASSERT_TRUE(of_solve);
  EXPECT_EQ(of_solve->n, 64);
  EXPECT_EQ(of_solve->m, of_solve->k);
  EXPECT_EQ(of_solve->type, ScalarType::z);
}

TEST(CpuSpeed, WhatIsClearIsNotProbed) {
  CpuSpeed speed(16);
  record_rate(speed, square(104), 50e9);
  EXPECT_FALSE(speed.next_probe(work_of(square(4000)), 1e-3));  // no CPU is so quick
  EXPECT_FALSE(speed.next_probe(work_of(square(4000)), 1e3));
  EXPECT_TRUE(speed.next_probe(work_of(square(4000)), 0.3));
}

TEST(CpuSpeed, NothingIsProbedThatMayTakeForEver) {
  // The measured product is larger and thinner. It says nothing about a slow BLAS that is asked for a cube.
  CpuSpeed speed(16);
  record_rate(speed, product(20000, 20000, 200), 1e9);
  EXPECT_FALSE(speed.estimate(work_of(square(832))).bounded);
  EXPECT_TRUE(speed.estimate(work_of(product(20000, 20000, 600))).bounded);
  for (const double devices_s : {0.01, 0.1, 1.0})
    EXPECT_LT(probe_all(speed, square(8000), devices_s, 1e9), devices_s / 10);
}

TEST(CpuSpeed, ManyThreadsRecordAtOnce) {
  CpuSpeed speed(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        record_rate(speed, square(1000), 5e9);
        static_cast<void>(speed.estimate(work_of(square(1000))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NEAR(expected_rate(speed, square(1000)), 5e9, 1e4);
}

Work work_of_batch(const GemmBatch& batch) { return work_of(batch, 0, batch.size()); }

TEST(CpuSpeed, BatchesAreKeptByTypeVolumeAndIntensity) {
  const Work small = work_of_batch(cubes(8, 100));
  CpuSpeed speed(4);
  speed.record(small, 1, true);
  speed.record(small, 1, true);
  EXPECT_TRUE(speed.has_seen(small));
  EXPECT_FALSE(speed.has_seen(work_of_batch(cubes(200, 100))));
  EXPECT_FALSE(speed.has_seen(work_of_batch(cubes(181, 100, 0, 1)))) << "a thin one";
  Work single = small;
  single.type = ScalarType::s;
  EXPECT_FALSE(speed.has_seen(single));
  EXPECT_FALSE(speed.knows(ScalarType::d)) << "of products";
  // On more threads it takes less.
  EXPECT_NEAR(speed.estimate(small, 4).expected_s, speed.estimate(small, 1).expected_s / 4, 1e-5);
}

TEST(CpuSpeed, ABatchThatNobodyHasSeenIsExpectedToTakeLong) {
  const CpuSpeed speed(4);
  const Work work = work_of_batch(cubes(32, 1000));
  EXPECT_NEAR(work.flops / speed.estimate(work, 4).expected_s, 1e9, 1);
  EXPECT_LT(speed.estimate(work, 4).least_s, speed.estimate(work, 4).expected_s / 10);
}

Work system(Routine routine, index_t n, ScalarType type = ScalarType::d) {
  return work_of(LapackCall{.routine = routine, .type = type, .m = n, .n = n, .lda = n, .ldb = n});
}

TEST(CpuSpeed, EachRoutineOfLapackHasItsOwn) {
  CpuSpeed speed(4);
  for (int call = 0; call < 2; ++call) speed.record(system(Routine::getrf, 4000), 2.0, true);
  EXPECT_NEAR(speed.estimate(system(Routine::getrf, 4000)).expected_s, 2.0, 1e-6);
  EXPECT_NEAR(speed.estimate(system(Routine::getrf, 4000)).least_s, 2.0, 1e-6);
  // Its other sizes are bounded by it and by products. Another routine or type is not known at all.
  EXPECT_NEAR(speed.estimate(system(Routine::getrf, 1000)).least_s, 2.0 / 64, 1e-6);
  EXPECT_FALSE(speed.has_seen(system(Routine::getrf, 1000)));
  EXPECT_FALSE(speed.has_seen(system(Routine::geqrf, 4000)));
  EXPECT_FALSE(speed.has_seen(system(Routine::getrf, 4000, ScalarType::s)));
}

}  // namespace cpu_speed_test
}  // namespace tessera::offload
