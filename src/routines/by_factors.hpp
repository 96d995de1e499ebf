// Factorizations by the name of their routine, and solves by the factors: interchanges of rows, and Level-3 calls.
#pragma once

#include <functional>

#include "calls/lapack_call.hpp"
#include "calls/level3.hpp"
#include "runtime/runtime.hpp"

namespace tessera::routines {

/// The triangle of A by which a system is solved.
struct Triangle {
  Uplo uplo = Uplo::lower;
  Op op = Op::no_trans;
  Diag diag = Diag::non_unit;
};
/// The trsm of a call of LAPACK: op(A) X = B, or X op(A) = B, in place of B.
Level3 triangular_solve(const LapackCall& call, const Triangle& triangle);

/// Factors A of the call, and tells its pivots or coefficients. @pre factors(call.routine), way Way::factors
/// @throws as lu(), qr() and cholesky(); DeviceLost if A is lost
runtime::JobStatistics factor(runtime::Runtime& runtime, const LapackCall& call, index_t tile,
                              const runtime::CpuHelp& cpu);

/// Solves for B, by the factors that A holds, on either side. Rows or columns of B are interchanged on so many processors where
/// they are worth it.
/// @param solve computes a trsm
void solve_by_factors(const LapackCall& call, int processors, const std::function<void(const Level3&)>& solve);

}  // namespace tessera::routines
