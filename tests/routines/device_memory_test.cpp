// Calls take the memory that they need, plan with what others leave, and give it back. A piece of work that a device refuses costs the
// device one call.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "device/host/host_device.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace device_memory_test {

constexpr index_t tile = 16;
constexpr std::size_t tile_bytes = tile * tile * sizeof(double);
constexpr std::size_t memory_bytes = 1000 * tile_bytes;

struct HostRuntime : test::HostRuntime {
  explicit HostRuntime(int count, HostDeviceSettings settings = {}, const Config& config = {},
                       std::chrono::nanoseconds idle_patience = std::chrono::hours(1), std::size_t bytes = memory_bytes)
      : test::HostRuntime(all_with(count, settings, bytes), config, idle_patience) {}

  static std::vector<HostDeviceSettings> all_with(int count, HostDeviceSettings settings, std::size_t bytes) {
    settings.memory_bytes = bytes;
    return std::vector<HostDeviceSettings>(static_cast<std::size_t>(count), settings);
  }
  /// A product of n x n matrices, checked.
  runtime::JobStatistics multiply(index_t n) {
    test::GemmFixture<double> fixture({.m = n, .n = n, .k = n, .alpha = 2, .beta = 0.5}, 5);
    auto statistics = run(*runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check()) << n;
    return statistics;
  }
};

/// A minute is a hang.
void await_none(const runtime::Runtime& runtime) {
  const double give_up = device::now_seconds() + 60;
  while (runtime.committed_bytes() > 0 && device::now_seconds() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(runtime.committed_bytes(), 0u);
}

TEST(MemoryOfCalls, GrowsWithThemAndIsGivenBack) {
  HostRuntime host(1);
  EXPECT_EQ(host.runtime->committed_bytes(), 0u);
  host.multiply(2 * tile);
  const std::size_t small = host.runtime->committed_bytes();
  EXPECT_GE(small, 16 * tile_bytes);
  EXPECT_LE(small, 100 * tile_bytes);
  host.multiply(6 * tile);
  const std::size_t large = host.runtime->committed_bytes();
  EXPECT_GE(large, 144 * tile_bytes);
  EXPECT_LE(large, 200 * tile_bytes);
  host.multiply(2 * tile);
  EXPECT_EQ(host.runtime->committed_bytes(), large) << "kept while calls come";
  host.runtime->give_back_memory();
  EXPECT_EQ(host.runtime->committed_bytes(), 0u);
  EXPECT_EQ(host.devices[0]->free_memory_bytes(), memory_bytes);
  EXPECT_EQ(host.multiply(6 * tile).restarts, 0);
  EXPECT_EQ(host.host_products, 0);
}

TEST(MemoryOfCalls, IsGivenBackWhenNoCallComes) {
  HostRuntime host(2, {}, {}, std::chrono::milliseconds(1));
  for (int call = 0; call < 3; ++call) {
    host.multiply(6 * tile);
    await_none(*host.runtime);
  }
  // Beside calls, in whatever order.
  for (int call = 0; call < 50; ++call) host.multiply(3 * tile);
  EXPECT_EQ(host.host_products, 0);
}

TEST(MemoryOfCalls, IsPlannedAnewWhereOthersHaveTakenIt) {
  HostRuntime host(2);
  EXPECT_EQ(host.machine().heap_bytes, memory_bytes);
  for (device::HostDevice* const device : host.devices) device->set_memory_of_others(memory_bytes - 40 * tile_bytes);
  // Before: all tiles at once, in growing squares. Then in groups, because A and B alone are 128 tiles.
  const auto statistics = host.multiply(8 * tile);
  EXPECT_EQ(statistics.restarts, 0);
  EXPECT_EQ(host.host_products, 0);
  EXPECT_LE(host.machine().heap_bytes, 40 * tile_bytes);
  EXPECT_LE(host.devices[1]->free_memory_bytes(), 40 * tile_bytes);
  for (device::HostDevice* const device : host.devices) device->set_memory_of_others(0);
  EXPECT_EQ(host.machine().heap_bytes, memory_bytes);
  host.multiply(8 * tile);
}

TEST(MemoryOfCalls, ADeviceThatOthersHaveFilledIsLeftOut) {
  HostRuntime host(2);
  host.multiply(8 * tile);
  host.runtime->give_back_memory();
  host.devices[1]->set_memory_of_others(memory_bytes - 4 * tile_bytes);
  const auto statistics = host.multiply(8 * tile);
  EXPECT_EQ(host.machine().heap_bytes, memory_bytes);
  EXPECT_EQ(statistics.devices[1].tasks, 0);
  EXPECT_EQ(host.host_products, 0);
  host.devices[1]->set_memory_of_others(0);
  EXPECT_EQ(host.machine().devices, 2);
}

TEST(MemoryOfCalls, TheCallIsRefusedWhereNothingIsLeftAndDoneWhereThereIsAgain) {
  HostRuntime host(1);
  host.devices[0]->set_memory_of_others(memory_bytes - 100);
  test::GemmFixture<double> fixture({.m = 64, .n = 64, .k = 64, .alpha = 2, .beta = 0.5}, 5);
  EXPECT_THROW(run(*host.runtime, fixture.problem(), tile), OutOfDeviceMemory);
  host.devices[0]->set_memory_of_others(0);
  run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check()) << "C was untouched";
}

TEST(MemoryOfCalls, AllOfItFromTheStartIfWanted) {
  Config config;
  config.memory_mode = MemoryMode::whole;
  HostRuntime host(2, {}, config);
  EXPECT_EQ(host.runtime->committed_bytes(), 2 * memory_bytes);
  host.multiply(6 * tile);
  host.runtime->give_back_memory();
  EXPECT_EQ(host.runtime->committed_bytes(), 2 * memory_bytes);
}

TEST(MemoryOfCalls, IsThereForWarmUpAndGivenBackAfterIt) {
  constexpr std::size_t enough = std::size_t{16} << 20;
  HostRuntime host(2, {}, {}, std::chrono::hours(1), enough);
  host.runtime->warm_up();
  EXPECT_GE(host.runtime->committed_bytes(), enough);
  HostRuntime idle(2, {}, {}, std::chrono::milliseconds(1), enough);
  idle.runtime->warm_up();
  await_none(*idle.runtime);
  HostRuntime small(1);
  EXPECT_THROW(small.runtime->warm_up(), OutOfDeviceMemory);
}

// The call is right whichever operation is refused. The device is out for this call only, and not reported as lost.
TEST(RefusedWork, CostsTheDeviceOneCall) {
  for (const std::int64_t refused : {0, 1, 2, 5, 11, 30, 60}) {
    HostDeviceSettings settings;
    settings.refused_op = refused;
    HostRuntime host(1, settings);
    test::GemmFixture<double> fixture({.m = 4 * tile, .n = 4 * tile, .k = 4 * tile, .alpha = 2, .beta = 0}, 5);
    run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check()) << refused;
    EXPECT_GT(host.host_products, 0) << "operation " << refused << " is one of this call";
    EXPECT_EQ(host.runtime->devices().size(), 1u) << refused;
    host.host_products = 0;
    const auto statistics = host.multiply(4 * tile);
    EXPECT_EQ(statistics.restarts, 0);
    EXPECT_EQ(host.host_products, 0) << "the device serves the next call";
  }
}

}  // namespace device_memory_test
}  // namespace tessera::routines
