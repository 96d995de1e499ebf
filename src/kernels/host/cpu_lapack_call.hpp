// One call of LAPACK (calls/lapack_call.hpp) on the CPU.
#pragma once

#include "calls/lapack_call.hpp"

namespace tessera::kernels {

class CpuBlas;

/// Computes the problem at once; sizes may be 0. The LAPACK that comes with `blas` computes factors, and solutions by
/// factors. Without a LAPACK the products and solves of `blas` do, and without a BLAS the readable reference. All other
/// problems need a LAPACK. It does not receive NaNs and infinities on which it would iterate
/// (calls/nonfinite_problem.hpp). Thread-safe.
/// @param blas may be nullptr
/// @param found receives the number of eigenvalues or the rank, if the routine has one
/// @return LAPACK's info
/// @pre arguments are good, no VectorJob is overwrite, and pivots and sizes fit in 32 bits if there is no LAPACK of 64
/// @throws NotAvailable if no LAPACK has the routine, std::bad_alloc; nothing has been written then, except by geqrf
/// and gelqf without a LAPACK
index_t compute_on_cpu(const CpuBlas* blas, const LapackCall& problem, index_t& found);

}  // namespace tessera::kernels
