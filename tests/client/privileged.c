/* To be run with the privileges of its owner (set-user-id): multiplies, and prints its user. usage: privileged SIZE
 * Also checks that the first calls of a computed and of a forwarded symbol leave errno unchanged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

extern void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                   const int*, const double*, const int*, const double*, double*, const int*);
extern double ddot_(const int*, const double*, const int*, const double*, const int*);

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 100, one_step = 1;
  const double one = 1, zero = 0;
  double *a = malloc(sizeof(double) * (size_t)n * (size_t)n), *c = malloc(sizeof(double) * (size_t)n * (size_t)n);
  if (a == NULL || c == NULL) return 2;
  for (int i = 0; i < n * n; ++i) a[i] = 1;
  errno = 4711;
  dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
  for (int i = 0; i < n * n; ++i) {
    if (c[i] != n) return 3;
  }
  if (ddot_(&n, a, &one_step, a, &one_step) != n) return 4;
  if (errno != 4711) return 5;
  printf("user %d, effective %d, secure %d\n", (int)getuid(), (int)geteuid(), getauxval(AT_SECURE) != 0);
  free(a);
  free(c);
  return 0;
}
