/* Tessera on device memory: routines on matrices in the memory of one GPU, on a stream of the caller; single ones, and
 * batches of many small ones.
 *
 * C99; no header of CUDA is included, and streams are passed as void*. Two libraries contain these functions:
 *   libtessera_device.so       on the memory of an NVIDIA GPU of compute capability 8.0 or later; at run time it needs
 *                              the driver and cuBLAS
 *   libtessera_device_host.so  on host memory, by the loops of the textbook: for debugging, and for tests without a GPU
 * Neither needs libtessera.so. Link a program with one of the two.
 *
 * Matrices are column-major. Sizes and leading dimensions are in elements, 64 bits wide. Complex elements are pairs (real,
 * imaginary) of float or double.
 *
 * Time. A routine submits its work to the handle's stream and returns. Its operands must stay unchanged until the
 * stream has done the work; later work in the stream may use the result. The host never waits, and nothing is
 * allocated. No module of this library is loaded after tessera_device_create. So calls can be captured into a CUDA
 * graph. (cuBLAS loads a kernel of its own at its first use: make each call once before measuring it.) In
 * libtessera_device_host.so a call has done its work when it returns.
 *
 * Results do not depend on timing: the same call on the same GPU gives the same bits each time. Results with and
 * without a workspace may differ by rounding.
 *
 * Threads. One thread at a time may use a handle; different handles are independent of each other. Functions preserve
 * the thread's current device or context, and errno.
 *
 * Errors. TESSERA_INVALID_ARGUMENT: an argument is wrong, and nothing is touched. TESSERA_DEVICE_LOST: the GPU's
 * context is broken, by any work that ran in it; the process cannot use this GPU any more. TESSERA_INTERNAL_ERROR: the
 * driver or cuBLAS refused a launch (a stream of another device, a capture that has become invalid). Parts of the call
 * may have been submitted then, and its results (B, C, info) are undefined. Errors of work that was submitted earlier
 * appear where CUDA reports them: at this or a later call, or when the program synchronises.
 */
#ifndef TESSERA_DEVICE_BLAS_H
#define TESSERA_DEVICE_BLAS_H

#include "tessera/tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The context of a sequence of calls: a device, a stream and a workspace. */
typedef struct tessera_device_struct* tessera_device_handle;

/* Creates a handle for the calling thread's current device and context, with the default stream and no workspace. If
 * the thread has no context yet, the handle is for the primary context of the current device, which is created. Loads
 * all kernels, and allocates device memory: 32 MiB for cuBLAS (4 MiB below compute capability 9.0), half a MiB for
 * solves. TESSERA_NOT_AVAILABLE: there is no GPU, driver or cuBLAS. TESSERA_OUT_OF_DEVICE_MEMORY: there is not enough
 * memory. On any error *handle is NULL. */
TESSERA_API tessera_status tessera_device_create(tessera_device_handle* handle);

/* Frees the resources of tessera_device_create. May wait for the device. All submitted work must be done, and graphs
 * that have captured calls of this handle must not be launched any more. NULL is allowed. */
TESSERA_API tessera_status tessera_device_destroy(tessera_device_handle handle);

/* Sets the stream of the following calls: a cudaStream_t of the handle's context, or NULL for its default stream. It
 * stays with the caller, and must live as long as calls are made. All calls of a handle share the handle's memory and
 * the workspace. So the new stream must not run ahead of work in the former one: let it wait for an event, or use a
 * handle per stream. The same holds for launches of graphs that have captured calls of this handle, among each other
 * and beside other calls. */
TESSERA_API tessera_status tessera_device_set_stream(tessera_device_handle handle, void* stream);

/* Sets the workspace: device memory that the following calls may use, with undefined contents. It belongs to the
 * caller, and must stay until the stream has done the last call that may use it. `memory` must be aligned to 256 bytes,
 * as that of cudaMalloc is; NULL with 0 bytes: none. Only inverses (device_lapack.h) need a workspace; some other calls
 * are faster with one. A workspace smaller than a call's own (tessera_device_..._workspace,
 * tessera_device_batch_workspace) has no effect. */
TESSERA_API tessera_status tessera_device_set_workspace(tessera_device_handle handle, void* memory, size_t bytes);

/* The reason for the failure of this thread's last call; "" if it succeeded. Valid until this thread's next call. */
TESSERA_API const char* tessera_device_last_error(void);
/* Position (from 1, the handle counted) of the argument to which TESSERA_INVALID_ARGUMENT refers; 0 if unknown. */
TESSERA_API int tessera_device_last_error_position(void);

/* The routines.
 *
 * A and B lie in the handle's device memory (or in other memory that its kernels can access). They must be aligned to
 * their elements, and need no more: 4 bytes for float, 8 for double and complex float, 16 for complex double. Otherwise
 * TESSERA_INVALID_ARGUMENT. A and B must not overlap. alpha is passed by value, or by its address in host memory, which
 * is read before the call returns. Of A only the triangle that `uplo` names is read, without its diagonal if `diag` is
 * TESSERA_UNIT. Elements between the columns of B (ldb > m) are neither read nor written. m == 0 or n == 0 returns at
 * once. alpha == 0 stores zeros in B, and reads neither A, which may be NULL, nor B.
 *
 * ..._workspace returns the number of bytes that the call with these sizes can use. It makes no query of the device.
 *
 * Sources: reference BLAS (netlib), xTRSM and xTRMM; KBLAS (Charara, Keyes, Ltaief), for the division into products and
 * leaves. */

/* Solves op(A) * X = alpha * B (TESSERA_LEFT, A m x m) or X * op(A) = alpha * B (TESSERA_RIGHT, A n x n) for X, which
 * replaces B; A triangular, B m x n. lda >= max(1, m) or max(1, n), ldb >= max(1, m). The solution is by substitution:
 * the residual is as small as the reference's for any triangle. There is no test for a singular A. */
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

/* B = alpha * op(A) * B (TESSERA_LEFT, A m x m) or alpha * B * op(A) (TESSERA_RIGHT, A n x n); the rest as for trsm. */
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

/* Batches: many problems of one routine, type and variant with the same scalars, as one call. Each of the ten routines
 * of Level 3 has four functions in each of its types, here those of dgemm, dsyrk and dtrsm:
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
 * gemmt is as gemm, with uplo first and without m. symm and hemm take (side, uplo, m, n, ...) with A, B and C. herk is
 * as syrk; syr2k and her2k have B behind A; trmm is as trsm. Complex types have void in place of double. Their alpha
 * and beta are addresses in host memory, which are read before the call returns. herk's alpha and beta, and her2k's
 * beta, are real and passed by value.
 *
 * Problem i, for 0 <= i < batch_count, has
 *   _batched          the matrices at A[i], B[i] and C[i], all of one size
 *   _strided_batched  the matrices at A + i * stride_a, ... (strides in elements), all of one size. A stride may be 0
 *                     or negative. With stride 0 all problems share the matrix, which must only be read
 *   _vbatched         the matrices at A[i], B[i] and C[i] with the sizes m[i], n[i], k[i] and leading dimensions
 *   lda[i], ...
 * Matrices are stored, read and written as in the single routines. A matrix that is written must not overlap any other
 * of the batch: the results would be undefined. Matrices that are only read may be shared.
 *
 * Arrays lie in the handle's device memory, as the matrices do. They have batch_count entries, belong to the caller,
 * and are aligned to their entries: pointers to 8 bytes, numbers to 4 or (_64) 8. Only info is written. The addresses
 * in arrays must be aligned to elements, which is not checked. The stream reads the arrays when it does the work, not
 * the call, and they must stay until then. So an earlier kernel may compute the sizes. A captured graph may be launched
 * again with other sizes, addresses and leading dimensions in the same arrays.
 *
 * Bounds. max_m, max_n and max_k must be at least as large as any m[i], n[i], k[i] when the work is done. With tight
 * bounds fewer thread blocks are started in vain. 0: unknown, any size is allowed. A size above its bound is an error
 * of the caller: the result of such a problem is undefined.
 *
 * info. info[i] becomes 0, or -p. p is the position, from 1, that the reference BLAS would report (XERBLA): the first
 * bad size or leading dimension of problem i in the routine's Fortran interface. Such a problem is left out, and all
 * others are computed. info == NULL: nothing is checked, and all problems must be good; sizes may be 0. A bad problem
 * is not an error of the call, which returns before the problem is checked.
 *
 * Errors. The arguments of the call itself are checked: enumerators, max_*, batch_count, alignment, NULL, and with one
 * common size the sizes and leading dimensions as in the single routine. Positions count every argument of the
 * function, handle and info included. batch_count == 0 does nothing, nor does a common size m == 0 or n == 0: no array
 * or matrix is read. alpha == 0, or a common k == 0, scales C (trmm, trsm: stores zeros in B). A and B and the arrays
 * of their addresses are then not read, and may be NULL; the arrays of their leading dimensions may not.
 *
 * Results. A problem's result has the same bits at any place in the batch, and beside any other problems. Results may
 * differ by rounding between the four functions, with other bounds, and with or without a workspace. For gemm of one
 * size they may also differ between numbers of problems.
 *
 * Sources: reference BLAS (netlib); MAGMA and BLAS++, for interfaces of variable size; Abdelfattah, Haidar, Tomov,
 * Dongarra, "Novel HPC techniques to batch execution of many variable size BLAS computations on GPUs", for the
 * algorithms. */

/* Bytes that a batch of at most so many problems can use, for any routine and sizes (tessera_device_set_workspace).
 * Makes no query of the device. */
TESSERA_API tessera_status tessera_device_batch_workspace(tessera_device_handle handle, int64_t batch_count,
                                                          size_t* bytes);

/* The argument lists, by their shape. */
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

/* The same with C n x n; only the triangle that `uplo` names is read and written. */
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

/* C = alpha * A * A^T + beta * C (TESSERA_NO_TRANS, A n x k) or alpha * A^T * A + beta * C (TESSERA_TRANS, A k x n). C
 * is n x n and symmetric; only the triangle that `uplo` names is read and written. TESSERA_CONJ_TRANS means
 * TESSERA_TRANS in real types, and is not valid in complex ones. */
TESSERA_BATCHES(RANK_K, ssyrk, float, float, float);
TESSERA_BATCHES(RANK_K, dsyrk, double, double, double);
TESSERA_BATCHES(RANK_K, csyrk, const void*, const void*, void);
TESSERA_BATCHES(RANK_K, zsyrk, const void*, const void*, void);

/* C = alpha * A * A^H + beta * C (TESSERA_NO_TRANS) or alpha * A^H * A + beta * C (TESSERA_CONJ_TRANS; TESSERA_TRANS is not
 * valid); C Hermitian, alpha and beta real. */
TESSERA_BATCHES(RANK_K, cherk, float, float, void);
TESSERA_BATCHES(RANK_K, zherk, double, double, void);

/* C = alpha * A * B^T + alpha * B * A^T + beta * C (TESSERA_NO_TRANS, A and B n x k) or alpha * A^T * B + alpha * B^T *
 * A + beta * C (TESSERA_TRANS, A and B k x n); the rest is as for syrk. */
TESSERA_BATCHES(RANK_2K, ssyr2k, float, float, float);
TESSERA_BATCHES(RANK_2K, dsyr2k, double, double, double);
TESSERA_BATCHES(RANK_2K, csyr2k, const void*, const void*, void);
TESSERA_BATCHES(RANK_2K, zsyr2k, const void*, const void*, void);

/* C = alpha * A * B^H + conj(alpha) * B * A^H + beta * C (TESSERA_NO_TRANS) or alpha * A^H * B + conj(alpha) * B^H * A
 * + beta * C (TESSERA_CONJ_TRANS); beta is real, and the rest is as for herk. */
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
#ifndef TESSERA_BUILD /* the build of the library, which defines the functions by the same lists */
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
