// The lists of arguments of the BLAS routines in Fortran, CBLAS and the own API, which routines.def names.
//
// TESSERA_PARAMETERS_<list>(side, uplo, trans, diag, integer, alpha, in, beta, out) declares the parameters: the types of the letters,
// of integers, of alpha, of matrices that are read, of beta, and of the result. No type may contain a comma.
// TESSERA_PASSED_<list> passes them on, in the order of parameters.hpp. `+` makes a number of an enumerator of C, which may have any
// value.
#pragma once

#define TESSERA_PARAMETERS_GEMM(side_, uplo_, trans_, diag_, integer, alpha_, in, beta_, out)                        \
  trans_ transa, trans_ transb, integer m, integer n, integer k, alpha_ alpha, in A, integer lda, in B, integer ldb, \
      beta_ beta, out C, integer ldc
#define TESSERA_PASSED_GEMM +transa, +transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc

#define TESSERA_PARAMETERS_GEMMT(side_, uplo_, trans_, diag_, integer, alpha_, in, beta_, out)                        \
  uplo_ uplo, trans_ transa, trans_ transb, integer n, integer k, alpha_ alpha, in A, integer lda, in B, integer ldb, \
      beta_ beta, out C, integer ldc
#define TESSERA_PASSED_GEMMT +uplo, +transa, +transb, n, k, alpha, A, lda, B, ldb, beta, C, ldc

#define TESSERA_PARAMETERS_SIDED(side_, uplo_, trans_, diag_, integer, alpha_, in, beta_, out)                         \
  side_ side, uplo_ uplo, integer m, integer n, alpha_ alpha, in A, integer lda, in B, integer ldb, beta_ beta, out C, \
      integer ldc
#define TESSERA_PASSED_SIDED +side, +uplo, m, n, alpha, A, lda, B, ldb, beta, C, ldc

#define TESSERA_PARAMETERS_RANK_K(side_, uplo_, trans_, diag_, integer, alpha_, in, beta_, out) \
  uplo_ uplo, trans_ trans, integer n, integer k, alpha_ alpha, in A, integer lda, beta_ beta, out C, integer ldc
#define TESSERA_PASSED_RANK_K +uplo, +trans, n, k, alpha, A, lda, beta, C, ldc

#define TESSERA_PARAMETERS_RANK_2K(side_, uplo_, trans_, diag_, integer, alpha_, in, beta_, out)                  \
  uplo_ uplo, trans_ trans, integer n, integer k, alpha_ alpha, in A, integer lda, in B, integer ldb, beta_ beta, \
      out C, integer ldc
#define TESSERA_PASSED_RANK_2K +uplo, +trans, n, k, alpha, A, lda, B, ldb, beta, C, ldc

#define TESSERA_PARAMETERS_TRIANGULAR(side_, uplo_, trans_, diag_, integer, alpha_, in, beta_, out)                \
  side_ side, uplo_ uplo, trans_ transa, diag_ diag, integer m, integer n, alpha_ alpha, in A, integer lda, out B, \
      integer ldb
#define TESSERA_PASSED_TRIANGULAR +side, +uplo, +transa, +diag, m, n, alpha, A, lda, B, ldb
