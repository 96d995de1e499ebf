// The decision for calls of LAPACK and for batches, and the history of these.
#include <gtest/gtest.h>

#include "offload/call_history.hpp"
#include "offload/policy.hpp"
#include "offload/work.hpp"
#include "tests/offload/batches.hpp"

namespace tessera::offload {
namespace policy_of_families_test {

using test::cubes;
using enum Routine;

Work square(Routine routine, index_t n, index_t nrhs = 0, ScalarType type = ScalarType::d) {
  return work_of(LapackCall{.routine = routine, .type = type, .m = n, .n = n, .k = nrhs, .lda = n, .ldb = n});
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

TEST(PolicyOfLapack, TheSoonerOneTakesAProblemThatADeviceSolvesWhole) {
  const LapackCall eigen{.routine = Routine::heevd, .type = ScalarType::c, .vectors = true, .m = 1000, .n = 1000};
  const Conditions slow_cpu = with_devices(50e12, 50e9, 0.1), quick_cpu = with_devices(50e12, 50e9, 0.002);
  EXPECT_TRUE(decide({}, work_of(eigen), slow_cpu).offload);
  EXPECT_FALSE(decide({}, work_of(eigen), quick_cpu).offload);
}

TEST(PolicyOfLapack, BlockReflectorsOfAFactorizationStayOnTheCpu) {
  // They move as much as they compute, so that reference LAPACK's blocks of 32 are never worth it, nor small problems.
  LapackCall block{.routine = Routine::larfb, .type = ScalarType::d, .m = 4000, .n = 4000, .k = 32};
  EXPECT_FALSE(decide({}, work_of(block), with_devices(50e12, 50e9, 4 * 4000.0 * 4000 * 32 / 1e12)).offload);
  LapackCall small{.routine = Routine::gels, .type = ScalarType::d, .m = 60, .n = 40, .k = 3};
  EXPECT_FALSE(decide({}, work_of(small), with_devices(50e12, 50e9, 1e-4)).offload);
}

TEST(PolicyOfLapack, SmallCallsAndRulesNeedNoLook) {
  const OffloadRule automatic;
  EXPECT_EQ(decide_early(automatic, square(getrf, 500)).reason, Reason::tiny);
  EXPECT_TRUE(decide_early(automatic, square(getrf, 700)).offload);
  EXPECT_TRUE(decide_early({Offload::always}, square(getrf, 1)).offload);
  EXPECT_FALSE(decide_early({Offload::never}, square(getrf, 10000)).offload);
  const OffloadRule by_size{Offload::by_size, index_t{100} * 100 * 100};
  EXPECT_FALSE(decide_early(by_size, square(potrf, 181)).offload);
  EXPECT_TRUE(decide_early(by_size, square(potrf, 182)).offload);
}

TEST(PolicyOfLapack, ASolveOfOneRightHandSideIsAsLargeAsItsFactors) {
  // Two multiply-adds for each element that is read: little arithmetic, and much memory.
  EXPECT_EQ(decide_early({}, square(getrs, 2000, 1)).reason, Reason::tiny);
  for (const Routine routine : {getrs, potrs, trtrs, sytrs})
    EXPECT_TRUE(decide_early({}, square(routine, 8000, 1)).offload);
  const OffloadRule by_size{Offload::by_size, index_t{500} * 500 * 500};
  EXPECT_FALSE(decide_early(by_size, square(getrs, 8000, 1)).offload);

  // A CPU of which only the speed of products is known reads 0.5 GB at 100 GB/s at best, at 10 GB/s at worst.
  CallHistory history(16);
  for (const index_t side : {104, 4000}) {
    const Work product = work_of(Level3{.m = side, .n = side, .k = side});
    for (int call = 0; call < 2; ++call) history.cpu_speed().record(product, product.flops / 1e12, true);
  }
  Conditions now = with_devices(50e12, 50e9, 0);
  const Work thin = square(getrs, 8000, 1);
  history.describe(thin, true, 1, now);
  EXPECT_GE(now.cpu.least_s, 0.005);
  EXPECT_GE(now.cpu.most_s, 0.05);
  EXPECT_TRUE(decide({}, thin, now).offload);
  // Thick solves of as much arithmetic tell nothing of it.
  for (int call = 0; call < 3; ++call)
    CallHistory::OnCpu(history, thin.of).record(square(getrs, 1000, 64), {}, 1e-3, true);
  history.describe(thin, true, 1, now);
  EXPECT_TRUE(decide({}, thin, now).offload);
}

TEST(PolicyOfLapack, WhatNoGpuSolvesStaysOnTheCpu) {
  for (const Routine routine : {hetrf, hetrs, hesv}) {
    const Work work = square(routine, 8000, 8000, ScalarType::z);
    EXPECT_EQ(decide_early({Offload::always}, work).reason, Reason::no_solver);
    EXPECT_EQ(decide({}, work, with_devices(50e12, 50e9, 100)).reason, Reason::no_solver);
    EXPECT_EQ(decide_early({Offload::never}, work).reason, Reason::never);
  }
  EXPECT_TRUE(decide_early({Offload::always}, square(sysv, 8, 8, ScalarType::z)).offload);
}

TEST(PolicyOfLapack, PanelsBoundWhatFastDevicesGain) {
  // 8192 columns of 5 us are 41 ms, for which these devices have 2 ms of arithmetic.
  const Work lu = square(getrf, 8192);
  const Conditions quick = with_devices(200e12, 1e12, 0.030), slow = with_devices(200e12, 1e12, 0.060);
  EXPECT_FALSE(decide({}, lu, quick).offload);
  EXPECT_TRUE(decide({}, lu, slow).offload);
  // Cholesky's columns take a fifth of that.
  EXPECT_TRUE(decide({}, square(potrf, 8192), quick).offload);
  EXPECT_GT(decide({}, square(geqrf, 8192), slow).device_s, 0.070);
}

TEST(PolicyOfLapack, HistoryTakesTheCpuAsProductsUntilItHasSeenIt) {
  CallHistory history(4);
  const Work lu = square(getrf, 2000);
  const index_t side = 1386;  // a cube of the volume
  const Level3 product{.m = side, .n = side, .k = side};
  ASSERT_NEAR(static_cast<double>(volume_of(product)), static_cast<double>(lu.volume), 0.01 * 2.7e9);
  history.cpu_speed().record(work_of(product), 1.0, true);
  history.cpu_speed().record(work_of(product), 1.0, true);
  Conditions now;
  history.describe(lu, true, 1, now);
  EXPECT_GT(now.cpu.expected_s, 1.1);
  EXPECT_LT(now.cpu.expected_s, 2.1);
  CallHistory::OnCpu(history, lu.of).record(lu, {}, 5.0, true);
  history.describe(lu, true, 1, now);
  EXPECT_NEAR(now.cpu.expected_s, 5.0, 1e-6);
  EXPECT_FALSE(history.cpu_speed().next_probe(lu, 100.0));
  EXPECT_EQ(history.cpu_calls(), 0);
}

// Products at 1 TFLOP/s. The CPU's LAPACK takes 3 s for such a QR, and longer for the others.
TEST(PolicyOfLapack, AFirstCallThatIsSlowOnTheCpuWaitsForTheStart) {
  CallHistory history(16);
  const Work product = work_of(Level3{.m = 8000, .n = 8000, .k = 8000});
  for (int call = 0; call < 2; ++call) history.cpu_speed().record(product, product.flops / 1e12, true);
  Conditions now;
  now.rates = rates_of(std::vector<device::DeviceInfo>{likely_gpu()});
  now.until_open_s = now.rates.start_up_s = 1.6;
  LapackCall svd{.routine = Routine::gesdd, .m = 8000, .n = 8000};
  svd.u = svd.vt = VectorJob::thin;
  LapackCall eigen{.routine = Routine::heevd, .vectors = true, .m = 8000, .n = 8000};
  for (const Work& work : {square(geqrf, 8000), work_of(svd), work_of(eigen)}) {
    history.describe(work, true, 1, now);
    EXPECT_GT(now.cpu.expected_s, 2.5) << name_of(work.routine);
    EXPECT_TRUE(decide({}, work, now).offload) << name_of(work.routine);
  }
  // Where nothing is to be started, an uncertain CPU may be tried.
  now.until_open_s = 0;
  now.cpu = {.expected_s = 0.15, .least_s = 0.01, .most_s = 0.2};
  EXPECT_EQ(decide({}, square(geqrf, 8000), now).reason, Reason::trial);
  now.until_open_s = 1.6;
  history.describe(square(potrf, 8000), true, 1, now);
  EXPECT_LT(now.cpu.expected_s, 0.6);
  EXPECT_EQ(decide({}, square(potrf, 8000), now).reason, Reason::start_up);
}

TEST(PolicyOfLapack, WhatIsLeftOfACallDoesNotWaitForIt) {
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

TEST(PolicyOfLapack, HistoryLearnsWhatDevicesTake) {
  CallHistory history(4);
  const Work lu = square(getrf, 2000);
  Decision decision{true, Reason::device_wins};
  decision.model_s = 1;
  for (int call = 0; call < 3; ++call)
    CallHistory::OnDevices(history, 1.0).record(lu, decision, {.seconds = 3.0, .with_waiting_s = 3.0});
  Conditions now;
  history.describe(lu, true, 1, now);
  EXPECT_NEAR(now.bias, 3, 0.1);
  history.describe(square(potrf, 2000), true, 1, now);
  EXPECT_EQ(now.bias, 1);
}

Conditions idle_gpu() {
  Conditions now;
  now.rates.devices = 1;
  now.rates.flops_per_s[ScalarType::d] = 60e12;
  now.rates.links = {50e9, 50e9, 90e9};
  return now;
}

TEST(PolicyOfBatches, ASlowLinkOrFewThreadsMakeTheDevicesSlow) {
  const GemmBatch batch = cubes(64, 10000);
  const Work work = work_of(batch, 0, batch.size());
  Rates rates = idle_gpu().rates;
  rates.packing_bytes_per_s = 100e9;
  const double many_threads = seconds_on_devices(work, rates);
  Rates few = rates, slow = rates;
  few.packing_bytes_per_s = 4e9;
  EXPECT_GT(seconds_on_devices(work, few), 5 * many_threads);
  slow.links = {1e9, 1e9, 2e9};
  EXPECT_GT(seconds_on_devices(work, slow), 5 * many_threads);
  Work many_forms = work;
  many_forms.forms = work.problems;
  EXPECT_GT(seconds_on_devices(many_forms, rates), 10000 * 20e-6) << "a chunk for each";
}

TEST(PolicyOfBatches, TheSoonerOneTakesIt) {
  const GemmBatch batch = cubes(64, 10000);
  const Work work = work_of(batch, 0, batch.size());
  Conditions now = idle_gpu();
  now.rates.packing_bytes_per_s = 50e9;
  const OffloadRule rule;
  CpuSpeed speed(16);
  EXPECT_FALSE(speed.has_seen(work));
  now.cpu = speed.estimate(work, 16);
  EXPECT_EQ(now.cpu.expected_s, now.cpu.most_s) << "unknown: the slowest";
  for (int sample = 0; sample < 2; ++sample) speed.record(work, 0.002, true, 16);
  EXPECT_TRUE(speed.has_seen(work));
  now.cpu = speed.estimate(work, 16);
  EXPECT_NEAR(now.cpu.expected_s, 0.002, 1e-6);
  EXPECT_EQ(decide(rule, work, now).reason, Reason::cpu_wins);
  CpuSpeed slow(16);
  for (int sample = 0; sample < 2; ++sample) slow.record(work, 2, true, 16);
  now.cpu = slow.estimate(work, 16);
  const Decision decision = decide(rule, work, now);
  EXPECT_TRUE(decision.offload);
  EXPECT_EQ(decision.reason, Reason::device_wins);
  EXPECT_NEAR(decision.device_s, seconds_on_devices(work, now.rates), 1e-9);
  now.bias = 300;
  EXPECT_EQ(decide(rule, work, now).reason, Reason::cpu_wins) << "devices were slower than expected";
  now.rates.devices = 0;
  EXPECT_EQ(decide(rule, work, now).reason, Reason::no_devices);
}

TEST(PolicyOfBatches, RulesLookAtTheSum) {
  const GemmBatch batch = cubes(10, 64);
  const Work work = work_of(batch, 0, batch.size());
  EXPECT_EQ(decide_early({Offload::by_size, 64000}, work).reason, Reason::large_by_rule);
  EXPECT_EQ(decide_early({Offload::by_size, 64001}, work).reason, Reason::small_by_rule);
  EXPECT_EQ(decide_early({Offload::never}, work).reason, Reason::never);
  EXPECT_EQ(decide_early({Offload::always}, work).reason, Reason::always);
  EXPECT_EQ(decide_early({}, work).reason, Reason::tiny);
}

}  // namespace policy_of_families_test
}  // namespace tessera::offload
