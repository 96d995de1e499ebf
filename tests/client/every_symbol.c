/* Calls every symbol that the drop-in library exports (OWN_API: every BLAS function of tessera.h), with each value of
 * each enumerator at least once. For each call it prints the name and all elements of the result, for comparison with a
 * run over another BLAS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "level3_calls.h"

/* Three tiles of 8, the last one not full. Printing all elements takes most of the time. */
enum { m = 19, n = 17, k = 21, ld = 24, elements = ld * ld };

static double next_value(void) {
  static unsigned long state = 12345;
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (double)(state >> 40) / (double)(1UL << 24) - 0.5;
}

static int is_single(char letter) { return letter == 's' || letter == 'c'; }
static int parts(char letter) { return letter == 'c' || letter == 'z' ? 2 : 1; }

/* Random, the diagonal about 3, so that solving with either triangle is harmless. */
static void fill(char letter, void* matrix) {
  for (int i = 0; i < elements * parts(letter); ++i) {
    const int element = i / parts(letter);
    const double value = next_value() / 4 + (element % (ld + 1) == 0 ? 3 : 0);
    if (is_single(letter)) {
      ((float*)matrix)[i] = (float)value;
    } else {
      ((double*)matrix)[i] = value;
    }
  }
}

static void print(char letter, const void* matrix) {
  for (int i = 0; i < elements * parts(letter); ++i) {
    printf(" %.9g", is_single(letter) ? (double)((const float*)matrix)[i] : ((const double*)matrix)[i]);
  }
  printf("\n");
}

static struct scalar make_scalar(double real, double imaginary) {
  const struct scalar made = {{(float)real, (float)imaginary}, {real, imaginary}};
  return made;
}

int main(void) {
  static double A[2 * elements], B[2 * elements], C[2 * elements];
  int calls = 0;
#ifdef OWN_API
  if (tessera_create(&own_context) != TESSERA_SUCCESS) return 1;
#endif
  for (int s = 0; s < symbol_count; ++s) {
    const struct symbol symbol = symbols[s];
    const char letter = *symbol.letter;
    const int is_update = symbol.routine[2] == 'r'; /* syrk, herk, syr2k, her2k */
    const int is_triangular = symbol.routine[0] == 't';
    /* Ops that the routine does not have are left out: complex rank updates have but one transpose. */
    const int skipped = is_update && parts(letter) == 2 ? (symbol.routine[0] == 'h' ? 112 : 113) : 0;
    for (int variant = 0; variant < 24; ++variant) {
      struct call call = {.layout = 101 + variant % 2,
                          .side = 141 + variant / 2 % 2,
                          .uplo = 121 + variant / 4 % 2,
                          .transa = 111 + variant % 3,
                          .transb = 111 + variant / 8,
                          .diag = 131 + variant / 3 % 2,
                          .m = m,
                          .n = n,
                          .k = k,
                          .lda = ld,
                          .ldb = ld,
                          .ldc = ld,
                          .alpha = make_scalar(0.75, -0.5),
                          .beta = make_scalar(variant % 5 == 0 ? 0 : 0.5, variant % 5 == 0 ? 0 : 0.25),
                          .A = A,
                          .B = B,
                          .C = C};
      if (call.transa == skipped) continue;
      for (int fortran = 0; fortran < 2; ++fortran) {
        if (fortran && call.layout == 101) continue;
        fill(letter, A);
        fill(letter, B);
        fill(letter, C);
        (fortran ? symbol.fortran : symbol.cblas)(&call);
        printf("%c%s %d %d", letter, symbol.routine, variant, fortran);
        print(letter, is_triangular ? B : C);
        ++calls;
      }
    }
  }
  printf("calls %d\n", calls);
#ifdef OWN_API
  if (own_failures != 0 || tessera_destroy(own_context) != TESSERA_SUCCESS) return 1;
#endif
  return 0;
}
