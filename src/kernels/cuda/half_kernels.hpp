// Batches of products of 16-bit numbers in the memory of one GPU, as launches. Bounds of the sizes choose the kernel,
// its blocks and the grid. Products of one size go to cuBLAS where it is faster.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/half_batch.hpp"
#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/half_batch.hpp"

namespace tessera::kernels::cuda {

class HalfKernels {
 public:
  /// Loads the kernels for the current GPU. @param ordinal of that GPU
  cudaError_t load(int ordinal);

  /// Submits the batch: count >= 1. Uses the handle and the stream of `to`. Never waits, and allocates nothing.
  /// Thread-safe for different submissions. @pre load(); the GPU is current
  Outcome submit(const HalfBatch& batch, const Submission& to) const;

 private:
  HalfLaunch launch_of(const HalfBatch& batch) const;

  index_t multiprocessors_ = 0;
};

}  // namespace tessera::kernels::cuda
