// The CUDA backend and the only symbol that the plugin libtessera_cuda.so exports.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/build_identity.hpp"
#include "core/error.hpp"
#include "core/side_by_side.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/gpu_description.hpp"
#include "device/cuda/nvtx_range.hpp"
#include "device/cuda/topology.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/cublas_library.hpp"
#include "kernels/cuda/cuda_dense_solver.hpp"
#include "kernels/cuda/cuda_tile_ops.hpp"

namespace tessera::kernels::cuda {
namespace {

using device::cuda::CudaDevice;
using device::cuda::device_count;

class CudaBackend final : public Backend {
 public:
  std::vector<device::DeviceInfo> devices() const override {
    std::vector<device::DeviceInfo> infos;
    const int count = device_count();
    infos.reserve(static_cast<std::size_t>(count));
    for (int ordinal = 0; ordinal < count; ++ordinal) infos.push_back(device::cuda::describe_device(ordinal));
    return infos;
  }

  Opened open(const std::vector<int>& ordinals, int copy_threads) override {
    const int count = device_count();
    for (auto ordinal = ordinals.begin(); ordinal != ordinals.end(); ++ordinal) {
      if (*ordinal < 0 || *ordinal >= count) {
        throw NotAvailable("there is no cuda:" + std::to_string(*ordinal) + ", only " + std::to_string(count) +
                           " CUDA device" + (count == 1 ? "" : "s"));
      }
      if (std::find(ordinals.begin(), ordinal, *ordinal) != ordinal) {
        throw NotAvailable("cuda:" + std::to_string(*ordinal) + " is named twice");
      }
    }
    // NVTX looks for a profiler at its first use. This call makes that here, so that no worker has to load a library.
    nvtxInitialize(nullptr);
    return open_devices(ordinals, copy_threads);
  }

 private:
  // A device that is being opened.
  struct Opening {
    std::unique_ptr<CudaDevice> device;
    std::unique_ptr<TileOps> ops;
    std::string refusal;

    /// Runs a step. Its failure concerns this device alone.
    template <class Step>
    void go_on(Step step) {
      if (!refusal.empty()) return;
      try {
        step();
      } catch (const Error& error) {
        refusal = error.what();
      }
    }
  };

  static Opened open_devices(const std::vector<int>& ordinals, int copy_threads) {
    std::vector<Opening> openings(ordinals.size());
    // Each device is opened by a thread of its own. A context, its modules and its cuBLAS handles belong to one GPU,
    // and CUDA calls refer to the calling thread's current context. Meanwhile one more thread loads cuBLAS and looks up
    // the place of each GPU, which its worker needs.
    side_by_side(ordinals.size() + 1, [&](std::size_t piece) {
      if (piece == ordinals.size()) {
        static_cast<void>(cublas());
        device::cuda::load_topology();
        return;
      }
      const device::cuda::RelaxedCapture relaxed;
      openings[piece].go_on(
          [&] { openings[piece].device = std::make_unique<CudaDevice>(ordinals[piece], copy_threads); });
    });
    side_by_side(ordinals.size(), [&](std::size_t d) {
      openings[d].go_on([&] { openings[d].ops = std::make_unique<CudaTileOps>(*openings[d].device); });
    });
    std::vector<CudaDevice*> devices;
    for (const Opening& opening : openings) {
      if (opening.refusal.empty()) devices.push_back(opening.device.get());
    }
    for (CudaDevice* device : devices) device->find_peers(devices);
    if (std::all_of(devices.begin(), devices.end(),
                    [](const CudaDevice* device) { return device->can_map_memory(); })) {
      for (CudaDevice* device : devices) device->map_memory();
    }
    Opened opened;
    for (std::size_t d = 0; d < openings.size(); ++d) {
      Opening& opening = openings[d];
      if (!opening.refusal.empty()) {
        opened.refused.push_back({ordinals[d], opening.refusal});
        continue;
      }
      auto solver = std::make_unique<CudaDenseSolver>(*opening.device, *opening.ops);
      opened.accelerators.push_back({std::move(opening.device), std::move(opening.ops), std::move(solver)});
    }
    return opened;
  }
};

}  // namespace
}  // namespace tessera::kernels::cuda

extern "C" __attribute__((visibility("default"))) tessera::kernels::Backend* tessera_cuda_backend(std::uint64_t build) {
  if (build != tessera::build_identity) return nullptr;
  static_cast<void>(tessera::device::cuda::device_count());
  return new tessera::kernels::cuda::CudaBackend;
}
