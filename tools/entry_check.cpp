#include "entry_check.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "host_matrix.hpp"

namespace tessera::tools {
namespace {

using Value = std::complex<long double>;

Value load(char type, const void* base, std::int64_t index) {
  switch (type) {
    case 's':
      return static_cast<const float*>(base)[index];
    case 'd':
      return static_cast<const double*>(base)[index];
    case 'c': {
      const float* pair = static_cast<const float*>(base) + 2 * index;
      return {pair[0], pair[1]};
    }
    default: {
      const double* pair = static_cast<const double*>(base) + 2 * index;
      return {pair[0], pair[1]};
    }
  }
}

// Entry (row, column) of op(M).
Value entry(char type, const void* matrix, std::int64_t ld, char op, std::int64_t row, std::int64_t column) {
  if (op == 'N') return load(type, matrix, row + column * ld);
  const Value value = load(type, matrix, column + row * ld);
  return op == 'C' ? std::conj(value) : value;
}

// Without the special cases of infinities that std::complex multiplies with.
Value multiply(Value x, Value y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

}  // namespace

EntryCheck::EntryCheck(const tessera_bench_gemm_call& call, int entries) {
  for (const std::int64_t i : {std::int64_t{0}, call.m - 1}) {
    for (const std::int64_t j : {std::int64_t{0}, call.n - 1}) entries_.push_back({i, j, {}, 0, {}});
  }
  std::mt19937_64 generator(20160401);
  std::uniform_int_distribution<std::int64_t> row(0, call.m - 1), column(0, call.n - 1);
  while (entries_.size() < static_cast<std::size_t>(entries)) {
    const std::int64_t i = row(generator);
    entries_.push_back({i, column(generator), {}, 0, {}});
  }
  for_each_part(static_cast<std::int64_t>(entries_.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      Entry& chosen = entries_[static_cast<std::size_t>(e)];
      for (std::int64_t l = 0; l < call.k; ++l) {
        const Value a = entry(call.type, call.A, call.lda, call.transa, chosen.i, l);
        const Value b = entry(call.type, call.B, call.ldb, call.transb, l, chosen.j);
        chosen.product += multiply(a, b);
        chosen.magnitude += std::sqrt(std::norm(a) * std::norm(b));
      }
    }
  });
}

void EntryCheck::remember(const tessera_bench_gemm_call& call) {
  for (Entry& chosen : entries_) chosen.old = load(call.type, call.C, chosen.i + chosen.j * call.ldc);
}

double EntryCheck::worst_error(const tessera_bench_gemm_call& call) const {
  const bool single = call.type == 's' || call.type == 'c';
  const bool complex = call.type == 'c' || call.type == 'z';
  const long double unit = single ? 0x1p-24L : 0x1p-53L;
  const long double factor =
      8 * std::sqrt(static_cast<long double>(call.k + 2)) * unit * (complex ? 2 * std::sqrt(2.0L) : 1);
  const Value alpha = load(call.type, call.alpha, 0), beta = load(call.type, call.beta, 0);
  long double worst = 0;
  for (const Entry& chosen : entries_) {
    const Value old = beta == Value(0) ? Value(0) : chosen.old;
    const Value expected = multiply(alpha, chosen.product) + multiply(beta, old);
    const long double error = std::abs(load(call.type, call.C, chosen.i + chosen.j * call.ldc) - expected);
    const long double bound = factor * (std::abs(alpha) * chosen.magnitude + std::abs(beta) * std::abs(old));
    if (!(error <= std::numeric_limits<long double>::max())) return std::numeric_limits<double>::infinity();
    if (error > 0) worst = std::max(worst, error / bound);
  }
  return static_cast<double>(worst);
}

}  // namespace tessera::tools
