// The outputs of a worker: old values are kept, results published and written back.
//
// Invariants: a tile in host memory is overwritten only after the last kernel of its task has completed, and after all
// readers of the old value there are done. Where the task cannot be redone without its old value, the tile is written
// in slices, or after a copy of the old value is whole, if there was memory for one. An intermediate result is held
// until its last reader is done, where all devices can read it and all results have room. Its task is done only then,
// so that it is computed again if a device is lost. Owned and used by one worker.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/tiles/submission.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/workplace.hpp"

namespace tessera::runtime {

class Results {
 public:
  struct Torn {
    TaskId task = 0;
    OldCopyPtr old = nullptr;                    ///< of its output, or nullptr
    device::WrittenSlicesPtr written = nullptr;  ///< of its output, or nullptr
  };

  explicit Results(const Workplace& place) : place_(place) {}

  /// Forgets everything.
  void begin(const TaskGraph& graph);

  // -- before a task ends --

  /// Begins a copy of the output's old value, if there is none and it can be now.
  void keep_old(const TaskPool& job, Submission& submission, OldValues::When when);
  /// Whether old values go to other devices.
  bool keeps_on_peers() const { return place_.old_values != nullptr && place_.old_values->has_peers(place_.index); }
  /// The kernel of that step, which is about to be launched, waits for the copy if it overwrites the old value, or ends
  /// the task, whose result may then take the old value's place on the device.
  void await_copy_of_old(const TaskPool& job, Submission& submission, index_t step, device::StreamId stream);

  // -- after it --

  /// @pre all kernels of the task have completed
  void add(TaskPool& job, const Result& result);
  /// Starts write-backs that may begin, and lets go of those that have ended. @return whether there were any
  bool retire(TaskPool& job);
  /// That have ended since the last call.
  index_t take_finished() { return std::exchange(finished_, 0); }
  /// Write-backs under way.
  std::size_t writing() const { return write_backs_.size(); }

  /// After a failure: every write-back has ended, well or not. As long as the device works, its memory still has the
  /// results. @pre the device's recover() @param usable whether it works; may change
  void settle(bool& usable);
  void let_go_of_held() { held_.clear(); }

  /// Tasks whose output is in host memory or of use no more, and those whose write-back failed on the way.
  std::vector<TaskId> take_done() { return std::move(done_); }
  std::vector<Torn> take_torn() { return std::move(torn_); }

 private:
  struct WriteBack {
    device::EventPtr done;
    cache::Replica* output = nullptr;
    TaskId task = 0;
    OldCopyPtr old = nullptr;
    device::WrittenSlicesPtr written = nullptr;
  };

  // The slices in which an output is written whose old value counts; none: as it comes.
  device::SliceKind slices_of(const TaskGraph& graph, TaskId task) const;
  bool stays(const TaskGraph& graph, TaskId task) const { return keeps_intermediate_ && graph.of(task).intermediate; }
  // Whether there has to be a copy of its old value first.
  bool keeps_old(const TaskGraph& graph, TaskId task) const;
  bool old_is_kept(const TaskPool& job, Result& held);
  // Publishes a result, unless its factorization has broken down.
  void publish(TaskPool& job, cache::Replica* output, TaskId task);
  // Whether the result may leave `held_`; then it does.
  bool end(TaskPool& job, Result& held);
  void write_back(const TaskPool& job, const Result& held);
  // Lets go of a result without a copy in host memory: its tile keeps its slot, unread, until the cache goes. The
  // graph's working_slots() count on that.
  void let_go(TaskPool& job, const Result& held);
  bool repeat_write_back(const WriteBack& write_back, bool& usable) noexcept;

  const Workplace& place_;
  bool keeps_intermediate_ = false;
  std::deque<Result> held_;
  std::deque<WriteBack> write_backs_;  // in stream order
  index_t finished_ = 0;
  std::vector<TaskId> done_;
  std::vector<Torn> torn_;
};

}  // namespace tessera::runtime
