/* A program that maps its memory at the first access, in a handler of SIGSEGV, multiplies untouched matrices: the
 * library's threads touch them first. errno stays unchanged, in the first call as in later ones. Prints the number of
 * products. */
#define _GNU_SOURCE
#include <cblas.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { size = 256, calls = 3, value_of_errno = 4711 };

static char* memory;
static size_t bytes, page;
static atomic_int faults, faults_elsewhere;
static long main_thread;

/* Elements of inputs are one, and elements of the result are zero. */
static void bring_in(int number, siginfo_t* what, void* context) {
  (void)number;
  (void)context;
  char* const address = (char*)((uintptr_t)what->si_addr / page * page);
  if (address < memory || address >= memory + bytes) _exit(10);
  ++faults;
  if (syscall(SYS_gettid) != main_thread) ++faults_elsewhere;
  if (mprotect(address, page, PROT_READ | PROT_WRITE) != 0) _exit(11);
}

int main(void) {
  const size_t matrix = (size_t)size * size * sizeof(double);
  bytes = 3 * matrix;
  page = (size_t)sysconf(_SC_PAGESIZE);
  main_thread = syscall(SYS_gettid);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = bring_in;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  double* const a = (double*)memory;
  double* const b = a + size * size;
  double* const c = b + size * size;
  int failed = 0;
  for (int call = 0; call < calls; ++call) {
    for (int i = 0; i < size * size; ++i) {
      a[i] = 1;
      b[i] = i % 3;
      c[i] = 5;
    }
    if (mprotect(memory, bytes, PROT_NONE) != 0) return 3;
    errno = value_of_errno;
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a, size, b, size, 1, c, size);
    if (errno != value_of_errno) {
      printf("call %d changed errno to %d\n", call, errno);
      failed = 1;
    }
    for (int j = 0; j < size; ++j) {
      double sum = 5;
      for (int l = 0; l < size; ++l) sum += (l + j * size) % 3;
      for (int i = 0; i < size; ++i) failed |= c[i + j * size] != sum;
    }
  }
  printf("faults %d, in other threads %d\n", faults, faults_elsewhere);
  printf("calls %d\n", calls);
  return failed;
}
