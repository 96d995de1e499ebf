/* Tessera on device memory: routines on matrices that lie in the memory of one GPU, on a stream of the caller; single ones,
 * and batches of many small ones.
 *
 * C99; nothing of CUDA is included, streams are passed as void*. Two libraries have these functions:
 *   libtessera_device.so       on the memory of an NVIDIA GPU of compute capability 8.0 or later; at run time it needs the
 *                              driver and cuBLAS
 *   libtessera_device_host.so  on host memory, by the loops of the textbook: for debugging, and for tests without a GPU
 * Neither needs libtessera.so. Link a program with one of the two.
 *
 * Matrices are column-major. Sizes and leading dimensions are in elements, 64 bits wide. Complex elements are pairs (real,
 * imaginary) of float or double.
 *
 * Time. A routine submits its work to the handle's stream and returns; what it reads and writes must stay as it is until the
 * stream has done the work, and the result is there for whatever follows in the stream. Nothing waits for the host, nothing
 * is allocated, and no module of this library is loaded after tessera_device_create, so that calls can be captured into a
 * CUDA graph. (cuBLAS loads a kernel of its own when it is used first: make each call once before it is measured.) In
 * libtessera_device_host.so a call has done its work when it returns.
 *
 * Results do not depend on timing: the same call on the same GPU gives the same bits each time. With and without a workspace
 * they may differ by rounding.
 *
 * Threads. A handle is used by one thread at a time; different handles are independent of each other. A thread's current
 * device or context, and errno, are as before when a function returns.
 *
 * Errors. What is wrong with the arguments gives TESSERA_INVALID_ARGUMENT, and nothing is touched. TESSERA_DEVICE_LOST: the
 * GPU's context is broken, by whatever ran in it; the process cannot use this GPU any more. TESSERA_INTERNAL_ERROR: the
 * driver or cuBLAS refused a launch (a stream of another device, a capture that is not valid any more); parts of the call
 * may have been submitted, and what it writes (B, C, info) is undefined. Errors of work that was submitted earlier show where
 * CUDA shows them: at this or a later call, or when the program synchronises.
 */
#ifndef TESSERA_DEVICE_BLAS_H
#define TESSERA_DEVICE_BLAS_H

#include "tessera/tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a sequence of calls has in common: a device, a stream, memory to work with. */
typedef struct tessera_device_struct* tessera_device_handle;

/* A handle for the calling thread's current device and context, with the default stream and no workspace. Where the thread
 * has no context yet, the handle is for the primary context of the current device, which is made. Loads all kernels, and
 * takes device memory: 32 MiB for cuBLAS (4 MiB below compute capability 9.0), half a MiB for solves. TESSERA_NOT_AVAILABLE:
 * there is no GPU, driver or cuBLAS; TESSERA_OUT_OF_DEVICE_MEMORY: there is not so much memory. On any error *handle is NULL. */
TESSERA_API tessera_status tessera_device_create(tessera_device_handle* handle);

/* Gives back what tessera_device_create took. May wait for the device; what has been submitted must be done, and graphs that
 * have captured calls of this handle must not be launched any more. NULL is allowed. */
TESSERA_API tessera_status tessera_device_destroy(tessera_device_handle handle);

/* The stream of the calls that follow: a cudaStream_t of the handle's context, or NULL for its default stream. It stays with
 * the caller, and must live as long as calls are made. All calls of a handle work in the same memory (what
 * tessera_device_create took, and the workspace): the new stream must not run ahead of what has been submitted to the former
 * one, so let it wait for an event, or have a handle per stream. The same holds of launches of a graph that has captured
 * calls of this handle, among each other and beside other calls. */
TESSERA_API tessera_status tessera_device_set_stream(tessera_device_handle handle, void* stream);

/* Memory of the device that the calls that follow may use, without a promise as to what is in it. It belongs to the caller,
 * and must stay until the stream has done the last call that may use it. `memory` must be aligned to 256 bytes, as that of
 * cudaMalloc is; NULL with 0 bytes: none. Every call can do without a workspace, but inverses (device_lapack.h); some are
 * quicker with one. Less than a call asks for (tessera_device_..._workspace, tessera_device_batch_workspace) is as good as none. */
TESSERA_API tessera_status tessera_device_set_workspace(tessera_device_handle handle, void* memory, size_t bytes);

/* What went wrong in the last call of this thread; "" if it succeeded. Valid until this thread's next call. */
TESSERA_API const char* tessera_device_last_error(void);
/* Position (from 1, the handle counted) of the argument that TESSERA_INVALID_ARGUMENT is about; 0 if unknown. */
TESSERA_API int tessera_device_last_error_position(void);

/* The routines.
 *
 * A and B lie in the handle's device memory (or where its kernels can read and write), aligned to their elements: 4 bytes
 * for float, 8 for double and complex float, 16 for complex double; more is not asked for. Else TESSERA_INVALID_ARGUMENT.
 * The two must not overlap. alpha is passed by value, or by its address in host memory, which is read before the call
 * returns. Of A only the triangle that `uplo` names is read, without its diagonal where that is TESSERA_UNIT; what lies
 * between the columns of B (ldb > m) is neither read nor written. m == 0 or n == 0 returns at once. alpha == 0 stores zeros
 * in B, and reads neither A, which may be NULL, nor B.
 *
 * ..._workspace tells how many bytes the call with these sizes can make use of; it asks nothing of the device.
 *
 * Source: reference BLAS (netlib), xTRSM and xTRMM. How products and leaves are made: KBLAS (Charara, Keyes, Ltaief). */

/* Solves op(A) * X = alpha * B (TESSERA_LEFT, A m x m) or X * op(A) = alpha * B (TESSERA_RIGHT, A n x n) for X, which
 * replaces B; A triangular, B m x n. lda >= max(1, m) or max(1, n), ldb >= max(1, m). By substitution: the residual is as
 * small as the reference's, whatever the triangle. There is no test for a singular A. */
TESSERA_API tessera_status tessera_device_strsm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                float alpha, const float* A, int64_t lda, float* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_dtrsm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                double alpha, const double* A, int64_t lda, double* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_ctrsm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                const void* alpha, const void* A, int64_t lda, void* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_ztrsm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                const void* alpha, const void* A, int64_t lda, void* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_strsm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);
TESSERA_API tessera_status tessera_device_dtrsm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);
TESSERA_API tessera_status tessera_device_ctrsm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);
TESSERA_API tessera_status tessera_device_ztrsm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);

/* B = alpha * op(A) * B (TESSERA_LEFT, A m x m) or alpha * B * op(A) (TESSERA_RIGHT, A n x n); all else as for trsm. */
TESSERA_API tessera_status tessera_device_strmm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                float alpha, const float* A, int64_t lda, float* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_dtrmm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                double alpha, const double* A, int64_t lda, double* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_ctrmm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                const void* alpha, const void* A, int64_t lda, void* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_ztrmm(tessera_device_handle handle, tessera_side side, tessera_uplo uplo,
                                                tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n,
                                                const void* alpha, const void* A, int64_t lda, void* B, int64_t ldb);
TESSERA_API tessera_status tessera_device_strmm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);
TESSERA_API tessera_status tessera_device_dtrmm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);
TESSERA_API tessera_status tessera_device_ctrmm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);
TESSERA_API tessera_status tessera_device_ztrmm_workspace(tessera_device_handle handle, tessera_side side,
                                                          tessera_uplo uplo, tessera_transpose transa,
                                                          tessera_diag diag, int64_t m, int64_t n, size_t* bytes);

/* Batches: many problems of one routine, type and variant with the same scalars, as one call. Each of the ten routines of
 * Level 3 has four functions in each type in which it exists, here those of dgemm, dsyrk and dtrsm:
 *
 *   tessera_device_dgemm_batched(handle, transa, transb, int64_t m, int64_t n, int64_t k,
 *                                double alpha, const double* const* A, int64_t lda, const double* const* B, int64_t ldb,
 *                                double beta, double* const* C, int64_t ldc, int64_t batch_count)
 *   tessera_device_dgemm_strided_batched(handle, transa, transb, int64_t m, int64_t n, int64_t k,
 *                                double alpha, const double* A, int64_t lda, int64_t stride_a,
 *                                const double* B, int64_t ldb, int64_t stride_b,
 *                                double beta, double* C, int64_t ldc, int64_t stride_c, int64_t batch_count)
 *   tessera_device_dgemm_vbatched(handle, transa, transb, int64_t max_m, int64_t max_n, int64_t max_k,
 *                                const int* m, const int* n, const int* k,
 *                                double alpha, const double* const* A, const int* lda, const double* const* B, const int* ldb,
 *                                double beta, double* const* C, const int* ldc, int64_t batch_count, int* info)
 *   tessera_device_dgemm_vbatched_64      the same with int64_t in place of int
 *
 *   tessera_device_dsyrk_batched(handle, uplo, trans, int64_t n, int64_t k, double alpha, const double* const* A, int64_t lda,
 *                                double beta, double* const* C, int64_t ldc, int64_t batch_count)
 *   tessera_device_dsyrk_strided_batched(handle, uplo, trans, int64_t n, int64_t k,
 *                                double alpha, const double* A, int64_t lda, int64_t stride_a,
 *                                double beta, double* C, int64_t ldc, int64_t stride_c, int64_t batch_count)
 *   tessera_device_dsyrk_vbatched(handle, uplo, trans, int64_t max_n, int64_t max_k, const int* n, const int* k,
 *                                double alpha, const double* const* A, const int* lda,
 *                                double beta, double* const* C, const int* ldc, int64_t batch_count, int* info)
 *
 *   tessera_device_dtrsm_batched(handle, side, uplo, transa, diag, int64_t m, int64_t n,
 *                                double alpha, const double* const* A, int64_t lda, double* const* B, int64_t ldb,
 *                                int64_t batch_count)
 *   tessera_device_dtrsm_strided_batched(handle, side, uplo, transa, diag, int64_t m, int64_t n,
 *                                double alpha, const double* A, int64_t lda, int64_t stride_a,
 *                                double* B, int64_t ldb, int64_t stride_b, int64_t batch_count)
 *   tessera_device_dtrsm_vbatched(handle, side, uplo, transa, diag, int64_t max_m, int64_t max_n, const int* m, const int* n,
 *                                double alpha, const double* const* A, const int* lda, double* const* B, const int* ldb,
 *                                int64_t batch_count, int* info)
 *
 * gemmt is as gemm with uplo first and without m; symm and hemm take (side, uplo, m, n, ...) with A, B and C; herk is as syrk,
 * syr2k and her2k with B behind A; trmm as trsm. Complex types have void in place of double, and alpha and beta are addresses in
 * host memory, which are read before the call returns; herk's two and her2k's beta are real, and passed by value.
 *
 * Problem i, for 0 <= i < batch_count, has
 *   _batched          the matrices at A[i], B[i] and C[i], all of one size
 *   _strided_batched  the matrices at A + i * stride_a, ... (strides in elements), all of one size. A stride may be 0 or
 *                     negative; with 0 all problems share the matrix, which must be one that is only read
 *   _vbatched         the matrices at A[i], B[i] and C[i] with the sizes m[i], n[i], k[i] and leading dimensions lda[i], ...
 * Matrices are laid out, read and written as in the single routines. Those of which anything is written must not overlap any
 * other of the batch: the results would be undefined. What is only read may be shared.
 *
 * Arrays lie in the handle's device memory, as the matrices do, have batch_count entries, belong to the caller, and are
 * aligned to their entries: pointers to 8 bytes, numbers to 4 or (_64) 8. None but info is written. The addresses in them must
 * be aligned to elements, which nobody checks. They are read when the stream does the work, not by the call, and must stay
 * until then: sizes may come out of a kernel before, and a captured graph may be launched again with other sizes, addresses
 * and leading dimensions in the same arrays.
 *
 * Bounds. max_m, max_n and max_k are no smaller than any m[i], n[i], k[i] when the work is done; with good ones fewer thread
 * blocks are started in vain. 0: unknown, any size is allowed. A size above its bound is a mistake of the caller: what is
 * computed of such a problem is undefined.
 *
 * info. info[i] becomes 0, or -p where p is the position, from 1, that the reference BLAS would tell (XERBLA): of the first bad
 * size or leading dimension of problem i in the routine's Fortran interface. Such a problem is left out, all others are
 * computed. info == NULL: nothing is checked, and all problems must be good; sizes may be 0. One problem that is wrong is no
 * error of the call, which returns before it is known.
 *
 * Errors. What stands in the call itself is checked: enumerators, max_*, batch_count, alignment, NULL, and with one size for all
 * sizes and leading dimensions as in the single routine. Positions count every argument of the function, handle and info
 * included. batch_count == 0 does nothing, nor does m == 0 or n == 0 as the size of all: no array or matrix is looked at.
 * alpha == 0, or k == 0 as the size of all, scales C (trmm, trsm: stores zeros in B), and A and B, the arrays themselves
 * included, are neither read nor looked at and may be NULL; the arrays of their leading dimensions may not.
 *
 * Results. A problem's have the same bits wherever it stands in the batch, and whatever stands beside it; between the four
 * functions, bounds, with or without a workspace, and for gemm of one size between numbers of problems, they may differ by
 * rounding.
 *
 * Source: reference BLAS (netlib); shapes of variable size: MAGMA, BLAS++; how they are computed: Abdelfattah, Haidar, Tomov,
 * Dongarra, "Novel HPC techniques to batch execution of many variable size BLAS computations on GPUs". */

/* Bytes that a batch of at most so many problems can make use of, whatever the routine and the sizes
 * (tessera_device_set_workspace). Asks nothing of the device. */
TESSERA_API tessera_status tessera_device_batch_workspace(tessera_device_handle handle, int64_t batch_count,
                                                          size_t* bytes);

/* The lists of arguments, by their shape. */
/* clang-format off */
#define TESSERA_BATCHED_GEMM(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose transa, \
      tessera_transpose transb, int64_t m, int64_t n, int64_t k, alpha_type alpha, const element* const* A, \
      int64_t lda, const element* const* B, int64_t ldb, beta_type beta, element* const* C, int64_t ldc, \
      int64_t batch_count)
#define TESSERA_STRIDED_GEMM(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose transa, \
      tessera_transpose transb, int64_t m, int64_t n, int64_t k, alpha_type alpha, const element* A, int64_t lda, \
      int64_t stride_a, const element* B, int64_t ldb, int64_t stride_b, beta_type beta, element* C, int64_t ldc, \
      int64_t stride_c, int64_t batch_count)
#define TESSERA_VBATCHED_GEMM(name, integer, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose transa, \
      tessera_transpose transb, int64_t max_m, int64_t max_n, int64_t max_k, const integer* m, const integer* n, \
      const integer* k, alpha_type alpha, const element* const* A, const integer* lda, const element* const* B, \
      const integer* ldb, beta_type beta, element* const* C, const integer* ldc, int64_t batch_count, integer* info)

#define TESSERA_BATCHED_GEMMT(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose transa, \
      tessera_transpose transb, int64_t n, int64_t k, alpha_type alpha, const element* const* A, int64_t lda, \
      const element* const* B, int64_t ldb, beta_type beta, element* const* C, int64_t ldc, int64_t batch_count)
#define TESSERA_STRIDED_GEMMT(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose transa, \
      tessera_transpose transb, int64_t n, int64_t k, alpha_type alpha, const element* A, int64_t lda, \
      int64_t stride_a, const element* B, int64_t ldb, int64_t stride_b, beta_type beta, element* C, int64_t ldc, \
      int64_t stride_c, int64_t batch_count)
#define TESSERA_VBATCHED_GEMMT(name, integer, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose transa, \
      tessera_transpose transb, int64_t max_n, int64_t max_k, const integer* n, const integer* k, alpha_type alpha, \
      const element* const* A, const integer* lda, const element* const* B, const integer* ldb, beta_type beta, \
      element* const* C, const integer* ldc, int64_t batch_count, integer* info)

#define TESSERA_BATCHED_SIDED(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_side side, tessera_uplo uplo, \
      int64_t m, int64_t n, alpha_type alpha, const element* const* A, int64_t lda, const element* const* B, \
      int64_t ldb, beta_type beta, element* const* C, int64_t ldc, int64_t batch_count)
#define TESSERA_STRIDED_SIDED(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_side side, tessera_uplo uplo, \
      int64_t m, int64_t n, alpha_type alpha, const element* A, int64_t lda, int64_t stride_a, const element* B, \
      int64_t ldb, int64_t stride_b, beta_type beta, element* C, int64_t ldc, int64_t stride_c, int64_t batch_count)
#define TESSERA_VBATCHED_SIDED(name, integer, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_side side, tessera_uplo uplo, \
      int64_t max_m, int64_t max_n, const integer* m, const integer* n, alpha_type alpha, const element* const* A, \
      const integer* lda, const element* const* B, const integer* ldb, beta_type beta, element* const* C, \
      const integer* ldc, int64_t batch_count, integer* info)

#define TESSERA_BATCHED_RANK_K(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose trans, \
      int64_t n, int64_t k, alpha_type alpha, const element* const* A, int64_t lda, beta_type beta, \
      element* const* C, int64_t ldc, int64_t batch_count)
#define TESSERA_STRIDED_RANK_K(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose trans, \
      int64_t n, int64_t k, alpha_type alpha, const element* A, int64_t lda, int64_t stride_a, beta_type beta, \
      element* C, int64_t ldc, int64_t stride_c, int64_t batch_count)
#define TESSERA_VBATCHED_RANK_K(name, integer, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose trans, \
      int64_t max_n, int64_t max_k, const integer* n, const integer* k, alpha_type alpha, const element* const* A, \
      const integer* lda, beta_type beta, element* const* C, const integer* ldc, int64_t batch_count, integer* info)

#define TESSERA_BATCHED_RANK_2K(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose trans, \
      int64_t n, int64_t k, alpha_type alpha, const element* const* A, int64_t lda, const element* const* B, \
      int64_t ldb, beta_type beta, element* const* C, int64_t ldc, int64_t batch_count)
#define TESSERA_STRIDED_RANK_2K(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose trans, \
      int64_t n, int64_t k, alpha_type alpha, const element* A, int64_t lda, int64_t stride_a, const element* B, \
      int64_t ldb, int64_t stride_b, beta_type beta, element* C, int64_t ldc, int64_t stride_c, int64_t batch_count)
#define TESSERA_VBATCHED_RANK_2K(name, integer, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_uplo uplo, tessera_transpose trans, \
      int64_t max_n, int64_t max_k, const integer* n, const integer* k, alpha_type alpha, const element* const* A, \
      const integer* lda, const element* const* B, const integer* ldb, beta_type beta, element* const* C, \
      const integer* ldc, int64_t batch_count, integer* info)

#define TESSERA_BATCHED_TRIANGULAR(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_side side, tessera_uplo uplo, \
      tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n, alpha_type alpha, const element* const* A, \
      int64_t lda, element* const* B, int64_t ldb, int64_t batch_count)
#define TESSERA_STRIDED_TRIANGULAR(name, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_side side, tessera_uplo uplo, \
      tessera_transpose transa, tessera_diag diag, int64_t m, int64_t n, alpha_type alpha, const element* A, \
      int64_t lda, int64_t stride_a, element* B, int64_t ldb, int64_t stride_b, int64_t batch_count)
#define TESSERA_VBATCHED_TRIANGULAR(name, integer, alpha_type, beta_type, element) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_side side, tessera_uplo uplo, \
      tessera_transpose transa, tessera_diag diag, int64_t max_m, int64_t max_n, const integer* m, const integer* n, \
      alpha_type alpha, const element* const* A, const integer* lda, element* const* B, const integer* ldb, \
      int64_t batch_count, integer* info)

/* The four functions of a routine in one type. */
#define TESSERA_BATCHES(shape, name, alpha_type, beta_type, element) \
  TESSERA_API TESSERA_BATCHED_##shape(name##_batched, alpha_type, beta_type, element); \
  TESSERA_API TESSERA_STRIDED_##shape(name##_strided_batched, alpha_type, beta_type, element); \
  TESSERA_API TESSERA_VBATCHED_##shape(name##_vbatched, int, alpha_type, beta_type, element); \
  TESSERA_API TESSERA_VBATCHED_##shape(name##_vbatched_64, int64_t, alpha_type, beta_type, element)
/* clang-format on */

/* C = alpha * op(A) * op(B) + beta * C, op(A) m x k, op(B) k x n, C m x n. */
TESSERA_BATCHES(GEMM, sgemm, float, float, float);
TESSERA_BATCHES(GEMM, dgemm, double, double, double);
TESSERA_BATCHES(GEMM, cgemm, const void*, const void*, void);
TESSERA_BATCHES(GEMM, zgemm, const void*, const void*, void);

/* The same with C n x n, of which only the triangle that `uplo` names is read and written. */
TESSERA_BATCHES(GEMMT, sgemmt, float, float, float);
TESSERA_BATCHES(GEMMT, dgemmt, double, double, double);
TESSERA_BATCHES(GEMMT, cgemmt, const void*, const void*, void);
TESSERA_BATCHES(GEMMT, zgemmt, const void*, const void*, void);

/* C = alpha * A * B + beta * C (TESSERA_LEFT, A m x m) or alpha * B * A + beta * C (TESSERA_RIGHT, A n x n); A symmetric,
 * B and C m x n. */
TESSERA_BATCHES(SIDED, ssymm, float, float, float);
TESSERA_BATCHES(SIDED, dsymm, double, double, double);
TESSERA_BATCHES(SIDED, csymm, const void*, const void*, void);
TESSERA_BATCHES(SIDED, zsymm, const void*, const void*, void);

/* The same for a Hermitian A. */
TESSERA_BATCHES(SIDED, chemm, const void*, const void*, void);
TESSERA_BATCHES(SIDED, zhemm, const void*, const void*, void);

/* C = alpha * A * A^T + beta * C (TESSERA_NO_TRANS, A n x k) or alpha * A^T * A + beta * C (TESSERA_TRANS, A k x n); C n x n,
 * symmetric, of which only the triangle that `uplo` names is read and written. Real: TESSERA_CONJ_TRANS means TESSERA_TRANS;
 * complex: it is not valid. */
TESSERA_BATCHES(RANK_K, ssyrk, float, float, float);
TESSERA_BATCHES(RANK_K, dsyrk, double, double, double);
TESSERA_BATCHES(RANK_K, csyrk, const void*, const void*, void);
TESSERA_BATCHES(RANK_K, zsyrk, const void*, const void*, void);

/* C = alpha * A * A^H + beta * C (TESSERA_NO_TRANS) or alpha * A^H * A + beta * C (TESSERA_CONJ_TRANS; TESSERA_TRANS is not
 * valid); C Hermitian, alpha and beta real. */
TESSERA_BATCHES(RANK_K, cherk, float, float, void);
TESSERA_BATCHES(RANK_K, zherk, double, double, void);

/* C = alpha * A * B^T + alpha * B * A^T + beta * C (TESSERA_NO_TRANS, A and B n x k) or alpha * A^T * B + alpha * B^T * A +
 * beta * C (TESSERA_TRANS, A and B k x n); all else as for syrk. */
TESSERA_BATCHES(RANK_2K, ssyr2k, float, float, float);
TESSERA_BATCHES(RANK_2K, dsyr2k, double, double, double);
TESSERA_BATCHES(RANK_2K, csyr2k, const void*, const void*, void);
TESSERA_BATCHES(RANK_2K, zsyr2k, const void*, const void*, void);

/* C = alpha * A * B^H + conj(alpha) * B * A^H + beta * C (TESSERA_NO_TRANS) or alpha * A^H * B + conj(alpha) * B^H * A +
 * beta * C (TESSERA_CONJ_TRANS); beta real, all else as for herk. */
TESSERA_BATCHES(RANK_2K, cher2k, const void*, float, void);
TESSERA_BATCHES(RANK_2K, zher2k, const void*, double, void);

/* B = alpha * op(A) * B (TESSERA_LEFT, A m x m) or alpha * B * op(A) (TESSERA_RIGHT, A n x n), A triangular, B m x n. */
TESSERA_BATCHES(TRIANGULAR, strmm, float, float, float);
TESSERA_BATCHES(TRIANGULAR, dtrmm, double, double, double);
TESSERA_BATCHES(TRIANGULAR, ctrmm, const void*, const void*, void);
TESSERA_BATCHES(TRIANGULAR, ztrmm, const void*, const void*, void);

/* Solves op(A) * X = alpha * B or X * op(A) = alpha * B for X, which replaces B; as the single tessera_device_?trsm. */
TESSERA_BATCHES(TRIANGULAR, strsm, float, float, float);
TESSERA_BATCHES(TRIANGULAR, dtrsm, double, double, double);
TESSERA_BATCHES(TRIANGULAR, ctrsm, const void*, const void*, void);
TESSERA_BATCHES(TRIANGULAR, ztrsm, const void*, const void*, void);

#undef TESSERA_BATCHES
#ifndef TESSERA_BUILD /* which defines the functions by the same lists */
#undef TESSERA_BATCHED_GEMM
#undef TESSERA_STRIDED_GEMM
#undef TESSERA_VBATCHED_GEMM
#undef TESSERA_BATCHED_GEMMT
#undef TESSERA_STRIDED_GEMMT
#undef TESSERA_VBATCHED_GEMMT
#undef TESSERA_BATCHED_SIDED
#undef TESSERA_STRIDED_SIDED
#undef TESSERA_VBATCHED_SIDED
#undef TESSERA_BATCHED_RANK_K
#undef TESSERA_STRIDED_RANK_K
#undef TESSERA_VBATCHED_RANK_K
#undef TESSERA_BATCHED_RANK_2K
#undef TESSERA_STRIDED_RANK_2K
#undef TESSERA_VBATCHED_RANK_2K
#undef TESSERA_BATCHED_TRIANGULAR
#undef TESSERA_STRIDED_TRIANGULAR
#undef TESSERA_VBATCHED_TRIANGULAR
#endif

#ifdef __cplusplus
}
#endif

#endif
