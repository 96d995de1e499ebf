// Reads copies of the driver's folders in a temporary folder.
#include "core/gpu_list.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace gpu_list_test {

class GpuList : public ::testing::Test {
 protected:
  GpuList() : folder_(std::filesystem::path(testing::TempDir()) / ("gpu_list_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~GpuList() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  std::string folder() const { return folder_.string(); }

  std::filesystem::path folder_;
};

const std::vector<ListedGpu> three = {{"0000:1b:00.0", "A", "GPU-aa11", -1},
                                      {"0000:1c:00.0", "A", "GPU-ab22", -1},
                                      {"0001:00:00.0", "B", "GPU-cc33", -1}};

TEST_F(GpuList, IsInTheOrderOfAddresses) {
  write("gpus/0000:CB:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 33\nBus Type: \t PCIe\n");
  write(
      "gpus/0000:1b:00.0/information",
      "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-0a1b\nBus Location: \t 0000:1b:00.0\nDevice Minor: \t 3\n");
  std::filesystem::create_directories(folder_ / "gpus/0000:1c:00.0");
  const std::vector<ListedGpu> expected = {{"0000:1b:00.0", "NVIDIA H100 80GB HBM3", "GPU-0a1b", 3},
                                           {"0000:1c:00.0", "", "", -1},
                                           {"0000:cb:00.0", "NVIDIA H200", "", -1}};
  EXPECT_EQ(list_gpus(folder()), expected);
}

TEST_F(GpuList, IsEmptyWithoutADriver) {
  EXPECT_TRUE(list_gpus(folder()).empty());
  EXPECT_EQ(driver_version(folder()), "");
}

TEST_F(GpuList, KnowsTheVersionOfTheDriver) {
  write("version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@x)  Fri\n"
        "GCC version:  gcc version 12.2.0\n");
  EXPECT_EQ(driver_version(folder()), "580.159.04");
  write("version", "something else\n");
  EXPECT_EQ(driver_version(folder()), "");
}

TEST_F(GpuList, AProgramSeesWhatItsEnvironmentNames) {
  const auto seen = [](const char* visible) { return visible_gpus(three, visible); };
  EXPECT_EQ(seen(nullptr), three);
  EXPECT_EQ(seen("2,0"), (std::vector{three[2], three[0]}));
  EXPECT_EQ(seen(" 1 "), std::vector{three[1]});
  EXPECT_EQ(seen("GPU-ab,GPU-cc33"), (std::vector{three[1], three[2]}));
  EXPECT_EQ(seen(""), std::vector<ListedGpu>());
  EXPECT_EQ(seen("-1"), std::vector<ListedGpu>());
  EXPECT_EQ(seen("1,7,0"), std::vector{three[1]});
  EXPECT_EQ(seen("NoDevFiles"), std::vector<ListedGpu>());
  EXPECT_EQ(seen("MIG-GPU-aa11/1/0"), std::nullopt);
}

}  // namespace gpu_list_test
}  // namespace tessera
