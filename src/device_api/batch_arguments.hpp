// Shared by the C entry points of batches, for Level 3 (batch_api.cpp) and LAPACK (lapack_api.cpp): the derivation of
// their argument lists from the Fortran interfaces, and checks of the arguments that only batches have.
//
// Every function has the arguments of the Fortran interface in its order, behind the handle. Bounds of sizes come
// before the first size. A stride comes behind the argument that it belongs to.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "calls/arguments.hpp"
#include "calls/lapack.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::device_api {

/// How a batch describes its problems.
enum class Form { pointers, strides, sizes };

constexpr bool is_before_stride(Parameter parameter) {
  return is_leading_dimension(parameter) || parameter == Parameter::ipiv;
}

constexpr int count_sizes(const Parameters& parameters) {
  int count = 0;
  for (const Parameter parameter : parameters) count += is_size(parameter) ? 1 : 0;
  return count;
}

/// From 1, the handle. none: batch_count.
constexpr int place_in(const Parameters& parameters, Form form, Parameter parameter) {
  int place = 1;
  bool behind_bounds = false;
  for (const Parameter each : parameters) {
    ++place;
    if (form == Form::sizes && is_size(each) && !behind_bounds) {
      behind_bounds = true;
      place += count_sizes(parameters);
    }
    if (each == parameter) break;
    if (form == Form::strides && is_before_stride(each)) ++place;
  }
  return place;
}

/// Values by the parameters that they are of.
template <class T>
struct ByParameter {
  std::array<T, parameter_count> values{};
  T& operator[](Parameter parameter) { return values[static_cast<std::size_t>(parameter)]; }
  const T& operator[](Parameter parameter) const { return values[static_cast<std::size_t>(parameter)]; }
};

/// An enumerator from C, which may have any value. It must not be read from memory as a C++ enumeration.
struct Enumerator {
  int value;
};

/// The values of a call for the arguments of the Fortran interface.
struct Given {
  ByParameter<int> enumerators;
  ByParameter<kernels::NumberOfEach> numbers;
  ByParameter<const void*> addresses;  ///< of scalars, matrices, or arrays of them

  template <Parameter parameter, class T>
  void take(const T& value) {
    if constexpr (std::is_same_v<T, Enumerator>) {
      enumerators[parameter] = value.value;
    } else if constexpr (std::is_integral_v<T>) {
      numbers[parameter] = {.of_all = value};
    } else if constexpr (is_number(parameter)) {
      numbers[parameter] = {.of_each = value, .is_wide = sizeof(*value) == sizeof(std::int64_t)};
    } else {
      addresses[parameter] = value;
    }
  }
};

/// @param values in the order of the Fortran interface
template <auto parameters, class... Values>
auto given_in_order(const Values&... values) {
  static_assert(sizeof...(values) == count_of(parameters));
  Given all;
  [&]<std::size_t... i>(std::index_sequence<i...>) { (all.template take<parameters[i]>(values), ...); }
  (std::index_sequence_for<Values...>{});
  return all;
}

/// @param alignment in bytes
inline void require_aligned(const void* address, std::size_t alignment, int place, const std::string& name) {
  require_argument(is_aligned(address, alignment), place, (name + " is not aligned to its elements").c_str());
}
inline void require_array(const void* address, std::size_t alignment, int place, const std::string& name) {
  require_argument(address != nullptr, place, (name + " is null").c_str());
  require_aligned(address, alignment, place, name);
}
/// Checks an array of numbers, one per problem.
inline void require_numbers(const kernels::NumberOfEach& numbers, int place, const std::string& name) {
  require_array(numbers.of_each, numbers.is_wide ? sizeof(std::int64_t) : sizeof(int), place, name);
}

/// Checks that arrays of so many entries fit the address space.
inline void require_possible_count(index_t count, int place) {
  require_argument(count >= 0, place, "batch_count is negative");
  require_argument(count <= most_elements<std::complex<double>>, place, "arrays are larger than any memory");
}

/// Checks that so many matrices fit the address space. @pre require_possible_count()
inline void require_possible_stride(index_t stride, std::size_t element_bytes, index_t count, int place) {
  if (count == 0) return;
  const index_t most = std::numeric_limits<index_t>::max() / static_cast<index_t>(element_bytes) / count;
  require_argument(stride <= most && stride >= -most, place, "the stride leads beyond any memory");
}

/// Matrices at the addresses in an array or, by strides, from the first one on. A null address has no strides.
inline kernels::UntypedMatrixOfEach matrix_of_each(Form form, const void* address, index_t stride) {
  if (form != Form::strides) return {.of_each = address};
  return {.first = address, .distance = address != nullptr ? stride : 0};
}

}  // namespace tessera::device_api
