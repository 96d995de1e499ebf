// The parameters that routines' interfaces have, and their lists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

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

}  // namespace tessera
