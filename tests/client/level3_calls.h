/* Every symbol of calls/routines.def as a C program declares and calls it, behind one function type; with OWN_API
 * defined, every BLAS function of tessera.h. gemmt, which a BLAS need not have, is called by gemm then. Without
 * cblas.h, because the libraries' headers do not agree on const, nor on cblas_xerbla. */
#ifndef TESSERA_TESTS_CLIENT_LEVEL3_CALLS_H
#define TESSERA_TESTS_CLIENT_LEVEL3_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* The BLAS that is called: the width of its integers and the spelling of its symbols. The default is the plain LP64
 * one. */
#ifndef BLAS_INTEGER
#define BLAS_INTEGER int
#endif
#ifndef FORTRAN_SUFFIX
#define SYMBOL_PREFIX
#define FORTRAN_SUFFIX _
#define CBLAS_SUFFIX
#endif
#define JOINED_AS_IS(prefix, name, suffix) prefix##name##suffix
#define JOINED(prefix, name, suffix) JOINED_AS_IS(prefix, name, suffix)
#define FORTRAN_SYMBOL(name) JOINED(SYMBOL_PREFIX, name, FORTRAN_SUFFIX)
#define CBLAS_SYMBOL(name) JOINED(SYMBOL_PREFIX, cblas_##name, CBLAS_SUFFIX)
typedef BLAS_INTEGER integer;

/* A scalar in both precisions; real routines take the first part. */
struct scalar {
  float f[2];
  double d[2];
};

/* The arguments of any of the routines; enumerators as in CBLAS. */
struct call {
  int layout, side, uplo, transa, transb, diag;
  integer m, n, k, lda, ldb, ldc;
  struct scalar alpha, beta;
  const void* A;
  void* B;
  void* C;
};

typedef void (*call_function)(const struct call*);

typedef float value_s;
typedef double value_d;
typedef const void* value_c;
typedef const void* value_z;
typedef float real_c;
typedef double real_z;
#define VALUE_s(x) ((x).f[0])
#define VALUE_d(x) ((x).d[0])
#define VALUE_c(x) ((const void*)(x).f)
#define VALUE_z(x) ((const void*)(x).d)
#define REAL_c(x) ((x).f[0])
#define REAL_z(x) ((x).d[0])
#define BYTES_s 4
#define BYTES_d 8
#define BYTES_c 8
#define BYTES_z 16
#define ADDRESS_s(x) ((const void*)(x).f)
#define ADDRESS_d(x) ((const void*)(x).d)
#define ADDRESS_c(x) ((const void*)(x).f)
#define ADDRESS_z(x) ((const void*)(x).d)

/* herk has real scalars, her2k a real beta. */
#define ALPHA_TYPE_syrk(letter) value_##letter
#define ALPHA_TYPE_herk(letter) real_##letter
#define ALPHA_syrk(letter, x) VALUE_##letter(x)
#define ALPHA_herk(letter, x) REAL_##letter(x)
#define BETA_TYPE_syrk(letter) value_##letter
#define BETA_TYPE_herk(letter) real_##letter
#define BETA_TYPE_syr2k(letter) value_##letter
#define BETA_TYPE_her2k(letter) real_##letter
#define BETA_syrk(letter, x) VALUE_##letter(x)
#define BETA_herk(letter, x) REAL_##letter(x)
#define BETA_syr2k(letter, x) VALUE_##letter(x)
#define BETA_her2k(letter, x) REAL_##letter(x)

#ifndef OWN_API
/* The letters of the Fortran interface; an invalid CBLAS value stays invalid. */
static char op_letter(int value) { return value >= 111 && value <= 113 ? "NTC"[value - 111] : 'X'; }
static char side_letter(int value) { return value == 141 ? 'L' : value == 142 ? 'R' : 'X'; }
static char uplo_letter(int value) { return value == 121 ? 'U' : value == 122 ? 'L' : 'X'; }
static char diag_letter(int value) { return value == 131 ? 'N' : value == 132 ? 'U' : 'X'; }
#endif

#define GEMM(routine, letter)                                                                                        \
  void FORTRAN_SYMBOL(letter##routine)(const char*, const char*, const integer*, const integer*, const integer*,     \
                                       const void*, const void*, const integer*, const void*, const integer*,        \
                                       const void*, void*, const integer*, size_t, size_t);                          \
  void CBLAS_SYMBOL(letter##routine)(int, int, int, integer, integer, integer, value_##letter, const void*, integer, \
                                     const void*, integer, value_##letter, void*, integer);                          \
  static void fortran_call_##letter##routine(const struct call* p) {                                                 \
    const char ta = op_letter(p->transa), tb = op_letter(p->transb);                                                 \
    FORTRAN_SYMBOL(letter##routine)                                                                                  \
    (&ta, &tb, &p->m, &p->n, &p->k, ADDRESS_##letter(p->alpha), p->A, &p->lda, p->B, &p->ldb,                        \
     ADDRESS_##letter(p->beta), p->C, &p->ldc, 1, 1);                                                                \
  }                                                                                                                  \
  static void cblas_call_##letter##routine(const struct call* p) {                                                   \
    CBLAS_SYMBOL(letter##routine)                                                                                    \
    (p->layout, p->transa, p->transb, p->m, p->n, p->k, VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb,        \
     VALUE_##letter(p->beta), p->C, p->ldc);                                                                         \
  }

/* Column by column. */
static inline void gemmt_by_gemm(const struct call* p, call_function gemm, integer element_bytes) {
  const int by_columns = p->layout == 102;
  const integer step_a = (p->transa == 111) == by_columns ? 1 : p->lda;
  const integer step_b = (p->transb == 111) == by_columns ? p->ldb : 1;
  for (integer j = 0; j < p->n; ++j) {
    const integer first = p->uplo == 122 ? j : 0, end = p->uplo == 122 ? p->n : j + 1;
    struct call column = *p;
    column.m = end - first;
    column.n = 1;
    column.A = (const char*)p->A + first * step_a * element_bytes;
    column.B = (char*)p->B + j * step_b * element_bytes;
    column.C = (char*)p->C + (by_columns ? first + j * p->ldc : first * p->ldc + j) * element_bytes;
    gemm(&column);
  }
}

/* Weak: null where neither the BLAS that the program was linked with nor a preloaded library has it. */
#define GEMMT(routine, letter)                                                                                         \
  void FORTRAN_SYMBOL(letter##routine)(                                                                                \
      const char*, const char*, const char*, const integer*, const integer*, const void*, const void*, const integer*, \
      const void*, const integer*, const void*, void*, const integer*, size_t, size_t, size_t) __attribute__((weak));  \
  void CBLAS_SYMBOL(letter##routine)(int, int, int, int, integer, integer, value_##letter, const void*, integer,       \
                                     const void*, integer, value_##letter, void*, integer) __attribute__((weak));      \
  static void fortran_call_##letter##routine(const struct call* p) {                                                   \
    const char uplo = uplo_letter(p->uplo), ta = op_letter(p->transa), tb = op_letter(p->transb);                      \
    if (FORTRAN_SYMBOL(letter##routine) == NULL) {                                                                     \
      gemmt_by_gemm(p, fortran_call_##letter##gemm, BYTES_##letter);                                                   \
      return;                                                                                                          \
    }                                                                                                                  \
    FORTRAN_SYMBOL(letter##routine)                                                                                    \
    (&uplo, &ta, &tb, &p->n, &p->k, ADDRESS_##letter(p->alpha), p->A, &p->lda, p->B, &p->ldb,                          \
     ADDRESS_##letter(p->beta), p->C, &p->ldc, 1, 1, 1);                                                               \
  }                                                                                                                    \
  static void cblas_call_##letter##routine(const struct call* p) {                                                     \
    if (CBLAS_SYMBOL(letter##routine) == NULL) {                                                                       \
      gemmt_by_gemm(p, cblas_call_##letter##gemm, BYTES_##letter);                                                     \
      return;                                                                                                          \
    }                                                                                                                  \
    CBLAS_SYMBOL(letter##routine)                                                                                      \
    (p->layout, p->uplo, p->transa, p->transb, p->n, p->k, VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb,       \
     VALUE_##letter(p->beta), p->C, p->ldc);                                                                           \
  }

#define SIDED(routine, letter)                                                                                        \
  void FORTRAN_SYMBOL(letter##routine)(const char*, const char*, const integer*, const integer*, const void*,         \
                                       const void*, const integer*, const void*, const integer*, const void*, void*,  \
                                       const integer*, size_t, size_t);                                               \
  void CBLAS_SYMBOL(letter##routine)(int, int, int, integer, integer, value_##letter, const void*, integer,           \
                                     const void*, integer, value_##letter, void*, integer);                           \
  static void fortran_call_##letter##routine(const struct call* p) {                                                  \
    const char side = side_letter(p->side), uplo = uplo_letter(p->uplo);                                              \
    FORTRAN_SYMBOL(letter##routine)                                                                                   \
    (&side, &uplo, &p->m, &p->n, ADDRESS_##letter(p->alpha), p->A, &p->lda, p->B, &p->ldb, ADDRESS_##letter(p->beta), \
     p->C, &p->ldc, 1, 1);                                                                                            \
  }                                                                                                                   \
  static void cblas_call_##letter##routine(const struct call* p) {                                                    \
    CBLAS_SYMBOL(letter##routine)                                                                                     \
    (p->layout, p->side, p->uplo, p->m, p->n, VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb,                   \
     VALUE_##letter(p->beta), p->C, p->ldc);                                                                          \
  }

#define RANK_K(routine, letter)                                                                                        \
  void FORTRAN_SYMBOL(letter##routine)(const char*, const char*, const integer*, const integer*, const void*,          \
                                       const void*, const integer*, const void*, void*, const integer*, size_t,        \
                                       size_t);                                                                        \
  void CBLAS_SYMBOL(letter##routine)(int, int, int, integer, integer, ALPHA_TYPE_##routine(letter), const void*,       \
                                     integer, BETA_TYPE_##routine(letter), void*, integer);                            \
  static void fortran_call_##letter##routine(const struct call* p) {                                                   \
    const char uplo = uplo_letter(p->uplo), trans = op_letter(p->transa);                                              \
    FORTRAN_SYMBOL(letter##routine)                                                                                    \
    (&uplo, &trans, &p->n, &p->k, ADDRESS_##letter(p->alpha), p->A, &p->lda, ADDRESS_##letter(p->beta), p->C, &p->ldc, \
     1, 1);                                                                                                            \
  }                                                                                                                    \
  static void cblas_call_##letter##routine(const struct call* p) {                                                     \
    CBLAS_SYMBOL(letter##routine)                                                                                      \
    (p->layout, p->uplo, p->transa, p->n, p->k, ALPHA_##routine(letter, p->alpha), p->A, p->lda,                       \
     BETA_##routine(letter, p->beta), p->C, p->ldc);                                                                   \
  }

#define RANK_2K(routine, letter)                                                                                       \
  void FORTRAN_SYMBOL(letter##routine)(const char*, const char*, const integer*, const integer*, const void*,          \
                                       const void*, const integer*, const void*, const integer*, const void*, void*,   \
                                       const integer*, size_t, size_t);                                                \
  void CBLAS_SYMBOL(letter##routine)(int, int, int, integer, integer, value_##letter, const void*, integer,            \
                                     const void*, integer, BETA_TYPE_##routine(letter), void*, integer);               \
  static void fortran_call_##letter##routine(const struct call* p) {                                                   \
    const char uplo = uplo_letter(p->uplo), trans = op_letter(p->transa);                                              \
    FORTRAN_SYMBOL(letter##routine)                                                                                    \
    (&uplo, &trans, &p->n, &p->k, ADDRESS_##letter(p->alpha), p->A, &p->lda, p->B, &p->ldb, ADDRESS_##letter(p->beta), \
     p->C, &p->ldc, 1, 1);                                                                                             \
  }                                                                                                                    \
  static void cblas_call_##letter##routine(const struct call* p) {                                                     \
    CBLAS_SYMBOL(letter##routine)                                                                                      \
    (p->layout, p->uplo, p->transa, p->n, p->k, VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb,                  \
     BETA_##routine(letter, p->beta), p->C, p->ldc);                                                                   \
  }

#define TRIANGULAR(routine, letter)                                                                                    \
  void FORTRAN_SYMBOL(letter##routine)(const char*, const char*, const char*, const char*, const integer*,             \
                                       const integer*, const void*, const void*, const integer*, void*,                \
                                       const integer*, size_t, size_t, size_t, size_t);                                \
  void CBLAS_SYMBOL(letter##routine)(int, int, int, int, int, integer, integer, value_##letter, const void*, integer,  \
                                     void*, integer);                                                                  \
  static void fortran_call_##letter##routine(const struct call* p) {                                                   \
    const char side = side_letter(p->side), uplo = uplo_letter(p->uplo);                                               \
    const char trans = op_letter(p->transa), diag = diag_letter(p->diag);                                              \
    FORTRAN_SYMBOL(letter##routine)                                                                                    \
    (&side, &uplo, &trans, &diag, &p->m, &p->n, ADDRESS_##letter(p->alpha), p->A, &p->lda, p->B, &p->ldb, 1, 1, 1, 1); \
  }                                                                                                                    \
  static void cblas_call_##letter##routine(const struct call* p) {                                                     \
    CBLAS_SYMBOL(letter##routine)                                                                                      \
    (p->layout, p->side, p->uplo, p->transa, p->diag, p->m, p->n, VALUE_##letter(p->alpha), p->A, p->lda, p->B,        \
     p->ldb);                                                                                                          \
  }

#ifdef OWN_API
/* The functions of tessera.h in place of the CBLAS ones, and column-major in place of the Fortran ones. */
#include "tessera/tessera.h"

static tessera_context own_context;
static int own_failures;

#define OWN(routine, letter, ...)                                                                                      \
  static void own_call_##letter##routine(const struct call* p) {                                                       \
    own_failures += tessera_##letter##routine(own_context, (tessera_layout)p->layout, __VA_ARGS__) != TESSERA_SUCCESS; \
  }                                                                                                                    \
  static void own_column_call_##letter##routine(const struct call* p) {                                                \
    struct call column = *p;                                                                                           \
    column.layout = TESSERA_COL_MAJOR;                                                                                 \
    own_call_##letter##routine(&column);                                                                               \
  }
#define OWN_GEMM(routine, letter)                                                                    \
  OWN(routine, letter, (tessera_transpose)p->transa, (tessera_transpose)p->transb, p->m, p->n, p->k, \
      VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb, VALUE_##letter(p->beta), p->C, p->ldc)
#define OWN_GEMMT(routine, letter)                                                                                    \
  OWN(routine, letter, (tessera_uplo)p->uplo, (tessera_transpose)p->transa, (tessera_transpose)p->transb, p->n, p->k, \
      VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb, VALUE_##letter(p->beta), p->C, p->ldc)
#define OWN_SIDED(routine, letter)                                                                               \
  OWN(routine, letter, (tessera_side)p->side, (tessera_uplo)p->uplo, p->m, p->n, VALUE_##letter(p->alpha), p->A, \
      p->lda, p->B, p->ldb, VALUE_##letter(p->beta), p->C, p->ldc)
#define OWN_RANK_K(routine, letter)                                                     \
  OWN(routine, letter, (tessera_uplo)p->uplo, (tessera_transpose)p->transa, p->n, p->k, \
      ALPHA_##routine(letter, p->alpha), p->A, p->lda, BETA_##routine(letter, p->beta), p->C, p->ldc)
#define OWN_RANK_2K(routine, letter)                                                                              \
  OWN(routine, letter, (tessera_uplo)p->uplo, (tessera_transpose)p->transa, p->n, p->k, VALUE_##letter(p->alpha), \
      p->A, p->lda, p->B, p->ldb, BETA_##routine(letter, p->beta), p->C, p->ldc)
#define OWN_TRIANGULAR(routine, letter)                                                            \
  OWN(routine, letter, (tessera_side)p->side, (tessera_uplo)p->uplo, (tessera_transpose)p->transa, \
      (tessera_diag)p->diag, p->m, p->n, VALUE_##letter(p->alpha), p->A, p->lda, p->B, p->ldb)

#define LIST(list, routine, letter) OWN_##list(routine, letter)
#define SYNONYM(spelling, routine, letter) /* the API has one name for each */
#define FORTRAN_CALL(letter, routine, spelling) own_column_call_##letter##routine
#define CBLAS_CALL(letter, routine, spelling) own_call_##letter##routine
#else
#define FORTRAN_CALL(letter, routine, spelling) fortran_call_##letter##spelling
#define CBLAS_CALL(letter, routine, spelling) cblas_call_##letter##spelling
#define LIST(list, routine, letter) list(routine, letter)
#define SYNONYM(spelling, routine, letter) GEMMT(spelling, letter)
#endif

#define TESSERA_ROUTINE(routine, list, letter, T) LIST(list, routine, letter)
#define TESSERA_SYNONYM(spelling, routine, letter, T) SYNONYM(spelling, routine, letter)
#include "calls/routines.def"

struct symbol {
  const char* routine;
  const char* letter;
  call_function fortran;
  call_function cblas;
};
static const struct symbol symbols[] = {
#define TESSERA_SYNONYM(spelling, routine, letter, T) \
  {#routine, #letter, FORTRAN_CALL(letter, routine, spelling), CBLAS_CALL(letter, routine, spelling)},
#define TESSERA_ROUTINE(routine, list, letter, T) \
  {#routine, #letter, FORTRAN_CALL(letter, routine, routine), CBLAS_CALL(letter, routine, routine)},
#include "calls/routines.def"
};
enum { symbol_count = sizeof(symbols) / sizeof(symbols[0]) };

#endif
