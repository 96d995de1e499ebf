// C++ veneer over tessera/lapack_batch.h: one function per routine for all its types, exceptions instead of status
// codes. Header-only, C++17. lapack_batch.h documents each function, tessera.hpp contexts. All functions throw
// StatusError.
#pragma once

#include <complex>
#include <cstdint>

#include "tessera/lapack_batch.h"
#include "tessera/tessera.hpp"

namespace tessera {
namespace detail {

/// The C functions for elements of type T.
template <class T>
struct LapackFunctions;
#define TESSERA_LAPACK_FUNCTION(letter, routine)                             \
  static constexpr auto routine##_batch = tessera_##letter##routine##_batch; \
  static constexpr auto routine##_batch_strided = tessera_##letter##routine##_batch_strided;
#define TESSERA_LAPACK_FUNCTIONS(letter, T)      \
  template <>                                    \
  struct LapackFunctions<T> {                    \
    TESSERA_LAPACK_FUNCTION(letter, potrf)       \
    TESSERA_LAPACK_FUNCTION(letter, potrs)       \
    TESSERA_LAPACK_FUNCTION(letter, posv)        \
    TESSERA_LAPACK_FUNCTION(letter, potri)       \
    TESSERA_LAPACK_FUNCTION(letter, getrf)       \
    TESSERA_LAPACK_FUNCTION(letter, getrf_nopiv) \
    TESSERA_LAPACK_FUNCTION(letter, getrs)       \
    TESSERA_LAPACK_FUNCTION(letter, gesv)        \
    TESSERA_LAPACK_FUNCTION(letter, getri)       \
  };
TESSERA_LAPACK_FUNCTIONS(s, float)
TESSERA_LAPACK_FUNCTIONS(d, double)
TESSERA_LAPACK_FUNCTIONS(c, std::complex<float>)
TESSERA_LAPACK_FUNCTIONS(z, std::complex<double>)
#undef TESSERA_LAPACK_FUNCTIONS
#undef TESSERA_LAPACK_FUNCTION

}  // namespace detail

/// Cholesky factors replace A.
template <class T>
void potrf_batch(const Context& context, const tessera_uplo* uplo, const std::int64_t* n, T* const* A,
                 const std::int64_t* lda, int* info, std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::potrf_batch(context.handle(), uplo, n, detail::pass_all(A), lda, info, group_count,
                                                group_size));
}
template <class T>
void potrf_batch_strided(const Context& context, tessera_uplo uplo, std::int64_t n, T* A, std::int64_t lda,
                         std::int64_t stride_a, int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::potrf_batch_strided(context.handle(), uplo, n, A, lda, stride_a, info, batch_size));
}
/// Solves by potrf's factors.
template <class T>
void potrs_batch(const Context& context, const tessera_uplo* uplo, const std::int64_t* n, const std::int64_t* nrhs,
                 const T* const* A, const std::int64_t* lda, T* const* B, const std::int64_t* ldb, int* info,
                 std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::potrs_batch(context.handle(), uplo, n, nrhs, detail::pass_all(A), lda,
                                                detail::pass_all(B), ldb, info, group_count, group_size));
}
template <class T>
void potrs_batch_strided(const Context& context, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs, const T* A,
                         std::int64_t lda, std::int64_t stride_a, T* B, std::int64_t ldb, std::int64_t stride_b,
                         int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::potrs_batch_strided(context.handle(), uplo, n, nrhs, A, lda, stride_a, B, ldb,
                                                        stride_b, info, batch_size));
}
/// potrf, and potrs.
template <class T>
void posv_batch(const Context& context, const tessera_uplo* uplo, const std::int64_t* n, const std::int64_t* nrhs,
                T* const* A, const std::int64_t* lda, T* const* B, const std::int64_t* ldb, int* info,
                std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::posv_batch(context.handle(), uplo, n, nrhs, detail::pass_all(A), lda,
                                               detail::pass_all(B), ldb, info, group_count, group_size));
}
template <class T>
void posv_batch_strided(const Context& context, tessera_uplo uplo, std::int64_t n, std::int64_t nrhs, T* A,
                        std::int64_t lda, std::int64_t stride_a, T* B, std::int64_t ldb, std::int64_t stride_b,
                        int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::posv_batch_strided(context.handle(), uplo, n, nrhs, A, lda, stride_a, B, ldb,
                                                       stride_b, info, batch_size));
}
/// Inverses by potrf's factors.
template <class T>
void potri_batch(const Context& context, const tessera_uplo* uplo, const std::int64_t* n, T* const* A,
                 const std::int64_t* lda, int* info, std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::potri_batch(context.handle(), uplo, n, detail::pass_all(A), lda, info, group_count,
                                                group_size));
}
template <class T>
void potri_batch_strided(const Context& context, tessera_uplo uplo, std::int64_t n, T* A, std::int64_t lda,
                         std::int64_t stride_a, int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::potri_batch_strided(context.handle(), uplo, n, A, lda, stride_a, info, batch_size));
}
/// LU factors replace A.
template <class T>
void getrf_batch(const Context& context, const std::int64_t* m, const std::int64_t* n, T* const* A,
                 const std::int64_t* lda, int* const* ipiv, int* info, std::int64_t group_count,
                 const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::getrf_batch(context.handle(), m, n, detail::pass_all(A), lda, ipiv, info,
                                                group_count, group_size));
}
template <class T>
void getrf_batch_strided(const Context& context, std::int64_t m, std::int64_t n, T* A, std::int64_t lda,
                         std::int64_t stride_a, int* ipiv, std::int64_t stride_ipiv, int* info,
                         std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::getrf_batch_strided(context.handle(), m, n, A, lda, stride_a, ipiv, stride_ipiv,
                                                        info, batch_size));
}
/// LU without interchanges.
template <class T>
void getrf_nopiv_batch(const Context& context, const std::int64_t* m, const std::int64_t* n, T* const* A,
                       const std::int64_t* lda, const detail::Real<T>* tiny, int* info, std::int64_t group_count,
                       const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::getrf_nopiv_batch(context.handle(), m, n, detail::pass_all(A), lda, tiny, info,
                                                      group_count, group_size));
}
template <class T>
void getrf_nopiv_batch_strided(const Context& context, std::int64_t m, std::int64_t n, T* A, std::int64_t lda,
                               std::int64_t stride_a, detail::Real<T> tiny, int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::getrf_nopiv_batch_strided(context.handle(), m, n, A, lda, stride_a, tiny, info,
                                                              batch_size));
}
/// Solves by getrf's factors.
template <class T>
void getrs_batch(const Context& context, const tessera_transpose* trans, const std::int64_t* n,
                 const std::int64_t* nrhs, const T* const* A, const std::int64_t* lda, const int* const* ipiv,
                 T* const* B, const std::int64_t* ldb, int* info, std::int64_t group_count,
                 const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::getrs_batch(context.handle(), trans, n, nrhs, detail::pass_all(A), lda, ipiv,
                                                detail::pass_all(B), ldb, info, group_count, group_size));
}
template <class T>
void getrs_batch_strided(const Context& context, tessera_transpose trans, std::int64_t n, std::int64_t nrhs, const T* A,
                         std::int64_t lda, std::int64_t stride_a, const int* ipiv, std::int64_t stride_ipiv, T* B,
                         std::int64_t ldb, std::int64_t stride_b, int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::getrs_batch_strided(context.handle(), trans, n, nrhs, A, lda, stride_a, ipiv,
                                                        stride_ipiv, B, ldb, stride_b, info, batch_size));
}
/// getrf, and getrs.
template <class T>
void gesv_batch(const Context& context, const std::int64_t* n, const std::int64_t* nrhs, T* const* A,
                const std::int64_t* lda, int* const* ipiv, T* const* B, const std::int64_t* ldb, int* info,
                std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::gesv_batch(context.handle(), n, nrhs, detail::pass_all(A), lda, ipiv,
                                               detail::pass_all(B), ldb, info, group_count, group_size));
}
template <class T>
void gesv_batch_strided(const Context& context, std::int64_t n, std::int64_t nrhs, T* A, std::int64_t lda,
                        std::int64_t stride_a, int* ipiv, std::int64_t stride_ipiv, T* B, std::int64_t ldb,
                        std::int64_t stride_b, int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::gesv_batch_strided(context.handle(), n, nrhs, A, lda, stride_a, ipiv, stride_ipiv,
                                                       B, ldb, stride_b, info, batch_size));
}
/// Inverses by getrf's factors.
template <class T>
void getri_batch(const Context& context, const std::int64_t* n, T* const* A, const std::int64_t* lda,
                 const int* const* ipiv, int* info, std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::LapackFunctions<T>::getri_batch(context.handle(), n, detail::pass_all(A), lda, ipiv, info, group_count,
                                                group_size));
}
template <class T>
void getri_batch_strided(const Context& context, std::int64_t n, T* A, std::int64_t lda, std::int64_t stride_a,
                         const int* ipiv, std::int64_t stride_ipiv, int* info, std::int64_t batch_size) {
  check(detail::LapackFunctions<T>::getri_batch_strided(context.handle(), n, A, lda, stride_a, ipiv, stride_ipiv, info,
                                                        batch_size));
}

}  // namespace tessera
