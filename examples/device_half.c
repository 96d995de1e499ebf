/* Batches of products of half-complex numbers on device memory: C[i] = A[i] * B[i]^H, whose elements are known in
 * advance.
 *
 * With TESSERA_EXAMPLE_CUDA defined the matrices lie on a GPU (links libtessera_device.so and the CUDA runtime), else
 * in host memory (libtessera_device_host.so). Only allocation and copies differ. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/device_half.h>

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

static void expect(tessera_status status) {
  if (status == TESSERA_SUCCESS) return;
  fprintf(stderr, "device_half: %s\n", tessera_device_last_error());
  exit(1);
}

/* As CUDA's __half2. */
struct half_complex {
  uint16_t re, im;
};

static struct half_complex half_complex_of(float re, float im) {
  const struct half_complex value = {tessera_device_float_to_half(re), tessera_device_float_to_half(im)};
  return value;
}

static void* device_copy(const void* from, size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == NULL || !copy(memory, from, bytes)) {
    fprintf(stderr, "device_half: no memory\n");
    exit(1);
  }
  return memory;
}

int main(void) {
  enum { count = 100, m = 5, n = 3, k = 8 };
  static struct half_complex A[count * m * k], B[count * n * k], C[count * m * n];
  const float alpha[2] = {1, 0}, beta[2] = {0, 0};
  int wrong = 0;
  tessera_device_handle handle;

  for (int i = 0; i < count * m * k; ++i) A[i] = half_complex_of((float)(1 + i / (m * k)), 1);
  for (int i = 0; i < count * n * k; ++i) B[i] = half_complex_of(0.5F, 0.25F);
  void* const dev_A = device_copy(A, sizeof A);
  void* const dev_B = device_copy(B, sizeof B);
  void* const dev_C = device_copy(C, sizeof C);
  expect(tessera_device_create(&handle));
  expect(tessera_device_hcgemm_strided_batched(handle, TESSERA_NO_TRANS, TESSERA_CONJ_TRANS, m, n, k, alpha, dev_A, m,
                                               m * k, dev_B, n, n * k, beta, dev_C, m, m * n, count));
  if (!copy(C, dev_C, sizeof C)) return 1;

  /* (p + i) times the conjugate of 1/2 + i/4, k times: every value is exact in half precision. */
  for (int i = 0; i < count * m * n; ++i) {
    const float p = (float)(1 + i / (m * n));
    if (tessera_device_half_to_float(C[i].re) != k * (0.5F * p + 0.25F) ||
        tessera_device_half_to_float(C[i].im) != k * (0.5F - 0.25F * p))
      ++wrong;
  }
  printf("%d products of half-complex numbers, %d elements wrong\n", count, wrong);
  expect(tessera_device_destroy(handle));
  release(dev_A);
  release(dev_B);
  release(dev_C);
  return wrong == 0 ? 0 : 1;
}
