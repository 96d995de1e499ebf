/* Calls dgetrf_ over leaving_lapack.c, which ends the process with status 7. */
#include <stddef.h>

void dgetrf_(const int* m, const int* n, double* A, const int* lda, int* ipiv, int* info);

int main(void) {
  enum { size = 40 };
  static double a[size * size];
  for (int i = 0; i < size; ++i) a[i * size + i] = 1;
  const int n = size;
  int ipiv[size], info = 1;
  for (;;) dgetrf_(&n, &n, a, &n, ipiv, &info);
}
