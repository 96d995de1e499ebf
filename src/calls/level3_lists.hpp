// The lists of arguments of the BLAS routines in Fortran, CBLAS and the own API, which routines.def names, and the values of a call.
//
// TESSERA_PARAMETERS_<list>(side, uplo, trans, diag, integer, alpha, in, beta, out) declares the parameters. Its arguments are their
// types: of the letters, of integers, of alpha, of matrices that are read, of beta, of the result. No type may contain a comma.
// TESSERA_PASSED_<list> passes them on, in the order of parameters.hpp. `+` makes a number of an enumerator of C, which may have any
// value.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "calls/arguments.hpp"

namespace tessera {

/// The scalars' types in the lists of arguments. They have no commas, because these separate the arguments of a macro.
template <Routine routine>
struct FactorsOf {
  template <Scalar T>
  using AlphaInFortran = const Alpha<routine, T>*;
  template <Scalar T>
  using BetaInFortran = const Beta<routine, T>*;
  template <Scalar T>
  using AlphaInC = CScalar<Alpha<routine, T>>;
  template <Scalar T>
  using BetaInC = CScalar<Beta<routine, T>>;
};

/// The values of a call in the order of the Fortran interface, as they were passed. Fortran passes addresses and letters, C values
/// and enumerators. Variables of the caller are referred to.
template <Routine routine, class... Values>
class Passed {
 public:
  [[gnu::always_inline]] constexpr explicit Passed(Values&&... values) : values_(std::forward<Values>(values)...) {}

  /// @pre passed by Fortran
  [[gnu::always_inline]] constexpr Arguments arguments() const {
    using enum Parameter;
    return {.side = letter<side, side_from_letter>(),
            .uplo = letter<uplo, uplo_from_letter>(),
            .op_a = letter<transa, op_from_letter>(),
            .op_b = letter<transb, op_from_letter>(),
            .diag = letter<diag, diag_from_letter>(),
            .m = number<m>(),
            .n = number<n>(),
            .k = number<k>(),
            .lda = number<lda>(),
            .ldb = number<ldb>(),
            .ldc = number<ldc>()};
  }
  /// The arguments that are no enumerators.
  [[gnu::always_inline]] constexpr Arguments sizes() const {
    using enum Parameter;
    return {.m = number<m>(),
            .n = number<n>(),
            .k = number<k>(),
            .lda = number<lda>(),
            .ldb = number<ldb>(),
            .ldc = number<ldc>()};
  }
  /// @pre passed by C
  [[gnu::always_inline]] constexpr CblasEnumerators enumerators() const {
    using enum Parameter;
    return {.side = enumerator<side>(),
            .uplo = enumerator<uplo>(),
            .transa = enumerator<transa>(),
            .transb = enumerator<transb>(),
            .diag = enumerator<diag>()};
  }
  [[gnu::always_inline]] constexpr Operands operands() const {
    using enum Parameter;
    constexpr bool in_place = is_triangular(routine);
    return {.alpha = address<alpha>(),
            .A = address<A>(),
            .B = in_place ? nullptr : address<B>(),
            .beta = address<beta>(),
            .C = const_cast<void*>(address < in_place ? B : C > ())};
  }

 private:
  template <Parameter parameter>
  [[gnu::always_inline]] constexpr const auto& at() const {
    return std::get<static_cast<std::size_t>(position_of(routine, parameter) - 1)>(values_);
  }
  template <Parameter parameter, auto from_letter>
  [[gnu::always_inline]] constexpr decltype(from_letter(' ')) letter() const {
    if constexpr (has(routine, parameter)) return from_letter(*at<parameter>());
    return {};
  }
  template <Parameter parameter>
  [[gnu::always_inline]] constexpr int enumerator() const {
    if constexpr (has(routine, parameter)) return static_cast<int>(at<parameter>());
    return 0;
  }
  template <Parameter parameter>
  [[gnu::always_inline]] constexpr index_t number() const {
    if constexpr (!has(routine, parameter))
      return 0;
    else if constexpr (requires { *at<parameter>(); })
      return *at<parameter>();
    else
      return at<parameter>();
  }
  template <Parameter parameter>
  [[gnu::always_inline]] constexpr const void* address() const {
    if constexpr (has(routine, parameter)) return address_of(at<parameter>());
    return nullptr;
  }

  std::tuple<Values...> values_;
};
template <Routine routine, class... Values>
[[gnu::always_inline]] constexpr Passed<routine, Values...> passed(Values&&... values) {
  return Passed<routine, Values...>(std::forward<Values>(values)...);
}

}  // namespace tessera

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
