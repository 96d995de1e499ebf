// The offload decision: settings first, then size, then the model.
#include "offload/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tessera::offload {
namespace policy_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr OffloadRule automatic = {Offload::automatic};
constexpr OffloadRule always = {Offload::always};
constexpr OffloadRule never = {Offload::never};

Level3 square(index_t n, ScalarType type = ScalarType::d) {
  Level3 problem;
  problem.type = type;
  problem.m = problem.n = problem.k = n;
  return problem;
}

Decision decide_early(const OffloadRule& rule, const Level3& call) {
  return offload::decide_early(rule, work_of(call));
}
Decision decide(const OffloadRule& rule, const Level3& call, const Conditions& now) {
  return offload::decide(rule, work_of(call), now);
}

constexpr Rates gpu = rough_rates(1, {100e12, 50e12}, 50e9);

CpuEstimate certain(double seconds) { return {seconds, seconds, seconds}; }

/// Open devices, and a CPU that needs so long.
Conditions open(double cpu_s) {
  Conditions now;
  now.rates = gpu;
  now.cpu = certain(cpu_s);
  return now;
}

/// A CPU of 500 GFLOP/s.
Conditions at_500_gflops(const Level3& call) { return open(flops_of(call) / 500e9); }

TEST(Policy, VolumeDoesNotOverflow) {
  constexpr index_t big = INT64_MAX;
  EXPECT_EQ(volume_of(0, big, big), 0);
  EXPECT_EQ(volume_of(big, 0, big), 0);
  EXPECT_EQ(volume_of(big, big, 0), 0);
  EXPECT_EQ(volume_of(big, big, big), INT64_MAX);
  EXPECT_EQ(volume_of(big, 2, 1), INT64_MAX);
  EXPECT_EQ(volume_of(1, big, 2), INT64_MAX);
  EXPECT_EQ(volume_of(10, 11, 12), 1320);
}

TEST(Policy, NeverIsNever) {
  const Decision decision = decide(never, square(100000), open(1e9));
  EXPECT_FALSE(decision.offload);
  EXPECT_EQ(decision.reason, Reason::never);
}

TEST(Policy, AlwaysTakesEveryProduct) {
  for (const index_t n : {1, 2, 100, 10000}) EXPECT_TRUE(decide(always, square(n), open(0)).offload) << n;
  // The rule ignores the cost of starting devices, and other callers that wait for them.
  Conditions busy = open(0);
  busy.rates.start_up_s = busy.until_open_s = 100;
  busy.backlog_s = 100;
  EXPECT_TRUE(decide(always, square(1), busy).offload);
}

TEST(Policy, ASizeDividesByVolume) {
  const OffloadRule rule = {Offload::by_size, index_t{200} * 200 * 200};
  EXPECT_TRUE(decide(rule, square(200), open(0)).offload);
  EXPECT_EQ(decide(rule, square(200), open(0)).reason, Reason::large_by_rule);
  Level3 call = square(200);
  call.k = 199;
  EXPECT_FALSE(decide(rule, call, open(1e9)).offload);
  EXPECT_EQ(decide(rule, call, open(1e9)).reason, Reason::small_by_rule);
  call.alpha = 0;
  call.k = 100000;
  EXPECT_EQ(decide(rule, call, open(1e9)).reason, Reason::only_scales);
}

TEST(Policy, ScalingStaysOnTheCpu) {
  for (const OffloadRule& rule : {always, automatic}) {
    Level3 problem = square(20000);
    problem.alpha = 0;
    EXPECT_EQ(decide(rule, problem, open(1e9)).reason, Reason::only_scales);
    problem = square(20000);
    problem.k = 0;
    EXPECT_EQ(decide(rule, problem, open(1e9)).reason, Reason::only_scales);
    EXPECT_FALSE(decide(rule, problem, open(1e9)).offload);
  }
}

TEST(Policy, WithoutDevicesNothingIsOffloaded) {
  for (const OffloadRule& rule : {always, automatic}) {
    const Decision decision = decide(rule, square(20000), Conditions{});
    EXPECT_FALSE(decision.offload);
    EXPECT_EQ(decision.reason, Reason::no_devices);
  }
}

TEST(Policy, TinyIsDecidedWithoutTheDevices) {
  for (const Routine routine : level3_routines) {
    const auto of_size = [&](index_t n) {
      Level3 call = square(n);
      call.routine = routine;
      if (!call.has_k()) call.k = 0;
      return call;
    };
    EXPECT_EQ(decide_early(automatic, of_size(400)).reason, Reason::tiny) << name_of(routine);
    EXPECT_TRUE(decide_early(automatic, of_size(512)).offload) << name_of(routine);
    EXPECT_TRUE(decide_early(always, of_size(1)).offload) << name_of(routine);
  }
  // A large triangle that meets few columns is no small call, nor is the reverse.
  Level3 call = {.routine = Routine::trsm, .side = Side::left, .m = 8192, .n = 2, .alpha = 1};
  EXPECT_TRUE(decide_early(automatic, call).offload);
  call.side = Side::right;
  EXPECT_EQ(decide_early(automatic, call).reason, Reason::tiny);
}

TEST(Policy, TrafficOfEachRoutine) {
  const auto bytes = [](Level3 call, AnyScalar beta) {
    call.type = ScalarType::z;
    call.beta = beta;
    const Work work = work_of(call);
    EXPECT_EQ(work.flops, flops_of(call));
    return (work.up + work.down) / 16;
  };
  // m x n = 10 x 20, k = 30; triangles of order 10 and 20 have 55 and 210 elements.
  EXPECT_EQ(bytes({.routine = Routine::gemm, .m = 10, .n = 20, .k = 30}, 0), 300 + 600 + 200);
  EXPECT_EQ(bytes({.routine = Routine::gemm, .m = 10, .n = 20, .k = 30}, 1), 300 + 600 + 400);
  for (const Routine routine : {Routine::symm, Routine::hemm}) {
    EXPECT_EQ(bytes({.routine = routine, .side = Side::left, .m = 10, .n = 20}, 0), 55 + 200 + 200);
    EXPECT_EQ(bytes({.routine = routine, .side = Side::right, .m = 10, .n = 20}, 2), 210 + 200 + 400);
  }
  for (const Routine routine : {Routine::syrk, Routine::herk}) {
    EXPECT_EQ(bytes({.routine = routine, .m = 20, .n = 20, .k = 30}, 0), 600 + 210);
    EXPECT_EQ(bytes({.routine = routine, .m = 20, .n = 20, .k = 30}, 1), 600 + 420);
  }
  for (const Routine routine : {Routine::syr2k, Routine::her2k, Routine::gemmt})
    EXPECT_EQ(bytes({.routine = routine, .m = 20, .n = 20, .k = 30}, 1), 1200 + 420);
  for (const Routine routine : {Routine::trmm, Routine::trsm}) {
    EXPECT_EQ(bytes({.routine = routine, .side = Side::left, .m = 10, .n = 20}, 0), 55 + 400);
    EXPECT_EQ(bytes({.routine = routine, .side = Side::right, .m = 10, .n = 20}, 0), 210 + 400);
  }
  EXPECT_EQ(work_of(Level3{.routine = Routine::gemm, .m = 10, .n = 20, .k = 30, .beta = 1}).page_locked,
            (300 + 600 + 200) * 8);
  EXPECT_EQ(work_of(Level3{.routine = Routine::trsm, .m = 10, .n = 20}).page_locked, (55 + 200) * 8);
}

TEST(Policy, TheModelWeighsLinksAgainstArithmetic) {
  EXPECT_EQ(decide(automatic, square(8192), at_500_gflops(square(8192))).reason, Reason::device_wins);
  // An outer product is all traffic: 3 n^2 elements for n^2 multiplications.
  Level3 outer = square(20000);
  outer.k = 1;
  EXPECT_EQ(decide(automatic, outer, at_500_gflops(outer)).reason, Reason::cpu_wins);
  // A slow link turns a cube away that a better one takes.
  Conditions now = at_500_gflops(square(1500));
  EXPECT_TRUE(decide(automatic, square(1500), now).offload);
  now.rates.links = {1e9, 1e9, 0};
  EXPECT_FALSE(decide(automatic, square(1500), now).offload);
  // A device slower than the CPU never gets anything.
  now = at_500_gflops(square(30000));
  now.rates.flops_per_s = 100e9;
  EXPECT_FALSE(decide(automatic, square(30000), now).offload);
}

TEST(Policy, TheModelIsItsFormula) {
  Level3 problem = square(1000);
  problem.n = 2000;
  problem.beta = 0;
  const auto device_s = [&](const Conditions& now) { return decide(automatic, problem, now).device_s; };
  // The links need longer: of the arithmetic a quarter is not hidden.
  EXPECT_NEAR(device_s(open(1)), 600e-6 + (1e6 + 2e6) * 8 / 50e9 + 4e9 / 50e12 / 4, 1e-9);
  EXPECT_EQ(decide(automatic, problem, open(1.25)).cpu_s, 1.25);
  problem.beta = 1;
  EXPECT_NEAR(device_s(open(1)), 600e-6 + (1e6 + 2e6 + 2e6) * 8 / 50e9 + 4e9 / 50e12 / 4, 1e-9);
  problem.type = ScalarType::c;
  EXPECT_NEAR(device_s(open(1)), 600e-6 + (1e6 + 2e6 + 2e6) * 8 / 50e9 + 2 * 4e9 / 50e12 / 4, 1e-9);
  // Both directions at once may be less than twice one.
  Conditions narrow = open(1);
  narrow.rates.links.both = 60e9;
  EXPECT_NEAR(device_s(narrow), 600e-6 + (1e6 + 2e6 + 4e6) * 8 / 60e9 + 2 * 4e9 / 50e12 / 4, 1e-9);
  // Earlier calls of this size have taken three times the modelled time.
  narrow.bias = 3;
  EXPECT_NEAR(device_s(narrow), 3 * decide(automatic, problem, narrow).model_s, 1e-9);
  // Page-locking: every operand once.
  Conditions pageable = open(1);
  pageable.rates.page_lock_bytes_per_s = 10e9;
  EXPECT_NEAR(device_s(pageable) - device_s(open(1)), (1e6 + 2e6 + 2e6) * 8 / 10e9, 1e-9);
}

TEST(Policy, WhoMustWaitAddsTheBacklog) {
  const Level3 call = square(4096);
  Conditions now = open(0.5);
  const double alone = decide(automatic, call, now).device_s;
  ASSERT_LT(alone, 0.25);
  now.backlog_s = 0.25;
  Decision decision = decide(automatic, call, now);
  EXPECT_TRUE(decision.offload);
  EXPECT_DOUBLE_EQ(decision.device_s, alone + 0.25);
  EXPECT_DOUBLE_EQ(decision.wait_s, 0.25);
  now.backlog_s = 1.25;
  decision = decide(automatic, call, now);
  EXPECT_FALSE(decision.offload);
  EXPECT_EQ(decision.reason, Reason::cpu_wins);
  EXPECT_THAT(to_text(decision), HasSubstr("waiting"));
}

// It takes processors from the threads that carry the devices' operands.
TEST(Policy, ACallOnTheCpuCountsOnceMoreForEachCallOnTheDevices) {
  Conditions now = open(0.5);
  EXPECT_DOUBLE_EQ(decide(automatic, square(4096), now).cpu_s, 0.5);
  now.backlog_s = 0.75;
  now.device_calls = 1;
  const Decision decision = decide(automatic, square(4096), now);
  EXPECT_DOUBLE_EQ(decision.cpu_s, 1);
  EXPECT_TRUE(decision.offload);
  now.device_calls = 2;
  now.cpu_calls = 1;
  EXPECT_DOUBLE_EQ(decide(automatic, square(4096), now).cpu_s, 2);
}

// Threads that call again and again: however many they are, a product that devices do seven times as fast stays with
// them. One on the CPU would be done sooner than the last in the queue, but slows all others down.
TEST(Policy, ManyCallersOfTheSameDoNotLeaveTheDevices) {
  const Level3 call = square(4096);
  const double device_s = decide(automatic, call, open(1)).device_s;
  Conditions now = open(7 * device_s);
  for (int others = 0; others < 64; ++others) {
    now.device_calls = others;
    now.backlog_s = others * device_s;
    EXPECT_TRUE(decide(automatic, call, now).offload) << others << " others";
  }
}

TEST(Policy, CallsOfOtherThreadsShareTheCpu) {
  const Level3 call = square(4096);
  const double device_s = decide(automatic, call, open(1)).device_s;
  Conditions now = open(0.5 * device_s);
  EXPECT_FALSE(decide(automatic, call, now).offload);
  now.cpu_calls = 3;
  const Decision decision = decide(automatic, call, now);
  EXPECT_TRUE(decision.offload);
  EXPECT_DOUBLE_EQ(decision.cpu_s, 4 * 0.5 * device_s);
}

/// Devices that nobody has opened.
Conditions closed(double cpu_s, double start_up_s) {
  Conditions now = open(cpu_s);
  now.rates.start_up_s = now.until_open_s = start_up_s;
  return now;
}

TEST(Policy, AStartMustBeEarned) {
  const Level3 call = square(4096);
  const double gain = 0.5 - decide(automatic, call, open(0.5)).device_s;
  Conditions now = closed(0.5, 2);
  Decision decision = decide(automatic, call, now);
  EXPECT_FALSE(decision.offload);
  EXPECT_EQ(decision.reason, Reason::start_up);
  EXPECT_NEAR(decision.cpu_s - decision.open_s, gain, 1e-12);
  EXPECT_THAT(to_text(decision), AllOf(HasSubstr("starting takes 2 s"), HasSubstr("0.5 s on the CPU")));
  // One call that ends sooner although it waits for the start.
  now.cpu = certain(2.5);
  EXPECT_TRUE(decide(automatic, call, now).offload);
  // Or what calls have lost together.
  now.cpu = certain(0.5);
  now.forgone_s = 0.99;
  EXPECT_FALSE(decide(automatic, call, now).offload);
  EXPECT_FALSE(decide(automatic, call, now).earns_start);
  now.forgone_s = 1.01;
  EXPECT_FALSE(decide(automatic, call, now).offload) << "it does not wait for a start that others have earned";
  EXPECT_TRUE(decide(automatic, call, now).earns_start);
  now.forgone_s = 2.01;
  EXPECT_TRUE(decide(automatic, call, now).offload) << "nobody could begin in the background";
  now.is_opening = true;
  EXPECT_FALSE(decide(automatic, call, now).offload);
  EXPECT_FALSE(decide(automatic, call, now).earns_start);
  // Never for a call that devices would not do sooner if they were open.
  now.cpu = certain(1e-6);
  now.forgone_s = 100;
  EXPECT_EQ(decide(automatic, call, now).reason, Reason::cpu_wins);
}

TEST(Policy, TheStartCostsAFewTimesWhatHindsightPays) {
  // A program of any number of calls of any size: whenever it ends, what it has lost is at most three times the least
  // possible.
  const Level3 call = square(4096);
  const double device_s = decide(automatic, call, open(1)).device_s;
  for (const double gain : {0.001, 0.3, 0.7, 1.4, 1.51, 1.9, 2.0, 50.0}) {
    Conditions now = closed(device_s + gain, 2);
    double lost = 0;
    bool started = false;
    for (int calls = 1; calls <= 5000; ++calls) {
      const Decision decision = decide(automatic, call, now);
      started = started || decision.offload || decision.earns_start;
      now.is_opening = started;
      if (now.until_open_s > 0 && decision.offload) {
        lost += now.until_open_s;
        now.until_open_s = 0;
      } else if (now.until_open_s > 0) {
        lost += gain;
        now.forgone_s += gain;
        if (started) now.until_open_s = std::max(now.until_open_s - decision.cpu_s, 0.0);
      }
      const double least = std::min(2.0, calls * gain);
      ASSERT_LE(lost, 3 * least * (1 + 1e-9)) << calls << " calls that gain " << gain;
    }
    EXPECT_TRUE(started) << gain;
  }
}

TEST(Policy, AnUncertainCpuIsTriedIfThatIsCheap) {
  const Level3 call = square(4096);
  const double device_s = decide(automatic, call, open(1)).device_s;
  Conditions now = open(0);
  now.cpu = {.expected_s = 2 * device_s, .least_s = device_s / 2, .most_s = 3 * device_s};
  EXPECT_EQ(decide(automatic, call, now).reason, Reason::trial);
  EXPECT_FALSE(decide(automatic, call, now).offload);
  // Not if it may take too long, and not if even the best would not do.
  now.cpu.most_s = 20 * device_s;
  EXPECT_TRUE(decide(automatic, call, now).offload);
  now.cpu = {.expected_s = 2 * device_s, .least_s = 1.5 * device_s, .most_s = 3 * device_s};
  EXPECT_TRUE(decide(automatic, call, now).offload);
}

TEST(Policy, RatesAddUp) {
  device::DeviceInfo known;
  known.flops_per_s = {1e12, 2e12, 3e12, 4e12};
  known.link_bytes_per_s = 1e10;
  known.profile.page_lock_bytes_per_s = 2e10;
  known.profile.start_up_s = 0.5;
  known.profile.further_start_up_s = 0.125;
  known.profile.call_overhead_s = 1e-4;
  device::DeviceInfo other = known;
  other.profile.page_lock_bytes_per_s = 1e10;
  other.profile.start_up_s = 0.25;
  other.profile.call_overhead_s = 1e-5;
  Rates rates = rates_of(std::vector{known, other});
  EXPECT_EQ(rates.devices, 2);
  EXPECT_EQ(rates.flops_per_s, RatesByType(2e12, 4e12, 6e12, 8e12));
  EXPECT_EQ(rates.links, (runtime::LinkRates{2e10, 2e10, 0}));
  EXPECT_DOUBLE_EQ(rates.page_lock_bytes_per_s, 1e10);
  EXPECT_DOUBLE_EQ(rates.start_up_s, 0.625);  // one more
  EXPECT_DOUBLE_EQ(rates.call_overhead_s, 1e-4);
  // Unknown counts as unlimited.
  rates = rates_of(std::vector{known, device::DeviceInfo{}});
  EXPECT_EQ(rates.flops_per_s[ScalarType::d], 0);
  Conditions now = open(0.1);
  now.rates = rates;
  EXPECT_TRUE(decide(automatic, square(1000), now).offload);
}

// A GPU for graphics, which has 64 times the arithmetic in single precision.
TEST(Policy, RatesAreThoseOfTheCallsType) {
  device::DeviceInfo graphics;
  graphics.profile = device::gpu_profile(8, 9);
  graphics.flops_per_s = device::matrix_rates(graphics.profile, 128, 2.5e9);
  graphics.link_bytes_per_s = 25e9;
  Conditions now = open(0);
  now.rates = rates_of(std::vector{graphics});
  for (const ScalarType type : scalar_types) {
    const bool is_single = type == ScalarType::s || type == ScalarType::c;
    const Level3 call = square(8192, type);
    now.cpu = certain(flops_of(call) / (is_single ? 4e12 : 2e12));
    EXPECT_EQ(decide(automatic, call, now).offload, is_single) << letter(type);
  }
}

TEST(Policy, EveryCallPaysTheOverheadOfItsDevices) {
  const Level3 call = square(1000);
  Conditions now = open(flops_of(call) / 500e9);
  EXPECT_TRUE(decide(automatic, call, now).offload);
  now.rates.call_overhead_s = 1;
  EXPECT_FALSE(decide(automatic, call, now).offload);
  EXPECT_GE(decide(automatic, call, now).model_s, 1);
}

TEST(Policy, AGpuThatNobodyHasLookedAtIsThoughtToBeAnH200) {
  const Rates rates = rates_of(std::vector{likely_gpu()});
  EXPECT_NEAR(rates.flops_per_s[ScalarType::d], 60e12, 1e12);
  EXPECT_EQ(rates.links.up, 48e9);
  EXPECT_EQ(rates.page_lock_bytes_per_s, 0);
  EXPECT_DOUBLE_EQ(rates.start_up_s, 0.25);
  EXPECT_DOUBLE_EQ(rates_of(std::vector{likely_gpu(), likely_gpu(), likely_gpu()}).start_up_s, 0.45);
}

TEST(Policy, EveryReasonHasWords) {
  std::vector<std::string> all;
  for (int reason = 0; reason < reason_count; ++reason) {
    all.push_back(words_of(static_cast<Reason>(reason)));
    EXPECT_THAT(all.back(), Not(testing::IsEmpty())) << reason;
    EXPECT_THAT(to_text({false, static_cast<Reason>(reason)}), HasSubstr(all.back()));
  }
  EXPECT_EQ(static_cast<int>(Reason::unsuitable), reason_count - 1);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(Policy, RulesInWords) {
  OffloadRules rules;
  EXPECT_THAT(to_text(rules), AllOf(HasSubstr("auto"), Not(HasSubstr(";"))));
  rules.named = {{"trsm", never}, {"dgemm", always}, {"herk", {Offload::by_size, 8000}}};
  EXPECT_THAT(to_text(rules), AllOf(HasSubstr("; trsm: never devices"), HasSubstr("; dgemm: always devices"),
                                    HasSubstr("; herk: devices from m*n*k = 20^3 on"), Not(HasSubstr("sgemm"))));
}

}  // namespace policy_test
}  // namespace tessera::offload
