/* The common part of the benchmark programs that know nothing of Tessera. PROGRAM, their name, is defined before. */
#ifndef TESSERA_BENCH_PROGRAM_H
#define TESSERA_BENCH_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Ends the program if there is no memory. */
static inline void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) {
    fprintf(stderr, PROGRAM ": no memory for %zu bytes\n", bytes);
    exit(1);
  }
  return memory;
}

static uint64_t random_state = 88172645463325252u;

/* In (-0.5, 0.5) (xorshift64, Marsaglia 2003). */
static inline double random_number(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (double)(random_state >> 11) * 0x1p-53 - 0.5;
}

#endif
