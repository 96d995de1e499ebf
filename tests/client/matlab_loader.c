/* Loads a BLAS as MATLAB does with BLAS_VERSION: dlopen of the library by its path, local scope, and dlsym of plain
 * names whose integers have 64 bits. usage: matlab_loader LIBRARY SYMBOLS, a file with one symbol a line, all of which
 * must be defined. Calls functions of all three levels and compares; prints the number of Level-3 calls. */
#define _GNU_SOURCE
#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { size = 40 };

static void* library;

static void* need(const char* symbol) {
  void* const address = dlsym(library, symbol);
  if (address == NULL) {
    printf("%s is missing\n", symbol);
    exit(1);
  }
  return address;
}

static int good = 1;

static void expect(const char* what, double value, double expected) {
  if (fabs(value - expected) <= 1e-12 * (1 + fabs(expected))) return;
  printf("%s: %.17g instead of %.17g\n", what, value, expected);
  good = 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  FILE* const list = fopen(argv[2], "r");
  if (list == NULL) return 2;
  char symbol[64];
  int symbols = 0;
  while (fscanf(list, "%63s", symbol) == 1) {
    need(symbol);
    ++symbols;
  }
  fclose(list);
  if (dlsym(library, "xerbla_") != NULL) {
    Dl_info from;
    if (dladdr(dlsym(library, "xerbla_"), &from) && strstr(from.dli_fname, "tessera")) {
      printf("xerbla_ is MATLAB's business\n");
      return 1;
    }
  }

  double (*ddot)(const ptrdiff_t*, const double*, const ptrdiff_t*, const double*, const ptrdiff_t*) = need("ddot_");
  double (*dnrm2)(const ptrdiff_t*, const double*, const ptrdiff_t*) = need("dnrm2_");
  float (*sasum)(const ptrdiff_t*, const float*, const ptrdiff_t*) = need("sasum_");
  ptrdiff_t (*idamax)(const ptrdiff_t*, const double*, const ptrdiff_t*) = need("idamax_");
  double complex (*zdotc)(const ptrdiff_t*, const double complex*, const ptrdiff_t*, const double complex*,
                          const ptrdiff_t*) = need("zdotc_");
  float complex (*cdotu)(const ptrdiff_t*, const float complex*, const ptrdiff_t*, const float complex*,
                         const ptrdiff_t*) = need("cdotu_");
  void (*dgemv)(const char*, const ptrdiff_t*, const ptrdiff_t*, const double*, const double*, const ptrdiff_t*,
                const double*, const ptrdiff_t*, const double*, double*, const ptrdiff_t*, size_t) = need("dgemv_");
  void (*dgemm)(const char*, const char*, const ptrdiff_t*, const ptrdiff_t*, const ptrdiff_t*, const double*,
                const double*, const ptrdiff_t*, const double*, const ptrdiff_t*, const double*, double*,
                const ptrdiff_t*, size_t, size_t) = need("dgemm_");
  void (*zherk)(const char*, const char*, const ptrdiff_t*, const ptrdiff_t*, const double*, const double complex*,
                const ptrdiff_t*, const double*, double complex*, const ptrdiff_t*, size_t, size_t) = need("zherk_");
  void (*dtrsm)(const char*, const char*, const char*, const char*, const ptrdiff_t*, const ptrdiff_t*, const double*,
                const double*, const ptrdiff_t*, double*, const ptrdiff_t*, size_t, size_t, size_t, size_t) =
      need("dtrsm_");

  static double A[size * size], B[size * size], C[size * size], X[size * size];
  static double complex Z[size * size], H[size * size];
  double x[3] = {1, -2, 3};
  float s[3] = {1, -2, 3};
  double complex z[2] = {1 + 2 * I, 3 - I};
  float complex c[2] = {1 + 2 * I, 3 - I};
  const ptrdiff_t one = 1, two = 2, three = 3, back = -1, n = size;
  /* A 32-bit BLAS reads 1 here. */
  const ptrdiff_t less_than_none = 1 - ((ptrdiff_t)1 << 32);

  expect("ddot", ddot(&three, x, &one, x, &one), 14);
  expect("ddot backwards", ddot(&three, x, &one, x, &back), 3 + 4 + 3);
  expect("ddot of fewer than none", ddot(&less_than_none, x, &one, x, &one), 0);
  expect("dnrm2", dnrm2(&three, x, &one), sqrt(14));
  expect("sasum", (double)sasum(&three, s, &one), 6);
  expect("idamax", (double)idamax(&three, x, &one), 3);
  expect("real zdotc", creal(zdotc(&two, z, &one, z, &one)), 15);
  expect("imaginary zdotc", cimag(zdotc(&two, z, &one, z, &one)), 0);
  expect("real cdotu", (double)crealf(cdotu(&two, c, &one, c, &one)), -3 + 8);
  expect("imaginary cdotu", (double)cimagf(cdotu(&two, c, &one, c, &one)), 4 - 6);

  for (int i = 0; i < size * size; ++i) {
    A[i] = i % 7 - 3;
    B[i] = i % 5 - 2;
    C[i] = 1;
    Z[i] = A[i] + B[i] * I;
    H[i] = 0;
  }
  const double alpha = 2, beta = 3, real_one = 1, none = 0;
  double y[size];
  memset(y, 0, sizeof(y));
  dgemv("T", &n, &n, &alpha, A, &n, B, &one, &none, y, &one, 1);
  dgemm("N", "T", &n, &n, &n, &alpha, A, &n, B, &n, &beta, C, &n, 1, 1);
  zherk("L", "N", &n, &n, &real_one, Z, &n, &none, H, &n, 1, 1);
  for (int j = 0; j < size; ++j) {
    double product = 0;
    for (int l = 0; l < size; ++l) product += A[l + j * size] * B[l];
    expect("dgemv", y[j], 2 * product);
    for (int i = 0; i < size; ++i) {
      double sum = 0;
      double complex hermitian = 0;
      for (int l = 0; l < size; ++l) {
        sum += A[i + l * size] * B[j + l * size];
        hermitian += Z[i + l * size] * conj(Z[j + l * size]);
      }
      expect("dgemm", C[i + j * size], 2 * sum + 3);
      expect("zherk", creal(H[i + j * size]), i >= j ? creal(hermitian) : 0);
    }
  }
  for (int i = 0; i < size; ++i) A[i + i * size] = 50;
  memcpy(X, B, sizeof(B));
  dtrsm("L", "L", "N", "N", &n, &n, &alpha, A, &n, X, &n, 1, 1, 1, 1);
  for (int j = 0; j < size; ++j) {
    for (int i = 0; i < size; ++i) {
      double sum = 0;
      for (int l = 0; l <= i; ++l) sum += A[i + l * size] * X[l + j * size];
      expect("dtrsm", sum, 2 * B[i + j * size]);
    }
  }
  if (!good) return 1;
  printf("%d symbols\ncalls 3\n", symbols);
  return 0;
}
