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
#include "kernels/host/cpu_batch.hpp"
#include "offload/batch_parts.hpp"
#include "offload/context.hpp"
#include "offload/quietly.hpp"
#include "offload/work.hpp"
#include "routines/level3.hpp"
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
std::vector<Problem> take_sample(std::vector<Problem>& problems, const Work& work, index_t volume) {
  const index_t wanted = std::max<index_t>(1, volume / std::max<index_t>(work.mean_volume(), 1));
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

std::vector<device::Touched> touched_by(const GemmBatch& batch) {
  std::vector<device::Touched> touched;
  for (const Product& product : batch.problems) {
    const std::vector<device::Touched> more = routines::touched_by(batch.call(product));
    touched.insert(touched.end(), more.begin(), more.end());
  }
  return touched;
}

std::vector<device::Touched> touched_by(const LapackProblems& batch) {
  using Use = device::Touched::Use;
  const auto element = static_cast<index_t>(element_bytes(batch.type));
  const bool writes_a = factors(batch.routine) || inverts(batch.routine);
  std::vector<device::Touched> touched;
  const auto add = [&](void* matrix, index_t ld, index_t rows, index_t cols, Use use) {
    if (matrix != nullptr && rows > 0 && cols > 0)
      touched.push_back({{static_cast<std::byte*>(matrix), ld * element, rows * element, cols}, use});
  };
  for (const LapackProblem& problem : batch.problems) {
    add(problem.A, problem.lda, problem.m, problem.n, writes_a ? Use::written : Use::read);
    add(problem.B, problem.ldb, problem.n, problem.nrhs, Use::written);
  }
  return touched;
}

}  // namespace

template <class Batch>
struct Context::BatchCall final : Call {
  BatchCall(Context& of, const Work& its_work, Face& its_face, CallTime& its_time, Batch& its_batch)
      : Call(of, its_work, Fallback::cpu_blas, its_face, its_time), batch_(its_batch) {}

  std::string text() const override { return text_of_batch(work); }
  runtime::JobStatistics compute_on(runtime::Runtime& runtime, CallHistory::OnDevices& /*pending*/) override {
    const auto packable = runtime::packable(batch_);
    return runtime.run_batch(*packable,
                             [&](index_t first, index_t last) { context.compute_on_cpu(batch_, first, last, face); });
  }
  void compute_on_cpu() override { context.compute_on_cpu(batch_, 0, batch_.size(), face); }
  /// One that the CPU finished tells nothing of devices.
  bool is_typical(const runtime::JobStatistics* job) const override {
    return job == nullptr || job->devices.empty() || job->devices.back().device != runtime::cpu_device;
  }
  // Computes samples of the batch itself, which nobody computes again.
  bool measures_cpu() override {
    // No measurement is needed of work that even the slowest BLAS does sooner, nor where there is no device.
    const bool is_open = decision.reason == Reason::device_wins || decision.reason == Reason::start_up ||
                         decision.reason == Reason::trial;
    if (has_measured_ || !is_open || context.history_.cpu_speed().has_seen(work)) return false;
    has_measured_ = true;
    quietly([&] { static_cast<void>(context.cpu_blas(&face)); });  // which takes its time
    double best = 0;
    try {
      index_t volume = first_sample_volume;
      for (int sample = 1; sample <= most_samples && batch_.size() > part_of_sample;
           ++sample, volume *= sample_growth) {
        const Sample taken = computed(take_sample(batch_.problems, work, volume));
        best = std::max(best, taken.flops_per_s);
        if (taken.seconds >= (sample < least_samples ? lengthy_s : telling_s)) break;
      }
    } catch (const std::bad_alloc&) {  // then without
    }
    for (int sample = 0; best > 0 && sample < least_samples; ++sample)  // enough to be believed
      context.history_.cpu_speed().record(work, work.flops / best, true, context.threads_of_batches(face));
    return true;
  }

 private:
  struct Sample {
    double seconds = 0;
    double flops_per_s = 0;
  };

  /// From here on these problems are nobody else's.
  Sample computed(decltype(Batch::problems) sample) noexcept {
    std::swap(sample, batch_.problems);
    const Work taken = work_of(batch_, 0, batch_.size());
    const CallTime time_of_sample = CallTime::from_now();
    double seconds = 0;
    {
      const CallHistory::OnCpu computing(context.history_);
      compute_on_cpu();
      seconds = time_of_sample.seconds();
    }
    std::swap(sample, batch_.problems);
    work = work_of(batch_, 0, batch_.size());
    quietly([&] {
      const Decision trial{false, Reason::trial};
      context.report_.tell({taken, trial, {time_of_sample.seconds(), 0}}, [&] { return text_of_batch(taken); });
    });
    return {seconds, seconds > 0 ? taken.flops / seconds : 0};
  }

  Batch& batch_;
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
  if (cpu->blas) return kernels::most_threads(processors(), cpu->blas->threads());
  // No BLAS library tells the number of threads of the built-in one: the environment does.
  return std::min({processors(), kernels::threads_in(environment_variable("OMP_NUM_THREADS")),
                   kernels::threads_in(environment_variable("OPENBLAS_NUM_THREADS"))});
}

std::optional<runtime::JobStatistics> Context::run_batch(GemmBatch& batch, Face* which, double* flops,
                                                         CallTime* given_time) {
  Face& face = face_of_call(which);
  CallTime own_time;
  PartTimes times(given_time != nullptr ? *given_time : own_time);
  Parts parts;
  std::optional<runtime::HostUse> host_use;
  if (lazy_matrices() != nullptr) begin_host_use(host_use, touched_by(batch));
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
  Face& face = face_of_call(nullptr);
  CallTime own_time;
  PartTimes times(given_time != nullptr ? *given_time : own_time);
  Parts parts;
  std::optional<runtime::HostUse> host_use;
  if (lazy_matrices() != nullptr) begin_host_use(host_use, touched_by(batch));
  BySize sizes = by_size(std::move(batch));
  for (LapackProblems* const part : {&sizes.small, &sizes.large, &sizes.too_large}) {
    if (part->size() > 0) kernels::reserve_space(*part, processors());
  }
  for (LapackProblems* const part : {&sizes.small, &sizes.large}) {
    if (part->size() == 0) continue;
    times.take([&](CallTime& time) { parts.attempt([&] { return run_together(*part, face, flops, time); }); });
  }
  if (sizes.too_large.size() > 0) {
    times.take([&](CallTime& time) {
      parts.attempt([&]() -> std::optional<runtime::JobStatistics> {
        time.begin();
        BatchCall call(*this, work_of(sizes.too_large, 0, sizes.too_large.size()), face, time, sizes.too_large);
        if (flops != nullptr) *flops += call.work.flops;
        call.decision = {false, Reason::out_of_memory};
        run_on_cpu(call);
        return std::nullopt;
      });
    });
  }
  return parts.take();
}

template <class Batch>
std::optional<runtime::JobStatistics> Context::run_together(Batch& batch, Face& face, double* flops, CallTime& time) {
  BatchCall<Batch> call(*this, work_of(batch, 0, batch.size()), face, time, batch);
  if (flops != nullptr) *flops += call.work.flops;
  return decide_and_run(call);
}

int Context::threads_for_batch(index_t volume, Face& face) noexcept {
  try {
    static_cast<void>(cpu_blas(&face));  // on this thread, which may hold the loader's lock
  } catch (const std::exception&) {      // each problem finds out, and the built-in one answers
  }
  // Work of a single thread needs no look at the limits of threads, nor memory.
  const int threads = kernels::threads_for(volume, std::numeric_limits<int>::max());
  if (threads == 1 || face.cpu.load(std::memory_order_acquire) == nullptr) return 1;  // to be opened by this thread
  return std::min(threads, kernels::most_threads_of_call(threads_of_batches(face), history_.cpu_calls()));
}

void Context::compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, Face& face) noexcept {
  const int threads = threads_for_batch(kernels::shared_volume(batch, first, last), face);
  const auto compute = [&](const Level3& product) { compute_on_cpu(product, Fallback::cpu_blas, face); };
  kernels::compute_on_cpu(batch, first, last, threads, std::ref(compute));
}

void Context::compute_on_cpu(LapackProblems& batch, index_t first, index_t last, Face& face) noexcept {
  const int threads = threads_for_batch(kernels::shared_volume(batch, first, last), face);
  std::shared_ptr<const kernels::CpuBlas> blas;
  try {
    blas = cpu_blas(&face);
  } catch (const std::exception&) {  // then the reference
  }
  kernels::compute_on_cpu(batch, first, last, threads, blas.get());
}

}  // namespace tessera::offload
