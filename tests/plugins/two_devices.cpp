// A plugin that loads, lists two devices, and throws across the library boundary when they are opened.
#include "core/build_identity.hpp"
#include "core/error.hpp"
#include "kernels/backend.hpp"

namespace {

class TwoDevices final : public tessera::kernels::Backend {
 public:
  std::vector<tessera::device::DeviceInfo> devices() const override {
    std::vector<tessera::device::DeviceInfo> infos(2);
    infos[1].ordinal = 1;
    for (auto& info : infos) info.name = "test device";
    return infos;
  }
  tessera::kernels::Opened open(const std::vector<int>& ordinals, int /*copy_threads*/) override {
    throw tessera::OutOfDeviceMemory("no memory for " + std::to_string(ordinals.size()) + " devices");
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) tessera::kernels::Backend* tessera_cuda_backend(std::uint64_t build) {
  return build == tessera::build_identity ? new TwoDevices : nullptr;
}
