// How a context comes by its devices and its CPU BLAS, and which of the two answers a call.
#include "blas_api/context.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "blas_api/calibration_file.hpp"
#include "blas_api/device_bias.hpp"
#include "blas_api/policy.hpp"
#include "core/error.hpp"
#include "core/level3.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/thread.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/host/reference.hpp"
#include "kernels/plugin_loader.hpp"
#include "routines/level3.hpp"

namespace tessera::api {

struct Context::State {
  explicit State(int local_ranks) : cpu_speed(CpuSpeed::available_processors(local_ranks)) {}

  Face own_face;  ///< of calls through the own API
  /// Whether somebody has been told, once is enough; order nothing.
  std::atomic<bool> told_of_setting = false;
  std::atomic<bool> told_of_reference = false;

  /// What the decision learns and remembers. Relaxed: each is a number by itself.
  CpuSpeed cpu_speed;
  DeviceBias device_bias;
  std::atomic<bool> warming = false;  ///< a thread does it or has done it
  std::thread warmer;                 ///< written by who sets `warming`
  std::uint64_t warmer_maker = 0;     ///< its process
  std::atomic<double> forgone_s = 0;  ///< by calls that the CPU answered although devices would have been quicker
  std::atomic<std::int64_t> backlog_ns = 0;  ///< whole numbers, so that it comes back to 0

  /// The process that began to open devices, see process::identity(); 0: none yet. Set before open_mutex is first taken, so that a
  /// child, in which that mutex may stay locked for ever, knows not to wait for it. Relaxed: a child has a copy of the memory as
  /// it was, and within one process only the value itself counts.
  std::atomic<std::uint64_t> owner = 0;

  /// How far the devices are. Each stage is stored, with release, when what belongs to it is written, which is never written
  /// again; so an acquire load is enough to read it, and calls are decided without a lock.
  enum class Stage : std::uint8_t { unknown, found, open, failed };
  std::atomic<Stage> stage = Stage::unknown;

  std::mutex open_mutex;  ///< held to go to the next stage
  /// A thread does so, which may take seconds. Relaxed: for estimates only.
  std::atomic<bool> advancing = false;
  // From `found` on:
  std::unique_ptr<kernels::Backend> backend;
  std::vector<int> ordinals;
  int sharers = 1;       ///< processes on this host that use these devices
  int copy_threads = 0;  ///< of each device
  Rates rates;
  double load_s = 0;                          ///< that finding them took
  std::optional<CalibrationFile> unmeasured;  ///< where their rates belong that nobody has measured yet
  std::atomic<bool> measured = false;         ///< or somebody is about to
  std::atomic<int> cpu_calls =
      0;  ///< calls that the CPU BLAS is computing, small ones not counted. Relaxed: for estimates only
  // In `open`:
  double open_s = 0;  ///< that opening them took
  std::unique_ptr<runtime::Runtime> runtime;
  // In `failed`:
  std::exception_ptr failure;  ///< why the devices that were asked for are not there
  std::string failure_text;

  ~State() { delete own_face.cpu.load(std::memory_order_relaxed); }

  bool in_child() const {
    const std::uint64_t begun_by = owner.load(std::memory_order_relaxed);
    return begun_by != 0 && begun_by != process::identity();
  }

  /// @return false in a child of the process that uses the devices, and once the process is ending; `verdict` says which
  bool may_touch_devices(Verdict& verdict) {
    verdict = {false, process::ending() ? Reason::ending : Reason::forked};
    const std::uint64_t self = process::identity();
    std::uint64_t expected = 0;
    const bool ours = owner.compare_exchange_strong(expected, self, std::memory_order_relaxed) || expected == self;
    return ours && !process::ending();
  }

  /// Finds out what devices there are. @throws NotAvailable
  void probe(const Config& config, const std::shared_ptr<const kernels::CpuBlas>& blas);
  /// Measures the rates of the open devices and keeps them, if nobody ever has. @pre stage is open
  void measure_once(const Config& config);
  void remember_failure(const Config& config);
};

namespace {

/// What a copy thread moves between pageable memory and a device, those of both directions counted.
constexpr double carried_bytes_per_s = 4e9;
/// What measuring the rates of devices takes.
constexpr double calibration_s = 0.5;

/// The letters of the Fortran call, in its order, and the sizes: "dtrsm LUNN m=20 n=30".
std::string describe(const Level3& call) {
  std::string text = name_of(call) + ' ';
  const auto op = [](Op o) { return "NTC"[static_cast<std::size_t>(o)]; };
  if (call.routine == Routine::gemm) {
    text += {op(call.op_a), op(call.op_b)};
  } else {
    if (!call.is_rank_update()) text += call.side == Side::left ? 'L' : 'R';
    text += call.uplo == Uplo::lower ? 'L' : 'U';
    if (call.is_rank_update() || call.is_triangular()) text += op(call.op_a);
    if (call.is_triangular()) text += call.diag == Diag::unit ? 'U' : 'N';
  }
  if (!call.is_rank_update()) text += fmt::format(" m={}", call.m);
  text += fmt::format(" n={}", call.n);
  if (call.has_k()) text += fmt::format(" k={}", call.k);
  return text;
}

/// A call that is on the devices or waits for them.
class Pending {
 public:
  Pending(std::atomic<std::int64_t>& backlog_ns, double seconds)
      : backlog_ns_(backlog_ns), ns_(static_cast<std::int64_t>(std::min(seconds, 1e6) * 1e9)) {
    backlog_ns_.fetch_add(ns_, std::memory_order_relaxed);
  }
  ~Pending() { backlog_ns_.fetch_sub(ns_, std::memory_order_relaxed); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

 private:
  std::atomic<std::int64_t>& backlog_ns_;
  std::int64_t ns_;
};

/// One more, as long as it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { count_.fetch_add(1, std::memory_order_relaxed); }
  ~Counted() { count_.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

/// The GPUs that `automatic` and `cuda` mean may be there. Without a driver there is no device file: nvidiactl; dxg under WSL;
/// nvmap on boards that have the GPU in the processor. A plugin that was named is tried in any case.
bool cuda_may_be_there(const Config& config) {
  if (!config.cuda_plugin.empty()) return true;
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    if (*visible == '\0' || std::strcmp(visible, "-1") == 0) return false;
  }
  const auto there = [](const char* file) { return access(file, F_OK) == 0; };
  return there("/dev/nvidiactl") || there("/dev/dxg") || there("/dev/nvmap");
}

/// "rank 1 of 4 on this host (Open MPI): cuda:2 cuda:3"
std::string to_text(const LocalRank& place, const DeviceShare& share, const std::vector<device::DeviceInfo>& devices) {
  std::string text = fmt::format("rank {} of {} on this host ({}):", place.rank, place.ranks, place.launcher);
  for (const device::DeviceInfo& device : devices) text += fmt::format(" {}:{}", device.backend, device.ordinal);
  if (share.sharers > 1) text += fmt::format(", shared by {} ranks", share.sharers);
  return text;
}

void log_call(const Level3& call, const std::string& where, const Verdict& verdict, double seconds) {
  log_line(fmt::format("{} on {} ({}): {:.6f} s, {:.3f} TFLOP/s", describe(call), where, to_text(verdict), seconds,
                       seconds > 0 ? flops_of(call) / seconds * 1e-12 : 0.0));
}

void log_start_up(const runtime::StartUp& start_up) {
  log_line(fmt::format(
      "devices were found in {:.3f} s, opened in {:.3f} s, their memory reserved in {:.3f} s; first kernel {:.3f} s "
      "after the call",
      start_up.load_s, start_up.open_s, start_up.reserve_s, start_up.first_kernel_s));
}

/// The reference's early outs. Where they do not hold, a call without a product still scales C.
bool does_nothing(const Level3& call) {
  if (call.m == 0 || call.n == 0) return true;
  return !call.is_triangular() && call.only_scales() && call.beta == AnyScalar(1);
}

/// One line appended in one write, so that the lines of several processes do not mix.
void append_line(const std::string& file, std::string line) {
  line += '\n';
  const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  ssize_t written = -1;
  while (descriptor >= 0 && (written = write(descriptor, line.data(), line.size())) < 0 && errno == EINTR) continue;
  const bool good = written == static_cast<ssize_t>(line.size());
  if (!good) log_line(fmt::format("cannot write TESSERA_STATS={}: {}", file, std::strerror(errno)));
  if (descriptor >= 0) close(descriptor);
}

}  // namespace

void Context::State::remember_failure(const Config& config) {
  failure = std::current_exception();
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    failure_text = error.what();
  } catch (...) {
    failure_text = "unknown error";
  }
  if (config.verbose) log_line(fmt::format("devices cannot be used, the CPU BLAS answers: {}", failure_text));
  stage.store(Stage::failed, std::memory_order_release);
}

void Context::State::probe(const Config& config, const std::shared_ptr<const kernels::CpuBlas>& blas) {
  const bool host = config.devices == DeviceChoice::host;
  backend = host ? kernels::make_host_backend(config, config.host_devices, blas)
                 : kernels::open_cuda_backend(config.cuda_plugin);
  std::vector<device::DeviceInfo> devices = backend->devices();
  if (config.devices == DeviceChoice::cuda && !config.cuda_ordinals.empty()) {
    std::vector<device::DeviceInfo> chosen;
    for (const int ordinal : config.cuda_ordinals) {
      const auto found =
          std::find_if(devices.begin(), devices.end(), [&](const auto& d) { return d.ordinal == ordinal; });
      if (found == devices.end()) throw NotAvailable(fmt::format("there is no CUDA device {}", ordinal));
      chosen.push_back(*found);
    }
    devices = std::move(chosen);
  }
  if (devices.empty()) throw NotAvailable("there is no CUDA device");
  const DeviceShare share = config.device_share(static_cast<int>(devices.size()));
  devices = {devices.begin() + share.first, devices.begin() + share.first + share.count};
  sharers = share.sharers;
  if (config.verbose && config.local_rank) log_line(to_text(*config.local_rank, share, devices));
  for (const device::DeviceInfo& device : devices) ordinals.push_back(device.ordinal);
  rates = rates_of(devices);
  copy_threads =
      config.copy_threads_of(static_cast<int>(devices.size()), CpuSpeed::available_processors(config.local_ranks()));
  if (!host) rates.start_up_s += cuda_probe_s;
  if (!host && copy_threads > 0) {
    rates.page_lock_bytes_per_s = 0;
    const double carried = carried_bytes_per_s * rates.devices * copy_threads;
    const double one_way = rates.links.up > 0 ? std::min(rates.links.up, carried) : carried;
    rates.links = {one_way, one_way, carried};
  }
  const CalibrationFile file(config.calibration, devices, copy_threads);
  if (const auto measured = file.read()) {
    rates.flops_per_s = measured->flops_per_s;
    rates.links = measured->page_locked.up > 0 && copy_threads == 0 ? measured->page_locked : measured->pageable;
    if (config.verbose) log_line(fmt::format("rates of the devices: {}", file.path()));
  } else if (config.offload.weighs() && (!host || !config.calibration.empty()) && config.local_ranks() == 1 &&
             sharers == 1 && file.is_free()) {
    // Host devices are settings: their rates are measured where a file is named for them. Ranks that measure at once would each find a
    // part of what the host gives.
    unmeasured = file;
    rates.start_up_s += calibration_s;
  }
}

// For the processes to come: in this one the rough figures may be in use already, and what calls take corrects them.
void Context::State::measure_once(const Config& config) {
  if (!unmeasured || measured.exchange(true, std::memory_order_relaxed)) return;
  try {
    unmeasured->write(runtime->calibrate());
    if (config.verbose) log_line(fmt::format("rates of the devices were measured: {}", unmeasured->path()));
  } catch (const std::exception& error) {  // without them all works as well
    if (config.verbose) log_line(fmt::format("rates of the devices were not kept: {}", error.what()));
  }
}

Context::Context(Config config)
    : config_(std::move(config)),
      summary_(config_.summary ? &CallSummary::of_process(*config_.summary) : nullptr),
      watched_(config_.verbose || summary_ != nullptr),
      learns_(config_.devices != DeviceChoice::none && config_.offload.weighs()),
      state_(std::make_unique<State>(config_.local_ranks())) {}

Context::~Context() {
  if (state_->warmer.joinable()) {
    // In a child it does not exist.
    const bool ours = state_->warmer_maker == process::identity();
    ours ? state_->warmer.join() : state_->warmer.detach();
  }
  const std::uint64_t owner = state_->owner.load(std::memory_order_relaxed);
  // In a child the worker threads do not exist, and there as in a process that is ending the driver must not be called: leave
  // everything where it is.
  if (owner != 0 && (owner != process::identity() || process::ending())) static_cast<void>(state_.release());
}

bool Context::may_use_devices(Verdict& verdict) const {
  if (config_.devices == DeviceChoice::none) {
    verdict = {false, Reason::no_devices};
    return false;
  }
  if (state_->in_child()) {
    verdict = {false, Reason::forked};
    return false;
  }
  if (process::ending()) {
    verdict = {false, Reason::ending};
    return false;
  }
  return true;
}

bool Context::advance(Face& face, Verdict& verdict) {
  const process::Pass driving(process::Work::driving);
  if (!state_->may_touch_devices(verdict)) return false;
  state_->advancing.store(true, std::memory_order_relaxed);
  const double begin_s = device::now_seconds();
  try {
    if (state_->stage.load(std::memory_order_relaxed) == State::Stage::unknown) {
      std::shared_ptr<const kernels::CpuBlas> blas;
      if (config_.devices == DeviceChoice::host) {
        try {
          blas = cpu_blas(&face);
        } catch (const NotAvailable&) {  // the host devices' readable reference computes the tiles then
        }
      }
      state_->probe(config_, blas);
      state_->load_s = device::now_seconds() - begin_s;
      state_->stage.store(State::Stage::found, std::memory_order_release);
    } else {
      std::vector<kernels::Accelerator> devices = state_->backend->open(state_->ordinals, state_->copy_threads);
      state_->open_s = device::now_seconds() - begin_s;
      state_->runtime = std::make_unique<runtime::Runtime>(
          std::move(devices), config_,
          [this, &face](const Level3& product) { compute_on_cpu(product, Fallback::cpu_blas, face); }, state_->sharers);
      const kernels::Backend& backend = *state_->backend;
      process::watch(&typeid(backend));  // the driver has registered by now what it does at exit
      state_->stage.store(State::Stage::open, std::memory_order_release);
    }
  } catch (...) {
    state_->remember_failure(config_);
  }
  state_->advancing.store(false, std::memory_order_relaxed);
  return true;
}

runtime::Runtime* Context::opened(Fallback fallback, Verdict& verdict) {
  if (state_->stage.load(std::memory_order_acquire) == State::Stage::open) {
    if (state_->runtime->machine().devices > 0) return state_->runtime.get();  // else all of them have failed since
  } else if (fallback == Fallback::report && config_.devices != DeviceChoice::automatic) {
    std::rethrow_exception(state_->failure);
  }
  verdict = {false, Reason::unavailable};
  return nullptr;
}

runtime::Runtime* Context::runtime(Face* face) {
  Verdict verdict;
  if (!may_use_devices(verdict)) return nullptr;
  while (state_->stage.load(std::memory_order_acquire) < State::Stage::open) {
    if (!state_->may_touch_devices(verdict)) return nullptr;
    const std::lock_guard lock(state_->open_mutex);
    if (state_->stage.load(std::memory_order_relaxed) < State::Stage::open &&
        !advance(face != nullptr ? *face : state_->own_face, verdict)) {
      return nullptr;
    }
  }
  return opened(Fallback::report, verdict);
}

Situation Context::situation(const Level3& call) const {
  const State::Stage stage = state_->stage.load(std::memory_order_acquire);
  Situation now;
  now.rates = stage == State::Stage::unknown ? likely_gpu : state_->rates;
  now.start_up_s = stage == State::Stage::open      ? 0
                   : stage == State::Stage::unknown ? cuda_probe_s
                                                    : state_->rates.start_up_s;
  now.forgone_s = state_->forgone_s.load(std::memory_order_relaxed);
  now.being_opened = stage < State::Stage::open && state_->advancing.load(std::memory_order_relaxed);
  now.backlog_s = backlog_s();
  now.bias = state_->device_bias.of(volume_of(call));
  if (learns_) now.cpu = state_->cpu_speed.estimate(call);
  return now;
}

double Context::backlog_s() const {
  return 1e-9 * static_cast<double>(state_->backlog_ns.load(std::memory_order_relaxed));
}

void Context::measure_cpu(const Level3& probe, Face& face) {
  constexpr double built_in_flops_per_s = 1e9;
  dispatch(probe.type, [&]<Scalar T>(T) {
    // Not zeros: the reference BLAS skips those.
    const std::vector<T> factors(static_cast<std::size_t>(std::max(probe.m, probe.n) * probe.k), T(0.5F));
    std::vector<T> product(static_cast<std::size_t>(probe.m * probe.n));
    Level3 call = probe;
    call.A = factors.data();
    call.lda = probe.m;
    call.B = factors.data();
    call.ldb = probe.k;
    call.C = product.data();
    call.ldc = probe.m;
    double least_s = flops_of(call) / built_in_flops_per_s;
    try {
      // Twice: the first may have to start the threads of the BLAS.
      for (int repeat = 0; repeat < 2; ++repeat) {
        const double begin_s = device::now_seconds();
        compute_on_cpu(call, Fallback::report, face);
        least_s = std::min(least_s, device::now_seconds() - begin_s);
      }
    } catch (const NotAvailable&) {  // what answers then is slow: reference_level3
    }
    state_->cpu_speed.record(call, least_s);
  });
}

runtime::Runtime* Context::devices_for(const Level3& call, Fallback fallback, Face& face, Verdict& verdict) {
  using Stage = State::Stage;
  if (!may_use_devices(verdict)) return nullptr;
  const OffloadRule& rule = config_.offload.of(call.routine, call.type);
  const bool weighed = rule.when == Offload::automatic;
  const bool host = config_.devices == DeviceChoice::host;
  if (weighed && !host && state_->stage.load(std::memory_order_acquire) == Stage::unknown &&
      !cuda_may_be_there(config_)) {
    verdict = {false, Reason::no_gpu};
    return nullptr;
  }
  if (weighed && !state_->cpu_speed.knows(call.type)) {
    constexpr index_t order = 104;  // CpuSpeed does not look at less
    static_assert(order * order * order >= CpuSpeed::least_volume);
    measure_cpu({.type = call.type, .m = order, .n = order, .k = order}, face);
  }

  for (;;) {
    const Stage stage = state_->stage.load(std::memory_order_acquire);
    if (stage == Stage::failed) return opened(fallback, verdict);
    // To look at host devices costs nothing, so they are weighed by what they are.
    if (stage != Stage::unknown || !host) {
      const Situation now = situation(call);
      verdict = decide(rule, call, now);
      if (weighed) {
        if (const auto probe = next_probe(state_->cpu_speed, call, verdict.device_s + now.start_up_s)) {
          measure_cpu(*probe, face);
          continue;
        }
      }
      if (!verdict.offload) return nullptr;
      if (stage == Stage::open) {
        state_->measure_once(config_);
        return opened(fallback, verdict);
      }
    }
    if (!state_->may_touch_devices(verdict)) return nullptr;
    const std::lock_guard lock(state_->open_mutex);
    // Otherwise another thread has just taken this step.
    if (state_->stage.load(std::memory_order_relaxed) == stage && !advance(face, verdict)) return nullptr;
  }
}

std::shared_ptr<const kernels::CpuBlas> Context::cpu_blas(Face* which) {
  if (process::cpu_blas_is_cut())
    throw NotAvailable("another thread began to use the CPU BLAS while this process was being forked");
  Face& face = which != nullptr ? *which : state_->own_face;
  const CpuOutcome* outcome = face.cpu.load(std::memory_order_acquire);
  if (outcome == nullptr) {
    auto mine = std::make_unique<CpuOutcome>();
    try {
      mine->blas = open_cpu_blas(face);
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
      if (!state_->told_of_setting.exchange(true)) {
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
  std::shared_ptr<const kernels::CpuBlas> blas;
  try {
    blas = cpu_blas(&face);
  } catch (const NotAvailable& error) {
    if (fallback == Fallback::report) throw;
    // A caller without an error channel gets the right result, slowly, and is told.
    if (!state_->told_of_reference.exchange(true))
      log_line(fmt::format("{}; the slow built-in BLAS is used", error.what()));
    return kernels::reference_level3(call);
  }
  blas->run(call);
}

// By what this process has seen of its CPU BLAS. While copy threads carry the operands, the processors are theirs. A call that the CPU BLAS
// is computing may hold it for long.
runtime::CpuHelp Context::cpu_help(const Level3& call, const Verdict& verdict) const {
  if (config_.cpu_worker == CpuWorkerUse::always) return {.always = true};
  const double seconds = verdict.device_s - verdict.wait_s;
  if (config_.cpu_worker == CpuWorkerUse::never || seconds <= 0 || !state_->cpu_speed.knows(call.type) ||
      state_->cpu_calls.load(std::memory_order_relaxed) > 0)
    return {};
  const CpuEstimate cpu = state_->cpu_speed.estimate(call);
  if (!cpu.bounded) return {};
  double idle = 1;
  if (state_->copy_threads > 0) {
    const runtime::Demand moved = demand_of(call);
    idle -= std::min(1.0, runtime::move_seconds(moved, state_->rates.links) / seconds);
  }
  return {.flops_per_s = idle * flops_of(call) / cpu.most_s, .devices_flops_per_s = flops_of(call) / seconds};
}

runtime::JobStatistics Context::run_on_devices(runtime::Runtime& runtime, const Level3& call, const Verdict& verdict,
                                               double arrival_s) {
  runtime::JobStatistics job = routines::run(runtime, call, config_.tile.value_or(0), cpu_help(call, verdict));
  if (job.start_up) {
    job.start_up->load_s = state_->load_s;
    job.start_up->open_s = state_->open_s;
    if (job.first_kernel_at > 0) job.start_up->first_kernel_s = job.first_kernel_at - arrival_s;
  }
  if (config_.verbose) {
    std::string where;
    for (const runtime::DeviceStatistics& device : job.devices) where += (where.empty() ? "" : ",") + device.device;
    log_call(call, where, verdict, job.seconds);
    if (job.start_up) log_start_up(*job.start_up);
  }
  if (!config_.stats_file.empty()) append_line(config_.stats_file, runtime::to_json(job));
  return job;
}

std::optional<runtime::JobStatistics> Context::run(const Level3& call, Fallback fallback, Face* which) {
  Face& face = which != nullptr ? *which : state_->own_face;
  if (config_.warm_up) [[unlikely]]
    warm_up_in_background(face);
  if (does_nothing(call)) return std::nullopt;

  const index_t volume = volume_of(call);
  const Verdict verdict = decide_early(config_.offload.of(call.routine, call.type), call, volume);
  if (!verdict.offload && volume < CpuSpeed::least_volume && !watched_) [[likely]] {
    compute_on_cpu(call, fallback, face);
    return std::nullopt;
  }
  return run_weighed(call, volume, fallback, face, verdict);
}

std::optional<runtime::JobStatistics> Context::run_weighed(const Level3& call, index_t volume, Fallback fallback,
                                                           Face& face, Verdict verdict) {
  const double arrival_s = device::now_seconds();
  const auto note = [&] {
    if (summary_ != nullptr) summary_->record(call, volume, verdict, device::now_seconds() - arrival_s);
  };
  if (verdict.offload) {
    const WithoutCancellation stays;
    if (runtime::Runtime* const runtime = devices_for(call, fallback, face, verdict)) {
      const Pending pending(state_->backlog_ns, verdict.device_s - verdict.wait_s);
      if (verdict.reason == Reason::device_wins) state_->cpu_speed.passed_over(call);
      try {
        runtime::JobStatistics job = run_on_devices(*runtime, call, verdict, arrival_s);
        const bool helped = job.devices.back().device == "cpu";
        if (learns_ && verdict.model_s > 0 && !helped)
          state_->device_bias.record(volume, job.seconds / verdict.model_s);
        note();
        return job;
      } catch (const OutOfDeviceMemory& error) {  // C is untouched
        if (fallback == Fallback::report) throw;
        if (config_.verbose) log_line(error.what());
        verdict = {false, Reason::out_of_memory};
      }
    }
  }

  const double begin_s = device::now_seconds();
  {
    const Counted computing(state_->cpu_calls);
    compute_on_cpu(call, fallback, face);
  }
  const double seconds = device::now_seconds() - begin_s;
  if (learns_ && volume >= CpuSpeed::least_volume) {
    state_->cpu_speed.record(call, seconds);
    if (verdict.reason == Reason::cpu_wins) state_->device_bias.passed_over(volume);
    // What it cost not to have the devices open, by the time that it really took.
    const bool weighed = verdict.cpu_s > 0;
    if (weighed && seconds > verdict.device_s && state_->stage.load(std::memory_order_relaxed) < State::Stage::open)
      state_->forgone_s.fetch_add(seconds - verdict.device_s, std::memory_order_relaxed);
  }
  if (config_.verbose) log_call(call, "the CPU BLAS", verdict, seconds);
  note();
  return std::nullopt;
}

void Context::warm_up(Face* face) {
  try {
    static_cast<void>(cpu_blas(face));
  } catch (const NotAvailable&) {  // the first call that needs it says so
  }
  const bool sought = config_.devices == DeviceChoice::automatic;
  if (config_.offload.never() || (sought && !cuda_may_be_there(config_))) return;
  runtime::Runtime* const runtime = this->runtime(face);
  if (runtime == nullptr) return;
  const WithoutCancellation stays;
  state_->measure_once(config_);
  runtime->warm_up();
}

void Context::warm_up_in_background(Face& face) {
  if (state_->warming.load(std::memory_order_relaxed) || state_->warming.exchange(true)) return;
  try {
    state_->warmer_maker = process::identity();
    state_->warmer = start_thread([this, &face] {
      try {
        warm_up(&face);
      } catch (const std::exception&) {  // remembered where devices are opened, and told to whoever needs them
      }
    });
  } catch (const std::system_error&) {  // the calls that need it will do it
  }
}

std::pair<std::string, runtime::Calibration> Context::calibrate() {
  runtime::Runtime* const runtime = this->runtime();
  if (runtime == nullptr) throw NotAvailable("there are no devices to measure");
  std::vector<device::DeviceInfo> devices;
  for (const device::Device* const device : runtime->devices()) devices.push_back(device->info());
  const CalibrationFile file(config_.calibration, devices, state_->copy_threads);
  const runtime::Calibration rates = runtime->calibrate();
  file.write(rates);
  return {file.path(), rates};
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
  } else if (Verdict verdict; !state_->may_touch_devices(verdict)) {
    why = to_text(verdict);
  } else if (state_->stage.load(std::memory_order_acquire) == State::Stage::failed) {
    why = state_->failure_text;
  }
  if (text.empty()) text = fmt::format("cpu {} ({})\n", cpu_blas()->path(), why);
  return text;
}

}  // namespace tessera::api
