/* Calls every CBLAS symbol, in both layouts, and every Fortran symbol with one or two bad arguments. Prints the
 * arguments of the error handlers, which are this program's, for comparison with a run over another BLAS. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "level3_calls.h"

void xerbla_(const char* name, const int* position, size_t length) {
  printf(" xerbla %.*s %d", (int)length, name, *position);
}

void cblas_xerbla(int position, const char* routine, const char* form, ...) {
  printf(" cblas_xerbla %s %d ", routine, position);
  va_list arguments;
  va_start(arguments, form);
  vprintf(form, arguments);
  va_end(arguments);
}

enum { spoilt_count = 12 };

static void spoil(struct call* call, int which) {
  int* const arguments[spoilt_count] = {&call->layout, &call->side, &call->uplo, &call->transa,
                                        &call->transb, &call->diag, &call->m,    &call->n,
                                        &call->k,      &call->lda,  &call->ldb,  &call->ldc};
  *arguments[which] = which < 6 ? 7 : which < 9 ? -1 : 1;
}

int main(void) {
  static double A[256], B[256], C[256], before[256];
  for (int i = 0; i < 256; ++i) A[i] = B[i] = C[i] = before[i] = 1;
  for (int s = 0; s < symbol_count; ++s) {
    if (strcmp(symbols[s].routine, "gemmt") == 0) continue; /* not every BLAS has it: gemmtr.c */
    /* Several sets of enumerators, since the required sizes depend on them. */
    for (int variant = 0; variant < 6; ++variant) {
      for (int layout = 101; layout <= 102; ++layout) {
        for (int first = 0; first < spoilt_count; ++first) {
          for (int second = first; second < spoilt_count; ++second) {
            struct call call = {.layout = layout,
                                .side = 141 + variant % 2,
                                .uplo = 121 + variant / 2 % 2,
                                .transa = 111 + variant % 3,
                                .transb = 113 - variant % 3,
                                .diag = 131,
                                .m = 2,
                                .n = 3,
                                .k = 4,
                                .lda = 4,
                                .ldb = 4,
                                .ldc = 4,
                                .A = A,
                                .B = B,
                                .C = C}; /* alpha and beta are 0: calls without an error set C to 0 */
            /* After this error the reference continues with an unset letter, and reports twice. */
            if ((first == 5 || second == 5) && layout == 102 && symbols[s].cblas == cblas_call_ctrmm) continue;
            spoil(&call, first);
            if (second != first) spoil(&call, second);
            printf("cblas_%s%s %d %d %d %d:", symbols[s].letter, symbols[s].routine, layout, variant, first, second);
            symbols[s].cblas(&call);
            printf(" %s\n", memcmp(C, before, sizeof(C)) == 0 && memcmp(B, before, sizeof(B)) == 0 ? "" : "written");
            memcpy(B, before, sizeof(B));
            memcpy(C, before, sizeof(C));
            if (layout == 101 || first == 0) continue;
            printf("%s%s_ %d %d %d:", symbols[s].letter, symbols[s].routine, variant, first, second);
            symbols[s].fortran(&call);
            printf(" %s\n", memcmp(C, before, sizeof(C)) == 0 && memcmp(B, before, sizeof(B)) == 0 ? "" : "written");
            memcpy(B, before, sizeof(B));
            memcpy(C, before, sizeof(C));
          }
        }
      }
    }
  }
  return 0;
}
