/* A dgemm of square pageable matrices, and the check of its result. */
#ifndef TESSERA_BENCH_PRODUCT_H
#define TESSERA_BENCH_PRODUCT_H

#include <float.h>
#include <math.h>
#include <stddef.h>

#include "program.h"

void cblas_dgemm(int order, int op_a, int op_b, int m, int n, int k, double alpha, const double* A, int lda,
                 const double* B, int ldb, double beta, double* C, int ldc);

struct product {
  size_t n;
  double* A;
  double* B;
  double* C;
};

/* Random factors, and a result that is not a number yet. All pages are there. */
static struct product make_product(size_t n) {
  const size_t elements = n * n;
  const struct product product = {n, allocate(elements * sizeof(double)), allocate(elements * sizeof(double)),
                                  allocate(elements * sizeof(double))};
  for (size_t i = 0; i < elements; ++i) product.A[i] = random_number();
  for (size_t i = 0; i < elements; ++i) product.B[i] = random_number();
  for (size_t i = 0; i < elements; ++i) product.C[i] = NAN;
  return product;
}

static void multiply(const struct product* p) {
  enum { COLUMN_MAJOR = 102, NO_TRANS = 111 }; /* of CBLAS */
  const int n = (int)p->n;
  cblas_dgemm(COLUMN_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1, p->A, n, p->B, n, 0, p->C, n);
}

/* Whether the last column of C is that of A * B; sums of n products of numbers below 1/2. */
static int is_right(const struct product* p) {
  const size_t n = p->n;
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t l = 0; l < n; ++l) sum += p->A[i + l * n] * p->B[l + (n - 1) * n];
    if (!(fabs(p->C[i + (n - 1) * n] - sum) <= (double)(n + 2) * (double)n * DBL_EPSILON)) return 0;
  }
  return 1;
}

#endif
