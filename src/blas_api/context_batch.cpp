// What becomes of a batch of gemm: the CPU BLAS or the devices, and what is learnt and told of it.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "blas_api/batch_policy.hpp"
#include "blas_api/context.hpp"
#include "blas_api/cpu_batch.hpp"
#include "blas_api/quietly.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/thread.hpp"
#include "runtime/gemm_chunks.hpp"

namespace tessera::api {
namespace {

/// Samples of a batch tell how fast the CPU is. The first one takes the slowest BLAS some ms; a tuned one on many
/// processors takes too little to tell, and may have its threads and buffers to make, so that at least one more is
/// taken. The best one counts.
constexpr index_t first_sample_volume = index_t{1} << 23;
constexpr index_t sample_growth = 8;
constexpr int least_samples = 2;
constexpr int most_samples = 4;
constexpr double telling_s = 2.5e-3;  ///< sixteen threads take half a millisecond to start
constexpr double lengthy_s = 5e-3;    ///< one that has told enough, on a slow machine
/// Of a batch, at most.
constexpr index_t part_of_sample = 8;

/// Takes every so many-th product out, about `volume` in all. @return them, without their forms @throws std::bad_alloc,
/// and nothing has changed
std::vector<Product> take_sample(GemmBatch& batch, const BatchDemand& demand, index_t volume) {
  const index_t wanted = std::max<index_t>(1, volume / std::max<index_t>(demand.mean_volume(), 1));
  const index_t step = std::max(part_of_sample, batch.size() / wanted);
  std::vector<Product> sample;
  sample.reserve(static_cast<std::size_t>(batch.size() / step + 1));
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch.problems.size(); ++i) {
    const Product product = batch.problems[i];
    if (static_cast<index_t>(i) % step == 0) {
      sample.push_back(product);
    } else {
      batch.problems[kept++] = product;
    }
  }
  batch.problems.resize(kept);
  return sample;
}

}  // namespace

class Context::WeighedBatch final : public Weighed {
 public:
  WeighedBatch(Context& context, GemmBatch& batch, BatchDemand& demand, Face& face)
      : context_(context), batch_(batch), demand_(demand), face_(face) {}

  const OffloadRule& rule() const override { return context_.config_.offload.of(Routine::gemm, demand_.type); }
  bool is_worth_no_look() const override {
    return context_.may_do_without_look(demand_.volume) && !speed().knows(demand_.type);
  }
  Verdict decide_now() override {
    Situation now = context_.situation_of_devices();
    context_.history_.describe(demand_, context_.threads_of_batches(face_), now);
    return decide(rule(), demand_, now, context_.packing_bytes_per_s());
  }
  // Computes samples of the batch itself, which nobody computes again.
  bool measures_cpu(const Verdict& verdict) override {
    // What even the slowest BLAS does sooner need not be measured, nor where there is no device.
    const bool is_open =
        verdict.reason == Reason::device_wins || verdict.reason == Reason::start_up || verdict.reason == Reason::trial;
    if (has_measured_ || !is_open || speed().knows(demand_)) return false;
    has_measured_ = true;
    quietly([&] { static_cast<void>(context_.cpu_blas(&face_)); });  // which takes its time
    double best = 0;
    try {
      index_t volume = first_sample_volume;
      for (int sample = 1; sample <= most_samples && batch_.size() > part_of_sample;
           ++sample, volume *= sample_growth) {
        const Sample taken = compute_sample(volume);
        best = std::max(best, taken.flops_per_s);
        if (taken.seconds >= (sample < least_samples ? lengthy_s : telling_s)) break;
      }
    } catch (const std::bad_alloc&) {  // then without
    }
    if (best > 0)
      context_.history_.note_batch_on_cpu(demand_, demand_.flops / best, context_.threads_of_batches(face_));
    return true;
  }

 private:
  const BatchSpeed& speed() const { return context_.history_.batch_speed(); }

  struct Sample {
    double seconds = 0;
    double flops_per_s = 0;
  };

  /// @throws std::bad_alloc, and the batch has all of its products
  Sample compute_sample(index_t volume) {
    GemmBatch sample;
    sample.type = batch_.type;
    sample.problems = take_sample(batch_, demand_, volume);
    return computed(sample);
  }

  /// From here on these products are nobody else's.
  Sample computed(GemmBatch& sample) noexcept {
    std::swap(sample.forms, batch_.forms);
    const BatchDemand taken = demand_of(sample, 0, sample.size());
    const double begin_s = device::now_seconds();
    double seconds = 0;
    {
      const CallHistory::OnCpu computing(context_.history_);
      context_.compute_on_cpu(sample, 0, sample.size(), face_);
      seconds = device::now_seconds() - begin_s;
    }
    std::swap(sample.forms, batch_.forms);
    demand_ = demand_of(batch_, 0, batch_.size());
    quietly([&] { context_.report_.on_cpu(taken, {false, Reason::trial}, seconds, seconds); });
    return {seconds, seconds > 0 ? taken.flops / seconds : 0};
  }

  Context& context_;
  GemmBatch& batch_;
  BatchDemand& demand_;
  Face& face_;
  bool has_measured_ = false;
};

double Context::packing_bytes_per_s() {
  const Outlook& devices = start_.outlook();
  const device::Staging staging;
  const int most = std::max(devices.rates.devices, 1) * staging.most_threads;
  const int threads =
      devices.copy_threads > 0 ? devices.copy_threads * devices.rates.devices : std::clamp(processors(), 1, most);
  return staging.thread_bytes_per_s * threads;
}

int Context::threads_of_batches(const Face& face) const {
  const CpuOutcome* const cpu = face.cpu.load(std::memory_order_acquire);
  if (cpu == nullptr) return processors();
  if (cpu->blas) return most_threads(processors(), cpu->blas->threads());
  // The built-in one has nobody else to say it.
  return std::min({processors(), threads_in(environment_variable("OMP_NUM_THREADS")),
                   threads_in(environment_variable("OPENBLAS_NUM_THREADS"))});
}

std::optional<runtime::JobStatistics> Context::run_batch(GemmBatch& batch, Face* which, double* flops) {
  Face& face = which != nullptr ? *which : own_face_;
  if (config_.warm_up) [[unlikely]]
    quietly([&] { warm_up_in_background(face); });
  // Made while there is memory. What runs out of it later must not look as if nothing had been touched.
  const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
  const std::vector<Level3> single = take_single_calls(batch);
  std::optional<runtime::JobStatistics> job;
  std::exception_ptr failure;
  const auto attempt = [&](auto&& compute) {
    try {
      auto done = compute();
      if (!job) job = std::move(done);
    } catch (const std::bad_alloc&) {
      if (!failure) failure = partly_written;
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  };
  if (batch.size() > 0) attempt([&] { return run_together(batch, face, flops); });
  for (const Level3& call : single) {
    if (flops != nullptr) *flops += flops_of(call);
    attempt([&] { return run(call, Fallback::cpu_blas, &face); });
  }
  if (failure) std::rethrow_exception(failure);
  return job;
}

std::optional<runtime::JobStatistics> Context::run_together(GemmBatch& batch, Face& face, double* flops) {
  BatchDemand demand = demand_of(batch, 0, batch.size());
  if (flops != nullptr) *flops += demand.flops;
  Verdict verdict = decide_early(config_.offload.of(Routine::gemm, batch.type), demand);
  if (!verdict.offload && demand.volume < CpuSpeed::least_volume && !report_.is_wanted()) {
    compute_on_cpu(batch, 0, batch.size(), face);
    return std::nullopt;
  }
  const double arrival_s = device::now_seconds();
  if (verdict.offload) {
    const WithoutCancellation stays;
    runtime::Runtime* runtime = nullptr;
    try {
      WeighedBatch weighed(*this, batch, demand, face);
      runtime = devices_for(weighed, Fallback::cpu_blas, face, verdict);
    } catch (const std::exception& error) {
      if (config_.verbose) quietly([&] { log_line(error.what()); });
      verdict = {false, Reason::unavailable};
    }
    if (runtime != nullptr) {
      if (auto job = run_on_devices(*runtime, batch, demand, face, verdict, arrival_s)) return job;
    }
  }
  run_on_cpu(batch, demand, face, verdict, arrival_s);
  return std::nullopt;
}

// Nothing: no device is left, or there is no memory to begin; nothing has been computed, by what
// runtime::Runtime::run_batch() promises.
std::optional<runtime::JobStatistics> Context::run_on_devices(runtime::Runtime& runtime, const GemmBatch& batch,
                                                              const BatchDemand& demand, Face& face, Verdict& verdict,
                                                              double arrival_s) {
  std::optional<runtime::JobStatistics> job;
  try {
    CallHistory::OnDevices pending(history_, verdict.device_s - verdict.wait_s);
    const auto packable = runtime::packable(batch);
    job = runtime.run_batch(*packable, [&](index_t first, index_t last) { compute_on_cpu(batch, first, last, face); });
    quietly([&] {
      if (learns_ && job->devices.back().device != "cpu") pending.record(demand, verdict, job->seconds);
    });
  } catch (const NoDeviceLeft& error) {
    if (config_.verbose) quietly([&] { log_line(error.what()); });
    verdict = {false, Reason::unavailable};
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    verdict = {false, Reason::unavailable};
    return std::nullopt;
  }
  complete_start_up(*job, arrival_s);
  quietly([&] { report_.on_devices(demand, verdict, *job, device::now_seconds() - arrival_s); });
  attend_after_job(face);
  return job;
}

void Context::run_on_cpu(const GemmBatch& batch, const BatchDemand& demand, Face& face, const Verdict& verdict,
                         double arrival_s) {
  const double begin_s = device::now_seconds();
  double seconds = 0;
  {
    CallHistory::OnCpu computing(history_);
    compute_on_cpu(batch, 0, batch.size(), face);
    seconds = device::now_seconds() - begin_s;
    if (learns_) {
      computing.record(demand, threads_of_batches(face), verdict, seconds, start_.stage() == DeviceStart::Stage::open);
    }
  }
  quietly([&] { report_.on_cpu(demand, verdict, seconds, device::now_seconds() - arrival_s); });
}

void Context::compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, Face& face) noexcept {
  try {
    static_cast<void>(cpu_blas(&face));  // on this thread, which may hold the loader's lock
  } catch (const std::exception&) {      // each product finds out, and the built-in one answers
  }
  const auto compute = [&](const Level3& product) { compute_on_cpu(product, Fallback::cpu_blas, face); };
  // What limits threads is not looked at for what one thread does, nor is memory needed.
  int threads = threads_for(shared_volume(batch, first, last), std::numeric_limits<int>::max());
  if (face.cpu.load(std::memory_order_acquire) == nullptr) threads = 1;  // to be opened by this thread
  if (threads > 1) threads = std::min(threads, most_threads_of_call(threads_of_batches(face), history_.cpu_calls()));
  api::compute_on_cpu(batch, first, last, threads, std::ref(compute));
}

}  // namespace tessera::api
