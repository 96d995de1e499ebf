// Batches of LAPACK's routines in the memory of one GPU: what each of them is as launches.
#pragma once

#include <cstddef>

#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

class LapackKernels {
 public:
  /// Loads the kernels for the GPU, which is current.
  cudaError_t load(int ordinal);

  /// Submits the batch: any routine, count >= 1. Of `to` stream and workspace are used. Never waits, and allocates
  /// nothing. Thread-safe where submissions differ. @pre load(); the GPU is current
  /// @throws OutOfDeviceMemory if the workspace is too small for one problem
  Outcome submit(const LapackBatch& batch, const Submission& to) const;

  /// What submit() can make use of in Submission::workspace: that of all problems at once.
  static std::size_t workspace_bytes(const LapackBatch& batch);
};

}  // namespace tessera::kernels::cuda
