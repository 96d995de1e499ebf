/* Tessera on device memory: batches of LAPACK's routines that factor, solve and invert, on many small matrices in the
 * memory of one GPU, on a stream of the caller.
 *
 * C99. The functions are in the libraries of tessera/device_blas.h. Its rules on handles, time, threads, errors and
 * memory hold here, too.
 *
 * Each of the ten routines below has four functions in each of the types s, d, c, z. Their arguments are those of the
 * routine's Fortran interface in its order, info included, between the handle and batch_count; here those of dgetrf:
 *
 *   tessera_device_dgetrf_batched(handle, int64_t m, int64_t n, double* const* A, int64_t lda, int* const* ipiv, int* info,
 *                                 int64_t batch_count)
 *   tessera_device_dgetrf_strided_batched(handle, int64_t m, int64_t n, double* A, int64_t lda, int64_t stride_a,
 *                                 int* ipiv, int64_t stride_ipiv, int* info, int64_t batch_count)
 *   tessera_device_dgetrf_vbatched(handle, int64_t max_m, int64_t max_n, const int* m, const int* n,
 *                                 double* const* A, const int* lda, int* const* ipiv, int* info, int64_t batch_count)
 *   tessera_device_dgetrf_vbatched_64      the same with int64_t in place of int, in pivots and info, too
 *
 * and, without the four forms:
 *
 *   dpotrf, dpotri      (handle, uplo, n, A, lda, info, batch_count)
 *   dpotrs, dposv       (handle, uplo, n, nrhs, A, lda, B, ldb, info, batch_count)
 *   dgetrf              (handle, m, n, A, lda, ipiv, info, batch_count)
 *   dgetrf_nopiv        (handle, m, n, A, lda, tiny, info, batch_count)
 *   dgetrs              (handle, trans, n, nrhs, A, lda, ipiv, B, ldb, info, batch_count)
 *   dgesv               (handle, n, nrhs, A, lda, ipiv, B, ldb, info, batch_count)
 *   dgetri              (handle, n, A, lda, ipiv, info, batch_count)
 *   dlaswp              (handle, n, A, lda, k1, k2, ipiv, incx, batch_count)
 *
 * Complex types have void in place of double.
 *
 * Problem i, its matrices and its arrays are as in the batches of device_blas.h. The pivots of problem i are those at
 * ipiv[i] or, _strided_batched, at ipiv + i * stride_ipiv. Arrays of pivots and info lie in device memory, too, aligned
 * to their entries. No matrix, and no pivots that are written, may overlap any other. Cholesky routines access only the
 * triangle of A that `uplo` names. No m and n may be larger than an int, even in _vbatched_64: there it is a bad size.
 *
 * Bounds. max_m, max_n and max_nrhs are as in the batches of device_blas.h, with 0 for unknown. But potri and getri
 * need max_n: without it they return TESSERA_INVALID_ARGUMENT. In libtessera_device.so an n above max_n is a bad size
 * for them.
 *
 * info. info[i] becomes
 *   0    success
 *   -p   (_vbatched) p is the position, from 1, of the first bad size or leading dimension of problem i in the
 *        routine's Fortran interface, as LAPACK reports it (XERBLA); the problem is left out. getrf_nopiv: as getrf
 *   p    getrf, gesv, getrf_nopiv: U(p,p) is the first pivot that is exactly zero. A still has all of its factors, and
 *   B is
 *        as before
 *        potrf, posv: the leading minor of order p is the first that is not positive, or has a NaN. The first p - 1
 *        rows and
 *        columns of A have their factor, the rest of the triangle is undefined, and B is as before
 *        potri, getri: the element (p,p) of the factor is the first that is zero. A is as before
 * info is written for all sizes, 0 included. It must not be NULL. The exceptions are potrs and getrs: NULL means that
 * nothing is checked and all problems must be good. A problem that is bad, singular or not definite, or has NaNs, is
 * not an error of the call. It does not change the results of others.
 *
 * Pivots count rows from 1. The pivot is the element of largest modulus in its column, |re| + |im| if complex. Among
 * equals it is the topmost one in the current order of rows. A NaN is chosen only if it stands on the diagonal.
 *
 * Workspace (tessera_device_set_workspace). potri and getri need at least the memory of one problem, and use up to that
 * of all. tessera_device_..._batched_workspace returns the bytes for 1 or for all problems of at most max_n rows. With
 * less than all they compute the batch in pieces. With less than one they return TESSERA_OUT_OF_DEVICE_MEMORY, and
 * nothing is touched. The other routines use no workspace. libtessera_device_host.so needs none at all, and returns 0.
 *
 * Errors. The arguments of the call itself are checked, as in the batches of device_blas.h; positions count every
 * argument of the function. batch_count == 0 does nothing, and no array is read. With a common size of 0, matrices,
 * pivots and their arrays are not read, and may be NULL. The same holds for B with nrhs == 0: posv and gesv then only
 * factor A.
 *
 * Results. A problem's result has the same bits at any place in the batch, and beside any other problems. Results may
 * differ by rounding between the four functions, and with other bounds. Pivots may differ then, too, if moduli are
 * equal up to rounding.
 *
 * Source: LAPACK 3.12 (netlib). */
#ifndef TESSERA_DEVICE_LAPACK_H
#define TESSERA_DEVICE_LAPACK_H

#include "tessera/device_blas.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The argument lists, by their shape. `factor` is the type of A's elements, const if A is only read. */
/* clang-format off */
#define TESSERA_BATCHED_CHOLESKY(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, int64_t n, \
      factor* const* A, int64_t lda, int* info, int64_t batch_count)
#define TESSERA_STRIDED_CHOLESKY(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, int64_t n, \
      factor* A, int64_t lda, int64_t stride_a, int* info, int64_t batch_count)
#define TESSERA_VBATCHED_CHOLESKY(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, int64_t max_n, \
      const integer* n, factor* const* A, const integer* lda, integer* info, int64_t batch_count)

#define TESSERA_BATCHED_CHOLESKY_SOLVE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, int64_t n, int64_t nrhs, \
      factor* const* A, int64_t lda, element* const* B, int64_t ldb, int* info, int64_t batch_count)
#define TESSERA_STRIDED_CHOLESKY_SOLVE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, int64_t n, int64_t nrhs, \
      factor* A, int64_t lda, int64_t stride_a, element* B, int64_t ldb, int64_t stride_b, int* info, \
      int64_t batch_count)
#define TESSERA_VBATCHED_CHOLESKY_SOLVE(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, int64_t max_n, \
      int64_t max_nrhs, const integer* n, const integer* nrhs, factor* const* A, const integer* lda, \
      element* const* B, const integer* ldb, integer* info, int64_t batch_count)

#define TESSERA_BATCHED_LU(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t m, int64_t n, factor* const* A, \
      int64_t lda, int* const* ipiv, int* info, int64_t batch_count)
#define TESSERA_STRIDED_LU(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t m, int64_t n, factor* A, int64_t lda, \
      int64_t stride_a, int* ipiv, int64_t stride_ipiv, int* info, int64_t batch_count)
#define TESSERA_VBATCHED_LU(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t max_m, int64_t max_n, \
      const integer* m, const integer* n, factor* const* A, const integer* lda, integer* const* ipiv, \
      integer* info, int64_t batch_count)

#define TESSERA_BATCHED_LU_NOPIV(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t m, int64_t n, factor* const* A, \
      int64_t lda, real tiny, int* info, int64_t batch_count)
#define TESSERA_STRIDED_LU_NOPIV(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t m, int64_t n, factor* A, int64_t lda, \
      int64_t stride_a, real tiny, int* info, int64_t batch_count)
#define TESSERA_VBATCHED_LU_NOPIV(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t max_m, int64_t max_n, \
      const integer* m, const integer* n, factor* const* A, const integer* lda, real tiny, integer* info, \
      int64_t batch_count)

#define TESSERA_BATCHED_LU_SOLVE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose trans, int64_t n, \
      int64_t nrhs, factor* const* A, int64_t lda, const int* const* ipiv, element* const* B, int64_t ldb, \
      int* info, int64_t batch_count)
#define TESSERA_STRIDED_LU_SOLVE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose trans, int64_t n, \
      int64_t nrhs, factor* A, int64_t lda, int64_t stride_a, const int* ipiv, int64_t stride_ipiv, element* B, \
      int64_t ldb, int64_t stride_b, int* info, int64_t batch_count)
#define TESSERA_VBATCHED_LU_SOLVE(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose trans, int64_t max_n, \
      int64_t max_nrhs, const integer* n, const integer* nrhs, factor* const* A, const integer* lda, \
      const integer* const* ipiv, element* const* B, const integer* ldb, integer* info, int64_t batch_count)

#define TESSERA_BATCHED_LU_FACTOR_SOLVE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t n, int64_t nrhs, factor* const* A, \
      int64_t lda, int* const* ipiv, element* const* B, int64_t ldb, int* info, int64_t batch_count)
#define TESSERA_STRIDED_LU_FACTOR_SOLVE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t n, int64_t nrhs, factor* A, \
      int64_t lda, int64_t stride_a, int* ipiv, int64_t stride_ipiv, element* B, int64_t ldb, int64_t stride_b, \
      int* info, int64_t batch_count)
#define TESSERA_VBATCHED_LU_FACTOR_SOLVE(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t max_n, int64_t max_nrhs, \
      const integer* n, const integer* nrhs, factor* const* A, const integer* lda, integer* const* ipiv, \
      element* const* B, const integer* ldb, integer* info, int64_t batch_count)

#define TESSERA_BATCHED_LU_INVERSE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t n, factor* const* A, int64_t lda, \
      const int* const* ipiv, int* info, int64_t batch_count)
#define TESSERA_STRIDED_LU_INVERSE(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t n, factor* A, int64_t lda, \
      int64_t stride_a, const int* ipiv, int64_t stride_ipiv, int* info, int64_t batch_count)
#define TESSERA_VBATCHED_LU_INVERSE(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t max_n, const integer* n, \
      factor* const* A, const integer* lda, const integer* const* ipiv, integer* info, int64_t batch_count)

#define TESSERA_BATCHED_INTERCHANGES(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t n, factor* const* A, int64_t lda, \
      int64_t k1, int64_t k2, const int* const* ipiv, int64_t incx, int64_t batch_count)
#define TESSERA_STRIDED_INTERCHANGES(name, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t n, factor* A, int64_t lda, \
      int64_t stride_a, int64_t k1, int64_t k2, const int* ipiv, int64_t stride_ipiv, int64_t incx, \
      int64_t batch_count)
#define TESSERA_VBATCHED_INTERCHANGES(name, integer, real, factor, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, int64_t max_n, const integer* n, \
      factor* const* A, const integer* lda, const integer* k1, const integer* k2, const integer* const* ipiv, \
      int64_t incx, int64_t batch_count)

#define TESSERA_INVERSE_WORKSPACE(name) \
  tessera_status tessera_device_##name##_batched_workspace(tessera_device_handle handle, int64_t max_n, \
      int64_t batch_count, size_t* bytes)

/* The four functions of a routine in one type, and in all types. */
#define TESSERA_LAPACK_BATCH(shape, name, real, factor, element) \
  TESSERA_API TESSERA_BATCHED_##shape(name##_batched, real, factor, element); \
  TESSERA_API TESSERA_STRIDED_##shape(name##_strided_batched, real, factor, element); \
  TESSERA_API TESSERA_VBATCHED_##shape(name##_vbatched, int, real, factor, element); \
  TESSERA_API TESSERA_VBATCHED_##shape(name##_vbatched_64, int64_t, real, factor, element)
#define TESSERA_LAPACK_BATCHES(shape, routine, qualifier) \
  TESSERA_LAPACK_BATCH(shape, s##routine, float, qualifier float, float); \
  TESSERA_LAPACK_BATCH(shape, d##routine, double, qualifier double, double); \
  TESSERA_LAPACK_BATCH(shape, c##routine, float, qualifier void, void); \
  TESSERA_LAPACK_BATCH(shape, z##routine, double, qualifier void, void)
#define TESSERA_WRITTEN
#define TESSERA_INVERSE_WORKSPACES(routine) \
  TESSERA_API TESSERA_INVERSE_WORKSPACE(s##routine); \
  TESSERA_API TESSERA_INVERSE_WORKSPACE(d##routine); \
  TESSERA_API TESSERA_INVERSE_WORKSPACE(c##routine); \
  TESSERA_API TESSERA_INVERSE_WORKSPACE(z##routine)
/* clang-format on */

/* A = L L^H (TESSERA_LOWER) or U^H U (TESSERA_UPPER), A Hermitian, n x n; the factor replaces A's triangle. Imaginary parts on
 * A's diagonal are taken as 0, and become 0. lda >= max(1, n). */
TESSERA_LAPACK_BATCHES(CHOLESKY, potrf, TESSERA_WRITTEN);

/* Solves A X = B by A's factor from potrf; X replaces B, n x nrhs. ldb >= max(1, n). */
TESSERA_LAPACK_BATCHES(CHOLESKY_SOLVE, potrs, const);

/* potrf and potrs: the factor replaces A, X replaces B. */
TESSERA_LAPACK_BATCHES(CHOLESKY_SOLVE, posv, TESSERA_WRITTEN);

/* Computes the inverse of A by its factor from potrf. The same triangle of the inverse replaces the factor. */
TESSERA_LAPACK_BATCHES(CHOLESKY, potri, TESSERA_WRITTEN);
TESSERA_INVERSE_WORKSPACES(potri);

/* A = P L U, m x n, with interchanges of rows; L, without its diagonal of ones, and U replace A. Row i was interchanged
 * with row ipiv[i], for min(m, n) rows, in this order. lda >= max(1, m). */
TESSERA_LAPACK_BATCHES(LU, getrf, TESSERA_WRITTEN);

/* A = L U without interchanges. A pivot of magnitude (|re| + |im| if complex) below `tiny` is replaced by one of
 * magnitude `tiny` and the same sign or, if complex, direction; zero becomes +tiny. tiny == 0 replaces none. A tiny
 * that is negative or a NaN is not valid. info[i] > 0 only for a zero that was not replaced. */
TESSERA_LAPACK_BATCHES(LU_NOPIV, getrf_nopiv, TESSERA_WRITTEN);

/* Solves op(A) X = B by A's factors from getrf; X replaces B, n x nrhs. ipiv == NULL: there are no interchanges, as in the factors
 * from getrf_nopiv. */
TESSERA_LAPACK_BATCHES(LU_SOLVE, getrs, const);

/* getrf, and getrs with TESSERA_NO_TRANS. */
TESSERA_LAPACK_BATCHES(LU_FACTOR_SOLVE, gesv, TESSERA_WRITTEN);

/* Computes the inverse of A, n x n, by its factors from getrf or, with ipiv == NULL, from getrf_nopiv. It replaces
 * them. */
TESSERA_LAPACK_BATCHES(LU_INVERSE, getri, TESSERA_WRITTEN);
TESSERA_INVERSE_WORKSPACES(getri);

/* Interchanges row i of A's n columns with row ipiv[k1 + (i - k1) * |incx|] (from 1), for i = k1 to k2 (incx > 0) or k2
 * to k1 (incx < 0); none with incx == 0. k1 >= 1; with k2 < k1 nothing is done. lda >= max(1, k2), and no less than any
 * pivot. The contents of arrays are not checked. */
TESSERA_LAPACK_BATCHES(INTERCHANGES, laswp, TESSERA_WRITTEN);

#undef TESSERA_LAPACK_BATCH
#undef TESSERA_LAPACK_BATCHES
#undef TESSERA_INVERSE_WORKSPACES
#undef TESSERA_WRITTEN
#ifndef TESSERA_BUILD /* the build of the library, which defines the functions by the same lists */
#undef TESSERA_BATCHED_CHOLESKY
#undef TESSERA_STRIDED_CHOLESKY
#undef TESSERA_VBATCHED_CHOLESKY
#undef TESSERA_BATCHED_CHOLESKY_SOLVE
#undef TESSERA_STRIDED_CHOLESKY_SOLVE
#undef TESSERA_VBATCHED_CHOLESKY_SOLVE
#undef TESSERA_BATCHED_LU
#undef TESSERA_STRIDED_LU
#undef TESSERA_VBATCHED_LU
#undef TESSERA_BATCHED_LU_NOPIV
#undef TESSERA_STRIDED_LU_NOPIV
#undef TESSERA_VBATCHED_LU_NOPIV
#undef TESSERA_BATCHED_LU_SOLVE
#undef TESSERA_STRIDED_LU_SOLVE
#undef TESSERA_VBATCHED_LU_SOLVE
#undef TESSERA_BATCHED_LU_FACTOR_SOLVE
#undef TESSERA_STRIDED_LU_FACTOR_SOLVE
#undef TESSERA_VBATCHED_LU_FACTOR_SOLVE
#undef TESSERA_BATCHED_LU_INVERSE
#undef TESSERA_STRIDED_LU_INVERSE
#undef TESSERA_VBATCHED_LU_INVERSE
#undef TESSERA_BATCHED_INTERCHANGES
#undef TESSERA_STRIDED_INTERCHANGES
#undef TESSERA_VBATCHED_INTERCHANGES
#undef TESSERA_INVERSE_WORKSPACE
#endif

#ifdef __cplusplus
}
#endif

#endif
