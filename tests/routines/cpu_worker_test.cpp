// The calling thread computes tiles beside the devices where that helps.
#include <gtest/gtest.h>

#include <utility>

#include "core/error.hpp"
#include "routines/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace cpu_worker_test {

using test::devices_with;
using test::HostRuntime;

constexpr index_t tile = test::small_tile;
constexpr std::size_t tile_bytes = test::small_tile_bytes;

// Devices so slow that the CPU, were it as slow as the reference, gets something to do.
TEST(CpuWorker, ComputesTilesBesideTheDevices) {
  auto settings = devices_with(2, 400 * tile_bytes);
  for (HostDeviceSettings& device : settings) device.delay_s = 2e-3;
  HostRuntime host(settings);
  test::GemmFixture<double> fixture({.m = 10 * tile, .n = 9 * tile + 3, .k = 5 * tile, .alpha = 2, .beta = 0.5}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile, {.always = true});
  EXPECT_TRUE(fixture.check());
  ASSERT_EQ(statistics.devices.size(), 3u);
  EXPECT_EQ(statistics.devices.back().device, "cpu");
  EXPECT_GT(statistics.devices.back().tasks, 0);
  EXPECT_EQ(statistics.devices.back().steps, 5 * statistics.devices.back().tasks);
  EXPECT_EQ(statistics.devices.back().bytes_up, 0);
  std::int64_t tasks = 0;
  double flops = 0;
  for (const auto& device : statistics.devices) {
    tasks += device.tasks;
    flops += device.flops;
  }
  EXPECT_EQ(tasks, 100);
  EXPECT_DOUBLE_EQ(flops, statistics.flops);
}

TEST(CpuWorker, TakesNothingUnlessItHelps) {
  HostRuntime host(devices_with(1, 400 * tile_bytes));
  test::GemmFixture<double> fixture({.m = 10 * tile, .n = 10 * tile, .k = tile, .alpha = 2, .beta = 0.5}, 5);
  const runtime::CpuHelp slow{.flops_per_s = 1e9, .devices_flops_per_s = 1e12};
  for (const runtime::CpuHelp& help : {runtime::CpuHelp{}, slow}) {
    const auto statistics = run(*host.runtime, fixture.problem(), tile, help);
    EXPECT_EQ(statistics.devices.size(), 1u);
    EXPECT_EQ(host.host_products, 0);
  }
}

TEST(CpuWorker, LeavesTasksThatWaitForEachOtherToTheDevices) {
  HostRuntime host(devices_with(1, 400 * tile_bytes));
  for (const Routine routine : {Routine::trmm, Routine::trsm}) {
    test::Level3Fixture<double> fixture({.routine = routine, .m = 5 * tile, .n = 5 * tile, .alpha = 2}, 5);
    const auto statistics = run(*host.runtime, fixture.problem(), tile, {.always = true});
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.devices.size(), 1u);
  }
}

// The caller gets the exception of the CPU's part, and the devices are ready for the next call.
TEST(CpuWorker, AnErrorOfItsEndsTheJob) {
  auto settings = devices_with(1, 400 * tile_bytes);
  settings[0].delay_s = 2e-3;  // so that it does not end before the CPU has begun
  auto opened = test::open_host_devices(1, settings, test::cpu_blas());
  runtime::Runtime failing(std::move(opened.accelerators), Config{},
                           [](const Level3&) { throw NotAvailable("no CPU BLAS"); });
  test::GemmFixture<double> fixture({.m = 10 * tile, .n = 10 * tile, .k = tile, .alpha = 2, .beta = 0}, 5);
  EXPECT_THROW(run(failing, fixture.problem(), tile, {.always = true}), NotAvailable);
  run(failing, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
}

}  // namespace cpu_worker_test
}  // namespace tessera::routines
