// What a worker does for the results of its tasks: old values are kept, results published and written back.
#include <thread>
#include <utility>

#include "runtime/room.hpp"
#include "runtime/worker.hpp"

namespace tessera::runtime {

using device::EventStatus;
using device::StreamId;

void Worker::publish(Job& job, cache::Replica* output, TaskId task) {
  if (!job.graph().output(task).publish) return;
  cache_.publish(output);
  job.publish(task);
}

bool Worker::keeps_old(const TaskGraph& graph, TaskId task) const {
  return old_values_ != nullptr && graph.output(task).needs_old;
}

// Begins a copy of the output's old value, if there is none and it can be now. What a kernel has been launched to
// overwrite is no source any more.
void Worker::keep_old(const Job& job, Submission& submission, OldValues::When when) {
  if (submission.old || !keeps_old(job.graph(), submission.task)) return;
  const Output output = job.graph().output(submission.task);
  const bool overwritten = output.fetch && !submission.adds_old();
  if (overwritten && submission.output == nullptr) return;
  if (overwritten && submission.launched && old_values_->has_peers(index_)) return;
  old_values_->begin({index_, output.tile, overwritten ? submission.output : nullptr, submission.task}, when, signal_,
                     submission.old);
}

// The kernel that is about to be launched waits for the copy if it overwrites the old value, or ends the task, whose
// result may then take the old value's place on the device.
void Worker::await_copy_of_old(const Job& job, Submission& submission, index_t step, StreamId stream) {
  if (old_values_ == nullptr || !old_values_->has_peers(index_)) return;
  const bool overwrites = step == 0 && !submission.adds_old() && job.graph().output(submission.task).fetch;
  if (!overwrites && !submission.ended()) return;
  keep_old(job, submission, OldValues::When::last_read);
  const device::EventPtr read = submission.old ? submission.old->read_on_device() : nullptr;
  if (read && read->status() != EventStatus::complete) device_.wait(stream, read);
}

// @return whether the result may be written as far as its old value is concerned
bool Worker::old_is_kept(const Job& job, Held& held) {
  if (held.goes_without || !keeps_old(job.graph(), held.task)) return true;
  if (held.old && held.old->has_failed()) held.old = nullptr;
  if (!held.old) {
    const auto begun =
        old_values_->begin({index_, held.output->tile, nullptr, held.task}, OldValues::When::due, signal_, held.old);
    if (begun == OldValues::Begin::later) return false;
    held.goes_without = begun == OldValues::Begin::never;
  }
  return held.goes_without || held.old->is_whole();
}

void Worker::write_back(const Held& held) {
  const auto [output, task] = std::pair(held.output, held.task);
  // First what may lack memory: once the copy has begun, what becomes of it can be told.
  write_backs_.push_back({nullptr, output, task, held.old});
  bool begun = false;
  try {
    make_room(outcome_.done, write_backs_.size());
    make_room(outcome_.torn, write_backs_.size());
    write_backs_.back().done = cache_.write_back(output, task, begun);
  } catch (...) {
    if (!begun) write_backs_.pop_back();
    throw;
  }
}

// After a failure and recover(): every write-back has ended, well or not. As long as the device works, its memory still
// has the results.
void Worker::settle_write_backs() {
  for (const WriteBack& write_back : write_backs_) {
    // Without an event the submission failed after the copy had begun.
    const bool arrived = write_back.done && write_back.done->status() == EventStatus::complete;
    if (arrived || repeat_write_back(write_back)) {
      outcome_.done.push_back(write_back.task);
    } else {
      outcome_.torn.push_back({write_back.task, write_back.old});
    }
  }
  write_backs_.clear();
}

bool Worker::repeat_write_back(const WriteBack& write_back) noexcept {
  try {
    bool begun = false;
    if (!outcome_.usable) return false;
    const device::EventPtr done = cache_.write_back(write_back.output, write_back.task, begun);
    while (done->status() == EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return done->status() == EventStatus::complete;
  } catch (...) {
    outcome_.usable = device_.recover();  // ends what has begun of it
    return false;
  }
}

}  // namespace tessera::runtime
