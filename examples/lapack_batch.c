/* Many small linear systems in ordinary host memory: one call factors all matrices, with interchanges of rows, and
 * solves. They have two sizes, so there are two groups. One matrix is singular, which info reports; the others are not
 * affected. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/lapack_batch.h>

enum { systems_of_group = 500, systems = 2 * systems_of_group, largest = 12, singular = 7 };

static const int64_t order[] = {5, largest};

/* Matrix p, whose diagonal dominates, times a vector of ones. */
static void make_system(int p, int64_t n, double* A, double* b) {
  for (int64_t i = 0; i < n; ++i) b[i] = 0;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) {
      A[i + j * n] = p == singular ? 1 : i == j ? 2.0 * (double)n + p % 3 : (double)((i + j + p) % 3) - 1;
      b[i] += A[i + j * n];
    }
  }
}

int main(void) {
  /* Two host devices, so that this runs anywhere; without settings the GPUs are used if there are any and they are
   * sooner. */
  tessera_context context = NULL;
  if (tessera_create_with(&context, "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always") != TESSERA_SUCCESS) {
    fprintf(stderr, "lapack_batch: %s\n", tessera_last_error());
    return 1;
  }
  double* const matrices = malloc(systems * largest * largest * sizeof(double));
  double* const vectors = malloc(systems * largest * sizeof(double));
  int* const pivots = malloc(systems * largest * sizeof(int));
  double *A[systems], *b[systems];
  int *ipiv[systems], info[systems];
  if (matrices == NULL || vectors == NULL || pivots == NULL) return 1;
  for (int p = 0; p < systems; ++p) {
    A[p] = matrices + p * largest * largest;
    b[p] = vectors + p * largest;
    ipiv[p] = pivots + p * largest;
    make_system(p, order[p / systems_of_group], A[p], b[p]);
  }
  const int64_t one[] = {1, 1}, group_size[] = {systems_of_group, systems_of_group};
  if (tessera_dgesv_batch(context, order, one, A, order, ipiv, b, order, info, 2, group_size) != TESSERA_SUCCESS) {
    fprintf(stderr, "lapack_batch: %s\n", tessera_last_error());
    return 1;
  }
  int wrong = 0;
  for (int p = 0; p < systems; ++p) {
    wrong += info[p] != (p == singular ? 2 : 0);
    for (int64_t i = 0; i < order[p / systems_of_group] && p != singular; ++i) wrong += fabs(b[p][i] - 1) > 1e-12;
  }
  tessera_job_stats stats = {.struct_size = sizeof(stats)};
  if (tessera_last_job_stats(context, &stats) != TESSERA_SUCCESS) wrong = 1;
  tessera_destroy(context);
  free(matrices);
  free(vectors);
  free(pivots);
  printf("dgesv_batch: %s, on %d devices\n", wrong == 0 ? "correct" : "WRONG", stats.devices);
  return wrong != 0;
}
