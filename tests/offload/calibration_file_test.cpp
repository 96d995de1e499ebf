// Rates that are kept between processes, what the offload decision makes of them, and what it learns by itself.
#include "offload/calibration_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "offload/context.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera::offload {
namespace calibration_file_test {

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

MachineRecord some_record() {
  MachineRecord record;
  record.rates = runtime::Calibration{2, {1e12, 2e12, 3e12, 4e12}, {5e10, 6e10, 7e10}, {8e9, 9e9, 1e10}, 1.1e11};
  record.start_up_s = 0.25;
  return record;
}

CalibrationFile file_of(const std::string& path, const std::vector<device::DeviceInfo>& devices = two_gpus(),
                        int copy_threads = 12, const std::string& driver = "580.1") {
  return {path, devices, copy_threads, driver};
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
  std::string file(const char* name) const { return own_.path(name); }

  const test::TemporaryFolder own_;
  const std::filesystem::path folder_ = own_.path();
};

TEST_F(CalibrationFileTest, KeepsWhatWasLearnt) {
  const CalibrationFile kept = file_of(file("new/folder/rates.json"));
  EXPECT_FALSE(kept.read());
  kept.write(some_record());
  EXPECT_EQ(kept.read(), some_record());
  MachineRecord others;  // the time of start-up is known first
  others.start_up_s = 1;
  kept.write(others);
  EXPECT_EQ(kept.read(), others);
  // No drafts are left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "new/folder"), {}), 1);
}

TEST_F(CalibrationFileTest, BelongsToItsDevices) {
  file_of(file("rates")).write(some_record());
  std::vector<device::DeviceInfo> others = two_gpus();
  EXPECT_FALSE(file_of(file("rates"), others, 11).read());
  EXPECT_FALSE(file_of(file("rates"), others, 12, "580.2").read());
  others.pop_back();
  EXPECT_FALSE(file_of(file("rates"), others).read());
  others = two_gpus();
  others[1].name = "another GPU";
  EXPECT_FALSE(file_of(file("rates"), others).read());
  // The order in which they are numbered is nobody's property.
  others = two_gpus();
  std::swap(others[0], others[1]);
  others[0].ordinal = 0;
  EXPECT_TRUE(file_of(file("rates"), others).read());
}

TEST_F(CalibrationFileTest, WhatCannotBeReadIsNotThere) {
  const CalibrationFile kept = file_of(file("rates"));
  for (const char* text : {"", "{}", "[1, 2", "{\"format\": 2, \"machine\": 3}", "null"}) {
    std::ofstream(file("rates")) << text;
    EXPECT_FALSE(kept.read()) << text;
  }
  // A rate that is missing.
  kept.write(some_record());
  std::string text;
  std::getline(std::ifstream(file("rates")), text, '\0');
  text.replace(text.find("\"peer_"), 6, "\"pear_");
  std::ofstream(file("rates")) << text;
  EXPECT_FALSE(kept.read());
  EXPECT_FALSE(file_of(folder_.string()).read());
}

// They would count as unlimited.
TEST_F(CalibrationFileTest, RatesThatCannotBeAreNotBelieved) {
  const CalibrationFile kept = file_of(file("rates"));
  const auto is_believed = [&](const std::function<void(MachineRecord&)>& change) {
    MachineRecord record = some_record();
    change(record);
    kept.write(record);
    return kept.read() == record;
  };
  for (const double wrong : {0.0, -1.0}) {
    EXPECT_FALSE(is_believed([&](MachineRecord& r) { r.rates->flops_per_s[ScalarType::c] = wrong; }));
    EXPECT_FALSE(is_believed([&](MachineRecord& r) { r.rates->pageable.both = wrong; }));
  }
  EXPECT_FALSE(is_believed([](MachineRecord& r) { r.rates->devices = 3; }));
  EXPECT_FALSE(is_believed([](MachineRecord& r) { r.start_up_s = -1; }));
  EXPECT_TRUE(is_believed([](MachineRecord& r) {  // not measured
    r.rates->page_locked = {};
    r.rates->peer_bytes_per_s = 0;
  }));
}

TEST_F(CalibrationFileTest, LivesInTheCacheOfTheUser) {
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  const CalibrationFile kept = file_of("");
  EXPECT_EQ(kept.path().rfind((folder_ / "tessera/calibration-").string(), 0), 0u) << kept.path();
  EXPECT_NE(kept.path(), file_of("", two_gpus(), 11).path());
  kept.write(some_record());
  EXPECT_EQ(kept.read(), some_record());
  // There, what is of no use is replaced.
  std::ofstream(kept.path()) << "cut in the mid";
  EXPECT_EQ(kept.obstacle(), "");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  setenv("HOME", folder_.c_str(), 1);
  EXPECT_EQ(file_of("").path().rfind((folder_ / ".cache/tessera/").string(), 0), 0u);
  unsetenv("HOME");
  EXPECT_EQ(file_of("").path(), "");
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(CalibrationFileTest, WithoutAPlaceNothingIsWritten) {
  EXPECT_FALSE(file_of("off").read());
  EXPECT_NE(file_of("off").obstacle(), "");
  EXPECT_THROW(file_of("off").write(some_record()), NotAvailable);
  std::ofstream(file("plain")) << "a file where a folder should be";
  EXPECT_THROW(file_of(file("plain") + "/rates").write(some_record()), NotAvailable);
}

TEST_F(CalibrationFileTest, TellsWhatIsInItsWay) {
  EXPECT_EQ(file_of(file("rates")).obstacle(), "");
  EXPECT_EQ(file_of(file("a/b/rates")).obstacle(), "");
  EXPECT_FALSE(std::filesystem::exists(file("a")));
  std::ofstream(file("plain")) << "somebody else's";
  EXPECT_EQ(file_of(file("plain")).obstacle(), "it is no calibration file");
  EXPECT_NE(file_of(file("plain/rates")).obstacle(), "");
  std::filesystem::create_directory(file("folder"));
  EXPECT_NE(file_of(file("folder")).obstacle(), "");
  // Through a link one could be made to overwrite what is not ours.
  file_of(file("rates")).write(some_record());
  std::filesystem::create_symlink(file("rates"), file("link"));
  EXPECT_NE(file_of(file("link")).obstacle(), "");
  // A file that was named is ours if it is of this machine, also where it is of an older format.
  EXPECT_EQ(file_of(file("rates")).obstacle(), "");
  EXPECT_EQ(file_of(file("rates"), two_gpus(), 12, "a newer driver").obstacle(), "");
  EXPECT_EQ(file_of(file("rates"), {two_gpus()[1]}).obstacle(), "it belongs to other devices");
  std::string text;
  std::getline(std::ifstream(file("rates")), text, '\0');
  text.replace(text.find("\"format\": "), 11, "\"format\": 9");
  std::ofstream(file("rates")) << text;
  EXPECT_FALSE(file_of(file("rates")).read());
  EXPECT_EQ(file_of(file("rates")).obstacle(), "");
}

TEST_F(CalibrationFileTest, ManyWriteAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) file_of(file("rates")).write(some_record());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(file_of(file("rates")).read(), some_record());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
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
    rates.flops_per_s = flops_per_s;
    rates.pageable = rates.page_locked = {1e15, 1e15, 1e15};
    Context context(Config::from_settings(settings));
    std::vector<device::DeviceInfo> devices;
    for (const device::Device* device : context.runtime()->devices()) devices.push_back(device->info());
    MachineRecord record;
    record.rates = rates;
    // As the context itself counts its copy threads.
    const int threads = context.config().copy_threads_of(1, CpuSpeed::available_processors(1), 12, 4);
    file_of(file("rates"), devices, threads, "").write(record);
  };
  pretend(1e6);
  EXPECT_FALSE(runs_on_devices());
  EXPECT_EQ(product.C[0], Product::order);
}

bool is_measured(const std::string& file) {
  std::string text;
  std::getline(std::ifstream(file), text, '\0');
  return text.find("\"rates\"") != std::string::npos;
}

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 30000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

// Once: whoever comes later reads what the first one has found out.
TEST_F(CalibrationFileTest, IsWrittenInAPauseAfterTheFirstJob) {
  Product product;
  const std::string named = "TESSERA_DEVICES=host:1 TESSERA_CALIBRATION=" + file("a/rates") + " ";
  const auto run_with = [&](const std::string& more) {
    Context context(Config::from_settings(named + more));
    context.run(product.call);
  };
  run_with("TESSERA_OFFLOAD=always");                               // needs no rates
  run_with("TESSERA_SHARE=0/2 TESSERA_OFFLOAD=auto,dgemm=always");  // would measure beside another rank
  EXPECT_FALSE(std::filesystem::exists(file("a")));

  Context context(Config::from_settings(named + "TESSERA_OFFLOAD=auto,sgemm=always"));
  EXPECT_TRUE(context.run(product.call).has_value());
  EXPECT_TRUE(comes_true([&] { return is_measured(file("a/rates")); }));
  const auto written = std::filesystem::last_write_time(file("a/rates"));
  run_with(
      "TESSERA_HOST_DEVICE=speed=1TFLOP/s TESSERA_OFFLOAD=auto,sgemm=always");  // other devices: the file is not theirs
  Context again(Config::from_settings(named));
  again.warm_up();
  EXPECT_EQ(std::filesystem::last_write_time(file("a/rates")), written);
}

/// The text on standard error of a context that computes, measures and ends.
std::string told_with(const std::string& calibration) {
  testing::internal::CaptureStderr();
  {
    Product product;
    Context context(
        Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=auto,sgemm=always TESSERA_VERBOSE=1 "
                              "TESSERA_CALIBRATION=" +
                              calibration));
    EXPECT_TRUE(context.run(product.call).has_value());
    context.warm_up();
  }
  return testing::internal::GetCapturedStderr();
}

TEST_F(CalibrationFileTest, OffIsNoFileThatCouldNotBeWritten) {
  EXPECT_EQ(told_with("off").find("is not kept"), std::string::npos);
}

TEST_F(CalibrationFileTest, TellsOnceThatAFileCannotBeWritten) {
  std::ofstream(file("plain")) << "a file where a folder should be";
  const std::string told = told_with(file("plain") + "/rates") + told_with(file("plain") + "/rates");
  const std::size_t first = told.find("is not kept: ");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(told.find("is not kept: ", first + 1), std::string::npos) << told;
}

TEST_F(CalibrationFileTest, IsWrittenByAWarmUp) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_CALIBRATION=" + file("a/rates")));
  context.warm_up();
  EXPECT_TRUE(is_measured(file("a/rates")));
}

}  // namespace calibration_file_test
}  // namespace tessera::offload
