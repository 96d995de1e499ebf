/* How many dgemm calls per second several threads of a process complete together, each with its own pageable n x n matrices, calling without a pause. The
   first `warm` seconds do not count; of calls that lie across an end of the time that counts, the part that lies inside does. Linked with libblas.so.3 by
   this name, so that LD_PRELOAD decides whose it is; knows nothing of Tessera. Prints one line of JSON; status 1 if a result is wrong.
   usage: concurrent_calls N THREADS [SECONDS [WARM]], 3 and 1 without them */
#include <pthread.h>

#define PROGRAM "concurrent_calls"
#include "product.h"
#include "program.h"

struct caller {
  pthread_t thread;
  struct product product;
  double counts_from, counts_to; /* seconds, as seconds_now() */
  double calls;                  /* inside that time */
};

static void* call(void* of) {
  struct caller* caller = of;
  for (double begin = seconds_now(); begin < caller->counts_to;) {
    multiply(&caller->product);
    const double end = seconds_now();
    const double inside = fmin(end, caller->counts_to) - fmax(begin, caller->counts_from);
    if (inside > 0) caller->calls += inside / (end - begin);
    begin = end;
  }
  return NULL;
}

int main(int argc, char** argv) {
  const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  const long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
  const double seconds = argc > 3 ? strtod(argv[3], NULL) : 3;
  const double warm = argc > 4 ? strtod(argv[4], NULL) : 1;
  if (argc > 5 || n < 1 || n > 40000 || threads < 1 || threads > 256 || !(seconds > 0) || !(warm >= 0)) {
    fprintf(stderr, "usage: concurrent_calls N THREADS [SECONDS [WARM]]\n");
    return 2;
  }
  struct caller* callers = allocate((size_t)threads * sizeof *callers);
  for (long t = 0; t < threads; ++t) callers[t].product = make_product((size_t)n);
  const double begin = seconds_now();
  for (long t = 0; t < threads; ++t) {
    callers[t].calls = 0;
    callers[t].counts_from = begin + warm;
    callers[t].counts_to = begin + warm + seconds;
    if (pthread_create(&callers[t].thread, NULL, call, &callers[t]) != 0) {
      fprintf(stderr, PROGRAM ": cannot start a thread\n");
      exit(1);
    }
  }
  double calls = 0;
  int correct = 1;
  for (long t = 0; t < threads; ++t) {
    pthread_join(callers[t].thread, NULL);
    calls += callers[t].calls;
  }
  for (long t = 0; t < threads; ++t) correct = correct && is_right(&callers[t].product);
  printf("{\"n\": %ld, \"threads\": %ld, \"calls_per_s\": %.3f, \"correct\": %s}\n", n, threads, calls / seconds,
         correct ? "true" : "false");
  return correct ? 0 : 1;
}
