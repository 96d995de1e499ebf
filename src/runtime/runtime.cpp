#include "runtime/runtime.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/at_end.hpp"
#include "core/error.hpp"
#include "core/host_share.hpp"
#include "core/log.hpp"
#include "core/memory_limit.hpp"
#include "core/mutex.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"
#include "residence/keeper.hpp"
#include "residence/mirrored_device.hpp"
#include "runtime/batches/batch_job.hpp"
#include "runtime/call_begin.hpp"
#include "runtime/devices/admission.hpp"
#include "runtime/devices/calibration.hpp"
#include "runtime/devices/crew.hpp"
#include "runtime/devices/device_set.hpp"
#include "runtime/devices/pool_locks.hpp"
#include "runtime/devices/spare_memory.hpp"
#include "runtime/lazy_matrices.hpp"
#include "runtime/tiles/tile_job.hpp"
#include "runtime/trace.hpp"
#include "runtime/whole/whole_job.hpp"

namespace tessera::runtime {
namespace {

/// The most bytes for copies of old values, and for packed batches: a sixteenth of the host's memory each.
std::size_t most_bytes_on_host() { return memory_of_machine() / 16; }

/// The state of the devices for a job, by device.
struct Fitness {
  explicit Fitness(std::size_t devices) : usable(devices, true), has_erred(devices, false) {}
  std::vector<bool> usable;
  std::vector<bool> has_erred;
};

}  // namespace

class Runtime::Implementation {
 public:
  Implementation(std::vector<kernels::Accelerator> all, const Config& config, HostCompute host_compute, int sharers,
                 std::chrono::nanoseconds idle_patience);

  bool run(Job& job);
  template <class Use>
  auto with_idle_devices(Use use, bool waits = true);
  void give_back_memory();

 private:
  enum class Next { attempt, cpu, replan };
  Next attempt(Job& job, Fitness& fitness, double& begin_s);
  std::vector<DeviceCapacity> capacities_of(const std::vector<bool>& usable) const;
  std::optional<Admission::Stay> admit(const DeviceNeeds& needs);
  std::vector<bool> provide(const Admission::Stay& stay, const std::vector<std::size_t>& bytes);
  void leave_out_failed(std::span<const DeviceFate> fates, bool has_shared, Fitness& fitness) noexcept;
  void tell(Job& job, double begin_s);
  Config give_mirrors(const Config& config, int sharers);
  struct SavedBytes {
    std::int64_t up = 0, down = 0;
  };
  SavedBytes saved_bytes() const;
  void between_jobs(const std::function<void()>& work);
  bool give_back_lanes();
  void note_used_memory(const Job& job);
  void note_memory();
  void note_use();
  void note_idle(const std::vector<bool>& used, bool threads_have_worked);

 public:  // to the runtime
  residence::Residence residence;
  std::optional<residence::Keeper> keeper;
  std::vector<residence::MirroredDevice*> mirrored;  // of the accelerators; none: nothing stays there
  std::optional<LazyMatrices> lazy_matrices;
  std::vector<kernels::Accelerator> accelerators;
  SpareMemory spare_memory;  // of devices
  CpuWorker cpu_worker;
  const OldValuesPlace old_values_place;
  const int local_ranks;
  const int page_threads;  // that make pages of results
  std::optional<HostCopies> host_copies;
  std::optional<DeviceSet> devices;
  std::optional<LaneMemories> lane_memories;
  std::optional<Admission> admission;

 private:
  Mutex told_mutex_;  // of what jobs tell one after the other
  TraceFile trace_ TESSERA_GUARDED_BY(told_mutex_);
  std::optional<StartUp> start_up_ TESSERA_GUARDED_BY(told_mutex_);  // until the first job has it

 public:
  std::optional<Crew> crew;  // ends first
};

Runtime::Implementation::Implementation(std::vector<kernels::Accelerator> all, const Config& config,
                                        HostCompute host_compute, int sharers, std::chrono::nanoseconds idle_patience)
    : accelerators(std::move(all)),
      cpu_worker(std::move(host_compute),
                 [this](device::Block host, device::Extent extent) { residence.drop(host, extent); }),
      old_values_place(config.keep_old_values),
      local_ranks(config.local_ranks()),
      page_threads(std::max(available_processors(local_ranks) / 2, 1)),
      trace_(config.trace_file) {
  if (accelerators.empty()) throw InternalError("runtime: no devices");
  const Config of_jobs = give_mirrors(config, sharers);
  lazy_matrices.emplace(
      residence, mirrored, [this](const auto& work) { between_jobs(work); },
      [this](std::size_t d) { devices->lose(d, "it failed while a matrix was copied from it"); });
  if (old_values_place != OldValuesPlace::nowhere)
    host_copies.emplace(HostCopies::threads_for(accelerators.size()), most_bytes_on_host());
  watch_forks_for_pools();
  const double begin_s = device::now_seconds();
  // First, since the threads take some time to find their processors, and no notice of the rest before there is a job.
  crew.emplace(accelerators, Admission::most_calls, idle_patience, [this] { give_back_memory(); });
  devices.emplace(accelerators, *crew, of_jobs, sharers, [this](std::size_t d) {
    if (!mirrored.empty()) mirrored[d]->forget();
  });
  // Page-locked, and each of the processes that share the host has its own.
  lane_memories.emplace(accelerators.size(), static_cast<index_t>(most_bytes_on_host()) / local_ranks);
  std::vector<std::size_t> slabs;
  for (std::size_t d = 0; d < accelerators.size(); ++d)
    slabs.push_back(devices->has_memory(d) ? devices->memory(d).slab_bytes() : 0);
  admission.emplace(slabs);
  start_up_.emplace().reserve_s = device::now_seconds() - begin_s;
}

/// @param sharers of the devices' memory, this process included @return the settings for jobs, which have the rest
Config Runtime::Implementation::give_mirrors(const Config& config, int sharers) {
  Config of_jobs = config;
  if (config.resident == Resident::automatic || config.resident == Resident::verified) {
    const auto may_watch = [this, anywhere = config.watches_any_memory](residence::Range range) {
      const device::Device& device = *accelerators.front().device;
      return (anywhere || lies_in_pool({range.begin, range.end})) && !device.has_locked(range.begin) &&
             !device.has_locked(range.end - 1);
    };
    try {
      keeper.emplace(residence, may_watch);
    } catch (const NotAvailable& error) {
      if (config.verbose) log_line(std::string("nothing stays on devices between calls: ") + error.what());
    }
  }
  const bool serves_named = config.resident == Resident::named || config.resident_bytes;
  if (!keeper && !serves_named) return of_jobs;
  for (kernels::Accelerator& accelerator : accelerators) {
    const std::size_t memory = accelerator.device->info().memory_bytes;
    const std::size_t all = std::min(config.device_memory_bytes.value_or(memory), memory);
    const std::size_t ours = accelerator.device->free_memory_bytes() / static_cast<std::size_t>(sharers);
    const std::size_t most = std::min(config.resident_bytes.value_or(std::min(all, ours) / 3), all / 2);
    auto device = std::make_unique<residence::MirroredDevice>(std::move(accelerator.device), residence, most,
                                                              config.resident == Resident::verified);
    mirrored.push_back(device.get());
    accelerator.device = std::move(device);
    if (config.device_memory_bytes)
      of_jobs.device_memory_bytes = std::min(*of_jobs.device_memory_bytes, *config.device_memory_bytes - most);
  }
  return of_jobs;
}

/// Bytes of copies that did not cross the links so far.
Runtime::Implementation::SavedBytes Runtime::Implementation::saved_bytes() const {
  SavedBytes sum;
  for (const auto* const each : mirrored) {
    sum.up += each->found_bytes();
    sum.down += each->stayed_bytes();
  }
  return sum;
}

bool Runtime::Implementation::run(Job& job) {
  if (const process::Pass driving(process::Work::driving); driving) job.load();
  const bool has_lazy = lazy_matrices->any();
  const std::vector<device::Touched> touched = keeper || has_lazy ? job.touched() : std::vector<device::Touched>();
  std::optional<HostUse> host_use;
  if (has_lazy) lazy_matrices->begin(job, touched, host_use);
  if (keeper && job.touches_more()) keeper->begin_any();
  if (keeper) keeper->begin(touched);
  const SavedBytes saved_before = saved_bytes();
  bool has_ended = false;
  const AtEnd at_end([&] {
    if (!has_ended && keeper) keeper->cancel(touched);
    if (!has_ended && job.lazy() == Job::Lazy::results && job.may_have_written()) lazy_matrices->lose_results(touched);
    // Old values were put back by the CPU, or an error leaves anything.
    if (job.statistics().restarts > 0 || (!has_ended && job.may_have_written())) residence.clear();
  });
  // Made while there is memory. If it runs out later, the error must not look as if C were untouched.
  const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
  double begin_s = 0;
  try {
    Fitness fitness(accelerators.size());
    Next next = Next::attempt;
    while (next == Next::attempt && job.has_more() && !process::ending()) {
      next = attempt(job, fitness, begin_s);
      if (next == Next::replan) return false;
      if (job.has_more()) lazy_matrices->end_lazy(job, touched, host_use);
    }
    if (job.has_more()) lazy_matrices->end_lazy(job, touched, host_use);
    job.finish_on_cpu();
  } catch (const std::bad_alloc&) {
    if (!job.may_have_written()) throw;
    std::rethrow_exception(partly_written);
  }
  if (has_lazy) lazy_matrices->check_found(touched);  // another job may have lost one meanwhile
  has_ended = true;
  if (keeper) keeper->end(touched);
  const SavedBytes saved = saved_bytes();
  job.statistics().resident_bytes = saved.up - saved_before.up;
  job.statistics().stayed_bytes = saved.down - saved_before.down;
  tell(job, begin_s > 0 ? begin_s : device::now_seconds());
  note_use();
  return true;
}

// With no other job on the devices.
void Runtime::Implementation::between_jobs(const std::function<void()>& work) {
  const Admission::Stay stay = admission->enter_alone();
  const process::Pass driving(process::Work::driving);
  if (!driving) throw NotAvailable("the process is ending");
  const UseOfPools use_of_pools;
  const AtEnd at_end([&] { note_idle(crew->usable(), false); });
  work();
}

Runtime::Implementation::Next Runtime::Implementation::attempt(Job& job, Fitness& fitness, double& begin_s) {
  using Needs = DeviceNeeds::Kind;
  const DeviceNeeds needs = job.needs(capacities_of(fitness.usable));
  if (needs.kind == Needs::none || needs.kind == Needs::replan)
    return needs.kind == Needs::none ? Next::cpu : Next::replan;
  const std::optional<Admission::Stay> stay = admit(needs);
  if (!stay) return Next::cpu;
  if (begin_s <= 0) begin_s = device::now_seconds();
  // Once the process ends, the host computes the rest: another thread may be waiting for the calling one.
  const process::Pass driving(process::Work::driving);
  if (!driving) return Next::cpu;

  const std::vector<std::size_t> bytes = job.slab_bytes(*stay);
  std::vector<bool> used;
  for (const std::size_t each : bytes) used.push_back(each > 0);
  if (std::find(used.begin(), used.end(), true) == used.end()) return Next::cpu;
  bool threads_have_worked = false;
  const UseOfPools use_of_pools;
  const AtEnd at_end([&] { note_idle(used, threads_have_worked); });
  if (const std::vector<bool> provided = provide(*stay, bytes); provided != used) {
    if (needs.kind == Needs::parts && !job.may_have_written()) return Next::replan;
    for (std::size_t d = 0; d < used.size(); ++d) fitness.usable[d] = fitness.usable[d] && (!used[d] || provided[d]);
    return Next::attempt;
  }
  std::optional<FreshPages> fresh_pages;
  if (!job.may_have_written()) fresh_pages.emplace(job.only_written(), page_threads);
  std::vector<DeviceFate> fates(used.size());
  const auto note_others = [&] {
    int& beside = job.statistics().beside;
    beside = std::max(beside, admission->calls_beside(*stay));
  };
  note_others();
  {
    const AtEnd settled([&] {
      note_others();
      if (fresh_pages) job.statistics().fresh_bytes = fresh_pages->bytes();
      leave_out_failed(fates, job.statistics().beside > 0, fitness);
    });
    if (!job.attempt(*stay, fates)) return Next::cpu;
  }
  note_used_memory(job);
  threads_have_worked = needs.kind == Needs::parts;
  // If all devices are well and work is left, they cannot do it.
  if (std::all_of(fates.begin(), fates.end(), [](const DeviceFate& f) { return f.kind == DeviceFate::Kind::well; }))
    return Next::cpu;
  if (job.has_more() && !process::ending()) job.count_restart();
  return Next::attempt;
}

// The bytes that plans count on, of devices that are usable.
std::vector<DeviceCapacity> Runtime::Implementation::capacities_of(const std::vector<bool>& usable) const {
  std::vector<DeviceCapacity> capacities = devices->capacities();
  for (std::size_t d = 0; d < capacities.size(); ++d) capacities[d].bytes = usable[d] ? capacities[d].bytes : 0;
  return capacities;
}

// @return nothing if the host has no memory for it: the CPU needs less
std::optional<Admission::Stay> Runtime::Implementation::admit(const DeviceNeeds& needs) {
  try {
    if (needs.kind == DeviceNeeds::Kind::alone) return admission->enter_alone();
    return admission->enter(needs.request);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// Has the devices commit memory. @return those that could
std::vector<bool> Runtime::Implementation::provide(const Admission::Stay& stay, const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> growing;
  std::vector<bool> provided;
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    provided.push_back(bytes[d] > 0);
    if (bytes[d] > 0 && devices->memory(d).committed_bytes() < bytes[d]) growing.push_back(d);
  }
  std::vector<char> succeeded(growing.size());  // not bits: written side by side
  if (!growing.empty()) {
    side_by_side(growing.size(), [&](std::size_t g) {
      const std::size_t d = growing[g];
      const auto used = [&] { return admission->end_of_others(stay, d); };
      succeeded[g] = devices->provide_to(d, bytes[d], used) ? 1 : 0;
    });
  }
  for (std::size_t g = 0; g < growing.size(); ++g) provided[growing[g]] = succeeded[g] != 0;
  note_memory();  // before the threads of the devices have done the job and wait again
  return provided;
}

// The job leaves the device out, since its own error would come again. But the first one may be another call's.
void Runtime::Implementation::leave_out_failed(std::span<const DeviceFate> fates, bool has_shared,
                                               Fitness& fitness) noexcept {
  for (std::size_t d = 0; d < fates.size(); ++d) {
    if (fates[d].kind == DeviceFate::Kind::well) continue;
    const bool has_erred = fates[d].kind == DeviceFate::Kind::erred;
    if (!has_erred) devices->lose(d, fates[d].error);
    if (!has_erred || !has_shared || fitness.has_erred[d]) fitness.usable[d] = false;
    if (has_erred) fitness.has_erred[d] = true;
  }
}

// Has pools lock the memory of a job that devices have worked at, for the next one.
void Runtime::Implementation::note_used_memory(const Job& job) {
  if (job.lazy() != Job::Lazy::nothing) return;
  try {
    PageLocker* const locker = accelerators.front().device->page_locker();
    if (locker == nullptr) return;
    std::vector<device::Touched> touched = job.touched();
    // Matrices that may stay on devices must not be locked (residence/keeper.hpp).
    if (keeper) std::erase_if(touched, [&](const auto& each) { return !keeper->has_given_up(each.matrix); });
    want_locked(dense_ranges(touched), *locker);
  } catch (const std::bad_alloc&) {  // it stays as it is
  }
}

// The times of the job, for the caller and the trace.
void Runtime::Implementation::tell(Job& job, double begin_s) {
  JobStatistics& statistics = job.statistics();
  const double now_s = device::now_seconds(), call_begin_s = CallBegin::or_else(begin_s);
  statistics.seconds = now_s - call_begin_s;
  statistics.device_s = now_s - begin_s;
  try {
    job.settle_times();
    const LockGuard lock(told_mutex_);
    statistics.start_up = std::exchange(start_up_, std::nullopt);
    if (statistics.start_up && statistics.first_kernel_at > 0)
      statistics.start_up->first_kernel_s = statistics.first_kernel_at - begin_s;
    trace_.append(statistics, call_begin_s, job.names(), job.operations());
  } catch (const std::bad_alloc&) {  // C is what it should be: only times are missing
  }
}

// Calls `use(idle devices)` between two jobs. @param waits for present jobs @throws Interrupted if not, and some are
template <class Use>
auto Runtime::Implementation::with_idle_devices(Use use, bool waits) {
  const Admission::Stay stay = waits ? admission->enter_alone() : admission->try_alone();
  if (!stay) throw Interrupted();
  const process::Pass driving(process::Work::driving);
  if (!driving) throw NotAvailable("the process is ending");
  std::vector<MeasuredDevice> measured;
  const std::vector<bool> usable = crew->usable();
  const AtEnd at_end([&] { note_idle(usable, false); });
  for (std::size_t d = 0; d < usable.size(); ++d) {
    const kernels::Accelerator& accelerator = accelerators[d];
    if (!usable[d]) continue;
    DeviceMemory& memory = devices->memory(d);
    const std::size_t most = most_measured_bytes(accelerator.device->info().profile);
    const auto wanted = [&] { return std::min(memory.capacity_bytes(), most); };
    if (!devices->provide_to(d, wanted())) static_cast<void>(devices->provide_to(d, wanted()));
    measured.push_back(
        {accelerator.device.get(), accelerator.ops.get(), memory.slab(), std::min(memory.committed_bytes(), wanted())});
  }
  if (measured.empty()) throw NotAvailable("no device works any more");
  try {
    return use(measured);
  } catch (...) {
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (usable[d] && !accelerators[d].device->recover()) devices->lose(d, "it failed while it was measured");
    }
    throw;
  }
}

void Runtime::Implementation::note_memory() {
  const bool holds_on_host =
      (host_copies && host_copies->held_bytes() > 0) || lane_memories->is_held() || spare_memory.holds_any();
  const bool has_blocks =
      std::any_of(mirrored.begin(), mirrored.end(), [](auto* each) { return each->mirror().taken_bytes() > 0; });
  crew->note_memory(holds_on_host || has_blocks || devices->can_give_back());
}

void Runtime::Implementation::note_use() {
  note_memory();
  crew->note_use();
}

// At the end of an attempt. Sleeping threads of devices are woken to see that there is memory to give back; threads
// that have worked see it anyway.
void Runtime::Implementation::note_idle(const std::vector<bool>& used, bool threads_have_worked) {
  note_use();
  if (!threads_have_worked) crew->alert(used);
}

// In pieces, so that a call that comes meanwhile does not wait for all of them.
void Runtime::Implementation::give_back_memory() {
  constexpr std::size_t piece_bytes = std::size_t{1} << 30;  // a millisecond
  if (host_copies) host_copies->give_back();
  spare_memory.free();
  if (!give_back_lanes()) return;
  for (std::size_t d = 0; d < devices->size(); ++d) {
    for (bool more = devices->has_memory(d); more;) {
      const process::Pass driving(process::Work::driving);
      const Admission::Stay stay = admission->try_alone();
      if (!driving || !stay) return;
      more = devices->memory(d).give_back(piece_bytes);
      if (!more && !mirrored.empty()) mirrored[d]->give_back();
      note_memory();
    }
  }
}

// Gives back the memory of packed batches. @return false if somebody has come meanwhile
bool Runtime::Implementation::give_back_lanes() {
  if (!lane_memories->is_held()) return true;
  for (std::size_t d = 0; d < devices->size(); ++d) {
    const process::Pass driving(process::Work::driving);
    const Admission::Stay stay = admission->try_alone();
    if (!driving || !stay) return false;
    lane_memories->give_back(d);
    note_memory();
  }
  return true;
}

Runtime::Runtime(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
                 int sharers, std::chrono::nanoseconds idle_patience)
    : implementation_(std::make_unique<Implementation>(std::move(accelerators), config, std::move(host_compute),
                                                       sharers, idle_patience)) {}
Runtime::~Runtime() = default;

std::vector<const device::Device*> Runtime::devices() const {
  const std::vector<bool> usable = implementation_->devices->usable();
  std::vector<const device::Device*> devices;
  for (std::size_t d = 0; d < usable.size(); ++d) {
    if (usable[d]) devices.push_back(implementation_->accelerators[d].device.get());
  }
  return devices;
}

std::vector<Machine> Runtime::machines(ScalarType type, bool looks) const {
  if (looks) implementation_->devices->review();
  return machines_of(implementation_->devices->capacities(), type);
}

bool Runtime::run(Job& job) { return implementation_->run(job); }

std::optional<JobStatistics> Runtime::run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu) {
  Implementation& in = *implementation_;
  TileJob job({*in.devices, *in.crew, in.cpu_worker, in.old_values_place, in.host_copies ? &*in.host_copies : nullptr},
              graph, planned_for, cpu);
  if (!run(job)) return std::nullopt;
  return std::move(job.statistics());
}

JobStatistics Runtime::run_batch(const PackableBatch& batch, const HostBatchCompute& compute) {
  BatchJob job(*implementation_->devices, *implementation_->lane_memories, batch, compute, processors());
  static_cast<void>(run(job));
  return std::move(job.statistics());
}

JobStatistics Runtime::run_dense(const LapackCall& problem, std::optional<kernels::SvdAlgorithm> algorithm) {
  auto& copies = implementation_->host_copies;
  WholeJob job(*implementation_->devices, copies ? &*copies : nullptr, problem, algorithm);
  static_cast<void>(run(job));
  return std::move(job.statistics());
}

std::shared_ptr<device::HostMemory> Runtime::host_memory(std::size_t bytes) {
  const process::Pass driving(process::Work::driving);
  const std::vector<bool> usable = implementation_->devices->usable();
  const auto first = std::find(usable.begin(), usable.end(), true);
  if (!driving || first == usable.end()) return std::make_shared<device::HostMemory>(bytes);
  const auto d = static_cast<std::size_t>(first - usable.begin());
  return implementation_->spare_memory.take(bytes, *implementation_->accelerators[d].device);
}

bool Runtime::keeps_matrices() const { return !implementation_->mirrored.empty(); }
index_t Runtime::resident_bytes(std::span<const device::HostMatrix> matrices, bool looks) const {
  if (looks && implementation_->keeper) implementation_->keeper->look_at(matrices);
  index_t sum = 0;
  for (const device::HostMatrix& matrix : matrices) sum += implementation_->residence.resident_bytes(matrix);
  return sum;
}
residence::Residence& Runtime::residence() { return implementation_->residence; }
LazyMatrices& Runtime::lazy_matrices() { return *implementation_->lazy_matrices; }
int Runtime::processors() const { return available_processors(implementation_->local_ranks); }
void Runtime::give_back_memory() { implementation_->give_back_memory(); }
std::size_t Runtime::committed_bytes() const { return implementation_->devices->committed_bytes(); }

Calibration Runtime::calibrate() {
  return implementation_->with_idle_devices([](const auto& devices) { return runtime::calibrate(devices); });
}

std::optional<Calibration> Runtime::calibrate_unless_called() {
  const auto must_stop = [this] { return process::ending() || implementation_->admission->is_wanted(); };
  try {
    return implementation_->with_idle_devices(
        [&](const auto& devices) { return runtime::calibrate(devices, must_stop); }, false);
  } catch (const Interrupted&) {
    return std::nullopt;
  }
}

void Runtime::warm_up() {
  implementation_->with_idle_devices([](const auto& devices) { runtime::warm_up(devices); });
}

}  // namespace tessera::runtime
