// The common code of all Level-3 symbols of the drop-in libraries, in the Fortran and the CBLAS interface. It checks
// arguments as the reference does, and hands the call down to libtessera.so in column-major form.
#pragma once

#include <complex>
#include <cstdint>

#include "blas_api/blas/error_exit.hpp"
#include "blas_api/blas/small_call.hpp"
#include "calls/arguments.hpp"
#include "core/scalar.hpp"
#include "offload/bridge.hpp"
#include "offload/face.hpp"

namespace tessera::blas {

/// Small calls go on to the CPU BLAS by pass_on(function). @param given the arguments as the caller has them
template <Routine routine, Scalar T, class PassOn>
[[gnu::always_inline]] inline bool is_passed_on(Face& face, SmallCalls& small, const Arguments& given,
                                                const Operands& operands, const PassOn& pass_on) {
  void* const function = small.enter<routine, T>(face, given, operands);
  if (function == nullptr) return false;
  const LeavesSmall leaves;
  pass_on(function);
  return true;
}

/// @tparam errors_behind the CPU BLAS may check the arguments of small calls itself, which saves half of their way
/// @param name under which it was called, without the letter of the type
template <Routine routine, Scalar T, bool errors_behind, class PassOn>
void from_fortran(Face& face, const char* name, const Arguments& arguments, const Operands& operands, SmallCalls& small,
                  const PassOn& pass_on) {
  if (errors_behind && is_passed_on<routine, T>(face, small, arguments, operands, pass_on)) return;
  if (const int bad = first_bad_argument<routine, !std::floating_point<T>>(arguments); bad != 0) {
    return report_fortran(face, {letter(scalar_type_of<T>()), name}, bad);
  }
  if (!errors_behind && is_passed_on<routine, T>(face, small, arguments, operands, pass_on)) return;
  tessera_private_run(level3_of<routine, T>(Layout::col_major, arguments, operands), face);
}

/// An enumerator as the reference's CBLAS sees it when it looks for bad ones.
struct CheckedEnumerator {
  bool good = true;
  const char* what = "";
  int value = 0;
  int position = 0;          ///< that it reports
  int fortran_position = 0;  ///< in the column-major call
};

/// @return a good one if `parameter` is no enumerator
template <Routine routine, Parameter parameter>
[[gnu::always_inline]] constexpr CheckedEnumerator enumerator_at(const Arguments& a, const CblasEnumerators& raw) {
  const bool row_major = a.layout == Layout::row_major;
  constexpr int position = position_of(routine, parameter);
  switch (parameter) {
    case Parameter::side:
      return {a.side.has_value(), "Side", raw.side, position + 1, position};
    case Parameter::uplo: {
      // Of a rank update the reference says 3 in row-major order, except in her2k.
      const bool counts_as_3 = row_major && is_rank_update(routine) && routine != Routine::her2k;
      return {a.uplo.has_value(), "Uplo", raw.uplo, counts_as_3 ? 3 : position + 1, position};
    }
    case Parameter::transa:
      if (!has_op_b(routine)) return {a.op_a.has_value(), "Trans", raw.transa, position + 1, position};
      return {a.op_a.has_value(), "TransA", raw.transa, position + 1, row_major ? position + 1 : position};
    case Parameter::transb: {
      // Of gemm the reference says 2 for a bad TransB in row-major order.
      const bool counts_as_2 = row_major && routine == Routine::gemm;
      return {a.op_b.has_value(), "TransB", raw.transb, counts_as_2 ? 2 : position + 1,
              row_major ? position - 1 : position};
    }
    case Parameter::diag:
      return {a.diag.has_value(), "Diag", raw.diag, position + 1, position};
    default:
      return {};
  }
}

/// @param spelling as from_fortran()'s name
template <Routine routine, Scalar T, bool errors_behind, class PassOn>
void from_cblas(Face& face, const char* spelling, int layout, const CblasEnumerators& raw, const Arguments& sizes,
                const Operands& operands, SmallCalls& small, const PassOn& pass_on) {
  if (errors_behind && is_passed_on<routine, T>(face, small, sizes, operands, pass_on)) return;
  const RoutineName name = {letter(scalar_type_of<T>()), spelling};
  const std::optional<Layout> order = layout_from_cblas(layout);
  if (!order) return report_cblas_enum(face, name, false, 1, 0, "layout", layout);
  const bool row_major = *order == Layout::row_major;
  const Arguments given = arguments_from_cblas(*order, raw, sizes);
  CheckedEnumerator bad;
  for_each_parameter<routine>([&]<Parameter parameter>() __attribute__((always_inline)) {
    const CheckedEnumerator e = enumerator_at<routine, parameter>(given, raw);
    if (!e.good) bad = e;
    return e.good;
  });
  if (!bad.good) {
    return report_cblas_enum(face, name, row_major, bad.position, bad.fortran_position, bad.what, bad.value);
  }
  // From here on the reference knows only the column-major call that it makes, and so do its complaints.
  const Arguments arguments = in_column_major(routine, given);
  if (const int bad = first_bad_argument<routine, !std::floating_point<T>>(arguments); bad != 0) {
    return report_cblas(face, name, row_major, bad);
  }
  if (!errors_behind && is_passed_on<routine, T>(face, small, sizes, operands, pass_on)) return;
  tessera_private_run(level3_of<routine, T>(*order, arguments, operands), face);
}

}  // namespace tessera::blas
