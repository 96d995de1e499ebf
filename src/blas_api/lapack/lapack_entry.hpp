// The common code of all symbols of LAPACK in libtessera_lapack.so. Calls that may be for devices go
// down to libtessera.so. Argument errors, workspace queries and calls that do nothing go on to the next
// definition, with the caller's own arguments, so that xerbla and info are its own.
//
// All arguments are addresses, and behind them stand the lengths of those that are letters.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "blas_api/lapack/next_symbol.hpp"
#include "blas_api/lapack/small_call.hpp"
#include "calls/fortran_function.hpp"
#include "calls/lapack_fortran.hpp"

namespace tessera::lapack {

/// One routine in one spelling.
struct Symbol {
  Routine routine;
  ScalarType type;
  const char* name;  ///< without prefix and suffix
  LapackFace& face;
  /// Calls `next` with the arguments of one call.
  void (*pass_on)(void* next, std::span<void* const> arguments, std::span<const std::size_t> lengths);
  SmallCallPlaces small;
  NextSymbol next = {};
};

/// @param caller an address in the code that calls @throws what an error handler of the program throws
void enter(Symbol& symbol, std::span<void* const> arguments, std::span<const std::size_t> lengths, void* caller);

/// Whether the interface has so many.
constexpr bool fits(Routine routine, ScalarType type, std::size_t arguments, std::size_t letters) {
  const Parameters parameters = parameters_of(routine, is_complex(type));
  return letters_of(routine) == letters && (parameters[arguments - 1] == Parameter::info) == has_info(routine) &&
         parameters[arguments - 1] != Parameter::none && parameters[arguments] == Parameter::none;
}

}  // namespace tessera::lapack
