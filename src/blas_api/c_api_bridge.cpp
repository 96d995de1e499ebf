// The shared context behind the drop-in BLAS symbols; bridge.hpp says what holds.
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "blas_api/bridge.hpp"
#include "blas_api/context.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "kernels/reference/reference.hpp"

/// Leaked: at exit, other threads and other libraries' destructors may still call BLAS, and a driver may be gone
/// already. No static variable of the function, since a child made while another thread constructs it would wait for
/// that thread.
tessera::api::Context& tessera::api::shared_context(CallTime* time) {
  // The release of the exchange, which publishes the context, pairs with the acquire load.
  static std::atomic<Context*> shared = nullptr;
  Context* context = shared.load(std::memory_order_acquire);
  if (context == nullptr) {
    if (time != nullptr) time->begin();
    auto mine = std::make_unique<Context>(tessera::Config::from_environment());
    if (shared.compare_exchange_strong(context, mine.get(), std::memory_order_acq_rel)) context = mine.release();
  }
  return *context;
}

extern "C" void tessera_private_enter_lapack(tessera::api::Face& face) noexcept {
  const tessera::ErrnoKept stays;
  if (face.cpu.load(std::memory_order_acquire) == nullptr && !tessera::process::cpu_blas_is_cut()) [[unlikely]] {
    try {
      static_cast<void>(tessera::api::shared_context().cpu_blas(&face));
    } catch (const std::exception&) {  // there is none, or no memory: the program's LAPACK does without
    }
  }
  tessera::process::enter_lapack();
}

extern "C" void tessera_private_leave_lapack() noexcept { tessera::process::leave_lapack(); }

extern "C" void tessera_private_enter() noexcept { tessera::process::watch_all_loaded(); }

extern "C" void tessera_private_leave() noexcept { tessera::process::leave_libraries(); }

namespace {
[[noreturn]] void abort_for(const std::exception& error) {
  tessera::process::stop_if_ending();  // the driver is gone, and nobody will look at C
  tessera::log_line(std::string(error.what()) + ": the result is partly written and cannot be saved; aborting");
  std::abort();
}
}  // namespace

extern "C" void tessera_private_run(const tessera::Level3& call, tessera::api::Face& face) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  if (tessera::process::is_computing()) [[unlikely]] {
    const tessera::kernels::CpuBlas* const blas = tessera_private_cpu_blas(face);
    return blas != nullptr ? blas->run(call) : tessera::kernels::reference_level3(call);
  }
  tessera::api::CallTime time;
  tessera::api::Context* context = nullptr;
  try {
    context = &tessera::api::shared_context(&time);
  } catch (const std::exception&) {  // no memory for the settings
    return tessera::kernels::reference_level3(call);
  }
  try {
    context->run(call, tessera::api::Fallback::cpu_blas, &face, &time);
  } catch (const std::exception& error) {
    abort_for(error);
  }
}

extern "C" void tessera_private_run_batch(tessera::GemmBatch& batch, tessera::api::Face& face,
                                          double entered_s) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  if (tessera::process::is_computing()) [[unlikely]] {
    for (const tessera::Product& product : batch.problems) tessera_private_run(batch.call(product), face);
    return;
  }
  try {
    tessera::api::CallTime time(entered_s);
    tessera::api::shared_context(&time).run_batch(batch, &face, nullptr, &time);
  } catch (const std::bad_alloc&) {  // nothing has been touched: what memory lacks for later is another error
    for (const tessera::Product& product : batch.problems) tessera_private_run(batch.call(product), face);
  } catch (const std::exception& error) {
    abort_for(error);
  }
}

namespace {
/// What the program has, or the CPU BLAS behind the face.
class NextOrOwn final : public tessera::api::CpuLapack {
 public:
  NextOrOwn(tessera::api::Face& face, const tessera::api::NextLapack* next) : face_(face), next_(next) {}

  void compute(tessera::LapackCall& call) override {
    // Of a LAPACK that comes with the CPU BLAS, locks may be taken for ever.
    if (next_ == nullptr || tessera::process::cpu_blas_is_cut())
      return tessera::api::shared_context().compute_on_cpu(call, tessera::api::Fallback::cpu_blas, &face_);
    next_->compute(*next_, call);
    has_used_next_ = true;
  }
  bool has_used_next() const { return has_used_next_; }

 private:
  tessera::api::Face& face_;
  const tessera::api::NextLapack* const next_;
  bool has_used_next_ = false;
};
}  // namespace

extern "C" bool tessera_private_run_lapack(tessera::LapackCall& call, tessera::api::Face& face,
                                           const tessera::api::NextLapack* next, double entered_s) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  tessera::api::Context* context = nullptr;
  NextOrOwn cpu(face, next);
  tessera::api::CallTime time(entered_s);
  try {
    try {
      context = &tessera::api::shared_context(&time);
    } catch (const std::exception&) {  // no memory for the settings
      if (next == nullptr) {
        tessera::kernels::compute_on_cpu(nullptr, call);
        return true;
      }
      next->compute(*next, call);
      return false;
    }
    if (tessera::process::is_computing()) [[unlikely]]
      cpu.compute(call);
    else
      context->run(call, tessera::api::Fallback::cpu_blas, &face, &cpu, &time);
  } catch (const std::exception& error) {
    abort_for(error);
  }
  return !cpu.has_used_next();
}

namespace {
class NextOfDense final : public tessera::api::CpuDense {
 public:
  explicit NextOfDense(const tessera::api::NextDense& next) : next_(next) {}

  void compute(tessera::api::DenseRun& run) override {
    run.info = next_.compute(next_);
    has_used_next_ = true;
  }
  bool has_used_next() const { return has_used_next_; }

 private:
  const tessera::api::NextDense& next_;
  bool has_used_next_ = false;
};
}  // namespace

extern "C" bool tessera_private_run_dense(const tessera::DenseProblem& problem, tessera::index_t& info,
                                          tessera::index_t& found, tessera::api::Face& face,
                                          const tessera::api::NextDense& next, double entered_s) noexcept {
  const tessera::ErrnoKept stays;
  const tessera::process::OutOfLapack outside;
  tessera::api::CallTime time(entered_s);
  tessera::api::Context* context = nullptr;
  try {
    if (!tessera::process::is_computing()) context = &tessera::api::shared_context(&time);
  } catch (const std::exception&) {  // no memory for the settings
  }
  if (context == nullptr) {
    next.compute(next);
    return false;
  }
  NextOfDense cpu(next);
  tessera::api::DenseRun run{.problem = problem};
  try {
    context->run(run, tessera::api::Fallback::cpu_blas, &face, &cpu, &time);
  } catch (const std::exception& error) {
    abort_for(error);
  }
  info = run.info;
  found = run.found;
  return !cpu.has_used_next();
}

extern "C" const tessera::kernels::CpuBlas* tessera_private_cpu_blas(tessera::api::Face& face) noexcept {
  const tessera::ErrnoKept stays;
  try {
    return tessera::api::shared_context().cpu_blas(&face).get();
  } catch (const std::exception& error) {
    tessera::log_line(error.what());
    return nullptr;
  }
}
