// The decision for a call of LAPACK, and what is learnt of the CPU's LAPACK.
#include "offload/lapack_policy.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "offload/call_history.hpp"

namespace tessera::offload {
namespace lapack_policy_test {

using enum Routine;

LapackDemand square(Routine routine, index_t n, index_t nrhs = 0, ScalarType type = ScalarType::d) {
  return demand_of({.routine = routine, .type = type, .m = n, .n = n, .k = nrhs, .lda = n, .ldb = n});
}

Conditions with_devices(double flops_per_s, double link_bytes_per_s, double cpu_s) {
  Conditions now;
  RatesByType rates;
  for (const ScalarType type : scalar_types) rates[type] = flops_per_s;
  now.rates = rough_rates(1, rates, link_bytes_per_s);
  now.rates.call_overhead_s = 0;
  now.cpu = {cpu_s, cpu_s, cpu_s};
  return now;
}

TEST(LapackPolicy, WhatACallMoves) {
  const double n = 1000;
  EXPECT_DOUBLE_EQ(square(getrf, 1000).work.up, 8 * n * n);
  EXPECT_DOUBLE_EQ(square(getrf, 1000).work.down, 8 * n * n + 8 * n);  // with pivots of 64 bits
  EXPECT_DOUBLE_EQ(square(potrf, 1000, 0, ScalarType::z).work.up, 16 * n * (n + 1) / 2);
  EXPECT_DOUBLE_EQ(square(getrs, 1000, 10).work.up, 8 * (n * n + 10 * n) + 8 * n);
  EXPECT_DOUBLE_EQ(square(getrs, 1000, 10).work.down, 8 * 10 * n);
  EXPECT_EQ(square(getrs, 1000, 10).beside_s, 0);
  EXPECT_DOUBLE_EQ(demand_of(LapackCall{.routine = geqrf, .m = 70, .n = 1000}).beside_s, 70 * 9e-6);
  // A product of as much arithmetic: half of a real call's operations, whatever the type.
  EXPECT_EQ(square(potrf, 600).volume, 600 * 600 * 100);
  EXPECT_EQ(square(potrf, 600, 0, ScalarType::c).volume, 600 * 600 * 100);
  EXPECT_EQ(square(getrf, index_t{1} << 31).volume, std::numeric_limits<index_t>::max());
}

TEST(LapackPolicy, WhatAProblemMovesThatADeviceSolvesWhole) {
  LapackCall eigen{.routine = Routine::heevd, .type = ScalarType::d, .vectors = true, .m = 1000, .n = 1000};
  const LapackDemand demand = demand_of(eigen);
  EXPECT_EQ(demand.routine, Routine::heevd);
  EXPECT_DOUBLE_EQ(demand.work.up, 8 * 1000 * 1001 / 2);
  EXPECT_DOUBLE_EQ(demand.work.down, 8 * (1000 * 1000 + 1000));
  EXPECT_LT(demand.part_of_rate, 0.1);
  // Half of a real problem's operations, whatever the type.
  eigen.type = ScalarType::c;
  EXPECT_EQ(demand_of(eigen).volume, demand.volume);
  // It goes where it ends first, by a device's rate for such problems.
  const Conditions slow_cpu = with_devices(50e12, 50e9, 0.1), quick_cpu = with_devices(50e12, 50e9, 0.002);
  EXPECT_TRUE(decide({}, demand, slow_cpu).offload);
  EXPECT_FALSE(decide({}, demand, quick_cpu).offload);
}

TEST(LapackPolicy, BlockReflectorsOfAFactorizationStayOnTheCpu) {
  // They move as much as they compute, so that reference LAPACK's blocks of 32 are never worth it, nor small problems.
  LapackCall block{.routine = Routine::larfb, .type = ScalarType::d, .m = 4000, .n = 4000, .k = 32};
  EXPECT_FALSE(decide({}, demand_of(block), with_devices(50e12, 50e9, 4 * 4000.0 * 4000 * 32 / 1e12)).offload);
  LapackCall small{.routine = Routine::gels, .type = ScalarType::d, .m = 60, .n = 40, .k = 3};
  EXPECT_FALSE(decide({}, demand_of(small), with_devices(50e12, 50e9, 1e-4)).offload);
}

TEST(LapackPolicy, SmallCallsAndRulesNeedNoLook) {
  const OffloadRule automatic;
  EXPECT_EQ(decide_early(automatic, square(getrf, 500)).reason, Reason::tiny);
  EXPECT_TRUE(decide_early(automatic, square(getrf, 700)).offload);
  EXPECT_TRUE(decide_early({Offload::always}, square(getrf, 1)).offload);
  EXPECT_FALSE(decide_early({Offload::never}, square(getrf, 10000)).offload);
  const OffloadRule by_size{Offload::by_size, index_t{100} * 100 * 100};
  EXPECT_FALSE(decide_early(by_size, square(potrf, 181)).offload);
  EXPECT_TRUE(decide_early(by_size, square(potrf, 182)).offload);
}

TEST(LapackPolicy, PanelsBoundWhatFastDevicesGain) {
  // 8192 columns of 5 us are 41 ms, for which these devices have 2 ms of arithmetic.
  const LapackDemand lu = square(getrf, 8192);
  const Conditions quick = with_devices(200e12, 1e12, 0.030), slow = with_devices(200e12, 1e12, 0.060);
  EXPECT_FALSE(decide({}, lu, quick).offload);
  EXPECT_TRUE(decide({}, lu, slow).offload);
  // Cholesky's columns take a fifth of that.
  EXPECT_TRUE(decide({}, square(potrf, 8192), quick).offload);
  EXPECT_GT(decide({}, square(geqrf, 8192), slow).device_s, 0.070);
}

TEST(LapackPolicy, TheRateOfTheCpuIsLearntBySize) {
  LapackSpeed speed;
  const LapackDemand large = square(getrf, 4000), small = square(getrf, 1000);
  EXPECT_FALSE(speed.estimate(large));
  speed.record(large, 2.0);
  ASSERT_TRUE(speed.estimate(large));
  EXPECT_NEAR(speed.estimate(large)->expected_s, 2.0, 1e-6);
  EXPECT_NEAR(speed.estimate(large)->least_s, 2.0, 1e-6);
  // Another class is in doubt; another routine or type is not known at all.
  ASSERT_TRUE(speed.estimate(small));
  EXPECT_NEAR(speed.estimate(small)->expected_s, 2.0 / 64, 1e-6);
  EXPECT_LT(speed.estimate(small)->least_s, speed.estimate(small)->expected_s);
  EXPECT_GT(speed.estimate(small)->most_s, speed.estimate(small)->expected_s);
  EXPECT_FALSE(speed.estimate(square(geqrf, 4000)));
  EXPECT_FALSE(speed.estimate(square(getrf, 4000, 0, ScalarType::s)));
  // Half of the way up, an eighth of the way down.
  speed.record(large, 1.0);
  EXPECT_NEAR(speed.estimate(large)->expected_s, 2.0 / 1.5, 1e-6);
  for (int call = 0; call < LearntRate::lifetime; ++call) speed.passed_over(large);
  EXPECT_FALSE(speed.estimate(large));
}

TEST(LapackPolicy, HistoryTakesTheCpuAsProductsUntilItHasSeenIt) {
  CallHistory history(4);
  const LapackDemand lu = square(getrf, 2000);
  const Level3 product = product_like(lu);
  EXPECT_NEAR(static_cast<double>(volume_of(product)), static_cast<double>(lu.volume), 0.01 * 2.7e9);
  history.cpu_speed().record(product, 1.0, true);
  history.cpu_speed().record(product, 1.0, true);
  Conditions now;
  history.describe(lu, true, now);
  EXPECT_GT(now.cpu.expected_s, 1.1);
  EXPECT_LT(now.cpu.expected_s, 2);
  history.note_on_cpu(lu, {}, 5.0, true);
  history.describe(lu, true, now);
  EXPECT_NEAR(now.cpu.expected_s, 5.0, 1e-6);
  EXPECT_FALSE(history.wanted_probe(lu, 100.0));
  EXPECT_EQ(history.cpu_calls(), 0);
}

TEST(LapackPolicy, WhatIsLeftOfACallDoesNotWaitForIt) {
  CallHistory history(4);
  {
    CallHistory::OnDevices solution(history, 1.0);
    EXPECT_NEAR(history.backlog_s(), 1.0, 1e-6);
    solution.leave();
    EXPECT_EQ(history.backlog_s(), 0);
    EXPECT_EQ(history.device_calls(), 0);
    const CallHistory::OnDevices part(history, 0.5);
    EXPECT_EQ(history.device_calls(), 1);
  }
  EXPECT_EQ(history.backlog_s(), 0);
  EXPECT_EQ(history.device_calls(), 0);
}

TEST(LapackPolicy, HistoryLearnsWhatDevicesTake) {
  CallHistory history(4);
  const LapackDemand lu = square(getrf, 2000);
  Decision decision{true, Reason::device_wins};
  decision.model_s = 1;
  for (int call = 0; call < 3; ++call)
    CallHistory::OnDevices(history, 1.0).record(lu, decision, {.seconds = 3.0, .with_waiting_s = 3.0});
  Conditions now;
  history.describe(lu, true, now);
  EXPECT_NEAR(now.bias, 3, 0.1);
  history.describe(square(potrf, 2000), true, now);
  EXPECT_EQ(now.bias, 1);
}

}  // namespace lapack_policy_test
}  // namespace tessera::offload
