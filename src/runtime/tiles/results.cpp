#include "runtime/tiles/results.hpp"

#include <thread>
#include <utility>

#include "core/reserve.hpp"

namespace tessera::runtime {

using device::EventStatus;
using device::SliceKind;
using device::StreamId;

void Results::begin(const TaskGraph& graph) {
  keeps_intermediate_ = place_.cache.all_connected() && graph.fits(place_.cache.slots(place_.index));
  held_.clear();
  write_backs_.clear();
  finished_ = 0;
  done_ = {};
  torn_ = {};
}

SliceKind Results::slices_of(const TaskGraph& graph, TaskId task) const {
  const bool wanted = place_.old_values != nullptr && place_.old_values->in_place() && graph.of(task).needs_old;
  if (!wanted) return SliceKind::none;
  const Output output = graph.output(task);
  const bool possible =
      output.slices != SliceKind::none && place_.cache.can_write_slices(place_.index, output.tile, output.slices);
  return possible ? output.slices : SliceKind::none;
}

bool Results::keeps_old(const TaskGraph& graph, TaskId task) const {
  return place_.old_values != nullptr && graph.of(task).needs_old && slices_of(graph, task) == SliceKind::none;
}

// A tile that a launched kernel overwrites is no source any more.
void Results::keep_old(const TaskPool& job, Submission& submission, OldValues::When when) {
  if (submission.old || !keeps_old(job.graph(), submission.task)) return;
  const Output output = job.graph().output(submission.task);
  const bool overwritten = output.reads_old && !submission.adds_old();
  if (overwritten && submission.output == nullptr) return;
  if (overwritten && submission.launched && keeps_on_peers()) return;
  place_.old_values->begin({place_.index, output.tile, overwritten ? submission.output : nullptr, submission.task},
                           when, place_.signal, submission.old);
}

void Results::await_copy_of_old(const TaskPool& job, Submission& submission, index_t step, StreamId stream) {
  if (!keeps_on_peers()) return;
  const bool overwrites = step == 0 && !submission.adds_old() && job.graph().output(submission.task).reads_old;
  if (!overwrites && !submission.ended()) return;
  keep_old(job, submission, OldValues::When::last_read);
  const device::EventPtr read = submission.old ? submission.old->read_on_device() : nullptr;
  if (read && read->status() != EventStatus::complete) place_.device.wait(stream, read);
}

void Results::add(TaskPool& job, const Result& result) {
  if (place_.cache.all_connected()) publish(job, result.output, result.task);
  held_.push_back(result);
  // Nobody has to wait for it at the end.
  if (stays(job.graph(), result.task)) job.begin_write_back();
}

bool Results::retire(TaskPool& job) {
  bool any = std::erase_if(held_, [&](Result& held) { return end(job, held); }) > 0;
  while (!write_backs_.empty() && completed(write_backs_.front().done)) {
    const WriteBack write_back = std::move(write_backs_.front());
    write_backs_.pop_front();
    // Before anything that may throw: what is in host memory must not be computed again.
    done_.push_back(write_back.task);
    place_.cache.end_write_back(write_back.output);
    if (!place_.cache.all_connected()) publish(job, write_back.output, write_back.task);
    place_.cache.finish_output(write_back.output);
    ++finished_;
    job.finish_task(write_back.task);
    any = true;
  }
  return any;
}

bool Results::end(TaskPool& job, Result& held) {
  // The device that has been lost may be the one that keeps the old value.
  if (job.failed()) return false;
  const bool stays_here = stays(job.graph(), held.task);
  // An intermediate result that goes to host memory may do so at once.
  if ((stays_here || !job.graph().of(held.task).intermediate) && !job.may_overwrite(held.task)) return false;
  if (stays_here) {
    let_go(job, held);
    return true;
  }
  if (!old_is_kept(job, held)) return false;
  write_back(job, held);
  job.begin_write_back();
  return true;
}

void Results::let_go(TaskPool& job, const Result& held) {
  reserve_more(done_, write_backs_.size() + 1);
  done_.push_back(held.task);
  place_.cache.finish_output(held.output);
  ++finished_;
  job.finish_task(held.task);
}

void Results::publish(TaskPool& job, cache::Replica* output, TaskId task) {
  if (!job.graph().of(task).published || job.breakdown().task == task) return;
  place_.cache.publish(output);
  job.publish(task);
}

// @return whether the result may be written as far as its old value is concerned
bool Results::old_is_kept(const TaskPool& job, Result& held) {
  if (held.goes_without || !keeps_old(job.graph(), held.task)) return true;
  if (held.old && held.old->has_failed()) held.old = nullptr;
  if (!held.old) {
    const auto begun = place_.old_values->begin({place_.index, held.output->tile, nullptr, held.task},
                                                OldValues::When::due, place_.signal, held.old);
    if (begun == OldValues::Begin::later) return false;
    held.goes_without = begun == OldValues::Begin::never;
  }
  return held.goes_without || held.old->is_whole();
}

void Results::write_back(const TaskPool& job, const Result& held) {
  // First what may lack memory: once the copy has begun, what becomes of it can be told.
  device::WrittenSlicesPtr written;
  if (const SliceKind slices = slices_of(job.graph(), held.task); slices != SliceKind::none)
    written = std::make_shared<device::WrittenSlices>(slices);
  write_backs_.push_back({nullptr, held.output, held.task, held.old, std::move(written)});
  bool begun = false;
  try {
    reserve_more(done_, write_backs_.size());
    reserve_more(torn_, write_backs_.size());
    WriteBack& begins = write_backs_.back();
    begins.done = place_.cache.write_back(held.output, held.task, begun, begins.written);
  } catch (...) {
    if (!begun) write_backs_.pop_back();
    throw;
  }
}

void Results::settle(bool& usable) {
  for (const WriteBack& write_back : write_backs_) {
    // Without an event the submission failed after the copy had begun.
    const bool arrived = write_back.done && write_back.done->status() == EventStatus::complete;
    if (arrived || repeat_write_back(write_back, usable)) {
      done_.push_back(write_back.task);
    } else {
      torn_.push_back({write_back.task, write_back.old, write_back.written});
    }
  }
  write_backs_.clear();
}

bool Results::repeat_write_back(const WriteBack& write_back, bool& usable) noexcept {
  try {
    bool begun = false;
    if (!usable) return false;
    const device::EventPtr done =
        place_.cache.write_back(write_back.output, write_back.task, begun, write_back.written);
    while (done->status() == EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return done->status() == EventStatus::complete;
  } catch (...) {
    usable = place_.device.recover();  // ends what has begun of it
    return false;
  }
}

}  // namespace tessera::runtime
