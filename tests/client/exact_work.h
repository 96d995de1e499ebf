/* The work of a thread beside a fork or the end of the process. It is a product or, with FACTORS defined, an LU and a
 * Cholesky factorization by LAPACK's names. Small whole numbers, so that results are exact. */
#ifndef TESSERA_TESTS_CLIENT_EXACT_WORK_H
#define TESSERA_TESTS_CLIENT_EXACT_WORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef FACTORS
void dgetrf_(const int* m, const int* n, double* A, const int* lda, int* ipiv, int* info);
void dpotrf_(const char* uplo, const int* n, double* A, const int* lda, int* info, size_t length);

/* Both of A = L L^T, where L is 1 on and below the diagonal. */
static void fill(int i, int j, double* a, double* b, double* c) { *a = *b = 1 + (i < j ? i : j), *c = 0; }
static void call(int size, double* a, double* b, double* c) {
  (void)b;
  int info = 0;
  dgetrf_(&size, &size, a, &size, (int*)c, &info);
  if (info != 0) _exit(9);
}
static void call_afterwards(int size, double* b) {
  int info = 0;
  dpotrf_("L", &size, b, &size, &info, 1);
  if (info != 0) _exit(9);
}
static int is_right(int size, int i, int j, double a, double b, double c) {
  (void)size, (void)c;
  return a == 1 && (i < j || b == 1);
}
#else
#include <cblas.h>

/* Row i of A is i % 7, column j of B is j % 5. */
static void fill(int i, int j, double* a, double* b, double* c) { *a = i % 7, *b = j % 5, *c = 1; }
static void call(int size, double* a, double* b, double* c) {
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, size, size, size, 2, a, size, b, size, 1, c, size);
}
static void call_afterwards(int size, double* b) { (void)size, (void)b; }
static int is_right(int size, int i, int j, double a, double b, double c) {
  (void)a, (void)b;
  return c == 2.0 * size * (i % 7) * (j % 5) + 1;
}
#endif

/* Increments `begun` before and `ended` after the first call; both may be NULL. Returns the number of wrong
 * elements. */
static int work(int size, atomic_int* begun, atomic_int* ended) {
  const size_t bytes = (size_t)size * (size_t)size * sizeof(double);
  double *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
  if (a == NULL || b == NULL || c == NULL) _exit(8);
  for (int j = 0; j < size; ++j) {
    for (int i = 0; i < size; ++i) {
      const size_t at = (size_t)i + (size_t)j * (size_t)size;
      fill(i, j, a + at, b + at, c + at);
    }
  }
  if (begun != NULL) ++*begun;
  call(size, a, b, c);
  if (ended != NULL) ++*ended;
  call_afterwards(size, b);
  int wrong = 0;
  for (int j = 0; j < size; ++j) {
    for (int i = 0; i < size; ++i) {
      const size_t at = (size_t)i + (size_t)j * (size_t)size;
      wrong += !is_right(size, i, j, a[at], b[at], c[at]);
    }
  }
  free(a);
  free(b);
  free(c);
  return wrong;
}

#endif
