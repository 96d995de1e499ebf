// Loads the kernels of strips (triangular_leaf.cu, triangular_chain.cu) on the current GPU.
#pragma once

#include <cuda_runtime.h>

#include "core/scalar.hpp"

namespace tessera::kernels::cuda {

/// @param load_one load_one(type, columns of the strips, shared memory that a thread block may have) loads the kernels
/// that fit
template <class Widths, class LoadOne>
cudaError_t load_strips(const Widths& widths, LoadOne load_one) {
  int device = 0, shared_bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  for (const ScalarType type : scalar_types) {
    for (const int columns : widths) {
      if (error == cudaSuccess) error = load_one(type, columns, static_cast<std::size_t>(shared_bytes));
    }
  }
  return error;
}

}  // namespace tessera::kernels::cuda
