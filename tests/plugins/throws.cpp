// A plugin that throws when its devices are requested. TESSERA_TEST_THROW names the exception.
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "core/build_identity.hpp"
#include "core/error.hpp"
#include "kernels/backend.hpp"

namespace {

class Throws final : public tessera::kernels::Backend {
 public:
  std::vector<tessera::device::DeviceInfo> devices() const override {
    const char* const name = std::getenv("TESSERA_TEST_THROW");
    const std::string what = name != nullptr ? name : "";
    if (what == "NotAvailable") throw tessera::NotAvailable(what);
    if (what == "OutOfDeviceMemory") throw tessera::OutOfDeviceMemory(what);
    if (what == "DeviceLost") throw tessera::DeviceLost(what);
    if (what == "InvalidArgument") throw tessera::InvalidArgument(what, 7);
    if (what == "bad_alloc") throw std::bad_alloc();
    if (what == "runtime_error") throw std::runtime_error(what);
    throw 5;
  }
  tessera::kernels::Opened open(const std::vector<int>&, int) override { return {}; }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) tessera::kernels::Backend* tessera_cuda_backend(std::uint64_t build) {
  return build == tessera::build_identity ? new Throws : nullptr;
}
