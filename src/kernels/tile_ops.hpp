// Tile kernels of a device, without CUDA types. Operands are column-major tiles in the device's memory; calls only submit to
// one of the device's compute streams.
#pragma once

#include <cstddef>

#include "core/scalar.hpp"
#include "device/device.hpp"

namespace tessera::kernels {

/// C = alpha * op_x(X) * op_y(Y) + beta * C; op_x(X) is m x k, op_y(Y) is k x n, C is m x n; m, n, k >= 1.
/// beta == 0 does not read C.
struct Gemm {
  ScalarType type = ScalarType::d;
  Op op_x = Op::no_trans;
  Op op_y = Op::no_trans;
  index_t m = 0, n = 0, k = 0;
  AnyScalar alpha = 1;
  const std::byte* X = nullptr;
  index_t ldx = 0;
  const std::byte* Y = nullptr;
  index_t ldy = 0;
  AnyScalar beta = 0;
  std::byte* C = nullptr;
  index_t ldc = 0;
};

class TileOps {
 public:
  virtual ~TileOps() = default;
  /// @throws DeviceLost. Called by one thread at a time per device.
  virtual void gemm(int compute_stream, const Gemm& product) = 0;
};

}  // namespace tessera::kernels
