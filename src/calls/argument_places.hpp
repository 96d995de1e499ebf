// The arguments of interfaces for device memory and for batches, by the parameters of their routines: where they stand, and their
// values. Each interface has the arguments of the routine in its own order behind a handle or a context. Bounds of sizes come before the
// first size. A stride comes behind the argument that it belongs to, and the number of problems behind all of these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "calls/parameters.hpp"

namespace tessera {

/// How a function describes its problems: one, or a batch at addresses in arrays, at strides, or with sizes in arrays, too.
enum class Form : std::uint8_t { single, pointers, strides, sizes };

/// The parameter that the stride of a matrix or of pivots stands behind.
constexpr Parameter before_stride(Parameter matrix) {
  if (matrix == Parameter::A) return Parameter::lda;
  if (matrix == Parameter::B) return Parameter::ldb;
  return matrix == Parameter::C ? Parameter::ldc : matrix;
}
constexpr bool is_matrix(Parameter parameter) {
  return parameter == Parameter::A || parameter == Parameter::B || parameter == Parameter::C;
}
constexpr bool has_stride(Parameter parameter) { return is_matrix(parameter) || parameter == Parameter::ipiv; }

/// How many of the routine's parameters before this one are of a kind. `none` stands behind the last.
template <class IsOfKind>
constexpr int count_before(Routine routine, Parameter parameter, IsOfKind is_of_kind) {
  int count = 0;
  for (const Parameter each : own_parameters_of(routine)) {
    if (each == parameter) break;
    count += is_of_kind(each) ? 1 : 0;
  }
  return count;
}
/// The place among those of its kind, from 0.
template <class IsOfKind>
constexpr std::size_t index_among(Routine routine, Parameter parameter, IsOfKind is_of_kind) {
  return static_cast<std::size_t>(count_before(routine, parameter, is_of_kind));
}

/// From 1, the handle or context. none: the number of problems.
constexpr int place_of(Form form, Routine routine, Parameter parameter) {
  const auto is_before_stride = [](Parameter each) { return is_leading_dimension(each) || each == Parameter::ipiv; };
  int place = 2 + count_before(routine, parameter, [](Parameter) { return true; });
  if (form == Form::strides) place += count_before(routine, parameter, is_before_stride);
  if (form == Form::sizes && (is_size(parameter) || count_before(routine, parameter, is_size) > 0))
    place += count_before(routine, Parameter::none, is_size);
  return place;
}
/// Of a value that the host knows: in place of a size in arrays, its bound.
constexpr int place_of_value(Form form, Routine routine, Parameter parameter) {
  const bool is_bound = form == Form::sizes && is_size(parameter);
  return place_of(form, routine, parameter) - (is_bound ? count_before(routine, Parameter::none, is_size) : 0);
}
static_assert(place_of(Form::pointers, Routine::gemm, Parameter::none) == 15);
static_assert(place_of(Form::strides, Routine::gemm, Parameter::none) == 18);
static_assert(place_of(Form::sizes, Routine::gemm, Parameter::none) == 18);
static_assert(place_of(Form::sizes, Routine::syrk, Parameter::n) == 6);
static_assert(place_of(Form::strides, Routine::gesv, Parameter::none) == 13);
static_assert(place_of(Form::sizes, Routine::getrs, Parameter::info) == 12);

/// Values by the parameters that they are of.
template <class T>
struct ByParameter {
  std::array<T, parameter_count> values{};
  T& operator[](Parameter parameter) { return values[static_cast<std::size_t>(parameter)]; }
  const T& operator[](Parameter parameter) const { return values[static_cast<std::size_t>(parameter)]; }
};

}  // namespace tessera
