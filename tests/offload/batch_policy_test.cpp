// The decision about a batch, and what the library learns from batches on the CPU. Pure functions.
#include "offload/batch_policy.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "offload/cpu_batch.hpp"

namespace tessera::offload {
namespace batch_policy_test {

GemmBatch cubes(index_t side, index_t count, AnyScalar beta = 0, index_t k = -1) {
  GemmBatchBuilder builder(ScalarType::d);
  static double nowhere = 0;
  const index_t inner = k < 0 ? side : k;
  builder.add({.arguments = {.op_a = Op::no_trans,
                             .op_b = Op::no_trans,
                             .m = side,
                             .n = side,
                             .k = inner,
                             .lda = side,
                             .ldb = std::max<index_t>(inner, 1),
                             .ldc = side},
               .beta = beta,
               .A = {.first = &nowhere, .distance_bytes = 8},
               .B = {.first = &nowhere},
               .C = {.first = &nowhere, .distance_bytes = 8},
               .count = count});
  return builder.take();
}

TEST(BatchPolicy, TheDemandIsWhatNeighboursDoNotShare) {
  const GemmBatch batch = cubes(10, 5, 1);
  const BatchDemand demand = demand_of(batch, 0, batch.size());
  EXPECT_EQ(demand.problems, 5);
  EXPECT_EQ(demand.forms, 1);
  EXPECT_EQ(demand.volume, 5000);
  EXPECT_EQ(demand.mean_volume(), 1000);
  EXPECT_EQ(demand.flops, 10000);
  EXPECT_EQ(demand.up_bytes, 8 * (5 * 100 + 100 + 5 * 100)) << "one B for all";
  EXPECT_EQ(demand.down_bytes, 8 * 500);
  EXPECT_EQ(demand_of(batch, 1, 3).problems, 2);
}

TEST(BatchPolicy, ProductsThatAreWorthItAloneAreCallsOfTheirOwn) {
  const auto single = [](GemmBatch batch) { return take_single_calls(batch).size(); };
  EXPECT_EQ(single(cubes(405, 3)), 0u);
  EXPECT_EQ(single(cubes(407, 3)), 3u) << "a volume of 2^26";
  EXPECT_EQ(single(cubes(1400, 2, 0, 1)), 0u);
  EXPECT_EQ(single(cubes(1500, 2, 0, 1)), 2u) << "more than 16 MiB";
  EXPECT_EQ(single(cubes(4, 2, 3, 0)), 2u) << "C is only scaled";
  GemmBatch mixed = cubes(4, 5);
  mixed.problems[2].k = 0;
  EXPECT_EQ(take_single_calls(mixed).size(), 1u);
  EXPECT_EQ(mixed.size(), 4);
}

LapackProblems systems(Routine routine, index_t n, index_t nrhs, index_t count) {
  LapackProblemsBuilder builder(routine, ScalarType::d);
  static double nowhere = 0;
  static int pivots = 0;
  LapackGroup group;
  group.form.has_pivots = position_of(routine, Parameter::ipiv) != 0;
  group.common = {.m = n, .n = n, .nrhs = nrhs, .lda = n, .ldb = n};
  group.A = {.first = &nowhere, .distance_bytes = 8};
  group.B = {.first = &nowhere, .distance_bytes = 8};
  group.ipiv.first = &pivots;
  group.count = count;
  builder.add(group);
  return builder.take();
}

TEST(BatchPolicy, LapackMovesWhatIsReadAndWritten) {
  const LapackProblems both = systems(Routine::gesv, 12, 2, 10);
  const BatchDemand demand = demand_of(both, 0, both.size());
  EXPECT_EQ(demand.problems, 10);
  EXPECT_EQ(demand.routine, Routine::gesv);
  EXPECT_NEAR(demand.flops, 10 * (2.0 / 3 * 12 * 12 * 12 + 2 * 12 * 12 * 2), 1e-6);
  EXPECT_EQ(demand.volume, 10 * 864) << "half of the operations";
  EXPECT_EQ(demand.mean_order(), 12);
  EXPECT_EQ(demand.up_bytes, 10 * 8 * (144 + 24));
  EXPECT_EQ(demand.down_bytes, 10 * (8 * (144 + 24) + 4 * 12));
  const LapackProblems solve = systems(Routine::getrs, 12, 2, 10);
  EXPECT_EQ(demand_of(solve, 0, 10).up_bytes, 10 * (8 * (144 + 24) + 4 * 12));
  EXPECT_EQ(demand_of(solve, 0, 10).down_bytes, 10 * 8 * 24);
}

TEST(BatchPolicy, LargeProblemsAreDecidedApartAndVeryLargeOnesLeftToTheCpu) {
  LapackProblems all = systems(Routine::potrf, 100, 0, 3);
  for (const index_t n : {1440, 1460, 5700, 5900}) {
    all.problems.push_back(all.problems.front());
    all.problems.back().m = all.problems.back().n = n;
  }
  const BySize sizes = by_size(std::move(all));
  EXPECT_EQ(sizes.small.size(), 4);
  EXPECT_EQ(sizes.large.size(), 2);
  EXPECT_EQ(sizes.too_large.size(), 1);
  EXPECT_EQ(sizes.large.routine, Routine::potrf);
}

TEST(BatchPolicy, RatesAreThoseOfTheRoutine) {
  BatchSpeed speed;
  const LapackProblems batch = systems(Routine::potrf, 32, 0, 100);
  const BatchDemand demand = demand_of(batch, 0, batch.size());
  speed.record(demand, 1e-3, 1);
  EXPECT_TRUE(speed.knows(demand));
  EXPECT_TRUE(speed.knows(Routine::potrf, ScalarType::d));
  EXPECT_FALSE(speed.knows(Routine::getrf, ScalarType::d));
  EXPECT_FALSE(speed.knows(Routine::gemm, ScalarType::d));
}

Conditions idle_gpu() {
  Conditions now;
  now.rates.devices = 1;
  now.rates.flops_per_s[ScalarType::d] = 60e12;
  now.rates.links = {50e9, 50e9, 90e9};
  return now;
}

TEST(BatchPolicy, ASlowLinkOrFewThreadsMakeTheDevicesSlow) {
  const GemmBatch batch = cubes(64, 10000);
  const BatchDemand demand = demand_of(batch, 0, batch.size());
  const Rates rates = idle_gpu().rates;
  const double many_threads = seconds_on_devices(demand, rates, 100e9), few = seconds_on_devices(demand, rates, 4e9);
  EXPECT_GT(few, 5 * many_threads);
  Rates slow = rates;
  slow.links = {1e9, 1e9, 2e9};
  EXPECT_GT(seconds_on_devices(demand, slow, 100e9), 5 * many_threads);
  BatchDemand many_forms = demand;
  many_forms.forms = demand.problems;
  EXPECT_GT(seconds_on_devices(many_forms, rates, 100e9), 10000 * 20e-6) << "a chunk for each";
}

TEST(BatchPolicy, TheSoonerOneTakesIt) {
  const GemmBatch batch = cubes(64, 10000);
  const BatchDemand demand = demand_of(batch, 0, batch.size());
  Conditions now = idle_gpu();
  const OffloadRule rule;
  BatchSpeed speed;
  EXPECT_FALSE(speed.knows(demand));
  now.cpu = speed.estimate(demand, 16);
  EXPECT_EQ(now.cpu.expected_s, now.cpu.most_s) << "unknown: the slowest";
  speed.record(demand, 0.002, 16);
  EXPECT_TRUE(speed.knows(demand));
  now.cpu = speed.estimate(demand, 16);
  EXPECT_NEAR(now.cpu.expected_s, 0.002, 1e-6);
  EXPECT_EQ(decide(rule, demand, now, 50e9).reason, Reason::cpu_wins);
  BatchSpeed slow;
  slow.record(demand, 2, 16);
  now.cpu = slow.estimate(demand, 16);
  const Decision decision = decide(rule, demand, now, 50e9);
  EXPECT_TRUE(decision.offload);
  EXPECT_EQ(decision.reason, Reason::device_wins);
  EXPECT_NEAR(decision.device_s, seconds_on_devices(demand, now.rates, 50e9), 1e-9);
  now.bias = 300;
  EXPECT_EQ(decide(rule, demand, now, 50e9).reason, Reason::cpu_wins) << "devices were slower than expected";
  now.rates.devices = 0;
  EXPECT_EQ(decide(rule, demand, now, 50e9).reason, Reason::no_devices);
}

TEST(BatchPolicy, RulesLookAtTheSum) {
  const GemmBatch batch = cubes(10, 64);
  const BatchDemand demand = demand_of(batch, 0, batch.size());
  EXPECT_EQ(decide_early({Offload::by_size, 64000}, demand).reason, Reason::large_by_rule);
  EXPECT_EQ(decide_early({Offload::by_size, 64001}, demand).reason, Reason::small_by_rule);
  EXPECT_EQ(decide_early({Offload::never}, demand).reason, Reason::never);
  EXPECT_EQ(decide_early({Offload::always}, demand).reason, Reason::always);
  EXPECT_EQ(decide_early({}, demand).reason, Reason::tiny);
}

TEST(BatchSpeeds, AreKeptByTypeVolumeAndIntensity) {
  const GemmBatch small = cubes(8, 100), large = cubes(200, 100), thin = cubes(181, 100, 0, 1);
  const auto demand = [](const GemmBatch& batch) { return demand_of(batch, 0, batch.size()); };
  BatchSpeed speed;
  speed.record(demand(small), 1, 1);
  EXPECT_TRUE(speed.knows(demand(small)));
  EXPECT_TRUE(speed.knows(Routine::gemm, ScalarType::d));
  EXPECT_FALSE(speed.knows(Routine::gemm, ScalarType::s));
  EXPECT_FALSE(speed.knows(demand(large)));
  EXPECT_FALSE(speed.knows(demand(thin)));
  // Up by a half, down by an eighth.
  speed.record(demand(small), 0.5, 1);
  EXPECT_NEAR(speed.estimate(demand(small), 1).expected_s, 1 / 1.5, 1e-5);
  speed.record(demand(small), 1e9, 1);
  EXPECT_NEAR(speed.estimate(demand(small), 1).expected_s, 1 / (1.5 * 7 / 8), 1e-5);
  // On more threads it takes less.
  EXPECT_NEAR(speed.estimate(demand(small), 4).expected_s, speed.estimate(demand(small), 1).expected_s / 4, 1e-5);
  for (int i = 0; i < LearntRate::lifetime; ++i) {
    EXPECT_TRUE(speed.knows(demand(small)));
    speed.passed_over(demand(small));
  }
  EXPECT_FALSE(speed.knows(demand(small))) << "to be measured anew";
}

TEST(CpuBatch, HasNoMoreThreadsThanTheProgramLetsItHave) {
  EXPECT_EQ(most_threads(16, {.own = 32}), 16);
  EXPECT_EQ(most_threads(16, {.own = 4}), 4);
  EXPECT_EQ(most_threads(16, {}), 1) << "a BLAS whose small products may have teams";
  EXPECT_EQ(most_threads(16, {.own = 16, .openmp = 2}), 2);
  EXPECT_EQ(most_threads(16, {.own = 4, .openmp = 8}), 4);
  EXPECT_EQ(most_threads(16, {.own = 16, .openmp = 16, .in_team = true}), 1);
  EXPECT_EQ(most_threads(0, {.own = 0}), 1);
  EXPECT_EQ(most_threads_of_call(16, 0), 16);
  EXPECT_EQ(most_threads_of_call(16, 1), 16);
  EXPECT_EQ(most_threads_of_call(16, 3), 5);
  EXPECT_EQ(most_threads_of_call(16, 40), 1);
  EXPECT_EQ(threads_in("4,2"), 4);
  for (const char* const nothing : {static_cast<const char*>(nullptr), "", "0", "-3", "many", "99999999999"})
    EXPECT_EQ(threads_in(nothing), std::numeric_limits<int>::max());
}

TEST(CpuBatch, ComputesEachProductOnce) {
  EXPECT_EQ(threads_for(0, 8), 1);
  EXPECT_EQ(threads_for(index_t{1} << 19, 8), 1) << "less than a thread takes to start";
  EXPECT_EQ(threads_for(index_t{1} << 21, 8), 2);
  EXPECT_EQ(threads_for(index_t{1} << 40, 8), 8);
  GemmBatch batch = cubes(50, 200);
  for (std::size_t i = 0; i < batch.problems.size(); i += 5) batch.problems[i].m = 200;  // for the threads of the BLAS
  EXPECT_EQ(shared_volume(batch, 0, 10), 8 * 50 * 50 * 50) << "not the larger ones";
  std::vector<std::atomic<int>> computed(200);
  const auto* const first = static_cast<const double*>(batch.problem(0).C);
  compute_on_cpu(batch, 10, 110, 4, [&](const Level3& call) {
    ++computed[static_cast<std::size_t>(static_cast<const double*>(call.C) - first)];
  });
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(computed[i], i >= 10 && i < 110 ? 1 : 0) << i;
}

TEST(CpuBatch, CutsLargerProductsWhereThereAreMany) {
  GemmBatch batch = cubes(50, 200);
  for (std::size_t i = 0; i < batch.problems.size(); i += 5) batch.problems[i].m = 200;
  index_t all = 0;
  for (index_t i = 0; i < 200; ++i) all += batch.problem(i).m * 50 * 50;
  EXPECT_EQ(shared_volume(batch, 0, 200), all);
  for (const int threads : {1, 4}) {
    std::atomic<index_t> computed = 0, largest = 0;
    compute_on_cpu(batch, 0, 200, threads, [&](const Level3& call) {
      const index_t volume = call.m * call.n * call.k;
      computed += volume;
      index_t known = largest;
      while (known < volume && !largest.compare_exchange_weak(known, volume)) {
      }
    });
    EXPECT_EQ(computed, all);
    EXPECT_EQ(largest > one_thread_volume, threads == 1) << "one thread leaves them whole";
  }
}

}  // namespace batch_policy_test
}  // namespace tessera::offload
