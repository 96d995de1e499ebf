// The CPU as one more worker: it computes tasks in host memory with the CPU BLAS, on the thread that asked for the job,
// which would only wait otherwise. It holds no tiles. Source: BLASX, section IV-C and Fig. 9.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "device/operation_log.hpp"
#include "runtime/tiles/task_graph.hpp"
#include "runtime/tiles/task_pool.hpp"

namespace tessera::runtime {

/// Computes a call on host operands, on the calling thread.
using HostCompute = std::function<void(const Level3&)>;

/// A task of whose output some slices have been written; the others are what they were.
struct PartlyWritten {
  TaskId task = 0;
  device::WrittenSlicesPtr written;
};

class CpuWorker {
 public:
  struct Outcome {
    std::vector<TaskId> done;
    std::vector<device::Operation> operations;
    Breakdown breakdown;
    std::exception_ptr error;  ///< thrown by a call: the tile that it wrote is in an unknown state
  };

  /// Told of each tile that it has written, before others may read it. Must not throw.
  using TellWritten = std::function<void(device::Block, device::Extent)>;

  explicit CpuWorker(HostCompute compute, TellWritten tell_written = {})
      : compute_(std::move(compute)), tell_written_(std::move(tell_written)) {}

  /// Takes tasks from the job as long as there are some and the job ends sooner for it. Does not wait for the job's
  /// end.
  Outcome run(TaskPool& job, const CpuHelp& help) const noexcept;

  /// Computes these tasks one after the other, except those that a breakdown on the way leaves out. @throws as a call
  /// @param partly those of these tasks of which only the slices that are not written are computed
  /// @throws std::bad_alloc, too, where there are such
  Outcome finish(const TaskGraph& graph, std::span<const TaskId> tasks,
                 std::span<const PartlyWritten> partly = {}) const;

  /// Tells what somebody else has written in host memory.
  void tell(device::Block block, device::Extent extent) const;

 private:
  /// @param C where the output is: as the graph says, or apart from it
  void compute(const TaskGraph& graph, TaskId task, const HostTile& C, Outcome& outcome) const;
  void tell(const TaskGraph& graph, TaskId task) const;
  void compute_rest(const TaskGraph& graph, const PartlyWritten& partly, Outcome& outcome) const;

  HostCompute compute_;
  TellWritten tell_written_;
};

}  // namespace tessera::runtime
