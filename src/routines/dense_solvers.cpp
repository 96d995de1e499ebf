#include "routines/dense_solvers.hpp"

#include <complex>

namespace tessera::routines {
namespace {

/// From 1, as LAPACK tells it before it does anything; 0: there is none. It is looked for on the host, whatever a device's
/// library tells of it.
index_t first_zero_on_diagonal(const DenseProblem& problem) {
  return dispatch(problem.type, [&]<Scalar T>(T) -> index_t {
    const T* const A = static_cast<const T*>(problem.A);
    for (index_t j = 0; j < problem.n; ++j) {
      if (A[j + j * problem.lda] == T(0)) return j + 1;
    }
    return 0;
  });
}

bool is_inverse(DenseRoutine routine) { return routine == DenseRoutine::trtri || routine == DenseRoutine::potri; }

}  // namespace

runtime::JobStatistics solve_dense(runtime::Runtime& runtime, const DenseProblem& problem,
                                   std::optional<kernels::SvdAlgorithm> algorithm) {
  if (is_inverse(problem.routine) && !(problem.routine == DenseRoutine::trtri && problem.diag == Diag::unit)) {
    if (const index_t zero = first_zero_on_diagonal(problem); zero != 0)
      return {.routine = name_of(problem), .n = problem.n, .info = zero, .devices = {}};
  }
  return runtime.run_dense(problem, algorithm);
}

double part_of_matrix_rate(const DenseProblem& problem) {
  switch (problem.routine) {
    case DenseRoutine::heevd:
    case DenseRoutine::heevr:
    case DenseRoutine::hegvd:
      return problem.vectors ? 0.04 : 0.02;  // half of the reduction is bound by memory
    case DenseRoutine::gesdd:
    case DenseRoutine::gesvd:
      return 0.04;
    case DenseRoutine::geev:
      return 0.015;
    case DenseRoutine::trtri:
    case DenseRoutine::potri:
      return 0.05;
    case DenseRoutine::ungqr:
    case DenseRoutine::unmqr:
      break;
  }
  return 0.3;
}

double expected_seconds(const DenseProblem& problem, const runtime::Machine& machine) {
  if (machine.flops_per_s <= 0 || machine.link_bytes_per_s <= 0) return 0;
  const DenseTraffic traffic = traffic_of(problem);
  return least_dense_s + dense_flops(problem) / (machine.flops_per_s * part_of_matrix_rate(problem)) +
         static_cast<double>(traffic.up + traffic.down) / machine.link_bytes_per_s;
}

}  // namespace tessera::routines
