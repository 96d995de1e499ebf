#include "runtime/tiles/tile_job.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"
#include "runtime/progress.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/worker.hpp"

namespace tessera::runtime {
namespace {

JobStatistics describe(const TaskGraph& graph) {
  return {.routine = graph.routine,
          .m = graph.m,
          .n = graph.n,
          .k = graph.k,
          .tile_m = graph.tiling.m,
          .tile_n = graph.tiling.n,
          .tile_k = graph.tiling.k,
          .flops = graph.work.flops,
          .compulsory_up = static_cast<std::int64_t>(graph.work.up),
          .compulsory_down = static_cast<std::int64_t>(graph.work.down),
          .devices = {}};
}

double flops_of_tasks(const TaskGraph& graph) {
  double flops = 0;
  for (TaskId task = 0; task < graph.task_count; ++task) flops += graph.of(task).flops;
  return flops;
}

/// @throws OutOfDeviceMemory if the machine cannot hold one step
void check_memory(const TaskGraph& graph, const Machine& machine) {
  constexpr index_t step_tiles = 3;  // an output and the inputs of one step
  if (machine.devices == 0 || machine.slots(graph.slot_bytes) >= step_tiles) return;
  throw OutOfDeviceMemory("the device memory of " + std::to_string(machine.heap_bytes) +
                          " bytes cannot hold three tiles of " +
                          std::to_string(cache::TileCache::segment_bytes(graph.slot_bytes)) + " bytes");
}

/// Whether the devices still have the memory that the graph was planned for. @throws as check_memory()
bool is_as_planned(const TaskGraph& graph, const Machine& planned_for, std::span<const DeviceCapacity> capacities) {
  const std::vector<Machine> machines = machines_of(capacities, graph.type);
  const auto still = std::find_if(machines.begin(), machines.end(),
                                  [&](const Machine& m) { return m.heap_bytes == planned_for.heap_bytes; });
  if (still == machines.end()) return false;
  check_memory(graph, *still);
  return true;
}

/// All the memory that the job may need: nothing calls the driver for more once it has begun.
MemoryRequest request_of(const TaskGraph& graph, const Machine& planned_for,
                         std::span<const DeviceCapacity> capacities) {
  const std::size_t slot = cache::TileCache::segment_bytes(graph.slot_bytes);
  const auto working = static_cast<std::size_t>(graph.working_slots) + Worker::spare_slots;
  const std::vector<bool> members = members_of(planned_for, capacities);
  MemoryRequest request{.shares = {}, .devices = planned_for.devices};
  for (std::size_t d = 0; d < capacities.size(); ++d) {
    const std::size_t capacity = members[d] ? capacities[d].bytes : 0;
    request.shares.push_back({working < capacity / slot ? working * slot : capacity, capacity});
  }
  return request;
}

void add(DeviceStatistics& sum, const cache::CacheCounters& counters, const Worker::Outcome& outcome) {
  sum.l1_hits += counters.l1_hits;
  sum.l2_hits += counters.l2_hits;
  sum.misses += counters.misses;
  sum.evictions += counters.evictions;
  sum.bytes_up += counters.bytes_up;
  sum.bytes_down += counters.bytes_down;
  sum.bytes_peer += counters.bytes_peer;
  sum.bytes_kept += counters.bytes_kept;
  sum.tasks += static_cast<std::int64_t>(outcome.done.size());
  sum.steps += outcome.steps;
  sum.stolen += outcome.stolen;
  sum.flops += outcome.flops;
}

/// Whether threads of the device carry the matrix, which need the host's processors and memory.
bool is_carried(const device::Device& device, const device::HostMatrix& matrix) {
  return device.info().copy_threads > 0 && !device.has_locked(matrix.address);
}

/// Errors beside the loss of a device are taken for its consequences: tiles that never came from it.
void tell_fates(Attempt& made, std::span<DeviceFate> fates) noexcept {
  using Kind = DeviceFate::Kind;
  const auto is_lost = [&](std::size_t d) { return made.working[d] && !made.outcomes[d].usable; };
  bool any_lost = false;
  for (std::size_t d = 0; d < fates.size(); ++d) any_lost = any_lost || is_lost(d);
  for (std::size_t d = 0; d < fates.size(); ++d) {
    std::string& error = made.outcomes[d].error;
    if (!made.working[d] || (any_lost ? !is_lost(d) : error.empty())) continue;
    fates[d] = {any_lost ? Kind::lost : Kind::erred, std::move(error)};
  }
}

}  // namespace

PendingTasks::PendingTasks(const TaskGraph& graph)
    : graph_(graph), pending_(static_cast<std::size_t>(graph.task_count)), done_(pending_.size(), false) {
  std::iota(pending_.begin(), pending_.end(), TaskId{0});
}

std::vector<TaskId> PendingTasks::to_end_first() const {
  std::vector<bool> wanted(done_.size(), false);
  const auto want = [&](TaskId task) {
    if (task != no_task) wanted[static_cast<std::size_t>(task)] = true;
  };
  for (const PartlyWritten& each : partly_written_) want(each.task);
  // Tasks depend on those of lower numbers.
  std::vector<TaskId> tasks;
  for (auto task = pending_.rbegin(); task != pending_.rend(); ++task) {
    if (!wanted[static_cast<std::size_t>(*task)]) continue;
    tasks.push_back(*task);
    want(graph_.of(*task).write_after);
    for (index_t l = 0; l < graph_.step_count(*task); ++l) {
      const Step step = graph_.step(*task, l);
      want(step.a.result_of(*task));
      want(step.b.result_of(*task));
    }
  }
  std::reverse(tasks.begin(), tasks.end());
  return tasks;
}

void PendingTasks::note_done(std::span<const TaskId> tasks) {
  for (const TaskId task : tasks) done_[static_cast<std::size_t>(task)] = true;
}

void PendingTasks::note(const Breakdown& breakdown) {
  if (!breakdown.has_happened()) return;
  const std::vector<bool> left_out = dependents_of(graph_, breakdown.task);
  std::erase_if(pending_, [&](TaskId task) { return left_out[static_cast<std::size_t>(task)]; });
}

void PendingTasks::settle() {
  const auto is_done = [&](TaskId task) { return done_[static_cast<std::size_t>(task)]; };
  // An intermediate result whose last reader is done is of no use, however far it is.
  std::erase_if(pending_, [&](TaskId task) {
    return is_done(task) || (graph_.of(task).intermediate && is_done(graph_.of(task).write_after));
  });
  std::erase_if(partly_written_, [&](const PartlyWritten& each) { return is_done(each.task); });
}

TileJob::TileJob(const Environment& environment, const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu)
    : Job(describe(graph), environment.devices.names()),
      in_(environment),
      graph_(graph),
      planned_for_(planned_for),
      cpu_(cpu),
      pending_(graph) {}

void TileJob::load() {
  if (!graph_.has_panels) return;
  const std::vector<bool> usable = in_.devices.usable();
  for (std::size_t d = 0; d < usable.size(); ++d) {
    if (usable[d]) in_.devices.accelerator(d).ops->load_panels();
  }
}

DeviceNeeds TileJob::needs(std::span<const DeviceCapacity> capacities) {
  end_partly_written();
  if (!has_more()) return {};
  if (!may_have_written() && !is_as_planned(graph_, planned_for_, capacities)) return {DeviceNeeds::Kind::replan};
  MemoryRequest request = request_of(graph_, planned_for_, capacities);
  if (request.is_empty()) return {};
  return {DeviceNeeds::Kind::parts, std::move(request)};
}

std::vector<WrittenArea> TileJob::only_written() const {
  std::vector<WrittenArea> areas;
  if (lazy() == Lazy::results) return areas;
  const auto element = static_cast<index_t>(element_bytes(graph_.type));
  for (const HostTile& matrix : graph_.only_written)
    areas.push_back({{matrix.address, matrix.ld * element}, cache::extent_of(matrix, element)});
  return areas;
}

bool TileJob::attempt(const Admission::Stay& stay, std::span<DeviceFate> fates) {
  Attempt made;
  try {
    made.working = stay.devices();
    const auto pinning = pin_operands(made.working);
    run_workers(stay, made);
  } catch (const std::exception&) {  // before any task was begun; the CPU needs less
    return false;
  }
  tell_fates(made, fates);
  take_over(made, fates);
  // Tasks that are left read results in host memory.
  if (HostPart* const part = graph_.host_part(); part != nullptr && has_more()) part->undo();
  return true;
}

// The host's part of the job, where devices read results from each other alone. nullptr: it waits for the end.
HostPart* TileJob::host_part_beside(const Attempt& made) const {
  HostPart* const part = graph_.host_part();
  if (part == nullptr || part->threads() == 0 || !made.cache->all_connected()) return nullptr;
  // Results of an attempt before are in host memory alone.
  if (static_cast<index_t>(pending_.tasks().size()) < graph_.task_count) return nullptr;
  for (std::size_t d = 0; d < made.working.size(); ++d) {
    if (!made.working[d]) continue;
    // A column that is not at home yet may have a second slot, for what a peer had there.
    const bool keeps_for_peers = made.old_values && made.old_values->has_peers(static_cast<int>(d));
    const index_t kept = keeps_for_peers ? graph_.task_count : 0;
    if (!graph_.fits(made.cache->slots(static_cast<int>(d)) - kept)) return nullptr;
    if (is_carried(*in_.devices.accelerator(d).device, graph_.touched.front().matrix)) return nullptr;
  }
  return part;
}

// It throws only before any task is begun.
void TileJob::run_workers(const Admission::Stay& stay, Attempt& made) {
  in_.crew.alert(made.working);
  std::vector<cache::CacheDevice> places;
  for (std::size_t d = 0; d < made.working.size(); ++d) {
    const Admission::Part& part = stay.parts()[d];
    std::byte* const slab = part.bytes > 0 ? in_.devices.memory(d).slab() + part.offset : nullptr;
    places.push_back({in_.devices.accelerator(d).device.get(), slab, part.bytes});
  }
  made.cache = std::make_unique<cache::TileCache>(places);
  made.cache->begin_job(graph_.slot_bytes, element_bytes(graph_.type));
  if (in_.old_values != OldValuesPlace::nowhere && lazy() != Lazy::results) {
    made.old_values.emplace(in_.old_values, in_.host_copies);
    made.old_values->begin_job(*made.cache, graph_, made.working);
  }
  in_.crew.employ(made);
  const bool side_by_side = Crew::should_advance_side_by_side(graph_, made);
  std::optional<HostPartThreads> beside;
  if (HostPart* const part = host_part_beside(made))
    beside.emplace(*part, [this](const WrittenArea& each) { in_.cpu_worker.tell(each.block, each.extent); });
  const auto raise = [&] {
    in_.crew.raise_all(made);
    if (beside) beside->raise();
  };
  TaskPool pool(graph_, made.working, pending_.tasks(), side_by_side, raise, [&] { in_.crew.announce_end(made); });
  const Progress::Source tells(flops_of_tasks(graph_), [&pool] { return pool.flops_left(); });
  const auto run = [&] {
    in_.crew.run(
        pool, [&] { return in_.cpu_worker.run(pool, lazy() == Lazy::nothing ? cpu_ : CpuHelp()); }, made);
  };
  if (beside) {
    beside->run(run, [&pool](TaskId task) { return pool.is_done(task); });
  } else {
    run();
  }
  made.breakdown = pool.breakdown();
  if (made.old_values) made.old_values->stop_copying();  // after a failure some may be left to do
}

std::unique_ptr<device::HostPinning> TileJob::pin_operands(const std::vector<bool>& working) {
  const auto first = std::find(working.begin(), working.end(), true);
  if (first == working.end()) return nullptr;
  device::Device& device = *in_.devices.accelerator(static_cast<std::size_t>(first - working.begin())).device;
  if (lazy() != Lazy::nothing || device.info().copy_threads > 0) return nullptr;  // all devices have them
  return device.pin_host(dense_ranges(graph_.touched));
}

void TileJob::take_over(const Attempt& made, std::span<const DeviceFate> fates) {
  note_writing();
  if (made.by_cpu.error) std::rethrow_exception(made.by_cpu.error);
  add_cpu(made.by_cpu);
  pending_.note_done(made.by_cpu.done);
  bool torn = false;  // beyond repair
  for (std::size_t d = 0; d < made.outcomes.size(); ++d) {
    if (!made.working[d]) continue;
    const Worker::Outcome& outcome = made.outcomes[d];
    add(of_device(d), made.cache->counters(static_cast<int>(d)), outcome);
    keep_operations(d, outcome.operations);
    pending_.note_done(outcome.done);
    for (const auto& each : outcome.torn) {
      if (!graph_.of(each.task).needs_old) continue;
      if (each.written == nullptr) {
        torn = true;
      } else if (each.written->end() > 0) {
        pending_.note_partly_written({each.task, each.written});
      }
    }
  }
  pending_.settle();
  note(made.breakdown);
  if (!torn) return;
  const auto failed = std::find_if(fates.begin(), fates.end(), [](const DeviceFate& f) { return !f.error.empty(); });
  throw DeviceLost("a device failed while it wrote a tile of C back: " +
                   (failed == fates.end() ? "unknown" : failed->error));
}

void TileJob::note(const Breakdown& breakdown) {
  if (breakdown.has_happened()) statistics().info = breakdown.info;
  pending_.note(breakdown);
}

void TileJob::add_cpu(const CpuWorker::Outcome& outcome) {
  note(outcome.breakdown);
  of_cpu().tasks += static_cast<std::int64_t>(outcome.done.size());
  of_cpu().steps += static_cast<std::int64_t>(outcome.operations.size());
  for (const device::Operation& operation : outcome.operations) of_cpu().flops += operation.flops;
  keep_operations(cpu(), outcome.operations);
}

// When a device has been lost: by the CPU, and before others read these tiles. They may depend on all that had been
// published and was not in host memory.
void TileJob::end_partly_written() {
  if (pending_.partly_written().empty()) return;
  const std::vector<TaskId> tasks = pending_.to_end_first();
  add_cpu(in_.cpu_worker.finish(graph_, tasks, pending_.partly_written()));
  pending_.note_done(tasks);
  pending_.settle();
}

void TileJob::finish_on_cpu() {
  end_partly_written();
  if (!has_more()) return;
  note_writing();
  add_cpu(in_.cpu_worker.finish(graph_, pending_.tasks()));
}

}  // namespace tessera::runtime
