// The workers of all devices, and the threads that run them. A thread belongs to its device and lives as long as the
// runtime; between two jobs it sleeps, and looks now and then whether memory is to be given back.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "kernels/backend.hpp"
#include "runtime/cpu_worker.hpp"
#include "runtime/job.hpp"
#include "runtime/signal.hpp"
#include "runtime/worker.hpp"

namespace tessera::runtime {

/// What came of running the pending tasks of a job once.
struct Attempt {
  std::vector<bool> working;  ///< the devices that take part
  std::vector<Worker::Outcome> outcomes;
  CpuWorker::Outcome by_cpu;
  Breakdown breakdown;
};

class Crew {
 public:
  /// Starts the threads.
  /// @param patience after which an idle thread calls `when_idle`, if note_memory(true) was said last
  /// @throws NotAvailable if a thread cannot be started
  Crew(std::span<const kernels::Accelerator> accelerators, std::chrono::nanoseconds patience,
       std::function<void()> when_idle);
  /// Waits for the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Gives all devices their workers. @pre no job has come yet
  void employ(cache::TileCache& cache, OldValues* old_values);

  // The following are thread-safe.

  /// By device: whether it works.
  std::vector<bool> usable() const;
  /// The device is called no more. @return whether it was till now
  bool lose(std::size_t d);

  /// The threads of these devices wake up while a job is prepared.
  void alert(const std::vector<bool>& called);
  /// What has been used must not be taken for idle.
  void note_use();
  void note_memory(bool can_be_given_back) { holds_memory_.store(can_be_given_back, std::memory_order_relaxed); }

  /// Whether the tasks of such a job should advance side by side on these devices.
  bool should_advance_side_by_side(const TaskGraph& graph, const std::vector<bool>& called) const;
  /// Wakes all workers, whatever they wait for.
  void raise_all();

  /// Runs the job on the devices `made.working`, and `cpu` meanwhile on the calling thread, to the end of both. Tiles
  /// that are torn and can be restored are.
  /// @pre one caller at a time
  void run(Job& job, const std::function<CpuWorker::Outcome()>& cpu, Attempt& made);
  /// What the job calls when little of it is left.
  void announce_end();

 private:
  struct Seat {
    Signal signal;
    std::optional<Worker> worker;
    std::thread thread;
    bool lost = false;                // guarded by mutex_
    bool alerted = false;             // guarded by mutex_; a job is about to come
    std::atomic<Job*> job = nullptr;  // changes under mutex_; set: the worker is to run or is running
    Worker::Outcome outcome;          // guarded by mutex_
    // A job has come or is about to, or no more will; a call wakes only the seats that it uses.
    std::condition_variable begun;
  };
  // How long those who wait for each other stay awake: while a call prepares its job, and while its last results go
  // down.
  static constexpr std::chrono::microseconds begin_patience{200};
  static constexpr std::chrono::microseconds end_patience{1000};

  void serve(std::size_t d);
  void wake(const std::vector<bool>& called);
  void stop();

  const std::span<const kernels::Accelerator> accelerators_;
  const std::chrono::nanoseconds patience_;
  const std::function<void()> when_idle_;
  std::deque<Seat> seats_;  // by device; fixed after construction
  cache::TileCache* cache_ = nullptr;
  OldValues* old_values_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable finished_;  // a seat's job, or all but its end; only the one caller of run() waits
  bool ends_soon_ = false;            // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  double last_use_s_ = 0;             // of the devices; guarded by mutex_
  // Some device has memory that can be given back. Relaxed: a thread that misses it sees it after its next job.
  std::atomic<bool> holds_memory_ = false;
};

}  // namespace tessera::runtime
