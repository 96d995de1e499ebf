/* Threads multiply, or factor (exact_work.h), without end, and the process ends meanwhile.
 *
 *   leave WAY THREADS SIZE MICROSECONDS     the process ends after that time, by WAY:
 *     return        from main                       exit     exit() in main
 *     thread        exit() in one of the threads    quick    quick_exit()     now      _exit()
 *     main_thread   pthread_exit() in main, then exit() in one of the threads
 *     join          a handler of exit(), older than the first call, waits until each thread has ended its loop
 *     late          a handler of exit() computes
 *
 * The status is 7, or, if a result is wrong, 9. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exact_work.h"

static const char* way;
static int size, thread_count;
static atomic_int stopping, rounds;
static pthread_t threads[64];

static void compute(void) {
  if (work(size, NULL, NULL) != 0) _exit(9);
}

static void* loop(void* last) {
  while (!stopping) {
    compute();
    ++rounds;
    if (last != NULL && stopping == 0 && rounds > 2 * thread_count &&
        (strcmp(way, "thread") == 0 || strcmp(way, "main_thread") == 0))
      exit(7);
  }
  return NULL;
}

static void at_exit(void) {
  if (strcmp(way, "join") == 0) {
    stopping = 1;
    for (int t = 0; t < thread_count; ++t) pthread_join(threads[t], NULL);
  }
  if (strcmp(way, "late") == 0) compute();
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  way = argv[1];
  thread_count = atoi(argv[2]);
  size = atoi(argv[3]);
  if (thread_count < 1 || thread_count > 64 || atexit(at_exit) != 0) return 2;
  for (int t = 0; t < thread_count; ++t) {
    if (pthread_create(&threads[t], NULL, loop, t == thread_count - 1 ? &threads[t] : NULL) != 0) return 2;
  }
  usleep((useconds_t)atoi(argv[4]));
  if (strcmp(way, "thread") == 0) {
    for (;;) pause();
  }
  if (strcmp(way, "main_thread") == 0) pthread_exit(NULL);
  if (strcmp(way, "exit") == 0) exit(7);
  if (strcmp(way, "quick") == 0) quick_exit(7);
  if (strcmp(way, "now") == 0) _exit(7);
  return 7;
}
