// Rates that are kept between processes, what the offload decision makes of them, and what it learns by itself.
#include "blas_api/calibration_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "blas_api/context.hpp"
#include "blas_api/device_bias.hpp"
#include "core/error.hpp"

namespace tessera::api {
namespace {

std::vector<device::DeviceInfo> two_gpus() {
  device::DeviceInfo one;
  one.backend = "cuda";
  one.name = "a GPU";
  one.pci_bus_id = "0000:1b:00.0";
  device::DeviceInfo other = one;
  other.ordinal = 1;
  other.pci_bus_id = "0000:1c:00.0";
  return {one, other};
}

runtime::Calibration some_rates() {
  return {2, {1e12, 2e12, 3e12, 4e12}, {5e10, 6e10, 7e10}, {8e9, 9e9, 1e10}, 1.1e11};
}

/// A call that is large enough to be weighed.
struct Product {
  static constexpr index_t order = 512;
  std::vector<float> A = std::vector<float>(order * order, 1), B = A, C = std::vector<float>(order * order);
  Level3 call{.type = ScalarType::s,
              .m = order,
              .n = order,
              .k = order,
              .A = A.data(),
              .lda = order,
              .B = B.data(),
              .ldb = order,
              .C = C.data(),
              .ldc = order};
};

class CalibrationFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tessera_calibration_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(CalibrationFileTest, KeepsRates) {
  const CalibrationFile kept(file("new/folder/rates.json"), two_gpus(), 12);
  EXPECT_FALSE(kept.read());
  kept.write(some_rates());
  EXPECT_EQ(kept.read(), some_rates());
  runtime::Calibration others = some_rates();
  others.peer_bytes_per_s = 0;
  kept.write(others);
  EXPECT_EQ(kept.read(), others);
  // No drafts are left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "new/folder"), {}), 1);
}

TEST_F(CalibrationFileTest, BelongsToItsDevices) {
  CalibrationFile(file("rates"), two_gpus(), 12).write(some_rates());
  EXPECT_FALSE(CalibrationFile(file("rates"), two_gpus(), 11).read());
  std::vector<device::DeviceInfo> others = two_gpus();
  others.pop_back();
  EXPECT_FALSE(CalibrationFile(file("rates"), others, 12).read());
  others = two_gpus();
  others[1].name = "another GPU";
  EXPECT_FALSE(CalibrationFile(file("rates"), others, 12).read());
  EXPECT_TRUE(CalibrationFile(file("rates"), two_gpus(), 12).read());
}

TEST_F(CalibrationFileTest, WhatCannotBeReadIsNotThere) {
  const CalibrationFile kept(file("rates"), two_gpus(), 12);
  for (const char* text : {"", "{}", "[1, 2", "{\"format\": 1, \"machine\": 3}", "null"}) {
    std::ofstream(file("rates")) << text;
    EXPECT_FALSE(kept.read()) << text;
  }
  // A rate that is missing.
  kept.write(some_rates());
  std::string text;
  std::getline(std::ifstream(file("rates")), text, '\0');
  text.replace(text.find("\"peer_"), 6, "\"pear_");
  std::ofstream(file("rates")) << text;
  EXPECT_FALSE(kept.read());
  EXPECT_FALSE(CalibrationFile(folder_.string(), two_gpus(), 12).read());
}

// They would count as unlimited.
TEST_F(CalibrationFileTest, RatesThatCannotBeAreNotBelieved) {
  const CalibrationFile kept(file("rates"), two_gpus(), 12);
  for (const double wrong : {0.0, -1.0}) {
    runtime::Calibration rates = some_rates();
    rates.flops_per_s[2] = wrong;
    kept.write(rates);
    EXPECT_FALSE(kept.read());
    rates = some_rates();
    rates.pageable.both = wrong;
    kept.write(rates);
    EXPECT_FALSE(kept.read());
  }
  runtime::Calibration rates = some_rates();
  rates.page_locked = {};  // not measured
  rates.peer_bytes_per_s = 0;
  kept.write(rates);
  EXPECT_EQ(kept.read(), rates);
  rates.devices = 3;
  kept.write(rates);
  EXPECT_FALSE(kept.read());
}

TEST_F(CalibrationFileTest, LivesInTheCacheOfTheUser) {
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  const CalibrationFile kept("", two_gpus(), 12);
  EXPECT_EQ(kept.path().rfind((folder_ / "tessera/calibration-").string(), 0), 0u) << kept.path();
  EXPECT_NE(kept.path(), CalibrationFile("", two_gpus(), 11).path());
  kept.write(some_rates());
  EXPECT_EQ(kept.read(), some_rates());
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  setenv("HOME", folder_.c_str(), 1);
  EXPECT_EQ(CalibrationFile("", two_gpus(), 12).path().rfind((folder_ / ".cache/tessera/").string(), 0), 0u);
  unsetenv("HOME");
  EXPECT_EQ(CalibrationFile("", two_gpus(), 12).path(), "");
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(CalibrationFileTest, WithoutAPlaceNothingIsWritten) {
  EXPECT_FALSE(CalibrationFile("off", two_gpus(), 12).read());
  EXPECT_THROW(CalibrationFile("off", two_gpus(), 12).write(some_rates()), NotAvailable);
  std::ofstream(file("plain")) << "a file where a folder should be";
  EXPECT_THROW(CalibrationFile(file("plain") + "/rates", two_gpus(), 12).write(some_rates()), NotAvailable);
}

TEST_F(CalibrationFileTest, DecidesWhereCallsRun) {
  const std::string settings = "TESSERA_DEVICES=host:1 TESSERA_CALIBRATION=" + file("rates");
  Product product;
  const auto runs_on_devices = [&] {
    Context context(Config::from_settings(settings));
    return context.run(product.call).has_value();
  };
  runtime::Calibration rates;
  {
    Context context(Config::from_settings(settings));
    rates = context.calibrate().second;
  }
  // The file as it is, with rates that leave no doubt.
  const auto pretend = [&](double flops_per_s) {
    rates.flops_per_s.fill(flops_per_s);
    rates.pageable = rates.page_locked = {1e15, 1e15, 1e15};
    Context context(Config::from_settings(settings));
    std::vector<device::DeviceInfo> devices;
    for (const device::Device* device : context.runtime()->devices()) devices.push_back(device->info());
    CalibrationFile(file("rates"), devices, 0).write(rates);
  };
  pretend(1e6);
  EXPECT_FALSE(runs_on_devices());
  EXPECT_EQ(product.C[0], Product::order);
}

TEST_F(CalibrationFileTest, KnowsWhetherItsPlaceIsFree) {
  EXPECT_TRUE(CalibrationFile(file("rates"), two_gpus(), 12).is_free());
  EXPECT_TRUE(CalibrationFile(file("a/b/rates"), two_gpus(), 12).is_free());
  EXPECT_FALSE(std::filesystem::exists(file("a")));
  EXPECT_FALSE(CalibrationFile("off", two_gpus(), 12).is_free());
  std::ofstream(file("plain")) << "somebody else's";
  EXPECT_FALSE(CalibrationFile(file("plain"), two_gpus(), 12).is_free());
  EXPECT_FALSE(CalibrationFile(file("plain/rates"), two_gpus(), 12).is_free());
  std::filesystem::create_directory(file("folder"));
  EXPECT_FALSE(CalibrationFile(file("folder"), two_gpus(), 12).is_free());
}

// Once: whoever comes later reads what the first one has found out.
TEST_F(CalibrationFileTest, IsWrittenByTheFirstCallThatIsWeighed) {
  Product product;
  const auto run_with = [&](const std::string& more) {
    Context context(
        Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_CALIBRATION=" + file("a/rates") + " " + more));
    context.run(product.call);
  };
  Context opened(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_CALIBRATION=" + file("a/rates")));
  ASSERT_NE(opened.runtime(), nullptr);
  run_with("TESSERA_OFFLOAD=always");  // needs no rates
  run_with("TESSERA_SHARE=0/2");       // would measure beside another rank
  EXPECT_FALSE(std::filesystem::exists(file("a")));
  opened.warm_up();
  ASSERT_TRUE(std::filesystem::exists(file("a/rates")));
  const auto written = std::filesystem::last_write_time(file("a/rates"));
  run_with("");
  run_with("TESSERA_HOST_DEVICE=speed=1TFLOP/s");  // other devices: the file is not theirs
  EXPECT_EQ(std::filesystem::last_write_time(file("a/rates")), written);
}

TEST(DeviceBias, IsBelievedFromTheSecondCallOn) {
  DeviceBias bias;
  constexpr index_t volume = 1 << 27;
  EXPECT_EQ(bias.of(volume), 1);
  bias.record(volume, 50);  // loads kernels
  EXPECT_EQ(bias.of(volume), 1);
  bias.record(volume, 6);
  EXPECT_EQ(bias.of(volume), 6);
  EXPECT_EQ(bias.of(volume * 64), 1);  // another class
  bias.record(volume, 14);
  EXPECT_EQ(bias.of(volume), 7);
  bias.record(volume, 3);
  EXPECT_EQ(bias.of(volume), 5);
}

TEST(DeviceBias, IsForgottenWhenCallsStayAway) {
  DeviceBias bias;
  constexpr index_t volume = 1 << 27;
  for (int i = 0; i < 2; ++i) bias.record(volume, 6);
  for (int i = 1; i < DeviceBias::lifetime; ++i) bias.passed_over(volume);
  EXPECT_EQ(bias.of(volume), 6);
  bias.passed_over(volume);
  EXPECT_EQ(bias.of(volume), 1);
  bias.passed_over(volume);  // nothing is known, nothing to forget
  for (int i = 0; i < 2; ++i) bias.record(volume, 4);
  EXPECT_EQ(bias.of(volume), 4);
}

TEST(DeviceBias, HasAClassForEveryVolume) {
  DeviceBias bias;
  for (index_t volume = 0; volume >= 0; volume = volume < 2 ? volume + 1 : volume * 2) {
    for (int i = 0; i < 2; ++i) bias.record(volume, 2);
    EXPECT_EQ(bias.of(volume), 2);
    if (volume > (index_t{1} << 62) - 1) break;
  }
  bias.record(std::numeric_limits<index_t>::max(), 2);
}

}  // namespace
}  // namespace tessera::api
