#include "kernels/host/cpu_lapack_call.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calls/lapack_problems.hpp"
#include "calls/nonfinite_problem.hpp"
#include "core/process.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/dense_lapack.hpp"
#include "kernels/host/host_panel.hpp"
#include "kernels/plan/panel_steps.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::kernels {
namespace {

/// Computes the call as a problem of a batch. @throws std::bad_alloc
index_t compute_as_problem(const CpuBlas* blas, const LapackCall& call) {
  const Routine routine = call.routine;
  LapackProblems batch;
  batch.routine = routine;
  batch.type = call.type;
  const bool has_pivots = !is_hermitian(routine);
  const Op op = routine == Routine::getrs ? call.op : Op::no_trans;
  batch.forms.push_back({.uplo = call.uplo, .op = op, .has_pivots = has_pivots});
  const index_t m = rows_of(call);
  std::vector<int> pivots(has_pivots ? static_cast<std::size_t>(std::min(m, call.n)) : 0);
  if (has_pivots && !factors(routine)) {
    dispatch_pivots(call, [&](const auto* ipiv) {
      std::transform(ipiv, ipiv + call.n, pivots.begin(), [](auto row) { return static_cast<int>(row); });
    });
  }
  const LapackProblem problem{.m = m,
                              .n = call.n,
                              .nrhs = call.k,
                              .A = call.A,
                              .lda = call.lda,
                              .B = call.B,
                              .ldb = call.ldb,
                              .ipiv = has_pivots ? pivots.data() : nullptr};
  SpaceOfThreads space;
  space.reserve(lapack_space_bytes(routine, call.type, std::max(m, call.n)), 1);
  const index_t info = run_lapack(blas, batch, problem, false, space.of(0));
  if (has_pivots && factors(routine)) {
    dispatch_pivots(call, [&]<class Integer>(Integer* ipiv) {
      std::transform(pivots.begin(), pivots.end(), ipiv, [](int row) { return static_cast<Integer>(row); });
    });
  }
  return info;
}

/// @throws NotAvailable if the library has no such routine, or its integers are too narrow; std::bad_alloc
int compute_in_lapack(const CpuBlas& blas, const LapackCall& call, DenseOutcome& outcome) {
  for (const LapackOperand& operand : LapackOperands(call)) {
    if (blas.integer_bits() == 32 && std::max({operand.rows, operand.cols, operand.ld}) > INT32_MAX)
      throw NotAvailable("the integers of the CPU's LAPACK are too small for a matrix");
  }
  return DenseLapack::compute([&](const char* name) { return blas.fortran(name); }, blas.integer_bits(), call, outcome);
}

/// Panel by panel. @throws std::bad_alloc
void factor_qr_by_panels(const std::function<void(const Level3&)>& compute, const LapackCall& call) {
  const auto element = static_cast<index_t>(element_bytes(call.type));
  const PanelKind kind = is(call.routine, in_rows) ? PanelKind::lq : PanelKind::qr;
  const auto [m, n] = is_in_rows(kind) ? std::pair{call.n, call.m} : std::pair{call.m, call.n};  // of A^H for LQ
  const auto most_bytes = static_cast<std::size_t>(tail_bytes(kind, call.type, columns_of_part));
  std::vector<AnyScalar> tail(most_bytes / sizeof(AnyScalar) + 1);
  const Panel first{
      .kind = kind, .type = call.type, .m = m, .n = columns_of_part, .A = call.A, .lda = call.lda, .tail = tail.data()};
  const auto factor = [&](const Panel& panel, index_t at) {
    factor_panel(panel, 0, panel.n, compute);
    std::copy_n(tau_of(panel), panel.n * element, static_cast<std::byte*>(call.tau) + at * element);
  };
  plan::factor_qr_matrix(first, n, factor, [&](const PanelUpdate& update) { apply_panel(update, compute); });
}

index_t factor_qr(const CpuBlas* blas, const LapackCall& call) {
  const process::Pass pass(process::Work::computing);
  if (blas == nullptr) {
    factor_qr_by_panels(reference_level3, call);
    return 0;
  }
  try {
    DenseOutcome outcome;
    return compute_in_lapack(*blas, call, outcome);
  } catch (const NotAvailable&) {
    factor_qr_by_panels([blas](const Level3& part) { blas->run(part); }, call);
    return 0;
  }
}

}  // namespace

index_t compute_on_cpu(const CpuBlas* blas, const LapackCall& problem, index_t& found) {
  if (row_of(problem.routine).way == Way::factors) {
    if (does_nothing(problem)) return 0;
    return makes_reflectors(problem.routine) ? factor_qr(blas, problem) : compute_as_problem(blas, problem);
  }
  if (const auto info = answer_nonfinite(problem, found)) return *info;
  if (blas == nullptr) throw NotAvailable("there is no CPU BLAS with a LAPACK");
  const process::Pass pass(process::Work::computing);
  DenseOutcome outcome;
  const int info = compute_in_lapack(*blas, problem, outcome);
  found = outcome.found;
  return info;
}

}  // namespace tessera::kernels
