// Small calls of LAPACK: by their sizes alone they are the CPU's, so that nothing else is looked at. To read all arguments of a
// problem of 3 x 3 takes longer than to solve it, and programs solve millions of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "blas_api/lapack/next_symbol.hpp"
#include "calls/arguments.hpp"
#include "calls/nonfinite_problem.hpp"
#include "calls/parameters.hpp"
#include "calls/routine.hpp"

namespace tessera::lapack {

/// The arguments of a routine that tell whether a call is small, by their positions from 1; 0: it has none such.
struct SmallCallPlaces {
  std::array<int, 4> sizes{};
  std::array<int, 3> lengths{};  ///< of workspaces, which a call may ask for
  /// A and B of routines that iterate, with their leading dimensions
  std::array<std::array<int, 2>, 2> matrices{};
  int triangle = 0;  ///< the letter for that of these matrices
  bool is_iterating = false;

  static constexpr SmallCallPlaces of(Routine routine, bool is_complex) {
    using enum Parameter;
    const auto at = [&](Parameter parameter) { return position_in(parameters_of(routine, is_complex), parameter); };
    SmallCallPlaces places = {{at(m), at(n), at(k), at(nrhs)}, {at(lwork), at(lrwork), at(liwork)}};
    places.is_iterating = iterates(row_of(routine).computed_as);
    if (!places.is_iterating) return places;
    places.matrices = {{{at(A), at(lda)}, {is_eigenproblem(routine) ? at(B) : 0, at(ldb)}}};
    places.triangle = at(uplo);
    return places;
  }
};

constexpr index_t most_small_size = 63;

/// No routine has more multiply-adds for sizes up to this one.
constexpr index_t volume_of_small(const SmallCallPlaces& places, index_t largest) {
  return (places.is_iterating ? 13 : 4) * largest * largest * largest;
}

/// @param bits of the program's integers
/// @return the largest size of a call that asks for something to be computed, and on which no routine iterates without end; 0: it
/// has to be looked at
inline index_t small_size(const SmallCallPlaces& places, ScalarType type, std::span<void* const> arguments, int bits) {
  const auto number = [&](int place) { return read_integer(arguments[static_cast<std::size_t>(place - 1)], bits); };
  index_t largest = 0;
  for (const int place : places.sizes) {
    if (place == 0) continue;
    const index_t size = number(place);
    if (size < 1 || size > most_small_size) return 0;
    largest = std::max(largest, size);
  }
  for (const int place : places.lengths) {
    if (place != 0 && number(place) < 1) return 0;
  }
  const auto letter = [&](int place) {
    return *static_cast<const char*>(arguments[static_cast<std::size_t>(place - 1)]);
  };
  const std::optional<Uplo> uplo = places.triangle != 0 ? uplo_from_letter(letter(places.triangle)) : std::nullopt;
  if (places.triangle != 0 && !uplo) return 0;
  for (const auto& [matrix, ld] : places.matrices) {
    if (matrix == 0) continue;
    const index_t m = number(places.sizes[places.sizes[0] != 0 ? 0 : 1]), n = number(places.sizes[1]);
    LapackOperand operand;
    operand.address = static_cast<std::byte*>(arguments[static_cast<std::size_t>(matrix - 1)]);
    operand.read_rows = m;
    operand.read_cols = n;
    operand.ld = number(ld);
    operand.element_bytes = static_cast<index_t>(element_bytes(type));
    operand.read_part = uplo ? part_of(*uplo) : Part::full;
    if (operand.ld < m || nonfinite_elements(operand, type).first_minor != 0) return 0;
  }
  return largest;
}

}  // namespace tessera::lapack
