#include "runtime/devices/crew.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/error_text.hpp"
#include "core/thread.hpp"

namespace tessera::runtime {

Crew::Crew(std::span<const kernels::Accelerator> accelerators, std::size_t most_jobs, std::chrono::nanoseconds patience,
           std::function<void()> when_idle)
    : accelerators_(accelerators), patience_(patience), when_idle_(std::move(when_idle)) {
  // Containers that threads add to while a job runs have their memory from the start.
  for (std::size_t d = 0; d < accelerators.size(); ++d) {
    Seat& seat = seats_.emplace_back();
    seat.engaged.reserve(most_jobs);
    seat.traffic.reserve(most_jobs);
    seat.come.reserve(most_jobs);
    seat.errands.reserve(most_jobs);
  }
  try {
    for (std::size_t d = 0; d < seats_.size(); ++d) {
      Seat& seat = seats_[d];
      seat.polls = !accelerators[d].device->on_completion([&signal = seat.signal] { signal.raise(); });
      seat.thread = start_thread([this, d] { serve(d); });
    }
  } catch (const std::system_error& error) {
    stop();
    throw NotAvailable(std::string("cannot start a worker thread: ") + error.what());
  } catch (...) {
    stop();
    throw;
  }
}

Crew::~Crew() { stop(); }

void Crew::stop() {
  {
    const LockGuard lock(mutex_);
    stopping_ = true;
  }
  for (Seat& seat : seats_) {
    seat.begun.notify_one();
    if (seat.thread.joinable()) seat.thread.join();
  }
  for (const kernels::Accelerator& accelerator : accelerators_) accelerator.device->on_completion({});
}

std::vector<bool> Crew::usable() const {
  const LockGuard lock(mutex_);
  std::vector<bool> usable;
  for (const Seat& seat : seats_) usable.push_back(!seat.lost);
  return usable;
}

bool Crew::lose(std::size_t d) {
  const LockGuard lock(mutex_);
  return !std::exchange(seats_[d].lost, true);
}

void Crew::alert(const std::vector<bool>& called) {
  {
    const LockGuard lock(mutex_);
    for (std::size_t d = 0; d < seats_.size(); ++d) seats_[d].alerted |= called[d];
  }
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (called[d]) seats_[d].begun.notify_one();
  }
}

void Crew::note_use() {
  const LockGuard lock(mutex_);
  last_use_s_ = device::now_seconds();
}

void Crew::employ(Attempt& made) {
  made.workers.resize(seats_.size());
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (!made.working[d]) continue;
    Seat& seat = seats_[d];
    const kernels::Accelerator& accelerator = accelerators_[d];
    made.workers[d] =
        std::make_unique<Worker>(static_cast<int>(d), *accelerator.device, *accelerator.ops, *made.cache, seat.signal,
                                 seat.polls, made.old_values ? &*made.old_values : nullptr, &seat.traffic);
  }
}

bool Crew::should_advance_side_by_side(const TaskGraph& graph, const Attempt& made) {
  return std::all_of(made.workers.begin(), made.workers.end(), [&](const std::unique_ptr<Worker>& worker) {
    return worker == nullptr || worker->should_advance_side_by_side(graph);
  });
}

void Crew::raise_all(const Attempt& made) {
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (made.working[d]) seats_[d].signal.raise();
  }
}

void Crew::announce_end(Attempt& made) {
  const LockGuard lock(mutex_);
  made.ends_soon = true;
  made.finished.notify_one();
}

void Crew::run(TaskPool& job, const std::function<CpuWorker::Outcome()>& cpu, Attempt& made) {
  made.outcomes.resize(seats_.size());
  made.job = &job;
  made.at_work = static_cast<std::size_t>(std::count(made.working.begin(), made.working.end(), true));
  for (std::size_t d = 0; d < seats_.size(); ++d) {
    if (!made.working[d]) continue;
    {
      const LockGuard lock(mutex_);
      seats_[d].come.push_back(&made);
      seats_[d].called.store(true, std::memory_order_release);
    }
    wake(seats_[d]);
  }
  made.by_cpu = cpu();
  const auto all_done = [&] { return made.at_work.load(std::memory_order_acquire) == 0; };
  UniqueLock lock(mutex_);
  made.finished.wait(lock.native(), [&] { return made.ends_soon || all_done(); });
  lock.unlock();
  yield_until(all_done, end_patience);
  lock.lock();
  made.finished.wait(lock.native(), all_done);
  lock.unlock();
  restore_torn(made);
}

void Crew::restore_torn(Attempt& made) {
  const auto restored = [&](OldCopy& old) {
    if (old.holder() == OldCopy::no_device) return old.restore();
    bool whole = false;
    Errand errand{[&] { whole = old.restore(); }};
    on_thread_of(static_cast<std::size_t>(old.holder()), errand);
    return whole;
  };
  for (Worker::Outcome& outcome : made.outcomes)
    std::erase_if(outcome.torn, [&](const Worker::Torn& torn) { return torn.old && restored(*torn.old); });
}

void Crew::on_thread_of(std::size_t d, Errand& errand) {
  UniqueLock lock(mutex_);
  seats_[d].errands.push_back(&errand);
  seats_[d].called.store(true, std::memory_order_release);
  lock.unlock();
  wake(seats_[d]);
  lock.lock();
  errand_done_.wait(lock.native(), [&] { return errand.done; });
}

// The seat has been called.
void Crew::wake(Seat& seat) {
  seat.begun.notify_one();
  seat.signal.raise();
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
  // A device that tells of completed work wakes us; the long timeout only bounds how late a changed load estimate is
  // seen.
  const auto timeout = seat.polls ? std::chrono::microseconds(20) : std::chrono::microseconds(2000);
  for (unsigned turn = 0;; ++turn) {
    const std::uint64_t seen = seat.signal.version();
    if (seat.engaged.empty() || seat.called.load(std::memory_order_acquire)) {
      UniqueLock lock(mutex_);
      if (seat.engaged.empty() && !await_call(lock, seat)) return;
      take_up(lock, d, unusable);
    }
    switch (look_at_all(d, turn)) {
      case Worker::Look::idle:
        if (!seat.engaged.empty()) seat.signal.wait(seen, timeout);
        break;
      case Worker::Look::awake:
        std::this_thread::yield();
        break;
      case Worker::Look::busy:
      case Worker::Look::ended:
        break;
    }
  }
}

// Lets go of the lock while it waits. @return whether the seat has got something; else the thread is to end
bool Crew::await_call(UniqueLock& lock, Seat& seat) TESSERA_UNCHECKED {
  const auto is_called = [&] { return seat.called.load(std::memory_order_relaxed); };
  const auto is_woken = [&]() TESSERA_REQUIRES(mutex_) { return stopping_ || seat.alerted || is_called(); };
  while (!is_called()) {
    if (!holds_memory_.load(std::memory_order_relaxed)) {
      seat.begun.wait(lock.native(), is_woken);
    } else if (!seat.begun.wait_for(lock.native(), patience_, is_woken)) {
      // Half: a job that this device had no part in may have ended since, and the next look is as far away.
      const double idle_s = 0.5 * std::chrono::duration<double>(patience_).count();
      const bool idle = device::now_seconds() - last_use_s_ >= idle_s;
      lock.unlock();
      if (idle) when_idle_();
      lock.lock();
      continue;
    }
    if (std::exchange(seat.alerted, false)) {
      lock.unlock();
      yield_until(is_called, begin_patience);
      lock.lock();
    }
    if (stopping_ && !is_called()) return false;
  }
  return true;
}

// Lets go of the lock while it does what it has taken up.
void Crew::take_up(UniqueLock& lock, std::size_t d, const std::exception_ptr& unusable) TESSERA_UNCHECKED {
  Seat& seat = seats_[d];
  seat.alerted = false;
  while (!seat.errands.empty()) {
    Errand& errand = *seat.errands.back();
    seat.errands.pop_back();
    lock.unlock();
    errand.run();
    lock.lock();
    errand.done = true;
    errand_done_.notify_all();
  }
  while (!seat.come.empty()) {
    Attempt& made = *seat.come.front();
    seat.come.erase(seat.come.begin());
    lock.unlock();
    if (!unusable) {
      seat.engaged.push_back({&made});
      made.workers[d]->arrive(*made.job);
    } else {
      Worker::Outcome outcome;
      outcome.usable = false;
      outcome.error = text_of(unusable);
      made.job->fail();
      dismiss(d, made, std::move(outcome));
    }
    lock.lock();
  }
  seat.called.store(!seat.errands.empty(), std::memory_order_relaxed);
}

Worker::Look Crew::look_at_all(std::size_t d, unsigned turn) {
  std::vector<Engagement>& engaged = seats_[d].engaged;
  const std::size_t jobs = engaged.size();
  const std::size_t first = turn % turns_of_others == 0 && jobs > 0 ? turn / turns_of_others % jobs : 0;
  Worker::Look all = Worker::Look::idle;
  for (std::size_t k = 0; k < jobs; ++k) {
    Engagement& each = engaged[(first + k) % jobs];
    const Worker::Look look = each.made->workers[d]->look(*each.made->job);
    each.has_ended = look == Worker::Look::ended;
    if (each.has_ended) dismiss(d, *each.made, each.made->workers[d]->leave());
    if (look == Worker::Look::busy || look == Worker::Look::ended)
      all = Worker::Look::busy;
    else if (look == Worker::Look::awake && all == Worker::Look::idle)
      all = look;
  }
  std::erase_if(engaged, [](const Engagement& each) { return each.has_ended; });
  return all;
}

// The device has done what it could for the attempt, which may be gone afterwards.
void Crew::dismiss(std::size_t d, Attempt& made, Worker::Outcome outcome) {
  const LockGuard lock(mutex_);
  made.outcomes[d] = std::move(outcome);
  made.at_work.fetch_sub(1, std::memory_order_release);
  made.finished.notify_one();
}

}  // namespace tessera::runtime
