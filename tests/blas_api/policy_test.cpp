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
  EXPECT_EQ(decide_early(Offload::automatic, 400, 400, 400, false).reason, Reason::tiny);
  EXPECT_TRUE(decide_early(Offload::automatic, 512, 512, 512, false).offload);
  EXPECT_TRUE(decide_early(Offload::always, 1, 1, 1, false).offload);
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
