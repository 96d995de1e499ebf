// A plugin with four devices of a million bytes, of which 900000 are free, that refuse every reservation. The refusal
// names the device and the requested bytes.
#include "core/build_identity.hpp"
#include "core/error.hpp"
#include "kernels/backend.hpp"

namespace {

using namespace tessera;

class FullDevice final : public device::Device {
 public:
  explicit FullDevice(const device::DeviceInfo& info) : info_(info) {}
  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override { return 900000; }
  std::byte* reserve(std::size_t bytes) override {
    throw OutOfDeviceMemory("test:" + std::to_string(info_.ordinal) + " has no " + std::to_string(bytes) + " bytes");
  }
  // No caller gets beyond reserve().
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
};

class FullDevices final : public kernels::Backend {
 public:
  std::vector<device::DeviceInfo> devices() const override {
    std::vector<device::DeviceInfo> infos(4);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      infos[i].backend = infos[i].name = "test";
      infos[i].ordinal = static_cast<int>(i);
      infos[i].memory_bytes = 1000000;
    }
    return infos;
  }
  kernels::Opened open(const std::vector<int>& ordinals, int /*copy_threads*/) override {
    kernels::Opened opened;
    for (const int ordinal : ordinals) {
      const auto all = devices();
      opened.accelerators.push_back({std::make_unique<FullDevice>(all[static_cast<std::size_t>(ordinal)]), nullptr});
    }
    return opened;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) tessera::kernels::Backend* tessera_cuda_backend(std::uint64_t build) {
  return build == tessera::build_identity ? new FullDevices : nullptr;
}
