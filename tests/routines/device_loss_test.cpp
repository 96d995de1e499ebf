// A device is lost in the middle of a call: others finish it, or the CPU does, or the call says that it failed.
#include <gtest/gtest.h>

#include "core/config.hpp"
#include "core/error.hpp"
#include "routines/level3.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace device_loss_test {

using test::devices_with;
using test::HostRuntime;

constexpr index_t tile = test::small_tile;
constexpr std::size_t tile_bytes = test::small_tile_bytes;

// The operation with each of these numbers fails on one of three devices; whatever it was, the result is right or the call says no.
TEST(FailureModel, OtherDevicesFinishTheJob) {
  int survived = 0;
  for (const std::int64_t failing_operation : {0, 1, 2, 5, 11, 23, 47, 95, 150, 300}) {
    auto settings = devices_with(3, 64 * tile_bytes);
    settings[1].fail_after_ops = failing_operation;
    HostRuntime host(settings);
    test::GemmFixture<double> fixture({.m = 7 * tile, .n = 6 * tile + 1, .k = 5 * tile, .alpha = 2, .beta = 0}, 5);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check()) << "operation " << failing_operation;
    if (statistics.restarts > 0) {
      ++survived;
      EXPECT_EQ(host.runtime->devices().size(), 2u);
    }
    EXPECT_EQ(host.host_products, 0);
    // Perhaps the failure comes only now, and with beta == 0 it can always be survived.
    test::GemmFixture<double> next({.m = 3 * tile, .n = 2 * tile, .k = tile, .alpha = 2, .beta = 0}, 6);
    run(*host.runtime, next.problem(), tile);
    EXPECT_TRUE(next.check());
  }
  EXPECT_GT(survived, 4);
}

// A product in place, whose first step comes last on devices and first on the CPU.
TEST(FailureModel, OthersFinishAWideTriangularProduct) {
  int survived = 0;
  int finished_by_cpu = 0;
  for (const int devices : {1, 2}) {
    for (std::int64_t failing_operation = 0; failing_operation < 240; failing_operation += 3) {
      auto settings = devices_with(devices, 4000 * tile_bytes);
      settings.back().fail_after_ops = failing_operation;
      HostRuntime host(settings);
      test::Level3Fixture<double> fixture({.routine = Routine::trmm, .m = 4 * tile + 1, .n = 12 * tile + 3, .alpha = 2},
                                          5);
      const auto statistics = run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check()) << "operation " << failing_operation << " of " << devices << " devices";
      if (statistics.restarts > 0) ++survived;
      if (host.host_products > 0) ++finished_by_cpu;
    }
  }
  EXPECT_GT(survived, 20);
  EXPECT_GT(finished_by_cpu, 20);
}

TEST(FailureModel, TheCpuFinishesWhenNoDeviceIsLeft) {
  auto settings = devices_with(2, 64 * tile_bytes);
  settings[0].fail_after_ops = 40;
  settings[1].fail_after_ops = 25;
  HostRuntime host(settings);
  test::GemmFixture<double> fixture({.m = 7 * tile, .n = 6 * tile, .k = 5 * tile + 3, .alpha = 2, .beta = 0}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_GT(host.host_products, 0);
  EXPECT_EQ(statistics.devices.back().device, "cpu");
  EXPECT_GT(statistics.devices.back().tasks, 0);
  EXPECT_TRUE(host.runtime->devices().empty());
}

// Where old values are not kept, a failure before the write-backs is survived; one in the middle of a write-back must be reported. Long
// kernels are not launched before their tiles have come, so that a copy that fails must be seen without them.
void expect_no_silent_torn_tile(double flops_per_s, double link_bytes_per_s = 0) {
  int reported = 0;
  int survived = 0;
  for (std::int64_t failing_operation = 0; failing_operation < 60; ++failing_operation) {
    auto settings = devices_with(1, 64 * tile_bytes);
    settings[0].fail_after_ops = failing_operation;
    settings[0].flops_per_s = flops_per_s;
    settings[0].link_bytes_per_s = link_bytes_per_s;
    HostRuntime host(settings, Config::from_settings("TESSERA_KEEP_OLD_VALUES=off"));
    test::GemmFixture<double> fixture({.m = 3 * tile, .n = 3 * tile, .k = 2 * tile, .alpha = 2, .beta = 1}, 5);
    try {
      run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check()) << "operation " << failing_operation;
      ++survived;
    } catch (const DeviceLost&) {
      ++reported;
    }
  }
  EXPECT_GT(reported, 0);
  EXPECT_GT(survived, 20);
}
TEST(FailureModel, ATornTileIsNeverKeptSilent) { expect_no_silent_torn_tile(0); }
TEST(FailureModel, ATornTileIsNeverKeptSilentWhereKernelsAreLong) {
  constexpr double step_flops = 2.0 * tile * tile * tile;
  expect_no_silent_torn_tile(step_flops / 0.0003);
}

TEST(FailureModel, ATornTileIsNeverKeptSilentWhereTheLinkIsSlow) { expect_no_silent_torn_tile(1e12, 2e8); }

// The devices that are left decide about tiles, not those that are gone.
TEST(FailureModel, ALostSmallDeviceDoesNotStandInTheWay) {
  auto settings = devices_with(2, 4000 * tile_bytes);
  settings[0].memory_bytes = 3000 * tile_bytes;  // not so weak that it is left out
  settings[0].fail_after_ops = 3;
  HostRuntime host(settings);
  for (int call = 0; call < 3; ++call) {
    test::GemmFixture<double> fixture({.m = 20 * tile, .n = 20 * tile, .k = 20 * tile, .alpha = 2, .beta = 0}, 5);
    run(*host.runtime, fixture.problem());
    EXPECT_TRUE(fixture.check()) << call;
  }
  EXPECT_EQ(host.runtime->devices().size(), 1u);
}

}  // namespace device_loss_test
}  // namespace tessera::routines
