// Threads and children that tests of passes and forks meet.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/process.hpp"

namespace tessera::process {

/// Lets other threads run for a while. A check afterwards may see too little progress, and must accept that.
inline void let_others_run() {
  // On a busy machine so many turns take seconds, longer than the patience of a fork.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  for (int i = 0; i < 2000 && std::chrono::steady_clock::now() < enough; ++i) std::this_thread::yield();
}

/// A thread that holds a guard, a Pass as a rule, from the constructor until leave().
template <class Guard>
class ColleagueWith {
 public:
  template <class... Arguments>
  explicit ColleagueWith(Arguments... arguments) {
    thread_ = std::thread([this, arguments...] {
      const Guard guard(arguments...);
      inside_ = true;
      inside_.notify_all();
      leaving_.wait(false);
      left = true;
    });
    inside_.wait(false);
  }
  ~ColleagueWith() {
    leave();
    thread_.join();
  }
  ColleagueWith(const ColleagueWith&) = delete;
  ColleagueWith& operator=(const ColleagueWith&) = delete;
  void leave() {
    leaving_ = true;
    leaving_.notify_all();
  }

  std::atomic<bool> left = false;

 private:
  std::atomic<bool> inside_ = false;
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

using Colleague = ColleagueWith<Pass>;

/// A call of the program's LAPACK, while it lives.
struct InLapack {
  InLapack() { enter_lapack(); }
  ~InLapack() { leave_lapack(); }
  InLapack(const InLapack&) = delete;
  InLapack& operator=(const InLapack&) = delete;
};
/// A call of the program's LAPACK that has called a symbol of ours.
struct CallOfLapack {
  InLapack lapack;
  OutOfLapack symbol;
};

/// Makes the CPU BLAS one that must be left before a fork, as long as it lives.
class BlasWithThreads {
 public:
  BlasWithThreads() {
    must_be_left([] { return threads.load(); });
    threads = 2;
  }
  ~BlasWithThreads() { threads = 1; }
  BlasWithThreads(const BlasWithThreads&) = delete;
  BlasWithThreads& operator=(const BlasWithThreads&) = delete;

 private:
  static inline std::atomic<int> threads = 1;
};

/// Another thread that requests a Pass.
class Newcomer {
 public:
  explicit Newcomer(Work work)
      : thread_([this, work] {
          const Pass pass(work);
          inside = true;
        }) {}
  /// Whether it was let in before the end of its required wait.
  bool came_too_early() const {
    const bool came = inside;
    return came && std::chrono::steady_clock::now() - begin_ < computing_patience;
  }
  void join() { thread_.join(); }

  std::atomic<bool> inside = false;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

/// @return the status of a child that does `work`
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

}  // namespace tessera::process
