#include "offload/lapack_policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "routines/dense_solvers.hpp"

namespace tessera::offload {
namespace {

/// Seconds of a column of a panel beside its products (one H200, docs/performance/h200-x1: dgetrf and
/// dgeqrf of 8192 and 30000). The columns of a Cholesky factor are those of small blocks.
constexpr double column_s(Routine routine) {
  if (!factors(routine)) return 0;
  if (routine == Routine::geqrf) return 9e-6;
  return is_hermitian(routine) ? 1e-6 : 5e-6;
}

index_t as_volume(double volume) {
  constexpr auto most = static_cast<double>(std::numeric_limits<index_t>::max());
  return volume < most ? static_cast<index_t>(volume) : std::numeric_limits<index_t>::max();
}

}  // namespace

LapackDemand demand_of(const LapackCall& problem) {
  const LapackTraffic traffic = traffic_of(problem);
  const double flops = flops_of(problem);
  const bool is_by_factors = row_of(problem.routine).way == Way::factors;
  const auto columns = static_cast<double>(std::min(rows_of(problem), problem.n));
  return {.routine = problem.routine,
          .type = problem.type,
          .volume = as_volume(flops / (is_complex(problem.type) ? 8 : 2)),
          .work = {.flops = flops, .up = traffic.up, .down = traffic.down},
          .beside_s = is_by_factors ? column_s(problem.routine) * columns : routines::least_dense_s,
          .part_of_rate = is_by_factors ? 1 : routines::part_of_matrix_rate(problem)};
}

Level3 product_like(const LapackDemand& demand) {
  const auto side = std::max<index_t>(static_cast<index_t>(std::cbrt(static_cast<double>(demand.volume))), 1);
  return {.type = demand.type, .m = side, .n = side, .k = side};
}

Decision decide_early(const OffloadRule& rule, const LapackDemand& demand) {
  return decide_early(rule, Level3{.type = demand.type, .m = 1, .n = 1, .k = 1}, demand.volume);
}

Decision decide(const OffloadRule& rule, const LapackDemand& demand, const Conditions& now) {
  const Decision early = decide_early(rule, demand);
  if (!early.offload) return early;
  if (now.rates.devices == 0) return {false, Reason::no_devices};
  const double flops_per_s = now.rates.flops_per_s[demand.type];
  // Devices whose rates nobody knows have no known panels either.
  const double beside_s = flops_per_s > 0 ? demand.beside_s : 0;
  const double model_s = now.rates.call_overhead_s + beside_s +
                         runtime::seconds_at(demand.work.up, now.rates.page_lock_bytes_per_s) +
                         runtime::expected_seconds(demand.work, flops_per_s * demand.part_of_rate, now.rates.links);
  return weigh(rule, early, model_s, now);
}

int LapackSpeed::class_of(index_t volume) {
  return std::min(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(volume))) / 3, volume_classes - 1);
}

std::optional<CpuEstimate> LapackSpeed::estimate(const LapackDemand& demand) const {
  constexpr double doubt = 2;
  const OfType& rates = rates_[number_of(demand.routine)][static_cast<std::size_t>(demand.type)];
  const int own = class_of(demand.volume);
  int nearest = volume_classes;  // as far as none is
  double rate = 0;
  for (int c = 0; c < volume_classes; ++c) {
    const double seen = rates[static_cast<std::size_t>(c)].flops_per_s();
    if (seen <= 0 || std::abs(c - own) >= nearest) continue;
    nearest = std::abs(c - own);
    rate = seen;
  }
  if (rate <= 0) return std::nullopt;
  const double seconds = demand.work.flops / rate;
  if (nearest == 0) return CpuEstimate{seconds, seconds, seconds};
  return CpuEstimate{seconds, seconds / doubt, seconds * doubt};
}

}  // namespace tessera::offload
