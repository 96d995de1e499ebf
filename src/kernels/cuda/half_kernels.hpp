// Batches of products of 16-bit numbers in the memory of one GPU, as launches. Bounds of the sizes choose the kernel, its
// blocks and the grid; products of one size go to cuBLAS where that is sooner.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/half_batch.hpp"
#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/half_batch.hpp"

namespace tessera::kernels::cuda {

class HalfKernels {
 public:
  /// Loads the kernels for the GPU, which is current.
  cudaError_t load(int ordinal);

  /// Submits the batch: count >= 1. Of `to` handle and stream are used. Never waits, and allocates nothing. Thread-safe
  /// where submissions differ. @pre load(); the GPU is current
  Outcome submit(const HalfBatch& batch, const Submission& to) const;

 private:
  HalfLaunch launch_of(const HalfBatch& batch) const;

  index_t multiprocessors_ = 0;
};

}  // namespace tessera::kernels::cuda
