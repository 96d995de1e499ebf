// Work side by side: all of it at once, its failures, and a caller that holds the loader's lock.
#include "core/side_by_side.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/meeting.hpp"
#include "tests/test_plugin.hpp"

namespace tessera {
namespace side_by_side_test {

TEST(SideBySide, DoesEachPieceOnce) {
  for (const std::size_t count : std::vector<std::size_t>{0, 1, 2, 9}) {
    std::array<std::atomic<int>, 9> done = {};
    side_by_side(count, [&](std::size_t piece) { ++done.at(piece); });
    for (std::size_t piece = 0; piece < done.size(); ++piece) EXPECT_EQ(done.at(piece), piece < count ? 1 : 0);
  }
}

TEST(SideBySide, DoesThemAllAtOnceOnThreadsThatTakeNoSignals) {
  constexpr std::size_t count = 4;
  test::Meeting meeting(count);
  std::array<std::thread::id, count> threads;
  std::array<bool, count> takes_signals = {};
  side_by_side(count, [&](std::size_t piece) {
    EXPECT_TRUE(meeting.wait_for_all());
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    takes_signals.at(piece) = sigismember(&blocked, SIGUSR1) == 0;
    threads.at(piece) = std::this_thread::get_id();
  });
  for (std::size_t piece = 0; piece < count; ++piece) {
    EXPECT_EQ(std::count(threads.begin(), threads.end(), threads.at(piece)), 1);
    EXPECT_EQ(takes_signals.at(piece), threads.at(piece) == std::this_thread::get_id());
  }
}

TEST(SideBySide, ReportsTheFailureOfTheLowestNumberWhenAllHaveEnded) {
  test::Meeting meeting(3);
  std::atomic<int> ended = 0;
  try {
    side_by_side(3, [&](std::size_t piece) {
      EXPECT_TRUE(meeting.wait_for_all());
      ++ended;
      if (piece > 0) throw std::runtime_error(std::to_string(piece));
    });
    FAIL() << "no failure";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "1");
  }
  EXPECT_EQ(ended, 3);
}

// A library's constructor runs with the loader's lock. Opening a device on another thread needs that lock, and waits
// until the library is loaded. So a caller in the constructor that waits for this thread would wait for ever.
std::vector<std::thread::id> workers;
void work_while_loading() {
  workers.resize(3);
  side_by_side(3, [](std::size_t piece) {
    EXPECT_NE(dlsym(RTLD_DEFAULT, "dlsym"), nullptr);
    workers.at(piece) = std::this_thread::get_id();
  });
}

TEST(SideBySide, IsDoneByACallerWhoHoldsTheLoaderAlone) {
  ASSERT_NO_FATAL_FAILURE(test::call_while_loading(&work_while_loading));
  ASSERT_EQ(workers.size(), 3u);
  for (const std::thread::id worker : workers) EXPECT_EQ(worker, std::this_thread::get_id());
}

TEST(OnThreads, DoesEachPieceOnAThreadOfItsOwn) {
  on_threads(0, [](std::size_t) { FAIL() << "there are none"; });
  constexpr std::size_t count = 4;
  test::Meeting meeting(count);
  std::array<std::thread::id, count> threads;
  on_threads(count, [&](std::size_t piece) {
    EXPECT_TRUE(meeting.wait_for_all());
    threads.at(piece) = std::this_thread::get_id();
  });
  for (const std::thread::id thread : threads) {
    EXPECT_EQ(std::count(threads.begin(), threads.end(), thread), 1);
    EXPECT_NE(thread, std::thread::id());
    EXPECT_NE(thread, std::this_thread::get_id());
  }
}

std::atomic<int> begun_while_loading = 0;
void start_while_loading() {
  on_threads(3, [](std::size_t) { ++begun_while_loading; });
}

TEST(OnThreads, DoesNothingForACallerWhoHoldsTheLoader) {
  ASSERT_NO_FATAL_FAILURE(test::call_while_loading(&start_while_loading));
  EXPECT_EQ(begun_while_loading, 0);
}

}  // namespace side_by_side_test
}  // namespace tessera
