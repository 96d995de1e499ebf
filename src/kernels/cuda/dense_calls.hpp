// cuSOLVER's routines for whole problems, each in one form for all types, with workspaces in bytes. They use its 64-bit
// interface where there is one, and otherwise the older one, whose integers have 32 bits. All matrices lie in the GPU's
// memory. NotAvailable is the only exception.
#pragma once

#include "calls/lapack_call.hpp"
#include "kernels/cuda/cusolver_library.hpp"
#include "kernels/dense_solver.hpp"

namespace tessera::kernels::cuda {

/// The handle and the objects that calls need with it.
struct DenseHandle {
  cusolverDnHandle_t handle = nullptr;
  cusolverDnParams_t params = nullptr;
  cudaStream_t stream = nullptr;  ///< the handle's
};

/// A singular value problem for cuSOLVER: the matrix has at least as many rows as columns. A side without an address
/// gets no vectors.
struct TallSvd {
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;
  void* A = nullptr;
  index_t lda = 0;
  void* values = nullptr;
  VectorJob left = VectorJob::none, right = VectorJob::none;
  void* U = nullptr;
  index_t ldu = 0;
  void* V = nullptr;  ///< with QR iteration its conjugate transpose
  index_t ldv = 0;
};

/// @throws NotAvailable if it is too large for the older interface
int narrow(index_t number);

/// @throws NotAvailable, here and below, if this cuSOLVER has no such routine or its integers are too small
cusolverStatus_t svd_space(const DenseHandle& dn, const TallSvd& svd, SvdAlgorithm algorithm, DenseSpace* space);
cusolverStatus_t solve_svd(const DenseHandle& dn, const TallSvd& svd, SvdAlgorithm algorithm,
                           const DenseWorkspace& workspace, int* info, double* perturbation);

/// The space for all problems but singular values. heevr leaves its vectors in A.
cusolverStatus_t problem_space(const DenseHandle& dn, const LapackCall& problem, DenseSpace* space);
cusolverStatus_t solve_problem(const DenseHandle& dn, const LapackCall& problem, const DenseWorkspace& workspace,
                               int* info, std::int64_t* found);

/// Solves A X = B by the factors in A and the problem's pivots. X replaces B and has as many columns.
/// @param pivots become the problem's, in 64 bits
cusolverStatus_t solve_by_lu(const DenseHandle& dn, const LapackCall& problem, void* B, index_t ldb, index_t columns,
                             std::int64_t* pivots, int* info);

}  // namespace tessera::kernels::cuda
