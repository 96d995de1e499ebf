// How much workspace LAPACK's routines insist on that a device may solve whole (lapack_fortran.hpp).
//
// Source: LAPACK 3.12, the documentation of each routine and, where it asks for less, the routine.
#pragma once

#include <algorithm>

#include "calls/lapack_call.hpp"
#include "calls/parameters.hpp"

namespace tessera::lapack_fortran {

/// Elements of work, rwork and iwork that the routine insists on.
struct Workspace {
  index_t work = 1, rwork = 1, iwork = 1;
};
/// Where matrices are so much longer than wide, gesvd and gelsd begin with QR or LQ (ilaenv's ISPEC 6).
constexpr bool begins_with_qr(index_t most, index_t least) {
  return most >= static_cast<index_t>(static_cast<float>(least) * 1.6F);
}

/// The least workspace that gesdd accepts. Its documentation asks for more, but its own queries may answer with less.
constexpr index_t least_of_real_gesdd(const LapackCall& p) {
  const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n), square = least * least;
  const index_t bidiagonal = p.u == VectorJob::none ? 7 * least : 3 * square + 4 * least;
  const bool overwrites = p.u == VectorJob::overwrite || p.vt == VectorJob::overwrite;
  if (most < 11 * least / 6) return 3 * least + std::max(most, bidiagonal + (overwrites ? square : 0));
  if (p.u == VectorJob::none) return bidiagonal + least;
  if (overwrites) return bidiagonal + 2 * square + 3 * least;
  if (p.u == VectorJob::thin) return bidiagonal + square + 3 * least;
  return square + std::max(3 * least + bidiagonal, least + most);
}
constexpr index_t least_of_complex_gesdd(const LapackCall& p) {
  const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n), square = least * least;
  const bool overwrites = p.u == VectorJob::overwrite || p.vt == VectorJob::overwrite;
  if (most < 17 * least / 9) return 2 * least + most + (overwrites ? square : 0);
  if (p.u == VectorJob::none) return 3 * least;
  if (overwrites) return 2 * square + 3 * least;
  if (p.u == VectorJob::thin) return square + 3 * least;
  return square + std::max(3 * least, least + most);
}

constexpr index_t least_of_gesvd(const LapackCall& p) {
  const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n);
  const bool needs_no_q = (p.m >= p.n ? p.u : p.vt) == VectorJob::none && begins_with_qr(most, least);
  if (is_complex(p.type)) return needs_no_q ? 3 * least : 2 * least + most;
  return std::max(needs_no_q ? 4 * least : 3 * least + most, 5 * least);
}

/// As gelsd computes it with the leaves of 25 that ilaenv has for it.
constexpr Workspace least_of_gelsd(const LapackCall& p) {
  constexpr index_t leaf = 25, square = (leaf + 1) * (leaf + 1);
  const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n);
  index_t levels = 2 * least > leaf + 1 ? 1 : 0;  // as many as halve it down to the leaf, rounded towards 1
  for (index_t order = 2 * (leaf + 1); order <= least; order *= 2) ++levels;
  const index_t iwork = 3 * least * levels + 11 * least;
  if (is_complex(p.type)) {
    const index_t last = std::max(square, p.n * (1 + p.k) + 2 * p.k);
    const index_t rows = p.m >= p.n && begins_with_qr(most, least) ? least : most;
    return {2 * least + std::max(rows, least * p.k),
            10 * least + 2 * least * leaf + 8 * least * levels + 3 * leaf * p.k + last, iwork};
  }
  const index_t solve = 9 * least + 2 * least * leaf + 8 * least * levels + least * p.k + square;
  return {3 * least + solve, 1, iwork};  // the solution takes more than the reduction
}

/// @param has_left geev: left eigenvectors are asked for
constexpr Workspace least_workspace(Routine routine, const LapackCall& p, bool has_left = false) {
  const bool complex = is_complex(p.type);
  const index_t n = p.n, least = std::min(p.m, p.n);
  switch (routine) {
    case Routine::heev:
    case Routine::hegv:
      return {complex ? 2 * n - 1 : 3 * n - 1};
    case Routine::heevd:
    case Routine::hegvd:
      if (n <= 1) break;
      if (!p.vectors) return {complex ? n + 1 : 2 * n + 1, n};
      if (complex) return {2 * n + n * n, 1 + 5 * n + 2 * n * n, 3 + 5 * n};
      return {1 + 6 * n + 2 * n * n, 1, 3 + 5 * n};
    case Routine::heevr:
      return complex ? Workspace{2 * n, 24 * n, 10 * n} : Workspace{26 * n, 1, 10 * n};
    case Routine::heevx:
      if (n <= 1) break;
      return {complex ? 2 * n : 8 * n};
    case Routine::gesvd:
      return {least_of_gesvd(p)};
    case Routine::gesdd:
      return {complex ? least_of_complex_gesdd(p) : least_of_real_gesdd(p)};
    case Routine::geev:
      return {complex ? 2 * n : (p.vectors || has_left ? 4 : 3) * n};
    case Routine::gels:
      return {least + std::max(least, p.k)};
    case Routine::gelsd:
      return least_of_gelsd(p);
    case Routine::getri:
      return {n};
    case Routine::unmqr:
    case Routine::unmlq:
    case Routine::unmtr:
    case Routine::unmbr:
      return {p.side == Side::left ? n : p.m};
    default:
      if (makes_reflectors(routine) || forms_q(routine)) return {is(routine, in_rows) ? p.m : n};
  }
  return {};
}

}  // namespace tessera::lapack_fortran
