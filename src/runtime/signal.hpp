// Something that a worker can wait for: "anything has changed since I last looked". Raised by completed device work, finished
// tasks and failures. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tessera::runtime {

class Signal {
 public:
  std::uint64_t version() const {
    const std::lock_guard lock(mutex_);
    return version_;
  }
  void raise() {
    {
      const std::lock_guard lock(mutex_);
      ++version_;
    }
    changed_.notify_all();
  }
  /// Returns when the signal has been raised since `seen`, or after `timeout`.
  void wait(std::uint64_t seen, std::chrono::microseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return version_ != seen; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t version_ = 0;
};

}  // namespace tessera::runtime
