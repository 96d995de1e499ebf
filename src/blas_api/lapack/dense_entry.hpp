// What the symbols of LAPACK do that a device may solve whole (core/dense_interface.hpp): what is plainly such a problem goes
// down to libtessera.so, everything else on to the next definition, with the caller's own arguments.
//
// All arguments are addresses, and behind them stand the lengths of those that are letters.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "blas_api/lapack/next_symbol.hpp"
#include "core/dense_interface.hpp"

namespace tessera::lapack {

/// One routine in one spelling.
struct DenseSymbol {
  DenseEntry entry;
  ScalarType type;
  const char* name;  ///< without prefix and suffix
  LapackFace& face;
  /// Calls `next` with the arguments of one call.
  void (*pass_on)(void* next, std::span<void* const> arguments, std::span<const std::size_t> lengths);
  NextSymbol next = {};
};

/// @param caller an address in the code that calls @throws what an error handler of the program throws
void enter(DenseSymbol& symbol, std::span<void* const> arguments, std::span<const std::size_t> lengths, void* caller);

/// Whether the interface has so many.
constexpr bool fits(DenseEntry entry, ScalarType type, std::size_t arguments, std::size_t letters) {
  const DenseParameters parameters = dense_parameters_of(entry, is_complex(type));
  return letters_of(entry) == letters && (parameters[arguments - 1] == DenseParameter::info) == has_info(entry) &&
         parameters[arguments - 1] != DenseParameter::none && parameters[arguments] == DenseParameter::none;
}

/// Of a function with so many arguments and letters.
template <std::size_t arguments, std::size_t letters>
void pass_on(void* next, std::span<void* const> values, std::span<const std::size_t> lengths) {
  [&]<std::size_t... i, std::size_t... j>(std::index_sequence<i...>, std::index_sequence<j...>) {
    reinterpret_cast<void (*)(decltype(static_cast<void>(i), static_cast<void*>(nullptr))...,
                              decltype(static_cast<void>(j), std::size_t{})...)>(next)(values[i]..., lengths[j]...);
  }
  (std::make_index_sequence<arguments>(), std::make_index_sequence<letters>());
}

}  // namespace tessera::lapack
