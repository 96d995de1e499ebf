// LAPACK's eigenvalues, singular values and least squares by a direct call of the library's symbol, without Tessera.
// This checks whether a library itself is right. 64-bit integers serve libraries of both widths.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calls/lapack_call.hpp"

namespace tessera::test {

/// Whether call_lapack_directly() knows the routine.
constexpr bool can_call_directly(Routine routine) {
  return is_eigenproblem(routine) || finds_singular_values(routine) || routine == Routine::geev ||
         routine == Routine::gels;
}

/// @param function the symbol of name_of(problem) @param found eigenvalues of heevr, rank of gelsd @return info
/// @pre can_call_directly()
template <Scalar T>
index_t call_lapack_directly(void* function, const LapackCall& p, index_t& found) {
  using Real = decltype(std::abs(T{}));
  const auto call = [function](auto... arguments) {
    reinterpret_cast<void (*)(decltype(arguments)...)>(function)(arguments...);
  };
  const index_t most = std::max({p.m, p.n, p.k}), size = 30 * most * most + 300 * most + 10000, one = 1,
                itype = p.itype;
  std::vector<T> work(static_cast<std::size_t>(size));
  std::vector<Real> rwork(work.size());
  std::vector<index_t> iwork(work.size()), support(work.size());
  const Real vl = static_cast<Real>(p.vl), vu = static_cast<Real>(p.vu), abstol = 0, rcond = static_cast<Real>(p.rcond);
  const char* const vectors = p.vectors ? "V" : "N";
  const char* const uplo = p.uplo == Uplo::lower ? "L" : "U";
  const char* const op = p.op == Op::no_trans ? "N" : is_complex(p.type) ? "C" : "T";
  const char* const jobs[] = {"N", "S", "A", "O"};
  const char* const ranges[] = {"A", "V", "I"};
  const index_t *const m = &p.m, *const n = &p.n, *const k = &p.k, *const lda = &p.lda, *const ldb = &p.ldb;
  const auto ld_or_one = [&](bool is_there, const index_t& ld) { return is_there ? &ld : &one; };
  const index_t* const ldu = ld_or_one(p.vectors || p.u != VectorJob::none, p.ldu);
  const index_t* const ldvt = ld_or_one(p.vt != VectorJob::none, p.ldvt);
  constexpr std::size_t length = 1;
  index_t info = 0;
  found = 0;
  // The real workspace of complex types, and its size.
  const auto with_sized_rwork = [&](auto... first) {
    if constexpr (std::is_same_v<T, Real>)
      call(first..., work.data(), &size, iwork.data(), &size, &info, length, length, length);
    else
      call(first..., work.data(), &size, rwork.data(), &size, iwork.data(), &size, &info, length, length, length);
  };
  const auto with_rwork = [&](auto... first) {
    if constexpr (std::is_same_v<T, Real>)
      call(first..., work.data(), &size, &info, length, length);
    else
      call(first..., work.data(), &size, rwork.data(), &info, length, length);
  };
  switch (p.routine) {
    case Routine::heevd:
      with_sized_rwork(vectors, uplo, n, p.A, lda, p.values);
      break;
    case Routine::heevr:
      with_sized_rwork(vectors, ranges[static_cast<int>(p.range)], uplo, n, p.A, lda, &vl, &vu, &p.il, &p.iu, &abstol,
                       &found, p.values, p.U, ldu, support.data());
      break;
    case Routine::hegvd:
      with_sized_rwork(&itype, vectors, uplo, n, p.A, lda, p.B, ldb, p.values);
      break;
    case Routine::gesvd:
      with_rwork(jobs[static_cast<int>(p.u)], jobs[static_cast<int>(p.vt)], m, n, p.A, lda, p.values, p.U, ldu, p.VT,
                 ldvt);
      break;
    case Routine::geev:
      if constexpr (std::is_same_v<T, Real>)
        with_rwork("N", vectors, n, p.A, lda, p.values, p.imaginary, p.U, &one, p.U, ldu);
      else
        with_rwork("N", vectors, n, p.A, lda, p.values, p.U, &one, p.U, ldu);
      break;
    case Routine::gels:
      call(op, m, n, k, p.A, lda, p.B, ldb, work.data(), &size, &info, length);
      break;
    case Routine::gelsd:
      if constexpr (std::is_same_v<T, Real>)
        call(m, n, k, p.A, lda, p.B, ldb, p.values, &rcond, &found, work.data(), &size, iwork.data(), &info);
      else
        call(m, n, k, p.A, lda, p.B, ldb, p.values, &rcond, &found, work.data(), &size, rwork.data(), iwork.data(),
             &info);
      break;
    default:
      break;
  }
  return static_cast<std::int32_t>(info);
}

}  // namespace tessera::test
