// The job of a task graph: its tasks share tiles that lie on several devices at once, beside other jobs. An attempt has
// a tile cache over its parts of the devices' memories, and a worker for each device (attempt.hpp).
//
// Invariants: the tasks of an attempt are those that no attempt before has done; the CPU completes tiles that a lost
// device has written partly before others read them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/config.hpp"
#include "runtime/devices/crew.hpp"
#include "runtime/devices/device_set.hpp"
#include "runtime/devices/host_copies.hpp"
#include "runtime/job.hpp"
#include "runtime/tiles/attempt.hpp"
#include "runtime/tiles/cpu_worker.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

/// Which tasks of a job are left, attempt by attempt. Once settled, a task is pending unless it is done, a breakdown
/// leaves it out, or its result is an intermediate one whose reader is done.
class PendingTasks {
 public:
  explicit PendingTasks(const TaskGraph& graph);

  /// In order.
  const std::vector<TaskId>& tasks() const { return pending_; }
  /// Those of whose output some slices have been written: to be ended before anything else is begun.
  const std::vector<PartlyWritten>& partly_written() const { return partly_written_; }
  /// These, and the pending tasks that they cannot do without, in order.
  std::vector<TaskId> to_end_first() const;

  // Reports of an attempt. settle() comes after the last of these.
  void note_done(std::span<const TaskId> tasks);
  void note_partly_written(const PartlyWritten& task) { partly_written_.push_back(task); }
  /// Tasks that the breakdown leaves out are not pending any more.
  void note(const Breakdown& breakdown);
  void settle();

 private:
  const TaskGraph& graph_;
  std::vector<TaskId> pending_;
  std::vector<bool> done_;
  std::vector<PartlyWritten> partly_written_;
};

class TileJob final : public Job {
 public:
  /// The parts of the runtime that the job needs. All of them outlive it.
  struct Environment {
    DeviceSet& devices;
    Crew& crew;
    const CpuWorker& cpu_worker;
    OldValuesPlace old_values = OldValuesPlace::nowhere;
    HostCopies* host_copies = nullptr;  ///< nullptr: old values lie nowhere
  };

  /// @param planned_for one of what the devices offered when the graph was made; `cpu` what the CPU does beside them
  TileJob(const Environment& environment, const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu);

  void load() override;
  bool has_more() const override { return !pending_.tasks().empty(); }
  /// @throws OutOfDeviceMemory if the devices cannot hold one step of the graph
  DeviceNeeds needs(std::span<const DeviceCapacity> capacities) override;
  std::vector<WrittenArea> only_written() const override;
  std::vector<device::Touched> touched() const override { return graph_.touched; }
  bool can_be_lazy() const override { return !graph_.has_panels; }
  /// @throws what the CPU threw; DeviceLost if a tile is torn whose old value is needed and gone
  bool attempt(const Admission::Stay& stay, std::span<DeviceFate> fates) override;
  void finish_on_cpu() override;

 private:
  HostPart* host_part_beside(const Attempt& made) const;
  void run_workers(const Admission::Stay& stay, Attempt& made);
  std::unique_ptr<device::HostPinning> pin_operands(const std::vector<bool>& working);
  void take_over(const Attempt& made, std::span<const DeviceFate> fates);
  void add_cpu(const CpuWorker::Outcome& outcome);
  void note(const Breakdown& breakdown);
  void end_partly_written();

  const Environment in_;
  const TaskGraph& graph_;
  const Machine planned_for_;
  const CpuHelp cpu_;
  PendingTasks pending_;
};

}  // namespace tessera::runtime
