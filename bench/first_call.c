/* Times the first dgemm calls of a process, n x n, one right after the other, and checks a column of the last result. Linked with libblas.so.3 by this name,
   so that LD_PRELOAD decides whose it is; knows nothing of Tessera. Prints one line of JSON; status 1 if the result is wrong.
   usage: first_call [N [COUNT]], 4096 and 2 without them */

#define PROGRAM "first_call"
#include "product.h"
#include "program.h"

int main(int argc, char** argv) {
  const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 4096;
  const long count = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
  if (argc > 3 || n < 1 || n > 40000 || count < 1 || count > 100000) {
    fprintf(stderr, "usage: first_call [N [COUNT]]\n");
    return 2;
  }
  const struct product product = make_product((size_t)n);
  double* took = allocate((size_t)count * sizeof *took);
  double begin = seconds_now();
  const double first = begin;
  for (long call = 0; call < count; ++call) {
    multiply(&product);
    const double end = seconds_now();
    took[call] = end - begin;
    begin = end;
  }
  const int correct = is_right(&product);
  printf("{\"n\": %ld, \"calls\": %ld, \"total_s\": %.6f, \"first_s\": %.6f, \"last_s\": %.6f, \"seconds\": [", n,
         count, begin - first, took[0], took[count - 1]);
  for (long call = 0; call < count; ++call) printf("%s%.6f", call > 0 ? ", " : "", took[call]);
  printf("], \"correct\": %s}\n", correct ? "true" : "false");
  return correct ? 0 : 1;
}
