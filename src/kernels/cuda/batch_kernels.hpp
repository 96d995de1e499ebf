// Batches of the Level-3 routines in the memory of one GPU: what each of them is as launches.
//
// Bounds of the sizes choose blocks and grid.
#pragma once

#include <cstddef>

#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/cuda/product_kernels.hpp"
#include "kernels/cuda/triangular_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::cuda {

class BatchKernels {
 public:
  /// Loads the kernels for the GPU, which is current.
  cudaError_t load(int ordinal);

  /// Submits the batch: any routine, count >= 1. Of `to` handle, stream and workspace are used. Never waits, and
  /// allocates nothing. Thread-safe where submissions differ. @pre load(); the GPU is current
  Outcome submit(const Level3Batch& batch, const Submission& to) const;

  /// What submit() can make use of in Submission::workspace for so many problems.
  static std::size_t workspace_bytes(index_t count) { return ProductKernels::workspace_bytes(count); }

 private:
  SweepLaunch sweep_launch(const Level3Batch& batch) const;

  ProductKernels products_;
};

}  // namespace tessera::kernels::cuda
