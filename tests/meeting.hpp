// Shows that several threads are at the same place at the same time, however long each takes to get there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace tessera::test {

class Meeting {
 public:
  explicit Meeting(std::size_t guests) : missing_(guests) {}

  /// @return false if some have not come within a time that is ample
  bool wait_for_all() {
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) complete_.notify_all();
    return complete_.wait_for(lock, std::chrono::minutes(1), [&] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  std::size_t missing_;
};

}  // namespace tessera::test
