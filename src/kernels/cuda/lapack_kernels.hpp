// Batches of LAPACK's routines in the memory of one GPU: what each of them is as launches.
//
// Bounds of the sizes choose them. Factorizations are kernels of their own: in registers, by one thread block for a
// matrix, or panel by panel (plan/lapack_choice.hpp). Solves are interchanges of rows and the triangular solves of
// Level 3; inverses are solves with the identity, in the workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/batch_kernels.hpp"
#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

class LapackKernels {
 public:
  /// @param level3 for the solves; outlives this
  explicit LapackKernels(const BatchKernels& level3) : level3_(level3) {}

  /// Loads the kernels for the GPU, which is current. @pre those of Level 3 are loaded
  cudaError_t load();

  /// Submits the batch, count >= 1. Never waits, and allocates nothing. Thread-safe where submissions differ.
  /// @pre load(); the GPU is current; potri and getri: there is a workspace for one problem
  /// @throws OutOfDeviceMemory if there is not, before anything is submitted
  Outcome submit(const LapackBatch& batch, const Submission& to) const;

  /// Of potrf alone: the triangles of each factor that begin at (first, first), behind everything that columns before
  /// mean for them. What these have told in info stays. Likewise. @pre load_cholesky(); first < max_n
  static cudaError_t submit_cholesky_from(const LapackBatch& batch, index_t first, cudaStream_t stream);
  static cudaError_t load_cholesky();

  /// Of getrf alone: all columns of each matrix by one thread block, in one launch, whatever their sizes. @pre load_lu()
  static cudaError_t submit_getrf_in_one_launch(const LapackBatch& batch, cudaStream_t stream);
  static cudaError_t load_lu();

  /// What submit() can make use of in Submission::workspace: that of potri and getri, for all problems at once.
  static std::size_t workspace_bytes(const LapackBatch& batch);

 private:
  Outcome solve(const LapackBatch& batch, const Submission& to) const;
  Outcome solve_triangle(const LapackBatch& batch, Uplo uplo, Op op, Diag diag, const Submission& to) const;
  Outcome invert(const LapackBatch& batch, const Submission& to) const;

  const BatchKernels& level3_;
};

}  // namespace tessera::kernels::cuda
