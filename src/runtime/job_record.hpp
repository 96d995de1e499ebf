// What becomes of a job or a batch, attempt by attempt: which tasks are left, and what each device did.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"
#include "device/operation_log.hpp"
#include "runtime/attempt.hpp"
#include "runtime/batch_job.hpp"
#include "runtime/statistics.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::runtime {

/// What the error of the first device that has one says.
std::string first_error(const std::vector<Worker::Outcome>& outcomes);

/// "cuda:1"
std::string name_of(const device::Device& device);

/// What any job records: what each device did, and when.
class Record {
 public:
  Record(JobStatistics job, std::span<const kernels::Accelerator> accelerators);

  /// Whether C may have been written.
  bool has_begun() const { return begun_; }
  void begin() { begun_ = true; }
  void count_restart() { ++statistics_.restarts; }

  /// The times of all that was done, by device. @pre statistics().device_s is set @throws std::bad_alloc
  void settle_times();
  JobStatistics& statistics() { return statistics_; }
  /// By device, the CPU last.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::vector<device::Operation>>& operations() const { return operations_; }

 protected:
  bool begun_ = false;
  JobStatistics statistics_;
  DeviceStatistics by_cpu_;
  std::vector<std::string> names_;
  std::vector<std::vector<device::Operation>> operations_;
};

class JobRecord : public Record {
 public:
  JobRecord(const TaskGraph& graph, std::span<const kernels::Accelerator> accelerators);

  /// Tasks that nobody has done.
  const std::vector<TaskId>& pending() const { return pending_; }

  /// Takes over what an attempt did.
  /// @throws what the CPU threw; DeviceLost if a tile is torn whose old value is needed and gone
  void add(const Attempt& attempt, const std::function<cache::CacheCounters(std::size_t)>& counters);
  void add_cpu(const CpuWorker::Outcome& outcome);
  /// The tasks have been done. What adds them has been called.
  void note_done(std::span<const TaskId> tasks);

  /// Pending tasks of whose output some slices have been written: to be ended before anything else is begun.
  const std::vector<PartlyWritten>& partly_written() const { return partly_written_; }
  /// These, and the pending tasks that they cannot do without, in order.
  std::vector<TaskId> to_end_first() const;

 private:
  void forget_done();
  /// What it leaves out is not pending any more.
  void note(const Breakdown& breakdown);

  const TaskGraph& graph_;
  std::vector<TaskId> pending_;
  std::vector<bool> done_;
  std::vector<PartlyWritten> partly_written_;
};

/// Of a batch: tasks are problems, and steps chunks.
class BatchRecord : public Record {
 public:
  BatchRecord(const PackableBatch& batch, std::span<const kernels::Accelerator> accelerators);

  /// What device d did in an attempt.
  void add(std::size_t d, const BatchJob::Outcome& outcome);
  /// The CPU has computed the problems [first, last).
  void add_cpu(index_t first, index_t last);

 private:
  const PackableBatch& batch_;
};

}  // namespace tessera::runtime
