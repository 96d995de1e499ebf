// Contexts of the own C API (tessera/tessera.h): made, shared, asked and destroyed. Exceptions become status codes; nothing is
// thrown through the API.
#include "blas_api/c_api/context.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>

#include "calls/lapack_call.hpp"
#include "calls/level3.hpp"
#include "calls/routine.hpp"
#include "calls/work.hpp"
#include "core/error.hpp"
#include "core/guarded_call.hpp"
#include "core/process.hpp"
#include "offload/call_observer.hpp"
#include "offload/policy.hpp"
#include "offload/running_calls.hpp"
#include "offload/work.hpp"
#include "tessera/tessera.h"

using tessera::index_t;
using tessera::require_argument;
using tessera::ScalarType;
using tessera::c_api::guarded;

namespace {

static_assert(static_cast<int>(tessera::Failure::internal_error) == TESSERA_INTERNAL_ERROR);

/// Fills the caller's buffer as far as it reaches. Positions: text 2, size 3, needed 4.
/// @param position of `text` among the arguments
void hand_out(const std::string& from, char* text, std::size_t size, std::size_t* needed, int position = 2) {
  require_argument(text != nullptr || size == 0, position, "text is null, but size is not 0");
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

tessera::runtime::JobStatistics last_job(tessera_context ctx) {
  require_argument(ctx != nullptr, 1, "ctx is null");
  const tessera::process::Pass whole(tessera::process::Work::computing);
  const std::lock_guard lock(ctx->last_mutex);
  require_argument(ctx->last.has_value(), 1, "no call has completed on this context yet");
  return *ctx->last;
}

/// The handle whose context the symbols use; null: the environment's. The release of the store, which publishes a handle,
/// pairs with the acquire load.
std::atomic<tessera_context> chosen = nullptr;

/// The work of a call of this size, if `name` is that of a routine of Level 3 or a problem of LAPACK in one type, as "dgetrf".
/// Quick: callers ask before each of their calls.
std::optional<tessera::Work> work_by_name(std::string_view name, index_t m, index_t n, index_t k) {
  for (const ScalarType type : tessera::scalar_types) {
    if (name.empty() || name.front() != tessera::letter(type)) continue;
    for (const tessera::RoutineRow& row : tessera::routine_rows) {
      const bool is_call = row.way != tessera::Way::batches && row.way != tessera::Way::as_other;
      if (!is_call || name.substr(1) != name_of(row.routine, type) || !exists(row.routine, type)) continue;
      if (row.way == tessera::Way::level3)
        return work_of(tessera::Level3{.routine = row.routine, .type = type, .m = m, .n = n, .k = k, .beta = 0});
      tessera::LapackCall call{.routine = row.routine, .type = type, .vectors = true, .m = m, .n = n, .k = k};
      call.u = call.vt = tessera::VectorJob::thin;
      return tessera::offload::work_of(call);
    }
  }
  return std::nullopt;
}

bool would_offload(tessera_context ctx, const char* routine, index_t m, index_t n, index_t k) {
  require_argument(routine != nullptr, 2, "routine is null");
  const index_t sizes[] = {m, n, k};
  for (int i = 0; i < 3; ++i) require_argument(sizes[i] >= 0, 3 + i, "a size is negative");
  const std::optional<tessera::Work> work = work_by_name(routine, m, n, k);
  require_argument(work.has_value(), 2, "routine is not the name of a routine in one type, such as dgemm or zheevd");
  const std::shared_lock alive(ctx->in_use);
  return ctx->context.would_offload(*work);
}

void tell(const tessera::offload::ObservedCall& call, tessera::offload::CallObserver::Function function, void* data) {
  const tessera_call told{.struct_size = sizeof told,
                          .what = call.what.c_str(),
                          .where = call.where.c_str(),
                          .why = call.why.c_str(),
                          .seconds = call.seconds,
                          .start_s = call.start_s,
                          .flops = call.flops,
                          .bytes_up = call.bytes_up,
                          .bytes_down = call.bytes_down,
                          .on_devices = call.on_devices ? 1 : 0,
                          .is_part = call.is_part ? 1 : 0};
  reinterpret_cast<tessera_call_observer>(function)(&told, data);
}

}  // namespace

extern "C" {

tessera_status tessera_create(tessera_context* ctx) { return tessera_create_with(ctx, nullptr); }

tessera_status tessera_create_with(tessera_context* ctx, const char* settings) {
  return guarded([&] { make_context(ctx, settings); });
}

tessera_status tessera_destroy(tessera_context ctx) {
  return guarded([&] {
    if (ctx == nullptr || ctx->is_shared()) return;
    require_argument(!ctx->was_chosen.load(), 1, "ctx has been chosen for the symbols, which may still use it");
    require_argument(ctx->matrices.load() == 0, 1, "ctx has matrices that are to be destroyed first");
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

tessera_status tessera_choose_context(tessera_context ctx) {
  return guarded([&] {
    if (ctx != nullptr) ctx->was_chosen.store(true);
    chosen.store(ctx, std::memory_order_release);
    tessera::offload::choose_context(ctx != nullptr ? &ctx->context : nullptr);
  });
}

tessera_status tessera_shared_context(tessera_context* ctx) {
  return guarded([&] {
    require_argument(ctx != nullptr, 1, "ctx is null");
    *ctx = chosen.load(std::memory_order_acquire);
    if (*ctx != nullptr) return;
    // The release of the exchange, which publishes the handle, pairs with the acquire load. It is never destroyed, as its context.
    static std::atomic<tessera_context> shared = nullptr;
    tessera_context handle = shared.load(std::memory_order_acquire);
    if (handle == nullptr) {
      auto mine = std::make_unique<tessera_context_struct>(tessera::offload::shared_context());
      if (shared.compare_exchange_strong(handle, mine.get(), std::memory_order_acq_rel)) handle = mine.release();
    }
    *ctx = handle;
  });
}

tessera_status tessera_would_offload(tessera_context ctx, const char* routine, int64_t m, int64_t n, int64_t k,
                                     int* answer) {
  return guarded([&] {
    require_argument(ctx != nullptr, 1, "ctx is null");
    require_argument(answer != nullptr, 6, "answer is null");
    *answer = would_offload(ctx, routine, m, n, k) ? 1 : 0;
  });
}

tessera_status tessera_observe_calls(tessera_call_observer observer, void* data) {
  return guarded([&] {
    tessera::offload::observe_calls(
        {.tell = tell, .function = reinterpret_cast<tessera::offload::CallObserver::Function>(observer), .data = data});
  });
}

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

tessera_status tessera_running_calls(char* text, size_t size, size_t* needed) {
  return guarded(
      [&] { hand_out(tessera::offload::to_json(tessera::offload::running_calls()), text, size, needed, 1); });
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
