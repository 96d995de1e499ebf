// Tile kernels of a device, without CUDA types. Operands are column-major tiles in the device's memory; calls only submit to
// one of the device's compute streams.
#pragma once

#include <cstddef>

#include "core/level3.hpp"
#include "device/device.hpp"

namespace tessera::kernels {

class TileOps {
 public:
  virtual ~TileOps() = default;
  /// Submits the call, whose operands lie in the device's memory; no dimension is 0. trmm takes B apart from C, or C itself.
  /// @throws DeviceLost. Called by one thread at a time per device.
  virtual void run(int compute_stream, const Level3& call) = 0;
};

}  // namespace tessera::kernels
