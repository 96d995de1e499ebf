/* Multiplies 16 x 16 matrices a given number of times, for counting instructions. usage: small_call CALLS */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

enum { size = 16 };

int main(int argc, char** argv) {
  static double a[size * size], b[size * size], c[size * size];
  for (int i = 0; i < size * size; ++i) a[i] = b[i] = 1;
  const int calls = argc > 1 ? atoi(argv[1]) : 0;
  for (int i = 0; i < calls; ++i) {
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a, size, b, size, 0, c, size);
  }
  if (calls > 0 && c[0] != size) return 1;
  printf("calls %d\n", calls);
  return 0;
}
