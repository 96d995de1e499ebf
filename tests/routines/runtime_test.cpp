// Which devices a call uses, and what it does where they have little memory, a slow link, or several callers.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "routines/level3.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace runtime_test {

using test::devices_with;
using test::GemmCase;
using test::HostRuntime;

constexpr index_t tile = test::small_tile;
constexpr std::size_t tile_bytes = test::small_tile_bytes;

TEST(Runtime, LeavesDevicesAloneForWhichThereIsTooLittle) {
  auto settings = devices_with(3, 400 * tile_bytes);
  for (HostDeviceSettings& device : settings) device.share_bytes = 100 * tile_bytes;
  HostRuntime host(settings);
  const auto devices_used = [&](index_t n) {
    test::GemmFixture<double> fixture({.m = n, .n = n, .k = n, .alpha = 2, .beta = 0.5}, 5);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.devices.size(), 3u);
    return std::count_if(statistics.devices.begin(), statistics.devices.end(),
                         [](const auto& device) { return device.misses + device.l1_hits + device.l2_hits > 0; });
  };
  EXPECT_EQ(devices_used(5 * tile), 1);   // 75 tiles to bring
  EXPECT_EQ(devices_used(8 * tile), 1);   // 192
  EXPECT_LE(devices_used(9 * tile), 2);   // 243
  EXPECT_GE(devices_used(11 * tile), 1);  // 363: all three may take part, or one that is quick does all
}

TEST(Runtime, TakesAnotherDeviceWhereTheOnlyOneIsLost) {
  auto settings = devices_with(2, 400 * tile_bytes);
  for (HostDeviceSettings& device : settings) device.share_bytes = 1000 * tile_bytes;
  settings[0].fail_after_ops = 20;
  HostRuntime host(settings);
  test::GemmFixture<double> fixture({.m = 5 * tile, .n = 5 * tile, .k = 5 * tile, .alpha = 2, .beta = 0}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_EQ(statistics.restarts, 1);
  EXPECT_GT(statistics.devices[1].tasks, 0);
  EXPECT_EQ(host.host_products, 0);
}

// Where the link takes longest, a task ends with the addition of its old values: one step more. So it does where one of several devices is enough.
TEST(Runtime, AddsOldValuesLastWhereTheLinkIsSlow) {
  for (const int devices : {1, 2}) {
    auto settings = devices_with(devices, 400 * tile_bytes);
    for (HostDeviceSettings& device : settings) {
      device.flops_per_s = 1e12;
      device.link_bytes_per_s = 2e8;
      device.share_bytes = 1000 * tile_bytes;
    }
    HostRuntime host(settings);
    for (const double beta : {0.0, 0.5}) {
      test::GemmFixture<double> fixture({.m = 4 * tile, .n = 5 * tile, .k = 3 * tile, .alpha = 2, .beta = beta}, 5);
      const auto statistics = run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check());
      EXPECT_EQ(statistics.devices[0].tasks, 20);
      EXPECT_EQ(statistics.devices[0].steps, 20 * (beta == 0 ? 3 : 4)) << devices << " devices, beta " << beta;
    }
  }
}

// The smallest memory of those that take part decides how large tiles are.
TEST(Runtime, LeavesOutADeviceThatHasNextToNoMemory) {
  auto settings = devices_with(3, 4000 * tile_bytes);
  settings[1].memory_bytes = 2048;
  HostRuntime host(settings);
  EXPECT_EQ(host.machine().devices, 2);
  EXPECT_EQ(host.machine().heap_bytes, 4000 * tile_bytes);
  test::GemmFixture<double> fixture({.m = 6 * tile, .n = 6 * tile, .k = 6 * tile, .alpha = 2, .beta = 0.5}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_EQ(statistics.devices[1].tasks, 0);
  EXPECT_EQ(statistics.devices[0].tasks + statistics.devices[2].tasks, 36);
}

TEST(Runtime, RefusesMemoryThatCannotHoldAStep) {
  HostRuntime host(devices_with(1, 2 * 256));
  test::GemmFixture<double> fixture({.m = tile, .n = tile, .k = tile, .alpha = 1, .beta = 1}, 1);
  const auto problem = fixture.problem();
  EXPECT_THROW(run(*host.runtime, problem, tile), OutOfDeviceMemory);
}

TEST(Runtime, ShrinksATileThatDoesNotFit) {
  HostRuntime host(devices_with(2, 12 * 256));
  test::GemmFixture<double> fixture({.m = 3 * tile, .n = 3 * tile, .k = 3 * tile, .alpha = 1, .beta = 1}, 1);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_LE(statistics.tile_m * statistics.tile_n * 8, 256);
}

TEST(Runtime, ServesCallersOnManyThreads) {
  HostRuntime host(devices_with(2, 40 * tile_bytes));
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (unsigned t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (unsigned call = 0; call < 10; ++call) {
        const GemmCase c{.m = 1 + 7 * t, .n = 60 - 3 * call, .k = 40 + t, .alpha = 1, .beta = 1};
        test::GemmFixture<double> fixture(c, 100 * t + call);
        run(*host.runtime, fixture.problem(), tile);
        if (!fixture.check()) ++wrong[t];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

}  // namespace runtime_test
}  // namespace tessera::routines
