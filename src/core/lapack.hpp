// LAPACK's routines that factor, solve and invert, as far as they exist for batches (device_lapack.h): their arguments,
// and what distinguishes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// getrf_nopiv: LU without interchanges, in which tiny pivots may be replaced.
enum class LapackRoutine : std::uint8_t { potrf, potrs, posv, potri, getrf, getrf_nopiv, getrs, gesv, getri, laswp };
inline constexpr int lapack_routine_count = 10;

constexpr const char* name_of(LapackRoutine routine) {
  constexpr const char* names[lapack_routine_count] = {"potrf",       "potrs", "posv", "potri", "getrf",
                                                       "getrf_nopiv", "getrs", "gesv", "getri", "laswp"};
  return names[static_cast<int>(routine)];
}

/// Cholesky factors, A Hermitian; else LU factors.
constexpr bool is_hermitian(LapackRoutine routine) { return routine <= LapackRoutine::potri; }
/// A is replaced by its factors, before anything is solved.
constexpr bool factors(LapackRoutine routine) {
  using enum LapackRoutine;
  return routine == potrf || routine == posv || routine == getrf || routine == getrf_nopiv || routine == gesv;
}
/// There are right-hand sides B.
constexpr bool solves(LapackRoutine routine) {
  using enum LapackRoutine;
  return routine == potrs || routine == posv || routine == getrs || routine == gesv;
}
constexpr bool inverts(LapackRoutine routine) {
  return routine == LapackRoutine::potri || routine == LapackRoutine::getri;
}
/// Not only arguments can be wrong, so that somebody must be told.
constexpr bool needs_info(LapackRoutine routine) { return factors(routine) || inverts(routine); }

/// B is n x nrhs; A is m x n in getrf and getrf_nopiv, n x n in all others. Floating-point operations as everybody
/// reports them, of a real type; complex operations count four times real ones. @pre no laswp
/// Source: LAPACK Working Note 41, leading terms.
constexpr double real_flops_of(LapackRoutine routine, double m, double n, double nrhs) {
  using enum LapackRoutine;
  const double least = m < n ? m : n;
  const double lu = 2 * m * n * least - (m + n) * least * least + 2.0 / 3 * least * least * least;
  const double solve = 2 * n * n * nrhs;
  switch (routine) {
    case potrf:
      return n * n * n / 3;
    case posv:
      return n * n * n / 3 + solve;
    case potri:
      return 2 * n * n * n / 3;
    case getrf:
    case getrf_nopiv:
      return lu;
    case gesv:
      return lu + solve;
    case getri:
      return 4 * n * n * n / 3;
    case potrs:
    case getrs:
      return solve;
    case laswp:
      break;
  }
  return 0;
}

/// What stands at a position of an interface; `none` behind the last.
enum class LapackParameter : std::uint8_t {
  uplo,
  trans,
  m,
  n,
  nrhs,
  A,
  lda,
  tiny,
  ipiv,
  B,
  ldb,
  k1,
  k2,
  incx,
  info,
  none
};

inline constexpr std::size_t most_lapack_parameters = 9;
using LapackParameters = std::array<LapackParameter, most_lapack_parameters + 1>;

/// Position 1 first. getri's work and lwork are left out. getrf_nopiv, which Fortran does not have, is getrf with `tiny`
/// in place of pivots. Source: LAPACK 3.12.
constexpr LapackParameters lapack_parameters_of(LapackRoutine routine) {
  using enum LapackParameter;
  switch (routine) {
    case LapackRoutine::potrf:
    case LapackRoutine::potri:
      return {uplo, n, A, lda, info, none, none, none, none, none};
    case LapackRoutine::potrs:
    case LapackRoutine::posv:
      return {uplo, n, nrhs, A, lda, B, ldb, info, none, none};
    case LapackRoutine::getrf:
      return {m, n, A, lda, ipiv, info, none, none, none, none};
    case LapackRoutine::getrf_nopiv:
      return {m, n, A, lda, tiny, info, none, none, none, none};
    case LapackRoutine::getrs:
      return {trans, n, nrhs, A, lda, ipiv, B, ldb, info, none};
    case LapackRoutine::gesv:
      return {n, nrhs, A, lda, ipiv, B, ldb, info, none, none};
    case LapackRoutine::getri:
      return {n, A, lda, ipiv, info, none, none, none, none, none};
    case LapackRoutine::laswp:
      break;
  }
  return {n, A, lda, k1, k2, ipiv, incx, none, none, none};
}

/// From 1; 0: there is none such.
constexpr int position_of(LapackRoutine routine, LapackParameter parameter) {
  const LapackParameters parameters = lapack_parameters_of(routine);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i] == parameter) return static_cast<int>(i) + 1;
  }
  return 0;
}

constexpr bool is_size(LapackParameter parameter) {
  return parameter == LapackParameter::m || parameter == LapackParameter::n || parameter == LapackParameter::nrhs;
}
constexpr bool is_leading_dimension(LapackParameter parameter) {
  return parameter == LapackParameter::lda || parameter == LapackParameter::ldb;
}
/// Each problem may have its own.
constexpr bool is_number(LapackParameter parameter) {
  return is_size(parameter) || is_leading_dimension(parameter) || parameter == LapackParameter::k1 ||
         parameter == LapackParameter::k2;
}

/// Of the arguments that a problem can be wrong in; 0: the routine has no such argument, or never complains of it.
struct LapackPositions {
  int m = 0, n = 0, nrhs = 0, lda = 0, ldb = 0;
};
constexpr LapackPositions lapack_positions(LapackRoutine routine) {
  using enum LapackParameter;
  if (routine == LapackRoutine::laswp) return {};
  const auto at = [routine](LapackParameter parameter) { return position_of(routine, parameter); };
  return {.m = at(m), .n = at(n), .nrhs = at(nrhs), .lda = at(lda), .ldb = at(ldb)};
}
static_assert(lapack_positions(LapackRoutine::getrs).ldb == 8 && lapack_positions(LapackRoutine::gesv).ldb == 7);

}  // namespace tessera
