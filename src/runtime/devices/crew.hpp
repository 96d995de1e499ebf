// The threads of all devices. A thread belongs to its device and lives as long as the runtime. It has a worker for each
// job that the device takes part in, and looks at them in turns; between two jobs it sleeps, and looks now and then
// whether memory is to be given back.
//
// Of several jobs that could go on the oldest goes first, so that jobs end one after the other and the others fill its
// gaps; but one look in `turns_of_others` begins with another one, so that none starves.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "core/mutex.hpp"
#include "core/thread.hpp"
#include "kernels/backend.hpp"
#include "runtime/devices/device_traffic.hpp"
#include "runtime/devices/signal.hpp"
#include "runtime/tiles/attempt.hpp"
#include "runtime/tiles/cpu_worker.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/worker.hpp"

namespace tessera::runtime {

class Crew {
 public:
  /// Starts the threads.
  /// @param most_jobs that a device has at once
  /// @param patience after which an idle thread calls `when_idle`, if note_memory(true) was said last
  /// @throws NotAvailable if a thread cannot be started
  Crew(std::span<const kernels::Accelerator> accelerators, std::size_t most_jobs, std::chrono::nanoseconds patience,
       std::function<void()> when_idle);
  /// Waits for the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // The following are thread-safe.

  /// By device: whether it works.
  std::vector<bool> usable() const;
  /// The device is called no more. @return whether it was till now
  bool lose(std::size_t d);

  /// The threads of these devices wake up while a job is prepared.
  void alert(const std::vector<bool>& called);
  /// Notes that devices were used, so that they are not taken for idle.
  void note_use();
  void note_memory(bool can_be_given_back) { holds_memory_.store(can_be_given_back, std::memory_order_relaxed); }

  /// Gives the devices of the attempt their workers. @pre it has its cache
  void employ(Attempt& made);
  /// Whether the tasks of such a job should advance side by side on the attempt's devices. @pre employ()
  static bool should_advance_side_by_side(const TaskGraph& graph, const Attempt& made);

  /// Runs the job on the devices of the attempt, and `cpu` meanwhile on the calling thread, to the end of both. Tiles
  /// that are torn and can be restored are. @pre employ()
  void run(TaskPool& job, const std::function<CpuWorker::Outcome()>& cpu, Attempt& made);
  /// Wakes the workers of the attempt, whatever they wait for.
  void raise_all(const Attempt& made);
  /// The job calls this when little of it is left.
  void announce_end(Attempt& made);

 private:
  struct Engagement {
    Attempt* made = nullptr;
    bool has_ended = false;
  };
  struct Errand {
    std::function<void()> run;
    bool done = false;
  };
  struct Seat {
    Signal signal;
    bool polls = true;
    Thread thread;
    // Of the thread.
    std::vector<Engagement> engaged;  // the oldest first
    DeviceTraffic traffic;
    // Guarded by mutex_.
    bool lost = false;
    bool alerted = false;              // a job is about to come
    std::vector<Attempt*> come;        // that the thread is to take up
    std::vector<Errand*> errands;      // that it is to run between two looks
    std::atomic<bool> called = false;  // there are some of these. Changes under mutex_, pairs with serve()
    // A job has come or is about to, or no more will; a call wakes only the seats that it uses.
    std::condition_variable begun;
  };
  // How long those who wait for each other stay awake: while a call prepares its job, and while its last results go
  // down.
  static constexpr std::chrono::microseconds begin_patience{200};
  static constexpr std::chrono::microseconds end_patience{1000};
  static constexpr unsigned turns_of_others = 4;

  void serve(std::size_t d);
  bool await_call(UniqueLock& lock, Seat& seat) TESSERA_REQUIRES(mutex_);
  void take_up(UniqueLock& lock, std::size_t d, const std::exception_ptr& unusable) TESSERA_REQUIRES(mutex_);
  Worker::Look look_at_all(std::size_t d, unsigned turn);
  void dismiss(std::size_t d, Attempt& made, Worker::Outcome outcome);
  static void wake(Seat& seat);
  void on_thread_of(std::size_t d, Errand& errand);
  void restore_torn(Attempt& made);
  void stop();

  const std::span<const kernels::Accelerator> accelerators_;
  const std::chrono::nanoseconds patience_;
  const std::function<void()> when_idle_;
  std::deque<Seat> seats_;  // by device; fixed after construction
  mutable Mutex mutex_;
  std::condition_variable errand_done_;
  bool stopping_ TESSERA_GUARDED_BY(mutex_) = false;
  double last_use_s_ TESSERA_GUARDED_BY(mutex_) = 0;  // of the devices
  // Some device has memory that can be given back. Relaxed: a thread that misses it sees it after its next job.
  std::atomic<bool> holds_memory_ = false;
};

}  // namespace tessera::runtime
