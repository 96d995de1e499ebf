// What becomes of a worker's outputs: old values are kept, results published and written back.
//
// Invariant: a tile in host memory is overwritten only after the last kernel of its task has completed, so that one that
// fails leaves it intact; after whoever reads what is there is done; and, where the task could not be done again without
// its old value, either in slices, of which those that have not been written can be computed from what is there, or after
// a copy of the old value is whole, if there was memory. From its last kernel until it is in host memory, a result is
// held or being written. An intermediate result is held until its last reader is done, where all devices can read it and
// there is room for all of them; its task is not done before, so that it is computed again if a device is lost. Owned and
// used by one worker.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/job.hpp"
#include "runtime/submission.hpp"
#include "runtime/workplace.hpp"

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
  void keep_old(const Job& job, Submission& submission, OldValues::When when);
  /// Whether old values go to other devices.
  bool keeps_on_peers() const { return place_.old_values != nullptr && place_.old_values->has_peers(place_.index); }
  /// The kernel of that step, which is about to be launched, waits for the copy if it overwrites the old value, or ends
  /// the task, whose result may then take the old value's place on the device.
  void await_copy_of_old(const Job& job, Submission& submission, index_t step, device::StreamId stream);

  // -- after it --

  /// @pre all kernels of the task have completed
  void add(Job& job, const Result& result);
  /// Starts write-backs that may begin, and lets go of those that have ended. @return whether there were any
  bool retire(Job& job);
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

  // In which an output is written whose old value counts; none: as it comes.
  device::SliceKind slices_of(const Output& output) const;
  bool stays(const Output& output) const { return output.intermediate && keeps_intermediate_; }
  // Whether there has to be a copy of its old value first.
  bool keeps_old(const Output& output) const;
  bool old_is_kept(const Job& job, Result& held);
  // Not one that its factorization has broken down in.
  void publish(Job& job, cache::Replica* output, TaskId task);
  // Whether the result may leave `held_`; then it does.
  bool end(Job& job, Result& held);
  void write_back(const Job& job, const Result& held);
  // Without a copy in host memory: the tile keeps its slot, unread, until the cache goes, as the graph's working_slots()
  // say.
  void let_go(Job& job, const Result& held);
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
