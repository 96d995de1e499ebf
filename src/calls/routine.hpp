// Every routine that Tessera computes, once: the names that it has, and what distinguishes it from others. All that is said of
// routines by number (rules, rates, counters, tables of functions) is indexed by Routine, whose order means nothing.
//
// parameters.hpp says what follows from the interfaces of the routines; level3.hpp and lapack_call.hpp have their operands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "calls/parameter.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// Those of complex types give the names where LAPACK has two: heevd stands for syevd, ungqr for orgqr.
/// getrf_nopiv: LU without interchanges, in which tiny pivots may be replaced; of batches alone, as is laswp.
enum class Routine : std::uint8_t {
  gemm,
  symm,
  hemm,
  syrk,
  herk,
  syr2k,
  her2k,
  trmm,
  trsm,
  gemmt,
#define TESSERA_LAPACK_ROUTINE(routine, ...) routine,
#include "calls/lapack_routines.def"
#undef TESSERA_LAPACK_ROUTINE
};
inline constexpr int routine_count = 10
#define TESSERA_LAPACK_ROUTINE(...) +1
#include "calls/lapack_routines.def"
#undef TESSERA_LAPACK_ROUTINE
    ;

/// How devices compute a call.
enum class Way : std::uint8_t {
  level3,   ///< as tile products
  factors,  ///< as a factorization by tiles, as solves, or as both
  whole,    ///< one device solves the problem in its own memory
  batches,  ///< there are no calls of it, only batches
  as_other  ///< as another routine, whose interface is another one (RoutineRow::computed_as)
};

/// The properties of routines.
enum Trait : std::uint32_t {
  complex_only = 1 << 0,
  rank_update = 1 << 1,        ///< of Level 3
  two_operations = 1 << 2,     ///< A and B each have an op
  one_triangle = 1 << 3,       ///< of C, which is square, is read and written
  in_place_of_b = 1 << 4,      ///< the result of Level 3 is B of the interface
  hermitian = 1 << 5,          ///< a matrix is, or is taken to be
  factoring = 1 << 6,          ///< A is replaced by its factors, before anything is solved
  solving = 1 << 7,            ///< by factors, for right-hand sides B
  inverting = 1 << 8,          ///< A, by its factors
  eigenproblem = 1 << 9,       ///< of a Hermitian matrix
  singular_vectors = 1 << 10,  ///< A is replaced by nothing that anybody needs
  singular_values = 1 << 11,   ///< are found on the way
  least_squares = 1 << 12,     ///< A need not be square
  reflecting = 1 << 13,        ///< B becomes a product with reflectors in A
  inverse = 1 << 14,           ///< of a triangle, or by one; a zero on its diagonal ends it
  iterating = 1 << 15,         ///< until numbers have converged, if they do
  scaling = 1 << 16,           ///< LAPACK scales A, or B, by its norm
  batched = 1 << 17,           ///< of LAPACK's there are batches
  rectangular = 1 << 18,       ///< m and n differ
  counted = 1 << 19,           ///< right-hand sides or reflectors are, by k
  cpu_only = 1 << 20,          ///< no library of a GPU solves it
  in_rows = 1 << 21,           ///< reflectors are rows of A, as those of LQ are; else they are columns
  fortran_only = 1 << 22       ///< the own API has no function for it (cmake/lapack_symbols.cmake)
};

/// A routine. getrf_nopiv, which Fortran does not have, is getrf with `tiny` in place of pivots.
struct RoutineRow {
  Routine routine;
  Way way;
  const char* real;     ///< the name in real types, without the letter of the type
  const char* complex;  ///< likewise
  std::uint32_t traits;
  Parameters parameters;  ///< of Fortran; only complex types have rwork and lrwork, only real ones imaginary
  /// Part of a device's matrix rate at which its library works on large problems, if it solves them whole. One H200, orders
  /// of 1000 to 4000 (docs/adr/0025-dense-problems.md); smaller problems are slower. Of gelsd, trtrs, larfb, lauum, unmlq and
  /// unmtr, which were not measured there, what their parts have. Without vectors, an eigenproblem reaches half of it.
  double part_of_rate;
  /// Seconds of each column beside its products, of what goes from column to column. Tiles: one H200 (docs/performance/h200-x1),
  /// dgetrf and dgeqrf of 8192 and 30000. The columns of a Cholesky factor are those of small blocks. Whole problems:
  /// docs/adr/0025-dense-problems.md.
  double column_s;
  /// Part of the rate of products on the CPU at which its LAPACK works. OpenBLAS 0.3.21 on 16 processors, orders of 2000 and
  /// 4000 (docs/adr/0013-starting-devices.md); of routines that were not measured, the part of what they are made of.
  double part_of_cpu;
  Routine computed_as;
};

inline constexpr std::array<RoutineRow, routine_count> routine_rows = [] {
  using enum Parameter;
  constexpr auto row = [](Routine routine, Way way, const char* real, const char* complex, std::uint32_t traits,
                          Parameters parameters) {
    return RoutineRow{routine, way, real, complex, traits, parameters, 1, 0, 1, routine};
  };
  return std::array<RoutineRow, routine_count>{
      row(Routine::gemm, Way::level3, "gemm", "gemm", two_operations,
          {transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc}),
      row(Routine::gemmt, Way::level3, "gemmt", "gemmt", two_operations | one_triangle,
          {uplo, transa, transb, n, k, alpha, A, lda, B, ldb, beta, C, ldc}),
      row(Routine::symm, Way::level3, "symm", "symm", 0, {side, uplo, m, n, alpha, A, lda, B, ldb, beta, C, ldc}),
      row(Routine::hemm, Way::level3, "hemm", "hemm", complex_only | hermitian,
          {side, uplo, m, n, alpha, A, lda, B, ldb, beta, C, ldc}),
      row(Routine::syrk, Way::level3, "syrk", "syrk", rank_update | one_triangle,
          {uplo, transa, n, k, alpha, A, lda, beta, C, ldc}),
      row(Routine::herk, Way::level3, "herk", "herk", rank_update | one_triangle | complex_only | hermitian,
          {uplo, transa, n, k, alpha, A, lda, beta, C, ldc}),
      row(Routine::syr2k, Way::level3, "syr2k", "syr2k", rank_update | one_triangle,
          {uplo, transa, n, k, alpha, A, lda, B, ldb, beta, C, ldc}),
      row(Routine::her2k, Way::level3, "her2k", "her2k", rank_update | one_triangle | complex_only | hermitian,
          {uplo, transa, n, k, alpha, A, lda, B, ldb, beta, C, ldc}),
      row(Routine::trmm, Way::level3, "trmm", "trmm", in_place_of_b,
          {side, uplo, transa, diag, m, n, alpha, A, lda, B, ldb}),
      row(Routine::trsm, Way::level3, "trsm", "trsm", in_place_of_b,
          {side, uplo, transa, diag, m, n, alpha, A, lda, B, ldb}),
#define TESSERA_LAPACK_ROUTINE(routine, way, real, complex, traits, part_of_rate, column_s, part_of_cpu, computed_as, \
                               ...)                                                                                   \
  RoutineRow{Routine::routine, Way::way,     #real,    #complex,    traits,                                           \
             {__VA_ARGS__},    part_of_rate, column_s, part_of_cpu, Routine::computed_as},
#include "calls/lapack_routines.def"
#undef TESSERA_LAPACK_ROUTINE
  };
}();

constexpr std::size_t number_of(Routine routine) { return static_cast<std::size_t>(routine); }

namespace detail {
/// By routine: the number of its row, and its traits, which small calls look at. Loops, because nvcc 13.0 fails in the standard
/// library's algorithms where they are evaluated by the compiler.
inline constexpr auto rows_by_routine = [] {
  std::array<std::uint8_t, routine_count> rows{};
  for (std::uint8_t row = 0; row < routine_count; ++row) rows[number_of(routine_rows[row].routine)] = row;
  return rows;
}();
inline constexpr bool every_routine_has_a_row = [] {
  for (std::size_t number = 0; number < routine_count; ++number) {
    if (number_of(routine_rows[rows_by_routine[number]].routine) != number) return false;
  }
  return true;
}();
static_assert(every_routine_has_a_row);
inline constexpr auto traits_by_routine = [] {
  std::array<std::uint32_t, routine_count> traits{};
  for (const RoutineRow& row : routine_rows) traits[number_of(row.routine)] = row.traits;
  return traits;
}();
/// By routine, of real types and of complex ones.
inline constexpr auto parameters_by_routine = [] {
  std::array<std::array<Parameters, 2>, routine_count> lists{};
  for (const RoutineRow& row : routine_rows) {
    std::size_t reals = 0, complexes = 0;
    for (const Parameter parameter : row.parameters) {
      if (parameter != Parameter::rwork && parameter != Parameter::lrwork)
        lists[number_of(row.routine)][0][reals++] = parameter;
      if (parameter != Parameter::imaginary) lists[number_of(row.routine)][1][complexes++] = parameter;
    }
  }
  return lists;
}();
constexpr std::size_t count_of(Way way) {
  std::size_t count = 0;
  for (const RoutineRow& row : routine_rows) count += row.way == way ? 1 : 0;
  return count;
}
}  // namespace detail

constexpr const RoutineRow& row_of(Routine routine) {
  return routine_rows[detail::rows_by_routine[number_of(routine)]];
}
constexpr bool is(Routine routine, Trait trait) { return (detail::traits_by_routine[number_of(routine)] & trait) != 0; }

/// The routines that are computed in one way, in the order of their rows.
template <Way way>
inline constexpr auto routines_of = [] {
  std::array<Routine, detail::count_of(way)> routines{};
  std::size_t next = 0;
  for (const RoutineRow& row : routine_rows) {
    if (row.way == way) routines[next++] = row.routine;
  }
  return routines;
}();
/// The ten of Level 3.
inline constexpr const auto& level3_routines = routines_of<Way::level3>;

/// f.operator()<routine>(), of a routine of Level 3 that is known at run time only.
template <class F>
constexpr auto dispatch_level3(Routine routine, F&& f) {
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    decltype(f.template operator()<Routine::gemm>()) result{};
    static_cast<void>(
        ((routine == level3_routines[i] && (result = f.template operator()<level3_routines[i]>(), true)) || ...));
    return result;
  }
  (std::make_index_sequence<level3_routines.size()>());
}

constexpr bool exists(Routine routine, ScalarType type) { return is_complex(type) || !is(routine, complex_only); }
/// Without the letter of the type: "syevd" or "heevd".
constexpr const char* name_of(Routine routine, ScalarType type = ScalarType::d) {
  return is_complex(type) ? row_of(routine).complex : row_of(routine).real;
}
/// Of LAPACK, not of BLAS.
constexpr bool is_lapack(Routine routine) { return row_of(routine).way != Way::level3; }

/// A has m rows; else n.
constexpr bool has_m(Routine routine) { return is(routine, rectangular); }
constexpr bool is_hermitian(Routine routine) { return is(routine, hermitian); }
constexpr bool is_rank_update(Routine routine) { return is(routine, rank_update); }
constexpr bool has_op_b(Routine routine) { return is(routine, two_operations); }
constexpr bool updates_triangle(Routine routine) { return is(routine, one_triangle); }
constexpr bool is_triangular(Routine routine) { return is(routine, in_place_of_b); }

constexpr bool factors(Routine routine) { return is(routine, factoring); }
constexpr bool solves(Routine routine) { return is(routine, solving); }
constexpr bool inverts(Routine routine) { return is(routine, inverting); }
/// Not only arguments can be wrong, so that somebody must be told.
constexpr bool needs_info(Routine routine) { return factors(routine) || inverts(routine); }

constexpr bool is_eigenproblem(Routine routine) { return is(routine, eigenproblem); }
constexpr bool is_svd(Routine routine) { return is(routine, singular_vectors); }
constexpr bool is_least_squares(Routine routine) { return is(routine, least_squares); }
constexpr bool finds_singular_values(Routine routine) { return is(routine, singular_values); }
constexpr bool multiplies_by_reflectors(Routine routine) { return is(routine, reflecting); }
constexpr bool is_inverse(Routine routine) { return is(routine, inverse); }
constexpr bool iterates(Routine routine) { return is(routine, iterating); }

/// Whether a setting that names a routine means this one in this type: "trsm" in all its types, "dtrsm" in one; "syevd" or "heevd".
constexpr bool is_called(Routine routine, ScalarType type, std::string_view spelt) {
  const RoutineRow& row = row_of(routine);
  if (row.way == Way::as_other || !exists(routine, type) || spelt.empty()) return false;
  if (spelt == row.real || spelt == row.complex) return true;
  return spelt.front() == letter(type) && spelt.substr(1) == name_of(routine, type);
}
/// Of a routine, in all its types or in one.
constexpr bool is_routine_name(std::string_view name) {
  for (const RoutineRow& row : routine_rows) {
    for (const ScalarType type : scalar_types) {
      if (is_called(row.routine, type, name)) return true;
    }
  }
  return false;
}

}  // namespace tessera
