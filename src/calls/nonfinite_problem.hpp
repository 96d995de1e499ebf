// Problems of LAPACK (lapack_call.hpp) that are solved by an iteration, with a matrix that has an infinite element or a NaN. The
// iteration may never end then, or leave its arrays. So the matrix is looked at before the CPU's LAPACK gets it, and the problem is
// answered as one whose iteration has not converged. Devices look at norms anyway, and leave such a problem to the CPU.
//
// Source of info: LAPACK after 3.12, xGESDD and xGEEV.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "calls/lapack_call.hpp"

namespace tessera {

/// Nobody knows how many eigenvalues are asked for.
constexpr bool is_by_values(const LapackCall& problem) {
  return problem.routine == Routine::heevr && problem.range == EigenRange::values;
}

/// Elements of a matrix that are infinite or NaN.
struct Nonfinite {
  bool has_nan = false;
  index_t first_minor = 0;  ///< order of the first leading minor that has such an element; 0: there is none
};

template <class Real>
bool are_finite(const Real* numbers, index_t count) {
  bool all = true;
  for (index_t i = 0; i < count; ++i) all &= std::isfinite(numbers[i]);  // without a jump
  return all;
}

/// Of the elements that a problem reads. Of a triangle's diagonal, which is a Hermitian matrix's, the real parts count.
inline Nonfinite nonfinite_elements(const LapackOperand& operand, ScalarType type) {
  const auto look = [&]<class Real>(Real) {
    const index_t parts = operand.element_bytes / index_t{sizeof(Real)};
    Nonfinite seen;
    // So many real numbers, from the element at (i, j) on.
    const auto look_at = [&](index_t i, index_t j, index_t count) {
      const Real* const numbers = reinterpret_cast<const Real*>(operand.address) + (i + j * operand.ld) * parts;
      if (are_finite(numbers, count)) return;
      for (index_t l = 0; l < count; ++l) {
        if (std::isfinite(numbers[l])) continue;
        seen.has_nan |= std::isnan(numbers[l]);
        const index_t minor = std::max(i + l / parts, j) + 1;
        seen.first_minor = seen.first_minor == 0 ? minor : std::min(seen.first_minor, minor);
      }
    };
    for (index_t j = 0; j < operand.read_cols; ++j) {
      if (operand.read_part == Part::full) {
        look_at(0, j, operand.read_rows * parts);
        continue;
      }
      look_at(j, j, 1);
      if (operand.read_part == Part::lower)
        look_at(j + 1, j, (operand.read_rows - j - 1) * parts);
      else
        look_at(0, j, j * parts);
    }
    return seen;
  };
  return real_bytes(type) == sizeof(float) ? look(float{}) : look(double{});
}

/// All eigenvalues of a Hermitian matrix.
constexpr bool finds_all_values(const LapackCall& problem) {
  return problem.routine == Routine::heevd || problem.routine == Routine::hegvd;
}
/// Whether LAPACK's divide and conquer hands NaN on and says nothing. Vectors come from it, but of small matrices.
/// Source: xSTEDC.
constexpr bool hands_nan_on(const LapackCall& problem) {
  constexpr index_t largest_undivided = 25;
  return finds_all_values(problem) && problem.vectors && problem.n > largest_undivided;
}
/// LAPACK's info of xSTEQR and xSTERF: so many elements beside the diagonal have not become zero.
constexpr index_t info_of_iteration(const LapackCall& problem) { return problem.n - 1; }

/// LAPACK's info for a problem of an iterating routine that has such elements; nothing if the problem has none.
inline std::optional<index_t> info_of_nonfinite(const LapackCall& problem) {
  constexpr index_t a_is_bad = -4;  // the position of A
  // Blocks of order 2 need no iteration.
  if (!iterates(problem.routine) || (finds_all_values(problem) && problem.n <= 2)) return std::nullopt;
  Nonfinite of_a, of_b;
  for (const LapackOperand& operand : LapackOperands(problem)) {
    if (!operand.reads) continue;
    if (operand.slot == LapackSlot::A) of_a = nonfinite_elements(operand, problem.type);
    // The right-hand sides of gelsd take no part in the iteration.
    if (operand.slot == LapackSlot::B && is_eigenproblem(problem.routine))
      of_b = nonfinite_elements(operand, problem.type);
  }
  if (of_b.first_minor != 0) return problem.n + of_b.first_minor;  // B is not positive definite
  if (of_a.first_minor == 0) return std::nullopt;
  const bool tells_nan = problem.routine == Routine::gesdd || problem.routine == Routine::geev;
  if (tells_nan && of_a.has_nan) return a_is_bad;
  if (finds_all_values(problem)) return hands_nan_on(problem) ? 0 : info_of_iteration(problem);
  if (finds_singular_values(problem.routine)) return std::min(problem.m, problem.n);
  return is_by_values(problem) ? problem.n : most_found(problem);
}

/// All that is written of a matrix becomes NaN.
inline void fill_with_nan(const LapackOperand& operand, ScalarType type) {
  const auto fill = [&]<class Real>(Real) {
    const index_t parts = operand.element_bytes / index_t{sizeof(Real)};
    for (index_t j = 0; j < operand.cols; ++j) {
      const index_t first = operand.written_part == Part::lower ? j : 0;
      const index_t last = operand.written_part == Part::upper ? j + 1 : operand.rows;
      std::fill_n(reinterpret_cast<Real*>(operand.address) + (first + j * operand.ld) * parts, (last - first) * parts,
                  std::numeric_limits<Real>::quiet_NaN());
    }
  };
  real_bytes(type) == sizeof(float) ? fill(float{}) : fill(double{});
}

/// Answers a problem that must not be iterated on: its results become NaN. Of those in a range of values none are found.
/// @param found as of LapackCall @return info; nothing, and nothing is done, if all elements are finite
inline std::optional<index_t> answer_nonfinite(const LapackCall& problem, index_t& found) {
  const std::optional<index_t> info = info_of_nonfinite(problem);
  if (!info) return std::nullopt;
  const bool finds_some = problem.routine == Routine::heevr;
  found = finds_some && !is_by_values(problem) ? most_found(problem) : 0;
  for (LapackOperand operand : LapackOperands(problem)) {
    if (!operand.writes) continue;
    if (finds_some && operand.slot == LapackSlot::values && !is_by_values(problem)) operand.rows = found;
    if (finds_some && operand.slot == LapackSlot::U) operand.cols = found;
    fill_with_nan(operand, problem.type);
  }
  return info;
}

}  // namespace tessera
