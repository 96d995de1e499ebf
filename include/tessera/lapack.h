/* Tessera on host memory: factorizations, solves, eigenvalues, singular values, least squares and inverses of LAPACK on
 * large matrices. They run on the devices of the machine or on the CPU, whichever is sooner. In factorizations and
 * solves matrices may be larger than the memory of the devices. One device solves a problem of the second group below,
 * or the CPU if it is too large for the device.
 *
 * C99. The functions are in libtessera.so; the rules of tessera.h for contexts, threads and errors hold here, too. The
 * first arguments are the context and the layout of all matrices. The others are those of the routine's Fortran
 * interface in its order, without workspaces. Each function exists in the types s, d, c, z:
 *
 *   tessera_dpotrf(ctx, layout, uplo, n, A, lda, info)
 *   tessera_dpotrs(ctx, layout, uplo, n, nrhs, A, lda, B, ldb, info)
 *   tessera_dposv (ctx, layout, uplo, n, nrhs, A, lda, B, ldb, info)
 *   tessera_dgetrf(ctx, layout, m, n, A, lda, ipiv, info)
 *   tessera_dgetrs(ctx, layout, trans, n, nrhs, A, lda, ipiv, B, ldb, info)
 *   tessera_dgesv (ctx, layout, n, nrhs, A, lda, ipiv, B, ldb, info)
 *   tessera_dgeqrf(ctx, layout, m, n, A, lda, tau, info)
 *   tessera_dgelqf(ctx, layout, m, n, A, lda, tau, info)
 *   tessera_dtrtrs(ctx, layout, uplo, trans, diag, n, nrhs, A, lda, B, ldb, info)
 *   tessera_dsytrf(ctx, layout, uplo, n, A, lda, ipiv, info)                             in c, z also: hetrf
 *   tessera_dsytrs(ctx, layout, uplo, n, nrhs, A, lda, ipiv, B, ldb, info)               hetrs
 *   tessera_dsysv (ctx, layout, uplo, n, nrhs, A, lda, ipiv, B, ldb, info)               hesv
 *
 *   tessera_dsyevd(ctx, layout, vectors, uplo, n, A, lda, w, info)                       in c, z: heevd
 *   tessera_dsygvd(ctx, layout, itype, vectors, uplo, n, A, lda, B, ldb, w, info)        hegvd
 *   tessera_dgesdd(ctx, layout, vectors, m, n, A, lda, s, U, ldu, VT, ldvt, info)
 *   tessera_dgeev (ctx, layout, vectors, n, A, lda, wr, wi, VR, ldvr, info)              w in place of wr, wi
 *   tessera_dgels (ctx, layout, trans, m, n, nrhs, A, lda, B, ldb, info)
 *   tessera_dgelsd(ctx, layout, m, n, nrhs, A, lda, B, ldb, s, rcond, rank, info)
 *   tessera_dorgqr(ctx, layout, m, n, k, A, lda, tau, info)                              ungqr
 *   tessera_dorglq(ctx, layout, m, n, k, A, lda, tau, info)                              unglq
 *   tessera_dormqr(ctx, layout, side, trans, m, n, k, A, lda, tau, C, ldc, info)         unmqr
 *   tessera_dtrtri(ctx, layout, uplo, diag, n, A, lda, info)
 *   tessera_dpotri(ctx, layout, uplo, n, A, lda, info)
 *   tessera_dgetri(ctx, layout, n, A, lda, ipiv, info)
 *
 * Leading dimensions are in elements, at least 1 and the rows of the matrix (TESSERA_COL_MAJOR) or its columns
 * (TESSERA_ROW_MAJOR). Sizes are below 2^31. All arrays are in host memory, page-locked or not, and belong to the caller. Only the rows and columns of a matrix are read or
 * written; in the routines of Cholesky, Bunch and Kaufman, only the triangle of A that `uplo` names. Complex types have void in place of
 * double.
 *
 * *info becomes
 *   0    all went well
 *   p    getrf, gesv: U(p,p) is the first pivot that is exactly zero. A has all of its factors nonetheless, and B is
 *        unchanged
 *        potrf, posv: the leading minor of order p is the first that is not positive, or has a NaN. A's triangle is
 *        undefined, and B is unchanged
 *        sytrf, sysv, hetrf, hesv: the pivot D(p,p) is exactly zero. A has all of its factors nonetheless, and B is
 *        unchanged
 *        trtrs, trtri, potri, getri: the diagonal has its first zero at p, and nothing is written
 *        gels: R or L has its first zero there, and there is no solution
 *        syevd, sygvd, gesdd, gelsd, geev: an iteration has not converged, with LAPACK's value of info. Or the matrix
 *        has a NaN or an infinity: then nothing is computed, and all results are NaN
 *        sygvd, as n + p: B's leading minor of order p is not positive, or the first with a NaN or an infinity
 *   -4   gesdd, geev: the matrix has a NaN
 * info must not be NULL, except for potrs, getrs, sytrs, hetrs, geqrf and gelqf, where it is always 0. A matrix that is singular or not
 * definite is no error of the call. Other NaN, infinities and very large or small numbers are handled as in the CPU's
 * LAPACK. Pivots count from 1; row i was interchanged with row ipiv[i], for min(m, n) rows, in this order. Those of sytrf
 * are LAPACK's: negative ones stand in two neighbours, for a 2 x 2 block of D. No GPU's library has hetrf, hetrs and hesv,
 * which the CPU's LAPACK computes.
 *
 * Row-major matrices are used as they lie: nothing is transposed but vectors of eigenproblems, the matrices of geev and
 * gelsd, and the right-hand sides of gels and sytrs. So getrf, gesv and sytrf find other factors than in column-major.
 *   getrf, gesv   A = L U P: U has the diagonal of ones, L the pivots. Column i was interchanged with column ipiv[i]
 *   sytrf, sysv, hetrf, hesv   those of the transpose with the other triangle
 * getrs, getri and sytrs take them in the same layout. gels leaves factors of the transpose. All other results are those
 * of the column-major call. A solve with many right-hand sides takes no other memory than theirs.
 *
 * Errors. An invalid argument gives TESSERA_INVALID_ARGUMENT with its position in the call, and nothing is touched.
 * Matrices, pivots and tau may be NULL if a size leaves nothing to do in them. TESSERA_OUT_OF_DEVICE_MEMORY: nothing
 * has been written. TESSERA_NOT_AVAILABLE: the CPU has to compute a problem of the second group (it is small, or has
 * such numbers), and the CPU BLAS has no LAPACK. TESSERA_DEVICE_LOST: the outputs of the call are lost. In all other
 * cases other devices and the CPU do the work of a device that fails.
 *
 * The offload decision is the same as for products; the last bits of the results depend on it. A solve is decided by
 * itself, also in gesv and posv, and consists of interchanges and two calls of trsm. See docs/lapack.md.
 *
 * Source: LAPACK 3.12 (netlib). */
#ifndef TESSERA_LAPACK_H
#define TESSERA_LAPACK_H

#include "tessera/tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which vectors are wanted. The others' memory may be NULL then. */
typedef enum {
  TESSERA_NO_VECTORS = 0,
  TESSERA_VECTORS = 1,    /* gesdd: the first min(m, n) on both sides */
  TESSERA_ALL_VECTORS = 2 /* gesdd: U is m x m, VT n x n */
} tessera_vectors;

/* One type. */
#define TESSERA_LAPACK_FUNCTIONS_OF(letter, element)                                                                   \
  /* A = L L^H (TESSERA_LOWER) or U^H U (TESSERA_UPPER), A Hermitian, n x n; the factor replaces A's triangle. \
   * Imaginary parts on A's diagonal are taken as 0. */       \
  TESSERA_API tessera_status tessera_##letter##potrf(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,    \
                                                     int64_t n, element* A, int64_t lda, int64_t* info);               \
  /* Solves A X = B by A's factor from potrf; X replaces B, n x nrhs. */                                               \
  TESSERA_API tessera_status tessera_##letter##potrs(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,    \
                                                     int64_t n, int64_t nrhs, const element* A, int64_t lda,           \
                                                     element* B, int64_t ldb, int64_t* info);                          \
  /* Both: the factor replaces A, X replaces B. */                                                                     \
  TESSERA_API tessera_status tessera_##letter##posv(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,     \
                                                    int64_t n, int64_t nrhs, element* A, int64_t lda, element* B,      \
                                                    int64_t ldb, int64_t* info);                                       \
  /* A = P L U, m x n, with interchanges of rows; L, without its diagonal of ones, and U replace A. */                 \
  TESSERA_API tessera_status tessera_##letter##getrf(tessera_context ctx, tessera_layout layout, int64_t m, int64_t n, \
                                                     element* A, int64_t lda, int64_t* ipiv, int64_t* info);           \
  /* Solves op(A) X = B by A's factors from getrf; X replaces B, n x nrhs. */                                          \
  TESSERA_API tessera_status tessera_##letter##getrs(                                                                  \
      tessera_context ctx, tessera_layout layout, tessera_transpose trans, int64_t n, int64_t nrhs, const element* A,  \
      int64_t lda, const int64_t* ipiv, element* B, int64_t ldb, int64_t* info);                                       \
  /* getrf, and getrs with TESSERA_NO_TRANS. */                                                                        \
  TESSERA_API tessera_status tessera_##letter##gesv(tessera_context ctx, tessera_layout layout, int64_t n,             \
                                                    int64_t nrhs, element* A, int64_t lda, int64_t* ipiv, element* B,  \
                                                    int64_t ldb, int64_t* info);                                       \
  /* A = Q R, m x n. R replaces A on and above the diagonal. Q is the product of min(m, n) reflectors \
   * I - tau[i] v v^H. Their v lie below the diagonal, with ones on it that are not stored. */                \
  TESSERA_API tessera_status tessera_##letter##geqrf(tessera_context ctx, tessera_layout layout, int64_t m, int64_t n, \
                                                     element* A, int64_t lda, element* tau, int64_t* info);            \
  /* A = L Q, m x n. L replaces A on and below the diagonal. Q^H is the product of min(m, n) reflectors \
   * I - tau[i] v v^H. The conjugates of their v lie in rows, right of the diagonal, with ones on it. */              \
  TESSERA_API tessera_status tessera_##letter##gelqf(tessera_context ctx, tessera_layout layout, int64_t m, int64_t n, \
                                                     element* A, int64_t lda, element* tau, int64_t* info)
TESSERA_LAPACK_FUNCTIONS_OF(s, float);
TESSERA_LAPACK_FUNCTIONS_OF(d, double);
TESSERA_LAPACK_FUNCTIONS_OF(c, void);
TESSERA_LAPACK_FUNCTIONS_OF(z, void);
#undef TESSERA_LAPACK_FUNCTIONS_OF

/* One type, whose absolute values are of type `real`. The call allocates its workspace. */
#define TESSERA_PROBLEM_FUNCTIONS_OF(letter, element, real, symmetric, orthogonal)                                     \
  /* Eigenvalues of a Hermitian matrix, n x n, of which one triangle is read, ascending in w. Vectors replace all of \
   * A; without them A is destroyed, here and in sygvd. */ \
  TESSERA_API tessera_status tessera_##letter##symmetric##evd(tessera_context ctx, tessera_layout layout,              \
                                                              tessera_vectors vectors, tessera_uplo uplo, int64_t n,   \
                                                              element* A, int64_t lda, real* w, int64_t* info);        \
  /* A x = w B x (itype 1), A B x = w x (2), B A x = w x (3); B's triangle becomes its Cholesky factor. */             \
  TESSERA_API tessera_status tessera_##letter##symmetric##gvd(                                                         \
      tessera_context ctx, tessera_layout layout, int itype, tessera_vectors vectors, tessera_uplo uplo, int64_t n,    \
      element* A, int64_t lda, element* B, int64_t ldb, real* w, int64_t* info);                                       \
  /* A = U diag(s) VT, m x n, s descending. A is destroyed. */                                                         \
  TESSERA_API tessera_status tessera_##letter##gesdd(                                                                  \
      tessera_context ctx, tessera_layout layout, tessera_vectors vectors, int64_t m, int64_t n, element* A,           \
      int64_t lda, real* s, element* U, int64_t ldu, element* VT, int64_t ldvt, int64_t* info);                        \
  /* X of least |op(A) X - B| or, if there are many, the least X. A is m x n and of full rank, B has max(m, n) \
   * rows and nrhs columns. X replaces B's first rows; the squares of the other rows sum up to those of the \
   * residual. Factors replace A. Complex types have no TESSERA_TRANS; real types treat TESSERA_CONJ_TRANS as \
   * TESSERA_TRANS. */       \
  TESSERA_API tessera_status tessera_##letter##gels(tessera_context ctx, tessera_layout layout,                        \
                                                    tessera_transpose trans, int64_t m, int64_t n, int64_t nrhs,       \
                                                    element* A, int64_t lda, element* B, int64_t ldb, int64_t* info);  \
  /* The same for any A, by its singular values s. Those up to rcond * s[0] count as 0 (rcond outside of (0, 1): the \
   * rounding unit); *rank is the number of the others. A is destroyed. */ \
  TESSERA_API tessera_status tessera_##letter##gelsd(tessera_context ctx, tessera_layout layout, int64_t m, int64_t n, \
                                                     int64_t nrhs, element* A, int64_t lda, element* B, int64_t ldb,   \
                                                     real* s, real rcond, int64_t* rank, int64_t* info);               \
  /* The first n columns of Q, m x n, replace the k reflectors of geqrf in A's first columns. n <= m, k <= n. */       \
  TESSERA_API tessera_status tessera_##letter##orthogonal##gqr(tessera_context ctx, tessera_layout layout, int64_t m,  \
                                                               int64_t n, int64_t k, element* A, int64_t lda,          \
                                                               const element* tau, int64_t* info);                     \
  /* The first m rows of Q, m x n, replace the k reflectors of gelqf in A's first rows. m <= n, k <= m. */             \
  TESSERA_API tessera_status tessera_##letter##orthogonal##glq(tessera_context ctx, tessera_layout layout, int64_t m,  \
                                                               int64_t n, int64_t k, element* A, int64_t lda,          \
                                                               const element* tau, int64_t* info);                     \
  /* op(Q) C (TESSERA_LEFT) or C op(Q) replaces C, m x n, with the k reflectors of geqrf in A. trans as in gels. */    \
  TESSERA_API tessera_status tessera_##letter##orthogonal##mqr(                                                        \
      tessera_context ctx, tessera_layout layout, tessera_side side, tessera_transpose trans, int64_t m, int64_t n,    \
      int64_t k, const element* A, int64_t lda, const element* tau, element* C, int64_t ldc, int64_t* info);           \
  /* Solves op(A) X = B by A's triangle, n x n; X replaces B, n x nrhs. Over all devices. */                           \
  TESSERA_API tessera_status tessera_##letter##trtrs(                                                                  \
      tessera_context ctx, tessera_layout layout, tessera_uplo uplo, tessera_transpose trans, tessera_diag diag,       \
      int64_t n, int64_t nrhs, const element* A, int64_t lda, element* B, int64_t ldb, int64_t* info);                 \
  /* The inverse of a triangle replaces it. */                                                                         \
  TESSERA_API tessera_status tessera_##letter##trtri(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,    \
                                                     tessera_diag diag, int64_t n, element* A, int64_t lda,            \
                                                     int64_t* info);                                                   \
  /* One triangle of A's inverse replaces potrf's factor. */                                                           \
  TESSERA_API tessera_status tessera_##letter##potri(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,    \
                                                     int64_t n, element* A, int64_t lda, int64_t* info);               \
  /* A's inverse replaces getrf's factors. */                                                                          \
  TESSERA_API tessera_status tessera_##letter##getri(tessera_context ctx, tessera_layout layout, int64_t n,            \
                                                     element* A, int64_t lda, const int64_t* ipiv, int64_t* info)
TESSERA_PROBLEM_FUNCTIONS_OF(s, float, float, sy, or);
TESSERA_PROBLEM_FUNCTIONS_OF(d, double, double, sy, or);
TESSERA_PROBLEM_FUNCTIONS_OF(c, void, float, he, un);
TESSERA_PROBLEM_FUNCTIONS_OF(z, void, double, he, un);
#undef TESSERA_PROBLEM_FUNCTIONS_OF

/* One type, and one kind of matrix: symmetric, or Hermitian (hetrf, hetrs, hesv). */
#define TESSERA_INDEFINITE_FUNCTIONS_OF(letter, element, symmetric)                                                      \
  /* A = L D L^T (TESSERA_LOWER) or U D U^T (TESSERA_UPPER), n x n, with interchanges and D of blocks of 1 or 2 (Bunch \
   * and Kaufman). The factors replace A's triangle. Hermitian: ^H, and imaginary parts on A's diagonal are 0. */ \
  TESSERA_API tessera_status tessera_##letter##symmetric##trf(tessera_context ctx, tessera_layout layout,                \
                                                              tessera_uplo uplo, int64_t n, element* A, int64_t lda,     \
                                                              int64_t* ipiv, int64_t* info);                             \
  /* Solves A X = B by these factors; X replaces B, n x nrhs. */                                                         \
  TESSERA_API tessera_status tessera_##letter##symmetric##trs(                                                           \
      tessera_context ctx, tessera_layout layout, tessera_uplo uplo, int64_t n, int64_t nrhs, const element* A,          \
      int64_t lda, const int64_t* ipiv, element* B, int64_t ldb, int64_t* info);                                         \
  /* Both. */                                                                                                            \
  TESSERA_API tessera_status tessera_##letter##symmetric##sv(                                                            \
      tessera_context ctx, tessera_layout layout, tessera_uplo uplo, int64_t n, int64_t nrhs, element* A, int64_t lda,   \
      int64_t* ipiv, element* B, int64_t ldb, int64_t* info)
TESSERA_INDEFINITE_FUNCTIONS_OF(s, float, sy);
TESSERA_INDEFINITE_FUNCTIONS_OF(d, double, sy);
TESSERA_INDEFINITE_FUNCTIONS_OF(c, void, sy);
TESSERA_INDEFINITE_FUNCTIONS_OF(z, void, sy);
TESSERA_INDEFINITE_FUNCTIONS_OF(c, void, he);
TESSERA_INDEFINITE_FUNCTIONS_OF(z, void, he);
#undef TESSERA_INDEFINITE_FUNCTIONS_OF

/* Eigenvalues of a general matrix, n x n, and their right vectors, of norm 1. A is destroyed. Real types: wr are the
 * real parts, wi the imaginary ones. Of a conjugate pair the value with positive wi comes first. VR then has its
 * vector's real part in one column and the imaginary part in the next. */
#define TESSERA_GEEV_FUNCTION(letter, real)                                                                   \
  TESSERA_API tessera_status tessera_##letter##geev(tessera_context ctx, tessera_layout layout,               \
                                                    tessera_vectors vectors, int64_t n, real* A, int64_t lda, \
                                                    real* wr, real* wi, real* VR, int64_t ldvr, int64_t* info)
TESSERA_GEEV_FUNCTION(s, float);
TESSERA_GEEV_FUNCTION(d, double);
#undef TESSERA_GEEV_FUNCTION
#define TESSERA_COMPLEX_GEEV_FUNCTION(letter)                                                                          \
  TESSERA_API tessera_status tessera_##letter##geev(tessera_context ctx, tessera_layout layout,                        \
                                                    tessera_vectors vectors, int64_t n, void* A, int64_t lda, void* w, \
                                                    void* VR, int64_t ldvr, int64_t* info)
TESSERA_COMPLEX_GEEV_FUNCTION(c);
TESSERA_COMPLEX_GEEV_FUNCTION(z);
#undef TESSERA_COMPLEX_GEEV_FUNCTION

#ifdef __cplusplus
}
#endif

#endif
