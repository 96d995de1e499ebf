// The arguments of a function of tessera/device_blas.h, device_lapack.h or device_half.h, by the parameters of its routine. Checks that
// do not depend on the routine stand here, too.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "calls/argument_complaints.hpp"
#include "calls/argument_places.hpp"
#include "calls/arguments.hpp"
#include "calls/parameters.hpp"
#include "core/addressable.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::device_api {

/// The arguments of a call.
struct Given {
  Form form = Form::single;
  Routine routine = Routine::gemm;
  ScalarType type = ScalarType::d;  ///< of factors
  std::size_t element_bytes = 0;
  index_t count = 1;
  std::array<index_t, 3> bounds{};   ///< Form::sizes; in the order of the sizes
  std::array<index_t, 3> strides{};  ///< Form::strides; in the order of what they belong to
  void* info = nullptr;              ///< of Level 3, whose own interface has none
  double tiny = 0;
  ByParameter<int> enumerators{};
  ByParameter<kernels::NumberOfEach> numbers{};
  ByParameter<const void*> addresses{};  ///< of scalars, matrices, or arrays of them

  template <Parameter parameter, class T>
  void take(const T& value) {
    if constexpr (is_letter(parameter)) {
      enumerators[parameter] = static_cast<int>(value);
    } else if constexpr (parameter == Parameter::tiny) {
      tiny = value;
    } else if constexpr (std::is_integral_v<T>) {
      numbers[parameter] = {.of_all = value};
    } else if constexpr (is_number(parameter)) {
      numbers[parameter] = {.of_each = value, .is_wide = sizeof(*value) == sizeof(std::int64_t)};
    } else {
      addresses[parameter] = address_of(value);
    }
  }

  /// Numbers in arrays, pivots and info have 64 bits.
  bool is_wide() const { return numbers[Parameter::n].is_wide; }
  std::size_t integer_bytes() const { return is_wide() ? sizeof(std::int64_t) : sizeof(int); }
  /// A number that the host knows: of all problems, or the bound of a size. 0: it knows none.
  index_t value(Parameter parameter) const {
    if (form != Form::sizes || !is_size(parameter)) return numbers[parameter].of_all;
    return has(routine, parameter) ? bounds[index_among(routine, parameter, is_size)] : 0;
  }
  /// Of a matrix or of pivots.
  index_t stride(Parameter parameter) const { return strides[index_among(routine, parameter, has_stride)]; }
  /// Matrices at the addresses in an array or, by strides, from the first one on.
  kernels::UntypedMatrixOfEach matrix(Parameter parameter) const {
    const void* const address = addresses[parameter];
    if (form != Form::strides) return {.of_each = address};
    return {.first = address, .distance = address != nullptr ? stride(parameter) : 0};
  }

  /// @throws InvalidArgument about a value that the host knows
  [[noreturn]] void complain(Parameter parameter, const std::string& text) const {
    const bool is_bound = form == Form::sizes && is_size(parameter);
    const int place = place_of_value(form, routine, parameter);
    throw InvalidArgument("argument " + std::to_string(place) + ": " + (is_bound ? "max_" : "") + text, place);
  }
};

/// @param rest the arguments that the routine's own interface does not have
/// @param values the others, in its order
template <Form form, Routine routine, Scalar T, class Stored, class... Values>
Given given(Given rest, const Values&... values) {
  constexpr Parameters parameters = own_parameters_of(routine);
  static_assert(sizeof...(values) == count_of(parameters));
  rest.form = form;
  rest.routine = routine;
  rest.type = scalar_type_of<T>();
  rest.element_bytes = sizeof(Stored);
  [&]<std::size_t... i>(std::index_sequence<i...>) { (rest.template take<parameters[i]>(values), ...); }
  (std::index_sequence_for<Values...>{});
  return rest;
}

/// The type of elements in C, where it is void for all but real numbers.
template <class Stored>
using CElement = std::conditional_t<std::floating_point<Stored>, Stored, void>;

/// @param alignment in bytes
inline void require_aligned(const void* address, std::size_t alignment, int place, const std::string& name) {
  require_argument(is_aligned(address, alignment), place, (name + " is not aligned to its elements").c_str());
}

/// Checks that the arrays of a batch, and all that its strides reach, fit the address space.
inline void require_possible_batch(const Given& given) {
  const int place = place_of(given.form, given.routine, Parameter::none);
  require_possible_count(given.count, place);
  if (given.form != Form::strides) return;
  for (const Parameter each : own_parameters_of(given.routine)) {
    const std::size_t entry_bytes = is_matrix(each) ? given.element_bytes : given.integer_bytes();
    require_argument(!has_stride(each) || is_addressable_stride(given.stride(each), given.count + 1, entry_bytes),
                     place_of(given.form, given.routine, before_stride(each)) + 1, beyond_memory::stride);
  }
}

/// Whether a call looks at an operand.
enum class Need : std::uint8_t { none, optional, required };

/// Checks the arrays of numbers, and the matrices, pivots and info, or the arrays of their addresses. @param need_of(parameter)
template <class NeedOf>
void require_arrays(const Given& given, NeedOf need_of) {
  for (const Parameter each : own_parameters_of(given.routine)) {
    const bool is_numbers = given.form == Form::sizes && is_number(each);
    if (!is_numbers && !has_stride(each) && each != Parameter::info) continue;
    const bool has_addresses = has_stride(each) && (given.form == Form::pointers || given.form == Form::sizes);
    const void* const address = is_numbers ? given.numbers[each].of_each : given.addresses[each];
    const Need need = is_numbers ? Need::required : need_of(each);
    if (need == Need::none) continue;
    const int place = place_of(given.form, given.routine, each);
    const std::string name = name_of(each);
    require_argument(need == Need::optional || address != nullptr, place, (name + " is null").c_str());
    const std::size_t alignment = has_addresses     ? sizeof(void*)
                                  : is_matrix(each) ? given.element_bytes
                                                    : given.integer_bytes();
    require_aligned(address, alignment, place, name);
  }
}

}  // namespace tessera::device_api
