// What kernels of batches have in common: a grid of (thread blocks of a problem, problems), and checks of problems.
#pragma once

#include <cuda_runtime.h>

#include "core/scalar.hpp"
#include "kernels/block/device_code.hpp"

namespace tessera::kernels::cuda::detail {

/// What is found wrong with problems, if somebody wants to know.
struct Complaints {
  void* info = nullptr;
  bool is_wide = false;

  /// @return whether the problem is to be computed @param tells whether this thread writes what is wrong
  template <class Batch>
  __device__ bool is_good(const Batch& batch, const typename Batch::Problem& problem, index_t number,
                          bool tells) const {
    if (info == nullptr) return true;
    const int bad = bad_argument(batch.form, batch.positions, problem);
    if (tells) {
      if (is_wide)
        static_cast<std::int64_t*>(info)[number] = -bad;
      else
        static_cast<int*>(info)[number] = -bad;
    }
    return bad == 0;
  }
};

/// Blocks of one problem follow each other along x, and share what they read; problems lie along y and z, which reach
/// to 65535 each.
inline dim3 grid_of(index_t blocks_of_problem, index_t problems) {
  constexpr index_t most = 65535;
  const index_t layers = (problems + most - 1) / most, along_z = layers < most ? layers : most;
  const index_t of_layer = (problems + along_z - 1) / along_z;
  return {static_cast<unsigned>(blocks_of_problem), static_cast<unsigned>(of_layer < most ? of_layer : most),
          static_cast<unsigned>(along_z)};
}

/// The first problem of a thread block in such a grid, and how far it is to the next one.
__device__ inline index_t first_problem() { return blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y; }
__device__ inline index_t next_problem() { return static_cast<index_t>(gridDim.y) * gridDim.z; }

}  // namespace tessera::kernels::cuda::detail
