#include "routines/dense_solvers.hpp"

#include <complex>
#include <cstdint>
#include <vector>

#include "routines/level3.hpp"

namespace tessera::routines {
namespace {

/// From 1, as LAPACK tells it before it does anything; 0: there is none. It is looked for on the host, whatever a device's
/// library tells of it.
index_t first_zero_on_diagonal(const LapackCall& problem) {
  return dispatch(problem.type, [&]<Scalar T>(T) -> index_t {
    const T* const A = static_cast<const T*>(problem.A);
    for (index_t j = 0; j < problem.n; ++j) {
      if (A[j + j * problem.lda] == T(0)) return j + 1;
    }
    return 0;
  });
}

/// LAPACK looks for zeros there before it does anything.
bool needs_nonzero_diagonal(const LapackCall& problem) {
  const bool may_be_unit = problem.routine == Routine::trtri || problem.routine == Routine::trtrs;
  return may_be_unit ? problem.diag == Diag::non_unit : is_inverse(problem.routine);
}

/// In 64 bits. @throws UnsuitableNumbers if one of them is no row's
std::vector<std::int64_t> wide_pivots(const LapackCall& problem) {
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(problem.n));
  for (std::size_t i = 0; i < pivots.size(); ++i) {
    pivots[i] = problem.ipiv_bits == 64 ? static_cast<const std::int64_t*>(problem.ipiv)[i]
                                        : static_cast<const std::int32_t*>(problem.ipiv)[i];
    if (pivots[i] < 1 || pivots[i] > problem.n) throw UnsuitableNumbers(name_of(problem) + ": a pivot is no row");
  }
  return pivots;
}

runtime::JobStatistics solve_triangle(runtime::Runtime& runtime, const LapackCall& problem, index_t tile,
                                      const runtime::CpuHelp& cpu) {
  const Level3 call{.routine = Routine::trsm,
                    .type = problem.type,
                    .side = Side::left,
                    .uplo = problem.uplo,
                    .op_a = problem.op,
                    .diag = problem.diag,
                    .m = problem.n,
                    .n = problem.k,
                    .A = problem.A,
                    .lda = problem.lda,
                    .C = problem.B,
                    .ldc = problem.ldb};
  runtime::JobStatistics job = run(runtime, call, tile, cpu);
  job.routine = name_of(problem);
  job.m = job.n = problem.n;
  job.k = problem.k;
  return job;
}

}  // namespace

runtime::JobStatistics solve_dense(runtime::Runtime& runtime, const LapackCall& problem,
                                   std::optional<kernels::SvdAlgorithm> algorithm, index_t tile,
                                   const runtime::CpuHelp& cpu) {
  if (needs_nonzero_diagonal(problem)) {
    if (const index_t zero = first_zero_on_diagonal(problem); zero != 0)
      return {.routine = name_of(problem), .n = problem.n, .info = zero, .devices = {}};
  }
  if (problem.routine == Routine::trtrs) return solve_triangle(runtime, problem, tile, cpu);
  if (problem.routine != Routine::getri) return runtime.run_dense(problem, algorithm);
  std::vector<std::int64_t> pivots = wide_pivots(problem);
  LapackCall wide = problem;
  wide.ipiv = pivots.data();
  wide.ipiv_bits = 64;
  return runtime.run_dense(wide, algorithm);
}

}  // namespace tessera::routines
