/* How many dgemm calls per second several threads of a process complete together, each with its own pageable n x n matrices, calling without a pause. The
   first `warm` seconds do not count; of calls that lie across an end of the time that counts, the part that lies inside does. The
   longest of all calls is told, those of the warm time among them. Linked with libblas.so.3 by this name, so that LD_PRELOAD decides whose it is; knows
   nothing of Tessera. Prints one line of JSON, a list where there are several sizes; status 1 if a result is wrong.
   usage: concurrent_calls N[,N...] THREADS[,THREADS...] [SECONDS [WARM]], 3 and 1 without them. Of several sizes each has so many threads, and its calls
   are counted apart. */
#include <pthread.h>

#define PROGRAM "concurrent_calls"
#include "product.h"
#include "program.h"

struct caller {
  pthread_t thread;
  struct product product;
  double counts_from, counts_to; /* seconds, as seconds_now() */
  double calls;                  /* inside that time */
  double longest_s;              /* of all calls */
};

static void* call(void* of) {
  struct caller* caller = of;
  for (double begin = seconds_now(); begin < caller->counts_to;) {
    multiply(&caller->product);
    const double end = seconds_now();
    const double inside = fmin(end, caller->counts_to) - fmax(begin, caller->counts_from);
    if (inside > 0) caller->calls += inside / (end - begin);
    caller->longest_s = fmax(caller->longest_s, end - begin);
    begin = end;
  }
  return NULL;
}

enum { most_groups = 4, most_threads = 256 };

/* Numbers of a list, from 1 to `most`; 0 if it has others. */
static int read_list(const char* list, long most, long* numbers) {
  for (int count = 0; count < most_groups;) {
    char* end = NULL;
    numbers[count] = strtol(list, &end, 10);
    if (end == list || numbers[count] < 1 || numbers[count] > most) return 0;
    ++count;
    if (*end == '\0') return count;
    if (*end != ',') return 0;
    list = end + 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  long n[most_groups], threads[most_groups];
  const int groups = argc > 2 ? read_list(argv[1], 40000, n) : 0;
  const double seconds = argc > 3 ? strtod(argv[3], NULL) : 3;
  const double warm = argc > 4 ? strtod(argv[4], NULL) : 1;
  if (argc > 5 || groups == 0 || read_list(argv[2], most_threads, threads) != groups || !(seconds > 0) ||
      !(warm >= 0)) {
    fprintf(stderr, "usage: concurrent_calls N[,N...] THREADS[,THREADS...] [SECONDS [WARM]]\n");
    return 2;
  }
  struct caller* callers = allocate((size_t)(most_groups * most_threads) * sizeof *callers);
  int all = 0;
  for (int g = 0; g < groups; ++g) {
    for (long t = 0; t < threads[g]; ++t) callers[all++].product = make_product((size_t)n[g]);
  }
  const double begin = seconds_now();
  for (int t = 0; t < all; ++t) {
    callers[t].calls = callers[t].longest_s = 0;
    callers[t].counts_from = begin + warm;
    callers[t].counts_to = begin + warm + seconds;
    if (pthread_create(&callers[t].thread, NULL, call, &callers[t]) != 0) {
      fprintf(stderr, PROGRAM ": cannot start a thread\n");
      exit(1);
    }
  }
  for (int t = 0; t < all; ++t) pthread_join(callers[t].thread, NULL);
  int correct = 1;
  for (int t = 0; t < all; ++t) correct = correct && is_right(&callers[t].product);
  const struct caller* caller = callers;
  if (groups > 1) printf("[");
  for (int g = 0; g < groups; ++g) {
    double calls = 0, longest_s = 0;
    for (long t = 0; t < threads[g]; ++t, ++caller) {
      calls += caller->calls;
      longest_s = fmax(longest_s, caller->longest_s);
    }
    printf("%s{\"n\": %ld, \"threads\": %ld, \"calls_per_s\": %.3f, \"longest_s\": %.6f, \"correct\": %s}",
           g > 0 ? ", " : "", n[g], threads[g], calls / seconds, longest_s, correct ? "true" : "false");
  }
  printf(groups > 1 ? "]\n" : "\n");
  return correct ? 0 : 1;
}
