#include "routines/dense_solvers.hpp"

#include <complex>

#include "routines/by_factors.hpp"
#include "routines/level3.hpp"

namespace tessera::routines {
namespace {

/// It is looked for on the host, whatever a device's library tells of it.
index_t first_zero_on_diagonal(const LapackCall& problem) {
  return dispatch(problem.type, [&]<Scalar T>(T) -> index_t {
    const T* const A = static_cast<const T*>(problem.A);
    for (index_t j = 0; j < problem.n; ++j) {
      if (A[j + j * problem.lda] == T(0)) return j + 1;
    }
    return 0;
  });
}

/// LAPACK looks for zeros on the diagonal before it does anything.
bool needs_nonzero_diagonal(const LapackCall& problem) {
  const bool may_be_unit = problem.routine == Routine::trtri || problem.routine == Routine::trtrs;
  return may_be_unit ? problem.diag == Diag::non_unit : is_inverse(problem.routine);
}

/// @throws UnsuitableNumbers if a pivot that is read is no row's
void require_good_pivots(const LapackCall& problem) {
  for (const LapackOperand& operand : LapackOperands(problem)) {
    if (operand.slot == LapackSlot::ipiv && operand.reads && first_bad_pivot(problem) != 0)
      throw UnsuitableNumbers(name_of(problem) + ": a pivot is no row");
  }
}

runtime::JobStatistics solve_triangle(runtime::Runtime& runtime, const LapackCall& problem, index_t tile,
                                      const runtime::CpuHelp& cpu) {
  const Level3 call = triangular_solve(problem, {problem.uplo, problem.op, problem.diag});
  runtime::JobStatistics job = run(runtime, call, tile, cpu);
  job.routine = name_of(problem);
  job.m = job.n = problem.n;
  job.k = problem.k;
  return job;
}

}  // namespace

index_t forbidding_zero(const LapackCall& problem) {
  return needs_nonzero_diagonal(problem) ? first_zero_on_diagonal(problem) : 0;
}

runtime::JobStatistics solve_dense(runtime::Runtime& runtime, const LapackCall& problem,
                                   std::optional<kernels::SvdAlgorithm> algorithm, index_t tile,
                                   const runtime::CpuHelp& cpu) {
  if (const index_t zero = forbidding_zero(problem); zero != 0)
    return {.routine = name_of(problem), .n = problem.n, .info = zero, .devices = {}};
  if (problem.routine == Routine::trtrs) return solve_triangle(runtime, problem, tile, cpu);
  require_good_pivots(problem);
  return runtime.run_dense(problem, algorithm);
}

}  // namespace tessera::routines
