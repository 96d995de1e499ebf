// The decisions of devices and of the CPU to take a task or to leave it to others.
#include "runtime/tiles/load_balance.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace tessera::runtime {
namespace load_balance_test {

TEST(LoadBalance, TakesWhileMuchIsLeft) {
  const std::vector<DeviceLoad> loads = {{100, 10}, {100, 1}};
  EXPECT_TRUE(should_take(loads, 0, 10, 1e6));
  EXPECT_TRUE(should_take(loads, 1, 10, 1e6));
}

TEST(LoadBalance, ASlowDeviceLeavesTheLastTasksToFasterOnes) {
  // Alone the slow one needs 25, the fast one with its backlog 30/10.
  const std::vector<DeviceLoad> loads = {{20, 10}, {0, 0.4}};
  EXPECT_TRUE(should_take(loads, 0, 10, 10));
  EXPECT_FALSE(should_take(loads, 1, 10, 10));
  // But if the fast one is busy for long, the slow one helps.
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{1000, 10}, {0, 0.4}}, 1, 10, 10));
}

TEST(LoadBalance, EqualDevicesShareAFewTasks) {
  // One device has taken two of four tasks, the other none: the next one is for the other.
  EXPECT_FALSE(should_take(std::vector<DeviceLoad>{{20, 1}, {0, 1}}, 0, 10, 10));
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{20, 1}, {0, 1}}, 1, 10, 10));
}

TEST(LoadBalance, TheCpuTakesWhatItEndsBeforeTheDevices) {
  const CpuHelp half{.flops_per_s = 50, .devices_flops_per_s = 100};
  EXPECT_TRUE(cpu_should_take(half, 0, 100, 10000));
  EXPECT_TRUE(cpu_should_take(half, 100, 100, 400));   // 2 s with margin 2.5; all the rest takes 2.67
  EXPECT_FALSE(cpu_should_take(half, 100, 100, 370));  // 2.47
  EXPECT_FALSE(cpu_should_take(half, 200, 100, 400));  // they turn out to be faster
  EXPECT_TRUE(cpu_should_take(half, 20, 100, 400));    // or slower, or have just begun: what was expected counts
}

TEST(LoadBalance, ACpuThatMakesLittleDifferenceOrIsNotKnownTakesNoPart) {
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 50, .devices_flops_per_s = 100}, 0, 101, 1e6));  // more than two seconds
  EXPECT_TRUE(cpu_should_take({.flops_per_s = 7, .devices_flops_per_s = 100}, 0, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 6, .devices_flops_per_s = 100}, 0, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 7, .devices_flops_per_s = 100}, 120, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 7}, 10, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({}, 10, 1, 1e6));
  EXPECT_TRUE(cpu_should_take({.always = true}, 10, 1, 1));
}

TEST(LoadBalance, ALoneDeviceAndAnUnmeasuredOneAlwaysTake) {
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{1e9, 1}}, 0, 10, 10));
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{50, 0}, {0, 1}}, 0, 10, 10));
}

// Some device takes the task under any loads, so the job always goes on.
TEST(LoadBalance, SomeDeviceAlwaysTakes) {
  const double backlogs[] = {0, 1, 7, 100};
  const double rates[] = {0.1, 1, 2.5, 40};
  for (const double b0 : backlogs) {
    for (const double b1 : backlogs) {
      for (const double b2 : backlogs) {
        for (const double r0 : rates) {
          for (const double r1 : rates) {
            for (const double r2 : rates) {
              const std::vector<DeviceLoad> loads = {{b0, r0}, {b1, r1}, {b2, r2}};
              bool any = false;
              for (std::size_t d = 0; d < 3; ++d) any |= should_take(loads, d, 3, 3);
              EXPECT_TRUE(any);
            }
          }
        }
      }
    }
  }
}

}  // namespace load_balance_test
}  // namespace tessera::runtime
