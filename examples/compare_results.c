/* Checks whether two runs of cblas_gemm agree within the bound for two correct computations:
 *
 *   ||C1 - C2||_F <= u * (sqrt(k+2) * max(|alpha|,1) * ||A|| * ||B|| + 2 * max(|beta|,1) * ||C||),   u = 2^-53
 *
 * the bound of BLAS testing (norms of Frobenius, C the old one).
 *
 *   compare_results FILE FILE     exit status 0: correct, 1: not, 2: the files cannot be compared */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE* open_result(const char* name, double header[8]) {
  FILE* file = fopen(name, "rb");
  if (file == NULL || fread(header, sizeof(double), 8, file) != 8) {
    fprintf(stderr, "compare_results: %s cannot be read\n", name);
    exit(2);
  }
  return file;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "use: compare_results FILE FILE\n");
    return 2;
  }
  double header[8], other[8];
  FILE* first = open_result(argv[1], header);
  FILE* second = open_result(argv[2], other);
  if (memcmp(header, other, sizeof header) != 0) {
    fprintf(stderr, "compare_results: the files come from different problems\n");
    return 2;
  }
  const double k = header[2], alpha = header[3], beta = header[4];
  const size_t rows = (size_t)header[0], columns = (size_t)header[1];
  double* x = malloc(rows * sizeof *x);
  double* y = malloc(rows * sizeof *y);
  if (x == NULL || y == NULL) return 2;
  double sum = 0;
  for (size_t j = 0; j < columns; j++) {
    if (fread(x, sizeof *x, rows, first) != rows || fread(y, sizeof *y, rows, second) != rows) {
      fprintf(stderr, "compare_results: a file is too short\n");
      return 2;
    }
    for (size_t i = 0; i < rows; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
  }
  const double error = sqrt(sum);
  const double bound = ldexp(1.0, -53) * (sqrt(k + 2) * fmax(fabs(alpha), 1) * header[5] * header[6] +
                                          2 * fmax(fabs(beta), 1) * header[7]);
  const int correct = error <= bound; /* false for NaN */
  printf("%s: ||C - C_ref|| = %.2e, allowed %.2e\n", correct ? "correct" : "WRONG", error, bound);
  free(x);
  free(y);
  fclose(first);
  fclose(second);
  return correct ? 0 : 1;
}
