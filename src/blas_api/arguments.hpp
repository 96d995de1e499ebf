// Argument checks of the BLAS routines. A routine is described by its parameters in the order of its Fortran interface; one
// function walks such a description and finds the first bad position, as the reference BLAS does. Header-only and pure,
// because both libtessera.so (own API) and libtessera_blas.so (Fortran, CBLAS) check.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/scalar.hpp"

namespace tessera::api {

/// What stands at a position of a Fortran interface; `unchecked` are scalars and arrays.
enum class Parameter : std::uint8_t { transa, transb, m, n, k, lda, ldb, ldc, unchecked };

/// The checkable arguments of one call. An op that the caller's letter or number does not name is empty.
struct Arguments {
  std::optional<Op> op_a;
  std::optional<Op> op_b;
  index_t m = 0, n = 0, k = 0;
  index_t lda = 0, ldb = 0, ldc = 0;
  Layout layout = Layout::col_major;
};

/// A routine: its parameters, position 1 first, and how many elements lie along the leading dimension of an operand.
template <std::size_t count>
struct Signature {
  std::array<Parameter, count> parameters;
  index_t (*stored_run)(const Arguments&, Parameter leading_dimension);
};

/// Length of a column (column-major) or row (row-major) of A, B or C as gemm stores it. @pre the ops are valid
constexpr index_t gemm_stored_run(const Arguments& a, Parameter leading_dimension) {
  const bool col_major = a.layout == Layout::col_major;
  if (leading_dimension == Parameter::lda) return (*a.op_a == Op::no_trans) == col_major ? a.m : a.k;
  if (leading_dimension == Parameter::ldb) return (*a.op_b == Op::no_trans) == col_major ? a.k : a.n;
  return col_major ? a.m : a.n;
}

inline constexpr Signature<13> gemm_signature = {
    {Parameter::transa, Parameter::transb, Parameter::m, Parameter::n, Parameter::k, Parameter::unchecked,
     Parameter::unchecked, Parameter::lda, Parameter::unchecked, Parameter::ldb, Parameter::unchecked,
     Parameter::unchecked, Parameter::ldc},
    gemm_stored_run};

/// @return whether what stands at `parameter` is good, given that everything before it is
template <std::size_t count>
constexpr bool is_good(const Signature<count>& signature, const Arguments& a, Parameter parameter) {
  const auto spans = [&](index_t ld) {
    const index_t run = signature.stored_run(a, parameter);
    return ld >= (run > 1 ? run : 1);
  };
  switch (parameter) {
    case Parameter::transa:
      return a.op_a.has_value();
    case Parameter::transb:
      return a.op_b.has_value();
    case Parameter::m:
      return a.m >= 0;
    case Parameter::n:
      return a.n >= 0;
    case Parameter::k:
      return a.k >= 0;
    case Parameter::lda:
      return spans(a.lda);
    case Parameter::ldb:
      return spans(a.ldb);
    case Parameter::ldc:
      return spans(a.ldc);
    case Parameter::unchecked:
      break;
  }
  return true;
}

/// @return the position, from 1, of the first argument that the reference would complain about; 0: all are good
template <std::size_t count>
constexpr int first_bad_argument(const Signature<count>& signature, const Arguments& a) {
  // Unrolled, so that a call which is good pays for a few comparisons: programs make millions of tiny calls.
  int bad = 0;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    static_cast<void>(
        ((is_good(signature, a, signature.parameters[i]) || (bad = static_cast<int>(i) + 1, false)) && ...));
  }
  (std::make_index_sequence<count>());
  return bad;
}

/// N, T or C in either case.
constexpr std::optional<Op> op_from_letter(char letter) {
  switch (letter) {
    case 'N':
    case 'n':
      return Op::no_trans;
    case 'T':
    case 't':
      return Op::trans;
    case 'C':
    case 'c':
      return Op::conj_trans;
    default:
      return std::nullopt;
  }
}

/// Values of CBLAS_LAYOUT and CBLAS_TRANSPOSE, which the own API shares.
constexpr std::optional<Op> op_from_cblas(int value) {
  switch (value) {
    case 111:
      return Op::no_trans;
    case 112:
      return Op::trans;
    case 113:
      return Op::conj_trans;
    default:
      return std::nullopt;
  }
}
constexpr std::optional<Layout> layout_from_cblas(int value) {
  if (value == 101) return Layout::row_major;
  if (value == 102) return Layout::col_major;
  return std::nullopt;
}

}  // namespace tessera::api
