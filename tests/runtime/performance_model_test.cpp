// The arithmetic of the performance model, and the measurement that gives it rates.
#include "runtime/performance_model.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.hpp"
#include "runtime/devices/calibration.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"

namespace tessera::runtime {
namespace performance_model_test {

constexpr LinkRates links = {50e9, 40e9, 60e9};

TEST(PerformanceModel, TheBoundIsTheLongestOfItsTerms) {
  EXPECT_DOUBLE_EQ(bound_seconds({1e12, 0, 0}, 1e12, links), 1);
  EXPECT_DOUBLE_EQ(bound_seconds({1e11, 50e9, 0}, 1e12, links), 1);
  EXPECT_DOUBLE_EQ(bound_seconds({1e11, 0, 40e9}, 1e12, links), 1);
  EXPECT_DOUBLE_EQ(bound_seconds({1e11, 40e9, 38e9}, 1e12, links), 1.3);  // both directions together are what is short
}

TEST(PerformanceModel, WhatIsNotKnownCostsNothing) {
  EXPECT_DOUBLE_EQ(bound_seconds({1e12, 1e9, 1e9}, 0, {}), 0);
  EXPECT_DOUBLE_EQ(expected_seconds({1e12, 1e9, 1e9}, 1e12, {}), 1);
}

TEST(PerformanceModel, AQuarterOfTheShorterOneIsNotHidden) {
  EXPECT_DOUBLE_EQ(expected_seconds({1e12, 25e9, 0}, 1e12, links), 1 + 0.5 / 4);
  EXPECT_DOUBLE_EQ(expected_seconds({1e12, 100e9, 0}, 1e12, links), 2 + 1.0 / 4);
}

class Calibrating : public ::testing::TestWithParam<test::BackendParam> {};

void expect_rates(const Calibration& rates, bool peers) {
  for (const ScalarType type : scalar_types) EXPECT_GT(rates.flops_per_s[type], 0) << letter(type);
  EXPECT_GT(rates.pageable.up, 0);
  EXPECT_GT(rates.pageable.down, 0);
  EXPECT_GT(rates.pageable.both, 0);
  EXPECT_EQ(rates.peer_bytes_per_s > 0, peers);
}

TEST_P(Calibrating, FindsARateForEverything) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const std::size_t devices = opened.size();
  const bool peers = devices > 1 && opened.device(0).can_access(opened.device(1));
  Config config;
  config.device_memory_bytes = std::size_t{256} << 20;
  Runtime runtime(std::move(opened.accelerators), config, [](const Level3&) {});
  const Calibration rates = runtime.calibrate();
  EXPECT_EQ(rates.devices, static_cast<int>(devices));
  expect_rates(rates, peers);
  EXPECT_EQ(rates.page_locked.up > 0, GetParam().copy_threads == 0);
  runtime.warm_up();
}
TESSERA_INSTANTIATE_BACKENDS(Calibrating);

// Modelled time is a lower bound of the time that is measured.
TEST(Calibration, FindsNoMoreThanWhatDevicesAreModelledToDo) {
  HostDeviceSettings settings;
  settings.memory_bytes = std::size_t{8} << 20;
  settings.flops_per_s = 20e9;
  settings.compute = false;
  settings.link_bytes_per_s = 1e9;
  settings.peer_bytes_per_s = 2e9;
  auto opened = test::open_host_devices(3, {settings});
  Runtime runtime(std::move(opened.accelerators), Config{}, [](const Level3&) {});
  const Calibration rates = runtime.calibrate();
  expect_rates(rates, true);
  constexpr double rounding = 1.01;
  for (const ScalarType type : scalar_types) EXPECT_LE(rates.flops_per_s[type], rounding * 3 * 20e9);
  for (const LinkRates& one : {rates.page_locked, rates.pageable}) {
    EXPECT_LE(one.up, rounding * 3e9);
    EXPECT_LE(one.down, rounding * 3e9);
    EXPECT_LE(one.both, rounding * 6e9);
  }
  EXPECT_LE(rates.peer_bytes_per_s, rounding * 2e9);
}

TEST(Calibration, DevicesMayDifferAndLinksBeSlow) {
  HostDeviceSettings large;
  large.compute = false;
  large.flops_per_s = 50e9;
  HostDeviceSettings small = large;
  small.memory_bytes = std::size_t{5} << 20;
  small.link_bytes_per_s = 30e6;
  auto opened = test::open_host_devices(2, {large, small});
  Runtime runtime(std::move(opened.accelerators), Config{}, [](const Level3&) {});
  expect_rates(runtime.calibrate(), true);
  runtime.warm_up();
}

TEST(Calibration, ADeviceThatFailsOrIsTooSmallIsReported) {
  for (const std::int64_t failing : {0, 3, 20, 60}) {
    HostDeviceSettings good;
    good.memory_bytes = std::size_t{8} << 20;
    good.compute = false;
    HostDeviceSettings bad = good;
    bad.fail_after_ops = failing;
    auto opened = test::open_host_devices(2, {good, bad});
    Runtime runtime(std::move(opened.accelerators), Config{}, [](const Level3&) {});
    EXPECT_THROW(static_cast<void>(runtime.calibrate()), DeviceLost) << failing;
  }
  HostDeviceSettings tiny;
  tiny.memory_bytes = std::size_t{1} << 20;
  auto opened = test::open_host_devices(1, {tiny});
  Runtime runtime(std::move(opened.accelerators), Config{}, [](const Level3&) {});
  EXPECT_THROW(static_cast<void>(runtime.calibrate()), OutOfDeviceMemory);
}

}  // namespace performance_model_test
}  // namespace tessera::runtime
