/* A program over <cblas.h> alone: multiplies in all four types, both layouts and all transposes, and compares with a
 * naive product. Prints the number of products and all errors; exits with 1 if there was one.
 * usage: product [size [forbidden]]   `forbidden`: part of a file name that must not be mapped into this process at the end */
#include <cblas.h>
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls = 0;
static int wrong = 0;

static double next_value(void) {
  static unsigned long state = 12345;
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (double)(state >> 40) / (double)(1UL << 24) - 0.5;
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) exit(2);
  return memory;
}

/* Elements of any type as double complex. */
static double complex get(char type, const void* array, long i) {
  switch (type) {
    case 's':
      return (double)((const float*)array)[i];
    case 'd':
      return ((const double*)array)[i];
    case 'c':
      return (double complex)((const float complex*)array)[i];
    default:
      return ((const double complex*)array)[i];
  }
}

static void put(char type, void* array, long i, double complex value) {
  switch (type) {
    case 's':
      ((float*)array)[i] = (float)creal(value);
      break;
    case 'd':
      ((double*)array)[i] = creal(value);
      break;
    case 'c':
      ((float complex*)array)[i] = (float complex)value;
      break;
    default:
      ((double complex*)array)[i] = value;
      break;
  }
}

static void* random_matrix(char type, long elements) {
  void* matrix = allocate((size_t)elements * 16);
  for (long i = 0; i < elements; ++i) {
    const double real = next_value();
    put(type, matrix, i, real + next_value() * I);
  }
  return matrix;
}

static double complex element(char type, const void* matrix, int row_major, CBLAS_TRANSPOSE op, int ld, int i, int j) {
  const int row = op == CblasNoTrans ? i : j, col = op == CblasNoTrans ? j : i;
  const long at = row_major ? (long)row * ld + col : row + (long)col * ld;
  const double complex value = get(type, matrix, at);
  return op == CblasConjTrans ? conj(value) : value;
}

static void multiply(char type, int row_major, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k,
                     double complex alpha, double complex beta) {
  const int a_rows = ta == CblasNoTrans ? m : k, a_cols = ta == CblasNoTrans ? k : m;
  const int b_rows = tb == CblasNoTrans ? k : n, b_cols = tb == CblasNoTrans ? n : k;
  const int lda = (row_major ? a_cols : a_rows) + 1, ldb = (row_major ? b_cols : b_rows) + 2;
  const int ldc = (row_major ? n : m) + 3;
  const long c_elements = (long)ldc * (row_major ? m : n);
  void* A = random_matrix(type, (long)lda * (row_major ? a_rows : a_cols));
  void* B = random_matrix(type, (long)ldb * (row_major ? b_rows : b_cols));
  void* C = random_matrix(type, c_elements);
  void* old = allocate((size_t)c_elements * 16);
  memcpy(old, C, (size_t)c_elements * 16);
  if (type == 's' || type == 'd') {
    alpha = creal(alpha);
    beta = creal(beta);
  }
  const float complex alpha_c = (float complex)alpha, beta_c = (float complex)beta;
  const CBLAS_ORDER layout = row_major ? CblasRowMajor : CblasColMajor;
  ++calls;
  switch (type) {
    case 's':
      cblas_sgemm(layout, ta, tb, m, n, k, (float)creal(alpha), A, lda, B, ldb, (float)creal(beta), C, ldc);
      break;
    case 'd':
      cblas_dgemm(layout, ta, tb, m, n, k, creal(alpha), A, lda, B, ldb, creal(beta), C, ldc);
      break;
    case 'c':
      cblas_cgemm(layout, ta, tb, m, n, k, &alpha_c, A, lda, B, ldb, &beta_c, C, ldc);
      break;
    default:
      cblas_zgemm(layout, ta, tb, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
      break;
  }

  const double unit = type == 's' || type == 'c' ? 6e-8 : 1.2e-16;
  const double bound = unit * (k + 4) * 8;
  double worst = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double complex sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += element(type, A, row_major, ta, lda, i, l) * element(type, B, row_major, tb, ldb, l, j);
      }
      const double complex expected = alpha * sum + beta * element(type, old, row_major, CblasNoTrans, ldc, i, j);
      const double difference = cabs(element(type, C, row_major, CblasNoTrans, ldc, i, j) - expected);
      if (!(difference <= worst)) worst = difference;
      put(type, C, row_major ? (long)i * ldc + j : i + (long)j * ldc, 0);
      put(type, old, row_major ? (long)i * ldc + j : i + (long)j * ldc, 0);
    }
  }
  /* The rest is padding, and must be unchanged. */
  const size_t size = (size_t)c_elements * (type == 's' ? 4 : type == 'z' ? 16 : 8);
  const int padding_touched = memcmp(C, old, size) != 0;
  if (!(worst <= bound) || padding_touched) {
    printf("%cgemm row_major=%d ops=%d,%d m=%d n=%d k=%d: difference %g, bound %g, padding %s\n", type, row_major,
           (int)ta, (int)tb, m, n, k, worst, bound, padding_touched ? "touched" : "intact");
    ++wrong;
  }
  free(A);
  free(B);
  free(C);
  free(old);
}

int main(int argc, char** argv) {
  const int size = argc > 1 ? atoi(argv[1]) : 50;
  const CBLAS_TRANSPOSE ops[] = {CblasNoTrans, CblasTrans, CblasConjTrans};
  for (const char* type = "sdcz"; *type != '\0'; ++type) {
    for (int row_major = 0; row_major < 2; ++row_major) {
      for (int a = 0; a < 3; ++a) {
        for (int b = 0; b < 3; ++b)
          multiply(*type, row_major, ops[a], ops[b], size, size - 7, size + 5, 1.5 - 0.5 * I, 0.5 + 0.25 * I);
      }
    }
  }
  printf("calls %d\n", calls);
  if (argc > 2) {
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
      if (strstr(line, argv[2]) != NULL) {
        printf("mapped: %s", line);
        ++wrong;
        break;
      }
    }
    if (maps != NULL) fclose(maps);
  }
  return wrong != 0;
}
