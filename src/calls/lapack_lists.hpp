// The arguments of batches of LAPACK's routines, by the lists that device_lapack.h and lapack_batch.h name.
//
// TESSERA_ARGUMENTS_<list>(part) calls part(values, bounds, strides): the arguments of the routine's interface, the bounds of its sizes,
// and the strides, each in parentheses and in order. A part takes one of them. `+` makes a number of an enumerator of C, which may have
// any value.
#pragma once

#define TESSERA_LIST(...) __VA_ARGS__
#define TESSERA_VALUES(values, bounds, strides) TESSERA_LIST values
#define TESSERA_BOUNDS(values, bounds, strides) TESSERA_LIST bounds
#define TESSERA_STRIDES(values, bounds, strides) TESSERA_LIST strides

#define TESSERA_ARGUMENTS_CHOLESKY(part) part((+uplo, n, A, lda, info), (max_n), (stride_a))
#define TESSERA_ARGUMENTS_CHOLESKY_SOLVE(part) \
  part((+uplo, n, nrhs, A, lda, B, ldb, info), (max_n, max_nrhs), (stride_a, stride_b))
#define TESSERA_ARGUMENTS_LU(part) part((m, n, A, lda, ipiv, info), (max_m, max_n), (stride_a, stride_ipiv))
#define TESSERA_ARGUMENTS_LU_NOPIV(part) part((m, n, A, lda, tiny, info), (max_m, max_n), (stride_a))
#define TESSERA_ARGUMENTS_LU_SOLVE(part) \
  part((+trans, n, nrhs, A, lda, ipiv, B, ldb, info), (max_n, max_nrhs), (stride_a, stride_ipiv, stride_b))
#define TESSERA_ARGUMENTS_LU_FACTOR_SOLVE(part) \
  part((n, nrhs, A, lda, ipiv, B, ldb, info), (max_n, max_nrhs), (stride_a, stride_ipiv, stride_b))
#define TESSERA_ARGUMENTS_LU_INVERSE(part) part((n, A, lda, ipiv, info), (max_n), (stride_a, stride_ipiv))
#define TESSERA_ARGUMENTS_INTERCHANGES(part) part((n, A, lda, k1, k2, ipiv, incx), (max_n), (stride_a, stride_ipiv))
