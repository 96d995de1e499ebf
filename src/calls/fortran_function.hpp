// Calls of Fortran functions whose interface is known by numbers alone. All arguments are addresses, and behind them stand the
// lengths of those that are letters.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "calls/parameters.hpp"

namespace tessera {

/// Calls a function that has so many arguments and letters.
/// @pre values and lengths have as many elements
template <std::size_t arguments, std::size_t letters>
void pass_on(void* function, std::span<void* const> values, std::span<const std::size_t> lengths) {
  [&]<std::size_t... i, std::size_t... j>(std::index_sequence<i...>, std::index_sequence<j...>) {
    reinterpret_cast<void (*)(decltype(static_cast<void>(i), static_cast<void*>(nullptr))...,
                              decltype(static_cast<void>(j), std::size_t{})...)>(function)(values[i]..., lengths[j]...);
  }
  (std::make_index_sequence<arguments>(), std::make_index_sequence<letters>());
}

/// pass_on() for the interface of a routine of LAPACK.
using PassOn = void (*)(void* function, std::span<void* const> values, std::span<const std::size_t> lengths);
template <Routine routine, bool is_complex>
inline constexpr PassOn pass_on_of = pass_on<count_of(parameters_of(routine, is_complex)), letters_of(routine)>;

}  // namespace tessera
