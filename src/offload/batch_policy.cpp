#include "offload/batch_policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

#include "offload/cpu_batch.hpp"
#include "runtime/batches/gemm_chunks.hpp"

namespace tessera::offload {
namespace {

/// Larger ones are calls of their own: a lane is to hold several products.
constexpr index_t most_product_bytes = index_t{16} << 20;

/// Larger ones would take lanes that nothing else needs: they are few, and the CPU computes them one by one.
constexpr double most_problem_bytes = 256.0 * (1 << 20);

/// The part of the rate of large products that small ones reach: they fill little
/// of a tile. Factorizations, besides, go from column to column.
constexpr double part_of_rate(Routine routine) { return is_lapack(routine) ? 1.0 / 32 : 1.0 / 16; }
/// Seconds of submitting a chunk; a form has at least one chunk.
constexpr double chunk_s = 30e-6;
constexpr double not_overlapped = 0.25;

constexpr double slowest_flops_per_s = 1e9;    ///< the reference on an old processor
constexpr double quickest_flops_per_s = 64e9;  ///< of a processor, on products that fit its cache

}  // namespace

BatchDemand demand_of(const GemmBatch& batch, index_t first, index_t last) {
  BatchDemand demand{.type = batch.type, .problems = last - first};
  index_t up = 0, down = 0;  // elements
  for (index_t i = first; i < last; ++i) {
    const Product& p = batch.problem(i);
    if (i == first || p.form != batch.problem(i - 1).form) ++demand.forms;
    demand.volume += p.m * p.n * p.k;
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
  demand.flops = flops_of_volume(batch.type, demand.volume);
  demand.up_bytes = element * static_cast<double>(up);
  demand.down_bytes = element * static_cast<double>(down);
  return demand;
}

BatchDemand demand_of(const LapackProblems& batch, index_t first, index_t last) {
  BatchDemand demand{.routine = batch.routine, .type = batch.type, .problems = last - first};
  const bool keeps_a = solves(batch.routine) && !factors(batch.routine);
  const auto element = static_cast<double>(element_bytes(batch.type));
  for (index_t i = first; i < last; ++i) {
    const LapackProblem& p = batch.problem(i);
    const LapackProblem* const former = i > first ? &batch.problem(i - 1) : nullptr;
    if (former == nullptr || former->form != p.form) ++demand.forms;
    demand.volume += volume_of(batch, p);
    demand.flops += batch.flops_of(p);
    demand.orders += static_cast<double>(p.n);
    const double a = element * static_cast<double>(p.m * p.n), b = element * static_cast<double>(p.n * p.nrhs);
    const double pivots = p.ipiv != nullptr ? sizeof(int) * static_cast<double>(std::min(p.m, p.n)) : 0;
    const bool is_shared = keeps_a && former != nullptr && former->A == p.A;
    demand.up_bytes += (is_shared ? 0 : a) + b + (factors(batch.routine) ? 0 : pivots);
    demand.down_bytes += (keeps_a ? 0 : a) + b + (factors(batch.routine) ? pivots : 0);
  }
  return demand;
}

BySize by_size(LapackProblems&& batch) {
  const auto bytes_of = [&](const LapackProblem& p) {
    const double elements =
        static_cast<double>(p.m) * static_cast<double>(p.n) + static_cast<double>(p.n) * static_cast<double>(p.nrhs);
    const bool has_inverse = inverts(batch.routine);  // beside the matrix
    return static_cast<double>(element_bytes(batch.type)) * (has_inverse ? 2 : 1) * elements;
  };
  BySize made;
  LapackProblems* const places[] = {&made.small, &made.large, &made.too_large};
  const auto place_of = [&](const LapackProblem& p) {
    const double bytes = bytes_of(p);
    return bytes <= static_cast<double>(most_product_bytes) ? 0 : bytes <= most_problem_bytes ? 1 : 2;
  };
  for (LapackProblems* const place : places) {
    place->routine = batch.routine;
    place->type = batch.type;
    place->forms = batch.forms;
  }
  if (std::all_of(batch.problems.begin(), batch.problems.end(), [&](const auto& p) { return place_of(p) == 0; })) {
    made.small.problems = std::move(batch.problems);
  } else {
    for (const LapackProblem& p : batch.problems) places[place_of(p)]->problems.push_back(p);
  }
  return made;
}

bool is_batched(ScalarType type, const ProductForm& form, const Product& product) {
  if (form.alpha == AnyScalar(0) || product.k == 0) return false;
  const auto& [m, n, k] = std::tie(product.m, product.n, product.k);
  if (volume_of(m, n, k) >= tiny_volume) return false;
  constexpr index_t surely_small = most_product_bytes / 32;  // elements, of 16 bytes at most
  return m * n + m * k + k * n <= surely_small || runtime::packed_bytes(type, form, product) <= most_product_bytes;
}

std::vector<Level3> take_single_calls(GemmBatch& batch) {
  const auto is_single = [&](const Product& p) { return !is_batched(batch.type, batch.form_of(p), p); };
  std::vector<Level3> calls;
  for (const Product& p : batch.problems) {
    if (is_single(p)) calls.push_back(batch.call(p));
  }
  if (!calls.empty()) std::erase_if(batch.problems, is_single);
  return calls;
}

Decision decide_early(const OffloadRule& rule, const BatchDemand& batch) {
  return decide_early(rule, Level3{.type = batch.type, .m = 1, .n = 1, .k = 1}, batch.volume);
}

double seconds_on_devices(const BatchDemand& batch, const Rates& rates, double packing_bytes_per_s) {
  const double pack_s = runtime::seconds_at(batch.up_bytes + batch.down_bytes, packing_bytes_per_s);
  const double move_s =
      runtime::move_seconds({.flops = batch.flops, .up = batch.up_bytes, .down = batch.down_bytes}, rates.links);
  const double compute_s =
      runtime::seconds_at(batch.flops, part_of_rate(batch.routine) * rates.flops_per_s[batch.type]) +
      chunk_s * static_cast<double>(batch.forms) / std::max(rates.devices, 1);
  const double longest_s = std::max({pack_s, move_s, compute_s});
  return rates.call_overhead_s + longest_s + not_overlapped * (pack_s + move_s + compute_s - longest_s);
}

Decision decide(const OffloadRule& rule, const BatchDemand& batch, const Conditions& now, double packing_bytes_per_s) {
  const Decision decision = decide_early(rule, batch);
  if (!decision.offload) return decision;
  if (now.rates.devices == 0) return {false, Reason::no_devices};
  return weigh(rule, decision, seconds_on_devices(batch, now.rates, packing_bytes_per_s), now);
}

const LearntRate& BatchSpeed::rate_of(const BatchDemand& batch) const {
  const auto digits = [](std::uint64_t number) { return static_cast<std::size_t>(std::bit_width(number)); };
  const double bytes = std::max(batch.up_bytes + batch.down_bytes, 1.0);
  const std::size_t volume = digits(static_cast<std::uint64_t>(batch.mean_volume())) / 3;
  const std::size_t intensity = digits(static_cast<std::uint64_t>(8 * batch.flops / bytes)) / 2;
  return rates_[number_of(batch.routine)][static_cast<std::size_t>(batch.type)][std::min(volume, volume_classes - 1)]
               [std::min(intensity, intensity_classes - 1)];
}
LearntRate& BatchSpeed::rate_of(const BatchDemand& batch) {
  return const_cast<LearntRate&>(std::as_const(*this).rate_of(batch));
}

bool BatchSpeed::knows(Routine routine, ScalarType type) const {
  const OfType& of_type = rates_[number_of(routine)][static_cast<std::size_t>(type)];
  return std::any_of(of_type.begin(), of_type.end(), [](const auto& of_volume) {
    return std::any_of(of_volume.begin(), of_volume.end(), [](const LearntRate& rate) { return rate.is_known(); });
  });
}

CpuEstimate BatchSpeed::estimate(const BatchDemand& batch, int threads) const {
  const double rate = threads * rate_of(batch).flops_per_s();
  if (rate > 0) return {batch.flops / rate, batch.flops / rate, batch.flops / rate};
  const double most_s = batch.flops / slowest_flops_per_s;
  return {most_s, batch.flops / (quickest_flops_per_s * threads), most_s};
}

}  // namespace tessera::offload
