/* Times LAPACK routines and checks their results. Linked with liblapack.so.3 and libblas.so.3 by these names, so that LD_PRELOAD and
   LD_LIBRARY_PATH decide whose they are; knows nothing of Tessera.
   Results are checked with a random vector x, A * x against the product of the factors with x, relative to n * |A| * |x| * eps; below
   30 is correct. Prints one line of JSON for each size.
   usage: lapack_bench ROUTINE N[,N...] [REPEATS] */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "lapack_bench"
#include "program.h"

typedef size_t length; /* of a character argument */
void dpotrf_(const char* uplo, const int* n, double* A, const int* lda, int* info, length);
void dgetrf_(const int* m, const int* n, double* A, const int* lda, int* pivots, int* info);
void dgesv_(const int* n, const int* nrhs, double* A, const int* lda, int* pivots, double* B, const int* ldb,
            int* info);
void dgetri_(const int* n, double* A, const int* lda, const int* pivots, double* work, const int* lwork, int* info);
void dpotri_(const char* uplo, const int* n, double* A, const int* lda, int* info, length);
void dtrtri_(const char* uplo, const char* diag, const int* n, double* A, const int* lda, int* info, length, length);
void dgeqrf_(const int* m, const int* n, double* A, const int* lda, double* tau, double* work, const int* lwork,
             int* info);
void dormqr_(const char* side, const char* trans, const int* m, const int* n, const int* k, double* A, const int* lda,
             const double* tau, double* C, const int* ldc, double* work, const int* lwork, int* info, length, length);
void dgels_(const char* trans, const int* m, const int* n, const int* nrhs, double* A, const int* lda, double* B,
            const int* ldb, double* work, const int* lwork, int* info, length);
void dgelsd_(const int* m, const int* n, const int* nrhs, double* A, const int* lda, double* B, const int* ldb,
             double* s, const double* rcond, int* rank, double* work, const int* lwork, int* iwork, int* info);
void dsyev_(const char* jobz, const char* uplo, const int* n, double* A, const int* lda, double* w, double* work,
            const int* lwork, int* info, length, length);
void dsygv_(const int* type, const char* jobz, const char* uplo, const int* n, double* A, const int* lda, double* B,
            const int* ldb, double* w, double* work, const int* lwork, int* info, length, length);
void dgesvd_(const char* jobu, const char* jobvt, const int* m, const int* n, double* A, const int* lda, double* s,
             double* U, const int* ldu, double* Vt, const int* ldvt, double* work, const int* lwork, int* info, length,
             length);

/* One problem: the matrix as it was, the matrix that is overwritten, and what else a routine gives back. All n x n, or n. */
struct problem {
  int n, info;
  double *A, *F, *B, *U, *V;
  double *vector, *work;
  int* pivots;
  int lwork;
};

static size_t at(int n, int i, int j) { return (size_t)j * (size_t)n + (size_t)i; }

static double* new_matrix(int n) { return allocate(sizeof(double) * (size_t)n * (size_t)n); }

/* Symmetric and diagonally dominant, so that it is positive definite as well. */
static void fill_symmetric(int n, double* A) {
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) A[at(n, i, j)] = A[at(n, j, i)] = random_number();
    A[at(n, j, j)] += n;
  }
}

static void fill(int n, double* A) {
  for (size_t i = 0; i < (size_t)n * (size_t)n; ++i) A[i] = random_number();
}

static double one_norm(int n, const double* A) {
  double norm = 0;
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += fabs(A[at(n, i, j)]);
    if (!(sum <= norm)) norm = sum; /* NaN is kept */
  }
  return norm;
}

enum part { WHOLE, LOWER, UNIT_LOWER, UPPER, TRANSPOSED, TRANSPOSED_LOWER, SYMMETRIC_LOWER };

/* The entry (i, j) of the part of A that is meant is used if it belongs to it. y = part(A) * x */
static void multiply(int n, const double* A, enum part part, const double* x, double* y) {
  for (int i = 0; i < n; ++i) y[i] = 0;
  for (int j = 0; j < n; ++j) {
    const double* column = A + at(n, 0, j);
    double dot = 0;
    const int from = part == LOWER || part == TRANSPOSED_LOWER || part == SYMMETRIC_LOWER ? j
                     : part == UNIT_LOWER                                                 ? j + 1
                                                                                          : 0;
    const int to = part == UPPER ? j + 1 : n;
    if (part == TRANSPOSED || part == TRANSPOSED_LOWER) {
      for (int i = from; i < to; ++i) dot += column[i] * x[i];
      y[j] = dot;
      continue;
    }
    for (int i = from; i < to; ++i) y[i] += column[i] * x[j];
    if (part == UNIT_LOWER) y[j] += x[j];
    if (part == SYMMETRIC_LOWER) {
      for (int i = j + 1; i < n; ++i) dot += column[i] * x[i];
      y[j] += dot;
    }
  }
}

static double largest_of(int n, const double* x) {
  double largest = 0;
  for (int i = 0; i < n; ++i) {
    if (!(fabs(x[i]) <= largest)) largest = fabs(x[i]);
  }
  return largest;
}

/* |y - z| relative to n * size * |x| * eps */
static double difference(int n, const double* y, double* z, double size, const double* x) {
  for (int i = 0; i < n; ++i) z[i] -= y[i];
  return largest_of(n, z) / (n * size * largest_of(n, x) * DBL_EPSILON);
}

static void undo_pivots(const struct problem* p, double* y) {
  for (int i = p->n - 1; i >= 0; --i) {
    const int other = p->pivots[i] - 1;
    const double keep = y[i];
    y[i] = y[other];
    y[other] = keep;
  }
}

static void provide_work(struct problem* p, double wanted) {
  if ((int)wanted <= p->lwork) return;
  free(p->work);
  p->lwork = (int)wanted;
  p->work = allocate(sizeof(double) * (size_t)p->lwork);
}

/* Every routine: what it needs, how it is called (with lwork = -1 it asks for its workspace), how it is checked with x -> y, z. */

static void call_potrf(struct problem* p) { dpotrf_("L", &p->n, p->F, &p->n, &p->info, 1); }
static double check_potrf(struct problem* p, const double* x, double* y, double* z) {
  multiply(p->n, p->F, TRANSPOSED_LOWER, x, y);
  multiply(p->n, p->F, LOWER, y, z);
  multiply(p->n, p->A, WHOLE, x, y);
  return difference(p->n, y, z, one_norm(p->n, p->A), x);
}

static void call_getrf(struct problem* p) { dgetrf_(&p->n, &p->n, p->F, &p->n, p->pivots, &p->info); }
static double check_getrf(struct problem* p, const double* x, double* y, double* z) {
  multiply(p->n, p->F, UPPER, x, y);
  multiply(p->n, p->F, UNIT_LOWER, y, z);
  undo_pivots(p, z);
  multiply(p->n, p->A, WHOLE, x, y);
  return difference(p->n, y, z, one_norm(p->n, p->A), x);
}

static void call_gesv(struct problem* p) {
  memcpy(p->U, p->B, sizeof(double) * (size_t)p->n * (size_t)p->n);
  dgesv_(&p->n, &p->n, p->F, &p->n, p->pivots, p->U, &p->n, &p->info);
}
static double check_gesv(struct problem* p, const double* x, double* y, double* z) {
  multiply(p->n, p->U, WHOLE, x, y);
  multiply(p->n, p->A, WHOLE, y, z);
  multiply(p->n, p->B, WHOLE, x, y);
  return difference(p->n, y, z, one_norm(p->n, p->A) * one_norm(p->n, p->U), x);
}

/* Least squares have as many unknowns and right-hand sides as equations here, and the check of a solution. */
static void call_gels(struct problem* p) {
  double wanted = 0;
  const int ask = -1, *n = &p->n;
  memcpy(p->U, p->B, sizeof(double) * (size_t)p->n * (size_t)p->n);
  dgels_("N", n, n, n, p->F, n, p->U, n, &wanted, &ask, &p->info, 1);
  provide_work(p, wanted);
  dgels_("N", n, n, n, p->F, n, p->U, n, p->work, &p->lwork, &p->info, 1);
}

static void call_gelsd(struct problem* p) {
  double wanted = 0;
  const double rcond = -1;
  const int ask = -1, *n = &p->n;
  int integers = 0, rank = 0;
  memcpy(p->U, p->B, sizeof(double) * (size_t)p->n * (size_t)p->n);
  dgelsd_(n, n, n, p->F, n, p->U, n, p->vector, &rcond, &rank, &wanted, &ask, &integers, &p->info);
  provide_work(p, wanted);
  int* const iwork = allocate(sizeof(int) * (size_t)integers);
  dgelsd_(n, n, n, p->F, n, p->U, n, p->vector, &rcond, &rank, p->work, &p->lwork, iwork, &p->info);
  free(iwork);
}

/* A * (inverse * x) against x */
static double check_inverse(struct problem* p, enum part matrix, enum part inverse, const double* x, double* y,
                            double* z) {
  multiply(p->n, p->F, inverse, x, y);
  multiply(p->n, p->A, matrix, y, z);
  return difference(p->n, x, z, one_norm(p->n, p->A) * one_norm(p->n, p->F), x);
}

static void call_getri(struct problem* p) {
  double wanted = 0;
  const int ask = -1;
  call_getrf(p);
  if (p->info != 0) return;
  dgetri_(&p->n, p->F, &p->n, p->pivots, &wanted, &ask, &p->info);
  provide_work(p, wanted);
  dgetri_(&p->n, p->F, &p->n, p->pivots, p->work, &p->lwork, &p->info);
}
static double check_getri(struct problem* p, const double* x, double* y, double* z) {
  return check_inverse(p, WHOLE, WHOLE, x, y, z);
}

static void call_potri(struct problem* p) {
  call_potrf(p);
  if (p->info == 0) dpotri_("L", &p->n, p->F, &p->n, &p->info, 1);
}
static double check_potri(struct problem* p, const double* x, double* y, double* z) {
  return check_inverse(p, WHOLE, SYMMETRIC_LOWER, x, y, z);
}

static void call_trtri(struct problem* p) { dtrtri_("L", "N", &p->n, p->F, &p->n, &p->info, 1, 1); }
static double check_trtri(struct problem* p, const double* x, double* y, double* z) {
  return check_inverse(p, LOWER, LOWER, x, y, z);
}

static void call_geqrf(struct problem* p) {
  double wanted = 0;
  const int ask = -1;
  dgeqrf_(&p->n, &p->n, p->F, &p->n, p->vector, &wanted, &ask, &p->info);
  provide_work(p, wanted);
  dgeqrf_(&p->n, &p->n, p->F, &p->n, p->vector, p->work, &p->lwork, &p->info);
}
static double check_geqrf(struct problem* p, const double* x, double* y, double* z) {
  const int one = 1;
  multiply(p->n, p->F, UPPER, x, z);
  provide_work(p, 128.0 * p->n);
  dormqr_("L", "N", &p->n, &one, &p->n, p->F, &p->n, p->vector, z, &p->n, p->work, &p->lwork, &p->info, 1, 1);
  multiply(p->n, p->A, WHOLE, x, y);
  return difference(p->n, y, z, one_norm(p->n, p->A), x);
}

static void call_syev(struct problem* p) {
  double wanted = 0;
  const int ask = -1;
  dsyev_("V", "L", &p->n, p->F, &p->n, p->vector, &wanted, &ask, &p->info, 1, 1);
  provide_work(p, wanted);
  dsyev_("V", "L", &p->n, p->F, &p->n, p->vector, p->work, &p->lwork, &p->info, 1, 1);
}
/* right * (V * diag(w) * x) against A * (V * x) */
static double check_eigenvectors(struct problem* p, const double* right, const double* x, double* y, double* z) {
  double* scaled = allocate(sizeof(double) * (size_t)p->n);
  for (int i = 0; i < p->n; ++i) scaled[i] = p->vector[i] * x[i];
  multiply(p->n, p->F, WHOLE, scaled, y);
  if (right != NULL) {
    multiply(p->n, right, WHOLE, y, z);
  } else {
    memcpy(z, y, sizeof(double) * (size_t)p->n);
  }
  multiply(p->n, p->F, WHOLE, x, scaled);
  multiply(p->n, p->A, WHOLE, scaled, y);
  free(scaled);
  return difference(p->n, y, z, one_norm(p->n, p->A) * one_norm(p->n, p->F), x);
}
static double check_syev(struct problem* p, const double* x, double* y, double* z) {
  return check_eigenvectors(p, NULL, x, y, z);
}

static void call_sygv(struct problem* p) {
  double wanted = 0;
  const int ask = -1, type = 1;
  memcpy(p->U, p->B, sizeof(double) * (size_t)p->n * (size_t)p->n);
  dsygv_(&type, "V", "L", &p->n, p->F, &p->n, p->U, &p->n, p->vector, &wanted, &ask, &p->info, 1, 1);
  provide_work(p, wanted);
  dsygv_(&type, "V", "L", &p->n, p->F, &p->n, p->U, &p->n, p->vector, p->work, &p->lwork, &p->info, 1, 1);
}
static double check_sygv(struct problem* p, const double* x, double* y, double* z) {
  return check_eigenvectors(p, p->B, x, y, z);
}

static void call_gesvd(struct problem* p) {
  double wanted = 0;
  const int ask = -1;
  dgesvd_("A", "A", &p->n, &p->n, p->F, &p->n, p->vector, p->U, &p->n, p->V, &p->n, &wanted, &ask, &p->info, 1, 1);
  provide_work(p, wanted);
  dgesvd_("A", "A", &p->n, &p->n, p->F, &p->n, p->vector, p->U, &p->n, p->V, &p->n, p->work, &p->lwork, &p->info, 1, 1);
}
static double check_gesvd(struct problem* p, const double* x, double* y, double* z) {
  multiply(p->n, p->V, WHOLE, x, y);
  for (int i = 0; i < p->n; ++i) y[i] *= p->vector[i];
  multiply(p->n, p->U, WHOLE, y, z);
  multiply(p->n, p->A, WHOLE, x, y);
  return difference(p->n, y, z, one_norm(p->n, p->A), x);
}

static const struct routine {
  const char* name;
  void (*call)(struct problem*);
  double (*check)(struct problem*, const double* x, double* y, double* z);
  int symmetric;
  double flops; /* times n^3; 0: not told, because it depends on the data */
} routines[] = {
    {"dpotrf", call_potrf, check_potrf, 1, 1.0 / 3}, {"dgetrf", call_getrf, check_getrf, 0, 2.0 / 3},
    {"dgesv", call_gesv, check_gesv, 0, 8.0 / 3},    {"dgetri", call_getri, check_getri, 0, 2},
    {"dpotri", call_potri, check_potri, 1, 1},       {"dtrtri", call_trtri, check_trtri, 1, 1.0 / 3},
    {"dgeqrf", call_geqrf, check_geqrf, 0, 4.0 / 3}, {"dsyev", call_syev, check_syev, 1, 0},
    {"dsygv", call_sygv, check_sygv, 1, 0},          {"dgesvd", call_gesvd, check_gesvd, 0, 0},
    {"dgels", call_gels, check_gesv, 0, 13.0 / 3},   {"dgelsd", call_gelsd, check_gesv, 0, 0},
};

static int bench(const struct routine* routine, int n, int repeats) {
  struct problem p = {.n = n};
  p.A = new_matrix(n);
  p.F = new_matrix(n);
  p.B = p.U = p.V = NULL;
  if (routine->check == check_gesv || routine->call == call_sygv) {
    p.B = new_matrix(n);
    p.U = new_matrix(n);
    (routine->symmetric ? fill_symmetric : fill)(n, p.B);
  }
  if (routine->call == call_gesvd) {
    p.U = new_matrix(n);
    p.V = new_matrix(n);
  }
  p.vector = allocate(sizeof(double) * (size_t)n);
  p.pivots = allocate(sizeof(int) * (size_t)n);
  (routine->symmetric ? fill_symmetric : fill)(n, p.A);

  double best = HUGE_VAL;
  for (int i = 0; i < repeats; ++i) {
    memcpy(p.F, p.A, sizeof(double) * (size_t)n * (size_t)n);
    const double begin = seconds_now();
    routine->call(&p);
    best = fmin(best, seconds_now() - begin);
    if (p.info != 0) break;
  }
  double residual = NAN;
  if (p.info == 0) {
    double* x = allocate(3 * sizeof(double) * (size_t)n);
    for (int i = 0; i < n; ++i) x[i] = random_number();
    residual = routine->check(&p, x, x + n, x + 2 * n);
    free(x);
  }
  const int correct = residual < 30;
  const double flops = routine->flops * (double)n * n * n;
  printf("{\"routine\": \"%s\", \"n\": %d, \"seconds\": %.6g, \"gflops\": %.6g, \"residual\": %.3g, \"correct\": %s}\n",
         routine->name, n, best, flops / best * 1e-9, isnan(residual) ? -1 : residual, correct ? "true" : "false");
  fflush(stdout);
  double* const matrices[] = {p.A, p.F, p.B, p.U, p.V, p.vector, p.work};
  for (size_t i = 0; i < sizeof matrices / sizeof *matrices; ++i) free(matrices[i]);
  free(p.pivots);
  return correct;
}

int main(int argc, char** argv) {
  const size_t count = sizeof routines / sizeof *routines;
  const struct routine* routine = NULL;
  for (size_t i = 0; argc >= 3 && i < count; ++i) {
    if (strcmp(argv[1], routines[i].name) == 0) routine = &routines[i];
  }
  if (routine == NULL) {
    fprintf(stderr, "usage: lapack_bench ROUTINE N[,N...] [REPEATS]\nROUTINE is one of");
    for (size_t i = 0; i < count; ++i) fprintf(stderr, " %s", routines[i].name);
    fprintf(stderr, "\n");
    return 2;
  }
  const int repeats = argc > 3 ? atoi(argv[3]) : 1;
  int correct = repeats > 0;
  for (char* size = strtok(argv[2], ","); size != NULL; size = strtok(NULL, ",")) {
    const int n = atoi(size);
    if (n <= 0) {
      fprintf(stderr, "lapack_bench: no size: %s\n", size);
      return 2;
    }
    correct = bench(routine, n, repeats) && correct;
  }
  return correct ? 0 : 1;
}
