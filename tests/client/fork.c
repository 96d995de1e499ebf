/* A process that has used the devices forks; the child multiplies too, and so does the parent afterwards. Prints the
 * number of products that the parent made. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { size = 64 };

static int product_is_right(void) {
  static double a[size * size], b[size * size], c[size * size];
  for (int i = 0; i < size * size; ++i) {
    a[i] = i % 7;
    b[i] = i % 5 - 2;
    c[i] = 1;
  }
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, size, size, size, 2, a, size, b, size, 3, c, size);
  for (int j = 0; j < size; ++j) {
    for (int i = 0; i < size; ++i) {
      double sum = 0;
      for (int l = 0; l < size; ++l) sum += a[i + l * size] * b[j + l * size];
      if (c[i + j * size] != 2 * sum + 3) return 0; /* small whole numbers: exact */
    }
  }
  return 1;
}

int main(void) {
  if (!product_is_right()) return 1;
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) exit(product_is_right() ? 0 : 3);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return 4;
  if (!product_is_right()) return 5;
  printf("calls 2\n");
  return 0;
}
