// The Level-3 BLAS of the own C API (tessera/tessera.h): checks, conversion to column-major form, and exceptions into status
// codes. Arguments are checked as the caller gave them, so that positions are the caller's. The 34 BLAS
// functions come from calls/routines.def, and their parameters from calls/level3_lists.hpp.
#include <concepts>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/level3.hpp"
#include "calls/level3_lists.hpp"
#include "calls/routine.hpp"
#include "core/error.hpp"
#include "tessera/tessera.h"

using tessera::Arguments;
using tessera::CArray;
using tessera::FactorsOf;
using tessera::Layout;
using tessera::Parameter;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::c_api::guarded;
using tessera::c_api::places_before;

namespace {

/// One BLAS call. @param sizes the arguments that are no enumerators
/// @param operands addresses, null where the caller passed null; the result of the triangular routines is C
template <Routine routine, Scalar T>
tessera_status run(tessera_context ctx, tessera_layout layout, const tessera::CblasEnumerators& enumerators,
                   const Arguments& sizes, const tessera::Operands& operands) noexcept {
  return guarded([&] {
    tessera::offload::CallTime time = tessera::offload::CallTime::from_now();
    constexpr bool is_complex = !std::floating_point<T>;
    const auto require_address = [](const void* address, Parameter parameter) {
      const int position = tessera::position_of(routine, parameter);
      tessera::require_parameter(address != nullptr || position == 0, routine, is_complex, position, places_before);
    };
    require_argument(ctx != nullptr, 1, "ctx is null");
    const std::optional<Layout> order = tessera::layout_from_cblas(static_cast<int>(layout));
    require_argument(order.has_value(), 2, "layout is neither TESSERA_ROW_MAJOR nor TESSERA_COL_MAJOR");
    const Arguments given = tessera::arguments_from_cblas(*order, enumerators, sizes);
    const int bad = tessera::first_bad_argument<routine, is_complex>(given);
    tessera::require_parameter(bad == 0, routine, is_complex, bad, places_before);
    require_address(operands.alpha, Parameter::alpha);
    require_address(operands.beta, Parameter::beta);
    const tessera::Level3 call =
        tessera::level3_of<routine, T>(*order, tessera::in_column_major(routine, given), operands);
    require_argument(is_addressable(call), tessera::position_of(routine, Parameter::n) + places_before,
                     tessera::beyond_memory::matrix);
    if (call.m > 0 && call.n > 0) {
      constexpr bool in_place = tessera::is_triangular(routine);
      if (!call.only_scales()) {
        require_address(operands.A, Parameter::A);
        if (!in_place) require_address(operands.B, Parameter::B);
      }
      require_address(operands.C, in_place ? Parameter::B : Parameter::C);
    }

    const std::shared_lock alive(ctx->in_use);
    std::optional<tessera::runtime::JobStatistics> job =
        ctx->context.run(call, tessera::offload::Fallback::report, nullptr, &time);
    if (!job) {
      job.emplace();
      job->routine = name_of(call);  // short enough to need no memory
      job->m = call.m;
      job->n = call.n;
      job->k = tessera::inner_size(call);
      job->flops = flops_of(call);
    }
    ctx->set_last(std::move(job), time);
  });
}

}  // namespace

extern "C" {

#define TESSERA_ROUTINE(routine, list, letter, T)                                                          \
  tessera_status tessera_##letter##routine(                                                                \
      tessera_context ctx, tessera_layout layout,                                                          \
      TESSERA_PARAMETERS_##list(tessera_side, tessera_uplo, tessera_transpose, tessera_diag, int64_t,      \
                                FactorsOf<Routine::routine>::AlphaInC<T>, const CArray<T>*,                \
                                FactorsOf<Routine::routine>::BetaInC<T>, CArray<T>*)) {                    \
    const auto passed = tessera::passed<Routine::routine>(TESSERA_PASSED_##list);                          \
    return run<Routine::routine, T>(ctx, layout, passed.enumerators(), passed.sizes(), passed.operands()); \
  }
#include "calls/routines.def"

}  // extern "C"
