#include "runtime/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"
#include "core/host_share.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"
#include "runtime/admission.hpp"
#include "runtime/batch_driver.hpp"
#include "runtime/calibration.hpp"
#include "runtime/call_begin.hpp"
#include "runtime/crew.hpp"
#include "runtime/demand.hpp"
#include "runtime/dense_driver.hpp"
#include "runtime/device_set.hpp"
#include "runtime/job.hpp"
#include "runtime/job_record.hpp"
#include "runtime/old_values.hpp"
#include "runtime/spare_memory.hpp"
#include "runtime/trace.hpp"

namespace tessera::runtime {
namespace {

/// What copies of old values may take, and what batches are packed into: a sixteenth of the host's memory each.
std::size_t most_bytes_on_host() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 16;
}

}  // namespace

class Runtime::Implementation {
 public:
  Implementation(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
                 int sharers, std::chrono::nanoseconds idle_patience)
      : accelerators_(std::move(accelerators)),
        cpu_worker_(std::move(host_compute)),
        old_values_place_(config.keep_old_values),
        local_ranks_(config.local_ranks()),
        trace_(config.trace_file) {
    if (accelerators_.empty()) throw InternalError("runtime: no devices");
    if (old_values_place_ != OldValuesPlace::nowhere)
      host_copies_.emplace(HostCopies::threads_for(accelerators_.size()), most_bytes_on_host());
    const double begin_s = device::now_seconds();
    // First, since the threads take some time to find their processors, and no notice of the rest before there is a
    // job.
    crew_.emplace(accelerators_, Admission::most_calls, idle_patience, [this] { give_back_memory(); });
    devices_.emplace(accelerators_, *crew_, config, sharers);
    // Page-locked, and each of the processes that share the host has its own.
    batches_.emplace(*devices_, static_cast<index_t>(most_bytes_on_host()) / local_ranks_, local_ranks_);
    std::vector<std::size_t> slabs;
    for (std::size_t d = 0; d < accelerators_.size(); ++d)
      slabs.push_back(devices_->has_memory(d) ? devices_->memory(d).slab_bytes() : 0);
    admission_.emplace(slabs);
    start_up_.emplace().reserve_s = device::now_seconds() - begin_s;
  }

  ~Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::vector<const device::Device*> devices() const {
    const std::vector<bool> usable = crew_->usable();
    std::vector<const device::Device*> devices;
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (usable[d]) devices.push_back(accelerators_[d].device.get());
    }
    return devices;
  }

  std::vector<Machine> machines(ScalarType type, bool looks) const {
    if (looks) devices_->review();
    return machines_of(devices_->rooms(), type);
  }

  std::optional<JobStatistics> run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu) {
    if (graph.has_panels()) load_panels();
    JobRecord record(graph, accelerators_);
    // Made while there is memory. What runs out of it later must not look as if C were untouched.
    const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
    double begin_s = 0;
    try {
      Fitness fitness(accelerators_.size());
      std::vector<bool>& usable = fitness.usable;
      for (;;) {
        end_partly_written(graph, record);
        if (record.pending().empty() || process::ending()) break;
        const std::vector<DeviceRoom> rooms = rooms_of(usable);
        if (!record.has_begun() && !can_run(graph, planned_for, rooms)) return std::nullopt;
        const Admission::Demand demand = demand_of(graph, planned_for, rooms);
        if (demand.is_empty()) break;
        std::optional<Admission::Stay> stay;
        try {
          stay.emplace(admission_->enter(demand));
        } catch (const std::bad_alloc&) {  // the CPU needs less
          break;
        }
        if (begin_s <= 0) begin_s = device::now_seconds();
        // Once the process ends, the host computes what is still to do: the calling thread may be one that somebody
        // waits for.
        const process::Pass driving(process::Work::driving);
        if (!driving) break;
        if (const auto provided = provide(*stay); provided != stay->devices()) {
          const Noted noted(*this, stay->devices());
          if (!record.has_begun()) return std::nullopt;
          for (std::size_t d = 0; d < usable.size(); ++d) usable[d] = usable[d] && (!stay->devices()[d] || provided[d]);
          continue;
        }
        if (!attempt(graph, cpu, *stay, record, fitness)) {
          const Noted noted(*this, stay->devices());
          break;
        }
      }
      if (!record.pending().empty()) record.begin();
      record.add_cpu(cpu_worker_.finish(graph, record.pending()));
    } catch (const std::bad_alloc&) {
      if (!record.has_begun()) throw;
      std::rethrow_exception(partly_written);
    }
    tell(record, begin_s > 0 ? begin_s : device::now_seconds());
    note_use();
    return std::move(record.statistics());
  }

  JobStatistics run_batch(const PackableBatch& batch, const HostBatchCompute& compute) {
    const Admission::Stay stay = admission_->enter_alone();
    const double begin_s = device::now_seconds();
    BatchRecord record(batch, accelerators_);
    std::vector<bool> usable = crew_->usable();
    if (std::none_of(usable.begin(), usable.end(), [](bool is) { return is; }))
      throw NoDeviceLeft("no device works any more");
    devices_->review();
    const BatchPlan plan = batches_->plan(batch, usable);
    BatchJob job(batch, plan.slot_bytes);
    if (const process::Pass driving(process::Work::driving); driving) batches_->make_room(plan);
    // As in run().
    const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
    try {
      if (const process::Pass driving(process::Work::driving); driving) {
        const Noted noted(*this, usable);
        record.begin();
        try {
          batches_->run(job, plan, usable, record);
        } catch (const std::exception&) {  // no memory to begin an attempt with
        }
      }
      if (!job.is_done()) record.begin();
      job.finish([&](index_t first, index_t last) {
        compute(first, last);
        record.add_cpu(first, last);
      });
    } catch (const std::bad_alloc&) {
      if (!record.has_begun()) throw;
      std::rethrow_exception(partly_written);
    }
    tell(record, begin_s);
    note_use();
    return std::move(record.statistics());
  }

  JobStatistics run_dense(const DenseProblem& problem, std::optional<kernels::SvdAlgorithm> algorithm) {
    std::vector<bool> loaded;
    if (const process::Pass driving(process::Work::driving); driving) loaded = load_solvers(*devices_);
    const Admission::Stay stay = admission_->enter_alone();
    const process::Pass driving(process::Work::driving);
    if (!driving || loaded.empty()) throw NoDeviceLeft("the process is ending");
    const double begin_s = device::now_seconds();
    DenseRecord record(problem, accelerators_);
    {
      const Noted noted(*this, crew_->usable());
      devices_->review();
      solve_on_one(*devices_, loaded, host_copies_ ? &*host_copies_ : nullptr, problem, algorithm, record);
    }
    tell(record, begin_s);
    note_use();
    return std::move(record.statistics());
  }

  bool is_wanted() { return admission_->is_wanted(); }

  /// Between two jobs, `use(idle devices)`. @param waits for those that are there @throws Interrupted if not, and some are
  template <class Use>
  auto with_idle_devices(Use use, bool waits = true) {
    const Admission::Stay stay = waits ? admission_->enter_alone() : admission_->try_alone();
    if (!stay) throw Interrupted();
    const process::Pass driving(process::Work::driving);
    if (!driving) throw NotAvailable("the process is ending");
    std::vector<MeasuredDevice> devices;
    const std::vector<bool> usable = crew_->usable();
    const Noted noted(*this, usable);
    for (std::size_t d = 0; d < usable.size(); ++d) {
      const kernels::Accelerator& accelerator = accelerators_[d];
      if (!usable[d]) continue;
      DeviceMemory& memory = devices_->memory(d);
      const std::size_t most = most_measured_bytes(accelerator.device->info().profile);
      const auto wanted = [&] { return std::min(memory.room_bytes(), most); };
      if (!devices_->provide_to(d, wanted())) static_cast<void>(devices_->provide_to(d, wanted()));
      devices.push_back({accelerator.device.get(), accelerator.ops.get(), memory.slab(),
                         std::min(memory.committed_bytes(), wanted())});
    }
    if (devices.empty()) throw NotAvailable("no device works any more");
    try {
      return use(devices);
    } catch (...) {
      for (std::size_t d = 0; d < usable.size(); ++d) {
        if (usable[d] && !accelerators_[d].device->recover()) devices_->lose(d, "it failed while it was measured");
      }
      throw;
    }
  }

 private:
  // The times of the job, for the caller and the trace.
  void tell(Record& record, double begin_s) {
    JobStatistics& statistics = record.statistics();
    const double now_s = device::now_seconds(), call_begin_s = CallBegin::or_else(begin_s);
    statistics.seconds = now_s - call_begin_s;
    statistics.device_s = now_s - begin_s;
    try {
      record.settle_times();
      const std::lock_guard lock(told_mutex_);
      statistics.start_up = std::exchange(start_up_, std::nullopt);
      if (statistics.start_up && statistics.first_kernel_at > 0)
        statistics.start_up->first_kernel_s = statistics.first_kernel_at - begin_s;
      trace_.append(statistics, call_begin_s, record.names(), record.operations());
    } catch (const std::bad_alloc&) {  // C is what it should be: only times are missing
    }
  }

  /// What a job knows of the devices, by device.
  struct Fitness {
    explicit Fitness(std::size_t devices) : usable(devices, true), has_erred(devices, false) {}
    std::vector<bool> usable;
    std::vector<bool> has_erred;
  };

  // At the end of a stay: the threads of the devices then see that there is memory to give back.
  class Noted {
   public:
    Noted(Implementation& runtime, std::vector<bool> used) : runtime_(runtime), used_(std::move(used)) {}
    ~Noted() {
      runtime_.note_use();
      runtime_.crew_->alert(used_);
    }
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;

   private:
    Implementation& runtime_;
    std::vector<bool> used_;
  };

  // By the calling thread, which may hold the loader's lock.
  void load_panels() {
    const process::Pass driving(process::Work::driving);
    if (!driving) return;
    const std::vector<bool> usable = crew_->usable();
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (usable[d]) accelerators_[d].ops->load_panels();
    }
  }

  /// What plans count on, of devices that are usable.
  std::vector<DeviceRoom> rooms_of(const std::vector<bool>& usable) const {
    std::vector<DeviceRoom> rooms = devices_->rooms();
    for (std::size_t d = 0; d < rooms.size(); ++d) rooms[d].bytes = usable[d] ? rooms[d].bytes : 0;
    return rooms;
  }

  // Has the devices commit the memory of the stay. @return those that could
  std::vector<bool> provide(const Admission::Stay& stay) {
    std::vector<std::size_t> growing;
    std::vector<bool> provided = stay.devices();
    for (std::size_t d = 0; d < provided.size(); ++d) {
      if (provided[d] && devices_->memory(d).committed_bytes() < stay.parts()[d].end()) growing.push_back(d);
    }
    std::vector<char> succeeded(growing.size());  // not bits: written side by side
    if (!growing.empty()) {
      side_by_side(growing.size(), [&](std::size_t g) {
        const std::size_t d = growing[g];
        const auto used = [&] { return admission_->end_of_others(stay, d); };
        succeeded[g] = devices_->provide_to(d, stay.parts()[d].end(), used) ? 1 : 0;
      });
    }
    for (std::size_t g = 0; g < growing.size(); ++g) provided[growing[g]] = succeeded[g] != 0;
    note_memory();  // before the threads of the devices have done the job and wait again
    return provided;
  }

  void note_memory() {
    const bool holds_on_host =
        (host_copies_ && host_copies_->held_bytes() > 0) || batches_->holds_memory() || spare_memory_.holds_any();
    crew_->note_memory(holds_on_host || devices_->can_give_back());
  }

  void note_use() {
    note_memory();
    crew_->note_use();
  }

 public:
  // In pieces, so that a call that comes meanwhile does not wait for all of them.
  void give_back_memory() {
    constexpr std::size_t piece_bytes = std::size_t{1} << 30;  // a millisecond
    if (host_copies_) host_copies_->give_back();
    spare_memory_.free();
    if (!give_back_lanes()) return;
    for (std::size_t d = 0; d < devices_->size(); ++d) {
      for (bool more = devices_->has_memory(d); more;) {
        const process::Pass driving(process::Work::driving);
        const Admission::Stay stay = admission_->try_alone();
        if (!driving || !stay) return;
        more = devices_->memory(d).give_back(piece_bytes);
        note_memory();
      }
    }
  }

  std::size_t committed_bytes() const { return devices_->committed_bytes(); }

  int processors() const { return available_processors(local_ranks_); }

  std::shared_ptr<device::HostMemory> host_memory(std::size_t bytes) {
    const process::Pass driving(process::Work::driving);
    const std::vector<bool> usable = crew_->usable();
    const auto first = std::find(usable.begin(), usable.end(), true);
    if (!driving || first == usable.end()) return std::make_shared<device::HostMemory>(bytes);
    return spare_memory_.take(bytes, *accelerators_[static_cast<std::size_t>(first - usable.begin())].device);
  }

 private:
  // What batches have been packed into. @return false if somebody has come meanwhile
  bool give_back_lanes() {
    if (!batches_->holds_memory()) return true;
    for (std::size_t d = 0; d < devices_->size(); ++d) {
      const process::Pass driving(process::Work::driving);
      const Admission::Stay stay = admission_->try_alone();
      if (!driving || !stay) return false;
      batches_->give_back(d);
      note_memory();
    }
    return true;
  }

  // Runs the pending tasks on the devices of the stay, and the CPU as far as it helps, until all are done or a device
  // fails, which is not usable any more then. @return false if there was no memory to begin with
  bool attempt(const TaskGraph& graph, const CpuHelp& cpu, const Admission::Stay& stay, JobRecord& record,
               Fitness& fitness) {
    const auto note_others = [&] {
      int& beside = record.statistics().beside;
      beside = std::max(beside, admission_->calls_beside(stay));
    };
    note_others();
    Attempt made;
    try {
      made.working = stay.devices();
      const auto pinning = pin_operands(graph, made.working);
      run_once(graph, record.pending(), cpu, stay, made);
    } catch (const std::exception&) {  // the CPU needs less
      return false;
    }
    note_others();
    leave_out_failed(made, record.statistics().beside > 0, fitness);
    record.add(made, [&](std::size_t d) { return made.cache->counters(static_cast<int>(d)); });
    if (!record.pending().empty() && !process::ending()) record.count_restart();
    note_use();  // before others may find the devices idle
    return true;
  }

  // When a device has been lost: by the CPU, and before others read these tiles. They may depend on all that had been
  // published and was not in host memory.
  void end_partly_written(const TaskGraph& graph, JobRecord& record) {
    if (record.partly_written().empty()) return;
    const std::vector<TaskId> tasks = record.to_end_first();
    record.add_cpu(cpu_worker_.finish(graph, tasks, record.partly_written()));
    record.note_done(tasks);
  }

  // What it throws it throws before any task is begun.
  void run_once(const TaskGraph& graph, const std::vector<TaskId>& pending, const CpuHelp& cpu,
                const Admission::Stay& stay, Attempt& made) {
    crew_->alert(made.working);
    std::vector<cache::CacheDevice> places;
    for (std::size_t d = 0; d < accelerators_.size(); ++d) {
      const Admission::Part& part = stay.parts()[d];
      std::byte* const slab = part.bytes > 0 ? devices_->memory(d).slab() + part.offset : nullptr;
      places.push_back({accelerators_[d].device.get(), slab, part.bytes});
    }
    made.cache = std::make_unique<cache::TileCache>(places);
    made.cache->begin_job(graph.slot_bytes(), element_bytes(graph.type()));
    if (old_values_place_ != OldValuesPlace::nowhere) {
      made.old_values.emplace(old_values_place_, &*host_copies_);
      made.old_values->begin_job(*made.cache, graph, made.working);
    }
    crew_->employ(made);
    const bool side_by_side = Crew::should_advance_side_by_side(graph, made);
    Job job(
        graph, made.working, pending, side_by_side, [&] { crew_->raise_all(made); },
        [&] { crew_->announce_end(made); });
    crew_->run(
        job, [&] { return cpu_worker_.run(job, cpu); }, made);
    made.breakdown = job.breakdown();
    if (made.old_values) made.old_values->stop_copying();  // after a failure some may be left to do
  }

  // Errors beside the loss of a device are taken for its consequences (tiles that never came from it). An error by
  // itself would come again, and the device is out for this job; but the first one may be that of another call.
  void leave_out_failed(const Attempt& made, bool has_shared, Fitness& fitness) noexcept {
    std::vector<bool>& usable = fitness.usable;
    const auto lost = [&](std::size_t d) { return made.working[d] && !made.outcomes[d].usable; };
    bool any_lost = false;
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (!lost(d)) continue;
      any_lost = true;
      devices_->lose(d, made.outcomes[d].error);
    }
    for (std::size_t d = 0; d < usable.size(); ++d) {
      const bool has_erred = made.working[d] && !made.outcomes[d].error.empty() && !any_lost;
      const bool is_forgiven = has_erred && has_shared && !fitness.has_erred[d];
      if (has_erred) fitness.has_erred[d] = true;
      if (lost(d) || (has_erred && !is_forgiven)) usable[d] = false;
    }
  }

  std::unique_ptr<device::HostPinning> pin_operands(const TaskGraph& graph, const std::vector<bool>& usable) {
    const auto first = std::find(usable.begin(), usable.end(), true);
    if (first == usable.end()) return nullptr;
    device::Device& device = *accelerators_[static_cast<std::size_t>(first - usable.begin())].device;
    if (device.info().copy_threads > 0) return nullptr;  // all devices have them
    return device.pin_host(graph.host_ranges());
  }

  std::vector<kernels::Accelerator> accelerators_;
  SpareMemory spare_memory_;  // of devices
  CpuWorker cpu_worker_;
  const OldValuesPlace old_values_place_;
  const int local_ranks_;
  TraceFile trace_;  // guarded by told_mutex_
  std::optional<DeviceSet> devices_;
  std::optional<BatchDriver> batches_;
  std::optional<HostCopies> host_copies_;
  std::optional<Admission> admission_;
  std::mutex told_mutex_;            // of what jobs tell one after the other
  std::optional<StartUp> start_up_;  // until the first job has it; guarded by told_mutex_
  std::optional<Crew> crew_;         // ends first
};

Runtime::Runtime(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
                 int sharers, std::chrono::nanoseconds idle_patience)
    : implementation_(std::make_unique<Implementation>(std::move(accelerators), config, std::move(host_compute),
                                                       sharers, idle_patience)) {}
Runtime::~Runtime() = default;

std::vector<const device::Device*> Runtime::devices() const { return implementation_->devices(); }
std::vector<Machine> Runtime::machines(ScalarType type, bool looks) const {
  return implementation_->machines(type, looks);
}
std::optional<JobStatistics> Runtime::run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu) {
  return implementation_->run(graph, planned_for, cpu);
}
JobStatistics Runtime::run_batch(const PackableBatch& batch, const HostBatchCompute& compute) {
  return implementation_->run_batch(batch, compute);
}
JobStatistics Runtime::run_dense(const DenseProblem& problem, std::optional<kernels::SvdAlgorithm> algorithm) {
  return implementation_->run_dense(problem, algorithm);
}
std::optional<Calibration> Runtime::calibrate_unless_called() {
  try {
    return implementation_->with_idle_devices(
        [this](const auto& devices) {
          return runtime::calibrate(devices, [this] { return process::ending() || implementation_->is_wanted(); });
        },
        false);
  } catch (const Interrupted&) {
    return std::nullopt;
  }
}
std::shared_ptr<device::HostMemory> Runtime::host_memory(std::size_t bytes) {
  return implementation_->host_memory(bytes);
}
int Runtime::processors() const { return implementation_->processors(); }
void Runtime::give_back_memory() { implementation_->give_back_memory(); }
std::size_t Runtime::committed_bytes() const { return implementation_->committed_bytes(); }
Calibration Runtime::calibrate() {
  return implementation_->with_idle_devices([](const auto& devices) { return runtime::calibrate(devices); });
}
void Runtime::warm_up() {
  implementation_->with_idle_devices([](const auto& devices) { runtime::warm_up(devices); });
}

}  // namespace tessera::runtime
