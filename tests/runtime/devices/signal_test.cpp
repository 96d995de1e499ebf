// A worker that waits for changes misses none.
#include "runtime/devices/signal.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tessera::runtime {
namespace signal_test {

TEST(Signal, WakesWhoWaitsAndRemembersWhatWasRaisedBefore) {
  Signal signal;
  const auto seen = signal.version();
  signal.raise();
  signal.wait(seen, std::chrono::hours(1));  // returns at once
  const auto now = signal.version();
  std::thread other([&] { signal.raise(); });
  signal.wait(now, std::chrono::hours(1));
  other.join();
  signal.wait(signal.version(), std::chrono::microseconds(1));  // times out
}

}  // namespace signal_test
}  // namespace tessera::runtime
