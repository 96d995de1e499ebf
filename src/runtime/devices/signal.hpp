// Something that a worker can wait for: "anything has changed since I last looked". Raised by completed device work, finished
// tasks and failures. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>

#include "core/mutex.hpp"

namespace tessera::runtime {

class Signal {
 public:
  std::uint64_t version() const {
    const LockGuard lock(mutex_);
    return version_;
  }
  void raise() {
    {
      const LockGuard lock(mutex_);
      ++version_;
    }
    changed_.notify_all();
  }
  /// Returns when the signal has been raised since `seen`, or after `timeout`.
  void wait(std::uint64_t seen, std::chrono::microseconds timeout) {
    UniqueLock lock(mutex_);
    changed_.wait_for(lock.native(), timeout, [&]() TESSERA_REQUIRES(mutex_) { return version_ != seen; });
  }

 private:
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t version_ TESSERA_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::runtime
