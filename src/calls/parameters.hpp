// The parameters of the routines' interfaces, by position. The order is Fortran's. CBLAS and Tessera's interfaces have
// the same parameters in the same order behind a few of their own, and leave workspaces out.
//
// Source: reference BLAS and LAPACK 3.12, the documentation of each routine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "calls/routine.hpp"

namespace tessera {

/// The parameter at a position; `none` behind the last.
enum class Parameter : std::uint8_t {
  none,
  itype,
  // letters
  jobz,
  jobu,
  jobvt,
  jobvl,
  jobvr,
  range,
  uplo,
  side,
  transa,
  transb,
  trans,
  diag,
  vect,
  direct,
  storev,
  // sizes
  m,
  n,
  k,
  nrhs,
  // matrices, vectors and factors
  alpha,
  A,
  lda,
  B,
  ldb,
  beta,
  C,
  ldc,
  tiny,
  ipiv,
  k1,
  k2,
  incx,
  t_factor,
  ldt,
  tau,
  rcond,
  vl,
  vu,
  il,
  iu,
  abstol,
  found,
  values,
  imaginary,
  U,
  ldu,
  VT,
  ldvt,
  left,
  ldleft,
  support,
  // workspaces
  work,
  lwork,
  ldwork,
  rwork,
  lrwork,
  iwork,
  liwork,
  ifail,
  info
};

/// As the interfaces name it.
constexpr const char* name_of(Parameter parameter) {
  constexpr const char* names[] = {
      "",       "itype",     "jobz",   "jobu",  "jobvt",  "jobvl",  "jobvr", "range",  "uplo",    "side",   "transa",
      "transb", "trans",     "diag",   "vect",  "direct", "storev", "m",     "n",      "k",       "nrhs",   "alpha",
      "A",      "lda",       "B",      "ldb",   "beta",   "C",      "ldc",   "tiny",   "ipiv",    "k1",     "k2",
      "incx",   "T",         "ldt",    "tau",   "rcond",  "vl",     "vu",    "il",     "iu",      "abstol", "found",
      "values", "imaginary", "U",      "ldu",   "VT",     "ldvt",   "left",  "ldleft", "support", "work",   "lwork",
      "ldwork", "rwork",     "lrwork", "iwork", "liwork", "ifail",  "info"};
  static_assert(std::size(names) == static_cast<std::size_t>(Parameter::info) + 1);
  return names[static_cast<std::size_t>(parameter)];
}

inline constexpr std::size_t parameter_count = static_cast<std::size_t>(Parameter::info) + 1;
inline constexpr std::size_t most_parameters = 23;
using Parameters = std::array<Parameter, most_parameters + 1>;

/// Of Fortran, position 1 first. getrf_nopiv, which Fortran does not have, is getrf with `tiny` in place of pivots.
constexpr Parameters parameters_of(Routine routine, bool is_complex = false) {
  using enum Parameter;
  switch (routine) {
    case Routine::gemm:
      return {transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc};
    case Routine::gemmt:
      return {uplo, transa, transb, n, k, alpha, A, lda, B, ldb, beta, C, ldc};
    case Routine::symm:
    case Routine::hemm:
      return {side, uplo, m, n, alpha, A, lda, B, ldb, beta, C, ldc};
    case Routine::syrk:
    case Routine::herk:
      return {uplo, transa, n, k, alpha, A, lda, beta, C, ldc};
    case Routine::syr2k:
    case Routine::her2k:
      return {uplo, transa, n, k, alpha, A, lda, B, ldb, beta, C, ldc};
    case Routine::trmm:
    case Routine::trsm:
      return {side, uplo, transa, diag, m, n, alpha, A, lda, B, ldb};
    case Routine::potrf:
    case Routine::potri:
    case Routine::lauum:
      return {uplo, n, A, lda, info};
    case Routine::potrs:
    case Routine::posv:
      return {uplo, n, nrhs, A, lda, B, ldb, info};
    case Routine::getrf:
      return {m, n, A, lda, ipiv, info};
    case Routine::getrf_nopiv:
      return {m, n, A, lda, tiny, info};
    case Routine::getrs:
      return {trans, n, nrhs, A, lda, ipiv, B, ldb, info};
    case Routine::gesv:
      return {n, nrhs, A, lda, ipiv, B, ldb, info};
    case Routine::getri:
      return {n, A, lda, ipiv, work, lwork, info};
    case Routine::laswp:
      return {n, A, lda, k1, k2, ipiv, incx};
    case Routine::geqrf:
      return {m, n, A, lda, tau, work, lwork, info};
    case Routine::heev:
      if (is_complex) return {jobz, uplo, n, A, lda, values, work, lwork, rwork, info};
      return {jobz, uplo, n, A, lda, values, work, lwork, info};
    case Routine::heevd:
      if (is_complex) return {jobz, uplo, n, A, lda, values, work, lwork, rwork, lrwork, iwork, liwork, info};
      return {jobz, uplo, n, A, lda, values, work, lwork, iwork, liwork, info};
    case Routine::heevr:
      if (is_complex) {
        return {jobz,   range, uplo, n,       A,    lda,   vl,    vu,     il,    iu,     abstol, found,
                values, U,     ldu,  support, work, lwork, rwork, lrwork, iwork, liwork, info};
      }
      return {jobz,  range,  uplo, n,   A,       lda,  vl,    vu,    il,     iu,  abstol,
              found, values, U,    ldu, support, work, lwork, iwork, liwork, info};
    case Routine::heevx:
      if (is_complex) {
        return {jobz,  range,  uplo, n,   A,    lda,   vl,    vu,    il,    iu,  abstol,
                found, values, U,    ldu, work, lwork, rwork, iwork, ifail, info};
      }
      return {jobz,   range, uplo,   n, A,   lda,  vl,    vu,    il,    iu,
              abstol, found, values, U, ldu, work, lwork, iwork, ifail, info};
    case Routine::hegv:
      if (is_complex) return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, rwork, info};
      return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, info};
    case Routine::hegvd:
      if (is_complex)
        return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, rwork, lrwork, iwork, liwork, info};
      return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, iwork, liwork, info};
    case Routine::gesdd:
      if (is_complex) return {jobz, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, rwork, iwork, info};
      return {jobz, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, iwork, info};
    case Routine::gesvd:
      if (is_complex) return {jobu, jobvt, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, rwork, info};
      return {jobu, jobvt, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, info};
    case Routine::geev:
      if (is_complex) return {jobvl, jobvr, n, A, lda, values, left, ldleft, U, ldu, work, lwork, rwork, info};
      return {jobvl, jobvr, n, A, lda, values, imaginary, left, ldleft, U, ldu, work, lwork, info};
    case Routine::gels:
      return {trans, m, n, nrhs, A, lda, B, ldb, work, lwork, info};
    case Routine::gelsd:
      if (is_complex) return {m, n, nrhs, A, lda, B, ldb, values, rcond, found, work, lwork, rwork, iwork, info};
      return {m, n, nrhs, A, lda, B, ldb, values, rcond, found, work, lwork, iwork, info};
    case Routine::ungqr:
      return {m, n, k, A, lda, tau, work, lwork, info};
    case Routine::unmqr:
    case Routine::unmlq:
      return {side, trans, m, n, k, A, lda, tau, B, ldb, work, lwork, info};
    case Routine::unmtr:
      return {side, uplo, trans, m, n, A, lda, tau, B, ldb, work, lwork, info};
    case Routine::unmbr:
      return {vect, side, trans, m, n, k, A, lda, tau, B, ldb, work, lwork, info};
    case Routine::larfb:
      return {side, trans, direct, storev, m, n, k, A, lda, t_factor, ldt, B, ldb, work, ldwork};
    case Routine::trtrs:
      return {uplo, trans, diag, n, nrhs, A, lda, B, ldb, info};
    case Routine::trtri:
      return {uplo, diag, n, A, lda, info};
  }
  return {};
}

/// Tessera's interfaces leave out workspaces, and left eigenvectors, which no device computes.
constexpr bool is_left_out(Parameter parameter) {
  using enum Parameter;
  return (parameter >= work && parameter <= ifail) || parameter == jobvl || parameter == left || parameter == ldleft;
}
/// Of the own interfaces, batches among them, behind what all of these begin with.
constexpr Parameters own_parameters_of(Routine routine, bool is_complex = false) {
  Parameters own{};
  std::size_t next = 0;
  for (const Parameter parameter : parameters_of(routine, is_complex)) {
    if (parameter != Parameter::none && !is_left_out(parameter)) own[next++] = parameter;
  }
  return own;
}

constexpr std::size_t count_of(const Parameters& parameters) {
  std::size_t count = 0;
  while (parameters[count] != Parameter::none) ++count;
  return count;
}

/// The position of `parameter` among these, from 1; 0: there is none such.
constexpr int position_in(const Parameters& parameters, Parameter parameter) {
  for (std::size_t i = 0; parameters[i] != Parameter::none; ++i) {
    if (parameters[i] == parameter) return static_cast<int>(i) + 1;
  }
  return 0;
}
/// In the Fortran interface.
constexpr int position_of(Routine routine, Parameter parameter) {
  return position_in(parameters_of(routine), parameter);
}
constexpr int own_position_of(Routine routine, Parameter parameter, bool is_complex = false) {
  return position_in(own_parameters_of(routine, is_complex), parameter);
}
constexpr bool has(Routine routine, Parameter parameter) { return position_of(routine, parameter) != 0; }

/// LAPACK tells how it went.
constexpr bool has_info(Routine routine) { return has(routine, Parameter::info); }

constexpr bool is_letter(Parameter parameter) { return parameter >= Parameter::jobz && parameter <= Parameter::storev; }
/// Arguments that are letters: as many lengths stand behind all others.
constexpr std::size_t letters_of(Routine routine) {
  std::size_t count = 0;
  for (const Parameter parameter : parameters_of(routine)) count += is_letter(parameter) ? 1 : 0;
  return count;
}

constexpr bool is_size(Parameter parameter) { return parameter >= Parameter::m && parameter <= Parameter::nrhs; }
constexpr bool is_leading_dimension(Parameter parameter) {
  using enum Parameter;
  return parameter == lda || parameter == ldb || parameter == ldc || parameter == ldt || parameter == ldu ||
         parameter == ldvt;
}
/// Each problem of a batch may have its own.
constexpr bool is_number(Parameter parameter) {
  return is_size(parameter) || is_leading_dimension(parameter) || parameter == Parameter::k1 ||
         parameter == Parameter::k2;
}

constexpr bool traits_follow_parameters() {
  for (const RoutineRow& row : routine_rows) {
    if (row.way == Way::level3) continue;
    const bool is_counted = has(row.routine, Parameter::k) || has(row.routine, Parameter::nrhs);
    if (has_m(row.routine) != has(row.routine, Parameter::m) || is(row.routine, counted) != is_counted) return false;
  }
  return true;
}
static_assert(traits_follow_parameters());
static_assert(position_of(Routine::getrs, Parameter::ldb) == 8 && position_of(Routine::gesv, Parameter::ldb) == 7);

}  // namespace tessera
