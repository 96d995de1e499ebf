// One call of LAPACK (core/lapack_call.hpp) on the CPU.
#pragma once

#include "core/dense_problem.hpp"
#include "core/lapack_call.hpp"

namespace tessera::kernels {

class CpuBlas;

/// Computes the call now, and sets its info: by the LAPACK that comes with `blas`, by its products and solves where it
/// has none, and by the readable reference where there is no BLAS. Thread-safe. @param blas may be nullptr
/// @pre sizes are good, and pivots and sizes fit in 32 bits where there is no LAPACK of 64
/// @throws std::bad_alloc; but for geqrf without a LAPACK, nothing has been written then
void compute_on_cpu(const CpuBlas* blas, LapackCall& call);

/// The same for a problem that devices may solve whole, sizes of 0 among them. LAPACK does not get NaN and infinities that it
/// would iterate on (core/nonfinite_problem.hpp).
/// @param found eigenvalues or the rank, where the routine tells them @return LAPACK's info @pre no VectorJob is overwrite
/// @throws NotAvailable if there is no LAPACK that has it, std::bad_alloc; nothing has been written then
index_t compute_on_cpu(const CpuBlas* blas, const DenseProblem& problem, index_t& found);

}  // namespace tessera::kernels
