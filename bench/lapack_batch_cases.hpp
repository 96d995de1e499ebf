// What lapack_batch_bench measures: routines of LAPACK on batches of square problems, and what each of them has to compute
// and to move.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/level3.hpp"

namespace tessera::bench {

enum class BatchRoutine { getrf, potrf, getrf_nopiv, getrs, potrs, gesv, posv, potri, getri };
inline constexpr std::array<const char*, 9> batch_routine_names = {"getrf", "potrf", "getrf_nopiv", "getrs", "potrs",
                                                                   "gesv",  "posv",  "potri",       "getri"};

inline BatchRoutine batch_routine(const std::string& name) {
  for (std::size_t i = 0; i < batch_routine_names.size(); ++i) {
    if (name == batch_routine_names[i]) return static_cast<BatchRoutine>(i);
  }
  throw std::runtime_error("no routine " + name);
}

struct LapackCase {
  BatchRoutine routine = BatchRoutine::getrf;
  ScalarType type = ScalarType::d;
  Uplo uplo = Uplo::lower;
  index_t n = 1, nrhs = 1, count = 1;

  bool is(BatchRoutine other) const { return routine == other; }
  bool is_cholesky() const {
    using enum BatchRoutine;
    return is(potrf) || is(potrs) || is(posv) || is(potri);
  }
  /// A is factored already when the routine is called.
  bool begins_with_factors() const {
    using enum BatchRoutine;
    return is(getrs) || is(potrs) || is(potri) || is(getri);
  }
  bool solves() const {
    using enum BatchRoutine;
    return is(getrs) || is(potrs) || is(gesv) || is(posv);
  }
  bool inverts() const { return is(BatchRoutine::potri) || is(BatchRoutine::getri); }
  bool factors() const { return !begins_with_factors(); }
  bool writes_a() const { return factors() || inverts(); }
  bool has_pivots() const { return !is_cholesky() && !is(BatchRoutine::getrf_nopiv); }

  std::string name() const {
    return letter(type) + std::string(batch_routine_names[static_cast<std::size_t>(routine)]);
  }
  const char* uplo_name() const { return !is_cholesky() ? "" : uplo == Uplo::lower ? "lower" : "upper"; }
};

/// Of all problems: leading terms, as in LAPACK Working Note 41, and four times as many in complex types.
inline double flops_of(const LapackCase& c) {
  const auto n = static_cast<double>(c.n);
  const double cube = n * n * n;
  double of_one = c.solves() ? 2 * n * n * static_cast<double>(c.nrhs) : 0.0;
  if (c.factors()) of_one += c.is_cholesky() ? cube / 3 : 2 * cube / 3;
  if (c.inverts()) of_one += c.is_cholesky() ? 2 * cube / 3 : 4 * cube / 3;
  return (is_complex(c.type) ? 4 : 1) * of_one * static_cast<double>(c.count);
}

/// Of all problems: A is read once, and written once where it changes, of Hermitian and triangular matrices a triangle;
/// right-hand sides are read and written; pivots are read or written. Neither addresses nor info count.
inline double compulsory_bytes(const LapackCase& c) {
  const auto n = static_cast<double>(c.n);
  double elements = (c.is_cholesky() ? n * (n + 1) / 2 : n * n) * (c.writes_a() ? 2 : 1);
  if (c.solves()) elements += 2 * n * static_cast<double>(c.nrhs);
  const double pivots = c.has_pivots() ? 4 * n : 0;
  return (static_cast<double>(element_bytes(c.type)) * elements + pivots) * static_cast<double>(c.count);
}

inline std::vector<index_t> default_sizes() {
  return {4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 3072};
}
inline std::vector<index_t> default_batches(index_t n, bool quick) {
  if (n <= 64) return quick ? std::vector<index_t>{10000} : std::vector<index_t>{1000, 10000, 100000};
  return {n <= 1024 ? 1000 : 64};
}

}  // namespace tessera::bench
