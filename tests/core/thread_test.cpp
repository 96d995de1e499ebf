#include "core/thread.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>

namespace tessera {
namespace {

using std::chrono::microseconds;

TEST(Thread, YieldsUntilItIsDoneOrPatienceIsOver) {
  int asked = 0;
  EXPECT_TRUE(yield_until([&] { return ++asked == 5; }, std::chrono::minutes(10)));
  EXPECT_EQ(asked, 5);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(yield_until([] { return false; }, microseconds(300)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, microseconds(300));
  // What is done at last is done, even if nobody had the patience.
  asked = 0;
  EXPECT_TRUE(yield_until([&] { return ++asked == 2; }, microseconds(0)));
}

TEST(Thread, SeesWhatAnotherOneDoes) {
  std::atomic<bool> done = false;
  std::thread other = start_thread([&] { done = true; });
  EXPECT_TRUE(yield_until([&] { return done.load(); }, std::chrono::minutes(10)));
  other.join();
}

TEST(Thread, TakesOnlyTheSignalsThatItCauses) {
  sigset_t blocked;
  std::thread other = start_thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); });
  other.join();
  for (const int caused : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    EXPECT_EQ(sigismember(&blocked, caused), 0) << caused;
  for (const int sent : {SIGINT, SIGTERM, SIGALRM, SIGPROF, SIGCHLD, SIGUSR1, SIGHUP, SIGPIPE})
    EXPECT_EQ(sigismember(&blocked, sent), 1) << sent;
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);  // of the thread alone
}

TEST(Thread, WakesOnTime) {
  const int before = prctl(PR_GET_TIMERSLACK);
  std::thread other = start_thread([] {
    wake_on_time();
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK), 1);
  });
  other.join();
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK), before);  // of the thread alone
}

}  // namespace
}  // namespace tessera
