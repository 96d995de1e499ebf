/* Tessera's matrices: an iteration whose matrices stay on the devices.
 *
 * The largest eigenvalue of a symmetric matrix by subspace iteration. A meets a thin block of vectors again and again:
 * it crosses the link once, and of the rest only what the program looks at. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/lapack.h>
#include <tessera/matrix.h>

enum { n = 600, block = 4, steps = 40 };

static void check(tessera_status status) {
  if (status == TESSERA_SUCCESS) return;
  fprintf(stderr, "matrices: %s\n", tessera_last_error());
  exit(1);
}

int main(void) {
  /* Two host devices, so that this runs anywhere; the first setting is what matters. */
  tessera_context ctx = NULL;
  check(tessera_create_with(&ctx, "TESSERA_RESIDENT=matrices TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always"));

  /* A is the program's; X and Y have addresses, and live where they are used. */
  double* const a = malloc(sizeof(double) * n * n);
  double* const x = malloc(sizeof(double) * n * block);
  if (a == NULL || x == NULL) return 1;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) a[i + j * n] = 1.0 / (1 + abs(i - j)) + (i == j && i < block ? 1000 >> i : 0);
  }
  for (int e = 0; e < n * block; ++e) x[e] = sin(e + 1.0);
  tessera_matrix A, X, Y;
  check(tessera_matrix_create(ctx, TESSERA_COL_MAJOR, n, n, sizeof(double), a, n, &A));
  check(tessera_matrix_create_on_devices(ctx, TESSERA_COL_MAJOR, n, block, sizeof(double), &X));
  check(tessera_matrix_create_on_devices(ctx, TESSERA_COL_MAJOR, n, block, sizeof(double), &Y));
  check(tessera_matrix_write(X, 0, 0, n, block, x, n));

  double eigenvalue = 0;
  for (int step = 0; step < steps; ++step) {
    double* const y = tessera_matrix_address(Y);
    const int64_t ldx = tessera_matrix_ld(X), ldy = tessera_matrix_ld(Y);
    check(tessera_dgemm(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, block, n, 1,
                        tessera_matrix_address(A), tessera_matrix_ld(A), tessera_matrix_address(X), ldx, 0, y, ldy));
    /* Its columns become orthonormal: Y R^-1, where R^T R = Y^T Y is small and the program's own. */
    double R[block * block];
    int64_t info = 0;
    check(tessera_dgemm(ctx, TESSERA_COL_MAJOR, TESSERA_TRANS, TESSERA_NO_TRANS, block, block, n, 1, y, ldy, y, ldy, 0,
                        R, block));
    check(tessera_dpotrf(ctx, TESSERA_COL_MAJOR, TESSERA_UPPER, block, R, block, &info));
    check(tessera_dtrsm(ctx, TESSERA_COL_MAJOR, TESSERA_RIGHT, TESSERA_UPPER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, n,
                        block, 1, R, block, y, ldy));
    eigenvalue = R[0];
    const tessera_matrix next = Y;
    Y = X;
    X = next;
  }

  /* The first vector, and how well it fits. */
  check(tessera_matrix_read(X, 0, 0, n, 1, x, n));
  double error = 0;
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += a[i + j * n] * x[j];
    error = fmax(error, fabs(sum - eigenvalue * x[i]));
  }
  printf("largest eigenvalue %.6f, error %.1e\n", eigenvalue, error);

  check(tessera_matrix_destroy(Y));
  check(tessera_matrix_destroy(X));
  check(tessera_matrix_destroy(A));
  check(tessera_destroy(ctx));
  free(x);
  free(a);
  return !(error < 1e-6);
}
