// The parameters of the routines' interfaces (RoutineRow::parameters), by position. The order is Fortran's. CBLAS and Tessera's interfaces have
// the same parameters in the same order behind a few of their own, and leave workspaces out.
//
// Source: reference BLAS and LAPACK 3.12, the documentation of each routine.
#pragma once

#include <cstddef>

#include "calls/parameter.hpp"
#include "calls/routine.hpp"

namespace tessera {

/// Of Fortran, position 1 first.
constexpr const Parameters& parameters_of(Routine routine, bool is_complex = false) {
  return detail::parameters_by_routine[number_of(routine)][is_complex ? 1 : 0];
}

/// Tessera's interfaces leave out workspaces, and left eigenvectors, which no device computes.
constexpr bool is_left_out(Parameter parameter) {
  using enum Parameter;
  return (parameter >= work && parameter <= ifail) || parameter == jobvl || parameter == left || parameter == ldleft;
}
/// Of the own interfaces, batches among them, behind what all of these begin with.
constexpr Parameters own_parameters_of(Routine routine, bool is_complex = false) {
  Parameters own{};
  std::size_t next = 0;
  for (const Parameter parameter : parameters_of(routine, is_complex)) {
    if (parameter != Parameter::none && !is_left_out(parameter)) own[next++] = parameter;
  }
  return own;
}

constexpr std::size_t count_of(const Parameters& parameters) {
  std::size_t count = 0;
  while (parameters[count] != Parameter::none) ++count;
  return count;
}

/// The position of `parameter` among these, from 1; 0: there is none such.
constexpr int position_in(const Parameters& parameters, Parameter parameter) {
  for (std::size_t i = 0; parameters[i] != Parameter::none; ++i) {
    if (parameters[i] == parameter) return static_cast<int>(i) + 1;
  }
  return 0;
}
/// In the Fortran interface.
constexpr int position_of(Routine routine, Parameter parameter) {
  return position_in(parameters_of(routine), parameter);
}
constexpr int own_position_of(Routine routine, Parameter parameter, bool is_complex = false) {
  return position_in(own_parameters_of(routine, is_complex), parameter);
}
constexpr bool has(Routine routine, Parameter parameter) { return position_of(routine, parameter) != 0; }

/// A becomes a triangle and reflectors.
constexpr bool makes_reflectors(Routine routine) { return factors(routine) && has(routine, Parameter::tau); }
/// A, which has reflectors, becomes the matrix that they make.
constexpr bool forms_q(Routine routine) {
  return !factors(routine) && !multiplies_by_reflectors(routine) && has(routine, Parameter::tau);
}

/// LAPACK tells how it went.
constexpr bool has_info(Routine routine) { return has(routine, Parameter::info); }

constexpr bool is_letter(Parameter parameter) { return parameter >= Parameter::jobz && parameter <= Parameter::storev; }
/// Arguments that are letters: as many lengths stand behind all others.
constexpr std::size_t letters_of(Routine routine) {
  std::size_t count = 0;
  for (const Parameter parameter : parameters_of(routine)) count += is_letter(parameter) ? 1 : 0;
  return count;
}

constexpr bool is_size(Parameter parameter) { return parameter >= Parameter::m && parameter <= Parameter::nrhs; }
constexpr bool is_leading_dimension(Parameter parameter) {
  using enum Parameter;
  return parameter == lda || parameter == ldb || parameter == ldc || parameter == ldt || parameter == ldu ||
         parameter == ldvt;
}
/// Each problem of a batch may have its own.
constexpr bool is_number(Parameter parameter) {
  return is_size(parameter) || is_leading_dimension(parameter) || parameter == Parameter::k1 ||
         parameter == Parameter::k2;
}

constexpr bool traits_follow_parameters() {
  for (const RoutineRow& row : routine_rows) {
    if (row.way == Way::level3) continue;
    const bool is_counted = has(row.routine, Parameter::k) || has(row.routine, Parameter::nrhs);
    if (has_m(row.routine) != has(row.routine, Parameter::m) || is(row.routine, counted) != is_counted) return false;
  }
  return true;
}
static_assert(traits_follow_parameters());
static_assert(position_of(Routine::getrs, Parameter::ldb) == 8 && position_of(Routine::gesv, Parameter::ldb) == 7);

}  // namespace tessera
