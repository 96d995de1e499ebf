// A call as the scheduler knows it: a graph of tasks, one for each output tile and, where sums are made of intermediate
// results, one for each of these.
//
// A graph declares, for each task, its output and what its steps read: which tiles, and which tasks write these. The
// rest follows (derive()): the order of tasks, whose result a read gets, when a result may overwrite host memory, which
// tasks a failed factorization leaves out. Steps are generated when they are asked for; a task takes a few words.
// Graphs are immutable while they run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"
#include "device/device.hpp"
#include "runtime/performance_model.hpp"
#include "runtime/tiles/host_part.hpp"
#include "runtime/tiles/step.hpp"

namespace tessera::runtime {

/// A factorization that has come to an end before its time: a minor of the matrix is not positive definite.
struct Breakdown {
  TaskId task = no_task;  ///< that has found it
  index_t info = 0;       ///< the order of the first such minor

  bool has_happened() const { return task != no_task; }
};

/// The tile that a task computes.
struct Output {
  HostTile tile;
  bool reads_old = false;  ///< the first step reads its old value
  /// Slices of which each new value depends on no old values of this tile but those of its own slice.
  device::SliceKind slices = device::SliceKind::none;
  /// Only other tasks read it, all of higher numbers. Such a task is done when the last of them is, or when its result
  /// is in host memory, which it need not reach.
  bool intermediate = false;
};

/// Sizes of the tiles of the three dimensions. Where a dimension has a skew, its tiles come in pairs, of which the
/// first is so much shorter and the second so much longer; or, where the skew is negative, the other way round.
struct Tiling {
  index_t m = 0, n = 0, k = 0;
  index_t skew_m = 0, skew_n = 0, skew_k = 0;
  bool operator==(const Tiling&) const = default;
};

/// The properties of a graph as a whole.
struct GraphProperties {
  std::string routine;  ///< "dgemm"
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0, k = 0;
  Tiling tiling = {};
  Work work = {};                             ///< flops, and compulsory bytes
  bool hermitian = false;                     ///< C is: its diagonal is real
  std::vector<device::Touched> touched = {};  ///< the operands
  /// Matrices of which no task reads an old value, and that the job writes as a whole.
  std::vector<HostTile> only_written = {};

  index_t task_count = 0;      ///< tasks are numbered in the order in which they should start
  std::size_t slot_bytes = 0;  ///< of the largest tile: all slots have this size, so that the heap cannot fragment
  index_t working_slots = 0;   ///< hold all tiles of the job at once, beside what streams need
  /// Whether a task that is computed once more has the same result. If not, its result goes to host memory after all
  /// results that it is made of. So no result there is made of one that a lost device has taken with it.
  bool repeatable = true;
  /// Tasks before this one take their first step last on devices, where it is computed apart and added.
  TaskId first_steps_last = 0;
  /// One past the last task of each group, ascending. Not empty: memory is too short for tasks to go their own ways. Then
  /// the tasks of a group advance together, wave by wave, so that a tile serves the whole group while it is on the
  /// device; a device takes one group after the other.
  std::vector<TaskId> group_ends = {};

  // Derived from what the tasks declare.
  /// Tasks depend on each other, or replace their outputs by more than sums: they start in their order, each depends on
  /// lower numbers only, and whoever has one keeps it.
  bool ordered = false;
  bool factors = false;     ///< some steps factor their outputs
  bool has_panels = false;  ///< some steps factor panels or apply them
};

/// Likewise derived, of one task.
struct TaskProperties {
  double flops = 0;
  /// The task that must be done before this one's result may overwrite host memory, because it is the last one that reads
  /// what is there; no_task: there is none. Of an intermediate result: its last reader.
  TaskId write_after = no_task;
  /// The first steps, which only add to the output: its old value, times the first step's beta, may as well be added
  /// after them.
  index_t adding_steps = 0;
  bool needs_old = false;  ///< it cannot be redone once the host tile has been overwritten
  bool published = false;  ///< other tasks read the result
  bool intermediate = false;
};

class TaskGraph : public GraphProperties {
 public:
  virtual ~TaskGraph() = default;

  virtual Output output(TaskId task) const = 0;
  /// At least 1.
  virtual index_t step_count(TaskId task) const = 0;
  /// In an order in which they can be computed in place: the output is the host tile.
  virtual Step step(TaskId task, index_t l) const = 0;

  /// Steps of one wave, of whatever tasks, read the same tiles, as far as these tasks share any: tasks that advance
  /// side by side or as a group do so wave by wave. Ascends with the steps of a task, in the order in which devices
  /// take them. The last one of several may be of the wave in which it should be asked for, whatever others read then;
  /// that may be the wave of the step before.
  virtual index_t wave(TaskId, index_t nth) const { return nth; }

  /// The part that the host does, of results in host memory. nullptr: there is none
  /// @pre the graph is ordered; no result is an intermediate one, and nothing breaks down
  virtual HostPart* host_part() const { return nullptr; }

  /// Which of `devices` takes the task unless it has too much to do: homes have about the same number of tasks, and
  /// tasks that share operands the same home as far as this goes with it. Of no use to grouped graphs.
  virtual index_t home(TaskId task, index_t devices) const = 0;

  /// The step that devices take as their nth (first_steps_last). There an output lies apart from the tile that it
  /// replaces, so that the order, and what sets or adds, may be another one, to the same end.
  Step nth_step(TaskId task, index_t n) const;
  bool has_steps_apart() const { return first_steps_last > 0; }

  const TaskProperties& of(TaskId task) const { return tasks_[static_cast<std::size_t>(task)]; }

  bool grouped() const { return !group_ends.empty(); }
  /// One past the last task of the group that begins with, or has, `task`. @pre grouped()
  TaskId group_end(TaskId task) const { return *std::upper_bound(group_ends.begin(), group_ends.end(), task); }
  bool fits(index_t slots) const { return working_slots <= slots; }

 protected:
  /// Derives what follows from the tasks' declarations. Constructors end with it, when all else has been filled in.
  void derive();

 private:
  void derive_from(const Read& read, TaskId reader);
  TaskProperties& at(TaskId task) { return tasks_[static_cast<std::size_t>(task)]; }

  std::vector<TaskProperties> tasks_;
};

/// By task: whether it reads the result of `first`, be it by tasks in between.
std::vector<bool> dependents_of(const TaskGraph& graph, TaskId first);

}  // namespace tessera::runtime
