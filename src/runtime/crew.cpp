#include "runtime/crew.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"
#include "runtime/room.hpp"

namespace tessera::runtime {

Crew::Crew(std::span<const kernels::Accelerator> accelerators, std::chrono::nanoseconds patience,
           std::function<void()> when_idle)
    : accelerators_(accelerators), patience_(patience), when_idle_(std::move(when_idle)) {
  for (std::size_t d = 0; d < accelerators.size(); ++d) seats_.emplace_back();
  try {
    for (std::size_t d = 0; d < seats_.size(); ++d) seats_[d].thread = start_thread([this, d] { serve(d); });
  } catch (const std::system_error& error) {
    stop();
    throw NotAvailable(std::string("cannot start a worker thread: ") + error.what());
  } catch (...) {
    stop();
    throw;
  }
}

Crew::~Crew() {
  stop();
  for (const kernels::Accelerator& accelerator : accelerators_) accelerator.device->on_completion({});
}

void Crew::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (Seat& seat : seats_) {
    seat.begun.notify_one();
    if (seat.thread.joinable()) seat.thread.join();
  }
}

void Crew::employ(cache::TileCache& cache, OldValues* old_values) {
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    Seat& seat = seats_[d];
    const kernels::Accelerator& accelerator = accelerators_[d];
    const bool tells = accelerator.device->on_completion([&signal = seat.signal] { signal.raise(); });
    seat.worker.emplace(static_cast<int>(d), *accelerator.device, *accelerator.ops, cache, seat.signal, !tells,
                        old_values);
  }
  cache_ = &cache;
  old_values_ = old_values;
}

std::vector<bool> Crew::usable() const {
  const std::lock_guard lock(mutex_);
  std::vector<bool> usable;
  for (const Seat& seat : seats_) usable.push_back(!seat.lost);
  return usable;
}

bool Crew::lose(std::size_t d) {
  const std::lock_guard lock(mutex_);
  return !std::exchange(seats_[d].lost, true);
}

void Crew::alert(const std::vector<bool>& called) {
  std::unique_lock lock(mutex_);
  for (std::size_t d = 0; d < seats_.size(); ++d) seats_[d].alerted = called[d];
  lock.unlock();
  wake(called);
}

void Crew::wake(const std::vector<bool>& called) {
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (called[d]) seats_[d].begun.notify_one();
  }
}

void Crew::note_use() {
  const std::lock_guard lock(mutex_);
  last_use_s_ = device::now_seconds();
}

bool Crew::should_advance_side_by_side(const TaskGraph& graph, const std::vector<bool>& called) const {
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (called[d] && !seats_[d].worker->should_advance_side_by_side(graph)) return false;
  }
  return true;
}

void Crew::raise_all() {
  for (Seat& seat : seats_) seat.signal.raise();
}

void Crew::announce_end() {
  const std::lock_guard lock(mutex_);
  ends_soon_ = true;
  finished_.notify_one();
}

void Crew::run(Job& job, const std::function<CpuWorker::Outcome()>& cpu, Attempt& made) {
  made.outcomes.resize(seats_.size());
  if (old_values_ != nullptr) old_values_->begin_job(*cache_, job.graph(), made.working);
  std::unique_lock lock(mutex_);
  ends_soon_ = false;
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (made.working[d]) seats_[d].job = &job;
  }
  lock.unlock();
  wake(made.working);
  made.by_cpu = cpu();
  lock.lock();
  const auto all_done = [&] {
    return std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.job == nullptr; });
  };
  finished_.wait(lock, [&] { return ends_soon_ || all_done(); });
  lock.unlock();
  yield_until(all_done, end_patience);
  lock.lock();
  finished_.wait(lock, all_done);
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (made.working[d]) made.outcomes[d] = std::move(seats_[d].outcome);
  }
  lock.unlock();
  // Here, where no thread submits to any device.
  for (Worker::Outcome& outcome : made.outcomes)
    std::erase_if(outcome.torn, [](const Worker::Torn& torn) { return torn.old && torn.old->restore(); });
}

// The thread of a device.
void Crew::serve(std::size_t d) {
  wake_on_time();
  Seat& seat = seats_[d];
  std::exception_ptr unusable;
  try {
    accelerators_[d].device->attach_thread();
  } catch (...) {
    unusable = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  const auto called = [&] { return stopping_ || seat.alerted || seat.job != nullptr; };
  for (;;) {
    if (!holds_memory_.load(std::memory_order_relaxed)) {
      seat.begun.wait(lock, called);
    } else if (!seat.begun.wait_for(lock, patience_, called)) {
      // Half: a job that this device had no part in may have ended since, and the next look is as far away.
      const double idle_s = 0.5 * std::chrono::duration<double>(patience_).count();
      const bool idle = device::now_seconds() - last_use_s_ >= idle_s;
      lock.unlock();
      if (idle) when_idle_();
      lock.lock();
      continue;
    }
    if (stopping_ && seat.job == nullptr) return;
    if (std::exchange(seat.alerted, false) && seat.job == nullptr) {
      lock.unlock();
      yield_until([&] { return seat.job != nullptr; }, begin_patience);
      lock.lock();
      continue;
    }
    Job& job = *seat.job;
    lock.unlock();
    Worker::Outcome outcome;
    if (!unusable) {
      outcome = seat.worker->run(job);
    } else {
      outcome.usable = false;
      outcome.error = text_of(unusable);
      job.fail();
    }
    lock.lock();
    seat.outcome = std::move(outcome);
    seat.job = nullptr;
    finished_.notify_one();
  }
}

}  // namespace tessera::runtime
