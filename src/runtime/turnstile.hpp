// Admits callers one at a time in order of arrival. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tessera::runtime {

class Turnstile {
 public:
  class Turn {
   public:
    /// Waits for those who came before.
    explicit Turn(Turnstile& turnstile) : turnstile_(turnstile), held_(true) {
      std::unique_lock lock(turnstile_.mutex_);
      const std::uint64_t ticket = turnstile_.next_ticket_++;
      turnstile_.changed_.wait(lock, [&] { return turnstile_.serving_ == ticket; });
    }
    /// Has a turn only if nobody else has one or waits.
    Turn(Turnstile& turnstile, std::try_to_lock_t) : turnstile_(turnstile) {
      const std::lock_guard lock(turnstile_.mutex_);
      held_ = turnstile_.next_ticket_ == turnstile_.serving_;
      if (held_) ++turnstile_.next_ticket_;
    }
    ~Turn() {
      if (!held_) return;
      const std::lock_guard lock(turnstile_.mutex_);
      ++turnstile_.serving_;
      turnstile_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    explicit operator bool() const { return held_; }

   private:
    Turnstile& turnstile_;
    bool held_ = false;
  };

  /// Somebody waits for who has the turn.
  bool is_wanted() {
    const std::lock_guard lock(mutex_);
    return next_ticket_ > serving_ + 1;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;
};

}  // namespace tessera::runtime
