#include "runtime/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"
#include "core/host_share.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"
#include "runtime/batch_job.hpp"
#include "runtime/calibration.hpp"
#include "runtime/crew.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/job.hpp"
#include "runtime/job_record.hpp"
#include "runtime/old_values.hpp"
#include "runtime/room.hpp"
#include "runtime/trace.hpp"
#include "runtime/turnstile.hpp"

namespace tessera::runtime {
namespace {

/// What copies of old values may take, and what batches are packed into: a sixteenth of the host's memory each.
std::size_t most_bytes_on_host() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 16;
}

std::vector<bool> first_of(std::vector<bool> usable, index_t most) {
  for (std::size_t d = 0; d < usable.size(); ++d) {
    if (usable[d]) usable[d] = most-- > 0;
  }
  return usable;
}

}  // namespace

class Runtime::Implementation {
 public:
  Implementation(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
                 int sharers, std::chrono::nanoseconds idle_patience)
      : accelerators_(std::move(accelerators)),
        cpu_worker_(std::move(host_compute)),
        trace_(config.trace_file),
        tells_of_host_devices_(config.verbose),
        local_ranks_(config.local_ranks()),
        memories_(accelerators_.size()),
        lane_memories_(accelerators_.size()) {
    if (accelerators_.empty()) throw InternalError("runtime: no devices");
    if (const auto place = config.keep_old_values; place != OldValuesPlace::nowhere)
      old_values_.emplace(place, HostCopies::threads_for(accelerators_.size()), most_bytes_on_host());
    const double begin_s = device::now_seconds();
    // First, since the threads take some time to find their processors, and no notice of the rest before there is a
    // job.
    crew_.emplace(accelerators_, idle_patience, [this] { give_back_memory(); });
    reserve_slabs(config, sharers);
    std::vector<cache::CacheDevice> places;
    for (std::size_t d = 0; d < accelerators_.size(); ++d) {
      const auto& memory = memories_[d];
      places.push_back(
          {accelerators_[d].device.get(), memory ? memory->slab() : nullptr, memory ? memory->committed_bytes() : 0});
    }
    cache_.emplace(places);
    crew_->employ(*cache_, old_values_ ? &*old_values_ : nullptr);
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
    if (looks) review_memory();
    return machines_of(rooms(), type);
  }

  std::optional<JobStatistics> run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu) {
    const Turnstile::Turn turn(turnstile_);
    const double begin_s = device::now_seconds();
    const std::vector<DeviceRoom> rooms = this->rooms();
    const std::vector<Machine> machines = machines_of(rooms, graph.type());
    const auto still = std::find_if(machines.begin(), machines.end(),
                                    [&](const Machine& m) { return m.heap_bytes == planned_for.heap_bytes; });
    if (still == machines.end() && !machines.empty()) return std::nullopt;
    if (still != machines.end()) check_room(graph, *still);
    JobRecord record(graph, accelerators_);
    // Made while there is memory. What runs out of it later must not look as if C were untouched.
    const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
    try {
      // Once the process ends, the host computes what is still to do: the calling thread may be one that somebody waits
      // for.
      if (const process::Pass driving(process::Work::driving); driving) {
        std::vector<bool> usable = members_of(planned_for, rooms);
        {
          const auto called = first_of(usable, planned_for.devices);
          Noted noted(*this, called);
          if (provide(graph, called, rooms) != called) return std::nullopt;
          noted.dismiss();  // at the end of the job
        }
        const auto pinning = pin_operands(graph, usable);
        while (!record.pending().empty() && !process::ending() &&
               std::find(usable.begin(), usable.end(), true) != usable.end()) {
          Attempt made;
          try {
            made.working = first_of(usable, planned_for.devices);
            // Devices that take the place of others need memory, too.
            if (const auto provided = provide(graph, made.working, rooms); provided != made.working) {
              for (std::size_t d = 0; d < usable.size(); ++d)
                usable[d] = usable[d] && (!made.working[d] || provided[d]);
              continue;
            }
            attempt(graph, record.pending(), cpu, made);
          } catch (const std::exception&) {  // no memory to begin with; the CPU needs less
            break;
          }
          leave_out_failed(made, usable);
          record.add(made, [this](std::size_t d) { return cache_->counters(static_cast<int>(d)); });
          if (!record.pending().empty() && !process::ending()) record.count_restart();
        }
      }
      if (!record.pending().empty()) record.begin();
      record.add_cpu(cpu_worker_.finish(graph, record.pending()));
    } catch (const std::bad_alloc&) {
      if (!record.has_begun()) throw;
      std::rethrow_exception(partly_written);
    }
    tell(record, begin_s);
    note_use();
    return std::move(record.statistics());
  }

  JobStatistics run_batch(const PackableBatch& batch, const HostBatchCompute& compute) {
    const Turnstile::Turn turn(turnstile_);
    const double begin_s = device::now_seconds();
    BatchRecord record(batch, accelerators_);
    std::vector<bool> usable = crew_->usable();
    if (std::none_of(usable.begin(), usable.end(), [](bool is) { return is; }))
      throw NoDeviceLeft("no device works any more");
    review_memory();
    const BatchPlan plan = plan_batch(batch, usable);
    BatchJob job(batch, plan.slot_bytes);
    if (const process::Pass driving(process::Work::driving); driving)
      free_lanes(lane_memories_, plan, most_bytes_of_lanes());
    // As in run().
    const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
    try {
      if (const process::Pass driving(process::Work::driving); driving) {
        const Noted noted(*this, usable);
        record.begin();
        try {
          compute_on_devices(job, plan, usable, record);
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

  bool is_wanted() { return turnstile_.is_wanted(); }

  /// Between two jobs, `use(idle devices)`.
  template <class Use>
  auto with_idle_devices(Use use) {
    const Turnstile::Turn turn(turnstile_);
    const process::Pass driving(process::Work::driving);
    if (!driving) throw NotAvailable("the process is ending");
    std::vector<MeasuredDevice> devices;
    const std::vector<bool> usable = crew_->usable();
    const Noted noted(*this, usable);
    for (std::size_t d = 0; d < usable.size(); ++d) {
      const kernels::Accelerator& accelerator = accelerators_[d];
      if (!usable[d]) continue;
      DeviceMemory& memory = *memories_[d];
      const std::size_t most = most_measured_bytes(accelerator.device->info().profile);
      const auto wanted = [&] { return std::min(memory.room_bytes(), most); };
      if (!provide_to(d, wanted())) static_cast<void>(provide_to(d, wanted()));
      devices.push_back({accelerator.device.get(), accelerator.ops.get(), memory.slab(),
                         std::min(memory.committed_bytes(), wanted())});
    }
    if (devices.empty()) throw NotAvailable("no device works any more");
    try {
      return use(devices);
    } catch (...) {
      for (std::size_t d = 0; d < usable.size(); ++d) {
        if (usable[d] && !accelerators_[d].device->recover()) lose(d, "it failed while it was measured");
      }
      throw;
    }
  }

 private:
  using HostBatchCompute = Runtime::HostBatchCompute;

  BatchPlan plan_batch(const PackableBatch& batch, const std::vector<bool>& usable) {
    const auto count = static_cast<int>(std::count(usable.begin(), usable.end(), true));
    const int processors = available_processors(local_ranks_);
    std::vector<BatchRoom> rooms(usable.size());
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (!usable[d]) continue;
      rooms[d].bytes = static_cast<index_t>(memories_[d]->room_bytes());
      rooms[d].threads = packing_threads(accelerators_[d].device->info(), count, processors);
      rooms[d].chunk_bytes = accelerators_[d].device->info().profile.staging.chunk_bytes;
    }
    index_t bytes = 0, largest_bytes = 0;
    for (index_t i = 0; i < batch.size(); ++i) {
      const index_t own = batch.packed_bytes(i);
      bytes += own;
      largest_bytes = std::max(largest_bytes, own);
    }
    return runtime::plan_batch(rooms, bytes, largest_bytes, most_bytes_of_lanes());
  }

  // It is page-locked, and each of the processes that share the host has its own.
  index_t most_bytes_of_lanes() const { return static_cast<index_t>(most_bytes_on_host()) / local_ranks_; }

  // Attempts until all is done that devices can do, or none of them is left. A device that has failed is out for this batch.
  void compute_on_devices(BatchJob& job, const BatchPlan& plan, std::vector<bool>& usable, BatchRecord& record) {
    for (bool again = false; job.has_pending() && !process::ending(); again = true) {
      std::vector<std::size_t> working;
      for (std::size_t d = 0; d < usable.size(); ++d) {
        if (usable[d] && plan.shares[d].lanes > 0) working.push_back(d);
      }
      std::vector<char> provided(working.size());  // not bits: written side by side
      side_by_side(working.size(), [&](std::size_t w) {
        const index_t bytes = plan.shares[working[w]].lanes * plan.slot_bytes;
        provided[w] = provide_to(working[w], static_cast<std::size_t>(bytes)) ? 1 : 0;
      });
      std::vector<BatchDevice> devices;
      std::vector<std::size_t> numbers;
      for (std::size_t w = 0; w < working.size(); ++w) {
        const std::size_t d = working[w];
        if (provided[w] == 0) {
          usable[d] = false;
          continue;
        }
        const kernels::Accelerator& accelerator = accelerators_[d];
        devices.push_back({accelerator.device.get(), accelerator.ops.get(), memories_[d]->slab(), &lane_memories_[d],
                           plan.shares[d]});
        numbers.push_back(d);
      }
      if (devices.empty()) return;
      if (again) record.count_restart();
      holds_lanes_ = true;
      const std::vector<BatchJob::Outcome> outcomes = job.run(devices);
      bool any_failed = false;
      for (std::size_t w = 0; w < outcomes.size(); ++w) {
        const std::size_t d = numbers[w];
        record.add(d, outcomes[w]);
        if (!outcomes[w].failed) continue;
        any_failed = true;
        usable[d] = false;
        if (!accelerators_[d].device->recover()) lose(d, outcomes[w].error);
      }
      if (!any_failed) return;  // what is pending now nobody has begun: there were no threads
    }
  }

  // The times of the job, for the caller and the trace.
  void tell(Record& record, double begin_s) {
    JobStatistics& statistics = record.statistics();
    statistics.seconds = device::now_seconds() - begin_s;
    try {
      record.settle_times();
      statistics.start_up = std::exchange(start_up_, std::nullopt);
      if (statistics.start_up && statistics.first_kernel_at > 0)
        statistics.start_up->first_kernel_s = statistics.first_kernel_at - begin_s;
      trace_.append(statistics, begin_s, record.names(), record.operations());
    } catch (const std::bad_alloc&) {  // C is what it should be: only times are missing
    }
  }

  // Between two jobs: the threads of the devices then see that there is memory to give back.
  class Noted {
   public:
    Noted(Implementation& runtime, std::vector<bool> used) : runtime_(runtime), used_(std::move(used)) {}
    ~Noted() {
      if (dismissed_) return;
      runtime_.note_use();
      runtime_.crew_->alert(used_);
    }
    void dismiss() { dismissed_ = true; }
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;

   private:
    Implementation& runtime_;
    std::vector<bool> used_;
    bool dismissed_ = false;
  };

  // Side by side, since a GPU's driver takes some time for most of its memory. A device that has none is left out.
  void reserve_slabs(const Config& config, int sharers) {
    std::vector<std::exception_ptr> failures(memories_.size());
    side_by_side(memories_.size(), [&](std::size_t d) {
      try {
        memories_[d].emplace(*accelerators_[d].device, config, sharers);
      } catch (...) {
        failures[d] = std::current_exception();
      }
    });
    if (std::none_of(memories_.begin(), memories_.end(), [](const auto& memory) { return memory.has_value(); }))
      std::rethrow_exception(failures.front());
    for (std::size_t d = 0; d < memories_.size(); ++d) {
      if (memories_[d]) continue;
      static_cast<void>(crew_->lose(d));
      log_line_once(name_of(*accelerators_[d].device), "is not used: " + text_of(failures[d]));
    }
  }

  // What plans count on, by device.
  std::vector<DeviceRoom> rooms() const {
    const std::vector<bool> usable = crew_->usable();
    std::vector<DeviceRoom> rooms(usable.size());
    for (std::size_t d = 0; d < usable.size(); ++d)
      rooms[d] = {usable[d] ? memories_[d]->room_bytes() : 0, &accelerators_[d].device->info()};
    return rooms;
  }
  // Asks the devices how much of their memory is free. Not while the process ends.
  void review_memory() const {
    const process::Pass driving(process::Work::driving);
    if (!driving) return;
    const std::vector<bool> usable = crew_->usable();
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (usable[d]) static_cast<void>(memories_[d]->review());
    }
  }

  // @return false if the device cannot give so much, or turns out to be lost
  bool provide_to(std::size_t d, std::size_t bytes) {
    try {
      return memories_[d]->provide(bytes);
    } catch (const DeviceLost& error) {
      lose(d, error.what());
      return false;
    }
  }

  // Results stay right, so that nobody would learn otherwise why a GPU idles from now on.
  void lose(std::size_t d, std::string_view reason) noexcept {
    if (!crew_->lose(d) || process::ending()) return;
    const device::Device& device = *accelerators_[d].device;
    if (device.info().backend == "host" && !tells_of_host_devices_) return;
    try {
      log_line(name_of(device) + " is lost, calls do without it: " + std::string(reason));
    } catch (const std::bad_alloc&) {  // untold
    }
  }

  // Has the devices commit what the job needs, all that it may need: nothing calls the driver for memory once it has
  // begun.
  // @return those of `called` that could @pre the caller has the turn
  std::vector<bool> provide(const TaskGraph& graph, const std::vector<bool>& called,
                            const std::vector<DeviceRoom>& rooms) {
    const std::size_t slot = cache::TileCache::segment_bytes(graph.slot_bytes());
    const auto working = static_cast<std::size_t>(graph.working_slots()) + Worker::spare_slots;
    const auto needed = [&](std::size_t d) {
      return working < rooms[d].bytes / slot ? working * slot : rooms[d].bytes;
    };
    std::vector<std::size_t> growing;
    std::vector<bool> provided = called;
    for (std::size_t d = 0; d < called.size(); ++d) {
      if (called[d] && memories_[d]->committed_bytes() < needed(d)) growing.push_back(d);
    }
    std::vector<char> succeeded(growing.size());  // not bits: written side by side
    if (!growing.empty()) {
      side_by_side(growing.size(),
                   [&](std::size_t g) { succeeded[g] = provide_to(growing[g], needed(growing[g])) ? 1 : 0; });
    }
    for (std::size_t g = 0; g < growing.size(); ++g) provided[growing[g]] = succeeded[g] != 0;
    for (std::size_t d = 0; d < called.size(); ++d) {
      if (!provided[d]) continue;
      cache_->set_heap_bytes(static_cast<int>(d), std::min(memories_[d]->committed_bytes(), rooms[d].bytes));
    }
    note_memory();  // before the threads of the devices have done the job and wait again
    return provided;
  }

  void note_memory() {
    const auto holds = [](const auto& memory) { return memory && memory->grows() && memory->committed_bytes() > 0; };
    const bool holds_copies = (old_values_ && old_values_->held_bytes() > 0) || holds_lanes_;
    crew_->note_memory(holds_copies || std::any_of(memories_.begin(), memories_.end(), holds));
  }

  void note_use() {
    note_memory();
    crew_->note_use();
  }

 public:
  // In pieces, so that a call that comes meanwhile does not wait for all of them.
  void give_back_memory() {
    constexpr std::size_t piece_bytes = std::size_t{1} << 30;  // a millisecond
    if (old_values_) old_values_->give_back();
    if (!give_back_lanes()) return;
    for (auto& memory : memories_) {
      for (bool more = memory.has_value(); more;) {
        const process::Pass driving(process::Work::driving);
        const Turnstile::Turn turn(turnstile_, std::try_to_lock);
        if (!driving || !turn) return;
        more = memory->give_back(piece_bytes);
        note_memory();
      }
    }
  }

  std::size_t committed_bytes() const {
    std::size_t sum = 0;
    for (const auto& memory : memories_) sum += memory ? memory->committed_bytes() : 0;
    return sum;
  }

 private:
  // What batches have been packed into: of one device at a time, since page-locked memory is given back slowly. @return
  // false if somebody has come meanwhile
  bool give_back_lanes() {
    if (!holds_lanes_) return true;
    for (std::size_t d = 0; d < lane_memories_.size(); ++d) {
      const process::Pass driving(process::Work::driving);
      const Turnstile::Turn turn(turnstile_, std::try_to_lock);
      if (!driving || !turn) return false;
      lane_memories_[d].clear();
      holds_lanes_ = std::any_of(lane_memories_.begin(), lane_memories_.end(),
                                 [](const LaneMemory& each) { return !each.empty(); });
      note_memory();
    }
    return true;
  }

  // Runs the pending tasks on the devices `made.working`, and the CPU as far as it helps, until all are done or a
  // device fails. What it throws it throws before any task is begun.
  void attempt(const TaskGraph& graph, const std::vector<TaskId>& pending, const CpuHelp& cpu, Attempt& made) {
    crew_->alert(made.working);
    cache_->begin_job(graph.slot_bytes(), element_bytes(graph.type()));
    const bool side_by_side = crew_->should_advance_side_by_side(graph, made.working);
    Job job(
        graph, made.working, pending, side_by_side, [this] { crew_->raise_all(); }, [this] { crew_->announce_end(); });
    crew_->run(
        job, [&] { return cpu_worker_.run(job, cpu); }, made);
    if (old_values_) old_values_->stop_copying();  // after a failure some may be left to do
  }

  // Errors beside the loss of a device are taken for its consequences (tiles that never came from it). An error by
  // itself would come again: the device is out for this job.
  void leave_out_failed(const Attempt& made, std::vector<bool>& usable) noexcept {
    const auto lost = [&](std::size_t d) { return made.working[d] && !made.outcomes[d].usable; };
    bool any_lost = false;
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (!lost(d)) continue;
      any_lost = true;
      lose(d, made.outcomes[d].error);
    }
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (lost(d) || (made.working[d] && !made.outcomes[d].error.empty() && !any_lost)) usable[d] = false;
    }
  }

  static void check_room(const TaskGraph& graph, const Machine& machine) {
    constexpr index_t step_tiles = 3;  // an output and the inputs of one step
    if (machine.devices == 0 || machine.slots(graph.slot_bytes()) >= step_tiles) return;
    throw OutOfDeviceMemory("the device memory of " + std::to_string(machine.heap_bytes) +
                            " bytes cannot hold three tiles of " +
                            std::to_string(cache::TileCache::segment_bytes(graph.slot_bytes())) + " bytes");
  }

  std::unique_ptr<device::HostPinning> pin_operands(const TaskGraph& graph, const std::vector<bool>& usable) {
    const auto first = std::find(usable.begin(), usable.end(), true);
    if (first == usable.end()) return nullptr;
    device::Device& device = *accelerators_[static_cast<std::size_t>(first - usable.begin())].device;
    if (device.info().copy_threads > 0) return nullptr;  // all devices have them
    return device.pin_host(graph.host_ranges());
  }

  std::vector<kernels::Accelerator> accelerators_;
  CpuWorker cpu_worker_;
  TraceFile trace_;
  const bool tells_of_host_devices_;  ///< that are lost: they are told to fail
  const int local_ranks_;
  // By device; nothing: it could not have any. Each is thread-safe by itself.
  mutable std::vector<std::optional<DeviceMemory>> memories_;
  std::vector<LaneMemory> lane_memories_;  // by device; of who has the turn
  // Some lane has memory. Relaxed: written in a turn, and a look that comes too early is repeated.
  std::atomic<bool> holds_lanes_ = false;
  std::optional<cache::TileCache> cache_;
  std::optional<OldValues> old_values_;
  Turnstile turnstile_;
  std::optional<StartUp> start_up_;  // until the first job has it; of who has the turn
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
std::optional<Calibration> Runtime::calibrate_unless_called() {
  try {
    return implementation_->with_idle_devices([this](const auto& devices) {
      return runtime::calibrate(devices, [this] { return process::ending() || implementation_->is_wanted(); });
    });
  } catch (const Interrupted&) {
    return std::nullopt;
  }
}
void Runtime::give_back_memory() { implementation_->give_back_memory(); }
std::size_t Runtime::committed_bytes() const { return implementation_->committed_bytes(); }
Calibration Runtime::calibrate() {
  return implementation_->with_idle_devices([](const auto& devices) { return runtime::calibrate(devices); });
}
void Runtime::warm_up() {
  implementation_->with_idle_devices([](const auto& devices) { runtime::warm_up(devices); });
}

}  // namespace tessera::runtime
