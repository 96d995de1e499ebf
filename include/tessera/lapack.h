/* Tessera on host memory: factorizations and solves of LAPACK on large matrices, over all devices of the machine or on the CPU,
 * whichever is sooner. Matrices may be larger than the memory of the devices.
 *
 * C99. The functions are in libtessera.so; what tessera.h says of contexts, threads and errors holds here, too. Their arguments are
 * those of the routine's Fortran interface in its order, without workspaces, behind the context, in each of the types s, d, c, z:
 *
 *   tessera_dpotrf(ctx, uplo, n, A, lda, info)
 *   tessera_dpotrs(ctx, uplo, n, nrhs, A, lda, B, ldb, info)
 *   tessera_dposv (ctx, uplo, n, nrhs, A, lda, B, ldb, info)
 *   tessera_dgetrf(ctx, m, n, A, lda, ipiv, info)
 *   tessera_dgetrs(ctx, trans, n, nrhs, A, lda, ipiv, B, ldb, info)
 *   tessera_dgesv (ctx, n, nrhs, A, lda, ipiv, B, ldb, info)
 *   tessera_dgeqrf(ctx, m, n, A, lda, tau, info)
 *
 * Matrices are column-major, leading dimensions in elements, at least max(1, rows). Sizes are below 2^31. Everything is in the
 * caller's host memory, page-locked or not, and belongs to the caller; only rows and columns of a matrix, of A in the Cholesky
 * routines only the triangle that `uplo` names, are read or written. Complex types have void in place of double.
 *
 * *info becomes
 *   0    all went well
 *   p    getrf, gesv: U(p,p) is the first pivot that is exactly zero. A has all of its factors nonetheless, and B is as before
 *        potrf, posv: the leading minor of order p is the first that is not positive, or has a NaN. What A's triangle holds is
 *        undefined, and B is as before
 * It must not be NULL, but for potrs, getrs and geqrf, where it is always 0. A matrix that is singular or not definite is no error
 * of the call. Pivots count from 1; row i was interchanged with row ipiv[i], for min(m, n) rows, in this order.
 *
 * Errors. An argument that is not valid is TESSERA_INVALID_ARGUMENT with its position in the call, and nothing is touched; matrices,
 * pivots and tau may be NULL where a size leaves nothing to do in them. TESSERA_OUT_OF_DEVICE_MEMORY: nothing has been written.
 * TESSERA_DEVICE_LOST: what the call writes is lost. Devices that fail are otherwise made good by others and the CPU.
 *
 * Where a call is computed, and with it the last bits of its results, is decided as for products; solves are made of interchanges
 * and of two calls of trsm, each of which is decided by itself. See docs/lapack.md.
 *
 * Source: LAPACK 3.12 (netlib). */
#ifndef TESSERA_LAPACK_H
#define TESSERA_LAPACK_H

#include "tessera/tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One type. */
#define TESSERA_LAPACK_FUNCTIONS_OF(letter, element)                                                                      \
  /* A = L L^H (TESSERA_LOWER) or U^H U (TESSERA_UPPER), A Hermitian, n x n; the factor replaces A's triangle.          \
   * Imaginary parts on A's diagonal are taken as 0. */ \
  TESSERA_API tessera_status tessera_##letter##potrf(tessera_context ctx, tessera_uplo uplo, int64_t n, element* A,       \
                                                     int64_t lda, int64_t* info);                                         \
  /* Solves A X = B by A's factor from potrf; X replaces B, n x nrhs. */                                                  \
  TESSERA_API tessera_status tessera_##letter##potrs(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs,     \
                                                     const element* A, int64_t lda, element* B, int64_t ldb,              \
                                                     int64_t* info);                                                      \
  /* Both: the factor replaces A, X replaces B. */                                                                        \
  TESSERA_API tessera_status tessera_##letter##posv(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs,      \
                                                    element* A, int64_t lda, element* B, int64_t ldb, int64_t* info);     \
  /* A = P L U, m x n, with interchanges of rows; L, without its diagonal of ones, and U replace A. */                    \
  TESSERA_API tessera_status tessera_##letter##getrf(tessera_context ctx, int64_t m, int64_t n, element* A,               \
                                                     int64_t lda, int64_t* ipiv, int64_t* info);                          \
  /* Solves op(A) X = B by A's factors from getrf; X replaces B, n x nrhs. */                                             \
  TESSERA_API tessera_status tessera_##letter##getrs(tessera_context ctx, tessera_transpose trans, int64_t n,             \
                                                     int64_t nrhs, const element* A, int64_t lda, const int64_t* ipiv,    \
                                                     element* B, int64_t ldb, int64_t* info);                             \
  /* getrf, and getrs with TESSERA_NO_TRANS. */                                                                           \
  TESSERA_API tessera_status tessera_##letter##gesv(tessera_context ctx, int64_t n, int64_t nrhs, element* A,             \
                                                    int64_t lda, int64_t* ipiv, element* B, int64_t ldb,                  \
                                                    int64_t* info);                                                       \
  /* A = Q R, m x n. R replaces A on and above the diagonal; Q is the product of min(m, n) reflectors                   \
   * I - tau[i] v v^H, whose v lie below it, with ones on the diagonal that are not stored. */ \
  TESSERA_API tessera_status tessera_##letter##geqrf(tessera_context ctx, int64_t m, int64_t n, element* A,               \
                                                     int64_t lda, element* tau, int64_t* info)
TESSERA_LAPACK_FUNCTIONS_OF(s, float);
TESSERA_LAPACK_FUNCTIONS_OF(d, double);
TESSERA_LAPACK_FUNCTIONS_OF(c, void);
TESSERA_LAPACK_FUNCTIONS_OF(z, void);
#undef TESSERA_LAPACK_FUNCTIONS_OF

#ifdef __cplusplus
}
#endif

#endif
