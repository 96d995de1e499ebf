// What the C entry points of batches have in common, Level 3's (batch_api.cpp) and LAPACK's (lapack_api.cpp): how their lists
// of arguments come from those of the Fortran interfaces, and checks of what belongs to a batch.
//
// Of every function the arguments that the Fortran interface has stand in its order, behind the handle; bounds of sizes
// come before the first size, and strides behind what they are of.
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

#include "core/arguments.hpp"
#include "core/lapack.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::device_api {

/// How problems are told apart.
enum class Form { pointers, strides, sizes };

constexpr bool is_size(Parameter parameter) {
  return parameter == Parameter::m || parameter == Parameter::n || parameter == Parameter::k;
}
constexpr bool is_leading_dimension(Parameter parameter) {
  return parameter == Parameter::lda || parameter == Parameter::ldb || parameter == Parameter::ldc;
}
/// Each problem may have its own.
constexpr bool is_number(Parameter parameter) { return is_size(parameter) || is_leading_dimension(parameter); }
constexpr bool is_before_stride(Parameter parameter) { return is_leading_dimension(parameter); }
constexpr bool is_before_stride(LapackParameter parameter) {
  return is_leading_dimension(parameter) || parameter == LapackParameter::ipiv;
}

template <class Parameters>
constexpr int count_parameters(const Parameters& parameters) {
  using Each = typename Parameters::value_type;
  return static_cast<int>(std::find(parameters.begin(), parameters.end(), Each::none) - parameters.begin());
}
template <class Parameters>
constexpr int count_sizes(const Parameters& parameters) {
  return static_cast<int>(
      std::count_if(parameters.begin(), parameters.end(), [](auto parameter) { return is_size(parameter); }));
}

/// From 1, the handle. none: batch_count.
template <class Parameters, class Parameter>
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
template <class Parameter, class T>
struct ByParameter {
  std::array<T, static_cast<std::size_t>(Parameter::none)> values{};
  T& operator[](Parameter parameter) { return values[static_cast<std::size_t>(parameter)]; }
  const T& operator[](Parameter parameter) const { return values[static_cast<std::size_t>(parameter)]; }
};

/// In C an enumeration may have any value, which as such must not be looked at in memory.
struct Enumerator {
  int value;
};

/// What a call was given where the Fortran interface has an argument.
template <class Parameter>
struct Given {
  ByParameter<Parameter, int> enumerators;
  ByParameter<Parameter, kernels::NumberOfEach> numbers;
  ByParameter<Parameter, const void*> addresses;  ///< of scalars, matrices, or arrays of them

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
  static_assert(sizeof...(values) == static_cast<std::size_t>(count_parameters(parameters)));
  Given<typename decltype(parameters)::value_type> all;
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
/// An array of numbers, one of each problem.
inline void require_numbers(const kernels::NumberOfEach& numbers, int place, const std::string& name) {
  require_array(numbers.of_each, numbers.is_wide ? sizeof(std::int64_t) : sizeof(int), place, name);
}

/// That arrays of so many entries can be addressed.
inline void require_possible_count(index_t count, int place) {
  require_argument(count >= 0, place, "batch_count is negative");
  require_argument(count <= most_elements<std::complex<double>>, place, "arrays are larger than any memory");
}

/// That of so many matrices all can be addressed. @pre require_possible_count()
inline void require_possible_stride(index_t stride, std::size_t element_bytes, index_t count, int place) {
  if (count == 0) return;
  const index_t most = std::numeric_limits<index_t>::max() / static_cast<index_t>(element_bytes) / count;
  require_argument(stride <= most && stride >= -most, place, "the stride leads beyond any memory");
}

/// Matrices at the addresses in an array or, by strides, from the first one on; none leads away from null.
inline kernels::UntypedMatrixOfEach matrix_of_each(Form form, const void* address, index_t stride) {
  if (form != Form::strides) return {.of_each = address};
  return {.first = address, .distance = address != nullptr ? stride : 0};
}

}  // namespace tessera::device_api
