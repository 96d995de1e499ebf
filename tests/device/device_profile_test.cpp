// The numbers that depend on a machine: those of the GPU on which they were measured, and rules that hold for all.
#include "device/device_profile.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "core/config.hpp"
#include "device/host/host_device.hpp"

namespace tessera::device {
namespace device_profile_test {

std::vector<DeviceProfile> all_profiles() {
  const auto known = known_gpu_profiles();
  std::vector<DeviceProfile> all(known.begin(), known.end());
  all.push_back(gpu_profile(7, 5));
  all.push_back(host_profile());
  return all;
}

bool is_power_of_two(index_t value) { return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value)); }

/// docs/performance and docs/adr have the measurements; a change of a number here needs a new measurement.
TEST(DeviceProfile, HopperHasWhatWasMeasured) {
  const DeviceProfile p = gpu_profile(9, 0);
  EXPECT_TRUE(p.measured);
  EXPECT_EQ(p.compute_capability, 90);
  EXPECT_EQ(p.flops_per_clock, 256);
  EXPECT_EQ(p.attained_part, 0.9);
  EXPECT_EQ(p.link_part, 0.85);
  EXPECT_EQ(p.segment_bytes, 32768);
  EXPECT_EQ(p.page_bytes, 65536);
  EXPECT_EQ(p.share_bytes, 40 << 20);
  EXPECT_EQ(p.link_queue_bytes, 32 << 20);
  EXPECT_NEAR(p.page_lock_bytes_per_s, 14.67e9, 0.01e9);
  EXPECT_EQ(p.triangle_cut.strip_columns, 256);
  EXPECT_EQ(p.triangle_cut.least_rectangle_bytes, 16384);
  EXPECT_EQ(p.scattered.column_bytes, 20480);
  EXPECT_EQ(p.scattered.pitches, 6);
  EXPECT_EQ(p.scattered.least_bytes, 1 << 20);
  EXPECT_EQ(p.triangle_blocks.up, 6);
  EXPECT_EQ(p.triangle_blocks.down, 2);
  EXPECT_EQ(p.triangle_blocks.down_beside, 1);
  EXPECT_EQ(p.triangle_blocks.peer, 16);
  EXPECT_EQ(p.staging.slot_bytes, 4 << 20);
  EXPECT_EQ(p.staging.slots, 8);
  EXPECT_EQ(p.staging.share_bytes, 512 << 10);
  EXPECT_EQ(p.staging.most_threads, 12);
  EXPECT_EQ(p.staging.fewest_threads, 4);
  EXPECT_EQ(p.staging.most_up, 0.75);
  EXPECT_EQ(p.staging.most_down, 0.5);
  EXPECT_EQ(p.staging.most_alone, 0.67);
  EXPECT_EQ(p.staging.thread_bytes_per_s, 4e9);
  EXPECT_EQ(p.staging.chunk_bytes, 4 << 20);
  EXPECT_EQ(p.memory_chunk_bytes, 256u << 20);
  EXPECT_EQ(p.start_up_s, 0.25);
  EXPECT_EQ(p.further_start_up_s, 0.1);
  EXPECT_EQ(p.call_overhead_s, 600e-6);
  EXPECT_EQ(p.backlog_s, 2e-3);
  EXPECT_EQ(p.short_kernel_s, 1e-4);
  EXPECT_EQ(p.ranked_kernel_s, 2e-4);
  EXPECT_EQ(p.tiles.largest, 2048);
  EXPECT_EQ(p.tiles.smallest, 256);
  EXPECT_EQ(p.tiles.smallest_tied, 500);
  EXPECT_EQ(p.tiles.smallest_halved, 1500);
  EXPECT_EQ(p.tiles.narrowest, 128);
  EXPECT_EQ(p.tiles.task, 1 << 20);
  EXPECT_EQ(p.tiles.lone_task, 1 << 21);
  EXPECT_EQ(p.tiles.fewest_solve_columns, 512);
  EXPECT_EQ(p.tiles.most_solve_columns, 1024);
  EXPECT_EQ(p.tiles.solve, 1 << 18);
  EXPECT_EQ(p.tiles.lone_solve, 1 << 19);
  EXPECT_EQ(p.dgemm.least_fill, 0.8);
  EXPECT_EQ(p.dgemm.least_sum, 1024);
  EXPECT_EQ(p.most_narrow_solve_columns, 1024);
  // An H200: nominally 66.9 TFLOP/s in double precision, by its tensor cores.
  EXPECT_NEAR(matrix_rates(p, 132, 1.98e9)[ScalarType::d], 60.2e12, 0.1e12);
}

TEST(DeviceProfile, NumbersOfAllProfilesMakeSense) {
  std::set<int> capabilities;
  for (const DeviceProfile& p : all_profiles()) {
    SCOPED_TRACE(p.architecture);
    const bool host = p.start_up_s == 0;
    if (p.compute_capability != 0) {
      EXPECT_TRUE(capabilities.insert(p.compute_capability).second);
    }
    for (const double rate : p.flops_per_clock) EXPECT_EQ(rate > 0, !host);
    EXPECT_LE(p.flops_per_clock[ScalarType::d], p.flops_per_clock[ScalarType::s]);
    EXPECT_EQ(p.flops_per_clock[ScalarType::z], p.flops_per_clock[ScalarType::d]);
    for (const double part : {p.attained_part, p.link_part, p.dgemm.least_fill}) {
      EXPECT_GT(part, 0);
      EXPECT_LE(part, 1);
    }
    if (!host) {
      EXPECT_TRUE(is_power_of_two(p.segment_bytes));
      EXPECT_TRUE(is_power_of_two(p.page_bytes));
      EXPECT_LE(p.segment_bytes, p.page_bytes);
      EXPECT_GT(p.share_bytes, 0);
      EXPECT_GT(p.page_lock_bytes_per_s, 0);
    }
    EXPECT_GT(p.link_queue_bytes, 0);
    // Kernels find a column's strip by its bits.
    EXPECT_TRUE(is_power_of_two(p.triangle_cut.strip_columns));
    EXPECT_GT(p.triangle_cut.least_rectangle_bytes, 0);
    for (const int blocks :
         {p.triangle_blocks.up, p.triangle_blocks.down, p.triangle_blocks.down_beside, p.triangle_blocks.peer})
      EXPECT_GT(blocks, 0);
    EXPECT_TRUE(is_power_of_two(p.staging.slot_bytes));
    EXPECT_GT(p.staging.slots, 0);
    EXPECT_GT(p.staging.share_bytes, 0);
    for (const double most : {p.staging.most_up, p.staging.most_down, p.staging.most_alone}) {
      EXPECT_GT(most, 0);
      EXPECT_LE(most, 1);
    }
    EXPECT_GT(p.staging.thread_bytes_per_s, 0);
    EXPECT_GT(p.staging.chunk_bytes, 0);
    EXPECT_GT(p.staging.fewest_threads, 0);
    EXPECT_LE(p.staging.fewest_threads, p.staging.most_threads);
    // A multiple of the drivers' mapping granularity.
    EXPECT_TRUE(is_power_of_two(static_cast<index_t>(p.memory_chunk_bytes)));
    EXPECT_GE(p.memory_chunk_bytes, std::size_t{2} << 20);
    EXPECT_GT(p.call_overhead_s, 0);
    EXPECT_GT(p.backlog_s, p.ranked_kernel_s);
    EXPECT_GE(p.ranked_kernel_s, p.short_kernel_s);
    EXPECT_GT(p.short_kernel_s, 0);
    for (const index_t side : {p.tiles.largest, p.tiles.smallest, p.tiles.narrowest, p.tiles.fewest_solve_columns,
                               p.tiles.most_solve_columns})
      EXPECT_TRUE(is_power_of_two(side));
    EXPECT_LE(p.tiles.narrowest, p.tiles.smallest);
    EXPECT_LT(p.tiles.smallest, p.tiles.smallest_tied);
    EXPECT_LT(p.tiles.smallest_tied, p.tiles.smallest_halved);
    EXPECT_LT(p.tiles.smallest_halved, p.tiles.largest);
    EXPECT_LE(p.tiles.fewest_solve_columns, p.tiles.most_solve_columns);
    EXPECT_LE(p.tiles.narrowest, p.tiles.fewest_solve_columns);
    EXPECT_GT(p.tiles.task, 0);
    EXPECT_GE(p.tiles.lone_task, p.tiles.task);
    EXPECT_GT(p.tiles.solve, 0);
    EXPECT_GE(p.tiles.lone_solve, p.tiles.solve);
    EXPECT_GT(p.dgemm.least_sum, 0);
    EXPECT_GT(p.most_narrow_solve_columns, 0);
  }
}

TEST(DeviceProfile, WhatTheTableDoesNotKnowHasTheDefault) {
  const DeviceProfile unknown = gpu_profile(99, 0, 2);
  EXPECT_FALSE(unknown.measured);
  EXPECT_EQ(unknown.compute_capability, 0);
  EXPECT_EQ(unknown.flops_per_clock, RatesByType(256, 128));
  EXPECT_EQ(gpu_profile(99, 0).flops_per_clock, RatesByType(256, 4));
  EXPECT_EQ(gpu_profile(99, 0, 0).flops_per_clock, RatesByType(256, 256));  // the driver gave no ratio
  // All its unknown numbers are those measured on another GPU.
  const auto rest_of = [](const DeviceProfile& profile) {
    auto numbers = numbers_of(profile);
    numbers.erase(numbers.begin(), numbers.begin() + 4);
    return numbers;
  };
  EXPECT_EQ(rest_of(unknown), rest_of(gpu_profile(9, 0)));
  // An unknown minor version is another GPU.
  EXPECT_EQ(gpu_profile(9, 9).compute_capability, 0);
}

TEST(DeviceProfile, OnlyOneIsMeasured) {
  for (const DeviceProfile& profile : known_gpu_profiles())
    EXPECT_EQ(profile.measured, profile.compute_capability == 90) << profile.architecture;
}

// Nominal TFLOP/s: A100 19.5 in either precision, RTX 4090 82.6 and 1.29, B200 74 and 37, B300 1.3 in double precision.
TEST(DeviceProfile, RatesAreThoseOfTheDataSheets) {
  const auto on_paper = [](int major, int minor, int multiprocessors, double clock_hz) {
    DeviceProfile profile = gpu_profile(major, minor);
    profile.attained_part = 1;
    return matrix_rates(profile, multiprocessors, clock_hz);
  };
  EXPECT_NEAR(on_paper(8, 0, 108, 1.41e9)[ScalarType::d], 19.5e12, 0.1e12);
  EXPECT_NEAR(on_paper(8, 0, 108, 1.41e9)[ScalarType::c], 19.5e12, 0.1e12);
  EXPECT_NEAR(on_paper(8, 9, 128, 2.52e9)[ScalarType::s], 82.6e12, 0.1e12);
  EXPECT_NEAR(on_paper(8, 9, 128, 2.52e9)[ScalarType::z], 1.29e12, 0.01e12);
  EXPECT_NEAR(on_paper(10, 0, 148, 1.965e9)[ScalarType::s], 74.4e12, 0.1e12);
  EXPECT_NEAR(on_paper(10, 0, 148, 1.965e9)[ScalarType::d], 37.2e12, 0.1e12);
  EXPECT_NEAR(on_paper(10, 3, 160, 1.95e9)[ScalarType::d], 1.25e12, 0.1e12);
}

TEST(DeviceProfile, EveryNumberHasItsName) {
  std::set<std::string> names;
  for (const auto& [name, number] : numbers_of(gpu_profile(9, 0))) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(std::isfinite(number)) << name;
  }
  EXPECT_EQ(names.size(), 51U);
}

TEST(HostDeviceProfile, IsTheGivenOneButForWhatSettingsSay) {
  HostDeviceSettings settings;
  EXPECT_EQ(HostDevice(0, settings).info().profile.segment_bytes, 0);
  EXPECT_EQ(HostDevice(0, settings).info().profile.page_lock_bytes_per_s, 0);
  DeviceProfile given = gpu_profile(9, 0);
  given.link_queue_bytes = 12345;
  const DeviceProfile taken = HostDevice(0, settings, given).info().profile;
  EXPECT_EQ(numbers_of(taken), numbers_of(given));
  settings.segment_bytes = 4096;
  settings.share_bytes = 1 << 20;
  settings.start_s = 0.5;
  const DeviceProfile set = HostDevice(0, settings, given).info().profile;
  EXPECT_EQ(set.segment_bytes, 4096);
  EXPECT_EQ(set.page_bytes, 8192);
  EXPECT_EQ(set.share_bytes, 1 << 20);
  EXPECT_EQ(set.start_up_s, 0.5);
  EXPECT_EQ(set.link_queue_bytes, 12345);
}

TEST(RatesByType, OneForAllTwoPrecisionsOrEach) {
  EXPECT_EQ(RatesByType(3), RatesByType(3, 3, 3, 3));
  EXPECT_EQ(RatesByType(3, 5), RatesByType(3, 5, 3, 5));
  RatesByType rates;
  rates[ScalarType::c] = 7;
  EXPECT_EQ(rates, RatesByType(0, 0, 7, 0));
}

}  // namespace device_profile_test
}  // namespace tessera::device
