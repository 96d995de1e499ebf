/* Eigenvalues of a symmetric matrix, and a line through measured points by least squares, from ordinary host memory:
 * one call each, without workspaces. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/lapack.h>

enum { n = 200, points = 500 };

static int failed(tessera_status status) {
  if (status == TESSERA_SUCCESS) return 0;
  fprintf(stderr, "lapack_problems: %s\n", tessera_last_error());
  return 1;
}

/* The second difference: its eigenvalues are 2 - 2 cos(pi k / (n + 1)), k = 1 .. n. */
static double error_of_eigenvalues(tessera_context context) {
  const double pi = 3.14159265358979323846;
  double* const A = calloc(n * n, sizeof(double));
  double* const w = malloc(n * sizeof(double));
  int64_t info = -1;
  double error = 1;
  if (A != NULL && w != NULL) {
    for (int j = 0; j < n; ++j) {
      A[j + j * n] = 2;
      if (j + 1 < n) A[j + 1 + j * n] = -1; /* the lower triangle is enough */
    }
    if (!failed(tessera_dsyevd(context, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, n, A, n, w, &info)) &&
        info == 0) {
      error = 0;
      for (int k = 0; k < n; ++k) error = fmax(error, fabs(w[k] - (2 - 2 * cos(pi * (k + 1) / (n + 1)))));
    }
  }
  free(A);
  free(w);
  return error;
}

/* b = 3 + 2 t: the fit must return 3 and 2. */
static double error_of_line(tessera_context context) {
  double A[2 * points], b[points];
  for (int i = 0; i < points; ++i) {
    const double t = (double)i / points;
    A[i] = 1;
    A[i + points] = t;
    b[i] = 3 + 2 * t;
  }
  int64_t info = -1;
  if (failed(tessera_dgels(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, points, 2, 1, A, points, b, points, &info)) ||
      info != 0)
    return 1;
  return fmax(fabs(b[0] - 3), fabs(b[1] - 2));
}

int main(void) {
  /* Two host devices, so that this runs anywhere; without settings the GPUs are used if there are any and they are
   * sooner. */
  tessera_context context = NULL;
  if (failed(tessera_create_with(&context, "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always"))) return 1;
  const double of_eigenvalues = error_of_eigenvalues(context), of_line = error_of_line(context);
  tessera_destroy(context);
  printf("dsyevd: error %.1e, dgels: error %.1e\n", of_eigenvalues, of_line);
  return !(of_eigenvalues < 1e-10 && of_line < 1e-10);
}
