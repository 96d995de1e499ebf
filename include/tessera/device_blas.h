/* Tessera on device memory: routines on matrices that lie in the memory of one GPU, on a stream of the caller.
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
 * may have been submitted, and B is undefined. Errors of work that was submitted earlier show where CUDA shows them: at this
 * or a later call, or when the program synchronises.
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
 * cudaMalloc is; NULL with 0 bytes: none. Every call can do without a workspace; some are quicker with one. Less than a call
 * asks for (tessera_device_..._workspace) is as good as none. */
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

#ifdef __cplusplus
}
#endif

#endif
