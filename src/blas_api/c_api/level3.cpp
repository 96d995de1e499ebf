// The own C API (tessera/tessera.h): checks, conversion to column-major form, and exceptions into status codes. Nothing
// is thrown through it. Arguments are checked as the caller gave them, so that positions are the caller's. The 34 BLAS
// functions come from calls/routines.def, and their parameters from calls/level3_lists.hpp.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/level3.hpp"
#include "calls/level3_lists.hpp"
#include "calls/routine.hpp"
#include "core/error.hpp"
#include "core/guarded_call.hpp"
#include "core/process.hpp"
#include "offload/policy.hpp"
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

static_assert(static_cast<int>(tessera::Failure::internal_error) == TESSERA_INTERNAL_ERROR);

/// Fills the caller's buffer as far as it reaches. Positions: text 2, size 3, needed 4.
void hand_out(const std::string& from, char* text, std::size_t size, std::size_t* needed) {
  require_argument(text != nullptr || size == 0, 2, "text is null, but size is not 0");
  if (needed != nullptr) *needed = from.size() + 1;
  if (size == 0) return;
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(text, from.data(), length);
  text[length] = '\0';
}

void make_context(tessera_context* ctx, const char* settings) {
  require_argument(ctx != nullptr, 1, "ctx is null");
  *ctx = nullptr;
  auto made = std::make_unique<tessera_context_struct>(
      tessera::Config::from_settings(settings != nullptr ? settings : "", tessera::is_routine_name));
  const tessera::Config& config = made->context.config();
  const bool named = config.devices == tessera::DeviceChoice::plugin || config.devices == tessera::DeviceChoice::host;
  if (named && !config.offload.never()) static_cast<void>(made->context.runtime());
  *ctx = made.release();
}

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

tessera::runtime::JobStatistics last_job(tessera_context ctx) {
  require_argument(ctx != nullptr, 1, "ctx is null");
  const tessera::process::Pass whole(tessera::process::Work::computing);
  const std::lock_guard lock(ctx->last_mutex);
  require_argument(ctx->last.has_value(), 1, "no call has completed on this context yet");
  return *ctx->last;
}

}  // namespace

extern "C" {

tessera_status tessera_create(tessera_context* ctx) { return tessera_create_with(ctx, nullptr); }

tessera_status tessera_create_with(tessera_context* ctx, const char* settings) {
  return guarded([&] { make_context(ctx, settings); });
}

tessera_status tessera_destroy(tessera_context ctx) {
  return guarded([&] {
    if (ctx == nullptr) return;
    // In a child after fork, calls of threads that exist only in the parent may hold the lock for ever.
    if (ctx->maker == tessera::process::identity()) const std::unique_lock idle(ctx->in_use);
    delete ctx;
  });
}

const char* tessera_last_error(void) { return tessera::last_error().text.c_str(); }

int tessera_last_error_position(void) { return tessera::last_error().position; }

#define TESSERA_TEXT_OF(x) #x
#define TESSERA_VERSION_TEXT(major, minor, patch) \
  TESSERA_TEXT_OF(major) "." TESSERA_TEXT_OF(minor) "." TESSERA_TEXT_OF(patch)
const char* tessera_version(void) {
  return TESSERA_VERSION_TEXT(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}

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

tessera_status tessera_last_job_stats(tessera_context ctx, tessera_job_stats* stats) {
  return guarded([&] {
    const tessera::runtime::JobStatistics job = last_job(ctx);
    require_argument(stats != nullptr, 2, "stats is null");
    const std::size_t filled = std::min(stats->struct_size, sizeof(tessera_job_stats));
    require_argument(filled >= offsetof(tessera_job_stats, tile_m), 2,
                     "stats->struct_size is too small for a tessera_job_stats");
    tessera_job_stats out = {};
    out.struct_size = filled;
    out.devices = static_cast<int>(job.devices.size());
    out.seconds = job.seconds;
    out.flops = job.flops;
    out.tile_m = job.tile_m;
    out.tile_n = job.tile_n;
    out.tile_k = job.tile_k;
    out.compulsory_up = job.compulsory_up;
    out.compulsory_down = job.compulsory_down;
    out.start_s = job.start_s;
    out.device_s = job.device_s;
    const tessera::runtime::DeviceStatistics all = job.total();
    out.bytes_up = all.bytes_up;
    out.bytes_down = all.bytes_down;
    out.bytes_peer = all.bytes_peer;
    out.l1_hits = all.l1_hits;
    out.l2_hits = all.l2_hits;
    out.misses = all.misses;
    out.tasks = all.tasks;
    out.stolen = all.stolen;
    out.kernel_s = all.kernel_s;
    out.transfer_s = all.transfer_s;
    out.other_s = all.other_s;
    std::memcpy(stats, &out, filled);
  });
}

tessera_status tessera_last_job_json(tessera_context ctx, char* text, size_t size, size_t* needed) {
  return guarded([&] { hand_out(tessera::runtime::to_json(last_job(ctx)), text, size, needed); });
}

tessera_status tessera_warm_up(tessera_context ctx) {
  return guarded([&] {
    if (ctx == nullptr) return tessera::offload::shared_context().warm_up();
    const std::shared_lock alive(ctx->in_use);
    ctx->context.warm_up();
  });
}

tessera_status tessera_devices(tessera_context ctx, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    require_argument(ctx != nullptr, 1, "ctx is null");
    const std::shared_lock alive(ctx->in_use);
    hand_out(ctx->context.describe_devices(), text, size, needed);
  });
}

}  // extern "C"
