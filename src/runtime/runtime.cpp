#include "runtime/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"
#include "core/thread.hpp"
#include "runtime/calibration.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/job.hpp"
#include "runtime/old_values.hpp"
#include "runtime/room.hpp"
#include "runtime/signal.hpp"
#include "runtime/trace.hpp"
#include "runtime/turnstile.hpp"
#include "runtime/worker.hpp"

namespace tessera::runtime {
namespace {

std::string name_of(const device::Device& device) {
  return device.info().backend + ":" + std::to_string(device.info().ordinal);
}

void add(DeviceStatistics& sum, const cache::CacheCounters& counters, const Worker::Outcome& outcome) {
  sum.l1_hits += counters.l1_hits;
  sum.l2_hits += counters.l2_hits;
  sum.misses += counters.misses;
  sum.evictions += counters.evictions;
  sum.bytes_up += counters.bytes_up;
  sum.bytes_down += counters.bytes_down;
  sum.bytes_peer += counters.bytes_peer;
  sum.tasks += static_cast<std::int64_t>(outcome.done.size());
  sum.steps += outcome.steps;
  sum.stolen += outcome.stolen;
  sum.flops += outcome.flops;
}

void add(DeviceStatistics& sum, const CpuWorker::Outcome& outcome) {
  sum.tasks += static_cast<std::int64_t>(outcome.done.size());
  sum.steps += static_cast<std::int64_t>(outcome.operations.size());
  for (const device::Operation& operation : outcome.operations) sum.flops += operation.flops;
}

/// As far as there is memory for them.
void keep(std::vector<device::Operation>& all, const std::vector<device::Operation>& more) {
  if (has_room(all, more.size())) all.insert(all.end(), more.begin(), more.end());
}

void add_times(DeviceStatistics& sum, const std::vector<device::Operation>& operations, double seconds) {
  std::vector<Interval> kernels;
  std::vector<Interval> all;
  for (const device::Operation& operation : operations) {
    all.push_back({operation.begin_s, operation.end_s});
    if (operation.stream.kind == device::StreamKind::compute) kernels.push_back(all.back());
  }
  sum.kernel_s = covered_seconds(std::move(kernels));
  const double busy_s = covered_seconds(std::move(all));
  sum.transfer_s = busy_s - sum.kernel_s;
  sum.other_s = std::max(0.0, seconds - busy_s);
}

/// Threads that copy old values: fewer than would be missed by those that carry pageable memory. A quarter of 16
/// processors was too little for trmm, which overwrites 25 GB/s.
int copying_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency() * 3 / 8, 1U, 16U)); }

/// What copies of old values may take: a sixteenth of the host's memory.
std::size_t most_bytes_of_copies() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 16;
}

std::vector<bool> first_of(std::vector<bool> usable, index_t most) {
  for (std::size_t d = 0; d < usable.size(); ++d) {
    if (usable[d]) usable[d] = most-- > 0;
  }
  return usable;
}

double first_kernel_at(std::span<const std::vector<device::Operation>> operations) {
  double first_s = 0;
  for (const auto& of_device : operations) {
    for (const device::Operation& operation : of_device) {
      if (operation.stream.kind == device::StreamKind::compute && (first_s <= 0 || operation.begin_s < first_s))
        first_s = operation.begin_s;
    }
  }
  return first_s;
}

}  // namespace

class Runtime::Implementation {
 public:
  Implementation(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
                 int sharers, std::chrono::nanoseconds idle_patience)
      : accelerators_(std::move(accelerators)),
        cpu_worker_(std::move(host_compute)),
        trace_(config.trace_file),
        idle_patience_(idle_patience),
        tells_of_losses_(config.verbose) {
    if (accelerators_.empty()) throw InternalError("runtime: no devices");
    if (config.keep_old_values) old_values_.emplace(copying_threads(), most_bytes_of_copies());
    const double begin_s = device::now_seconds();
    for (std::size_t d = 0; d < accelerators_.size(); ++d) seats_.emplace_back();
    try {
      // First, since they take some time to find their processors, and no notice of the rest before there is a job.
      start_threads();
      reserve_slabs(config, sharers);
      prepare_seats();
    } catch (...) {
      stop();
      throw;
    }
    start_up_.emplace().reserve_s = device::now_seconds() - begin_s;
  }

  ~Implementation() { stop(); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::vector<const device::Device*> devices() const {
    const std::lock_guard lock(mutex_);
    std::vector<const device::Device*> usable;
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (!seats_[d].lost) usable.push_back(accelerators_[d].device.get());
    }
    return usable;
  }

  Machine machine(bool looks) const {
    if (looks) review_memory();
    return machine_of(rooms_of_seats());
  }

  std::optional<JobStatistics> run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu) {
    const Turnstile::Turn turn(turnstile_);
    const double begin_s = device::now_seconds();
    const std::vector<std::size_t> rooms = rooms_of_seats();
    const Machine now = machine_of(rooms);
    if (now.devices > 0 && now.heap_bytes != planned_for.heap_bytes) return std::nullopt;
    check_room(graph, now);
    const index_t most_devices = planned_for.devices;
    JobStatistics statistics = describe(graph);
    std::vector<std::string> names;
    for (const auto& accelerator : accelerators_) {
      names.push_back(name_of(*accelerator.device));
      statistics.devices.push_back({.device = names.back()});
    }
    names.emplace_back("cpu");
    DeviceStatistics by_cpu{.device = names.back()};
    std::vector<std::vector<device::Operation>> operations(names.size());
    std::vector<TaskId> pending(static_cast<std::size_t>(graph.task_count()));
    for (std::size_t t = 0; t < pending.size(); ++t) pending[t] = static_cast<TaskId>(t);
    std::vector<bool> done(pending.size(), false);
    // Made while there is memory. What runs out of it later must not look as if C were untouched.
    const auto partly_written = std::make_exception_ptr(DeviceLost("memory ran out while C was written"));
    bool begun = false;

    const auto count_cpu = [&](const CpuWorker::Outcome& outcome) {
      add(by_cpu, outcome);
      keep(operations.back(), outcome.operations);
    };
    try {
      // Once the process ends, the host computes what is still to do: the calling thread may be one that somebody waits
      // for.
      if (const process::Pass driving(process::Work::driving); driving) {
        std::vector<bool> usable = usable_seats();
        for (std::size_t d = 0; d < usable.size(); ++d) usable[d] = usable[d] && rooms[d] >= now.heap_bytes;
        {
          const auto called = first_of(usable, most_devices);
          Noted noted(*this, called);
          if (provide(graph, called, rooms) != called) return std::nullopt;
          noted.dismiss();  // at the end of the job
        }
        const auto pinning = pin_operands(graph);
        while (!pending.empty() && !process::ending() &&
               std::find(usable.begin(), usable.end(), true) != usable.end()) {
          Attempt made;
          try {
            made.working = first_of(usable, most_devices);
            // Devices that take the place of others need memory, too.
            if (const auto provided = provide(graph, made.working, rooms); provided != made.working) {
              for (std::size_t d = 0; d < usable.size(); ++d)
                usable[d] = usable[d] && (!made.working[d] || provided[d]);
              continue;
            }
            attempt(graph, pending, cpu, made);
          } catch (const std::exception&) {  // no memory to begin with; the CPU needs less
            break;
          }
          begun = true;
          if (made.by_cpu.error) std::rethrow_exception(made.by_cpu.error);
          count_cpu(made.by_cpu);
          for (const TaskId task : made.by_cpu.done) done[static_cast<std::size_t>(task)] = true;
          bool torn = false;  // beyond repair
          bool lost = false;
          for (std::size_t d = 0; d < made.outcomes.size(); ++d) {
            if (!made.working[d]) continue;
            const Worker::Outcome& outcome = made.outcomes[d];
            add(statistics.devices[d], cache_->counters(static_cast<int>(d)), outcome);
            keep(operations[d], outcome.operations);
            for (const TaskId task : outcome.done) done[static_cast<std::size_t>(task)] = true;
            for (const TaskId task : outcome.torn) torn |= graph.output(task).needs_old;
            lost |= !outcome.usable;
          }
          for (std::size_t d = 0; d < made.outcomes.size(); ++d) {
            // Errors beside the loss of a device are taken for its consequences (tiles that never came from it). An
            // error by itself would come again: the device is out for this job.
            if (!made.outcomes[d].usable || (!made.outcomes[d].error.empty() && !lost)) usable[d] = false;
          }
          std::erase_if(pending, [&](TaskId task) { return done[static_cast<std::size_t>(task)]; });
          if (torn) {
            throw DeviceLost("a device failed while it wrote a tile of C back: " + first_error(made.outcomes));
          }
          if (!pending.empty() && !process::ending()) ++statistics.restarts;
        }
      }
      begun |= !pending.empty();
      count_cpu(cpu_worker_.finish(graph, pending));
    } catch (const std::bad_alloc&) {
      if (!begun) throw;
      std::rethrow_exception(partly_written);
    }
    statistics.seconds = device::now_seconds() - begin_s;
    try {
      if (by_cpu.tasks > 0) statistics.devices.push_back(std::move(by_cpu));
      tell(statistics, begin_s, names, operations);
    } catch (const std::bad_alloc&) {  // C is what it should be: only times are missing
    }
    note_use();
    return statistics;
  }

  bool is_wanted() { return turnstile_.is_wanted(); }

  /// Between two jobs, `use(idle devices)`.
  template <class Use>
  auto with_idle_devices(Use use) {
    const Turnstile::Turn turn(turnstile_);
    const process::Pass driving(process::Work::driving);
    if (!driving) throw NotAvailable("the process is ending");
    std::vector<MeasuredDevice> devices;
    const std::vector<bool> usable = usable_seats();
    const Noted noted(*this, usable);
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      const kernels::Accelerator& accelerator = accelerators_[d];
      if (!usable[d]) continue;
      DeviceMemory& memory = *seats_[d].memory;
      const auto wanted = [&] { return std::min(memory.room_bytes(), most_measured_bytes); };
      if (!provide(d, wanted())) static_cast<void>(provide(d, wanted()));
      devices.push_back({accelerator.device.get(), accelerator.ops.get(), memory.slab(),
                         std::min(memory.committed_bytes(), wanted())});
    }
    if (devices.empty()) throw NotAvailable("no device works any more");
    try {
      return use(devices);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      for (std::size_t d = 0; d < seats_.size(); ++d) {
        if (usable[d] && !accelerators_[d].device->recover()) lose(d, "it failed while it was measured");
      }
      throw;
    }
  }

 private:
  // What came of running the pending tasks once.
  struct Attempt {
    std::vector<bool> working;  // the devices that take part
    std::vector<Worker::Outcome> outcomes;
    CpuWorker::Outcome by_cpu;
  };

  // The times of the job, for the caller and the trace.
  void tell(JobStatistics& statistics, double begin_s, const std::vector<std::string>& names,
            const std::vector<std::vector<device::Operation>>& operations) {
    for (std::size_t d = 0; d < statistics.devices.size(); ++d) {
      add_times(statistics.devices[d], operations[d], statistics.seconds);
    }
    statistics.first_kernel_at = first_kernel_at(std::span(operations).first(seats_.size()));
    statistics.start_up = std::exchange(start_up_, std::nullopt);
    if (statistics.start_up && statistics.first_kernel_at > 0)
      statistics.start_up->first_kernel_s = statistics.first_kernel_at - begin_s;
    trace_.append(statistics, begin_s, names, operations);
  }

  // A device's place in the runtime: its worker, the thread that runs it, and what passes between that thread and
  // run().
  struct Seat {
    Signal signal;
    std::optional<Worker> worker;
    std::thread thread;
    mutable std::optional<DeviceMemory> memory;  // thread-safe by itself; from reserve_slabs() on
    index_t segment_bytes = 0;
    index_t share_bytes = 0;
    bool lost = false;                // guarded by mutex_
    bool alerted = false;             // guarded by mutex_; a job is about to come
    std::atomic<Job*> job = nullptr;  // changes under mutex_; set: the worker is to run or is running
    Worker::Outcome outcome;          // guarded by mutex_
    // A job has come or is about to, or no more will; a call wakes only the seats that it uses.
    std::condition_variable begun;
  };
  // Between two jobs: the threads of the devices then see that there is memory to give back.
  class Noted {
   public:
    Noted(Implementation& runtime, std::vector<bool> used) : runtime_(runtime), used_(std::move(used)) {}
    ~Noted() {
      if (dismissed_) return;
      runtime_.note_use();
      runtime_.alert_seats(used_);
    }
    void dismiss() { dismissed_ = true; }
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;

   private:
    Implementation& runtime_;
    std::vector<bool> used_;
    bool dismissed_ = false;
  };
  // How long those who wait for each other stay awake: while a call prepares its job, and while its last results go
  // down.
  static constexpr std::chrono::microseconds begin_patience{200};
  static constexpr std::chrono::microseconds end_patience{1000};

  void start_threads() {
    try {
      for (std::size_t d = 0; d < seats_.size(); ++d) {
        seats_[d].thread = start_thread([this, d] { serve(d); });
      }
    } catch (const std::system_error& error) {
      throw NotAvailable(std::string("cannot start a worker thread: ") + error.what());
    }
  }

  // Side by side, since a GPU's driver takes some time for most of its memory.
  void reserve_slabs(const Config& config, int sharers) {
    side_by_side(seats_.size(),
                 [&](std::size_t d) { seats_[d].memory.emplace(*accelerators_[d].device, config, sharers); });
  }

  void prepare_seats() {
    std::vector<cache::CacheDevice> places;
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      const DeviceMemory& memory = *seats_[d].memory;
      places.push_back({accelerators_[d].device.get(), memory.slab(), memory.committed_bytes()});
    }
    cache_.emplace(places);
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      Seat& seat = seats_[d];
      device::Device& device = *accelerators_[d].device;
      seat.segment_bytes = device.info().segment_bytes;
      seat.share_bytes = device.info().share_bytes;
      const bool tells = device.on_completion([&signal = seat.signal] { signal.raise(); });
      seat.worker.emplace(static_cast<int>(d), device, *accelerators_[d].ops, *cache_, seat.signal, !tells,
                          old_values_ ? &*old_values_ : nullptr);
    }
  }

  // What plans count on, by device. @pre the caller has the turn
  std::vector<std::size_t> rooms_of_seats() const {
    std::vector<std::size_t> rooms;
    for (const Seat& seat : seats_) rooms.push_back(seat.memory->room_bytes());
    return rooms;
  }
  // Asks the devices how much of their memory is free. Not while the process ends.
  void review_memory() const {
    const process::Pass driving(process::Work::driving);
    if (!driving) return;
    const std::vector<bool> usable = usable_seats();
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (usable[d]) static_cast<void>(seats_[d].memory->review());
    }
  }

  Machine machine_of(const std::vector<std::size_t>& rooms) const {
    constexpr std::size_t weak_part = 8;
    const std::lock_guard lock(mutex_);
    std::size_t largest = 0;
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (!seats_[d].lost) largest = std::max(largest, rooms[d]);
    }
    Machine machine;
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      const Seat& seat = seats_[d];
      if (seat.lost || rooms[d] < largest / weak_part) continue;
      machine.heap_bytes = machine.devices == 0 ? rooms[d] : std::min(machine.heap_bytes, rooms[d]);
      machine.segment_bytes = std::max(machine.segment_bytes, seat.segment_bytes);
      machine.share_bytes = std::max(machine.share_bytes, seat.share_bytes);
      ++machine.devices;
    }
    return machine;
  }

  // @return false if the device cannot give so much, or turns out to be lost
  bool provide(std::size_t d, std::size_t bytes) {
    try {
      return seats_[d].memory->provide(bytes);
    } catch (const DeviceLost& error) {
      const std::lock_guard lock(mutex_);
      lose(d, error.what());
      return false;
    }
  }

  // Results stay right, so that nobody would learn otherwise why a GPU idles from now on. @pre mutex_ is held
  void lose(std::size_t d, std::string_view reason) {
    if (std::exchange(seats_[d].lost, true)) return;
    const device::Device& device = *accelerators_[d].device;
    if (process::ending() || (!tells_of_losses_ && device.info().backend == "host")) return;
    try {
      log_line(name_of(device) + " is lost, calls do without it: " + std::string(reason));
    } catch (const std::bad_alloc&) {
    }
  }

  // Has the devices commit what the job needs, all that it may need: nothing calls the driver for memory once it has
  // begun.
  // @return those of `called` that could @pre the caller has the turn
  std::vector<bool> provide(const TaskGraph& graph, const std::vector<bool>& called,
                            const std::vector<std::size_t>& rooms) {
    const std::size_t slot = cache::TileCache::segment_bytes(graph.slot_bytes());
    const auto working = static_cast<std::size_t>(graph.working_slots()) + Worker::spare_slots;
    const auto needed = [&](std::size_t d) { return working < rooms[d] / slot ? working * slot : rooms[d]; };
    std::vector<std::size_t> growing;
    std::vector<bool> provided = called;
    for (std::size_t d = 0; d < called.size(); ++d) {
      if (called[d] && seats_[d].memory->committed_bytes() < needed(d)) growing.push_back(d);
    }
    std::vector<char> succeeded(growing.size());  // not bits: written side by side
    if (!growing.empty()) {
      side_by_side(growing.size(),
                   [&](std::size_t g) { succeeded[g] = provide(growing[g], needed(growing[g])) ? 1 : 0; });
    }
    for (std::size_t g = 0; g < growing.size(); ++g) provided[growing[g]] = succeeded[g] != 0;
    for (std::size_t d = 0; d < called.size(); ++d) {
      if (!provided[d]) continue;
      cache_->set_heap_bytes(static_cast<int>(d), std::min(seats_[d].memory->committed_bytes(), rooms[d]));
    }
    note_memory();  // before the threads of the devices have done the job and wait again
    return provided;
  }

  void note_memory() {
    const auto holds = [](const Seat& seat) { return seat.memory->grows() && seat.memory->committed_bytes() > 0; };
    const bool holds_copies = old_values_ && old_values_->held_bytes() > 0;
    holds_memory_.store(holds_copies || std::any_of(seats_.begin(), seats_.end(), holds), std::memory_order_relaxed);
  }

  void note_use() {
    note_memory();
    const std::lock_guard lock(mutex_);
    last_use_s_ = device::now_seconds();
  }

 public:
  // In pieces, so that a call that comes meanwhile does not wait for all of them.
  void give_back_memory() {
    constexpr std::size_t piece_bytes = std::size_t{1} << 30;  // a millisecond
    if (old_values_) old_values_->give_back();
    for (Seat& seat : seats_) {
      for (bool more = true; more;) {
        const process::Pass driving(process::Work::driving);
        const Turnstile::Turn turn(turnstile_, std::try_to_lock);
        if (!driving || !turn) return;
        more = seat.memory->give_back(piece_bytes);
        note_memory();
      }
    }
  }

  std::size_t committed_bytes() const {
    std::size_t sum = 0;
    for (const Seat& seat : seats_) sum += seat.memory->committed_bytes();
    return sum;
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    for (Seat& seat : seats_) {
      seat.begun.notify_one();
      if (seat.thread.joinable()) seat.thread.join();
    }
    for (const kernels::Accelerator& accelerator : accelerators_) accelerator.device->on_completion({});
  }

  // The threads of the devices wake up while the job is prepared.
  void alert_seats(const std::vector<bool>& called) {
    std::unique_lock lock(mutex_);
    for (std::size_t d = 0; d < seats_.size(); ++d) seats_[d].alerted = called[d];
    lock.unlock();
    wake(called);
  }
  void wake(const std::vector<bool>& called) {
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (called[d]) seats_[d].begun.notify_one();
    }
  }

  // The thread of a device.
  void serve(std::size_t d) {
    wake_on_time();
    Seat& seat = seats_[d];
    std::exception_ptr unusable;
    try {
      accelerators_[d].device->attach_thread();
    } catch (...) {
      unusable = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    const auto called = [&] { return stopping_ || seat.alerted || seat.job != nullptr; };
    for (;;) {
      if (!holds_memory_.load(std::memory_order_relaxed)) {
        seat.begun.wait(lock, called);
      } else if (!seat.begun.wait_for(lock, idle_patience_, called)) {
        // Half: a job that this device had no part in may have ended since, and the next look is as far away.
        const double idle_s = 0.5 * std::chrono::duration<double>(idle_patience_).count();
        const bool idle = device::now_seconds() - last_use_s_ >= idle_s;
        lock.unlock();
        if (idle) give_back_memory();
        lock.lock();
        continue;
      }
      if (stopping_ && seat.job == nullptr) return;
      if (std::exchange(seat.alerted, false) && seat.job == nullptr) {
        lock.unlock();
        yield_until([&] { return seat.job != nullptr; }, begin_patience);
        lock.lock();
        continue;
      }
      Job& job = *seat.job;
      lock.unlock();
      Worker::Outcome outcome;
      if (!unusable) {
        outcome = seat.worker->run(job);
      } else {
        outcome.usable = false;
        outcome.error = text_of(unusable);
        job.fail();
      }
      lock.lock();
      seat.outcome = std::move(outcome);
      seat.job = nullptr;
      if (!seat.outcome.usable) lose(d, seat.outcome.error);
      finished_.notify_one();
    }
  }

  // Runs the pending tasks on the devices `made.working`, and the CPU as far as it helps, until all are done or a
  // device fails. What it throws it throws before any task is begun.
  void attempt(const TaskGraph& graph, const std::vector<TaskId>& pending, const CpuHelp& cpu, Attempt& made) {
    const std::vector<bool>& usable = made.working;
    alert_seats(usable);
    made.outcomes.resize(seats_.size());
    cache_->begin_job(graph.slot_bytes(), element_bytes(graph.type()));
    bool side_by_side = true;
    for (std::size_t d = 0; d < seats_.size(); ++d)
      side_by_side = side_by_side && (!usable[d] || seats_[d].worker->should_advance_side_by_side(graph));
    const auto raise = [this] {
      for (Seat& seat : seats_) seat.signal.raise();
    };
    const auto announce_end = [this] {
      const std::lock_guard lock(mutex_);
      ends_soon_ = true;
      finished_.notify_one();
    };
    Job job(graph, usable, pending, side_by_side, raise, announce_end);
    std::unique_lock lock(mutex_);
    ends_soon_ = false;
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (usable[d]) seats_[d].job = &job;
    }
    lock.unlock();
    wake(usable);
    made.by_cpu = cpu_worker_.run(job, cpu);
    lock.lock();
    const auto all_done = [&] {
      return std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.job == nullptr; });
    };
    finished_.wait(lock, [&] { return ends_soon_ || all_done(); });
    lock.unlock();
    yield_until(all_done, end_patience);
    lock.lock();
    finished_.wait(lock, all_done);
    if (old_values_) old_values_->stop_copying();  // after a failure some may be left to do
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (usable[d]) made.outcomes[d] = std::move(seats_[d].outcome);
    }
  }

  std::vector<bool> usable_seats() const {
    const std::lock_guard lock(mutex_);
    std::vector<bool> usable;
    for (const Seat& seat : seats_) usable.push_back(!seat.lost);
    return usable;
  }

  static void check_room(const TaskGraph& graph, const Machine& machine) {
    constexpr index_t step_tiles = 3;  // an output and the inputs of one step
    if (machine.devices == 0 || machine.slots(graph.slot_bytes()) >= step_tiles) return;
    throw OutOfDeviceMemory("the device memory of " + std::to_string(machine.heap_bytes) +
                            " bytes cannot hold three tiles of " +
                            std::to_string(cache::TileCache::segment_bytes(graph.slot_bytes())) + " bytes");
  }

  std::unique_ptr<device::HostPinning> pin_operands(const TaskGraph& graph) {
    const std::vector<device::HostRange> ranges = graph.host_ranges();
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      if (seats_[d].lost) continue;
      if (accelerators_[d].device->info().copy_threads > 0) return nullptr;  // all devices have them
      return accelerators_[d].device->pin_host(ranges);
    }
    return nullptr;
  }

  static std::string first_error(const std::vector<Worker::Outcome>& outcomes) {
    for (const auto& outcome : outcomes) {
      if (!outcome.error.empty()) return outcome.error;
    }
    return "unknown";
  }

  static JobStatistics describe(const TaskGraph& graph) {
    return {.routine = graph.routine(),
            .m = graph.m(),
            .n = graph.n(),
            .k = graph.k(),
            .tile_m = graph.tiling().m,
            .tile_n = graph.tiling().n,
            .tile_k = graph.tiling().k,
            .flops = graph.flops(),
            .compulsory_up = graph.compulsory_up_bytes(),
            .compulsory_down = graph.compulsory_down_bytes(),
            .devices = {}};
  }

  std::vector<kernels::Accelerator> accelerators_;
  CpuWorker cpu_worker_;
  TraceFile trace_;
  const std::chrono::nanoseconds idle_patience_;
  const bool tells_of_losses_;  ///< also of host devices
  std::optional<cache::TileCache> cache_;
  std::deque<Seat> seats_;  // by device; fixed after construction
  std::optional<OldValues> old_values_;
  Turnstile turnstile_;
  std::optional<StartUp> start_up_;  // until the first job has it; of who has the turn
  mutable std::mutex mutex_;
  std::condition_variable finished_;  // a seat's job, or all but its end; only the one caller who has the turn waits
  bool ends_soon_ = false;            // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  double last_use_s_ = 0;             // of the devices; guarded by mutex_
  // Some device has memory that can be given back. Relaxed: a thread that misses it sees it after its next job.
  std::atomic<bool> holds_memory_ = false;
};

Runtime::Runtime(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
                 int sharers, std::chrono::nanoseconds idle_patience)
    : implementation_(std::make_unique<Implementation>(std::move(accelerators), config, std::move(host_compute),
                                                       sharers, idle_patience)) {}
Runtime::~Runtime() = default;

std::vector<const device::Device*> Runtime::devices() const { return implementation_->devices(); }
Machine Runtime::machine(bool looks) const { return implementation_->machine(looks); }
std::optional<JobStatistics> Runtime::run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu) {
  return implementation_->run(graph, planned_for, cpu);
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
