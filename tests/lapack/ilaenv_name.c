/* ilaenv_ as C programs call it: without the length of the name, or with any length. usage: ilaenv_name LIBRARY The
 * name ends at the end of readable memory, so that a read beyond it ends the program. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int64_t (*ilaenv)(const int*, const char*, const char*, const int*, const int*, const int*, const int*, size_t,
                          size_t);

static char* end_of_memory;
static ilaenv ask;

/* The block size of a routine for matrices of order 8192; 1 if the missing LAPACK would be called. */
static int64_t block_of(const char* name, size_t bytes, size_t length) {
  const int ispec = 1, n = 8192, none = -1;
  char* const place = end_of_memory - bytes;
  memcpy(place, name, bytes);
  return ask(&ispec, place, " ", &n, &n, &none, &none, length, 1);
}

static int failures = 0;
static void expect(const char* what, int64_t got, int64_t wanted) {
  if (got == wanted) return;
  printf("%s: %lld instead of %lld\n", what, (long long)got, (long long)wanted);
  ++failures;
}

int main(int argc, char** argv) {
  void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (library == NULL) return 2;
  ask = (ilaenv)(intptr_t)dlsym(library, "ilaenv_");
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ask == NULL || memory == MAP_FAILED || mprotect(memory + page, page, PROT_NONE) != 0) return 2;
  end_of_memory = memory + page;

  errno = 4711;
  expect("length", block_of("DGETRF", 6, 6), 1024);
  expect("padded", block_of("DGETRF    ", 10, 10), 1024);
  expect("small letters", block_of("dgetrf", 6, 6), 1024);
  expect("terminated, any length", block_of("DGETRF", 7, (size_t)-1), 1024);
  expect("terminated, another length", block_of("DGETRF", 7, 1000), 1024);
  expect("no length", block_of("DGETRF", 7, 0), 1);
  expect("as long as can be, any length", block_of("DGETRFABCDEFGHIJ", 16, (size_t)-1), 1);
  expect("errno", errno, 4711);
  return failures != 0;
}
