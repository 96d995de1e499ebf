// C++ veneer over tessera/lapack.h: one function per routine for all its types, exceptions instead of status codes.
// Header-only, C++17. lapack.h documents each function, tessera.hpp contexts. All functions throw StatusError, and
// return info.
#pragma once

#include <complex>
#include <cstdint>

#include "tessera/lapack.h"
#include "tessera/tessera.hpp"

namespace tessera {
namespace detail {

/// The C functions for elements of type T.
template <class T>
struct SolverFunctions;
#define TESSERA_SOLVER_FUNCTIONS(letter, T, symmetric, orthogonal)   \
  template <>                                                        \
  struct SolverFunctions<T> {                                        \
    static constexpr auto potrf = tessera_##letter##potrf;           \
    static constexpr auto potrs = tessera_##letter##potrs;           \
    static constexpr auto posv = tessera_##letter##posv;             \
    static constexpr auto getrf = tessera_##letter##getrf;           \
    static constexpr auto getrs = tessera_##letter##getrs;           \
    static constexpr auto gesv = tessera_##letter##gesv;             \
    static constexpr auto geqrf = tessera_##letter##geqrf;           \
    static constexpr auto gelqf = tessera_##letter##gelqf;           \
    static constexpr auto trtrs = tessera_##letter##trtrs;           \
    static constexpr auto sytrf = tessera_##letter##sytrf;           \
    static constexpr auto sytrs = tessera_##letter##sytrs;           \
    static constexpr auto sysv = tessera_##letter##sysv;             \
    static constexpr auto hetrf = tessera_##letter##symmetric##trf;  \
    static constexpr auto hetrs = tessera_##letter##symmetric##trs;  \
    static constexpr auto hesv = tessera_##letter##symmetric##sv;    \
    static constexpr auto heevd = tessera_##letter##symmetric##evd;  \
    static constexpr auto hegvd = tessera_##letter##symmetric##gvd;  \
    static constexpr auto gesdd = tessera_##letter##gesdd;           \
    static constexpr auto geev = tessera_##letter##geev;             \
    static constexpr auto gels = tessera_##letter##gels;             \
    static constexpr auto gelsd = tessera_##letter##gelsd;           \
    static constexpr auto ungqr = tessera_##letter##orthogonal##gqr; \
    static constexpr auto unglq = tessera_##letter##orthogonal##glq; \
    static constexpr auto unmqr = tessera_##letter##orthogonal##mqr; \
    static constexpr auto trtri = tessera_##letter##trtri;           \
    static constexpr auto potri = tessera_##letter##potri;           \
    static constexpr auto getri = tessera_##letter##getri;           \
  };
TESSERA_SOLVER_FUNCTIONS(s, float, sy, or)
TESSERA_SOLVER_FUNCTIONS(d, double, sy, or)
TESSERA_SOLVER_FUNCTIONS(c, std::complex<float>, he, un)
TESSERA_SOLVER_FUNCTIONS(z, std::complex<double>, he, un)
#undef TESSERA_SOLVER_FUNCTIONS

/// The type of absolute values.
template <class T>
struct RealOfSolver {
  using type = T;
};
template <class Real>
struct RealOfSolver<std::complex<Real>> {
  using type = Real;
};
template <class T>
using Magnitude = typename RealOfSolver<T>::type;

/// Calls a function with its info behind the other arguments.
template <class Function, class... Arguments>
std::int64_t with_info(Function function, const Context& context, tessera_layout layout, Arguments... arguments) {
  std::int64_t info = 0;
  check(function(context.handle(), layout, arguments..., &info));
  return info;
}

}  // namespace detail

/// The Cholesky factor replaces A's triangle.
template <class T>
std::int64_t potrf(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, T* A,
                   std::int64_t lda) {
  return detail::with_info(detail::SolverFunctions<T>::potrf, context, layout, uplo, n, A, lda);
}
/// Solves by potrf's factor.
template <class T>
std::int64_t potrs(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs,
                   const T* A, std::int64_t lda, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::potrs, context, layout, uplo, n, nrhs, A, lda, B, ldb);
}
/// potrf, and potrs.
template <class T>
std::int64_t posv(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs,
                  T* A, std::int64_t lda, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::posv, context, layout, uplo, n, nrhs, A, lda, B, ldb);
}
/// LU factors, with interchanges of rows, replace A.
template <class T>
std::int64_t getrf(const Context& context, tessera_layout layout, std::int64_t m, std::int64_t n, T* A,
                   std::int64_t lda, std::int64_t* ipiv) {
  return detail::with_info(detail::SolverFunctions<T>::getrf, context, layout, m, n, A, lda, ipiv);
}
/// Solves by getrf's factors.
template <class T>
std::int64_t getrs(const Context& context, tessera_layout layout, tessera_transpose trans, std::int64_t n,
                   std::int64_t nrhs, const T* A, std::int64_t lda, const std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::getrs, context, layout, trans, n, nrhs, A, lda, ipiv, B, ldb);
}
/// getrf, and getrs.
template <class T>
std::int64_t gesv(const Context& context, tessera_layout layout, std::int64_t n, std::int64_t nrhs, T* A,
                  std::int64_t lda, std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::gesv, context, layout, n, nrhs, A, lda, ipiv, B, ldb);
}
/// R and the reflectors of Q replace A.
template <class T>
std::int64_t geqrf(const Context& context, tessera_layout layout, std::int64_t m, std::int64_t n, T* A,
                   std::int64_t lda, T* tau) {
  return detail::with_info(detail::SolverFunctions<T>::geqrf, context, layout, m, n, A, lda, tau);
}
/// L and the reflectors of Q, in rows, replace A.
template <class T>
std::int64_t gelqf(const Context& context, tessera_layout layout, std::int64_t m, std::int64_t n, T* A,
                   std::int64_t lda, T* tau) {
  return detail::with_info(detail::SolverFunctions<T>::gelqf, context, layout, m, n, A, lda, tau);
}

/// Solves by a triangle.
template <class T>
std::int64_t trtrs(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_transpose trans,
                   tessera_diag diag, std::int64_t n, std::int64_t nrhs, const T* A, std::int64_t lda, T* B,
                   std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::trtrs, context, layout, uplo, trans, diag, n, nrhs, A, lda, B,
                           ldb);
}

/// The factors of a symmetric matrix by Bunch and Kaufman replace A's triangle.
template <class T>
std::int64_t sytrf(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, T* A,
                   std::int64_t lda, std::int64_t* ipiv) {
  return detail::with_info(detail::SolverFunctions<T>::sytrf, context, layout, uplo, n, A, lda, ipiv);
}
/// Solves by sytrf's factors.
template <class T>
std::int64_t sytrs(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs,
                   const T* A, std::int64_t lda, const std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::sytrs, context, layout, uplo, n, nrhs, A, lda, ipiv, B, ldb);
}
/// sytrf, and sytrs.
template <class T>
std::int64_t sysv(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs,
                  T* A, std::int64_t lda, std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::sysv, context, layout, uplo, n, nrhs, A, lda, ipiv, B, ldb);
}

// The names of the complex types' routines, which serve real types as well.

/// The factors of a Hermitian matrix by Bunch and Kaufman replace A's triangle.
template <class T>
std::int64_t hetrf(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, T* A,
                   std::int64_t lda, std::int64_t* ipiv) {
  return detail::with_info(detail::SolverFunctions<T>::hetrf, context, layout, uplo, n, A, lda, ipiv);
}
/// Solves by hetrf's factors.
template <class T>
std::int64_t hetrs(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs,
                   const T* A, std::int64_t lda, const std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::hetrs, context, layout, uplo, n, nrhs, A, lda, ipiv, B, ldb);
}
/// hetrf, and hetrs.
template <class T>
std::int64_t hesv(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs,
                  T* A, std::int64_t lda, std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::hesv, context, layout, uplo, n, nrhs, A, lda, ipiv, B, ldb);
}

/// Eigenvalues of a Hermitian matrix; vectors replace A.
template <class T>
std::int64_t heevd(const Context& context, tessera_layout layout, tessera_vectors vectors, tessera_uplo uplo,
                   std::int64_t n, T* A, std::int64_t lda, detail::Magnitude<T>* w) {
  return detail::with_info(detail::SolverFunctions<T>::heevd, context, layout, vectors, uplo, n, A, lda, w);
}
/// Eigenvalues of a pair of matrices, B definite.
template <class T>
std::int64_t hegvd(const Context& context, tessera_layout layout, int itype, tessera_vectors vectors, tessera_uplo uplo,
                   std::int64_t n, T* A, std::int64_t lda, T* B, std::int64_t ldb, detail::Magnitude<T>* w) {
  return detail::with_info(detail::SolverFunctions<T>::hegvd, context, layout, itype, vectors, uplo, n, A, lda, B, ldb,
                           w);
}
/// Singular values and vectors.
template <class T>
std::int64_t gesdd(const Context& context, tessera_layout layout, tessera_vectors vectors, std::int64_t m,
                   std::int64_t n, T* A, std::int64_t lda, detail::Magnitude<T>* s, T* U, std::int64_t ldu, T* VT,
                   std::int64_t ldvt) {
  return detail::with_info(detail::SolverFunctions<T>::gesdd, context, layout, vectors, m, n, A, lda, s, U, ldu, VT,
                           ldvt);
}
/// Eigenvalues and right vectors of a real general matrix; wr and wi are the values' real and imaginary parts.
template <class Real>
std::int64_t geev(const Context& context, tessera_layout layout, tessera_vectors vectors, std::int64_t n, Real* A,
                  std::int64_t lda, Real* wr, Real* wi, Real* VR, std::int64_t ldvr) {
  return detail::with_info(detail::SolverFunctions<Real>::geev, context, layout, vectors, n, A, lda, wr, wi, VR, ldvr);
}
/// The same for a complex matrix.
template <class Real>
std::int64_t geev(const Context& context, tessera_layout layout, tessera_vectors vectors, std::int64_t n,
                  std::complex<Real>* A, std::int64_t lda, std::complex<Real>* w, std::complex<Real>* VR,
                  std::int64_t ldvr) {
  return detail::with_info(detail::SolverFunctions<std::complex<Real>>::geev, context, layout, vectors, n, A, lda, w,
                           VR, ldvr);
}
/// Least squares by QR or LQ.
template <class T>
std::int64_t gels(const Context& context, tessera_layout layout, tessera_transpose trans, std::int64_t m,
                  std::int64_t n, std::int64_t nrhs, T* A, std::int64_t lda, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::gels, context, layout, trans, m, n, nrhs, A, lda, B, ldb);
}
/// Least squares by singular values.
template <class T>
std::int64_t gelsd(const Context& context, tessera_layout layout, std::int64_t m, std::int64_t n, std::int64_t nrhs,
                   T* A, std::int64_t lda, T* B, std::int64_t ldb, detail::Magnitude<T>* s, detail::Magnitude<T> rcond,
                   std::int64_t* rank) {
  return detail::with_info(detail::SolverFunctions<T>::gelsd, context, layout, m, n, nrhs, A, lda, B, ldb, s, rcond,
                           rank);
}
/// Q replaces the reflectors in A.
template <class T>
std::int64_t ungqr(const Context& context, tessera_layout layout, std::int64_t m, std::int64_t n, std::int64_t k, T* A,
                   std::int64_t lda, const T* tau) {
  return detail::with_info(detail::SolverFunctions<T>::ungqr, context, layout, m, n, k, A, lda, tau);
}
/// The same for reflectors in rows.
template <class T>
std::int64_t unglq(const Context& context, tessera_layout layout, std::int64_t m, std::int64_t n, std::int64_t k, T* A,
                   std::int64_t lda, const T* tau) {
  return detail::with_info(detail::SolverFunctions<T>::unglq, context, layout, m, n, k, A, lda, tau);
}
/// A product with Q replaces C.
template <class T>
std::int64_t unmqr(const Context& context, tessera_layout layout, tessera_side side, tessera_transpose trans,
                   std::int64_t m, std::int64_t n, std::int64_t k, const T* A, std::int64_t lda, const T* tau, T* C,
                   std::int64_t ldc) {
  return detail::with_info(detail::SolverFunctions<T>::unmqr, context, layout, side, trans, m, n, k, A, lda, tau, C,
                           ldc);
}
/// The inverse of a triangle replaces it.
template <class T>
std::int64_t trtri(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_diag diag, std::int64_t n,
                   T* A, std::int64_t lda) {
  return detail::with_info(detail::SolverFunctions<T>::trtri, context, layout, uplo, diag, n, A, lda);
}
/// The inverse's triangle replaces potrf's factor.
template <class T>
std::int64_t potri(const Context& context, tessera_layout layout, tessera_uplo uplo, std::int64_t n, T* A,
                   std::int64_t lda) {
  return detail::with_info(detail::SolverFunctions<T>::potri, context, layout, uplo, n, A, lda);
}
/// The inverse replaces getrf's factors.
template <class T>
std::int64_t getri(const Context& context, tessera_layout layout, std::int64_t n, T* A, std::int64_t lda,
                   const std::int64_t* ipiv) {
  return detail::with_info(detail::SolverFunctions<T>::getri, context, layout, n, A, lda, ipiv);
}

}  // namespace tessera
