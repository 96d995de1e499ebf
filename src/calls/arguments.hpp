// Arguments of the BLAS routines: their checks, and the call (calls/level3.hpp) that good ones make. A routine is
// described by its parameters in the order of its Fortran interface; one function walks such a description and finds
// the first bad position, as the reference BLAS does. Header-only and pure, because both libtessera.so (own API) and
// libtessera_blas.so (Fortran, CBLAS) check.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "calls/level3.hpp"
#include "calls/parameters.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// The checkable arguments of one call. An enumerator is empty if the caller's letter or number names none, or if the
/// routine has none. The triangular routines have their result in B.
struct Arguments {
  Layout layout = Layout::col_major;
  std::optional<Side> side = {};
  std::optional<Uplo> uplo = {};
  std::optional<Op> op_a = {};
  std::optional<Op> op_b = {};
  std::optional<Diag> diag = {};
  index_t m = 0, n = 0, k = 0;
  index_t lda = 0, ldb = 0, ldc = 0;
};

/// The addresses in one call; null: the routine has none such. The result of the triangular routines is C here.
struct Operands {
  const void* alpha = nullptr;
  const void* A = nullptr;
  const void* B = nullptr;
  const void* beta = nullptr;
  void* C = nullptr;
};

/// Rank updates of a complex symmetric matrix know no conjugate transpose, those of a Hermitian one no plain transpose.
constexpr bool allows(Routine routine, bool is_complex, Op op) {
  if (!is_rank_update(routine) || !is_complex) return true;
  return op != (is_hermitian(routine) ? Op::trans : Op::conj_trans);
}

/// Length of a column (column-major) or row (row-major) of the operand whose leading dimension is asked for, as it is
/// stored.
/// @pre the enumerators that the routine has are valid
constexpr index_t stored_run(Routine routine, const Arguments& a, Parameter leading_dimension) {
  const bool is_c = leading_dimension == Parameter::ldc;
  index_t rows = a.m, cols = a.n;  // of B and C where nothing else is said
  bool transposed = false;
  if (updates_triangle(routine)) rows = a.n;
  if (has_op_b(routine)) {
    if (leading_dimension == Parameter::lda) cols = a.k, transposed = *a.op_a != Op::no_trans;
    if (leading_dimension == Parameter::ldb) rows = a.k, transposed = *a.op_b != Op::no_trans;
  } else if (is_rank_update(routine)) {
    if (!is_c) cols = a.k, transposed = *a.op_a != Op::no_trans;
  } else if (leading_dimension == Parameter::lda) {
    rows = cols = *a.side == Side::left ? a.m : a.n;
  }
  return (a.layout == Layout::col_major) != transposed ? rows : cols;
}

/// @return whether what stands at `parameter` is good, given that everything before it is
template <Routine routine, bool is_complex, Parameter parameter>
[[gnu::always_inline]] constexpr bool is_good(const Arguments& a) {
  const auto spans = [&](index_t ld) {
    const index_t run = stored_run(routine, a, parameter);
    return ld >= (run > 1 ? run : 1);
  };
  switch (parameter) {
    case Parameter::side:
      return a.side.has_value();
    case Parameter::uplo:
      return a.uplo.has_value();
    case Parameter::transa:
      return a.op_a.has_value() && allows(routine, is_complex, *a.op_a);
    case Parameter::transb:
      return a.op_b.has_value();
    case Parameter::diag:
      return a.diag.has_value();
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
    default:
      return true;
  }
}

/// Calls f.operator()<parameter>() for each position of the routine, in order, until one call returns false. Unrolled,
/// because programs make millions of tiny calls: what is known of a routine costs nothing then.
template <Routine routine, class F>
[[gnu::always_inline]] constexpr void for_each_parameter(F&& f) {
  constexpr Parameters parameters = parameters_of(routine);
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    static_cast<void>((f.template operator()<parameters[i]>() && ...));
  }
  (std::make_index_sequence<count_of(parameters)>());
}

/// @return the position, from 1, of the first argument that the reference would complain about; 0: all are good
template <Routine routine, bool is_complex>
[[gnu::always_inline]] constexpr int first_bad_argument(const Arguments& a) {
  int bad = 0;
  for_each_parameter<routine>([&]<Parameter parameter>() __attribute__((always_inline)) {
    const bool good = is_good<routine, is_complex, parameter>(a);
    if (!good) bad = position_of(routine, parameter);
    return good;
  });
  return bad;
}

/// The arguments of the column-major call that reads and writes the same memory to the same end: every stored matrix
/// becomes its transpose. A Hermitian matrix becomes its conjugate by that, which op_a of herk and her2k and her2k's
/// alpha (level3_of) make good. Enumerators that are empty stay so. An op that a rank update does not have becomes
/// no_trans, as in the reference.
[[gnu::always_inline]] constexpr Arguments in_column_major(Routine routine, Arguments a) {
  if (a.layout == Layout::col_major) return a;
  a.layout = Layout::col_major;
  if (a.side) a.side = *a.side == Side::left ? Side::right : Side::left;
  if (a.uplo) a.uplo = *a.uplo == Uplo::lower ? Uplo::upper : Uplo::lower;
  if (is_rank_update(routine)) {
    const Op other = is_hermitian(routine) ? Op::conj_trans : Op::trans;
    if (a.op_a) a.op_a = *a.op_a == Op::no_trans ? other : Op::no_trans;
    return a;
  }
  if (routine != Routine::gemmt) std::swap(a.m, a.n);
  if (has_op_b(routine)) {
    std::swap(a.op_a, a.op_b);
    std::swap(a.lda, a.ldb);
  }
  return a;
}

template <class T>
struct RealOf {
  using type = T;
};
template <class Real>
struct RealOf<std::complex<Real>> {
  using type = Real;
};

/// Types of the scalars: herk has real ones, her2k a real beta.
template <Routine routine, Scalar T>
using Alpha = std::conditional_t<routine == Routine::herk, typename RealOf<T>::type, T>;
template <Routine routine, Scalar T>
using Beta = std::conditional_t<is_rank_update(routine) && is_hermitian(routine), typename RealOf<T>::type, T>;

/// @param layout of the caller; `a` is in_column_major() @pre `a` passed first_bad_argument
template <Routine routine, Scalar T>
Level3 level3_of(Layout layout, const Arguments& a, const Operands& operands) {
  Level3 call = {.routine = routine, .type = scalar_type_of<T>()};
  if (a.side) call.side = *a.side;
  if (a.uplo) call.uplo = *a.uplo;
  if (a.op_a) call.op_a = *a.op_a;
  if (a.op_b) call.op_b = *a.op_b;
  if (a.diag) call.diag = *a.diag;
  call.m = updates_triangle(routine) ? a.n : a.m;
  call.n = a.n;
  call.k = a.k;
  call.alpha = *static_cast<const Alpha<routine, T>*>(operands.alpha);
  call.A = operands.A;
  call.lda = a.lda;
  call.B = operands.B;
  call.ldb = a.ldb;
  call.C = operands.C;
  call.ldc = a.ldc;
  if constexpr (is_triangular(routine)) {
    call.ldc = a.ldb;
    call.B = routine == Routine::trmm ? call.C : nullptr;
  } else {
    call.beta = *static_cast<const Beta<routine, T>*>(operands.beta);
  }
  if (layout == Layout::row_major) {
    if (has_op_b(routine)) std::swap(call.A, call.B);
    if (routine == Routine::her2k) call.alpha = std::conj(call.alpha);
  }
  return call;
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

/// The value that either case of its letter names.
template <class Enum>
constexpr std::optional<Enum> one_of_two(char letter, char first_letter, Enum first, char second_letter, Enum second) {
  const char capital = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  if (capital == first_letter) return first;
  if (capital == second_letter) return second;
  return std::nullopt;
}
constexpr std::optional<Side> side_from_letter(char c) { return one_of_two(c, 'L', Side::left, 'R', Side::right); }
constexpr std::optional<Uplo> uplo_from_letter(char c) { return one_of_two(c, 'U', Uplo::upper, 'L', Uplo::lower); }
constexpr std::optional<Diag> diag_from_letter(char c) { return one_of_two(c, 'N', Diag::non_unit, 'U', Diag::unit); }

/// Enumerators as CBLAS and the own API number them; 0 where a routine has none such.
struct CblasEnumerators {
  int side = 0, uplo = 0, transa = 0, transb = 0, diag = 0;
};

/// The value at `value - first` in the order of the enumeration.
template <class Enum>
constexpr std::optional<Enum> enumerator_from_cblas(int value, int first, int count) {
  if (value < first || value >= first + count) return std::nullopt;
  return static_cast<Enum>(value - first);
}
constexpr std::optional<Op> op_from_cblas(int value) { return enumerator_from_cblas<Op>(value, 111, 3); }
constexpr std::optional<Uplo> uplo_from_cblas(int value) { return enumerator_from_cblas<Uplo>(value, 121, 2); }
constexpr std::optional<Diag> diag_from_cblas(int value) { return enumerator_from_cblas<Diag>(value, 131, 2); }
constexpr std::optional<Side> side_from_cblas(int value) { return enumerator_from_cblas<Side>(value, 141, 2); }
constexpr std::optional<Layout> layout_from_cblas(int value) {
  if (value == 101) return Layout::row_major;
  if (value == 102) return Layout::col_major;
  return std::nullopt;
}

/// @param sizes the arguments that are no enumerators
constexpr Arguments arguments_from_cblas(Layout layout, const CblasEnumerators& e, Arguments sizes) {
  sizes.layout = layout;
  sizes.side = side_from_cblas(e.side);
  sizes.uplo = uplo_from_cblas(e.uplo);
  sizes.op_a = op_from_cblas(e.transa);
  sizes.op_b = op_from_cblas(e.transb);
  sizes.diag = diag_from_cblas(e.diag);
  return sizes;
}

/// In C, real scalars are passed by value, complex ones and their arrays by untyped address.
template <Scalar T>
using CScalar = std::conditional_t<std::floating_point<T>, T, const void*>;
template <Scalar T>
using CArray = std::conditional_t<std::floating_point<T>, T, void>;

/// The address of a scalar passed in C; null only if the caller passed null.
inline const void* address_of(const float& scalar) { return &scalar; }
inline const void* address_of(const double& scalar) { return &scalar; }
inline const void* address_of(const void* const& scalar) { return scalar; }

}  // namespace tessera
