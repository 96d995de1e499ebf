// Batches of the Level-3 routines in the memory of one GPU, as sequences of launches.
//
// Bounds of the sizes choose the blocks and the grid.
#pragma once

#include <cstddef>

#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/cuda/product_kernels.hpp"
#include "kernels/cuda/triangular_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::cuda {

class BatchKernels {
 public:
  /// Loads the kernels for the current GPU. @param ordinal of that GPU
  cudaError_t load(int ordinal);

  /// Submits the batch: any routine, count >= 1. Uses the handle, the stream and the workspace of `to`. Never waits,
  /// and allocates nothing. Thread-safe for different submissions. @pre load(); the GPU is current
  Outcome submit(const Level3Batch& batch, const Submission& to) const;

  /// Bytes of Submission::workspace that submit() can use for so many problems.
  static std::size_t workspace_bytes(index_t count) { return ProductKernels::workspace_bytes(count); }

 private:
  SweepLaunch sweep_launch(const Level3Batch& batch) const;

  ProductKernels products_;
};

}  // namespace tessera::kernels::cuda
