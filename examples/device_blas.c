/* Kernels on device memory: solves a triangular system and multiplies the solution back, in place; then a batch of
 * products of different sizes.
 *
 * With TESSERA_EXAMPLE_CUDA defined the matrices lie on a GPU (links libtessera_device.so and the CUDA runtime), else
 * in host memory (libtessera_device_host.so). Only allocation and copies differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/device_blas.h>

#ifdef TESSERA_EXAMPLE_CUDA
#include <cuda_runtime_api.h>
static void* allocate(size_t bytes) {
  void* memory = NULL;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : NULL;
}
static int copy(void* to, const void* from, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault) == cudaSuccess; /* in the default stream: after what is in it */
}
static void release(void* memory) { cudaFree(memory); }
#else
static void* allocate(size_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, 256, bytes) == 0 ? memory
                                                  : NULL; /* the alignment of cudaMalloc, which a workspace needs */
}
static int copy(void* to, const void* from, size_t bytes) {
  memcpy(to, from, bytes);
  return 1;
}
static void release(void* memory) { free(memory); }
#endif

static void expect(tessera_status status) {
  if (status == TESSERA_SUCCESS) return;
  fprintf(stderr, "device_blas: %s\n", tessera_device_last_error());
  exit(1);
}

static void* device_copy(const void* from, size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == NULL || !copy(memory, from, bytes)) {
    fprintf(stderr, "device_blas: no memory\n");
    exit(1);
  }
  return memory;
}

/* C = A * B for four products at once, whose sizes, leading dimensions and matrices are in arrays in device memory. One
 * of them has a leading dimension that is too small. The elements of A and B are ones, so those of C must be k. */
static int multiply_batch(tessera_device_handle handle) {
  enum { count = 4, most = 50, bad = 2 };
  const int m[count] = {3, most, 7, 20}, n[count] = {5, 40, 9, 0}, k[count] = {2, 30, 8, 4};
  const int lda[count] = {3, most, 7, 20}, ldb[count] = {2, 30, 8, 4}, ldc[count] = {3, most, 6 /* < m */, 20};
  static double ones[count * most * most], C[count * most * most];
  int info[count], wrong = 0;
  const double* addresses_of_a[count];
  double* addresses_of_c[count];
  for (int i = 0; i < count * most * most; ++i) ones[i] = 1;

  double* const dev_ones = device_copy(ones, sizeof ones); /* inputs may be shared: all A and B */
  double* const dev_C = device_copy(C, sizeof C);
  for (int p = 0; p < count; ++p) {
    addresses_of_a[p] = dev_ones;
    addresses_of_c[p] = dev_C + p * most * most;
  }
  const double** const dev_A = device_copy(addresses_of_a, sizeof addresses_of_a);
  double** const dev_addresses_of_c = device_copy(addresses_of_c, sizeof addresses_of_c);
  int* const dev_m = device_copy(m, sizeof m);
  int* const dev_n = device_copy(n, sizeof n);
  int* const dev_k = device_copy(k, sizeof k);
  int* const dev_lda = device_copy(lda, sizeof lda);
  int* const dev_ldb = device_copy(ldb, sizeof ldb);
  int* const dev_ldc = device_copy(ldc, sizeof ldc);
  int* const dev_info = device_copy(ldc, sizeof info);

  /* No size is larger than `most`; 0 if no bound is known. */
  expect(tessera_device_dgemm_vbatched(handle, TESSERA_NO_TRANS, TESSERA_NO_TRANS, most, most, most, dev_m, dev_n,
                                       dev_k, 1.0, dev_A, dev_lda, dev_A, dev_ldb, 0.0, dev_addresses_of_c, dev_ldc,
                                       count, dev_info));
  if (!copy(info, dev_info, sizeof info) || !copy(C, dev_C, sizeof C)) return 1;
  for (int p = 0; p < count; ++p) {
    if (info[p] != 0)
      printf("dgemm_vbatched: argument %d of problem %d is wrong, the others are computed\n", -info[p], p);
    wrong += (info[p] != 0) != (p == bad);
    for (int j = 0; j < n[p]; ++j) {
      for (int i = 0; i < m[p]; ++i) wrong += p != bad && C[p * most * most + i + j * ldc[p]] != k[p];
    }
  }
  release(dev_info);
  release(dev_ldc);
  release(dev_ldb);
  release(dev_lda);
  release(dev_k);
  release(dev_n);
  release(dev_m);
  release(dev_addresses_of_c);
  release(dev_A);
  release(dev_C);
  release(dev_ones);
  return wrong;
}

int main(void) {
  enum { m = 300, n = 40, lda = m + 4 };
  static double A[lda * m], B[m * n], X[m * n];
  double worst = 0;
  for (int j = 0; j < m; ++j) {
    for (int i = 0; i < m; ++i) A[i + j * lda] = i == j ? 2 : 1.0 / (1 + abs(i - j) + m);
  }
  for (int i = 0; i < m * n; ++i) B[i] = i % 7 - 3;

  double* const dev_A = device_copy(A, sizeof A);
  double* const dev_B = device_copy(B, sizeof B);

  tessera_device_handle handle = NULL;
  expect(tessera_device_create(&handle));
  expect(tessera_device_set_stream(handle, NULL)); /* or a cudaStream_t; a new handle uses the default stream */

  /* The workspace that the product can use. Without one it works in place, but slower. */
  size_t bytes = 0;
  expect(tessera_device_dtrmm_workspace(handle, TESSERA_LEFT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, m, n,
                                        &bytes));
  void* const workspace = bytes != 0 ? allocate(bytes) : NULL;
  if (workspace != NULL) expect(tessera_device_set_workspace(handle, workspace, bytes));

  /* L X = B, then B = L X: the original B. */
  expect(tessera_device_dtrsm(handle, TESSERA_LEFT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, m, n, 1.0, dev_A,
                              lda, dev_B, m));
  expect(tessera_device_dtrmm(handle, TESSERA_LEFT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, m, n, 1.0, dev_A,
                              lda, dev_B, m));
  if (!copy(X, dev_B, sizeof X)) return 1;
  for (int i = 0; i < m * n; ++i) worst = fmax(worst, fabs(X[i] - B[i]));
  printf("dtrsm and dtrmm of %d x %d: back to within %.1e\n", m, n, worst);

  /* Wrong arguments come back with the position of the first wrong one, and touch nothing: ldb < m is argument 12. */
  if (tessera_device_dtrsm(handle, TESSERA_LEFT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, m, n, 1.0, dev_A,
                           lda, dev_B, m - 1) != TESSERA_INVALID_ARGUMENT) {
    return 1;
  }
  printf("refused: %s (argument %d)\n", tessera_device_last_error(), tessera_device_last_error_position());

  const int wrong = multiply_batch(handle);
  printf("a batch of products of different sizes: %d wrong\n", wrong);

  expect(tessera_device_destroy(handle));
  release(workspace);
  release(dev_B);
  release(dev_A);
  return worst < 1e-12 && wrong == 0 ? 0 : 1;
}
