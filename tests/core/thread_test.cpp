#include "core/thread.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace tessera {
namespace thread_test {

using std::chrono::microseconds;

TEST(Thread, YieldsUntilItIsDoneOrPatienceIsOver) {
  int asked = 0;
  EXPECT_TRUE(yield_until([&] { return ++asked == 5; }, std::chrono::minutes(10)));
  EXPECT_EQ(asked, 5);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(yield_until([] { return false; }, microseconds(300)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, microseconds(300));
  // The condition is checked once more at the end, even without patience.
  asked = 0;
  EXPECT_TRUE(yield_until([&] { return ++asked == 2; }, microseconds(0)));
}

TEST(Thread, SeesWhatAnotherOneDoes) {
  std::atomic<bool> done = false;
  Thread other = start_thread([&] { done = true; });
  EXPECT_TRUE(yield_until([&] { return done.load(); }, std::chrono::minutes(10)));
  other.join();
}

TEST(Thread, TakesOnlyTheSignalsThatItCauses) {
  sigset_t blocked;
  Thread other = start_thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); });
  other.join();
  for (const int caused : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    EXPECT_EQ(sigismember(&blocked, caused), 0) << caused;
  for (const int sent : {SIGINT, SIGTERM, SIGALRM, SIGPROF, SIGCHLD, SIGUSR1, SIGHUP, SIGPIPE})
    EXPECT_EQ(sigismember(&blocked, sent), 1) << sent;
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);  // of the thread alone
}

std::size_t stack_bytes_of_this_thread() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

/// The default of this process, as RLIMIT_STACK sets it when a program begins, while this lives.
class DefaultStack {
 public:
  explicit DefaultStack(std::size_t bytes) {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, bytes);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~DefaultStack() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  DefaultStack(const DefaultStack&) = delete;
  DefaultStack& operator=(const DefaultStack&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Thread, HasAMebibyteOfStackAtLeast) {
  std::size_t bytes = 0;
  for (const std::size_t by_default : {std::size_t{64} << 10, std::size_t{4} << 20}) {
    const DefaultStack stack(by_default);
    start_thread([&] { bytes = stack_bytes_of_this_thread(); }).join();
    EXPECT_EQ(Thread::stack_bytes(), std::max(by_default, std::size_t{1} << 20));
    EXPECT_GE(bytes, Thread::stack_bytes());
  }
}

TEST(Thread, TakesWhatItRunsAlong) {
  auto number = std::make_unique<int>(3);
  std::weak_ptr<int> kept;
  {
    auto shared = std::make_shared<int>(4);
    kept = shared;
    Thread first = start_thread([number = std::move(number), shared = std::move(shared)] { ++*number; });
    EXPECT_TRUE(first.joinable());
    Thread second = std::move(first);
    EXPECT_FALSE(first.joinable());
    second.join();
    EXPECT_FALSE(second.joinable());
  }
  EXPECT_TRUE(kept.expired());
}

TEST(Thread, WakesOnTime) {
  const int before = prctl(PR_GET_TIMERSLACK);
  Thread other = start_thread([] {
    wake_on_time();
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK), 1);
  });
  other.join();
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK), before);  // of the thread alone
}

}  // namespace thread_test
}  // namespace tessera
