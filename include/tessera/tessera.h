/* Tessera: BLAS and LAPACK on all devices of the machine, for matrices in host memory.
 *
 * C99. All functions are thread-safe unless they say otherwise; calls on one context are begun in order of arrival and
 * share its devices. Matrices belong to the caller and stay in host memory; the library keeps no copy of them after a
 * call returns.
 */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <stddef.h>
#include <stdint.h>

#if defined(TESSERA_BUILD)
#define TESSERA_API __attribute__((visibility("default")))
#else
#define TESSERA_API
#endif

#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 1
#define TESSERA_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* Values as in CBLAS, so that CBLAS enums can be passed. */
typedef enum { TESSERA_ROW_MAJOR = 101, TESSERA_COL_MAJOR = 102 } tessera_layout;
typedef enum { TESSERA_NO_TRANS = 111, TESSERA_TRANS = 112, TESSERA_CONJ_TRANS = 113 } tessera_transpose;
typedef enum { TESSERA_UPPER = 121, TESSERA_LOWER = 122 } tessera_uplo;
typedef enum { TESSERA_NON_UNIT = 131, TESSERA_UNIT = 132 } tessera_diag;
typedef enum { TESSERA_LEFT = 141, TESSERA_RIGHT = 142 } tessera_side;

typedef enum {
  TESSERA_SUCCESS = 0,
  TESSERA_INVALID_ARGUMENT = 1,
  TESSERA_OUT_OF_DEVICE_MEMORY = 2, /* C is untouched */
  TESSERA_DEVICE_LOST = 3,          /* C may be partly written: a device failed while it wrote a tile back */
  TESSERA_NOT_AVAILABLE = 4,        /* devices requested by name, or a CPU BLAS, are missing */
  TESSERA_INTERNAL_ERROR = 5
} tessera_status;

typedef struct tessera_context_struct* tessera_context;

/* Makes a context from the environment (TESSERA_*) and `settings`: NAME=value pairs separated by white space, with the
 * same names. `settings` override the environment; NULL: none. A value with white space stands in quotation marks
 * (NAME="value"), in which \" and \\ stand for a quotation mark and a backslash. Devices are opened by the first call
 * that uses them, or here if they are named (TESSERA_DEVICES other than auto), so that an error shows early. */
TESSERA_API tessera_status tessera_create(tessera_context* ctx);
TESSERA_API tessera_status tessera_create_with(tessera_context* ctx, const char* settings);
/* The context that the BLAS and LAPACK symbols (dgemm_, cblas_dgemm, dgetrf_, ...) of this process share: made from the
 * environment, and alive as long as the process, so that tessera_destroy leaves it alone; or the one that was chosen. */
TESSERA_API tessera_status tessera_shared_context(tessera_context* ctx);
/* Has the symbols use `ctx` from now on, in all threads; NULL: the context made from the environment. A context that has
 * been chosen can no longer be destroyed, since calls may be under way on it. */
TESSERA_API tessera_status tessera_choose_context(tessera_context ctx);
/* Opens the CPU BLAS and the devices of the context, and runs a small computation on the devices. This saves the first
 * large call seconds, in which CUDA starts and loads its kernels. NULL: the shared context. Returns when all is ready; may run in a thread of its own beside calls.
 * Without devices it does next to nothing. With TESSERA_WARM_UP=1 the first call starts the same in the background. */
TESSERA_API tessera_status tessera_warm_up(tessera_context ctx);
/* *answer becomes 1 if a call of this size would now run on devices, else 0. `routine` is a name of BLAS or LAPACK in one
 * type ("dgemm", "zheevd"), sizes that it does not have are ignored; m, n, k as in its interface, k for nrhs. The answer
 * is the offload decision's (docs/offload.md): it changes as speeds are learnt, and may measure the CPU BLAS for some
 * milliseconds. No device is opened. */
TESSERA_API tessera_status tessera_would_offload(tessera_context ctx, const char* routine, int64_t m, int64_t n,
                                                 int64_t k, int* answer);
/* Waits for calls in flight. NULL is allowed. */
TESSERA_API tessera_status tessera_destroy(tessera_context ctx);

/* The error text of the last failed call of this thread; "" if none failed. Valid until this thread's next call. */
TESSERA_API const char* tessera_last_error(void);
/* Position (from 1, context and layout counted) of the argument that TESSERA_INVALID_ARGUMENT is about; 0 if
 * unknown. */
TESSERA_API int tessera_last_error_position(void);
TESSERA_API const char* tessera_version(void);

/* The Level-3 BLAS.
 *
 * Leading dimensions are in elements. Complex: matrices, and scalars where they are passed by address, are pairs (real,
 * imaginary) of float or double, as in CBLAS. Reference semantics: beta == 0 does not read C; alpha == 0 or k == 0 does
 * not read A and B. Of a symmetric, Hermitian or triangular matrix only the triangle that `uplo` names is read or
 * written. The imaginary parts of a Hermitian matrix's diagonal are taken as 0; if the matrix is the result, they are
 * set to 0.
 *
 * An invalid argument gives TESSERA_INVALID_ARGUMENT, and nothing is touched. TESSERA_OUT_OF_DEVICE_MEMORY: the devices
 * cannot hold one step of the call. */

/* C = alpha * op(A) * op(B) + beta * C, op(A) m x k, op(B) k x n, C m x n. */
TESSERA_API tessera_status tessera_sgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, float alpha,
                                         const float* A, int64_t lda, const float* B, int64_t ldb, float beta, float* C,
                                         int64_t ldc);
TESSERA_API tessera_status tessera_dgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, double alpha,
                                         const double* A, int64_t lda, const double* B, int64_t ldb, double beta,
                                         double* C, int64_t ldc);
TESSERA_API tessera_status tessera_cgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                                         const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta,
                                         void* C, int64_t ldc);
TESSERA_API tessera_status tessera_zgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                                         const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta,
                                         void* C, int64_t ldc);

/* C = alpha * op(A) * op(B) + beta * C as gemm, C n x n. Only one triangle of C is read and written: for products that
 * are known to be symmetric or triangular. The BLAS symbols are called ?gemmt and ?gemmtr. */
TESSERA_API tessera_status tessera_sgemmt(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose transa, tessera_transpose transb, int64_t n, int64_t k,
                                          float alpha, const float* A, int64_t lda, const float* B, int64_t ldb,
                                          float beta, float* C, int64_t ldc);
TESSERA_API tessera_status tessera_dgemmt(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose transa, tessera_transpose transb, int64_t n, int64_t k,
                                          double alpha, const double* A, int64_t lda, const double* B, int64_t ldb,
                                          double beta, double* C, int64_t ldc);
TESSERA_API tessera_status tessera_cgemmt(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose transa, tessera_transpose transb, int64_t n, int64_t k,
                                          const void* alpha, const void* A, int64_t lda, const void* B, int64_t ldb,
                                          const void* beta, void* C, int64_t ldc);
TESSERA_API tessera_status tessera_zgemmt(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose transa, tessera_transpose transb, int64_t n, int64_t k,
                                          const void* alpha, const void* A, int64_t lda, const void* B, int64_t ldb,
                                          const void* beta, void* C, int64_t ldc);

/* C = alpha * A * B + beta * C (TESSERA_LEFT, A m x m) or alpha * B * A + beta * C (TESSERA_RIGHT, A n x n); A
 * symmetric, B and C m x n. */
TESSERA_API tessera_status tessera_ssymm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, int64_t m, int64_t n, float alpha, const float* A,
                                         int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc);
TESSERA_API tessera_status tessera_dsymm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, int64_t m, int64_t n, double alpha, const double* A,
                                         int64_t lda, const double* B, int64_t ldb, double beta, double* C,
                                         int64_t ldc);
TESSERA_API tessera_status tessera_csymm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, int64_t m, int64_t n, const void* alpha, const void* A,
                                         int64_t lda, const void* B, int64_t ldb, const void* beta, void* C,
                                         int64_t ldc);
TESSERA_API tessera_status tessera_zsymm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, int64_t m, int64_t n, const void* alpha, const void* A,
                                         int64_t lda, const void* B, int64_t ldb, const void* beta, void* C,
                                         int64_t ldc);

/* The same for a Hermitian A. */
TESSERA_API tessera_status tessera_chemm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, int64_t m, int64_t n, const void* alpha, const void* A,
                                         int64_t lda, const void* B, int64_t ldb, const void* beta, void* C,
                                         int64_t ldc);
TESSERA_API tessera_status tessera_zhemm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, int64_t m, int64_t n, const void* alpha, const void* A,
                                         int64_t lda, const void* B, int64_t ldb, const void* beta, void* C,
                                         int64_t ldc);

/* C = alpha * A * A^T + beta * C (TESSERA_NO_TRANS, A n x k) or alpha * A^T * A + beta * C (TESSERA_TRANS, A k x n);
 * C n x n, symmetric. Real: TESSERA_CONJ_TRANS means TESSERA_TRANS; complex: it is invalid. */
TESSERA_API tessera_status tessera_ssyrk(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                         tessera_transpose trans, int64_t n, int64_t k, float alpha, const float* A,
                                         int64_t lda, float beta, float* C, int64_t ldc);
TESSERA_API tessera_status tessera_dsyrk(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                         tessera_transpose trans, int64_t n, int64_t k, double alpha, const double* A,
                                         int64_t lda, double beta, double* C, int64_t ldc);
TESSERA_API tessera_status tessera_csyrk(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                         tessera_transpose trans, int64_t n, int64_t k, const void* alpha,
                                         const void* A, int64_t lda, const void* beta, void* C, int64_t ldc);
TESSERA_API tessera_status tessera_zsyrk(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                         tessera_transpose trans, int64_t n, int64_t k, const void* alpha,
                                         const void* A, int64_t lda, const void* beta, void* C, int64_t ldc);

/* C = alpha * A * A^H + beta * C (TESSERA_NO_TRANS, A n x k) or alpha * A^H * A + beta * C (TESSERA_CONJ_TRANS, A k x
 * n); C n x n, Hermitian. alpha and beta are real. */
TESSERA_API tessera_status tessera_cherk(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                         tessera_transpose trans, int64_t n, int64_t k, float alpha, const void* A,
                                         int64_t lda, float beta, void* C, int64_t ldc);
TESSERA_API tessera_status tessera_zherk(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                         tessera_transpose trans, int64_t n, int64_t k, double alpha, const void* A,
                                         int64_t lda, double beta, void* C, int64_t ldc);

/* C = alpha * A * B^T + alpha * B * A^T + beta * C (TESSERA_NO_TRANS, A and B n x k) or
 * alpha * A^T * B + alpha * B^T * A + beta * C (TESSERA_TRANS, A and B k x n); C n x n, symmetric. TESSERA_CONJ_TRANS
 * as for syrk. */
TESSERA_API tessera_status tessera_ssyr2k(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose trans, int64_t n, int64_t k, float alpha, const float* A,
                                          int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc);
TESSERA_API tessera_status tessera_dsyr2k(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose trans, int64_t n, int64_t k, double alpha, const double* A,
                                          int64_t lda, const double* B, int64_t ldb, double beta, double* C,
                                          int64_t ldc);
TESSERA_API tessera_status tessera_csyr2k(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose trans, int64_t n, int64_t k, const void* alpha,
                                          const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta,
                                          void* C, int64_t ldc);
TESSERA_API tessera_status tessera_zsyr2k(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose trans, int64_t n, int64_t k, const void* alpha,
                                          const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta,
                                          void* C, int64_t ldc);

/* C = alpha * A * B^H + conj(alpha) * B * A^H + beta * C (TESSERA_NO_TRANS, A and B n x k) or
 * alpha * A^H * B + conj(alpha) * B^H * A + beta * C (TESSERA_CONJ_TRANS, A and B k x n); C n x n, Hermitian. beta is
 * real. */
TESSERA_API tessera_status tessera_cher2k(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose trans, int64_t n, int64_t k, const void* alpha,
                                          const void* A, int64_t lda, const void* B, int64_t ldb, float beta, void* C,
                                          int64_t ldc);
TESSERA_API tessera_status tessera_zher2k(tessera_context ctx, tessera_layout layout, tessera_uplo uplo,
                                          tessera_transpose trans, int64_t n, int64_t k, const void* alpha,
                                          const void* A, int64_t lda, const void* B, int64_t ldb, double beta, void* C,
                                          int64_t ldc);

/* B = alpha * op(A) * B (TESSERA_LEFT, A m x m) or alpha * B * op(A) (TESSERA_RIGHT, A n x n); A triangular, B m x n.
 * TESSERA_UNIT: A's diagonal is taken as 1 and not read. */
TESSERA_API tessera_status tessera_strmm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, float alpha, const float* A, int64_t lda, float* B, int64_t ldb);
TESSERA_API tessera_status tessera_dtrmm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, double alpha, const double* A, int64_t lda, double* B, int64_t ldb);
TESSERA_API tessera_status tessera_ctrmm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, const void* alpha, const void* A, int64_t lda, void* B,
                                         int64_t ldb);
TESSERA_API tessera_status tessera_ztrmm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, const void* alpha, const void* A, int64_t lda, void* B,
                                         int64_t ldb);

/* Solves op(A) * X = alpha * B (TESSERA_LEFT) or X * op(A) = alpha * B (TESSERA_RIGHT) for X, which replaces B; A as
 * for trmm. There is no test for a singular A. */
TESSERA_API tessera_status tessera_strsm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, float alpha, const float* A, int64_t lda, float* B, int64_t ldb);
TESSERA_API tessera_status tessera_dtrsm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, double alpha, const double* A, int64_t lda, double* B, int64_t ldb);
TESSERA_API tessera_status tessera_ctrsm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, const void* alpha, const void* A, int64_t lda, void* B,
                                         int64_t ldb);
TESSERA_API tessera_status tessera_ztrsm(tessera_context ctx, tessera_layout layout, tessera_side side,
                                         tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, int64_t m,
                                         int64_t n, const void* alpha, const void* A, int64_t lda, void* B,
                                         int64_t ldb);

/* Batches of C = alpha * op(A) * op(B) + beta * C, as Intel MKL and OpenBLAS have them. Products that are large by
 * themselves are computed as calls of their own. All others are packed together on their way to the devices, or run
 * side by side on the CPU.
 *
 * Products are described in groups. Those of group g are of the size m[g], n[g], k[g], with the transpositions
 * transa[g] and transb[g], the factors alpha[g] and beta[g], and the leading dimensions lda[g], ldb[g], ldc[g]. There
 * are group_size[g] of them, whose matrices are the next group_size[g] entries of A, B and C. A group may have one
 * product: groups of the same form are merged. All arrays are the caller's, in host memory. No C may overlap with
 * another one, or with any A or B; A and B may be shared.
 *
 * All arguments of all groups are checked before anything is computed. Their positions (tessera_last_error_position)
 * are those in the call; the text names the group. A or B may be null if alpha or k is 0, any matrix if m or n is 0.
 * Counts whose sum no array can have are invalid, and so are strides and leading dimensions that lead beyond any
 * memory. Other devices and the CPU do the work of devices that fail or lack memory. Only TESSERA_DEVICE_LOST of a
 * large product may leave a C partly written. All other products are computed nevertheless, and the first error is
 * returned at the end. */
#define TESSERA_GEMM_BATCH(letter, element)                                                                         \
  TESSERA_API tessera_status tessera_##letter##gemm_batch(                                                          \
      tessera_context ctx, tessera_layout layout, const tessera_transpose* transa, const tessera_transpose* transb, \
      const int64_t* m, const int64_t* n, const int64_t* k, const element* alpha, const element* const* A,          \
      const int64_t* lda, const element* const* B, const int64_t* ldb, const element* beta, element* const* C,      \
      const int64_t* ldc, int64_t group_count, const int64_t* group_size)
TESSERA_GEMM_BATCH(s, float);
TESSERA_GEMM_BATCH(d, double);
TESSERA_GEMM_BATCH(c, void);
TESSERA_GEMM_BATCH(z, void);
#undef TESSERA_GEMM_BATCH

/* The same for batch_size products of one size and form. The matrices of each product are stridea, strideb and stridec
 * elements behind those of the one before. Strides are not negative; 0 means that all products share one A or B. */
#define TESSERA_GEMM_BATCH_STRIDED(letter, scalar, element)                                                      \
  TESSERA_API tessera_status tessera_##letter##gemm_batch_strided(                                               \
      tessera_context ctx, tessera_layout layout, tessera_transpose transa, tessera_transpose transb, int64_t m, \
      int64_t n, int64_t k, scalar alpha, const element* A, int64_t lda, int64_t stridea, const element* B,      \
      int64_t ldb, int64_t strideb, scalar beta, element* C, int64_t ldc, int64_t stridec, int64_t batch_size)
TESSERA_GEMM_BATCH_STRIDED(s, float, float);
TESSERA_GEMM_BATCH_STRIDED(d, double, double);
TESSERA_GEMM_BATCH_STRIDED(c, const void*, void);
TESSERA_GEMM_BATCH_STRIDED(z, const void*, void);
#undef TESSERA_GEMM_BATCH_STRIDED

/* A call that has returned. Later versions add fields at the end; struct_size tells how many bytes there are. */
typedef struct {
  size_t struct_size;
  const char* what;  /* "dgetrf m=8000 n=8000": in column-major form */
  const char* where; /* "cuda:0", "the CPU BLAS", ... */
  const char* why;   /* the offload decision in words */
  double seconds;    /* from the call of the function until its return */
  double start_s;    /* part of `seconds`: waiting for devices to start */
  double flops;
  int64_t bytes_up, bytes_down;
  int on_devices; /* 0: the CPU has computed it */
  int is_part;    /* not 0: of another call, which is told of as a whole */
} tessera_call;
typedef void (*tessera_call_observer)(const tessera_call* call, void* data);
/* Has `observer` called at the end of each call of this process, through any interface, by the thread that has made the
 * call; NULL: no longer. The texts live until it returns. It must not make calls itself. Calls in flight may still tell
 * an observer that has just been taken away, so its data must stay. For profilers: every small call is told of. */
TESSERA_API tessera_status tessera_observe_calls(tessera_call_observer observer, void* data);

/* Sums over all devices of one job. Times in seconds, traffic in bytes. Later versions add fields at the end. */
typedef struct {
  size_t struct_size; /* the caller sets it to sizeof(tessera_job_stats); on return, the number of bytes filled */
  int devices;        /* 0: the call ran on the CPU BLAS, and the rest is 0 except seconds, start_s and flops */
  double seconds;     /* from the call of the function until its return */
  double flops;
  int64_t tile_m, tile_n, tile_k; /* means, if tiles have two sizes */
  int64_t l1_hits, l2_hits, misses;
  int64_t bytes_up, bytes_down, bytes_peer;
  int64_t compulsory_up, compulsory_down;
  int64_t tasks, stolen;
  double kernel_s, transfer_s, other_s; /* summed over devices */
  double start_s;                       /* part of `seconds`: waiting for devices to start */
  double device_s; /* part of `seconds`: from the hand-over to the devices until all results are in host memory */
} tessera_job_stats;

/* Fills *stats with the statistics of the last completed call on this context.
 *
 * A program may have been compiled with another version of this header than the library. struct_size is the size of the
 * program's structure: no byte behind it is written. The library fills the fields that both versions have, and leaves
 * others unchanged. On return, struct_size is the number of bytes that were filled: a field beyond it was not filled.
 * The smallest valid structure ends with `flops`; a smaller one gives TESSERA_INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_last_job_stats(tessera_context ctx, tessera_job_stats* stats);
/* The same with one entry per device, as one JSON object (see docs/statistics.md). Writes at most `size` bytes
 * including the terminating zero; *needed (may be NULL) receives the size of the whole text. */
TESSERA_API tessera_status tessera_last_job_json(tessera_context ctx, char* text, size_t size, size_t* needed);

/* The calls of this process that are under way, through any interface, as a JSON array; the last one to begin comes first.
 * Each is an object: "what" ("dgetrf m=30000 n=30000", in column-major form), "seconds" since it was entered, "flops",
 * "done", "on_devices", "is_part" and "thread" (that made it, as gettid() tells). "done" is the part of its work that is
 * done, from 0 to 1; null where that is not known. "is_part" means that it is a part of another call of the array. Small
 * calls are left out, and calls that wait for devices to start. `size` and `needed` as above. Any thread may ask: it is
 * for programs that show what they wait for. */
TESSERA_API tessera_status tessera_running_calls(char* text, size_t size, size_t* needed);

/* Large memory that is reused without page faults (docs/memory.md): pieces of 4 MiB and more come from a pool of large
 * pages, smaller ones from malloc. Aligned to 64 bytes at least. NULL where there is none. Any code may use such memory,
 * and a child after fork has it as its own. To be given back by tessera_free and resized by tessera_realloc only; these
 * take any pointer that tessera_malloc has returned, and NULL. All are thread-safe, need no context, and change no errno.
 *
 * Once a call has used a piece on a device, its pages are locked in the background, unless TESSERA_POOL_LOCK=0 is set.
 * Then cudaMemcpyAsync() from it may read it after it has returned, and cudaHostRegister() of it fails. */
TESSERA_API void* tessera_malloc(size_t size);
TESSERA_API void tessera_free(void* memory);
TESSERA_API void* tessera_realloc(void* memory, size_t size);
/* Whether an address lies in the pool: not 0 for pieces of 4 MiB and more that tessera_malloc has returned. */
TESSERA_API int tessera_is_ours(const void* memory);

/* The part of a matrix that tessera_copy_matrix copies. */
typedef enum {
  TESSERA_COPY_FULL = 0,
  TESSERA_COPY_UPPER = TESSERA_UPPER, /* the upper triangle; elements below the diagonal become 0 */
  TESSERA_COPY_LOWER = TESSERA_LOWER
} tessera_copied_part;

/* Copies rows x cols elements between matrices of any strides, by as many processors as are worth it: transposes, and
 * brings arrays of other programs into columns. Element (i, j) lies at address + i * row_stride + j * col_stride, in bytes;
 * strides may be negative, those of `from` 0. element_size is 1, 2, 4, 8 or 16 bytes. conjugate, if not 0: elements are
 * pairs of float (8 bytes) or double (16), and become their conjugates. Elements of `to` and `from` must not overlap.
 * Needs no context. */
TESSERA_API tessera_status tessera_copy_matrix(tessera_copied_part part, int conjugate, int64_t rows, int64_t cols,
                                               size_t element_size, const void* from, int64_t from_row_stride,
                                               int64_t from_col_stride, void* to, int64_t to_row_stride,
                                               int64_t to_col_stride);
/* The same of batch_size matrices, of which each begins from_stride and to_stride bytes behind the one before. */
TESSERA_API tessera_status tessera_copy_matrix_batch_strided(tessera_copied_part part, int conjugate, int64_t rows,
                                                             int64_t cols, size_t element_size, const void* from,
                                                             int64_t from_row_stride, int64_t from_col_stride,
                                                             int64_t from_stride, void* to, int64_t to_row_stride,
                                                             int64_t to_col_stride, int64_t to_stride,
                                                             int64_t batch_size);

/* Describes the context's devices, one line of text each; `size` and `needed` as above. */
TESSERA_API tessera_status tessera_devices(tessera_context ctx, char* text, size_t size, size_t* needed);

#ifdef __cplusplus
}
#endif

#endif
