/* Tessera's own C API: a context with chosen devices, one product, and its statistics. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

/* Every failure has a status and a text. */
static void expect(tessera_status status) {
  if (status == TESSERA_SUCCESS) return;
  fprintf(stderr, "tessera_api: %s\n", tessera_last_error());
  exit(1);
}

int main(void) {
  /* Two host devices of 16 MiB each, so that this runs anywhere; without TESSERA_DEVICES the GPUs are used if there are
   * any. */
  tessera_context context = NULL;
  expect(
      tessera_create_with(&context, "TESSERA_DEVICES=host:2 TESSERA_HOST_DEVICE=memory=16MiB TESSERA_OFFLOAD=always"));

  const int64_t m = 700, n = 500, k = 300;
  float* A = malloc(sizeof *A * (size_t)(m * k));
  float* B = malloc(sizeof *B * (size_t)(k * n));
  float* C = malloc(sizeof *C * (size_t)(m * n));
  if (A == NULL || B == NULL || C == NULL) return 1;
  /* Row i of A holds i, column j of B holds j: every sum of C(i,j) = k*i*j is exact in float while it is below 2^24. */
  for (int64_t i = 0; i < m * k; i++) A[i] = (float)(i % m % 7);
  for (int64_t i = 0; i < k * n; i++) B[i] = (float)(i / k % 5);
  expect(tessera_sgemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, m, n, k, 1.0f, A, m, B, k, 0.0f,
                       C, m));

  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++) {
      if (C[i + j * m] != (float)(k * (i % 7) * (j % 5))) {
        fprintf(stderr, "tessera_api: C(%lld,%lld) is wrong\n", (long long)i, (long long)j);
        return 1;
      }
    }
  }

  tessera_job_stats stats = {.struct_size = sizeof stats};
  expect(tessera_last_job_stats(context, &stats));
  printf("sgemm %lld x %lld x %lld on %d devices: correct, %lld tiles up and %lld bytes for %lld compulsory ones\n",
         (long long)m, (long long)n, (long long)k, stats.devices, (long long)stats.misses, (long long)stats.bytes_up,
         (long long)stats.compulsory_up);

  /* Wrong arguments come back with the position of the first wrong one: lda < m is argument 10. */
  if (tessera_sgemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, m, n, k, 1.0f, A, m - 1, B, k, 0.0f,
                    C, m) != TESSERA_INVALID_ARGUMENT) {
    return 1;
  }
  printf("refused: %s (argument %d)\n", tessera_last_error(), tessera_last_error_position());

  free(A);
  free(B);
  free(C);
  expect(tessera_destroy(context));
  return 0;
}
