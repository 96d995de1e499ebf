#include "tests/cuda_standin/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tessera::cuda_standin {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Counts and injected faults outlive machines. The machine's mutex, which is the same for all machines, guards them.
std::map<std::string, std::int64_t> counts;
std::optional<Fault> fault;
bool fault_has_happened = false;
double late_half_ended_s = 0;
std::vector<std::string> noted;
std::mutex all_state;

// Machines are never destroyed: broken contexts leave threads of the plugin that still refer to them.
Machine* the_machine = nullptr;

/// @return the fault if it applies to this call
std::optional<Fault> count(const char* name) {
  const std::int64_t number = counts[name]++;
  if (!fault || fault_has_happened || fault->call != name || fault->number != number) return std::nullopt;
  fault_has_happened = true;
  return fault;
}

void complete(Record& record) {
  record.done = true;
  record.seconds = now_seconds();
}

void forget_operations(Gpu& gpu) {
  for (CUstream_st& stream : gpu.streams) {
    for (Operation& operation : stream.operations) {
      if (operation.completes) complete(*operation.completes);
    }
    stream.operations.clear();
  }
}

/// Does the work in its halves, without the mutex. @return whether it has failed
bool do_work(const Settings& settings, Gpu& gpu, Operation& operation, std::unique_lock<std::mutex>& lock) {
  const std::optional<Fault> failing = operation.kind != nullptr ? count(operation.kind) : std::nullopt;
  gpu.using_now = operation.uses;
  double broken_s = 0;
  lock.unlock();
  std::this_thread::sleep_for(settings.begins_after);
  operation.work(0);
  if (failing) {
    lock.lock();
    break_context(gpu, failing->error);
    broken_s = now_seconds();
    lock.unlock();
    std::this_thread::sleep_for(failing->second_half_after);
  }
  if (!failing || failing->second_half_after.count() > 0) operation.work(1);
  lock.lock();
  gpu.using_now.clear();
  if (failing && failing->second_half_after.count() > 0) late_half_ended_s = now_seconds() - broken_s;
  return failing.has_value();
}

CUstream_st* next_stream(Gpu& gpu) {
  for (CUstream_st& stream : gpu.streams) {
    if (!stream.operations.empty() && stream.operations.front().is_ready()) return &stream;
  }
  return nullptr;
}

void serve(Machine& machine, Gpu& gpu) {
  std::unique_lock lock(machine.mutex);
  while (!machine.ends) {
    CUstream_st* const stream = next_stream(gpu);
    if (stream == nullptr) {
      gpu.streams.remove_if([](const CUstream_st& s) { return s.is_destroyed && s.is_idle(); });
      const bool polls = std::any_of(gpu.streams.begin(), gpu.streams.end(), [](const CUstream_st& s) {
        return !s.operations.empty() && s.operations.front().number != nullptr;
      });
      if (polls) {
        machine.changed.wait_for(lock, std::chrono::microseconds(20));
      } else {
        machine.changed.wait(lock);
      }
      continue;
    }
    Operation operation = std::move(stream->operations.front());
    stream->operations.pop_front();
    stream->is_busy = true;
    bool failed = false;
    if (operation.work) failed = do_work(machine.settings, gpu, operation, lock);
    if (operation.writes) std::atomic_ref(*operation.number).store(operation.value, std::memory_order_release);
    if (operation.completes && !failed) complete(*operation.completes);
    stream->is_busy = false;
    machine.changed.notify_all();
  }
}

/// A thread's last error. It counts as an offence, too, if the thread ends without having read it.
struct LastError {
  cudaError_t error = cudaSuccess;
  const char* function = "";
  ~LastError() {
    if (error == cudaSuccess) return;
    const std::lock_guard lock(all_state);
    noted.push_back(std::string(function) + " failed, and the thread ended");
  }
};
thread_local LastError last_error;

}  // namespace

bool Operation::is_ready() const {
  if (awaits) return awaits->done;
  if (number == nullptr || writes) return true;
  return static_cast<std::int32_t>(std::atomic_ref(*number).load(std::memory_order_acquire) - value) >= 0;
}

const std::pair<const std::uintptr_t, Allocation>* Machine::allocation_around(std::uintptr_t address) const {
  const auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  const auto& found = *std::prev(after);
  return address < found.first + found.second.bytes ? &found : nullptr;
}

std::uintptr_t Machine::map_memory(std::size_t bytes) {
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(address);
}

bool Machine::is_used(Range range) const {
  const auto overlaps = [range](const Range& other) { return other.overlaps(range); };
  return std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) {
    if (std::any_of(gpu.using_now.begin(), gpu.using_now.end(), overlaps)) return true;
    return std::any_of(gpu.streams.begin(), gpu.streams.end(), [&](const CUstream_st& stream) {
      return std::any_of(stream.operations.begin(), stream.operations.end(), [&](const Operation& operation) {
        return std::any_of(operation.uses.begin(), operation.uses.end(), overlaps);
      });
    });
  });
}

Machine& machine() {
  if (the_machine == nullptr) {
    // For a program that does not know of the stand-in.
    const char* const gpus = std::getenv("CUDA_STANDIN_GPUS");
    start({.gpus = gpus != nullptr ? std::atoi(gpus) : 1});
  }
  return *the_machine;
}

void note_offence(const std::string& text) {
  const std::lock_guard lock(all_state);
  noted.push_back(text);
}

void break_context(Gpu& gpu, cudaError_t error) {
  gpu.broken = error;
  forget_operations(gpu);
  machine().changed.notify_all();
}

CUctx_st*& current_context() {
  static thread_local CUctx_st* current = nullptr;
  return current;
}

Gpu& current_gpu(const char* function) {
  if (current_context() != nullptr) return *current_context()->gpu;
  note_offence(std::string(function) + " was called without a context");
  return machine().gpus.front();
}

cudaError_t keep_error(const char* function, cudaError_t error) {
  if (error != cudaSuccess) {
    last_error.error = error;
    last_error.function = function;
  }
  return error;
}

cudaError_t take_error() { return std::exchange(last_error.error, cudaSuccess); }

void check_error_was_taken(const char* next_function) {
  // Repeated queries until something is ready need not clear "not ready" each time.
  const bool asks_again =
      last_error.error == cudaErrorNotReady && std::string_view(next_function) == last_error.function;
  if (last_error.error == cudaSuccess || asks_again) return;
  note_offence(std::string(last_error.function) + " failed, and " + next_function + " was called next");
  last_error.error = cudaSuccess;
}

Call::Call(const char* function) : lock_(machine().mutex) { begin(function); }

Call::Call(const char* function, Gpu* gpu) : lock_(machine().mutex) {
  // Once the driver has ended, no context is current where one should be.
  const bool ended = machine().driver_ended;
  gpu_ = gpu != nullptr ? gpu : ended ? &machine().gpus.front() : &current_gpu(function);
  begin(function);
  if (error_ == cudaSuccess) error_ = gpu_->broken;
}

void Call::begin(const char* function) {
  const std::optional<Fault> failing = count(function);
  if (machine().driver_ended) error_ = cudaErrorCudartUnloading;
  if (!failing) return;
  error_ = failing->error;
  if (!failing->stays) return;
  if (failing->error == cudaErrorCudartUnloading) {
    machine().driver_ended = true;
    for (Gpu& gpu : machine().gpus) break_context(gpu, failing->error);
  } else if (gpu_ != nullptr) {
    break_context(*gpu_, failing->error);
  }
  // The running operation ends before a caller learns of the failure. (A test that wants the contrary says so.)
  machine().changed.wait(lock_, [] {
    return std::all_of(machine().gpus.begin(), machine().gpus.end(),
                       [](const Gpu& gpu) { return gpu.broken == cudaSuccess || gpu.using_now.empty(); });
  });
}

void Call::await_idle(const CUstream_st& stream) {
  machine().changed.wait(lock_, [&] { return stream.is_idle() || gpu_->broken != cudaSuccess; });
  if (gpu_->broken != cudaSuccess) error_ = gpu_->broken;
}

CUstream_st& stream_of(cudaStream_t handle, const char* function) {
  if (handle != nullptr) return *handle;
  Gpu& gpu = current_gpu(function);
  if (gpu.default_stream == nullptr) {
    gpu.default_stream = &gpu.streams.emplace_back();
    gpu.default_stream->gpu = &gpu;
  }
  return *gpu.default_stream;
}

void submit(CUstream_st& stream, Operation operation) {
  stream.operations.push_back(std::move(operation));
  machine().changed.notify_all();
}

void start(const Settings& settings) {
  if (the_machine != nullptr) {
    {
      const std::lock_guard lock(the_machine->mutex);
      the_machine->ends = true;
    }
    the_machine->changed.notify_all();
    for (Gpu& gpu : the_machine->gpus) gpu.thread.join();
    for (const auto& [address, allocation] : the_machine->allocations) {
      if (allocation.type == cudaMemoryTypeDevice) munmap(reinterpret_cast<void*>(address), allocation.bytes);
    }
    for (const auto& [address, range] : the_machine->reservations) {
      munmap(reinterpret_cast<void*>(address), range.end - range.begin);
    }
  }
  the_machine = new Machine;
  the_machine->settings = settings;
  for (int ordinal = 0; ordinal < settings.gpus; ++ordinal) {
    Gpu& gpu = the_machine->gpus.emplace_back();
    gpu.ordinal = ordinal;
  }
  for (Gpu& gpu : the_machine->gpus) gpu.thread = std::thread([&gpu] { serve(*the_machine, gpu); });
  counts.clear();
  fault.reset();
  fault_has_happened = false;
  late_half_ended_s = 0;
  take_error();
  const std::lock_guard lock(all_state);
  noted.clear();
}

void inject(const Fault& wanted) {
  const std::lock_guard lock(machine().mutex);
  counts.clear();
  fault = wanted;
  fault_has_happened = false;
}

void count_calls() {
  const std::lock_guard lock(machine().mutex);
  counts.clear();
  fault.reset();
}

bool has_happened() {
  const std::lock_guard lock(machine().mutex);
  return fault_has_happened;
}

double late_half_s() {
  const std::lock_guard lock(machine().mutex);
  return late_half_ended_s;
}

std::map<std::string, std::int64_t> calls() {
  const std::lock_guard lock(machine().mutex);
  return counts;
}

std::map<std::string, std::int64_t> held() {
  const std::lock_guard lock(machine().mutex);
  std::map<std::string, std::int64_t> sum;
  bool any_works = false;
  for (const Gpu& gpu : machine().gpus) {
    if (gpu.broken != cudaSuccess) continue;
    any_works = true;
    for (const auto& [kind, number] : gpu.held) sum[kind] += number;
  }
  for (const auto& [address, allocation] : machine().allocations) {
    if (any_works && allocation.type == cudaMemoryTypeHost && allocation.gpu == nullptr) ++sum["registrations"];
  }
  std::erase_if(sum, [](const auto& entry) { return entry.second == 0; });
  return sum;
}

std::vector<std::string> offences() {
  {
    const std::lock_guard lock(machine().mutex);
    check_error_was_taken("nothing");
  }
  const std::lock_guard lock(all_state);
  return noted;
}

}  // namespace tessera::cuda_standin
