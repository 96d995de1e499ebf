// Selects kernels by the size classes of their tables (plan/product_blocks.hpp, plan/sweep_strips.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "core/scalar.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::cuda {

/// Calls f.operator()<T, size_class>() with the type and the class as constants.
template <class F>
cudaError_t with_size_class(ScalarType type, std::size_t size_class, F&& f) {
  return dispatch(type, [&]<Scalar T>(T) {
    return [&]<std::size_t... at>(std::index_sequence<at...>) {
      cudaError_t error = cudaErrorInvalidValue;
      static_cast<void>(((at == size_class && (error = f.template operator()<T, at>(), true)) || ...));
      return error;
    }
    (std::make_index_sequence<plan::block_sizes.size()>());
  });
}

/// Calls load(type, size_class) for all of them, until one fails.
template <class Load>
cudaError_t load_size_classes(Load&& load) {
  cudaError_t error = cudaSuccess;
  for (const ScalarType type : scalar_types) {
    for (std::size_t at = 0; at < plan::block_sizes.size() && error == cudaSuccess; ++at) error = load(type, at);
  }
  return error;
}

}  // namespace tessera::kernels::cuda
