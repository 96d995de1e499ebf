#include "offload/work.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/cpu_batch.hpp"
#include "routines/dense_solvers.hpp"

namespace tessera::offload {
namespace {

index_t as_volume(double volume) {
  constexpr auto most = static_cast<double>(std::numeric_limits<index_t>::max());
  return volume < most ? static_cast<index_t>(volume) : std::numeric_limits<index_t>::max();
}

/// Multiply-adds in the time in which one processor reads an element: 10 GB/s beside some 20 Gflop/s.
constexpr index_t reads_of_element = 16;

/// The part of the rate of large products that small ones reach: they fill little
/// of a tile. Factorizations, besides, go from column to column.
constexpr double part_of_small = 1.0 / 16, part_of_small_factorizations = 1.0 / 32;

}  // namespace

Work work_of(const LapackCall& call) {
  const LapackTraffic traffic = traffic_of(call);
  const double flops = flops_of(call);
  const RoutineRow& row = row_of(call.routine);
  const auto columns = static_cast<double>(std::min(rows_of(call), call.n));
  const bool only_solves = (solves(call.routine) && !factors(call.routine)) || call.routine == Routine::trtrs;
  const double elements = traffic.up / static_cast<double>(element_bytes(call.type));
  return {.flops = flops,
          .up = traffic.up,
          .down = traffic.down,
          .of = Work::Of::lapack,
          .routine = call.routine,
          .type = call.type,
          .volume = as_volume(flops / (is_complex(call.type) ? 8 : 2)),
          .page_locked = traffic.up,
          .beside_s = row.column_s * columns + (row.way == Way::whole ? routines::least_dense_s : 0),
          .part_of_rate = part_of_matrix_rate(call),
          .part_of_cpu = row.part_of_cpu,
          .reading = only_solves ? as_volume(reads_of_element * elements) : 0};
}

Work work_of(const GemmBatch& batch, index_t first, index_t last) {
  Work work{.of = Work::Of::batch, .type = batch.type, .problems = last - first};
  index_t up = 0, down = 0;  // elements
  for (index_t i = first; i < last; ++i) {
    const Product& p = batch.problem(i);
    if (i == first || p.form != batch.problem(i - 1).form) ++work.forms;
    work.volume += p.m * p.n * p.k;
    // Neighbours that share a matrix move it once.
    const bool shares_a = i > first && p.A == batch.problem(i - 1).A,
               shares_b = i > first && p.B == batch.problem(i - 1).B;
    const index_t results = p.m * p.n;
    const index_t operands = (shares_a ? 0 : p.m * p.k) + (shares_b ? 0 : p.k * p.n);
    const bool reads_c = batch.form_of(p).beta != AnyScalar(0);
    up += operands + (reads_c ? results : 0);
    down += results;
  }
  const auto element = static_cast<double>(element_bytes(batch.type));
  work.flops = flops_of_volume(batch.type, work.volume);
  work.part_of_rate = part_of_small;
  work.up = element * static_cast<double>(up);
  work.down = element * static_cast<double>(down);
  return work;
}

Work work_of(const LapackProblems& batch, index_t first, index_t last) {
  Work work{.of = Work::Of::batch, .routine = batch.routine, .type = batch.type, .problems = last - first};
  work.part_of_rate = part_of_small_factorizations;
  const bool keeps_a = solves(batch.routine) && !factors(batch.routine);
  const auto element = static_cast<double>(element_bytes(batch.type));
  for (index_t i = first; i < last; ++i) {
    const LapackProblem& p = batch.problem(i);
    const LapackProblem* const former = i > first ? &batch.problem(i - 1) : nullptr;
    if (former == nullptr || former->form != p.form) ++work.forms;
    work.volume += kernels::volume_of(batch, p);
    work.flops += batch.flops_of(p);
    work.orders += static_cast<double>(p.n);
    const double a = element * static_cast<double>(p.m * p.n), b = element * static_cast<double>(p.n * p.nrhs);
    const double pivots = p.ipiv != nullptr ? sizeof(int) * static_cast<double>(std::min(p.m, p.n)) : 0;
    const bool is_shared = keeps_a && former != nullptr && former->A == p.A;
    work.up += (is_shared ? 0 : a) + b + (factors(batch.routine) ? 0 : pivots);
    work.down += (keeps_a ? 0 : a) + b + (factors(batch.routine) ? pivots : 0);
  }
  return work;
}

}  // namespace tessera::offload
