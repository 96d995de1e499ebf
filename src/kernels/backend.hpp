// A backend opens devices together with their tile kernels. Two exist: host devices (in the library) and CUDA (in the
// plugin libtessera_cuda.so, whose only exported symbol is `tessera_cuda_backend`).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "kernels/dense_solver.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// A device and the kernels that run on it. `ops` and `solver` refer to `device` and are destroyed before it.
struct Accelerator {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<TileOps> ops;
  std::unique_ptr<DenseSolver> solver = nullptr;  ///< nullptr: it solves no whole problems
};

/// The result of opening devices.
struct Opened {
  struct Refusal {
    int ordinal = 0;
    std::string reason;
  };
  std::vector<Accelerator> accelerators;  ///< the opened ones, in the order asked for
  std::vector<Refusal> refused;           ///< the others, with the reasons
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// The devices that exist. Initialises no more of them than the list needs.
  virtual std::vector<device::DeviceInfo> devices() const = 0;
  /// Opens devices by ordinal, as many as can be opened. Devices of one call can exchange events and peer copies.
  /// @param copy_threads of each device, see DeviceInfo
  /// @throws NotAvailable if there is no such device, or one is named twice
  virtual Opened open(const std::vector<int>& ordinals, int copy_threads) = 0;
};

/// Signature of the plugin's entry.
/// @param build the library's build_identity (core/build_identity.hpp): Device, TileOps and Backend may differ between
/// builds
/// @return nullptr if `build` differs from the plugin's
/// @throws NotAvailable if there is no driver or no device
using BackendEntry = Backend* (*)(std::uint64_t build);

}  // namespace tessera::kernels
