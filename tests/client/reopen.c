/* Threads open the library, multiply with it and close it, over and over, so that it is closed while others compute.
 *   reopen LIBRARY     prints the number of products; the status is 0 if all are right */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { size = 48, thread_count = 6, rounds = 100 };

typedef void (*dgemm_function)(int, int, int, int, int, int, double, const double*, int, const double*, int, double,
                               double*, int);

static const char* library;
static atomic_int right;

static void* loop(void* unused) {
  (void)unused;
  static _Thread_local double a[size * size], b[size * size], c[size * size];
  for (int i = 0; i < size * size; ++i) {
    a[i] = i % size % 7;
    b[i] = i / size % 5;
  }
  for (int round = 0; round < rounds; ++round) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return NULL;
    }
    dgemm_function multiply;
    *(void**)&multiply = dlsym(handle, "cblas_dgemm");
    if (multiply == NULL) return NULL;
    multiply(102, 111, 111, size, size, size, 2, a, size, b, size, 0, c, size);
    int good = 1;
    for (int i = 0; i < size * size; ++i) good = good && c[i] == 2.0 * size * (i % size % 7) * (i / size % 5);
    right += good;
    if (dlclose(handle) != 0) return NULL;
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  library = argv[1];
  pthread_t threads[thread_count];
  for (int t = 0; t < thread_count; ++t) {
    if (pthread_create(&threads[t], NULL, loop, NULL) != 0) return 2;
  }
  for (int t = 0; t < thread_count; ++t) pthread_join(threads[t], NULL);
  printf("calls %d\n", right);
  return right != thread_count * rounds;
}
