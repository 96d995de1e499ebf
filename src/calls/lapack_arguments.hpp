// Arguments of LAPACK's routines, whatever interface they came through: a problem made of them, and the letters that name nothing.
// One function walks an interface and finds the first that is bad, as LAPACK does.
//
// Source: LAPACK 3.12, the documentation of each routine.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "calls/lapack_call.hpp"
#include "calls/parameters.hpp"
#include "core/addressable.hpp"

namespace tessera {

/// The limits that an interface sets to its arguments.
struct ArgumentLimits {
  index_t most_order = std::numeric_limits<index_t>::max();    ///< of m and n
  index_t most_columns = std::numeric_limits<index_t>::max();  ///< of k and nrhs
  bool are_addressable = false;                                ///< matrices must not be larger than any memory
  bool are_there = false;                                      ///< operands must not be null
  bool are_in_rows = false;                                    ///< matrices are row-major
};
/// The own interfaces': pivots and info have 32 bits on devices.
inline constexpr ArgumentLimits own_limits = {std::numeric_limits<int>::max(), std::numeric_limits<int>::max(), true,
                                              true};
/// Of batches, whose addresses are looked at one by one.
inline constexpr ArgumentLimits batch_limits = {.most_order = std::numeric_limits<int>::max(), .are_addressable = true};

/// Of a problem: values that its fields cannot hold.
struct LapackArguments {
  Routine called = Routine::getrf;  ///< the routine whose interface it is, see RoutineRow::computed_as
  LapackCall problem;               ///< letters that are bad have some value
  std::bitset<parameter_count> bad_letters;

  void set_bad(Parameter letter) { bad_letters.set(static_cast<std::size_t>(letter)); }
  /// Takes a letter, or notes that it is none.
  template <class T>
  void take(Parameter letter, const std::optional<T>& value, T& field) {
    value ? static_cast<void>(field = *value) : set_bad(letter);
  }
};

/// The operand that a parameter is the address or the leading dimension of.
constexpr std::optional<LapackSlot> slot_of(Parameter parameter) {
  using enum Parameter;
  switch (parameter) {
    case A:
    case lda:
      return LapackSlot::A;
    case B:
    case ldb:
      return LapackSlot::B;
    case U:
    case ldu:
      return LapackSlot::U;
    case VT:
    case ldvt:
      return LapackSlot::VT;
    case t_factor:
    case ldt:
      return LapackSlot::T;
    case values:
      return LapackSlot::values;
    case imaginary:
      return LapackSlot::imaginary;
    case tau:
      return LapackSlot::tau;
    case ipiv:
      return LapackSlot::ipiv;
    default:
      return std::nullopt;
  }
}

namespace detail {

/// The rows of Q are as many as wanted, up to those that the reflectors are as long as, or its columns are.
constexpr bool is_good_n(Routine called, const LapackCall& p) {
  return !forms_q(called) || (is(called, in_rows) ? p.m <= p.n : p.n <= p.m);
}

constexpr bool is_good_count(Routine called, const LapackCall& p) {
  if (forms_q(called)) return p.k <= std::min(p.m, p.n);
  const bool counts_reflectors =
      multiplies_by_reflectors(called) && called != Routine::unmbr && called != Routine::unmtr;
  return !counts_reflectors || p.k <= reflected_of(p);
}

/// Sizes that are negative count as 0 in what is said of operands.
inline LapackCall with_sizes(LapackCall p) {
  for (index_t* const size : {&p.m, &p.n, &p.k}) *size = std::max<index_t>(*size, 0);
  return p;
}

/// @param is_ld the leading dimension, else the address
inline bool is_good_operand(LapackSlot slot, bool is_ld, const LapackCall& p, const ArgumentLimits& limits) {
  for (const LapackOperand& operand : LapackOperands(p)) {
    if (operand.slot != slot) continue;
    if (!is_ld) return !limits.are_there || operand.address != nullptr || operand.rows == 0 || operand.cols == 0;
    const auto [dense, others] =
        limits.are_in_rows ? std::pair{operand.cols, operand.rows} : std::pair{operand.rows, operand.cols};
    return operand.ld >= std::max<index_t>(dense, 1) &&
           (!limits.are_addressable ||
            is_addressable(dense, others, operand.ld, static_cast<std::size_t>(operand.element_bytes)));
  }
  return true;
}

}  // namespace detail

/// Whether what stands at `parameter` is good, given that everything before it is. Of workspaces, results that the caller's
/// integers hold, and info nothing is said here.
inline bool is_good(Parameter parameter, const LapackArguments& arguments, const ArgumentLimits& limits) {
  using enum Parameter;
  const LapackCall& p = arguments.problem;
  if (is_letter(parameter)) return !arguments.bad_letters.test(static_cast<std::size_t>(parameter));
  switch (parameter) {
    case itype:
      return p.itype >= 1 && p.itype <= 3;
    case m:
      return p.m >= 0 && p.m <= limits.most_order;
    case n:
      return p.n >= 0 && p.n <= limits.most_order && detail::is_good_n(arguments.called, p);
    case k:
    case nrhs:
      return p.k >= 0 && p.k <= limits.most_columns && detail::is_good_count(arguments.called, p);
    case vu:
      return p.range != EigenRange::values || p.n == 0 || p.vl < p.vu;
    case il:
      return p.range != EigenRange::indices || (p.il >= 1 && p.il <= std::max<index_t>(p.n, 1));
    case iu:
      return p.range != EigenRange::indices || (p.iu >= std::min(p.n, p.il) && p.iu <= p.n);
    default:
      break;
  }
  const std::optional<LapackSlot> slot = slot_of(parameter);
  if (!slot) return true;
  const LapackCall possible = detail::with_sizes(p);
  const bool is_ld = is_leading_dimension(parameter);
  if (!is_ld && row_of(p.routine).way == Way::factors && does_nothing(possible)) return true;
  return detail::is_good_operand(*slot, is_ld, possible, limits);
}

/// The first that is bad of an interface. @param is_good_too(parameter) what the interface asks besides
/// @return its place among `parameters`, from 1; 0: all are good
template <class IsGoodToo>
int first_bad(const Parameters& parameters, const LapackArguments& arguments, const ArgumentLimits& limits,
              IsGoodToo is_good_too) {
  int place = 0;
  for (const Parameter parameter : parameters) {
    ++place;
    if (parameter == Parameter::none) return 0;
    if (!is_good(parameter, arguments, limits) || !is_good_too(parameter)) return place;
  }
  return 0;
}

}  // namespace tessera
