/* Times the first and the second dgemm of a process, n x n, and checks a column of each result. Linked with libblas.so.3 by this name, so that
   LD_PRELOAD decides whose it is; knows nothing of Tessera. Prints one line of JSON; status 1 if a result is wrong.
   usage: first_call [N], 4096 without it */
#include <float.h>
#include <math.h>

#define PROGRAM "first_call"
#include "program.h"

enum { COLUMN_MAJOR = 102, NO_TRANS = 111 }; /* of CBLAS */

void cblas_dgemm(int order, int op_a, int op_b, int m, int n, int k, double alpha, const double* A, int lda,
                 const double* B, int ldb, double beta, double* C, int ldc);

/* Whether the last column of C is that of A * B; sums of n products of numbers below 1/2. */
static int is_right(size_t n, const double* A, const double* B, const double* C) {
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t l = 0; l < n; ++l) sum += A[i + l * n] * B[l + (n - 1) * n];
    if (!(fabs(C[i + (n - 1) * n] - sum) <= (double)(n + 2) * (double)n * DBL_EPSILON)) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 4096;
  if (argc > 2 || n < 1 || n > 40000) {
    fprintf(stderr, "usage: first_call [N]\n");
    return 2;
  }
  const size_t elements = (size_t)n * (size_t)n;
  double* A = allocate(elements * sizeof *A);
  double* B = allocate(elements * sizeof *B);
  double* C = allocate(elements * sizeof *C);
  for (size_t i = 0; i < elements; ++i) A[i] = random_number();
  for (size_t i = 0; i < elements; ++i) B[i] = random_number();

  double took[2];
  int correct = 1;
  for (int call = 0; call < 2; ++call) {
    for (size_t i = 0; i < elements; ++i) C[i] = NAN; /* its pages are there, as those of A and B */
    const double begin = seconds_now();
    cblas_dgemm(COLUMN_MAJOR, NO_TRANS, NO_TRANS, (int)n, (int)n, (int)n, 1, A, (int)n, B, (int)n, 0, C, (int)n);
    took[call] = seconds_now() - begin;
    correct = correct && is_right((size_t)n, A, B, C);
  }
  printf("{\"n\": %ld, \"first_s\": %.6f, \"second_s\": %.6f, \"correct\": %s}\n", n, took[0], took[1],
         correct ? "true" : "false");
  free(A);
  free(B);
  free(C);
  return correct ? 0 : 1;
}
