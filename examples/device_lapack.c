/* Many small linear systems on device memory: one call factors all matrices, with interchanges of rows, and solves. One
 * of them is singular, which info reports; the others are not affected.
 *
 * With TESSERA_EXAMPLE_CUDA defined the matrices lie on a GPU (links libtessera_device.so and the CUDA runtime), else
 * in host memory (libtessera_device_host.so). Only allocation and copies differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/device_lapack.h>

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
static void* allocate(size_t bytes) { return malloc(bytes); }
static int copy(void* to, const void* from, size_t bytes) {
  memcpy(to, from, bytes);
  return 1;
}
static void release(void* memory) { free(memory); }
#endif

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "device_lapack: %s\n", what);
  exit(1);
}

static void* device_copy(const void* from, size_t bytes) {
  void* const memory = allocate(bytes);
  expect(memory != NULL && copy(memory, from, bytes), "no memory");
  return memory;
}

enum { count = 1000, n = 8, bad = 123 };
static double A[count][n * n], B[count][n], X[count][n];
static const double* addresses_of_a[count];
static const double* addresses_of_b[count];
static int* addresses_of_ipiv[count];
static int info[count];

int main(void) {
  double worst = 0;
  int wrong = 0;
  unsigned random = 1;
  for (int p = 0; p < count; ++p) {
    for (int i = 0; i < n * n; ++i) {
      random = random * 1664525u + 1013904223u;
      A[p][i] = p == bad ? 1 : (double)(random >> 8) / (1 << 23) - 1; /* equal rows make it singular */
    }
    for (int i = 0; i < n; ++i) B[p][i] = i + 1;
  }

  double* const dev_A = device_copy(A, sizeof A);
  double* const dev_B = device_copy(B, sizeof B);
  int* const dev_ipiv = allocate(sizeof(int) * n * count);
  expect(dev_ipiv != NULL, "no memory");
  for (int p = 0; p < count; ++p) {
    addresses_of_a[p] = dev_A + p * n * n;
    addresses_of_b[p] = dev_B + p * n;
    addresses_of_ipiv[p] = dev_ipiv + p * n;
  }
  double** const dev_addresses_of_a = device_copy(addresses_of_a, sizeof addresses_of_a);
  double** const dev_addresses_of_b = device_copy(addresses_of_b, sizeof addresses_of_b);
  int** const dev_addresses_of_ipiv = device_copy(addresses_of_ipiv, sizeof addresses_of_ipiv);
  int* const dev_info = device_copy(info, sizeof info);

  tessera_device_handle handle = NULL;
  expect(tessera_device_create(&handle) == TESSERA_SUCCESS, tessera_device_last_error());

  /* A[p] X[p] = B[p] with one right-hand side: X replaces B, and the factors replace A. */
  expect(tessera_device_dgesv_batched(handle, n, 1, dev_addresses_of_a, n, dev_addresses_of_ipiv, dev_addresses_of_b, n,
                                      dev_info, count) == TESSERA_SUCCESS,
         tessera_device_last_error());
  expect(copy(info, dev_info, sizeof info) && copy(X, dev_B, sizeof X), "cannot copy");

  for (int p = 0; p < count; ++p) {
    if (info[p] > 0) printf("system %d is singular: pivot %d is zero\n", p, info[p]);
    wrong += (info[p] != 0) != (p == bad);
    if (info[p] != 0) continue;
    for (int i = 0; i < n; ++i) {
      double residual = -B[p][i], scale = 1;
      for (int j = 0; j < n; ++j) {
        residual += A[p][i + j * n] * X[p][j];
        scale += fabs(A[p][i + j * n] * X[p][j]);
      }
      worst = fmax(worst, fabs(residual) / scale);
    }
  }
  printf("%d systems of %d equations: residuals up to %.1e\n", count, n, worst);

  expect(tessera_device_destroy(handle) == TESSERA_SUCCESS, tessera_device_last_error());
  release(dev_info);
  release(dev_addresses_of_ipiv);
  release(dev_addresses_of_b);
  release(dev_addresses_of_a);
  release(dev_ipiv);
  release(dev_B);
  release(dev_A);
  return worst < 1e-13 && wrong == 0 ? 0 : 1;
}
