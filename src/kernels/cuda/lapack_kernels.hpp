// Batches of LAPACK's routines in the memory of one GPU, as sequences of launches.
//
// Bounds of the sizes choose the launches. Factorizations have kernels of their own: in registers, by one thread block
// per matrix, or panel by panel (plan/lapack_choice.hpp). Solves are interchanges of rows and the triangular solves of
// Level 3. Inverses are solves with the identity, in the workspace.
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

  /// Loads the kernels for the current GPU. @pre those of Level 3 are loaded
  cudaError_t load();

  /// Submits the batch, count >= 1. Never waits, and allocates nothing. Thread-safe for different submissions.
  /// @pre load(); the GPU is current; potri and getri: the workspace suffices for one problem
  /// @throws OutOfDeviceMemory if it does not, before anything is submitted
  Outcome submit(const LapackBatch& batch, const Submission& to) const;

  /// For potrf alone: factors the triangles of the matrices that begin at (first, first), after all earlier columns
  /// have been applied. Keeps the info that these have set. Otherwise as submit(). @pre load_cholesky(); first < max_n
  static cudaError_t submit_cholesky_from(const LapackBatch& batch, index_t first, cudaStream_t stream);
  static cudaError_t load_cholesky();

  /// For getrf alone: one thread block factors all columns of a matrix, in one launch for any sizes. @pre load_lu()
  static cudaError_t submit_getrf_in_one_launch(const LapackBatch& batch, cudaStream_t stream);
  static cudaError_t load_lu();

  /// Bytes of Submission::workspace that submit() can use: those of potri and getri, for all problems at once.
  static std::size_t workspace_bytes(const LapackBatch& batch);

 private:
  Outcome solve(const LapackBatch& batch, const Submission& to) const;
  Outcome solve_triangle(const LapackBatch& batch, Uplo uplo, Op op, Diag diag, const Submission& to) const;
  Outcome invert(const LapackBatch& batch, const Submission& to) const;

  const BatchKernels& level3_;
};

}  // namespace tessera::kernels::cuda
