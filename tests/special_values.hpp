// Numbers for which arithmetic has exceptions (IEEE 754, chapters 6 and 7), and their places in the matrices of tests.
#pragma once

#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "core/scalar.hpp"

namespace tessera::test {

enum class SpecialValue : std::uint8_t { nan, infinity, minus_infinity, minus_zero, subnormal, huge };

/// Values whose results are not finite, or may not be.
inline constexpr SpecialValue not_finite[] = {SpecialValue::nan, SpecialValue::infinity, SpecialValue::minus_infinity};
/// Values with which results are as accurate as with any other number.
inline constexpr SpecialValue unusual_but_finite[] = {SpecialValue::minus_zero, SpecialValue::subnormal};

constexpr const char* name_of(SpecialValue value) {
  constexpr const char* names[] = {"NaN", "Inf", "-Inf", "-0", "subnormal", "huge"};
  return names[static_cast<int>(value)];
}

/// A complex one has an ordinary imaginary part.
template <Scalar T>
T special(SpecialValue value) {
  using Limits = std::numeric_limits<decltype(std::abs(T{}))>;
  const std::array<double, 6> values = {
      std::numeric_limits<double>::quiet_NaN(),      std::numeric_limits<double>::infinity(),
      -std::numeric_limits<double>::infinity(),      -0.0,
      static_cast<double>(Limits::denorm_min()) * 5, static_cast<double>(Limits::max()) / 4096};
  const double real = values[static_cast<std::size_t>(value)];
  const bool is_small = value == SpecialValue::minus_zero || value == SpecialValue::subnormal;
  return scalar_cast<T>(AnyScalar(real, is_complex(scalar_type_of<T>()) ? (is_small ? real : 0.25) : 0));
}

template <Scalar T>
bool is_finite(const T& value) {
  return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
}

/// On the diagonal, below and above it, in the first tile, between, and in the last.
inline std::array<std::pair<index_t, index_t>, 9> places(index_t rows, index_t columns) {
  const index_t i = rows - 1, j = columns - 1, least = std::min(i, j);
  return {
      {{0, 0}, {least / 2, least / 2}, {least, least}, {i / 2, 0}, {i, 0}, {i, j / 2}, {0, j / 2}, {0, j}, {i / 2, j}}};
}

}  // namespace tessera::test
