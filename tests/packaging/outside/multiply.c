/* An outside program: uses only the installed header and library. Multiplies integer-valued matrices, so that the
 * result is exact and has a formula: A(i,l) = i + 1 and B(l,j) = j + 1 give C(i,j) = 2 * k * (i+1) * (j+1) + 3 * C0
 * with alpha 2, beta 3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

enum { m = 50, n = 37, k = 41, lda = 53, ldb = 44, ldc = 60 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tessera_last_error());
  return 1;
}

int main(void) {
  static double A[lda * k], B[ldb * n], C[ldc * n];
  tessera_context ctx = NULL;
  tessera_job_stats stats;
  int wrong = 0;
  int i, j, l;

  for (l = 0; l < k; ++l)
    for (i = 0; i < lda; ++i) A[i + l * lda] = i < m ? i + 1 : 1e300;
  for (j = 0; j < n; ++j)
    for (l = 0; l < ldb; ++l) B[l + j * ldb] = l < k ? j + 1 : 1e300;
  for (j = 0; j < n; ++j)
    for (i = 0; i < ldc; ++i) C[i + j * ldc] = i < m ? i - j : -7;

  if (tessera_create(&ctx) != TESSERA_SUCCESS) return fail("tessera_create");
  if (tessera_dgemm(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, m, n, k, 2.0, A, lda, B, ldb, 3.0, C,
                    ldc) != TESSERA_SUCCESS)
    return fail("tessera_dgemm");

  for (j = 0; j < n; ++j)
    for (i = 0; i < ldc; ++i) {
      const double expected = i < m ? 2.0 * k * (i + 1) * (j + 1) + 3.0 * (i - j) : -7;
      if (C[i + j * ldc] != expected) ++wrong;
    }

  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  if (tessera_last_job_stats(ctx, &stats) != TESSERA_SUCCESS) return fail("tessera_last_job_stats");

  if (tessera_dgemm(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, m, n, k, 1.0, A, m - 1, B, ldb, 0.0, C,
                    ldc) != TESSERA_INVALID_ARGUMENT ||
      tessera_last_error()[0] == '\0')
    return fail("a leading dimension that is too short was not refused");

  if (tessera_destroy(ctx) != TESSERA_SUCCESS) return fail("tessera_destroy");
  printf("tessera %s: %d wrong elements, on %d devices, %ld tasks\n", tessera_version(), wrong, stats.devices,
         (long)stats.tasks);
  /* 50 x 37 in tiles of 16 are 4 x 3 tasks. */
  return wrong == 0 && stats.devices == 2 && stats.tasks == 12 ? EXIT_SUCCESS : EXIT_FAILURE;
}
