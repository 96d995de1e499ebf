/* C = alpha*A*B + beta*C with random matrices, through <cblas.h> and nothing else: an ordinary BLAS program without any
 * reference to Tessera. `tessera run` makes it use all devices.
 *
 *   cblas_gemm N [FILE]
 *
 * Prints the time. With FILE, writes the data for compare_results: eight doubles and C by columns. The doubles are m,
 * n, k, alpha, beta and the Frobenius norms of A, B and the old C. */
#define _POSIX_C_SOURCE 199309L
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Numbers in (-0.5, 0.5), the same in every run (xorshift64, Marsaglia 2003). Returns the Frobenius norm. */
static double fill(double* matrix, size_t count, uint64_t state) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    matrix[i] = (double)(state >> 11) / 9007199254740992.0 - 0.5;
    sum += matrix[i] * matrix[i];
  }
  return sqrt(sum);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  if (n < 1 || n > 100000 || argc > 3) {
    fprintf(stderr, "use: cblas_gemm N [FILE]\n");
    return 2;
  }
  const size_t count = (size_t)n * (size_t)n;
  double* A = malloc(count * sizeof *A);
  double* B = malloc(count * sizeof *B);
  double* C = malloc(count * sizeof *C);
  if (A == NULL || B == NULL || C == NULL) {
    fprintf(stderr, "cblas_gemm: not enough memory for three %ld x %ld matrices\n", n, n);
    return 1;
  }
  const double alpha = 1.5, beta = -0.5;
  double header[8] = {(double)n, (double)n, (double)n, alpha, beta, 0, 0, 0};
  header[5] = fill(A, count, 1);
  header[6] = fill(B, count, 2);
  header[7] = fill(C, count, 3);

  const double begin = seconds();
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)n, (int)n, alpha, A, (int)n, B, (int)n, beta, C,
              (int)n);
  const double elapsed = seconds() - begin;
  printf("dgemm %ld x %ld x %ld: %.3f s, %.1f GFLOP/s\n", n, n, n, elapsed, 2e-9 * (double)count * (double)n / elapsed);

  int status = 0;
  if (argc == 3) {
    FILE* file = fopen(argv[2], "wb");
    if (file == NULL || fwrite(header, sizeof header, 1, file) != 1 || fwrite(C, sizeof *C, count, file) != count) {
      fprintf(stderr, "cblas_gemm: %s cannot be written\n", argv[2]);
      status = 1;
    }
    if (file != NULL && fclose(file) != 0) status = 1;
  }
  free(A);
  free(B);
  free(C);
  return status;
}
