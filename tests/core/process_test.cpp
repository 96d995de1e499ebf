// Passes during fork. Irreversible steps run in a separate process.
#include "core/process.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/core/process_colleagues.hpp"

namespace tessera::process {
namespace process_test {

using ::testing::ExitedWithCode;

class ForkGate : public ::testing::TestWithParam<Work> {};
INSTANTIATE_TEST_SUITE_P(Works, ForkGate, ::testing::Values(Work::computing, Work::opening));

TEST_P(ForkGate, WaitsForThoseThatAreInside) {
  const BlasWithThreads blas;
  for (int round = 0; round < 20; ++round) {
    Colleague colleague(GetParam());
    std::thread waker([&] {
      let_others_run();
      colleague.leave();
    });
    before_fork();
    EXPECT_TRUE(colleague.left);
    after_fork_in_parent();
    waker.join();
  }
}

TEST_P(ForkGate, LetsNobodyInMeanwhile) {
  for (int round = 0; round < 20; ++round) {
    before_fork();
    Newcomer other(GetParam());
    let_others_run();
    EXPECT_FALSE(other.came_too_early());
    after_fork_in_parent();
    other.join();
  }
}

TEST_P(ForkGate, LetsNobodyInAsLongAsItWaitsForOthers) {
  const BlasWithThreads blas;
  Colleague colleague(Work::computing);
  std::thread forking([] {
    before_fork();
    after_fork_in_parent();
  });
  // A thread that comes before the gate is closed is let in, so threads are started until one must wait.
  std::deque<Newcomer> others;
  do {
    others.emplace_back(GetParam());
    std::this_thread::sleep_for(2 * computing_patience);
  } while (others.back().inside);
  EXPECT_FALSE(colleague.left);
  colleague.leave();
  forking.join();
  for (Newcomer& other : others) other.join();
}

// For example a thread whose lock a handler of the program waits for.
TEST_P(ForkGate, LetsOneInWhoHasWaitedLongWhileHandlersRun) {
  before_fork();
  Newcomer other(GetParam());
  other.join();  // before the fork is over
  EXPECT_TRUE(other.inside);
  EXPECT_FALSE(other.came_too_early());
  after_fork_in_parent();
}

TEST_P(ForkGate, DoesNotWaitForTheThreadThatForks) {
  const Pass pass(GetParam());
  const Pass nested(Work::computing);
  before_fork();
  const Pass within(Work::computing);
  after_fork_in_parent();
}

TEST_P(ForkGate, LetsAThreadThatIsInsideGoFurtherIn) {
  std::atomic<bool> stop = false;
  std::atomic<bool> inside = false;
  std::thread other([&] {
    while (!stop) {
      const Pass pass(GetParam());
      inside = true;
      for (int i = 0; i < 10; ++i) {
        std::this_thread::yield();
        const Pass nested(Work::computing);
        const Pass elsewhere(Work::opening);
      }
    }
  });
  while (!inside) std::this_thread::yield();
  for (int round = 0; round < 50; ++round) {
    before_fork();
    after_fork_in_parent();
  }
  stop = true;
  other.join();
}

TEST(Lapack, IsWaitedForByForks) {
  const BlasWithThreads blas;
  for (int round = 0; round < 20; ++round) {
    ColleagueWith<InLapack> colleague;
    std::thread waker([&] {
      let_others_run();
      colleague.leave();
    });
    before_fork();
    EXPECT_TRUE(colleague.left);
    after_fork_in_parent();
    waker.join();
  }
}

TEST(Lapack, IsNotWaitedForWhileASymbolOfOursIsCalled) {
  const BlasWithThreads blas;  // makes a fork wait without bound
  ColleagueWith<CallOfLapack> colleague;
  before_fork();
  EXPECT_FALSE(colleague.left);
  after_fork_in_parent();
}

TEST(Lapack, GoesOnAfterTheFork) {
  const BlasWithThreads blas;
  std::atomic<int> step = 0;
  const auto reach = [&](int next) {
    step = next;
    step.notify_all();
  };
  std::thread calling([&] {
    const InLapack lapack;
    {
      const OutOfLapack symbol;
      reach(1);
      step.wait(1);
    }
    reach(3);
  });
  step.wait(0);
  before_fork();
  const auto begin = std::chrono::steady_clock::now();
  reach(2);
  let_others_run();
  const bool came = step == 3;
  EXPECT_FALSE(came && std::chrono::steady_clock::now() - begin < computing_patience);
  after_fork_in_parent();
  calling.join();
}

TEST(Lapack, WhatItCallsOfOursIsDecidedAsAnyCall) {
  {
    const InLapack lapack;
    const InLapack nested;
    EXPECT_TRUE(is_computing());
    {
      const OutOfLapack symbol;
      EXPECT_FALSE(is_computing());
      const InLapack again;
      EXPECT_TRUE(is_computing());
      const OutOfLapack inner_symbol;
      EXPECT_FALSE(is_computing());
    }
    EXPECT_TRUE(is_computing());
  }
  EXPECT_FALSE(is_computing());
}

TEST(Lapack, OfOneWhoMayHoldADeviceIsComputingThroughout) {
  const Pass of_device(Work::computing);
  const InLapack lapack;
  const OutOfLapack symbol;
  EXPECT_TRUE(is_computing());
}

TEST(ForkHandlers, HandlersThatAreRegisteredTwiceCountAsOne) {
  before_fork();
  before_fork();
  after_fork_in_parent();
  Newcomer other(Work::computing);
  let_others_run();
  EXPECT_FALSE(other.came_too_early());
  after_fork_in_parent();
  other.join();
}

TEST(ForkHandlers, DoesNotWaitForACallThatTakesLong) {
  {
    Colleague colleague(Work::computing);
    const auto knows = [] { return cpu_blas_is_cut() && static_cast<bool>(Pass(Work::computing)); };
    EXPECT_EQ(status_of_child(knows), 0);
    EXPECT_FALSE(colleague.left);
    // Children of a cut child inherit its state.
    EXPECT_EQ(status_of_child([&] { return status_of_child(knows) == 0; }), 0);
    EXPECT_FALSE(cpu_blas_is_cut());
  }
  EXPECT_EQ(status_of_child([] { return !cpu_blas_is_cut(); }), 0);
}

TEST(ForkHandlers, WaitsAsLongAsThreadsComeOutOneAfterTheOther) {
  constexpr int count = 6;
  std::deque<Colleague> colleagues;
  for (int i = 0; i < count; ++i) colleagues.emplace_back(Work::computing);
  std::thread waker([&] {
    for (Colleague& colleague : colleagues) {
      std::this_thread::sleep_for(computing_patience / 4);
      colleague.leave();
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  before_fork();
  const auto waited = std::chrono::steady_clock::now() - begin;
  const auto left = std::count_if(colleagues.begin(), colleagues.end(), [](const auto& c) { return c.left.load(); });
  // The patience begins again with each thread that leaves. So it waited longer than the patience, or all have left.
  EXPECT_TRUE(left == count || waited > computing_patience) << left;
  after_fork_in_parent();
  waker.join();
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
// Simulates a registration of handlers while another thread is between its handlers and the making of the child.
TEST(ForkHandlers, AChildOfAForkWithoutThemWaitsForNobodyOfItsParent) {
  std::jthread forking;  // declared first: ends when the colleagues have left
  Colleague opening(Work::opening);
  const Colleague computing(Work::computing);
  const Colleague driving(Work::driving);
  for (const bool during_a_fork : {false, true}) {
    if (during_a_fork) forking = std::jthread([] { before_fork(), after_fork_in_parent(); });
    let_others_run();
    for (const bool forks_again : {false, true}) {
      const pid_t child = _Fork();
      if (child == 0) {
        alarm(4);  // sooner than any patience ends
        if (forks_again) before_fork(), after_fork_in_parent();
        const bool drives = static_cast<bool>(Pass(Work::driving));
        leave_devices();
        { const Pass pass(Work::computing); }
        leave_libraries();
        // Bypasses ThreadSanitizer's exit, which waits for a second and reports the parent's ended threads as leaked.
        syscall(SYS_exit_group, drives && cpu_blas_is_cut() ? 0 : 1);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << during_a_fork << forks_again;
    }
  }
}
#endif

TEST(ForkHandlers, OneThreadAtATime) {
  int forks = 0;  // without a lock: a race would show that two threads fork at once
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        { const Pass pass(Work::computing); }
        before_fork();
        ++forks;
        after_fork_in_parent();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(forks, 400);
}

TEST(ForkHandlers, DoesNotWaitForDevices) {
  Colleague colleague(Work::driving);
  before_fork();
  EXPECT_FALSE(colleague.left);
  after_fork_in_parent();
}

TEST(ForkHandlers, TheChildIsOpen) {
  Colleague driver(Work::driving);
  const std::uint64_t parent = identity();
  const pid_t child = fork();
  if (child == 0) {
    { const Pass pass(Work::computing); }
    // The child has no other threads, so these must not wait.
    before_fork();
    after_fork_in_parent();
    const bool good = identity() != parent && !cpu_blas_is_cut() && !ending();
    const auto begin = std::chrono::steady_clock::now();
    leave_devices();
    _exit(good && std::chrono::steady_clock::now() - begin < ending_patience ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(identity(), parent);
}

TEST(ForkHandlers, AChildKnowsOfAnOpeningThatItCannotFinish) {
  Colleague opener(Work::opening);
  const pid_t child = fork();  // waits until its patience is over
  if (child == 0) _exit(cpu_blas_is_cut() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_FALSE(cpu_blas_is_cut());
}

class FirstFork : public ::testing::Test {
 protected:
  // Runs the body in a new process without earlier calls.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(FirstFork, HandlersAreThereBeforeAnyUse) {
  EXPECT_EXIT(
      {
        const Colleague colleague(Work::computing);
        _exit(status_of_child(cpu_blas_is_cut) == 0 ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(FirstFork, NothingIsOvertakenByThoseWhoUseWhatWasThereBefore) {
  EXPECT_EXIT(
      {
        watch_all_loaded();
        static bool used = false;
        pthread_atfork(
            [] {
              static const int library = 0;
              const Pass first(Work::opening);
              watch_loaded(&library);
              used = true;
            },
            nullptr, nullptr);
        const pid_t child = fork();
        if (child == 0) _exit(cpu_blas_is_cut() || !used ? 1 : 0);
        int status = -1;
        waitpid(child, &status, 0);
        _exit(status == 0 ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

// The handler that runs first in a fork, like that of a CPU BLAS.
bool is_overtaken = false;
void earliest_handler() {
  static const int library = 0;
  const Pass opening(Work::opening);
  is_overtaken ? watch_loaded(&library) : watch(&library);
}

TEST_F(FirstFork, AChildDoesNotUseWhatOthersBeganToUseDuringIt) {
  for (is_overtaken = false;; is_overtaken = true) {
    EXPECT_EXIT(
        {
          { const Pass first(Work::opening); }
          pthread_atfork(earliest_handler, nullptr, nullptr);
          const pid_t child = fork();
          if (child == 0) _exit(cpu_blas_is_cut() == is_overtaken ? 0 : 1);
          int status = -1;
          waitpid(child, &status, 0);
          const bool good = status == 0 && !cpu_blas_is_cut();
          // All handlers are registered for the next fork.
          is_overtaken = false;
          const pid_t next = fork();
          if (next == 0) _exit(cpu_blas_is_cut() ? 1 : 0);
          waitpid(next, &status, 0);
          _exit(good && status == 0 ? 0 : 1);
        },
        ExitedWithCode(0), "")
        << is_overtaken;
    if (is_overtaken) break;
  }
}

// Another thread computes while it holds a lock that a handler takes. Each of the 200 forks comes at another moment.
TEST_F(FirstFork, DoesNotWaitForOneWhoWaitsForIt) {
  EXPECT_EXIT(
      {
        alarm(100);
        static std::mutex lock;
        static std::atomic<int> calls = 0;
        pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, [] { lock.unlock(); });
        { const Pass first(Work::opening); }  // its handlers are registered later, so they run earlier
        std::atomic<bool> stop = false;
        std::thread other([&] {
          while (!stop) {
            {
              const std::lock_guard held(lock);
              const Pass pass(Work::computing);
              ++calls;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
        });
        bool good = true;
        for (int round = 0; round < 200; ++round) {
          for (const int seen = calls; calls == seen;) std::this_thread::yield();
          good = good && status_of_child([] { return static_cast<bool>(Pass(Work::computing)); }) == 0;
        }
        stop = true;
        other.join();
        _exit(good ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace process_test
}  // namespace tessera::process
