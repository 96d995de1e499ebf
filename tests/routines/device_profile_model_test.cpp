// That planning and scheduling go by the numbers of a device's profile and by its rates in the type of the call:
// another number, another plan. On modelled devices (tests/modelled_run.hpp) and host devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device_profile.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "runtime/devices/calibration.hpp"
#include "tests/device/backends.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/square_call.hpp"

namespace tessera::routines {
namespace device_profile_model_test {

using device::DeviceProfile;
using device::TileSizes;
using test::modelled_h200;
using test::modelled_run;
using test::ModelledMachine;
using test::ModelledRun;
using test::square_call;

double flops_on(const ModelledRun& run, std::size_t device) {
  double flops = 0;
  for (const device::Operation& operation : run.operations[device]) flops += operation.flops;
  return flops;
}

// The first device is a GPU for graphics: quick in single precision, slow in double.
TEST(RatesModel, WorkFollowsTheTypeOfTheCall) {
  ModelledMachine machine = modelled_h200(2);
  machine.rates = {{80e12, 1.25e12}, {20e12, 10e12}};
  for (const auto& [type, part] : {std::pair{ScalarType::s, 80.0 / 100}, std::pair{ScalarType::d, 1.25 / 11.25},
                                   std::pair{ScalarType::c, 80.0 / 100}, std::pair{ScalarType::z, 1.25 / 11.25}}) {
    const ModelledRun run = modelled_run(machine, square_call(Routine::gemm, 32768, type));
    EXPECT_NEAR(flops_on(run, 0) / (flops_on(run, 0) + flops_on(run, 1)), part, 0.06) << letter(type);
  }
}

// Tasks advance side by side where computing takes longest, and not where the link does.
TEST(RatesModel, WhatTakesLongestDependsOnTheTypeOfTheCall) {
  const auto advances_side_by_side = [](RatesByType rates, ScalarType type) {
    ModelledMachine machine = modelled_h200(1);
    machine.rates = {rates};
    test::VirtualClock clock;
    test::HostTraffic host;
    test::ModelledDevice device(0, machine, clock, host);
    const std::vector<cache::CacheDevice> places = {
        {&device, device.reserve(machine.memory_bytes), machine.memory_bytes}};
    cache::TileCache cache(places);
    const runtime::Machine room{.devices = 1, .heap_bytes = machine.memory_bytes, .segment_bytes = 32768};
    Level3 call = square_call(Routine::gemm, 4096, type);
    call.A = call.B = call.C = reinterpret_cast<void*>(std::uintptr_t{1} << 45);
    call.lda = call.ldb = call.ldc = call.m;
    const auto graph = make_accumulation(call, room, 0);
    cache.begin_job(graph->slot_bytes, element_bytes(type));
    runtime::Signal signal;
    return runtime::Worker(0, device, device, cache, signal, true).should_advance_side_by_side(*graph);
  };
  for (const ScalarType type : scalar_types) {
    const bool is_single = type == ScalarType::s || type == ScalarType::c;
    EXPECT_EQ(advances_side_by_side({900e12, 1e12}, type), !is_single) << letter(type);
    EXPECT_EQ(advances_side_by_side({1e12, 900e12}, type), is_single) << letter(type);
  }
}

// The runs differ only in the rates that devices report. Workers tell short kernels from long ones by these rates.
TEST(RatesModel, KernelsAreExpectedToTakeWhatTheirTypeTakes) {
  const auto seconds = [](RatesByType said, ScalarType type) {
    ModelledMachine machine = modelled_h200(1);
    machine.said = said;
    return modelled_run(machine, square_call(Routine::gemm, 12288, type)).seconds;
  };
  EXPECT_EQ(seconds({1e15, 58e12}, ScalarType::d), seconds(58e12, ScalarType::d));
  EXPECT_EQ(seconds({58e12, 1e15}, ScalarType::s), seconds(58e12, ScalarType::s));
  EXPECT_NE(seconds({58e12, 1e15}, ScalarType::d), seconds(58e12, ScalarType::d));
  EXPECT_NE(seconds({1e15, 58e12}, ScalarType::s), seconds(58e12, ScalarType::s));
}

/// All that a schedule is, in words.
std::string schedule_of(const ModelledMachine& machine, const Level3& call) {
  std::string text;
  for (const auto& operations : modelled_run(machine, call).operations) {
    for (const device::Operation& operation : operations)
      text += std::to_string(device::stream_number(operation.stream)) + ' ' + std::to_string(operation.begin_s) + '\n';
  }
  return text;
}

TEST(DeviceProfileModel, WorkersGoByItsNumbers) {
  const std::vector<std::pair<const char*, std::function<void(DeviceProfile&)>>> changes = {
      {"link_queue_bytes", [](DeviceProfile& p) { p.link_queue_bytes *= 8; }},
      {"backlog_s", [](DeviceProfile& p) { p.backlog_s *= 8; }},
      {"short_kernel_s", [](DeviceProfile& p) { p.short_kernel_s = 1; }},
      {"ranked_kernel_s", [](DeviceProfile& p) { p.ranked_kernel_s = 1; }},
  };
  for (const auto& [name, change] : changes) {
    ModelledMachine machine = modelled_h200(1);
    const std::string before = schedule_of(machine, square_call(Routine::gemm, 12288));
    change(machine.profile);
    EXPECT_FALSE(schedule_of(machine, square_call(Routine::gemm, 12288)) == before) << name;
  }
}

TEST(DeviceProfileModel, TilesGoByItsNumbers) {
  const std::vector<std::pair<const char*, index_t TileSizes::*>> numbers = {
      {"largest", &TileSizes::largest},
      {"smallest", &TileSizes::smallest},
      {"smallest_tied", &TileSizes::smallest_tied},
      {"smallest_halved", &TileSizes::smallest_halved},
      {"narrowest", &TileSizes::narrowest},
      {"task", &TileSizes::task},
      {"lone_task", &TileSizes::lone_task},
      {"fewest_solve_columns", &TileSizes::fewest_solve_columns},
      {"most_solve_columns", &TileSizes::most_solve_columns},
      {"solve", &TileSizes::solve},
      {"lone_solve", &TileSizes::lone_solve},
  };
  const auto changes_some_tiling = [](index_t TileSizes::*number, bool up) {
    for (const int devices : {1, 2, 4}) {
      runtime::Machine machine{.devices = devices, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
      runtime::Machine other = machine;
      other.tiles.*number = up ? 2 * machine.tiles.*number : machine.tiles.*number / 2;
      for (const Routine routine : {Routine::gemm, Routine::syrk, Routine::symm, Routine::trsm}) {
        for (const Side side : {Side::left, Side::right}) {
          for (const index_t n : {512, 1024, 2048, 4096, 8192, 16384}) {
            Level3 call = square_call(routine, n);
            call.side = side;
            for (const index_t rows : {n, n / 16}) {
              if (!call.updates_triangle()) call.m = rows;
              if (choose_tiling(shape_of(call), machine, 0) != choose_tiling(shape_of(call), other, 0)) return true;
            }
          }
        }
      }
    }
    return false;
  };
  for (const auto& [name, number] : numbers)
    EXPECT_TRUE(changes_some_tiling(number, true) || changes_some_tiling(number, false)) << name;
}

// Columns of 16384 doubles fill pages of 64 KiB; so they do pages of 128 KiB, but none of 192 KiB.
TEST(DeviceProfileModel, PairsOfTilesGoByItsPages) {
  runtime::Machine machine{.devices = 1, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
  const ProductShape shape = shape_of(square_call(Routine::trmm, 16384));
  EXPECT_EQ(machine.page_bytes, 65536);
  EXPECT_NE(choose_tiling(shape, machine, 0).skew_m, 0);
  machine.page_bytes = 131072;
  EXPECT_NE(choose_tiling(shape, machine, 0).skew_m, 0);
  machine.page_bytes = 196608;
  EXPECT_EQ(choose_tiling(shape, machine, 0).skew_m, 0);
}

TEST(DeviceProfileModel, RuntimesPlanByTheProfilesOfTheirDevices) {
  DeviceProfile profile = device::host_profile();
  profile.segment_bytes = 1024;
  profile.page_bytes = 4096;
  profile.share_bytes = 12345;
  profile.tiles.largest = 512;
  test::OpenedDevices opened = test::open_host_devices(2, {HostDeviceSettings{}}, nullptr, profile);
  for (const device::DeviceInfo& info : opened.backend->devices()) EXPECT_EQ(info.profile.share_bytes, 12345);
  Config config;
  config.device_memory_bytes = std::size_t{64} << 20;
  runtime::Runtime runtime(std::move(opened.accelerators), config, [](const Level3&) {});
  const runtime::Machine machine = runtime.machines(ScalarType::d).front();
  EXPECT_EQ(machine.segment_bytes, 1024);
  EXPECT_EQ(machine.page_bytes, 4096);
  EXPECT_EQ(machine.share_bytes, 12345);
  EXPECT_EQ(machine.tiles.largest, 512);
}

TEST(DeviceProfileModel, MeasuringTakesMemoryForItsLargestTiles) {
  DeviceProfile profile = device::gpu_profile(9, 0);
  EXPECT_EQ(runtime::most_measured_bytes(profile), std::size_t{320} << 20);
  profile.tiles.largest = 4096;
  EXPECT_EQ(runtime::most_measured_bytes(profile), std::size_t{1280} << 20);
  profile.tiles.largest = 128;  // the links need some
  EXPECT_EQ(runtime::most_measured_bytes(profile), std::size_t{128} << 20);
}

}  // namespace device_profile_model_test
}  // namespace tessera::routines
