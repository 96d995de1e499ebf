// What stands at which position of the Fortran interfaces of LAPACK's routines that a device may solve whole (dense_interface.hpp).
//
// Source: LAPACK 3.12, the documentation of each routine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// Interfaces, by the names of real types; several lead to one routine of dense_problem.hpp.
enum class DenseEntry : std::uint8_t {
  syev,
  syevd,
  syevr,
  syevx,
  sygv,
  sygvd,
  gesdd,
  gesvd,
  geev,
  gels,
  gelsd,
  orgqr,
  ormqr,
  ormlq,
  ormtr,
  ormbr,
  larfb,
  trtrs,
  trtri,
  lauum,
  getri,
  potri
};

/// What stands at a position; `none` behind the last. Right-hand sides are counted by k.
enum class DenseParameter : std::uint8_t {
  none,
  itype,
  jobz,
  jobu,
  jobvt,
  jobvl,
  jobvr,
  range,
  uplo,
  side,
  trans,
  diag,
  vect,
  direct,
  storev,
  m,
  n,
  k,
  A,
  lda,
  B,
  ldb,
  T,
  ldt,
  tau,
  ipiv,
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

inline constexpr std::size_t most_dense_parameters = 24;
using DenseParameters = std::array<DenseParameter, most_dense_parameters + 1>;

/// Position 1 first.
constexpr DenseParameters dense_parameters_of(DenseEntry entry, bool is_complex) {
  using enum DenseParameter;
  switch (entry) {
    case DenseEntry::syev:
      if (is_complex) return {jobz, uplo, n, A, lda, values, work, lwork, rwork, info};
      return {jobz, uplo, n, A, lda, values, work, lwork, info};
    case DenseEntry::syevd:
      if (is_complex) return {jobz, uplo, n, A, lda, values, work, lwork, rwork, lrwork, iwork, liwork, info};
      return {jobz, uplo, n, A, lda, values, work, lwork, iwork, liwork, info};
    case DenseEntry::syevr:
      if (is_complex) {
        return {jobz,   range, uplo, n,       A,    lda,   vl,    vu,     il,    iu,     abstol, found,
                values, U,     ldu,  support, work, lwork, rwork, lrwork, iwork, liwork, info};
      }
      return {jobz,  range,  uplo, n,   A,       lda,  vl,    vu,    il,     iu,  abstol,
              found, values, U,    ldu, support, work, lwork, iwork, liwork, info};
    case DenseEntry::syevx:
      if (is_complex) {
        return {jobz,  range,  uplo, n,   A,    lda,   vl,    vu,    il,    iu,  abstol,
                found, values, U,    ldu, work, lwork, rwork, iwork, ifail, info};
      }
      return {jobz,   range, uplo,   n, A,   lda,  vl,    vu,    il,    iu,
              abstol, found, values, U, ldu, work, lwork, iwork, ifail, info};
    case DenseEntry::sygv:
      if (is_complex) return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, rwork, info};
      return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, info};
    case DenseEntry::sygvd:
      if (is_complex)
        return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, rwork, lrwork, iwork, liwork, info};
      return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, iwork, liwork, info};
    case DenseEntry::gesdd:
      if (is_complex) return {jobz, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, rwork, iwork, info};
      return {jobz, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, iwork, info};
    case DenseEntry::gesvd:
      if (is_complex) return {jobu, jobvt, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, rwork, info};
      return {jobu, jobvt, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, info};
    case DenseEntry::geev:
      if (is_complex) return {jobvl, jobvr, n, A, lda, values, left, ldleft, U, ldu, work, lwork, rwork, info};
      return {jobvl, jobvr, n, A, lda, values, imaginary, left, ldleft, U, ldu, work, lwork, info};
    case DenseEntry::orgqr:
      return {m, n, k, A, lda, tau, work, lwork, info};
    case DenseEntry::ormqr:
    case DenseEntry::ormlq:
      return {side, trans, m, n, k, A, lda, tau, B, ldb, work, lwork, info};
    case DenseEntry::gels:
      return {trans, m, n, k, A, lda, B, ldb, work, lwork, info};
    case DenseEntry::gelsd:
      if (is_complex) return {m, n, k, A, lda, B, ldb, values, rcond, found, work, lwork, rwork, iwork, info};
      return {m, n, k, A, lda, B, ldb, values, rcond, found, work, lwork, iwork, info};
    case DenseEntry::ormtr:
      return {side, uplo, trans, m, n, A, lda, tau, B, ldb, work, lwork, info};
    case DenseEntry::ormbr:
      return {vect, side, trans, m, n, k, A, lda, tau, B, ldb, work, lwork, info};
    case DenseEntry::larfb:
      return {side, trans, direct, storev, m, n, k, A, lda, T, ldt, B, ldb, work, ldwork};
    case DenseEntry::trtrs:
      return {uplo, trans, diag, n, k, A, lda, B, ldb, info};
    case DenseEntry::trtri:
      return {uplo, diag, n, A, lda, info};
    case DenseEntry::getri:
      return {n, A, lda, ipiv, work, lwork, info};
    case DenseEntry::lauum:
    case DenseEntry::potri:
      return {uplo, n, A, lda, info};
  }
  return {};
}

/// Arguments that are letters: as many lengths stand behind all others.
constexpr std::size_t letters_of(DenseEntry entry) {
  using enum DenseParameter;
  const DenseParameters parameters = dense_parameters_of(entry, false);
  return static_cast<std::size_t>(std::count_if(parameters.begin(), parameters.end(), [](DenseParameter parameter) {
    return (parameter >= jobz && parameter <= storev);
  }));
}

/// LAPACK tells how it went.
constexpr bool has_info(DenseEntry entry) { return entry != DenseEntry::larfb; }

}  // namespace tessera
