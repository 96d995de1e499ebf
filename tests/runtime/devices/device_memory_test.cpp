// The memory of a device: what plans may count on, what is committed, and what is given back, beside others who use the device.
#include "runtime/devices/device_memory.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "device/host/host_device.hpp"

namespace tessera::runtime {
namespace device_memory_test {

constexpr std::size_t kib = 1024;
constexpr std::size_t memory_bytes = 1024 * kib;

HostDeviceSettings one_mebibyte() {
  HostDeviceSettings settings;
  settings.memory_bytes = memory_bytes;
  return settings;
}

TEST(DeviceMemory, SmallChangesLeaveTheRoomAsItIs) {
  EXPECT_EQ(steady_capacity(1600, 1600), 1600u);
  EXPECT_EQ(steady_capacity(1600, 1500), 1600u);
  EXPECT_EQ(steady_capacity(1600, 1700), 1600u);
  EXPECT_EQ(steady_capacity(1600, 1499), 1499u);
  EXPECT_EQ(steady_capacity(1600, 1701), 1701u);
  EXPECT_EQ(steady_capacity(0, 1), 1u);
}

TEST(DeviceMemory, TakesWhatIsNeededAndGivesItBack) {
  device::HostDevice device(0, one_mebibyte());
  DeviceMemory memory(device, Config{}, 1);
  EXPECT_TRUE(memory.grows());
  EXPECT_EQ(memory.capacity_bytes(), memory_bytes);
  EXPECT_EQ(memory.committed_bytes(), 0u);
  EXPECT_EQ(device.free_memory_bytes(), memory_bytes);

  EXPECT_TRUE(memory.provide(100 * kib));
  EXPECT_EQ(memory.committed_bytes(), 100 * kib);
  EXPECT_TRUE(memory.provide(50 * kib)) << "less is there already";
  EXPECT_EQ(memory.committed_bytes(), 100 * kib);
  EXPECT_EQ(device.free_memory_bytes(), memory_bytes - 100 * kib);
  EXPECT_EQ(memory.review(), memory_bytes) << "what is ours counts as free";

  EXPECT_TRUE(memory.give_back(60 * kib)) << "there is more";
  EXPECT_EQ(memory.committed_bytes(), 40 * kib);
  EXPECT_FALSE(memory.give_back(60 * kib));
  EXPECT_EQ(memory.committed_bytes(), 0u);
  EXPECT_FALSE(memory.give_back(60 * kib));
}

TEST(DeviceMemory, CountsOnWhatOthersLeave) {
  device::HostDevice device(0, one_mebibyte());
  DeviceMemory memory(device, Config{}, 1);
  EXPECT_TRUE(memory.provide(200 * kib));
  device.set_memory_of_others(600 * kib);
  EXPECT_EQ(memory.review(), memory_bytes) << "not asked while nothing is missing";
  EXPECT_FALSE(memory.provide(500 * kib));
  EXPECT_EQ(memory.committed_bytes(), 200 * kib) << "a plan that cannot be had takes nothing";
  EXPECT_EQ(memory.capacity_bytes(), 424 * kib);
  EXPECT_TRUE(memory.provide(424 * kib));
  device.set_memory_of_others(0);
  EXPECT_EQ(memory.review(), memory_bytes) << "asked as long as there is less than there could be";
}

TEST(DeviceMemory, ASettingIsTheMost) {
  Config config;
  config.device_memory_bytes = 300 * kib;
  device::HostDevice device(0, one_mebibyte());
  DeviceMemory memory(device, config, 1);
  EXPECT_EQ(memory.capacity_bytes(), 300 * kib);
  EXPECT_FALSE(memory.provide(301 * kib));
  device.set_memory_of_others(900 * kib);
  EXPECT_FALSE(memory.provide(300 * kib));
  EXPECT_EQ(memory.capacity_bytes(), 124 * kib);
  config.device_memory_bytes = memory_bytes + 1;
  device::HostDevice small(1, one_mebibyte());
  EXPECT_THROW(DeviceMemory(small, config, 1), OutOfDeviceMemory);
}

TEST(DeviceMemory, IsWholeWhereThatIsWanted) {
  Config config;
  config.memory_mode = MemoryMode::whole;
  device::HostDevice device(0, one_mebibyte());
  DeviceMemory memory(device, config, 1);
  EXPECT_FALSE(memory.grows());
  EXPECT_EQ(memory.committed_bytes(), memory_bytes);
  EXPECT_EQ(device.free_memory_bytes(), 0u);
  EXPECT_TRUE(memory.provide(memory_bytes));
  EXPECT_FALSE(memory.give_back(kib));
  EXPECT_EQ(memory.committed_bytes(), memory_bytes);
}

/// Says that there is memory which then is not there, as a device does when somebody else is quicker.
class HastyDevice final : public device::HostDevice {
 public:
  HastyDevice() : HostDevice(0, one_mebibyte()) {}
  std::size_t commit(std::size_t bytes) override { return HostDevice::commit(bytes / 2); }
};

TEST(DeviceMemory, WhatSomebodyElseWasQuickerToTakeIsNotCountedOn) {
  HastyDevice device;
  DeviceMemory memory(device, Config{}, 1);
  EXPECT_FALSE(memory.provide(512 * kib));
  EXPECT_EQ(memory.capacity_bytes(), 256 * kib);
  EXPECT_LE(memory.committed_bytes(), memory.capacity_bytes());
  EXPECT_TRUE(memory.provide(256 * kib)) << "which is there";
}

TEST(DeviceMemory, APlanThatFollowsCountsOnWhatTheDeviceGave) {
  HastyDevice device;
  DeviceMemory memory(device, Config{}, 1);
  EXPECT_FALSE(memory.provide(memory_bytes));
  const std::size_t given = memory.capacity_bytes();
  EXPECT_FALSE(memory.provide(given + 1)) << "although the device says that there is more";
  EXPECT_EQ(memory.capacity_bytes(), given);
  EXPECT_EQ(memory.review(), memory_bytes) << "a later call tries again";
}

/// Can be asked nothing any more, as a GPU whose context a kernel of the program has broken.
class BrokenDevice final : public device::HostDevice {
 public:
  BrokenDevice() : HostDevice(0, one_mebibyte()) {}
  std::size_t free_memory_bytes() const override {
    if (is_broken) throw DeviceLost("broken");
    return HostDevice::free_memory_bytes();
  }
  std::size_t commit(std::size_t bytes) override { return is_broken ? 0 : HostDevice::commit(bytes); }
  bool is_broken = false;
};

TEST(DeviceMemory, ADeviceThatCannotBeAskedIsLeftToTheJob) {
  BrokenDevice device;
  DeviceMemory memory(device, Config{}, 1);
  device.is_broken = true;
  EXPECT_NO_THROW(EXPECT_FALSE(memory.provide(100 * kib)));
  EXPECT_EQ(memory.capacity_bytes(), 0u);
}

TEST(DeviceMemory, KeepsWhatOthersUseWhereItCannotGiveMore) {
  device::HostDevice device(0, one_mebibyte());
  DeviceMemory memory(device, Config{}, 1);
  ASSERT_TRUE(memory.provide(512 * kib));
  device.set_memory_of_others(256 * kib);
  EXPECT_FALSE(memory.provide(memory.slab_bytes(), [] { return 512 * kib; }));
  EXPECT_GE(memory.committed_bytes(), 512 * kib);
}

}  // namespace device_memory_test
}  // namespace tessera::runtime
