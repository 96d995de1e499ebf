#include "runtime/tiles/worker.hpp"

#include <exception>
#include <utility>

#include "core/error.hpp"
#include "core/error_text.hpp"
#include "core/process.hpp"

namespace tessera::runtime {

void Worker::arrive(TaskPool& job) noexcept {
  if (place_.traffic != nullptr) place_.traffic->enter(*this);
  has_started_ = false;
  start_by_ = std::chrono::steady_clock::now() + begin_patience;
  try {
    begin(job);
  } catch (...) {
    fail(job);
  }
  job.arrive();
}

Worker::Look Worker::look(TaskPool& job) noexcept {
  try {
    if (const Look look = work(job); look != Look::ended) return look;
  } catch (...) {
    fail(job);
  }
  if (job.failed()) {
    // Submitted work must have ended before the tiles and the caller's memory can be touched again.
    outcome_.usable = place_.device.recover();
    results_.settle(outcome_.usable);
  }
  return Look::ended;
}

void Worker::fail(TaskPool& job) noexcept {
  outcome_.error = text_of(std::current_exception());
  job.fail();
}

Worker::Look Worker::work(TaskPool& job) {
  // Until all have begun, so that they share the first fetches.
  if (!has_started_) {
    has_started_ = job.all_arrived() || job.ended() || std::chrono::steady_clock::now() >= start_by_;
    if (!has_started_) return Look::awake;
  }
  if (!job.ended() && !process::ending()) {
    if (advance(job) || job.ended()) return Look::busy;
    // At the end nothing is left for the device to do while we sleep.
    return polls_ && job.ends_soon() && results_.writing() > 0 ? Look::awake : Look::idle;
  }
  if (!job.ended()) job.fail();
  if (job.failed()) return Look::ended;
  // Of tasks that were left out some steps may still be computed, a result may be on its way home, and tiles may be on
  // their way for others. A tile fetched ahead for a task that another worker then took may still be on its way from
  // the caller's memory. All of this must end first, because the next job has this memory.
  if (!pipeline_.is_empty() || results_.writing() > 0) return retire(job) ? Look::busy : Look::idle;
  const bool copies = place_.cache.is_fetching(place_.index) || place_.cache.is_copying_beside_peers(place_.index);
  return copies ? Look::idle : Look::ended;
}

Worker::Outcome Worker::leave() noexcept {
  if (place_.traffic != nullptr) place_.traffic->leave(*this);
  try {
    return finish();
  } catch (const std::exception&) {  // no memory: what is lost is the times of operations
    return std::move(outcome_);
  }
}

void Worker::begin(TaskPool& job) {
  outcome_ = {};
  const std::size_t lanes = LaneSlots::lanes_in(place_.cache.slots(place_.index));
  results_.begin(job.graph());
  intake_.begin(job, lanes);
  lanes_.clear();
  groups_.clear();
  order_ = job.graph().grouped() ? static_cast<Order*>(&groups_) : &lanes_;
  order_->begin(job, lanes);
  pipeline_.begin(job);
}

bool Worker::advance(TaskPool& job) {
  bool progress = retire(job);
  progress |= order_->refill(job);
  progress |= order_->submit(job) || order_->prefetch(job);
  return progress;
}

// Lets go of everything whose events have completed.
bool Worker::retire(TaskPool& job) {
  // Kernels of a task may be in several streams, and some complete while we look: whatever came before a kernel that is
  // found complete is so, too, and found by the next pass at the latest. Only then is its result passed on.
  std::vector<Result> ended;
  bool any = false;
  while (pipeline_.retire(job, ended)) any = true;
  for (const Result& result : ended) results_.add(job, result);
  any |= results_.retire(job);
  intake_.finished(results_.take_finished());
  any |= place_.cache.collect(place_.index);
  if (any) place_.cache.log(place_.index).resolve();
  return any;
}

Worker::Outcome Worker::finish() {
  outcome_.done = results_.take_done();
  outcome_.torn = results_.take_torn();
  outcome_.steps = pipeline_.steps();
  outcome_.flops = pipeline_.flops();
  outcome_.stolen = intake_.stolen();
  place_.cache.log(place_.index).resolve();
  outcome_.operations = place_.cache.log(place_.index).take_finished();
  order_->clear();
  pipeline_.clear();
  results_.let_go_of_held();
  return std::move(outcome_);
}

}  // namespace tessera::runtime
