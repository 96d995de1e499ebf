// Decides whether a call runs on the CPU BLAS or on devices, has it computed, learns from it and reports it.
#include "offload/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/thread.hpp"
#include "kernels/reference/reference.hpp"
#include "offload/quietly.hpp"
#include "offload/work.hpp"
#include "routines/level3.hpp"
#include "runtime/call_begin.hpp"

namespace tessera::offload {
namespace {

/// Opening devices takes seconds. A caller that waits longer than this waits for a thread that waits for the caller.
constexpr double longest_start_s = 60;
/// The reference's early outs. Where they do not hold, a call without a product still scales C.
bool does_nothing(const Level3& call) {
  if (call.m == 0 || call.n == 0) return true;
  return !call.is_triangular() && call.only_scales() && call.beta == AnyScalar(1);
}

}  // namespace

Context::Context(Config config)
    : config_(std::move(config)),
      rules_(config_.offload),
      least_decided_volume_(std::min(rules_.least_volume_of_any(), CpuSpeed::least_volume)),
      report_(config_),
      learns_(config_.devices != DeviceChoice::none && config_.offload.weighs()),
      history_(CpuSpeed::available_processors(config_.local_ranks())),
      start_(config_) {}

runtime::Runtime* Context::opened(Fallback fallback, Decision& decision) const {
  if (runtime::Runtime* const runtime = start_.runtime()) return runtime;
  if (start_.stage() == DeviceStart::Stage::failed && fallback == Fallback::report &&
      config_.devices != DeviceChoice::automatic)
    start_.rethrow_failure();
  decision = {false, Reason::unavailable};  // or all of them have failed since
  return nullptr;
}

runtime::Runtime* Context::runtime(Face* face) {
  if (config_.devices == DeviceChoice::none || start_.why_forbidden()) return nullptr;
  if (start_.stage() == DeviceStart::Stage::closed)
    start_.open(start_context(face != nullptr ? face : &own_face_), longest_start_s);
  // The process ends, or another thread takes too long.
  if (start_.stage() == DeviceStart::Stage::closed) return nullptr;
  Decision decision;
  return opened(Fallback::report, decision);
}

runtime::LazyMatrices* Context::place_of_matrices() {
  runtime::Runtime* const runtime = this->runtime();
  if (runtime == nullptr) return nullptr;
  if (!runtime->keeps_matrices())
    throw NotAvailable("devices keep no matrices: set TESSERA_RESIDENT_MEMORY to the memory of each that is for them");
  keeps_matrices_ = true;
  return &runtime->lazy_matrices();
}

// A child has none. While the process ends, or once all devices are lost, what only they have cannot be had: that is
// told.
runtime::LazyMatrices* Context::lazy_matrices() const {
  if (!keeps_matrices_.load(std::memory_order_relaxed) || start_.why_forbidden() == Reason::forked) return nullptr;
  runtime::Runtime* const runtime = start_.opened();
  return runtime != nullptr && runtime->lazy_matrices().any() ? &runtime->lazy_matrices() : nullptr;
}

DeviceStart::Context Context::start_context(Face* face) {
  const auto face_now = [this, face]() -> Face& {
    Face* const known = face != nullptr ? face : first_face_.load(std::memory_order_acquire);
    return known != nullptr ? *known : own_face_;
  };
  return {
      .cpu_blas = [this, face_now] { return cpu_blas(&face_now()); },
      .compute = [this, face_now](const Level3& product) { compute_on_cpu(product, Fallback::cpu_blas, face_now()); },
      .is_quiet = [this] { return history_.is_quiet(); }};
}

void Context::start_early() {
  if (config_.warm_up != WarmUp::known_programs || config_.offload.never() || config_.devices == DeviceChoice::none)
    return;
  const ProgramHistory program = ProgramHistory::of_this_process(config_.calibration);
  if (program.seen() != ProgramHistory::Seen::used || !start_.known_devices().possible) return;
  if (config_.verbose) log_line("devices are started early: the last run of this program used them");
  started_early_ = true;
  // A run that does not use them is the last one that starts them.
  quietly([&] { program.note(ProgramHistory::Seen::nothing); });
  start_.serve_in_background(start_context(nullptr), true);
}

void Context::note_program(ProgramHistory::Seen seen) {
  if (config_.warm_up != WarmUp::known_programs || noted_program_.exchange(true, std::memory_order_relaxed)) return;
  quietly([&] { ProgramHistory::of_this_process(config_.calibration).note(seen); });
}

Conditions Context::conditions_for(const Call& call) {
  Conditions now;
  now.until_open_s = start_.until_open_s();
  now.is_opening = start_.is_opening();
  now.rates = start_.known_devices().rates;
  const bool is_batch = call.work.of == Work::Of::batch;
  if (is_batch) now.rates.packing_bytes_per_s = packing_bytes_per_s();
  history_.describe(call.work, learns_, is_batch ? threads_of_batches(call.face) : 1, now);
  return now;
}

Work Context::work_left(const Call& call) const {
  Work work = call.work;
  const runtime::Runtime* const runtime = start_.runtime();
  if (runtime == nullptr || !runtime->keeps_matrices()) return work;
  quietly([&] { work.up -= std::min(work.up, static_cast<double>(runtime->resident_bytes(call.inputs(), true))); });
  return work;
}

bool Context::Call::measures_cpu() {
  const auto probe = context.history_.cpu_speed().next_probe(work, decision.device_s);
  if (!probe) return false;
  context.history_.time_on_cpu(*probe,
                               [&](const Level3& product) { context.compute_on_cpu(product, Fallback::report, face); });
  return true;
}

bool Context::is_for_devices(Call& call) {
  Decision& decision = call.decision;
  if (config_.devices == DeviceChoice::none) {
    decision = {false, Reason::no_devices};
    return false;
  }
  const bool weighed = call.rule().when == Offload::automatic;
  for (;;) {
    if (const auto reason = start_.why_forbidden()) {
      decision = {false, *reason};
      return false;
    }
    if (start_.stage() == DeviceStart::Stage::failed) return true;
    if (weighed && !start_.known_devices().possible) {
      decision = {false, Reason::no_gpu};
      return false;
    }
    decision = decide(call.rule(), weighed ? work_left(call) : call.work, conditions_for(call));
    if (&call.rule() == &Call::with_whole) decision.reason = Reason::with_whole;
    if (weighed && call.measures_cpu()) continue;
    return decision.offload;
  }
}

runtime::Runtime* Context::devices_for(Call& call) {
  using Stage = DeviceStart::Stage;
  Decision& decision = call.decision;
  const bool weighed = call.rule().when == Offload::automatic;
  for (;;) {
    const bool offloads = is_for_devices(call);
    if (decision.reason == Reason::forked && started_early_) note_program(ProgramHistory::Seen::children);
    if (decision.earns_start) quietly([&] { start_.serve_in_background(start_context(&call.face), true); });
    if (!offloads) return nullptr;
    const Stage stage = start_.stage();
    if (stage == Stage::failed) start_.try_again([&] { return start_context(&call.face); });
    if (stage == Stage::failed || stage == Stage::open) return opened(call.fallback, decision);
    // The thread that opens them may wait for the loader's lock, which the caller may hold. So nobody waits for ever.
    const double begin_s = device::now_seconds();
    start_.open(start_context(&call.face), weighed ? std::max(decision.cpu_s, decision.wait_s) : longest_start_s);
    call.time.add_start(device::now_seconds() - begin_s);
    if (start_.stage() == Stage::closed && !start_.why_forbidden()) {
      decision.offload = false;
      decision.reason = Reason::start_up;
      decision.start_up_s = decision.wait_s;
      return nullptr;
    }
  }
}

/// A call that is decided and not made.
struct Context::Question final : Call {
  using Call::Call;
  std::string text() const override { return {}; }
  runtime::JobStatistics compute_on(runtime::Runtime& /*runtime*/, CallHistory::OnDevices& /*pending*/) override {
    return {};
  }
  void compute_on_cpu() override {}
};

bool Context::would_offload(const Work& work) {
  CallTime time;
  Question question(*this, work, Fallback::report, own_face_, time);
  question.decision = decide_early(question.rule(), work);
  if (!question.decision.offload || !is_for_devices(question)) return false;
  return start_.stage() != DeviceStart::Stage::failed;
}

std::optional<runtime::JobStatistics> Context::decide_and_run(Call& call) {
  call.decision = decide_early(call.rule(), call.work);
  const bool is_small = !call.decision.offload && call.work.volume < CpuSpeed::least_volume;
  if (is_small && !report_.is_wanted() && lazy_matrices() == nullptr) [[likely]] {
    call.compute_on_cpu();
    return std::nullopt;
  }
  call.time.begin();
  return run(call);
}

std::optional<runtime::JobStatistics> Context::run(Call& call) {
  if (call.decision.offload) {
    if (auto job = try_devices(call)) return job;
  }
  run_on_cpu(call);
  return std::nullopt;
}

std::optional<runtime::JobStatistics> Context::try_devices(Call& call) {
  Decision& decision = call.decision;
  const WithoutCancellation stays;
  const runtime::CallBegin begin(call.time.entered_s());
  const auto tell = [&](const std::exception& error) {
    if (config_.verbose) quietly([&] { log_line(error.what()); });
  };
  runtime::Runtime* runtime = nullptr;
  try {
    runtime = devices_for(call);
  } catch (const std::exception& error) {
    if (call.fallback == Fallback::report) throw;
    tell(error);
    decision = {false, Reason::unavailable};
  }
  if (runtime == nullptr) return std::nullopt;
  try {
    Face* nobody = nullptr;
    first_face_.compare_exchange_strong(nobody, &call.face, std::memory_order_acq_rel);
    runtime::JobStatistics job = run_on_devices(*runtime, call);
    serve_after_job(call.face);
    note_program(ProgramHistory::Seen::used);
    return job;
  } catch (const NotAvailable& error) {  // another thread has lost the last device, or one has no LAPACK
    tell(error);
    const bool has_devices = dynamic_cast<const NoDeviceLeft*>(&error) == nullptr;
    decision = {false, has_devices ? Reason::unsuitable : Reason::unavailable};
  } catch (const OutOfDeviceMemory& error) {
    if (call.fallback == Fallback::report) throw;
    tell(error);
    decision = {false, Reason::out_of_memory};
  } catch (const std::bad_alloc&) {  // the program's memory ran out before the job began
    if (call.fallback == Fallback::report) throw;
    decision = {false, Reason::unavailable};
  }
  return std::nullopt;
}

std::shared_ptr<const kernels::CpuBlas> Context::cpu_blas(Face* which) {
  if (process::cpu_blas_is_cut())
    throw NotAvailable("another thread was using the CPU BLAS while this process was being forked");
  Face& face = which != nullptr ? *which : own_face_;
  const CpuOutcome* outcome = face.cpu.load(std::memory_order_acquire);
  if (outcome == nullptr) {
    auto mine = std::make_unique<CpuOutcome>();
    try {
      mine->blas = open_cpu_blas(face);
    } catch (const std::bad_alloc&) {  // the next call may find memory
      throw;
    } catch (...) {
      mine->failure = std::current_exception();
    }
    if (face.cpu.compare_exchange_strong(outcome, mine.get(), std::memory_order_acq_rel)) outcome = mine.release();
  }
  if (outcome->failure) std::rethrow_exception(outcome->failure);
  return outcome->blas;
}

std::shared_ptr<const kernels::CpuBlas> Context::open_cpu_blas(const Face& face) {
  kernels::CpuBlasSearch search = face.search;
  if (!config_.cpu_blas.empty()) {
    try {
      return kernels::CpuBlas::open(config_.cpu_blas, search);
    } catch (const NotAvailable& error) {
      if (!told_of_setting_.exchange(true)) {
        log_line(fmt::format("TESSERA_CPU_BLAS=\"{}\" is not valid: {}; the default is used", config_.cpu_blas,
                             error.what()));
      }
    }
  }
  if (face.next_definition != nullptr) {
    search.next_gemm = face.next_definition(search.scheme.fortran("dgemm").c_str());
  }
  return kernels::CpuBlas::open("", search);
}

void Context::compute_on_cpu(const Level3& call, Fallback fallback, Face& face) {
  const CpuOutcome* const outcome = face.cpu.load(std::memory_order_acquire);
  if (outcome != nullptr && outcome->blas && !process::cpu_blas_is_cut()) return outcome->blas->run(call);
  const std::shared_ptr<const kernels::CpuBlas> blas = cpu_blas_or_reference(fallback, face);
  blas ? blas->run(call) : kernels::reference_level3(call);
}

std::shared_ptr<const kernels::CpuBlas> Context::cpu_blas_or_reference(Fallback fallback, Face& face) {
  try {
    return cpu_blas(&face);
  } catch (const std::exception& error) {
    if (fallback == Fallback::report) throw;
    // A caller without an error channel gets the right result, slowly, and is told.
    if (!told_of_reference_.exchange(true))
      quietly([&] { log_line(fmt::format("{}; the slow built-in BLAS is used", error.what())); });
    return nullptr;
  }
}

// Estimates the help from the speed of the CPU BLAS and from earlier calls with it. The copy threads of this call and
// of others on the devices need processors. A call that the CPU BLAS is computing may hold it for long.
runtime::CpuHelp Context::cpu_help(const Work& work, const Decision& decision) {
  if (config_.cpu_worker == CpuWorkerUse::always) return {.always = true};
  const CpuSpeed& speed = history_.cpu_speed();
  const double seconds = decision.device_s - decision.wait_s;
  if (config_.cpu_worker == CpuWorkerUse::never || seconds <= 0 || !speed.knows(work.type)) return {};
  if (history_.cpu_calls() > 0 || history_.device_calls() > 1 || !history_.should_help(work.volume)) return {};
  const CpuEstimate cpu = speed.estimate(work);
  if (!cpu.bounded) return {};
  double idle = 1;
  if (const KnownDevices& devices = start_.known_devices(); devices.copy_threads > 0)
    idle -= std::min(1.0, runtime::move_seconds(work, devices.rates.links) / seconds);
  return {.flops_per_s = idle * work.flops / cpu.most_s, .devices_flops_per_s = work.flops / seconds};
}

struct Context::ProductCall final : Call {
  using Call::Call;
  std::string text() const override { return text_of(work.product); }
  runtime::JobStatistics compute_on(runtime::Runtime& runtime, CallHistory::OnDevices& /*pending*/) override {
    return routines::run(runtime, work.product, context.config_.tile.value_or(0), context.cpu_help(work, decision));
  }
  void compute_on_cpu() override { context.compute_on_cpu(work.product, fallback, face); }
  std::vector<device::HostMatrix> inputs() const override { return routines::inputs_of(work.product); }
  std::vector<device::Touched> touched() const override { return routines::touched_by(work.product); }
};

std::optional<runtime::JobStatistics> Context::run(const Level3& call, Fallback fallback, Face* which,
                                                   CallTime* given_time) {
  Face& face = face_of_call(which);
  if (does_nothing(call)) return std::nullopt;

  const index_t volume = volume_of(call);
  const Decision decision = decide_early(rules_.of(call.routine, call.type), call.only_scales(), volume);
  const bool is_small = !decision.offload && volume < CpuSpeed::least_volume;
  if (is_small && !report_.is_wanted() && lazy_matrices() == nullptr) [[likely]] {
    compute_on_cpu(call, fallback, face);
    return std::nullopt;
  }
  CallTime own_time;
  ProductCall product(*this, work_of(call), fallback, face, given_time != nullptr ? *given_time : own_time);
  product.time.begin();
  product.decision = decision;
  return run(product);
}

std::optional<runtime::JobStatistics> Context::run_part(const Level3& call, Face& face) {
  CallTime time;
  ProductCall part(*this, work_of(call), Fallback::cpu_blas, face, time);
  part.is_part = part.follows_whole = true;
  return decide_and_run(part);
}

runtime::JobStatistics Context::run_on_devices(runtime::Runtime& runtime, Call& call) {
  CallHistory::OnDevices pending(history_, call.decision.device_s - call.decision.wait_s);
  runtime::JobStatistics job = [&] {
    const RunningCall running = call.running(true);
    return call.compute_on(runtime, pending);
  }();
  complete_start_up(job, call.time);
  // The results are there by now, whatever becomes of this.
  quietly([&] {
    job.seconds = call.time.seconds();
    job.start_s = call.time.start_s();
    if (learns_ && job.resident_bytes == 0 && job.stayed_bytes == 0 && call.is_typical(&job)) {
      pending.record(
          call.work, call.decision,
          {.seconds = job.device_s, .helped = job.has_cpu_part(), .beside = job.beside, .with_waiting_s = job.seconds});
    }
    report(call, &job);
  });
  return job;
}

void Context::report(const Call& call, const runtime::JobStatistics* job) const {
  const CallSummary::Took took = job != nullptr ? CallSummary::Took{job->seconds, job->start_s}
                                                : CallSummary::Took{call.time.seconds(), call.time.start_s()};
  report_.tell({call.work, call.decision, took, job, call.is_part}, [&] { return call.text(); });
}

void Context::complete_start_up(runtime::JobStatistics& job, const CallTime& time) const {
  if (!job.start_up) return;
  job.start_up->load_s = start_.load_s();
  job.start_up->open_s = start_.open_s();
  if (job.first_kernel_at > 0) job.start_up->first_kernel_s = job.first_kernel_at - time.entered_s();
}

void Context::serve_after_job(Face& face) {
  quietly([&] {
    if (learns_ && start_.known_devices().file) start_.serve_in_background(start_context(&face), false);
  });
}

void Context::run_on_cpu(Call& call) {
  const double begin_s = device::now_seconds();
  {
    std::optional<CallHistory::OnCpu> computing;
    if (call.work.volume >= CpuSpeed::least_volume) computing.emplace(history_, call.work.of);
    {
      std::optional<runtime::HostUse> host_use;
      if (lazy_matrices() != nullptr) begin_host_use(host_use, call.touched());
      const RunningCall running = call.running(false);
      call.compute_on_cpu();
    }
    const double seconds = device::now_seconds() - begin_s;
    if (learns_ && computing && call.is_typical(nullptr)) {
      quietly([&] {
        computing->record(call.work, call.decision, seconds, start_.stage() == DeviceStart::Stage::open,
                          call.work.of == Work::Of::batch ? threads_of_batches(call.face) : 1);
      });
    }
  }
  quietly([&] { report(call, nullptr); });
}

void Context::warm_up(Face* face) {
  try {
    static_cast<void>(cpu_blas(face));
  } catch (const NotAvailable&) {  // the first call that needs it says so
  }
  if (config_.offload.never() || !start_.known_devices().possible) return;
  runtime::Runtime* const runtime = this->runtime(face);
  if (runtime == nullptr) return;
  const WithoutCancellation stays;
  start_.measure();
  runtime->warm_up();
}

void Context::warm_up_in_background(Face& face) {
  if (config_.offload.never() || config_.devices == DeviceChoice::none || !start_.known_devices().possible) return;
  start_.serve_in_background(start_context(&face), true);
}

std::pair<std::string, runtime::Calibration> Context::calibrate() {
  runtime::Runtime* const runtime = this->runtime();
  if (runtime == nullptr) throw NotAvailable("there are no devices to measure");
  return start_.calibrate();
}

std::string Context::describe_devices() {
  std::string text;
  std::string why = to_text({false, Reason::no_devices});
  if (config_.offload.never()) {
    why = to_text({false, Reason::never});
  } else if (const runtime::Runtime* const runtime = this->runtime()) {
    for (const device::Device* const device : runtime->devices()) {
      const device::DeviceInfo& info = device->info();
      text += fmt::format("{}:{} {}, {} MiB{}{}\n", info.backend, info.ordinal, info.name, info.memory_bytes >> 20,
                          info.pci_bus_id.empty() ? "" : ", ", info.pci_bus_id);
    }
    why = "no device works any more";
  } else if (const auto reason = start_.why_forbidden()) {
    why = to_text({false, *reason});
  } else if (start_.stage() == DeviceStart::Stage::failed) {
    why = start_.failure_text();
  }
  if (text.empty()) text = fmt::format("cpu {} ({})\n", cpu_blas()->path(), why);
  return text;
}

}  // namespace tessera::offload
