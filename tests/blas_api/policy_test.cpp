// The offload decision: settings first, then size, then the model.
#include "blas_api/policy.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tessera::api {
namespace {

Level3 square(index_t n, ScalarType type = ScalarType::d) {
  Level3 problem;
  problem.type = type;
  problem.m = problem.n = problem.k = n;
  return problem;
}

constexpr Rates gpu = {1, 50e12, 50e9, 500e9};

TEST(Policy, VolumeDoesNotOverflow) {
  constexpr index_t big = INT64_MAX;
  EXPECT_TRUE(below_volume(0, big, big, 1));
  EXPECT_TRUE(below_volume(big, 0, big, 1));
  EXPECT_TRUE(below_volume(big, big, 0, 1));
  EXPECT_FALSE(below_volume(big, big, big, INT64_MAX));
  EXPECT_FALSE(below_volume(big, 2, 1, INT64_MAX));
  EXPECT_FALSE(below_volume(1, big, 2, INT64_MAX));
  EXPECT_TRUE(below_volume(10, 10, 9, 1000));
  EXPECT_FALSE(below_volume(10, 10, 10, 1000));
}

TEST(Policy, NeverIsNever) {
  const Verdict verdict = decide(Offload::never, square(100000), gpu);
  EXPECT_FALSE(verdict.offload);
  EXPECT_EQ(verdict.reason, Reason::never);
}

TEST(Policy, AlwaysTakesEveryProduct) {
  for (const index_t n : {1, 2, 100, 10000}) EXPECT_TRUE(decide(Offload::always, square(n), gpu).offload) << n;
}

TEST(Policy, ScalingStaysOnTheCpu) {
  for (const Offload offload : {Offload::always, Offload::automatic}) {
    Level3 problem = square(20000);
    problem.alpha = 0;
    EXPECT_EQ(decide(offload, problem, gpu).reason, Reason::only_scales);
    problem = square(20000);
    problem.k = 0;
    EXPECT_EQ(decide(offload, problem, gpu).reason, Reason::only_scales);
    EXPECT_FALSE(decide(offload, problem, gpu).offload);
  }
}

TEST(Policy, WithoutDevicesNothingIsOffloaded) {
  for (const Offload offload : {Offload::always, Offload::automatic}) {
    const Verdict verdict = decide(offload, square(20000), Rates{});
    EXPECT_FALSE(verdict.offload);
    EXPECT_EQ(verdict.reason, Reason::no_devices);
  }
}

TEST(Policy, TinyIsDecidedWithoutTheDevices) {
  for (int routine = 0; routine < routine_count; ++routine) {
    const auto of_size = [&](index_t n) {
      Level3 call = square(n);
      call.routine = static_cast<Routine>(routine);
      if (!call.has_k()) call.k = 0;
      return call;
    };
    EXPECT_EQ(decide_early(Offload::automatic, of_size(400)).reason, Reason::tiny) << routine;
    EXPECT_TRUE(decide_early(Offload::automatic, of_size(512)).offload) << routine;
    EXPECT_TRUE(decide_early(Offload::always, of_size(1)).offload) << routine;
  }
  // A large triangle that meets few columns is no small call, nor is the reverse.
  Level3 call = {.routine = Routine::trsm, .side = Side::left, .m = 8192, .n = 2, .alpha = 1};
  EXPECT_TRUE(decide_early(Offload::automatic, call).offload);
  call.side = Side::right;
  EXPECT_EQ(decide_early(Offload::automatic, call).reason, Reason::tiny);
}

TEST(Policy, TrafficOfEachRoutine) {
  const auto bytes = [](Level3 call, AnyScalar beta) {
    call.type = ScalarType::z;
    call.beta = beta;
    return traffic_bytes(call) / 16;
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
  for (const Routine routine : {Routine::syr2k, Routine::her2k})
    EXPECT_EQ(bytes({.routine = routine, .m = 20, .n = 20, .k = 30}, 1), 1200 + 420);
  for (const Routine routine : {Routine::trmm, Routine::trsm}) {
    EXPECT_EQ(bytes({.routine = routine, .side = Side::left, .m = 10, .n = 20}, 0), 55 + 400);
    EXPECT_EQ(bytes({.routine = routine, .side = Side::right, .m = 10, .n = 20}, 0), 210 + 400);
  }
}

TEST(Policy, TheModelWeighsLinksAgainstArithmetic) {
  EXPECT_EQ(decide(Offload::automatic, square(8192), gpu).reason, Reason::device_wins);
  // An outer product is all traffic: 3 n^2 elements for n^2 multiplications.
  Level3 outer = square(20000);
  outer.k = 1;
  EXPECT_EQ(decide(Offload::automatic, outer, gpu).reason, Reason::cpu_wins);
  // A slow link turns a cube away that a better one takes.
  Rates slow = gpu;
  slow.link_bytes_per_s = 1e9;
  EXPECT_TRUE(decide(Offload::automatic, square(1500), gpu).offload);
  EXPECT_FALSE(decide(Offload::automatic, square(1500), slow).offload);
  // A device slower than the CPU never gets anything.
  Rates weak = gpu;
  weak.device_flops_per_s = 100e9;
  EXPECT_FALSE(decide(Offload::automatic, square(30000), weak).offload);
}

TEST(Policy, TheModelIsItsFormula) {
  Level3 problem = square(1000);
  problem.n = 2000;
  problem.beta = 0;
  Verdict verdict = decide(Offload::automatic, problem, gpu);
  EXPECT_NEAR(verdict.device_s, 200e-6 + (1e6 + 2e6 + 2e6) * 8 / 50e9 + 4e9 / 50e12, 1e-9);
  EXPECT_NEAR(verdict.cpu_s, 4e9 / 500e9, 1e-9);
  problem.beta = 1;
  verdict = decide(Offload::automatic, problem, gpu);
  EXPECT_NEAR(verdict.device_s, 200e-6 + (1e6 + 2e6 + 4e6) * 8 / 50e9 + 4e9 / 50e12, 1e-9);
  problem.type = ScalarType::c;
  verdict = decide(Offload::automatic, problem, gpu);
  EXPECT_NEAR(verdict.device_s, 200e-6 + (1e6 + 2e6 + 4e6) * 8 / 50e9 + 2 * 4e9 / 50e12, 1e-9);
}

TEST(Policy, UnknownRatesCountAsUnlimited) {
  device::DeviceInfo known;
  known.flops_per_s = 1e12;
  known.link_bytes_per_s = 1e10;
  const std::vector<device::DeviceInfo> devices = {known, known};
  Rates rates = rates_of(devices, 1e11);
  EXPECT_EQ(rates.devices, 2);
  EXPECT_DOUBLE_EQ(rates.device_flops_per_s, 2e12);
  EXPECT_DOUBLE_EQ(rates.link_bytes_per_s, 2e10);
  rates = rates_of(std::vector{known, device::DeviceInfo{}}, 1e11);
  EXPECT_EQ(rates.device_flops_per_s, 0);
  EXPECT_TRUE(decide(Offload::automatic, square(1000), rates).offload);
  EXPECT_GE(estimated_cpu_flops_per_s(), 1e9);
}

TEST(Policy, EveryReasonHasWords) {
  for (int reason = 0; reason <= static_cast<int>(Reason::out_of_memory); ++reason) {
    EXPECT_FALSE(to_text({false, static_cast<Reason>(reason)}).empty()) << reason;
  }
}

}  // namespace
}  // namespace tessera::api
