/* Tessera on host memory: batches of LAPACK's routines that factor, solve and invert many small matrices. They run on
 * all devices of the machine or on the CPU, whichever is sooner.
 *
 * C99. The functions are in libtessera.so; the rules of tessera.h for contexts, threads and errors hold here, too. Each
 * of the nine routines has two functions in each of the types s, d, c, z. Their arguments are those of the routine's
 * Fortran interface in its order, info included; here those of dgetrf:
 *
 *   tessera_dgetrf_batch(ctx, const int64_t* m, const int64_t* n, double* const* A, const int64_t* lda,
 *                        int* const* ipiv,
 *                        int* info, int64_t group_count, const int64_t* group_size)
 *   tessera_dgetrf_batch_strided(ctx, int64_t m, int64_t n, double* A, int64_t lda, int64_t stride_a, int* ipiv,
 *                        int64_t stride_ipiv, int* info, int64_t batch_size)
 *
 * and, less the two forms:
 *
 *   dpotrf, dpotri      (ctx, uplo, n, A, lda, info, ...)
 *   dpotrs, dposv       (ctx, uplo, n, nrhs, A, lda, B, ldb, info, ...)
 *   dgetrf              (ctx, m, n, A, lda, ipiv, info, ...)
 *   dgetrf_nopiv        (ctx, m, n, A, lda, tiny, info, ...)
 *   dgetrs              (ctx, trans, n, nrhs, A, lda, ipiv, B, ldb, info, ...)
 *   dgesv               (ctx, n, nrhs, A, lda, ipiv, B, ldb, info, ...)
 *   dgetri              (ctx, n, A, lda, ipiv, info, ...)
 *
 * Complex types have void in place of double. laswp, which device_lapack.h has, is missing here: to interchange rows
 * takes less time than to copy them to a device.
 *
 * Groups, as in tessera_dgemm_batch. Problems of group g are of the size m[g], n[g], nrhs[g], with uplo[g], trans[g],
 * tiny[g] and the leading dimensions lda[g], ldb[g]. There are group_size[g] of them, whose matrices, pivots and info
 * are the next group_size[g] entries of A, B, ipiv and info. Matrices of one size form one group. If each has a size of
 * its own, each is a group of one: groups are merged, so many groups cost nothing. _batch_strided is for matrices of
 * one size, where each matrix is stride_a or stride_b elements behind the one before, and its pivots stride_ipiv
 * behind. Strides are not negative.
 *
 * Matrices are column-major, leading dimensions in elements. All arrays are in host memory, page-locked or not, and
 * belong to the caller. No two problems may write the same memory; potrs and getrs may share A and its pivots. Only the
 * rows and columns of a matrix are read or written; in the Cholesky routines, only the triangle of A that `uplo` names.
 *
 * info. info[i] of problem i becomes
 *   0    all went well
 *   p    getrf, gesv, getrf_nopiv: U(p,p) is the first pivot that is exactly zero. A has all of its factors
 *        nonetheless, and B is unchanged
 *        potrf, posv: the leading minor of order p is the first that is not positive, or has a NaN. The first p - 1
 *        rows and columns of A have their factor, the rest of the triangle is undefined, and B is unchanged
 *        potri, getri: the element (p,p) of the factor is the first that is zero. A is unchanged
 * info is written for all sizes, also for size 0. It must not be NULL, except for potrs and getrs, where it is always
 * 0. A matrix that is singular or not definite, or has NaNs, is no error of the call, and does not affect other
 * problems.
 *
 * Pivots and info are of type int, as in the LAPACK that most programs use and in device_lapack.h: the same arrays
 * serve both. They count from 1; row i was interchanged with row ipiv[i], for min(m, n) rows, in this order. In a
 * column with a NaN, the choice of the pivot depends on the device or CPU that computes it.
 *
 * Errors. All arguments of all groups are checked before anything is computed. An invalid one gives
 * TESSERA_INVALID_ARGUMENT, and nothing is touched. Positions (tessera_last_error_position) are those in the call; the
 * text names the group. Matrices and pivots may be NULL if a size leaves nothing to do in them; so may all arrays if
 * group_count == 0. Other devices and the CPU do the work of devices that fail or lack memory. A problem's results are
 * written only when all of them are complete. TESSERA_DEVICE_LOST: host memory ran out after some results had been
 * written.
 *
 * The offload decision is the same as for tessera_dgemm_batch; the last bits of the results depend on it. See
 * docs/offload.md.
 *
 * Source: LAPACK 3.12 (netlib). */
#ifndef TESSERA_LAPACK_BATCH_H
#define TESSERA_LAPACK_BATCH_H

#include "tessera/tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The lists of arguments, by their shape. `factor` is the type of A's elements, const if A is only read. */
/* clang-format off */
#define TESSERA_GROUPS_CHOLESKY(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const tessera_uplo* uplo, const int64_t* n, factor* const* A, \
      const int64_t* lda, int* info, int64_t group_count, const int64_t* group_size)
#define TESSERA_STRIDES_CHOLESKY(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, tessera_uplo uplo, int64_t n, factor* A, int64_t lda, \
      int64_t stride_a, int* info, int64_t batch_size)

#define TESSERA_GROUPS_CHOLESKY_SOLVE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const tessera_uplo* uplo, const int64_t* n, const int64_t* nrhs, \
      factor* const* A, const int64_t* lda, element* const* B, const int64_t* ldb, int* info, int64_t group_count, \
      const int64_t* group_size)
#define TESSERA_STRIDES_CHOLESKY_SOLVE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs, factor* A, \
      int64_t lda, int64_t stride_a, element* B, int64_t ldb, int64_t stride_b, int* info, int64_t batch_size)

#define TESSERA_GROUPS_LU(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const int64_t* m, const int64_t* n, factor* const* A, \
      const int64_t* lda, int* const* ipiv, int* info, int64_t group_count, const int64_t* group_size)
#define TESSERA_STRIDES_LU(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, int64_t m, int64_t n, factor* A, int64_t lda, int64_t stride_a, \
      int* ipiv, int64_t stride_ipiv, int* info, int64_t batch_size)

#define TESSERA_GROUPS_LU_NOPIV(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const int64_t* m, const int64_t* n, factor* const* A, \
      const int64_t* lda, const real* tiny, int* info, int64_t group_count, const int64_t* group_size)
#define TESSERA_STRIDES_LU_NOPIV(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, int64_t m, int64_t n, factor* A, int64_t lda, int64_t stride_a, \
      real tiny, int* info, int64_t batch_size)

#define TESSERA_GROUPS_LU_SOLVE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const tessera_transpose* trans, const int64_t* n, \
      const int64_t* nrhs, factor* const* A, const int64_t* lda, const int* const* ipiv, element* const* B, \
      const int64_t* ldb, int* info, int64_t group_count, const int64_t* group_size)
#define TESSERA_STRIDES_LU_SOLVE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, tessera_transpose trans, int64_t n, int64_t nrhs, factor* A, \
      int64_t lda, int64_t stride_a, const int* ipiv, int64_t stride_ipiv, element* B, int64_t ldb, int64_t stride_b, \
      int* info, int64_t batch_size)

#define TESSERA_GROUPS_LU_FACTOR_SOLVE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const int64_t* n, const int64_t* nrhs, factor* const* A, \
      const int64_t* lda, int* const* ipiv, element* const* B, const int64_t* ldb, int* info, int64_t group_count, \
      const int64_t* group_size)
#define TESSERA_STRIDES_LU_FACTOR_SOLVE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, int64_t n, int64_t nrhs, factor* A, int64_t lda, \
      int64_t stride_a, int* ipiv, int64_t stride_ipiv, element* B, int64_t ldb, int64_t stride_b, int* info, \
      int64_t batch_size)

#define TESSERA_GROUPS_LU_INVERSE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, const int64_t* n, factor* const* A, const int64_t* lda, \
      const int* const* ipiv, int* info, int64_t group_count, const int64_t* group_size)
#define TESSERA_STRIDES_LU_INVERSE(name, real, factor, element) \
  tessera_status tessera_##name(tessera_context ctx, int64_t n, factor* A, int64_t lda, int64_t stride_a, \
      const int* ipiv, int64_t stride_ipiv, int* info, int64_t batch_size)

/* The two functions of a routine in one type, and in all types. */
#define TESSERA_HOST_LAPACK(shape, name, real, factor, element) \
  TESSERA_API TESSERA_GROUPS_##shape(name##_batch, real, factor, element); \
  TESSERA_API TESSERA_STRIDES_##shape(name##_batch_strided, real, factor, element)
#define TESSERA_HOST_LAPACK_TYPES(shape, routine, qualifier) \
  TESSERA_HOST_LAPACK(shape, s##routine, float, qualifier float, float); \
  TESSERA_HOST_LAPACK(shape, d##routine, double, qualifier double, double); \
  TESSERA_HOST_LAPACK(shape, c##routine, float, qualifier void, void); \
  TESSERA_HOST_LAPACK(shape, z##routine, double, qualifier void, void)
#define TESSERA_WRITTEN
/* clang-format on */

/* A = L L^H (TESSERA_LOWER) or U^H U (TESSERA_UPPER), A Hermitian, n x n; the factor replaces A's triangle. Imaginary
 * parts on A's diagonal are taken as 0, and become 0. lda >= max(1, n). */
TESSERA_HOST_LAPACK_TYPES(CHOLESKY, potrf, TESSERA_WRITTEN);

/* Solves A X = B by A's factor from potrf; X replaces B, n x nrhs. ldb >= max(1, n). */
TESSERA_HOST_LAPACK_TYPES(CHOLESKY_SOLVE, potrs, const);

/* Both: the factor replaces A, X replaces B. */
TESSERA_HOST_LAPACK_TYPES(CHOLESKY_SOLVE, posv, TESSERA_WRITTEN);

/* Inverts A by its factor from potrf. The same triangle of the inverse replaces the factor. */
TESSERA_HOST_LAPACK_TYPES(CHOLESKY, potri, TESSERA_WRITTEN);

/* A = P L U, m x n, with interchanges of rows; L, without its diagonal of ones, and U replace A. lda >= max(1, m). */
TESSERA_HOST_LAPACK_TYPES(LU, getrf, TESSERA_WRITTEN);

/* A = L U without interchanges. A pivot of magnitude (|re| + |im| if complex) below `tiny` is replaced by one of
 * magnitude `tiny` and the same sign or, if complex, direction; zero becomes +tiny. tiny == 0 replaces none; a value
 * that is not >= 0 is invalid. info[i] > 0 only for a zero that was not replaced. */
TESSERA_HOST_LAPACK_TYPES(LU_NOPIV, getrf_nopiv, TESSERA_WRITTEN);

/* Solves op(A) X = B by A's factors from getrf; X replaces B, n x nrhs. ipiv == NULL: there are no interchanges, as in
 * the factors from getrf_nopiv. */
TESSERA_HOST_LAPACK_TYPES(LU_SOLVE, getrs, const);

/* getrf, and getrs with TESSERA_NO_TRANS. */
TESSERA_HOST_LAPACK_TYPES(LU_FACTOR_SOLVE, gesv, TESSERA_WRITTEN);

/* Inverts A, n x n, by its factors from getrf or, with ipiv == NULL, getrf_nopiv. The inverse replaces the factors. */
TESSERA_HOST_LAPACK_TYPES(LU_INVERSE, getri, TESSERA_WRITTEN);

#undef TESSERA_HOST_LAPACK
#undef TESSERA_HOST_LAPACK_TYPES
#undef TESSERA_WRITTEN
#ifndef TESSERA_BUILD /* which defines the functions by the same lists */
#undef TESSERA_GROUPS_CHOLESKY
#undef TESSERA_STRIDES_CHOLESKY
#undef TESSERA_GROUPS_CHOLESKY_SOLVE
#undef TESSERA_STRIDES_CHOLESKY_SOLVE
#undef TESSERA_GROUPS_LU
#undef TESSERA_STRIDES_LU
#undef TESSERA_GROUPS_LU_NOPIV
#undef TESSERA_STRIDES_LU_NOPIV
#undef TESSERA_GROUPS_LU_SOLVE
#undef TESSERA_STRIDES_LU_SOLVE
#undef TESSERA_GROUPS_LU_FACTOR_SOLVE
#undef TESSERA_STRIDES_LU_FACTOR_SOLVE
#undef TESSERA_GROUPS_LU_INVERSE
#undef TESSERA_STRIDES_LU_INVERSE
#endif

#ifdef __cplusplus
}
#endif

#endif
