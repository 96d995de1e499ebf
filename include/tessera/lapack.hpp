// C++ veneer over tessera/lapack.h: one function per routine for all its types, exceptions instead of status codes.
// Header-only, C++17; see there for what each computes, and tessera.hpp for contexts. All throw StatusError, and return info.
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
#define TESSERA_SOLVER_FUNCTIONS(letter, T)                \
  template <>                                              \
  struct SolverFunctions<T> {                              \
    static constexpr auto potrf = tessera_##letter##potrf; \
    static constexpr auto potrs = tessera_##letter##potrs; \
    static constexpr auto posv = tessera_##letter##posv;   \
    static constexpr auto getrf = tessera_##letter##getrf; \
    static constexpr auto getrs = tessera_##letter##getrs; \
    static constexpr auto gesv = tessera_##letter##gesv;   \
    static constexpr auto geqrf = tessera_##letter##geqrf; \
  };
TESSERA_SOLVER_FUNCTIONS(s, float)
TESSERA_SOLVER_FUNCTIONS(d, double)
TESSERA_SOLVER_FUNCTIONS(c, std::complex<float>)
TESSERA_SOLVER_FUNCTIONS(z, std::complex<double>)
#undef TESSERA_SOLVER_FUNCTIONS

/// Calls a function with its info behind the other arguments.
template <class Function, class... Arguments>
std::int64_t with_info(Function function, const Context& context, Arguments... arguments) {
  std::int64_t info = 0;
  check(function(context.handle(), arguments..., &info));
  return info;
}

}  // namespace detail

/// The Cholesky factor replaces A's triangle.
template <class T>
std::int64_t potrf(const Context& context, tessera_uplo uplo, std::int64_t n, T* A, std::int64_t lda) {
  return detail::with_info(detail::SolverFunctions<T>::potrf, context, uplo, n, A, lda);
}
/// Solves by potrf's factor.
template <class T>
std::int64_t potrs(const Context& context, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs, const T* A,
                   std::int64_t lda, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::potrs, context, uplo, n, nrhs, A, lda, B, ldb);
}
/// potrf, and potrs.
template <class T>
std::int64_t posv(const Context& context, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs, T* A, std::int64_t lda,
                  T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::posv, context, uplo, n, nrhs, A, lda, B, ldb);
}
/// LU factors, with interchanges of rows, replace A.
template <class T>
std::int64_t getrf(const Context& context, std::int64_t m, std::int64_t n, T* A, std::int64_t lda, std::int64_t* ipiv) {
  return detail::with_info(detail::SolverFunctions<T>::getrf, context, m, n, A, lda, ipiv);
}
/// Solves by getrf's factors.
template <class T>
std::int64_t getrs(const Context& context, tessera_transpose trans, std::int64_t n, std::int64_t nrhs, const T* A,
                   std::int64_t lda, const std::int64_t* ipiv, T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::getrs, context, trans, n, nrhs, A, lda, ipiv, B, ldb);
}
/// getrf, and getrs.
template <class T>
std::int64_t gesv(const Context& context, std::int64_t n, std::int64_t nrhs, T* A, std::int64_t lda, std::int64_t* ipiv,
                  T* B, std::int64_t ldb) {
  return detail::with_info(detail::SolverFunctions<T>::gesv, context, n, nrhs, A, lda, ipiv, B, ldb);
}
/// R and the reflectors of Q replace A.
template <class T>
std::int64_t geqrf(const Context& context, std::int64_t m, std::int64_t n, T* A, std::int64_t lda, T* tau) {
  return detail::with_info(detail::SolverFunctions<T>::geqrf, context, m, n, A, lda, tau);
}

}  // namespace tessera
