/* A process forks beside a thread that multiplies, or factors (exact_work.h).
 *
 *   fork_beside lock         200 forks; the thread holds a lock M in each call that it makes, and a handler of the program takes M before
 *                            each fork. `lock first`: the handler is registered before the first call, else after it
 *   fork_beside long FIRST   one fork beside a call of a second at least. FIRST is the event that must come first: with
 *                            "fork" the fork must not wait for the call, with "call" it must
 *
 * Children compute, and so does the parent afterwards. The status is 0 if all checks passed. A fork that hangs is ended
 * by SIGALRM. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exact_work.h"

enum { forks = 200, least_size = 500 };

static pthread_mutex_t M = PTHREAD_MUTEX_INITIALIZER;
static atomic_int begun, ended, stopping, wrong;

static void compute(int size, atomic_int* inside) { wrong += work(size, inside, inside != NULL ? &ended : NULL); }

static void take_lock(void) { pthread_mutex_lock(&M); }
static void give_lock(void) { pthread_mutex_unlock(&M); }
static void register_lock(void) {
  if (pthread_atfork(take_lock, give_lock, give_lock) != 0) _exit(2);
}

static void* compute_locked(void* unused) {
  (void)unused;
  while (!stopping) {
    take_lock();
    compute(100, &begun);
    give_lock();
    usleep(10); /* otherwise this thread takes it again before the waiting one, for tens of calls */
  }
  return NULL;
}

static void* compute_long(void* size) {
  compute(*(const int*)size, &begun);
  return NULL;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The size of work that takes about two seconds. */
static int long_size(void) {
  compute(least_size, NULL);
  const double begin = seconds();
  compute(least_size, NULL);
  const double cube = 2 / (seconds() - begin);
  int factor = 1;
  while (factor < 6 && factor * factor * factor < cube) ++factor;
  return factor * least_size;
}

static void fork_and_compute(void) {
  const pid_t child = fork();
  if (child < 0) _exit(3);
  if (child == 0) {
    alarm(100);
    wrong = 0;
    compute(70, NULL);
    _exit(wrong == 0 ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    printf("a child ended with status %x\n", (unsigned)status);
    exit(4);
  }
}

static int beside_lock(int first) {
  if (first) register_lock();
  compute(100, NULL);
  if (!first) register_lock();
  pthread_t thread;
  if (pthread_create(&thread, NULL, compute_locked, NULL) != 0) return 2;
  for (int i = 0; i < forks; ++i) {
    for (const int seen = begun; begun == seen;) usleep(10);
    fork_and_compute();
  }
  stopping = 1;
  pthread_join(thread, NULL);
  return 0;
}

static int beside_long_call(const char* first) {
  int size = long_size();
  pthread_t thread;
  if (pthread_create(&thread, NULL, compute_long, &size) != 0) return 2;
  while (begun == 0) usleep(100);
  usleep(20000); /* the thread is inside by now, or fork waits for this call */
  const pid_t child = fork();
  const int call_ended = ended;
  if (child < 0) return 3;
  if (child == 0) {
    alarm(100);
    compute(70, NULL);
    _exit(wrong == 0 ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 4;
  pthread_join(thread, NULL);
  const int expected = strcmp(first, "call") == 0;
  printf("size %d: the call had %sended when the fork returned\n", size, call_ended ? "" : "not ");
  return call_ended == expected ? 0 : 5;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  alarm(100);
  const int failed = strcmp(argv[1], "lock") == 0 ? beside_lock(argc > 2) : beside_long_call(argc > 2 ? argv[2] : "");
  if (failed != 0) return failed;
  compute(300, NULL);
  if (wrong != 0) printf("%d elements are wrong\n", wrong);
  return wrong != 0;
}
