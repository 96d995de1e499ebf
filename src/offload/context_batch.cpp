// Decides whether a batch of gemm or LAPACK problems runs on the CPU BLAS or on devices, learns from it and reports it.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "offload/batch_policy.hpp"
#include "offload/context.hpp"
#include "offload/cpu_batch.hpp"
#include "offload/quietly.hpp"
#include "runtime/batches/gemm_chunks.hpp"
#include "runtime/batches/lapack_chunks.hpp"

namespace tessera::offload {
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

/// Takes every so many-th problem out, about `volume` in all. @return them @throws std::bad_alloc, and nothing has
/// changed
template <class Problem>
std::vector<Problem> take_sample(std::vector<Problem>& problems, const BatchDemand& demand, index_t volume) {
  const index_t wanted = std::max<index_t>(1, volume / std::max<index_t>(demand.mean_volume(), 1));
  const auto step = std::max<std::size_t>(part_of_sample, problems.size() / static_cast<std::size_t>(wanted));
  std::vector<Problem> sample;
  sample.reserve(problems.size() / step + 1);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem problem = problems[i];
    if (i % step == 0) {
      sample.push_back(problem);
    } else {
      problems[kept++] = problem;
    }
  }
  problems.resize(kept);
  return sample;
}

/// The outcome of the parts of a batch: the first that ran on devices, and the first failure.
class Parts {
 public:
  template <class Compute>
  void attempt(Compute&& compute) {
    try {
      auto done = compute();
      if (!job_) job_ = std::move(done);
    } catch (const std::bad_alloc&) {
      if (!failure_) failure_ = partly_written_;
    } catch (const std::exception&) {
      if (!failure_) failure_ = std::current_exception();
    }
  }
  /// @throws the failure
  std::optional<runtime::JobStatistics> take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(job_);
  }

 private:
  // Made while there is memory. A later lack of memory must not look as if nothing had been touched.
  std::exception_ptr partly_written_ = std::make_exception_ptr(DeviceLost("memory ran out while results were written"));
  std::optional<runtime::JobStatistics> job_;
  std::exception_ptr failure_;
};

/// The times of the parts of a batch, which are reported one by one. The first begins with the batch, each other one
/// with its own work. The time for which a part waits for devices to start counts for the batch, too.
class PartTimes {
 public:
  explicit PartTimes(CallTime& whole) : whole_(whole), next_(whole) {}

  /// @param part (CallTime&) does the work
  template <class Part>
  void take(const Part& part) {
    CallTime time = std::exchange(next_, CallTime());
    part(time);
    whole_.add_start(time.start_s());
  }

 private:
  CallTime& whole_;
  CallTime next_;
};

Routine routine_of(const GemmBatch& /*batch*/) { return Routine::gemm; }
Routine routine_of(const LapackProblems& batch) { return batch.routine; }

}  // namespace

template <class Batch>
class Context::WeighedBatch final : public Weighed {
 public:
  WeighedBatch(Context& context, Batch& batch, BatchDemand& demand, Face& face)
      : context_(context), batch_(batch), demand_(demand), face_(face) {}

  const OffloadRule& rule() const override { return context_.rules_.of(demand_.routine, demand_.type); }
  bool is_worth_no_look() const override {
    return context_.may_do_without_look(demand_.volume) && !speed().knows(demand_.routine, demand_.type);
  }
  Decision decide_now() override {
    Conditions now = context_.conditions_of_devices();
    context_.history_.describe(demand_, context_.threads_of_batches(face_), now);
    return decide(rule(), demand_, now, context_.packing_bytes_per_s());
  }
  // Computes samples of the batch itself, which nobody computes again.
  bool measures_cpu(const Decision& decision) override {
    // No measurement is needed of work that even the slowest BLAS does sooner, nor where there is no device.
    const bool is_open = decision.reason == Reason::device_wins || decision.reason == Reason::start_up ||
                         decision.reason == Reason::trial;
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

  /// @throws std::bad_alloc, and the batch has all of its problems
  Sample compute_sample(index_t volume) { return computed(take_sample(batch_.problems, demand_, volume)); }

  /// From here on these problems are nobody else's.
  Sample computed(decltype(Batch::problems) sample) noexcept {
    std::swap(sample, batch_.problems);
    const BatchDemand taken = demand_of(batch_, 0, batch_.size());
    const CallTime time = CallTime::from_now();
    double seconds = 0;
    {
      const CallHistory::OnCpu computing(context_.history_);
      context_.compute_on_cpu(batch_, 0, batch_.size(), face_);
      seconds = time.seconds();
    }
    std::swap(sample, batch_.problems);
    demand_ = demand_of(batch_, 0, batch_.size());
    quietly([&] { context_.report_.on_cpu(taken, {false, Reason::trial}, time); });
    return {seconds, seconds > 0 ? taken.flops / seconds : 0};
  }

  Context& context_;
  Batch& batch_;
  BatchDemand& demand_;
  Face& face_;
  bool has_measured_ = false;
};

double Context::packing_bytes_per_s() {
  const KnownDevices& devices = start_.known_devices();
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
  // No BLAS library tells the number of threads of the built-in one: the environment does.
  return std::min({processors(), threads_in(environment_variable("OMP_NUM_THREADS")),
                   threads_in(environment_variable("OPENBLAS_NUM_THREADS"))});
}

std::optional<runtime::JobStatistics> Context::run_batch(GemmBatch& batch, Face* which, double* flops,
                                                         CallTime* given_time) {
  Face& face = which != nullptr ? *which : own_face_;
  if (config_.warm_up) [[unlikely]]
    quietly([&] { warm_up_in_background(face); });
  CallTime own_time;
  PartTimes times(given_time != nullptr ? *given_time : own_time);
  Parts parts;
  const std::vector<Level3> single = take_single_calls(batch);
  if (batch.size() > 0) {
    times.take([&](CallTime& time) { parts.attempt([&] { return run_together(batch, face, flops, time); }); });
  }
  for (const Level3& call : single) {
    if (flops != nullptr) *flops += flops_of(call);
    times.take([&](CallTime& time) { parts.attempt([&] { return run(call, Fallback::cpu_blas, &face, &time); }); });
  }
  return parts.take();
}

std::optional<runtime::JobStatistics> Context::run_batch(LapackProblems& batch, double* flops, CallTime* given_time) {
  Face& face = own_face_;
  if (config_.warm_up) [[unlikely]]
    quietly([&] { warm_up_in_background(face); });
  CallTime own_time;
  PartTimes times(given_time != nullptr ? *given_time : own_time);
  Parts parts;
  BySize sizes = by_size(std::move(batch));
  for (LapackProblems* const part : {&sizes.small, &sizes.large, &sizes.too_large}) {
    if (part->size() > 0) reserve_space(*part, processors());
  }
  for (LapackProblems* const part : {&sizes.small, &sizes.large}) {
    if (part->size() == 0) continue;
    times.take([&](CallTime& time) { parts.attempt([&] { return run_together(*part, face, flops, time); }); });
  }
  if (sizes.too_large.size() > 0) {
    times.take([&](CallTime& time) {
      parts.attempt([&]() -> std::optional<runtime::JobStatistics> {
        time.begin();
        const BatchDemand demand = demand_of(sizes.too_large, 0, sizes.too_large.size());
        if (flops != nullptr) *flops += demand.flops;
        run_batch_on_cpu(sizes.too_large, demand, face, {false, Reason::out_of_memory}, time);
        return std::nullopt;
      });
    });
  }
  return parts.take();
}

template <class Batch>
std::optional<runtime::JobStatistics> Context::run_together(Batch& batch, Face& face, double* flops, CallTime& time) {
  BatchDemand demand = demand_of(batch, 0, batch.size());
  if (flops != nullptr) *flops += demand.flops;
  Decision decision = decide_early(rules_.of(routine_of(batch), batch.type), demand);
  if (!decision.offload && demand.volume < CpuSpeed::least_volume && !report_.is_wanted()) {
    compute_on_cpu(batch, 0, batch.size(), face);
    return std::nullopt;
  }
  time.begin();
  if (decision.offload) {
    WeighedBatch<Batch> weighed(*this, batch, demand, face);
    const auto run_job = [&](runtime::Runtime& runtime) {
      return run_batch_on_devices(runtime, batch, demand, face, decision, time);
    };
    if (auto job = try_devices(weighed, Fallback::cpu_blas, face, decision, time, std::cref(run_job))) return job;
  }
  run_batch_on_cpu(batch, demand, face, decision, time);
  return std::nullopt;
}

template <class Batch>
runtime::JobStatistics Context::run_batch_on_devices(runtime::Runtime& runtime, Batch& batch, const BatchDemand& demand,
                                                     Face& face, const Decision& decision, const CallTime& time) {
  CallHistory::OnDevices pending(history_, decision.device_s - decision.wait_s);
  const auto packable = runtime::packable(batch);
  runtime::JobStatistics job =
      runtime.run_batch(*packable, [&](index_t first, index_t last) { compute_on_cpu(batch, first, last, face); });
  complete_start_up(job, time);
  quietly([&] {
    tell_time(job, time);
    if (learns_ && job.devices.back().device != runtime::cpu_device) pending.record(demand, decision, job.device_s);
    report_.on_devices(demand, decision, job);
  });
  return job;
}

template <class Batch>
void Context::run_batch_on_cpu(Batch& batch, const BatchDemand& demand, Face& face, const Decision& decision,
                               const CallTime& time) {
  const double begin_s = device::now_seconds();
  double seconds = 0;
  {
    CallHistory::OnCpu computing(history_);
    compute_on_cpu(batch, 0, batch.size(), face);
    seconds = device::now_seconds() - begin_s;
    if (learns_) {
      computing.record(demand, threads_of_batches(face), decision, seconds, start_.stage() == DeviceStart::Stage::open);
    }
  }
  quietly([&] { report_.on_cpu(demand, decision, time); });
}

int Context::threads_for_batch(index_t volume, Face& face) noexcept {
  try {
    static_cast<void>(cpu_blas(&face));  // on this thread, which may hold the loader's lock
  } catch (const std::exception&) {      // each problem finds out, and the built-in one answers
  }
  // Work of a single thread needs no look at the limits of threads, nor memory.
  const int threads = threads_for(volume, std::numeric_limits<int>::max());
  if (threads == 1 || face.cpu.load(std::memory_order_acquire) == nullptr) return 1;  // to be opened by this thread
  return std::min(threads, most_threads_of_call(threads_of_batches(face), history_.cpu_calls()));
}

void Context::compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, Face& face) noexcept {
  const int threads = threads_for_batch(shared_volume(batch, first, last), face);
  const auto compute = [&](const Level3& product) { compute_on_cpu(product, Fallback::cpu_blas, face); };
  offload::compute_on_cpu(batch, first, last, threads, std::ref(compute));
}

void Context::compute_on_cpu(LapackProblems& batch, index_t first, index_t last, Face& face) noexcept {
  const int threads = threads_for_batch(shared_volume(batch, first, last), face);
  std::shared_ptr<const kernels::CpuBlas> blas;
  try {
    blas = cpu_blas(&face);
  } catch (const std::exception&) {  // then the reference
  }
  offload::compute_on_cpu(batch, first, last, threads, blas.get());
}

}  // namespace tessera::offload
