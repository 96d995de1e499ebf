#include "offload/batch_parts.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "offload/policy.hpp"
#include "runtime/batches/gemm_chunks.hpp"

namespace tessera::offload {
namespace {

/// Larger ones are calls of their own: a lane is to hold several products.
constexpr index_t most_product_bytes = index_t{16} << 20;

/// Larger ones would take lanes that nothing else needs: they are few, and the CPU computes them one by one.
constexpr double most_problem_bytes = 256.0 * (1 << 20);

}  // namespace

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

}  // namespace tessera::offload
