/* A large linear system in ordinary host memory, solved by one call: its matrix may be larger than the memory of all
 * devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/lapack.h>

enum { n = 300 };

int main(void) {
  /* Two host devices, so that this runs anywhere; without settings the GPUs are used if there are any and they are
   * sooner. */
  tessera_context context = NULL;
  if (tessera_create_with(&context, "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always") != TESSERA_SUCCESS) {
    fprintf(stderr, "lapack: %s\n", tessera_last_error());
    return 1;
  }
  double* const A = malloc(n * n * sizeof(double));
  double* const b = calloc(n, sizeof(double));
  int64_t* const ipiv = malloc(n * sizeof(int64_t));
  if (A == NULL || b == NULL || ipiv == NULL) return 1;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      A[i + j * n] = sin(1.0 + i * (1.0 + j));
      b[i] += A[i + j * n] * (j + 1);
    }
  }
  int64_t info = -1;
  if (tessera_dgesv(context, TESSERA_COL_MAJOR, n, 1, A, n, ipiv, b, n, &info) != TESSERA_SUCCESS) {
    fprintf(stderr, "lapack: %s\n", tessera_last_error());
    return 1;
  }
  if (info > 0) fprintf(stderr, "the pivot in column %d is zero\n", (int)info);
  double error = info == 0 ? 0 : 1;
  for (int i = 0; i < n; ++i) error = fmax(error, fabs(b[i] - (i + 1)));
  tessera_job_stats stats = {.struct_size = sizeof(stats)};
  if (tessera_last_job_stats(context, &stats) != TESSERA_SUCCESS) error = 1;
  tessera_destroy(context);
  free(A);
  free(b);
  free(ipiv);
  printf("dgesv: error %.1e, on %d devices\n", error, stats.devices);
  return !(error < 1e-6);
}
