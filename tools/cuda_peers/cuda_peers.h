/* The CUDA part of `tessera bench`: page-locked memory, the rates of the machine, and the vendor's cublasXt as a peer.
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

#define TESSERA_BENCH_ABI 3

typedef struct {
  double flops_per_s;      /* in-core gemm of the type, 4096 x 4096, one GPU; of two kernels the quicker one */
  double up_bytes_per_s;   /* page-locked host -> device, all GPUs at once, summed */
  double down_bytes_per_s; /* device -> host, likewise */
  double both_bytes_per_s; /* both directions at once, bytes of both summed */
} tessera_bench_rates;

/* One Level-3 BLAS call in column-major storage, with the meaning and the enumerators of src/calls/level3.hpp: routine 0 gemm,
 * 1 symm, 2 hemm, 3 syrk, 4 herk, 5 syr2k, 6 her2k, 7 trmm, 8 trsm (there is no gemmt). Type is one of "sdcz". The options:
 * side 0 left, 1 right; uplo 0 upper, 1 lower; op 0 none, 1 transpose, 2 conjugate transpose; diag 0 non-unit, 1 unit.
 * Scalars are real and imaginary part. For trmm B may be C (the BLAS routine); trsm overwrites C and does not use B. */
typedef struct tessera_bench_level3 {
  int routine;
  char type;
  int side, uplo, op_a, op_b, diag;
  int64_t m, n, k;
  double alpha[2], beta[2];
  const void* A;
  int64_t lda;
  const void* B;
  int64_t ldb;
  void* C;
  int64_t ldc;
} tessera_bench_level3;

typedef struct tessera_bench_xt_struct* tessera_bench_xt;
typedef struct tessera_bench_products_struct* tessera_bench_products;

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
  /* Returns when C is complete in host memory. */
  int (*xt_level3)(tessera_bench_xt xt, const tessera_bench_level3* call);
  void (*xt_destroy)(tessera_bench_xt xt);
  /* In-core gemm of the type, 4096 x 4096, on all these GPUs at once, by the kernel that Tessera takes. */
  int (*products_create)(const int* ordinals, int count, char type, tessera_bench_products* products);
  /* As many products as `flops` operations take, divided equally: the seconds that so many take. */
  int (*products_run)(tessera_bench_products products, double flops, double* seconds);
  void (*products_destroy)(tessera_bench_products products);
} tessera_bench_cuda;

/* The only exported symbol. */
const tessera_bench_cuda* tessera_bench_cuda_entry(void);

#ifdef __cplusplus
}
#endif

#endif
