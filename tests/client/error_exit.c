/* Calls gemm with one bad argument after another and prints the arguments of the error handlers beside the expected
 * numbers. Built with OWN_XERBLA and/or OWN_CBLAS_XERBLA, which bring this program's handlers; C must stay untouched.
 * Without cblas.h, because the libraries' headers do not agree on cblas_xerbla. usage: error_exit reference|other */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda,
                 const double* b, int ldb, double beta, double* c, int ldc);
void zgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc, size_t, size_t);

static int from_xerbla, from_cblas; /* positions that the handlers received, 0: not called */
static char told[32];

#ifdef OWN_XERBLA
void xerbla_(const char* name, const int* position, size_t length) {
  from_xerbla = *position == 0 ? -1 : *position;
  snprintf(told, sizeof(told), "%.*s", (int)length, name);
}
#endif
#ifdef OWN_CBLAS_XERBLA
void cblas_xerbla(int position, const char* routine, const char* form, ...) {
  from_cblas = position;
  snprintf(told, sizeof(told), "%s", routine);
  if (form == NULL) from_cblas = -1;
}
#endif

/* Bad argument, position in Fortran order of the column-major call, position that the reference's CBLAS reports for a
 * bad enumerator (0: not one). */
struct expectation {
  int layout, ta, tb, m, n, k, lda, ldb, ldc;
  int fortran, enumerator;
};
static const struct expectation expectations[] = {
    {100, 111, 111, 2, 3, 4, 9, 9, 9, 0, 1},    {102, 0, 111, 2, 3, 4, 9, 9, 9, 1, 2},
    {102, 111, 0, 2, 3, 4, 9, 9, 9, 2, 3},      {102, 111, 111, -1, 3, 4, 9, 9, 9, 3, 0},
    {102, 111, 111, 2, -1, 4, 9, 9, 9, 4, 0},   {102, 111, 111, 2, 3, -1, 9, 9, 9, 5, 0},
    {102, 111, 111, 2, 3, 4, 1, 9, 9, 8, 0},    {102, 111, 111, 2, 3, 4, 9, 3, 9, 10, 0},
    {102, 111, 111, 2, 3, 4, 9, 9, 1, 13, 0},   {102, 112, 111, 2, 3, 4, 3, 9, 9, 8, 0},
    {102, 111, 112, 2, 3, 4, 9, 2, 9, 10, 0},   {102, 113, 113, 2, 3, 4, 4, 3, 1, 13, 0},
    {101, 0, 111, 2, 3, 4, 9, 9, 9, 2, 2},      {101, 111, 0, 2, 3, 4, 9, 9, 9, 1, 2},
    {101, 111, 111, -1, 3, 4, 9, 9, 9, 4, 0},   {101, 111, 111, 2, -1, 4, 9, 9, 9, 3, 0},
    {101, 111, 111, 2, 3, -1, 9, 9, 9, 5, 0},   {101, 111, 111, 2, 3, 4, 3, 9, 9, 10, 0},
    {101, 111, 111, 2, 3, 4, 9, 2, 9, 8, 0},    {101, 111, 111, 2, 3, 4, 9, 9, 2, 13, 0},
    {101, 0, 0, -1, -1, -1, 0, 0, 0, 2, 2},     {102, 111, 111, -1, -1, -1, 0, 0, 0, 3, 0},
    {101, 111, 111, -1, -1, -1, 0, 0, 0, 3, 0}, {102, 111, 111, 2, 3, 4, 1, 1, 1, 8, 0},
    {101, 111, 111, 2, 3, 4, 1, 1, 1, 8, 0}};

int main(int argc, char** argv) {
  const int reference = argc > 1 && strcmp(argv[1], "reference") == 0;
  int own_xerbla = 0, own_cblas = 0, wrong = 0;
#ifdef OWN_XERBLA
  own_xerbla = 1;
#endif
#ifdef OWN_CBLAS_XERBLA
  own_cblas = 1;
#endif
  double a[64] = {0}, b[64] = {0}, c[64], poison[64];
  for (int i = 0; i < 64; ++i) c[i] = poison[i] = 42;

  for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); ++i) {
    const struct expectation e = expectations[i];
    /* The reference's default cblas_xerbla ends the program. */
    if (reference && e.enumerator != 0 && !own_cblas) continue;
    from_xerbla = from_cblas = 0;
    cblas_dgemm(e.layout, e.ta, e.tb, e.m, e.n, e.k, 1, a, e.lda, b, e.ldb, 0, c, e.ldc);
    int expect_xerbla = 0, expect_cblas = 0;
    if (e.enumerator != 0 && own_cblas) {
      expect_cblas = e.enumerator;
    } else if (own_xerbla) {
      expect_xerbla = e.fortran == 0 ? -1 : e.fortran;
    } else if (own_cblas) {
      expect_cblas = e.fortran + 1;
    }
    const char* name = expect_cblas != 0 ? "cblas_dgemm" : "DGEMM ";
    if (from_xerbla != expect_xerbla || from_cblas != expect_cblas ||
        ((own_xerbla || own_cblas) && strncmp(told, name, strlen(name)) != 0)) {
      printf("case %d: xerbla_ was told %d (expected %d), cblas_xerbla %d (expected %d), routine \"%s\"\n", (int)i,
             from_xerbla, expect_xerbla, from_cblas, expect_cblas, told);
      ++wrong;
    }
  }

  /* Fortran interface: the position itself, and the name in capitals, blank padded. */
  const double one[2] = {1, 0};
  const int two = 2, minus = -2;
  from_xerbla = from_cblas = 0;
  if (own_xerbla) {
    zgemm_("N", "X", &two, &two, &two, one, a, &two, b, &two, one, c, &two, 1, 1);
    if (from_xerbla != 2 || strcmp(told, "ZGEMM ") != 0) ++wrong, printf("zgemm_: %d \"%s\"\n", from_xerbla, told);
    zgemm_("n", "c", &two, &minus, &two, one, a, &two, b, &two, one, c, &two, 1, 1);
    if (from_xerbla != 4) ++wrong, printf("zgemm_: %d, not 4\n", from_xerbla);
  }
  if (memcmp(c, poison, sizeof(c)) != 0) ++wrong, printf("C was touched\n");
  return wrong != 0;
}
