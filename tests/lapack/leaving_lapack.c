/* A LAPACK that computes nothing. When its BLAS is asked for the width of its integers, another thread ends the process:
 * the library must not be torn down before the answer. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static volatile int is_asked, was_asked;

static void* end(void* unused) {
  (void)unused;
  exit(7);
}

VISIBLE int isamax_(const int* n, const float* x, const int* incx) {
  (void)x, (void)incx;
  if (!was_asked) {
    was_asked = is_asked = 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, end, NULL) != 0) _exit(8);
    usleep(500000); /* torn_down() comes meanwhile, if nobody waits */
    is_asked = 0;
  }
  return *n >= 1;
}

VISIBLE void dgetrf_(const int* m, const int* n, double* A, const int* lda, int* ipiv, int* info) {
  (void)m, (void)n, (void)A, (void)lda, (void)ipiv;
  *info = 0;
}

__attribute__((destructor)) static void torn_down(void) {
  static const char text[] = "the BLAS is torn down while it is asked\n";
  if (!is_asked) return;
  if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(10);
  _exit(9);
}
