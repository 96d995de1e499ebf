/* What `tessera bench` needs of CUDA: page-locked memory, the rates of the machine, and the vendor's cublasXt as a peer.
 *
 * The functions live in a module of their own, libtessera_bench_cuda.so, which the command opens when it finds a use for it;
 * the command itself is not linked with CUDA. C ABI, because the module is found by name. Functions return 0, or -1 with a
 * text in tessera_bench_last_error(). Not thread-safe: the bench calls them from one thread. */
#ifndef TESSERA_BENCH_CUDA_PEERS_H
#define TESSERA_BENCH_CUDA_PEERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_BENCH_ABI 1

typedef struct {
  double flops_per_s;      /* in-core gemm of the type, 4096 x 4096, one GPU */
  double up_bytes_per_s;   /* page-locked host -> device, all GPUs at once, summed */
  double down_bytes_per_s; /* device -> host, likewise */
  double both_bytes_per_s; /* both directions at once, bytes of both summed */
} tessera_bench_rates;

/* One product in column-major storage. type: one of "sdcz"; transposes: one of "NTC"; scalars of the type, on the host. */
typedef struct {
  char type, transa, transb;
  int64_t m, n, k;
  const void* alpha;
  const void* A;
  int64_t lda;
  const void* B;
  int64_t ldb;
  const void* beta;
  void* C;
  int64_t ldc;
} tessera_bench_gemm_call;

typedef struct tessera_bench_xt_struct* tessera_bench_xt;

typedef struct {
  int abi;
  const char* (*last_error)(void);
  /* Number of GPUs; -1 if there is no driver. */
  int (*device_count)(void);
  int (*cublas_version)(void);
  /* Page-locked memory that all GPUs can use; NULL on failure. */
  void* (*pinned_alloc)(size_t bytes);
  void (*pinned_free)(void* address);
  int (*measure_rates)(const int* ordinals, int count, char type, tessera_bench_rates* rates);
  /* A cublasXt on these GPUs. `pin`: let it page-lock pageable operands itself. */
  int (*xt_create)(const int* ordinals, int count, int block_size, int pin, tessera_bench_xt* xt);
  int (*xt_gemm)(tessera_bench_xt xt, const tessera_bench_gemm_call* call);
  void (*xt_destroy)(tessera_bench_xt xt);
} tessera_bench_cuda;

/* The only exported symbol. */
const tessera_bench_cuda* tessera_bench_cuda_entry(void);

#ifdef __cplusplus
}
#endif

#endif
