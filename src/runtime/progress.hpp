// How far the job of a call is, for other threads that ask meanwhile.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/mutex.hpp"

namespace tessera::runtime {

class Progress {
 public:
  /// The part that is done, from 0 to 1; nothing if no job tells. Thread-safe.
  std::optional<double> done() const {
    const LockGuard lock(mutex_);
    if (left_ == nullptr) return std::nullopt;
    return std::clamp(1 - (*left_)() / all_, 0.0, 1.0);
  }

  /// While it lives, jobs that the calling thread runs tell this one. May be nested: a part of a call has its own.
  class OfThread {
   public:
    explicit OfThread(Progress& progress) : outer_(std::exchange(of_thread(), &progress)) {}
    ~OfThread() { of_thread() = outer_; }
    OfThread(const OfThread&) = delete;
    OfThread& operator=(const OfThread&) = delete;

   private:
    Progress* outer_;
  };

  /// While it lives, left() tells how much of `all` is not done yet. @param left may be called on any thread
  class Source {
   public:
    Source(double all, std::function<double()> left) : left_(std::move(left)), progress_(of_thread()) {
      tell(all > 0 ? &left_ : nullptr, all);
    }
    ~Source() { tell(nullptr, 0); }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

   private:
    void tell(const std::function<double()>* left, double all) {
      if (progress_ == nullptr) return;
      const LockGuard lock(progress_->mutex_);
      progress_->left_ = left;
      progress_->all_ = all;
    }
    const std::function<double()> left_;
    Progress* const progress_;
  };

 private:
  static Progress*& of_thread() {
    static thread_local Progress* progress = nullptr;
    return progress;
  }

  mutable Mutex mutex_;
  const std::function<double()>* left_ TESSERA_GUARDED_BY(mutex_) = nullptr;
  double all_ TESSERA_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::runtime
