// The shared context behind the drop-in BLAS symbols; bridge.hpp says what holds.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "calls/routine.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "kernels/reference/reference.hpp"
#include "offload/bridge.hpp"
#include "offload/context.hpp"
#include "offload/quietly.hpp"

namespace {
/// The release of the store, which publishes a context, pairs with the acquire load.
std::atomic<tessera::offload::Context*> chosen_context = nullptr;
/// That of the environment; likewise.
std::atomic<tessera::offload::Context*> own_context = nullptr;
}  // namespace

void tessera::offload::choose_context(Context* context) noexcept {
  chosen_context.store(context, std::memory_order_release);
}

/// Leaked: at exit, other threads and other libraries' destructors may still call BLAS, and a driver may be gone
/// already. No static variable of the function, since a child made while another thread constructs it would wait for
/// that thread.
tessera::offload::Context& tessera::offload::shared_context(CallTime* time) {
  if (Context* const chosen = chosen_context.load(std::memory_order_acquire)) [[unlikely]]
    return *chosen;
  Context* context = own_context.load(std::memory_order_acquire);
  if (context == nullptr) {
    if (time != nullptr) time->begin();
    auto mine = std::make_unique<Context>(tessera::Config::from_environment(is_routine_name));
    if (own_context.compare_exchange_strong(context, mine.get(), std::memory_order_acq_rel)) context = mine.release();
  }
  return *context;
}

extern "C" void tessera_private_open_cpu_blas(tessera::offload::Face& face) noexcept {
  const tessera::ErrnoKept stays;
  if (face.cpu.load(std::memory_order_acquire) == nullptr && !tessera::process::cpu_blas_is_cut()) [[unlikely]] {
    try {
      static_cast<void>(tessera::offload::shared_context().cpu_blas(&face));
    } catch (const std::exception&) {  // there is none, or no memory: the program's LAPACK does without
    }
  }
}

extern "C" void tessera_private_enter_lapack() noexcept { tessera::process::enter_lapack(); }

extern "C" bool tessera_private_enter_small(tessera::index_t volume) noexcept {
  const tessera::offload::Context* context = chosen_context.load(std::memory_order_acquire);
  if (context == nullptr) context = own_context.load(std::memory_order_acquire);
  if (context == nullptr || volume >= context->least_decided_volume()) return false;
  tessera::process::enter_lapack();
  if (!tessera::process::cpu_blas_is_cut()) [[likely]]
    return true;
  tessera::process::leave_lapack();
  return false;
}

extern "C" void tessera_private_leave_lapack() noexcept { tessera::process::leave_lapack(); }

extern "C" void tessera_private_enter() noexcept {
  tessera::process::watch_all_loaded();
  // The settings are read when the first call comes, unless one says that something is to be done now.
  const char* const warm_up = tessera::environment_variable("TESSERA_WARM_UP");
  if (warm_up == nullptr || std::strcmp(warm_up, "known") != 0) return;
  const tessera::ErrnoKept stays;
  tessera::offload::quietly([] {
    using tessera::offload::ProgramHistory;
    const char* const calibration = tessera::environment_variable("TESSERA_CALIBRATION");
    const auto seen = ProgramHistory::of_this_process(calibration != nullptr ? calibration : "").seen();
    if (seen == ProgramHistory::Seen::used) tessera::offload::shared_context().start_early();
  });
}

extern "C" void tessera_private_leave() noexcept { tessera::process::leave_libraries(); }

namespace {
[[noreturn]] void abort_for(const std::exception& error) {
  tessera::process::stop_if_ending();  // the driver is gone, and nobody will look at C
  tessera::log_line(std::string(error.what()) + ": the result is partly written and cannot be saved; aborting");
  std::abort();
}
}  // namespace

extern "C" void tessera_private_run(const tessera::Level3& call, tessera::offload::Face& face) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  if (tessera::process::is_computing()) [[unlikely]] {
    const tessera::kernels::CpuBlas* const blas = tessera_private_cpu_blas(face);
    return blas != nullptr ? blas->run(call) : tessera::kernels::reference_level3(call);
  }
  tessera::offload::CallTime time;
  tessera::offload::Context* context = nullptr;
  try {
    context = &tessera::offload::shared_context(&time);
  } catch (const std::exception&) {  // no memory for the settings
    return tessera::kernels::reference_level3(call);
  }
  try {
    context->run(call, tessera::offload::Fallback::cpu_blas, &face, &time);
  } catch (const std::exception& error) {
    abort_for(error);
  }
}

extern "C" void tessera_private_run_batch(tessera::GemmBatch& batch, tessera::offload::Face& face,
                                          double entered_s) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  if (tessera::process::is_computing()) [[unlikely]] {
    for (const tessera::Product& product : batch.problems) tessera_private_run(batch.call(product), face);
    return;
  }
  try {
    tessera::offload::CallTime time(entered_s);
    tessera::offload::shared_context(&time).run_batch(batch, &face, nullptr, &time);
  } catch (const std::bad_alloc&) {  // nothing has been touched: what memory lacks for later is another error
    for (const tessera::Product& product : batch.problems) tessera_private_run(batch.call(product), face);
  } catch (const std::exception& error) {
    abort_for(error);
  }
}

namespace {
/// The program's LAPACK, or that of the CPU BLAS behind the face.
class NextOrOwn final : public tessera::offload::CpuLapack {
 public:
  NextOrOwn(tessera::offload::Context* context, tessera::offload::Face& face, const tessera::offload::NextLapack* next)
      : context_(context), face_(face), next_(next) {}

  void compute(tessera::offload::LapackRun& run) override {
    // The locks of a LAPACK that comes with the CPU BLAS may be held for ever. We have its factorizations ourselves.
    const bool is_cut = tessera::process::cpu_blas_is_cut() && row_of(run.problem.routine).way == tessera::Way::factors;
    if (next_ != nullptr && !is_cut) {
      run.info = next_->compute(*next_);
      has_used_next_ = true;
    } else if (context_ != nullptr) {
      context_->compute_on_cpu(run, tessera::offload::Fallback::cpu_blas, &face_);
    } else {
      run.info = tessera::kernels::compute_on_cpu(nullptr, run.problem, run.found);
    }
  }
  bool has_used_next() const { return has_used_next_; }

 private:
  tessera::offload::Context* const context_;
  tessera::offload::Face& face_;
  const tessera::offload::NextLapack* const next_;
  bool has_used_next_ = false;
};
}  // namespace

extern "C" bool tessera_private_run_lapack(const tessera::LapackCall& problem, tessera::index_t& info,
                                           tessera::index_t& found, tessera::offload::Face& face,
                                           const tessera::offload::NextLapack* next, double entered_s) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  tessera::offload::CallTime time(entered_s);
  tessera::offload::Context* context = nullptr;
  try {
    context = &tessera::offload::shared_context(&time);
  } catch (const std::exception&) {  // no memory for the settings
  }
  NextOrOwn cpu(context, face, next);
  tessera::offload::LapackRun run{.problem = problem};
  try {
    if (context == nullptr || tessera::process::is_computing())
      cpu.compute(run);
    else
      context->run(run, tessera::offload::Fallback::cpu_blas, &face, &cpu, &time);
  } catch (const std::exception& error) {
    abort_for(error);
  }
  info = run.info;
  found = run.found;
  return !cpu.has_used_next();
}

extern "C" const tessera::kernels::CpuBlas* tessera_private_cpu_blas(tessera::offload::Face& face) noexcept {
  const tessera::ErrnoKept stays;
  try {
    return tessera::offload::shared_context().cpu_blas(&face).get();
  } catch (const std::exception& error) {
    tessera::log_line(error.what());
    return nullptr;
  }
}
