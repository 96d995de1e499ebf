// Messages of Tessera's C interfaces about bad arguments, in the words of their headers.
#pragma once

#include <string>

#include "calls/arguments.hpp"
#include "calls/lapack_arguments.hpp"
#include "core/addressable.hpp"
#include "core/guarded_call.hpp"

namespace tessera {

/// The message about an argument that is bad, or about an address that is null.
inline std::string complaint(Routine routine, bool is_complex, Parameter parameter) {
  const auto short_run = [](const char* name, const char* matrix) {
    return std::string(name) + " is smaller than the stored extent of " + matrix + " (or 1)";
  };
  switch (parameter) {
    case Parameter::side:
      return "side is neither TESSERA_LEFT nor TESSERA_RIGHT";
    case Parameter::uplo:
      return "uplo is neither TESSERA_UPPER nor TESSERA_LOWER";
    case Parameter::transa:
      if (!allows(routine, is_complex, Op::trans)) return "trans is neither TESSERA_NO_TRANS nor TESSERA_CONJ_TRANS";
      if (!allows(routine, is_complex, Op::conj_trans)) return "trans is neither TESSERA_NO_TRANS nor TESSERA_TRANS";
      return std::string(is_rank_update(routine) ? "trans" : "transa") +
             " is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS";
    case Parameter::transb:
      return "transb is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS";
    case Parameter::diag:
      return "diag is neither TESSERA_NON_UNIT nor TESSERA_UNIT";
    case Parameter::m:
      return "m is negative";
    case Parameter::n:
      return "n is negative";
    case Parameter::k:
      return "k is negative";
    case Parameter::alpha:
      return "alpha is null";
    case Parameter::A:
      return "A is null";
    case Parameter::lda:
      return short_run("lda", "A");
    case Parameter::B:
      return "B is null";
    case Parameter::ldb:
      return short_run("ldb", "B");
    case Parameter::beta:
      return "beta is null";
    case Parameter::C:
      return "C is null";
    case Parameter::ldc:
      return short_run("ldc", "C");
    default:
      return "is not valid";
  }
}

/// Messages about sizes, counts and strides beyond the addressable memory (core/addressable.hpp).
namespace beyond_memory {
inline constexpr const char* matrix = "a matrix is larger than any memory";
inline constexpr const char* count = "arrays of so many are larger than any memory";
inline constexpr const char* stride = "the stride leads beyond any memory";
}  // namespace beyond_memory

/// The same of LAPACK's routines, whose arguments lapack_arguments.hpp checks. @param parameter that first_bad() has found
inline std::string lapack_complaint(Parameter parameter, const LapackArguments& arguments,
                                    const ArgumentLimits& limits) {
  using enum Parameter;
  const std::string name = name_of(parameter);
  const LapackCall& p = arguments.problem;
  const auto of_size = [&](index_t size, index_t most, const char* what) {
    return name + (size < 0 ? " is negative" : size > most ? what : " does not suit the other sizes");
  };
  switch (parameter) {
    case itype:
      return "itype is none of 1, 2, 3";
    case jobz:
    case jobvr:
      return "vectors is no tessera_vectors that the routine has";
    case uplo:
      return "uplo is neither TESSERA_UPPER nor TESSERA_LOWER";
    case side:
      return "side is neither TESSERA_LEFT nor TESSERA_RIGHT";
    case trans:
      return "trans is no tessera_transpose that the routine has for this type";
    case diag:
      return "diag is neither TESSERA_UNIT nor TESSERA_NON_UNIT";
    case tiny:
      return "tiny is negative or not a number";
    case m:
      return of_size(p.m, limits.most_order, " is larger than pivots and info can tell");
    case n:
      return of_size(p.n, limits.most_order, " is larger than pivots and info can tell");
    case k:
    case nrhs:
      return of_size(p.k, limits.most_columns, " is 2^31 or larger");
    default:
      break;
  }
  if (!is_leading_dimension(parameter)) return name + " is null";
  const ArgumentLimits of_layout{.are_in_rows = limits.are_in_rows};
  const bool spans = detail::is_good_operand(*slot_of(parameter), true, detail::with_sizes(p), of_layout);
  if (spans) return beyond_memory::matrix;
  return name + " is smaller than the " + (limits.are_in_rows ? "columns" : "rows") + " of its matrix (or 1)";
}

/// Whether the matrices that the call reads or writes can be addressed. @pre no size is negative
inline bool is_addressable(const Level3& call) {
  if (call.m == 0 || call.n == 0) return true;
  const auto is_reached = [&](const StoredShape& shape, index_t ld) {
    return is_addressable(shape.rows, shape.cols, ld, element_bytes(call.type));
  };
  if (!is_reached({call.m, call.n}, call.ldc)) return false;
  return call.only_scales() || (is_reached(shape_of_a(call), call.lda) && is_reached(shape_of_b(call), call.ldb));
}

/// @param fortran_position of the parameter; `places_before` it come others in the C interface
/// @throws InvalidArgument unless it is good
inline void require_parameter(bool good, Routine routine, bool is_complex, int fortran_position, int places_before) {
  if (good) return;
  const Parameter parameter = parameters_of(routine)[static_cast<std::size_t>(fortran_position - 1)];
  require_argument(false, fortran_position + places_before, complaint(routine, is_complex, parameter).c_str());
}

}  // namespace tessera
