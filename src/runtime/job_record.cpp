#include "runtime/job_record.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/error.hpp"
#include "runtime/room.hpp"

namespace tessera::runtime {
namespace {

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

JobStatistics describe(const TaskGraph& graph) {
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

/// The traffic of a batch depends on what its problems share, and on how it is cut.
JobStatistics describe(const PackableBatch& batch) { return {.routine = batch.name(), .devices = {}}; }

}  // namespace

std::string first_error(const std::vector<Worker::Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    if (!outcome.error.empty()) return outcome.error;
  }
  return "unknown";
}

std::string name_of(const device::Device& device) {
  return device.info().backend + ":" + std::to_string(device.info().ordinal);
}

Record::Record(JobStatistics job, std::span<const kernels::Accelerator> accelerators) : statistics_(std::move(job)) {
  for (const auto& accelerator : accelerators) {
    names_.push_back(name_of(*accelerator.device));
    statistics_.devices.push_back({.device = names_.back()});
  }
  names_.emplace_back(cpu_device);
  by_cpu_.device = names_.back();
  operations_.resize(names_.size());
}

JobRecord::JobRecord(const TaskGraph& graph, std::span<const kernels::Accelerator> accelerators)
    : Record(describe(graph), accelerators),
      graph_(graph),
      pending_(static_cast<std::size_t>(graph.task_count())),
      done_(pending_.size(), false) {
  for (std::size_t t = 0; t < pending_.size(); ++t) pending_[t] = static_cast<TaskId>(t);
}

void JobRecord::add(const Attempt& attempt, const std::function<cache::CacheCounters(std::size_t)>& counters) {
  begun_ = true;
  if (attempt.by_cpu.error) std::rethrow_exception(attempt.by_cpu.error);
  add_cpu(attempt.by_cpu);
  const auto mark = [&](TaskId task) { done_[static_cast<std::size_t>(task)] = true; };
  for (const TaskId task : attempt.by_cpu.done) mark(task);
  bool torn = false;  // beyond repair
  for (std::size_t d = 0; d < attempt.outcomes.size(); ++d) {
    if (!attempt.working[d]) continue;
    const Worker::Outcome& outcome = attempt.outcomes[d];
    runtime::add(statistics_.devices[d], counters(d), outcome);
    keep(operations_[d], outcome.operations);
    for (const TaskId task : outcome.done) mark(task);
    for (const auto& each : outcome.torn) {
      if (!graph_.output(each.task).needs_old) continue;
      if (each.written == nullptr) {
        torn = true;
      } else if (each.written->end() > 0) {
        partly_written_.push_back({each.task, each.written});
      }
    }
  }
  forget_done();
  note(attempt.breakdown);
  if (torn) throw DeviceLost("a device failed while it wrote a tile of C back: " + first_error(attempt.outcomes));
}

void JobRecord::note_done(std::span<const TaskId> tasks) {
  for (const TaskId task : tasks) done_[static_cast<std::size_t>(task)] = true;
  forget_done();
}

void JobRecord::forget_done() {
  const auto is_done = [&](TaskId task) { return done_[static_cast<std::size_t>(task)]; };
  // An intermediate result whose last reader is done is of no use, however far it is.
  std::erase_if(pending_, [&](TaskId task) {
    return is_done(task) || (graph_.output(task).intermediate && is_done(graph_.write_after(task)));
  });
  std::erase_if(partly_written_, [&](const PartlyWritten& each) { return is_done(each.task); });
}

std::vector<TaskId> JobRecord::to_end_first() const {
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
    want(graph_.write_after(*task));
    for (index_t l = 0; l < graph_.step_count(*task); ++l) {
      const Step step = graph_.step(*task, l);
      want(step.a.after);
      want(step.b.after);
    }
  }
  std::reverse(tasks.begin(), tasks.end());
  return tasks;
}

void JobRecord::note(const Breakdown& breakdown) {
  if (!breakdown.has_happened()) return;
  statistics_.info = breakdown.info;
  std::erase_if(pending_, [&](TaskId task) { return graph_.depends_on(task, breakdown.task); });
}

void JobRecord::add_cpu(const CpuWorker::Outcome& outcome) {
  note(outcome.breakdown);
  by_cpu_.tasks += static_cast<std::int64_t>(outcome.done.size());
  by_cpu_.steps += static_cast<std::int64_t>(outcome.operations.size());
  for (const device::Operation& operation : outcome.operations) by_cpu_.flops += operation.flops;
  keep(operations_.back(), outcome.operations);
}

void Record::settle_times() {
  if (by_cpu_.tasks > 0) statistics_.devices.push_back(by_cpu_);
  for (std::size_t d = 0; d < statistics_.devices.size(); ++d)
    add_times(statistics_.devices[d], operations_[d], statistics_.device_s);
  statistics_.first_kernel_at = first_kernel_at(std::span(operations_).first(operations_.size() - 1));
}

BatchRecord::BatchRecord(const PackableBatch& batch, std::span<const kernels::Accelerator> accelerators)
    : Record(describe(batch), accelerators), batch_(batch) {}

void BatchRecord::add(std::size_t d, const BatchJob::Outcome& outcome) {
  DeviceStatistics& sum = statistics_.devices[d];
  sum.tasks += outcome.problems;
  sum.steps += outcome.chunks;
  sum.bytes_up += outcome.bytes_up;
  sum.bytes_down += outcome.bytes_down;
  sum.flops += outcome.flops;
  statistics_.flops += outcome.flops;
  keep(operations_[d], outcome.operations);
}

void BatchRecord::add_cpu(index_t first, index_t last) {
  by_cpu_.tasks += last - first;
  ++by_cpu_.steps;
  const double flops = batch_.flops(first, last);
  by_cpu_.flops += flops;
  statistics_.flops += flops;
}

}  // namespace tessera::runtime
