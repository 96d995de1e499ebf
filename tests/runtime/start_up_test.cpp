// How a runtime starts: the memory of all devices is reserved at once, and refused in the order of the devices.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "runtime/runtime.hpp"
#include "tests/meeting.hpp"

namespace tessera::runtime {
namespace start_up_test {

/// Has memory to give only when all devices are asked, and then has none.
class MeetingDevice final : public device::Device {
 public:
  MeetingDevice(int ordinal, test::Meeting& meeting) : meeting_(meeting) {
    info_.backend = "test";
    info_.ordinal = ordinal;
  }
  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override { return 1000000; }
  std::byte* reserve(std::size_t) override {
    EXPECT_TRUE(meeting_.wait_for_all());
    throw OutOfDeviceMemory("test:" + std::to_string(info_.ordinal));
  }
  // Nobody gets further than reserve().
  void copy_up(device::Block, device::Block, device::Extent) override {}
  void copy_down(device::Block, device::Block, device::Extent) override {}
  void copy_peer(device::Block, Device&, device::Block, device::Extent) override {}
  void copy_to_peer(Device&, device::Block, device::Block, device::Extent) override {}
  bool can_access(const Device&) const override { return false; }
  device::EventPtr record(device::StreamId) override { return nullptr; }
  void wait(device::StreamId, const device::EventPtr&) override {}
  std::unique_ptr<device::HostPinning> pin_host(std::span<const device::HostRange>) override { return nullptr; }
  bool on_completion(std::function<void()>) override { return true; }
  void attach_thread() override {}
  bool recover() noexcept override { return true; }

 private:
  device::DeviceInfo info_;
  test::Meeting& meeting_;
};

TEST(StartUp, ReservesTheMemoryOfAllDevicesAtOnce) {
  constexpr int count = 3;
  test::Meeting meeting(count);
  std::vector<kernels::Accelerator> accelerators;
  for (int ordinal = 0; ordinal < count; ++ordinal)
    accelerators.push_back({std::make_unique<MeetingDevice>(ordinal, meeting), nullptr});
  try {
    const Runtime runtime(std::move(accelerators), Config(), [](const Level3&) {});
    FAIL() << "there is no memory";
  } catch (const OutOfDeviceMemory& error) {
    EXPECT_STREQ(error.what(), "test:0");
  }
}

}  // namespace start_up_test
}  // namespace tessera::runtime
