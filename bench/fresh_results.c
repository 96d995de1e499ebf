/* Times dgemm of square pageable matrices into memory of three kinds: fresh pages, pages that were written before, and what malloc gives and
   free takes back each time. Linked with libblas.so.3 by this name, so that LD_PRELOAD decides whose it is; knows nothing of Tessera. Prints
   one line of JSON: medians of seconds. Status 1 if a result is wrong.

   usage: fresh_results N [REPEATS] */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PROGRAM "fresh_results"
#include "product.h"

enum { MOST_REPEATS = 100, KINDS = 3 };
static const char* const names[KINDS] = {"fresh_s", "touched_s", "malloc_s"};

static int compare(const void* one, const void* other) {
  const double difference = *(const double*)one - *(const double*)other;
  return (difference > 0) - (difference < 0);
}

/* Seconds of one product. */
static double run(struct product* p, double* touched, int kind, int* right) {
  const size_t bytes = p->n * p->n * sizeof(double);
  const double before = seconds_now();
  if (kind == 0) p->C = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kind == 1) p->C = touched;
  if (kind == 2) p->C = allocate(bytes);
  multiply(p);
  const double seconds = seconds_now() - before;
  *right = is_right(p) && *right;
  if (kind == 0) munmap(p->C, bytes);
  if (kind == 2) free(p->C);
  return seconds;
}

int main(int argc, char** argv) {
  static double seconds[KINDS][MOST_REPEATS];
  const long n = argc > 1 ? atol(argv[1]) : 0;
  const int repeats = argc > 2 ? atoi(argv[2]) : 9;
  if (n < 1 || repeats < 1 || repeats > MOST_REPEATS) {
    fprintf(stderr, "usage: fresh_results N [REPEATS]\n");
    return 2;
  }
  struct product p = make_product((size_t)n);
  double* const touched = p.C;
  int right = 1;
  for (int i = 0; i < 3; ++i) run(&p, touched, 1, &right); /* starts devices */
  for (int i = 0; i < repeats; ++i) {
    for (int kind = 0; kind < KINDS; ++kind) seconds[kind][i] = run(&p, touched, kind, &right);
  }
  printf("{\"n\": %ld", n);
  for (int kind = 0; kind < KINDS; ++kind) {
    qsort(seconds[kind], (size_t)repeats, sizeof(double), compare);
    printf(", \"%s\": %.6f", names[kind], seconds[kind][repeats / 2]);
  }
  printf(", \"correct\": %s}\n", right ? "true" : "false");
  return right ? 0 : 1;
}
