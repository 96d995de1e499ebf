// The cases of lapack_batch_bench: routines of LAPACK on batches of square problems, with the operations and the
// traffic of each of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "calls/lapack.hpp"
#include "core/scalar.hpp"

namespace tessera::bench {

/// In the order in which they are measured.
inline constexpr std::array measured_routines = {Routine::getrf, Routine::potrf, Routine::getrf_nopiv,
                                                 Routine::getrs, Routine::potrs, Routine::gesv,
                                                 Routine::posv,  Routine::potri, Routine::getri};

inline std::vector<std::string> measured_routine_names() {
  std::vector<std::string> names;
  for (const Routine routine : measured_routines) names.emplace_back(name_of(routine));
  return names;
}
/// @throws std::runtime_error if no measured routine has this name
inline Routine measured_routine(const std::string& name) {
  for (const Routine routine : measured_routines) {
    if (name == name_of(routine)) return routine;
  }
  throw std::runtime_error("no routine " + name);
}

struct LapackCase {
  Routine routine = Routine::getrf;
  ScalarType type = ScalarType::d;
  Uplo uplo = Uplo::lower;
  index_t n = 1, nrhs = 1, count = 1;

  bool is(Routine other) const { return routine == other; }
  bool is_cholesky() const { return tessera::is_hermitian(routine); }
  bool factors() const { return tessera::factors(routine); }
  bool solves() const { return tessera::solves(routine); }
  bool inverts() const { return tessera::inverts(routine); }
  /// A is factored already when the routine is called.
  bool begins_with_factors() const { return !factors(); }
  bool writes_a() const { return factors() || inverts(); }
  bool has_pivots() const { return !is_cholesky() && !is(Routine::getrf_nopiv); }

  std::string name() const { return letter(type) + std::string(name_of(routine)); }
  const char* uplo_name() const { return !is_cholesky() ? "" : uplo == Uplo::lower ? "lower" : "upper"; }
};

/// Of all problems.
inline double flops_of(const LapackCase& c) {
  const auto n = static_cast<double>(c.n);
  return (is_complex(c.type) ? 4 : 1) * real_flops_of(c.routine, n, n, static_cast<double>(c.nrhs)) *
         static_cast<double>(c.count);
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

inline std::vector<index_t> default_batches(index_t n, bool quick) {
  if (n <= 64) return quick ? std::vector<index_t>{10000} : std::vector<index_t>{1000, 10000, 100000};
  return {n <= 1024 ? 1000 : 64};
}

}  // namespace tessera::bench
