// How a context comes by its devices and its CPU BLAS, and which of the two answers a call.
#include "blas_api/context.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "blas_api/policy.hpp"
#include "core/error.hpp"
#include "core/level3.hpp"
#include "core/log.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/host/reference.hpp"
#include "kernels/plugin_loader.hpp"
#include "routines/level3.hpp"

namespace tessera::api {

struct Context::State {
  struct Cpu {
    std::shared_ptr<const kernels::CpuBlas> blas;
    std::exception_ptr failure;
  };
  Face own_face;         ///< of calls through the own API
  std::mutex cpu_mutex;  ///< guards cpus
  std::map<const Face*, Cpu> cpus;

  /// The process that began to open devices; 0: none yet. Set before open_mutex is first taken, so that a child, in which that
  /// mutex may stay locked for ever, knows not to wait for it. Relaxed: a child has a copy of the memory as it was, and within
  /// one process only the value itself counts.
  std::atomic<pid_t> owner = 0;

  std::mutex open_mutex;  ///< guards everything below
  bool probed = false;
  bool opened = false;
  std::unique_ptr<kernels::Backend> backend;
  std::vector<int> ordinals;
  Rates rates;
  std::exception_ptr failure;  ///< why the devices that were asked for are not there
  std::string failure_text;
  std::unique_ptr<runtime::Runtime> runtime;

  /// @return false in a child of the process that uses the devices
  bool may_touch_devices() {
    const pid_t self = getpid();
    pid_t expected = 0;
    return owner.compare_exchange_strong(expected, self, std::memory_order_relaxed) || expected == self;
  }

  /// Finds out what devices there are. @pre open_mutex is held
  void probe(const Config& config, const std::shared_ptr<const kernels::CpuBlas>& blas);
  /// Opens them. @pre open_mutex is held, probe() was called
  void open(const Config& config, runtime::Runtime::HostCompute host_compute);
  void remember_failure(const Config& config);
};

namespace {

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

void log_call(const Level3& call, const std::string& where, const Verdict& verdict, double seconds) {
  log_line(fmt::format("{} on {} ({}): {:.6f} s, {:.3f} TFLOP/s", describe(call), where, to_text(verdict), seconds,
                       seconds > 0 ? flops_of(call) / seconds * 1e-12 : 0.0));
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
  const bool good = descriptor >= 0 && write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
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
}

void Context::State::probe(const Config& config, const std::shared_ptr<const kernels::CpuBlas>& blas) {
  if (probed) return;
  probed = true;
  try {
    if (config.devices == DeviceChoice::host) {
      backend = kernels::make_host_backend(config, config.host_devices, blas);
    } else if (config.devices != DeviceChoice::none) {
      backend = kernels::open_cuda_backend(config.cuda_plugin);
    }
    if (!backend) return;

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
    for (const device::DeviceInfo& device : devices) ordinals.push_back(device.ordinal);
    rates = rates_of(devices, estimated_cpu_flops_per_s());
  } catch (...) {
    remember_failure(config);
  }
}

void Context::State::open(const Config& config, runtime::Runtime::HostCompute host_compute) {
  if (opened || failure || ordinals.empty()) return;
  opened = true;
  try {
    runtime = std::make_unique<runtime::Runtime>(backend->open(ordinals), config, std::move(host_compute));
  } catch (...) {
    remember_failure(config);
  }
}

Context::Context(Config config) : config_(std::move(config)), state_(std::make_unique<State>()) {}

Context::~Context() {
  const pid_t owner = state_->owner.load(std::memory_order_relaxed);
  // In a child the worker threads do not exist and the driver must not be called: leave everything where it is.
  if (owner != 0 && owner != getpid()) static_cast<void>(state_.release());
}

runtime::Runtime* Context::runtime() {
  Verdict verdict;
  return devices_for(nullptr, Fallback::report, state_->own_face, verdict);
}

runtime::Runtime* Context::devices_for(const Level3* call, Fallback fallback, Face& face, Verdict& verdict) {
  if (config_.devices == DeviceChoice::none) {
    verdict = {false, Reason::no_devices};
    return nullptr;
  }
  if (!state_->may_touch_devices()) {
    verdict = {false, Reason::forked};
    return nullptr;
  }
  std::shared_ptr<const kernels::CpuBlas> blas;
  if (config_.devices == DeviceChoice::host) {
    try {
      blas = cpu_blas(&face);
    } catch (const NotAvailable&) {  // the host devices' readable reference computes the tiles then
    }
  }

  const std::lock_guard lock(state_->open_mutex);
  state_->probe(config_, blas);
  if (call != nullptr && !state_->failure) {
    // Opening comes after the decision: initialising GPUs for a call that is not worth it would cost more than the call.
    verdict = decide(config_.offload, *call, state_->rates);
    if (!verdict.offload) return nullptr;
  }
  state_->open(config_, [this, &face](const Level3& product) { compute_on_cpu(product, Fallback::cpu_blas, face); });
  if (!state_->failure) {
    if (!state_->runtime || state_->runtime->machine().devices > 0) return state_->runtime.get();
    verdict = {false, Reason::unavailable};  // all of them have failed since
    return nullptr;
  }
  if (fallback == Fallback::report && config_.devices != DeviceChoice::automatic)
    std::rethrow_exception(state_->failure);
  verdict = {false, Reason::unavailable};
  return nullptr;
}

std::shared_ptr<const kernels::CpuBlas> Context::cpu_blas(Face* which) {
  Face& face = which != nullptr ? *which : state_->own_face;
  const std::lock_guard lock(state_->cpu_mutex);
  State::Cpu& cpu = state_->cpus[&face];
  if (cpu.failure) std::rethrow_exception(cpu.failure);
  if (cpu.blas) return cpu.blas;
  if (!config_.cpu_blas.empty()) {
    try {
      cpu.blas = kernels::CpuBlas::open(config_.cpu_blas, face.search);
    } catch (const NotAvailable& error) {
      log_line(
          fmt::format("TESSERA_CPU_BLAS=\"{}\" is not valid: {}; the default is used", config_.cpu_blas, error.what()));
    }
  }
  if (!cpu.blas) {
    try {
      if (face.next_definition != nullptr) {
        face.search.next_gemm = face.next_definition(face.search.scheme.fortran("dgemm").c_str());
      }
      cpu.blas = kernels::CpuBlas::open("", face.search);
    } catch (...) {
      cpu.failure = std::current_exception();
      throw;
    }
  }
  face.cpu.store(cpu.blas.get(), std::memory_order_release);
  return cpu.blas;
}

void Context::compute_on_cpu(const Level3& call, Fallback fallback, Face& face) {
  const kernels::CpuBlas* blas = face.cpu.load(std::memory_order_acquire);
  if (blas == nullptr) {
    try {
      blas = cpu_blas(&face).get();
    } catch (const NotAvailable& error) {
      if (fallback == Fallback::report) throw;
      // A caller without an error channel gets the right result, slowly, and is told.
      static std::once_flag told;
      std::call_once(told, [&] { log_line(fmt::format("{}; the slow built-in BLAS is used", error.what())); });
      kernels::reference_level3(call);
      return;
    }
  }
  blas->run(call);
}

runtime::JobStatistics Context::run_on_devices(runtime::Runtime& runtime, const Level3& call, const Verdict& verdict) {
  runtime::JobStatistics job = routines::run(runtime, call, config_.tile.value_or(0));
  if (config_.verbose) {
    std::string where;
    for (const runtime::DeviceStatistics& device : job.devices) where += (where.empty() ? "" : ",") + device.device;
    log_call(call, where, verdict, job.seconds);
  }
  if (!config_.stats_file.empty()) append_line(config_.stats_file, runtime::to_json(job));
  return job;
}

std::optional<runtime::JobStatistics> Context::run(const Level3& call, Fallback fallback, Face* which) {
  if (does_nothing(call)) return std::nullopt;
  Face& face = which != nullptr ? *which : state_->own_face;

  Verdict verdict = decide_early(config_.offload, call);
  if (verdict.offload) {
    if (runtime::Runtime* const runtime = devices_for(&call, fallback, face, verdict)) {
      try {
        return run_on_devices(*runtime, call, verdict);
      } catch (const OutOfDeviceMemory& error) {  // C is untouched
        if (fallback == Fallback::report) throw;
        if (config_.verbose) log_line(error.what());
        verdict = {false, Reason::out_of_memory};
      }
    }
  }

  if (!config_.verbose) [[likely]] {
    compute_on_cpu(call, fallback, face);
    return std::nullopt;
  }
  const double begin = device::now_seconds();
  compute_on_cpu(call, fallback, face);
  log_call(call, "the CPU BLAS", verdict, device::now_seconds() - begin);
  return std::nullopt;
}

std::string Context::describe_devices() {
  std::string text;
  std::string why = to_text({false, Reason::no_devices});
  if (config_.offload == Offload::never) {
    why = to_text({false, Reason::never});
  } else if (const runtime::Runtime* const runtime = this->runtime()) {
    for (const device::Device* const device : runtime->devices()) {
      const device::DeviceInfo& info = device->info();
      text += fmt::format("{}:{} {}, {} MiB{}{}\n", info.backend, info.ordinal, info.name, info.memory_bytes >> 20,
                          info.pci_bus_id.empty() ? "" : ", ", info.pci_bus_id);
    }
    why = "no device works any more";
  } else if (!state_->may_touch_devices()) {
    why = to_text({false, Reason::forked});
  } else {
    const std::lock_guard lock(state_->open_mutex);
    if (state_->failure) why = state_->failure_text;
  }
  if (text.empty()) text = fmt::format("cpu {} ({})\n", cpu_blas()->path(), why);
  return text;
}

}  // namespace tessera::api
