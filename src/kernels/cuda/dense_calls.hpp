// cuSOLVER's routines for whole problems, each in one form for all types, with what they need asked for and given in
// bytes: its 64-bit interface where there is one, and else the older one, whose integers have 32 bits. All matrices lie
// in the GPU's memory; nothing here knows of streams, devices or exceptions but one.
#pragma once

#include "core/dense_problem.hpp"
#include "kernels/cuda/cusolver_library.hpp"
#include "kernels/dense_solver.hpp"

namespace tessera::kernels::cuda {

/// Of a handle, for calls.
struct DenseHandle {
  cusolverDnHandle_t handle = nullptr;
  cusolverDnParams_t params = nullptr;
};

/// What a matrix has at least as many rows as columns of: cuSOLVER's singular values. Without an address of vectors there
/// are none on that side.
struct TallSvd {
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;
  void* A = nullptr;
  index_t lda = 0;
  void* values = nullptr;
  VectorJob left = VectorJob::none, right = VectorJob::none;
  void* U = nullptr;
  index_t ldu = 0;
  void* V = nullptr;  ///< of QR iteration its conjugate transpose
  index_t ldv = 0;
};

/// @throws NotAvailable if it is too large for the older interface
int narrow(index_t number);

/// @throws NotAvailable if this cuSOLVER has no such routine, or its integers are too small, here and below
cusolverStatus_t svd_space(const DenseHandle& dn, const TallSvd& svd, SvdAlgorithm algorithm, DenseSpace* space);
cusolverStatus_t solve_svd(const DenseHandle& dn, const TallSvd& svd, SvdAlgorithm algorithm,
                           const DenseWorkspace& workspace, int* info, double* perturbation);

/// All routines but those of singular values. heevr leaves its vectors in A.
cusolverStatus_t problem_space(const DenseHandle& dn, const DenseProblem& problem, DenseSpace* space);
cusolverStatus_t solve_problem(const DenseHandle& dn, const DenseProblem& problem, const DenseWorkspace& workspace,
                               int* info, std::int64_t* found);

/// A X = B by the factors in A and 64-bit pivots; X, with as many columns, takes the place of B.
cusolverStatus_t solve_by_lu(const DenseHandle& dn, const DenseProblem& problem, void* B, index_t ldb, index_t columns,
                             int* info);

}  // namespace tessera::kernels::cuda
