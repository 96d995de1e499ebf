/* Linked with libblas.so.3, as R and LAPACK 3.12.1 are. Multiplies by ?gemmtr and ?gemmt as Fortran and C programs call
 * them, and compares with loops. Checks the arguments of the error handlers, which are this program's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef void fortran_gemmt(const char* uplo, const char* transa, const char* transb, const int* n, const int* k,
                           const double* alpha, const double* A, const int* lda, const double* B, const int* ldb,
                           const double* beta, double* C, const int* ldc, size_t, size_t, size_t);
typedef void cblas_gemmt(int layout, int uplo, int transa, int transb, int n, int k, double alpha, const double* A,
                         int lda, const double* B, int ldb, double beta, double* C, int ldc);
extern fortran_gemmt dgemmt_, dgemmtr_;
extern cblas_gemmt cblas_dgemmt, cblas_dgemmtr;

static char told[64];

void xerbla_(const char* name, const int* position, size_t length) {
  snprintf(told, sizeof(told), "xerbla %.*s %d", (int)length, name, *position);
}

void cblas_xerbla(int position, const char* routine, const char* form, ...) {
  snprintf(told, sizeof(told), "cblas_xerbla %s %d", routine, position);
  if (form == NULL) told[0] = '\0';
}

enum { n = 50, k = 37, ld = 53, elements = ld * ld };

static int is_stored(char uplo, int i, int j) { return uplo == 'L' ? i >= j : i <= j; }

/* beta is 0: C begins as NaN, which stays where nothing may be written. Returns the number of wrong elements. */
static int wrong_elements(char uplo, char transa, char transb, const double* A, const double* B, const double* C) {
  int wrong = 0;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < ld; ++i) {
      const double element = C[i + j * ld];
      if (i >= n || !is_stored(uplo, i, j)) {
        wrong += !isnan(element);
        continue;
      }
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += (transa == 'N' ? A[i + l * ld] : A[l + i * ld]) * (transb == 'N' ? B[l + j * ld] : B[j + l * ld]);
      wrong += !(fabs(element - 0.5 * sum) <= 1e-12);
    }
  }
  return wrong;
}

static int products(int* calls) {
  static double A[elements], B[elements], C[elements];
  const double alpha = 0.5, beta = 0;
  const int rows = n, depth = k, leading = ld;
  int wrong = 0;
  for (int i = 0; i < elements; ++i) A[i] = (i * 7 % 23 - 11) / 8.0, B[i] = (i * 5 % 19 - 9) / 8.0;
  for (int variant = 0; variant < 32; ++variant) {
    const char uplo = "UL"[variant % 2], ta = "NT"[variant / 2 % 2], tb = "NT"[variant / 4 % 2];
    const int other_uplo = uplo == 'U' ? 122 : 121, op_a = ta == 'N' ? 111 : 112, op_b = tb == 'N' ? 111 : 112;
    for (int i = 0; i < elements; ++i) C[i] = NAN;
    if (variant < 16) {
      fortran_gemmt* const gemmt = variant < 8 ? dgemmtr_ : dgemmt_;
      gemmt(&uplo, &ta, &tb, &rows, &depth, &alpha, A, &leading, B, &leading, &beta, C, &leading, 1, 1, 1);
    } else { /* the same memory as row-major matrices: C^T = op(B)^T op(A)^T */
      cblas_gemmt* const gemmt = variant < 24 ? cblas_dgemmtr : cblas_dgemmt;
      gemmt(101, other_uplo, op_b, op_a, n, k, alpha, B, ld, A, ld, beta, C, ld);
    }
    ++*calls;
    const int count = wrong_elements(uplo, ta, tb, A, B, C);
    if (count != 0) printf("%c%c%c, variant %d: %d wrong elements\n", uplo, ta, tb, variant, count);
    wrong += count;
  }
  return wrong;
}

struct expectation {
  int layout, uplo, transa, transb, rows, depth, lda, ldb, ldc;
  int fortran; /* position that xerbla_ receives, in the column-major call; 0: none, because a C enumerator is wrong */
  int cblas;   /* position that cblas_xerbla receives for such an enumerator */
};
static const struct expectation expectations[] = {
    {100, 121, 111, 111, 2, 3, 9, 9, 9, 0, 1},  {102, 0, 111, 111, 2, 3, 9, 9, 9, 0, 2},
    {102, 121, 0, 111, 2, 3, 9, 9, 9, 0, 3},    {102, 121, 111, 0, 2, 3, 9, 9, 9, 0, 4},
    {101, 0, 111, 111, 2, 3, 9, 9, 9, 0, 2},    {101, 121, 0, 111, 2, 3, 9, 9, 9, 0, 3},
    {101, 121, 111, 0, 2, 3, 9, 9, 9, 0, 4},    {102, 121, 111, 111, -2, 3, 9, 9, 9, 4, 0},
    {102, 121, 111, 111, 2, -3, 9, 9, 9, 5, 0}, {102, 121, 111, 111, 2, 3, 1, 9, 9, 8, 0},
    {102, 121, 112, 111, 2, 3, 2, 9, 9, 8, 0},  {102, 121, 111, 111, 2, 3, 9, 2, 9, 10, 0},
    {102, 121, 111, 112, 2, 3, 9, 1, 9, 10, 0}, {102, 121, 111, 111, 2, 3, 9, 9, 1, 13, 0},
    {101, 121, 111, 111, 2, 3, 2, 9, 9, 10, 0}, {101, 121, 111, 111, 2, 3, 9, 1, 9, 8, 0},
    {101, 121, 111, 111, 2, 3, 9, 9, 1, 13, 0}, {101, 121, 111, 111, -2, -3, 9, 9, 1, 4, 0}};

static int expect(const char* text, int number) {
  if (strcmp(told, text) == 0) return 0;
  printf("case %d: \"%s\" instead of \"%s\"\n", number, told, text);
  return 1;
}

static int errors(void) {
  static const struct {
    const char *fortran_name, *cblas_name;
    fortran_gemmt* fortran;
    cblas_gemmt* cblas;
  } names[] = {{"DGEMMTR", "cblas_dgemmtr", dgemmtr_, cblas_dgemmtr},
               {"DGEMMT", "cblas_dgemmt", dgemmt_, cblas_dgemmt}};
  static double A[elements], B[elements], C[elements], before[elements];
  int wrong = 0;
  for (int i = 0; i < elements; ++i) C[i] = before[i] = 42;
  for (int name = 0; name < 2; ++name) {
    for (int number = 0; number < (int)(sizeof(expectations) / sizeof(expectations[0])); ++number) {
      const struct expectation e = expectations[number];
      char text[64];
      told[0] = '\0';
      names[name].cblas(e.layout, e.uplo, e.transa, e.transb, e.rows, e.depth, 1, A, e.lda, B, e.ldb, 0, C, e.ldc);
      if (e.fortran == 0) {
        snprintf(text, sizeof(text), "cblas_xerbla %s %d", names[name].cblas_name, e.cblas);
      } else {
        snprintf(text, sizeof(text), "xerbla %s %d", names[name].fortran_name, e.fortran);
      }
      wrong += expect(text, number);
      if (e.layout != 102) continue;
      const char letters[] = {e.uplo == 121 ? 'u' : 'x', "xnt"[e.transa == 0 ? 0 : e.transa - 110],
                              "xnt"[e.transb == 0 ? 0 : e.transb - 110]};
      const double zero = 0, one = 1;
      told[0] = '\0';
      names[name].fortran(&letters[0], &letters[1], &letters[2], &e.rows, &e.depth, &one, A, &e.lda, B, &e.ldb, &zero,
                          C, &e.ldc, 1, 1, 1);
      snprintf(text, sizeof(text), "xerbla %s %d", names[name].fortran_name, e.fortran == 0 ? e.cblas - 1 : e.fortran);
      wrong += expect(text, number);
    }
  }
  if (memcmp(C, before, sizeof(C)) != 0) ++wrong, printf("C was touched\n");
  return wrong;
}

int main(void) {
  int calls = 0;
  const int wrong = products(&calls) + errors();
  printf("calls %d\n", calls);
  return wrong != 0;
}
