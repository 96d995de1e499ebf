// A slow plugin: it lists its devices, and later fails to open them, when the test allows each step.
#include <atomic>
#include <thread>

#include "core/build_identity.hpp"
#include "core/error.hpp"
#include "kernels/backend.hpp"

extern "C" {
/// 1: the devices were requested, 2: their opening was requested.
__attribute__((visibility("default"))) std::atomic<int> tessera_test_reached = 0;
/// The steps that may be answered, with the same numbers.
__attribute__((visibility("default"))) std::atomic<int> tessera_test_allowed = 0;
}

namespace {

void reach(int step) {
  tessera_test_reached = step;
  while (tessera_test_allowed < step) std::this_thread::yield();
}

class SlowToOpen final : public tessera::kernels::Backend {
 public:
  std::vector<tessera::device::DeviceInfo> devices() const override {
    reach(1);
    return std::vector<tessera::device::DeviceInfo>(1);
  }
  tessera::kernels::Opened open(const std::vector<int>&, int) override {
    reach(2);
    throw tessera::NotAvailable("that took a while, and then nothing came of it");
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) tessera::kernels::Backend* tessera_cuda_backend(std::uint64_t build) {
  return build == tessera::build_identity ? new SlowToOpen : nullptr;
}
