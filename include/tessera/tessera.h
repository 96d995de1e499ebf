/* Tessera: Level-3 BLAS on all devices of the machine, for matrices in host memory.
 *
 * C99. All functions are thread-safe unless they say otherwise; calls on one context run one after the other in order of
 * arrival. Matrices belong to the caller and stay in host memory; nothing of them is remembered after a call returns.
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

typedef enum {
  TESSERA_SUCCESS = 0,
  TESSERA_INVALID_ARGUMENT = 1,
  TESSERA_OUT_OF_DEVICE_MEMORY = 2, /* C is untouched */
  TESSERA_DEVICE_LOST = 3,          /* C may be partly written: a device failed while it wrote a tile back */
  TESSERA_NOT_AVAILABLE = 4,        /* devices asked for by name, or a CPU BLAS, are not there */
  TESSERA_INTERNAL_ERROR = 5
} tessera_status;

typedef struct tessera_context_struct* tessera_context;

/* Makes a context from the environment (TESSERA_*), on top of which `settings`, NAME=value pairs separated by white space
 * with the same names, wins; NULL: none. Devices are opened by the first call that uses them, or here if they are named
 * (TESSERA_DEVICES other than auto), so that an error shows early. */
TESSERA_API tessera_status tessera_create(tessera_context* ctx);
TESSERA_API tessera_status tessera_create_with(tessera_context* ctx, const char* settings);
/* Waits for calls in flight. NULL is allowed. */
TESSERA_API tessera_status tessera_destroy(tessera_context ctx);

/* What went wrong in the last failed call of this thread; "" if none did. Valid until this thread's next call. */
TESSERA_API const char* tessera_last_error(void);
/* Position (from 1, context and layout counted) of the argument that TESSERA_INVALID_ARGUMENT is about; 0 if unknown. */
TESSERA_API int tessera_last_error_position(void);
TESSERA_API const char* tessera_version(void);

/* C = alpha * op(A) * op(B) + beta * C, op(A) m x k, op(B) k x n, C m x n; leading dimensions in elements.
 * Reference semantics: beta == 0 does not read C, alpha == 0 or k == 0 does not read A and B. */
TESSERA_API tessera_status tessera_sgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, float alpha,
                                         const float* A, int64_t lda, const float* B, int64_t ldb, float beta, float* C,
                                         int64_t ldc);
TESSERA_API tessera_status tessera_dgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, double alpha,
                                         const double* A, int64_t lda, const double* B, int64_t ldb, double beta,
                                         double* C, int64_t ldc);
/* Complex: alpha, beta, A, B, C point to pairs (real, imaginary) of float / double, as in CBLAS. */
TESSERA_API tessera_status tessera_cgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                                         const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta,
                                         void* C, int64_t ldc);
TESSERA_API tessera_status tessera_zgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                                         tessera_transpose transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                                         const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta,
                                         void* C, int64_t ldc);

/* Sums over all devices of one job. Times in seconds, traffic in bytes. */
typedef struct {
  size_t struct_size; /* set by the caller to sizeof(tessera_job_stats) */
  int devices;        /* 0: the call ran on the CPU BLAS, and the rest is 0 but for seconds and flops */
  double seconds;
  double flops;
  int64_t tile_m, tile_n, tile_k;
  int64_t l1_hits, l2_hits, misses;
  int64_t bytes_up, bytes_down, bytes_peer;
  int64_t compulsory_up, compulsory_down;
  int64_t tasks, stolen;
  double kernel_s, transfer_s, other_s; /* summed over devices */
} tessera_job_stats;

/* Of the last completed call on this context. */
TESSERA_API tessera_status tessera_last_job_stats(tessera_context ctx, tessera_job_stats* stats);
/* The same with one entry per device, as one JSON object (see docs/statistics.md). Writes at most `size` bytes including the
 * terminating zero; *needed (may be NULL) receives the size that holds it all. */
TESSERA_API tessera_status tessera_last_job_json(tessera_context ctx, char* text, size_t size, size_t* needed);

/* What the context computes on, one line of text per device; as above. */
TESSERA_API tessera_status tessera_devices(tessera_context ctx, char* text, size_t size, size_t* needed);

#ifdef __cplusplus
}
#endif

#endif
