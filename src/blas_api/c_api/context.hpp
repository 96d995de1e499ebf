// The context behind the handle of the own C API, which its functions share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "core/config.hpp"
#include "core/guarded_call.hpp"
#include "core/process.hpp"
#include "offload/context.hpp"
#include "runtime/statistics.hpp"
#include "tessera/tessera.h"

struct tessera_context_struct {
  explicit tessera_context_struct(tessera::Config config)
      : owned(std::make_unique<tessera::offload::Context>(std::move(config))), context(*owned) {}
  /// Of a context that lives as long as the process.
  explicit tessera_context_struct(tessera::offload::Context& shared) : context(shared) {}
  bool is_shared() const { return owned == nullptr; }

  std::atomic<bool> was_chosen = false;  ///< by tessera_choose_context, and must live on
  std::atomic<int> matrices = 0;         ///< that live

  std::unique_ptr<tessera::offload::Context> owned;
  tessera::offload::Context& context;
  std::uint64_t maker = tessera::process::identity();
  std::shared_mutex in_use;  ///< shared by calls, taken by tessera_destroy to wait for them
  std::mutex last_mutex;     ///< guards the rest
  std::optional<tessera::runtime::JobStatistics> last;

  /// @param time of the call, which is about to return
  void set_last(std::optional<tessera::runtime::JobStatistics> job, const tessera::offload::CallTime& time) {
    job->seconds = time.seconds();
    job->start_s = time.start_s();
    // A child may ask for it, and must not find the lock taken by a thread that it does not have.
    const tessera::process::Pass whole(tessera::process::Work::computing);
    const std::lock_guard lock(last_mutex);
    last = std::move(job);
  }

  /// Runs a batch and keeps its statistics. @param time of the call @param compute (double* flops)
  /// returns those of devices, if they computed it, and adds its flops to the number
  template <class Compute>
  void run_batch(const std::string& routine, const tessera::offload::CallTime& time, Compute&& compute) {
    const std::shared_lock alive(in_use);
    tessera::runtime::JobStatistics on_cpu;
    on_cpu.routine = routine;
    std::optional<tessera::runtime::JobStatistics> job = compute(&on_cpu.flops);
    if (!job) job = std::move(on_cpu);
    set_last(std::move(job), time);
  }
};

namespace tessera::c_api {

constexpr int places_before = 2;  ///< arguments in front of those of Fortran: ctx and layout

template <class Body>
tessera_status guarded(Body&& body) noexcept {
  return static_cast<tessera_status>(guarded_call(std::forward<Body>(body)));
}

}  // namespace tessera::c_api
