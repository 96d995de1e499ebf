// Batches of products in the memory of one GPU: all routines that update a matrix, as launches.
//
// Bounds of the sizes choose blocks and grid. If sizes spread so far that much of a cut grid would have no work, and
// there is a workspace, the grid is persistent.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/cuda/product_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::cuda {

/// In all of a grid. A thread block without work ends soon, but not at once.
inline constexpr index_t most_thread_blocks = index_t{1} << 22;

class ProductKernels {
 public:
  /// Loads the kernels for the current GPU. @param ordinal of that GPU
  cudaError_t load(int ordinal);

  /// As BatchKernels::submit(). @pre no trmm or trsm
  cudaError_t submit(const Level3Batch& batch, const Submission& to) const {
    return submit_products(batch, launch_of(batch, to), to.stream);
  }

  /// Bytes of Submission::workspace that submit() can use for so many problems.
  static std::size_t workspace_bytes(index_t count) { return summed_bytes(count); }

  /// Thread blocks per problem if bounds are unknown: some for every multiprocessor in all. In larger problems each
  /// computes several blocks.
  index_t unbounded(index_t problems) const { return std::clamp<index_t>(8 * multiprocessors_ / problems, 1, 1024); }

 private:
  ProductLaunch launch_of(const Level3Batch& batch, const Submission& to) const;

  index_t multiprocessors_ = 0;
};

}  // namespace tessera::kernels::cuda
