// Facts about LAPACK's routines, as single problems and in batches: operation counts, and the positions in info.
#pragma once

#include "calls/parameters.hpp"
#include "calls/routine.hpp"

namespace tessera {

/// B is n x nrhs; A is m x n in getrf, getrf_nopiv, geqrf, gelqf, n x n in all others. Floating-point operations as everybody
/// reports them, of a real type; complex operations count four times real ones. Of routines that factor, solve by factors or
/// invert; 0 for others.
/// Source: LAPACK Working Note 41, leading terms.
constexpr double real_flops_of(Routine routine, double m, double n, double nrhs) {
  const double least = m < n ? m : n, most = m < n ? n : m;
  const double lu = 2 * m * n * least - (m + n) * least * least + 2.0 / 3 * least * least * least;
  const double solve = 2 * n * n * nrhs;
  switch (routine) {
    case Routine::potrf:
      return n * n * n / 3;
    case Routine::posv:
      return n * n * n / 3 + solve;
    case Routine::potri:
      return 2 * n * n * n / 3;
    case Routine::getrf:
    case Routine::getrf_nopiv:
      return lu;
    case Routine::gesv:
      return lu + solve;
    case Routine::getri:
      return 4 * n * n * n / 3;
    case Routine::potrs:
    case Routine::getrs:
      return solve;
    default:
      return makes_reflectors(routine) ? 2 * most * least * least - 2.0 / 3 * least * least * least : 0;
  }
}

/// Of the arguments that a problem of a batch can be wrong in; 0: the routine has no such argument, or never complains of it.
struct LapackPositions {
  int m = 0, n = 0, nrhs = 0, lda = 0, ldb = 0;
};
constexpr LapackPositions lapack_positions(Routine routine) {
  using enum Parameter;
  if (routine == Routine::laswp) return {};
  const auto at = [routine](Parameter parameter) { return position_of(routine, parameter); };
  return {.m = at(m), .n = at(n), .nrhs = at(nrhs), .lda = at(lda), .ldb = at(ldb)};
}

}  // namespace tessera
