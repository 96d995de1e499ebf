#include "runtime/worker.hpp"

#include <exception>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/process.hpp"
#include "core/thread.hpp"
#include "runtime/room.hpp"

namespace tessera::runtime {

Worker::Outcome Worker::run(Job& job) noexcept {
  try {
    work(job);
  } catch (...) {
    outcome_.error = text_of(std::current_exception());
    job.fail();
  }
  if (job.failed()) {
    // What was submitted must have ended before the tiles and the caller's memory can be touched again.
    outcome_.usable = place_.device.recover();
    results_.settle(outcome_.usable);
  }
  try {
    return finish();
  } catch (const std::exception&) {  // no memory: what is lost is the times of operations
    return std::move(outcome_);
  }
}

void Worker::work(Job& job) {
  // A device that tells of completed work wakes us; the long timeout only bounds how late a changed load estimate is
  // seen. At the end nothing is left for the device to do while we sleep.
  const auto timeout = polls_ ? std::chrono::microseconds(20) : std::chrono::microseconds(2000);
  begin(job);
  // Yield briefly until all workers have begun, so that they share the first fetches.
  job.arrive();
  yield_until([&job] { return job.all_arrived() || job.ended(); }, begin_patience);
  while (!job.ended() && !process::ending()) {
    const std::uint64_t seen = place_.signal.version();
    if (advance(job) || job.ended()) continue;
    if (polls_ && job.ends_soon() && results_.writing() > 0) {
      std::this_thread::yield();
    } else {
      place_.signal.wait(seen, timeout);
    }
  }
  if (process::ending() && !job.ended()) job.fail();
  // Of tasks that were left out some steps may still be computed.
  while (!job.failed() && !pipeline_.is_empty()) {
    if (!retire(job)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  // A tile that was fetched ahead for a task which somebody else then took may still be on its way from the caller's
  // memory.
  while (!job.failed() && place_.cache.is_fetching(place_.index))
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Worker::begin(const Job& job) {
  outcome_ = {};
  const std::size_t lanes = LaneRoom::lanes_in(place_.cache.slots(place_.index));
  results_.begin();
  intake_.begin(lanes);
  lanes_.clear();
  groups_.clear();
  order_ = job.graph().grouped() ? static_cast<Order*>(&groups_) : &lanes_;
  order_->begin(job, lanes);
  pipeline_.begin(job);
}

bool Worker::advance(Job& job) {
  bool progress = retire(job);
  progress |= order_->refill(job);
  progress |= order_->submit(job) || order_->prefetch(job);
  return progress;
}

// Lets go of everything whose events have completed.
bool Worker::retire(Job& job) {
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
