#include "core/side_by_side.hpp"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/thread.hpp"

namespace tessera {
namespace {

/// The state that the threads share. A thread that waits in the loader may outlive the call, but then no piece is left
/// for it.
class Pieces {
 public:
  Pieces(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work), busy_(count, false), failures_(count) {}

  /// @param thread its number, below that of the pieces
  void do_some(std::size_t thread) noexcept {
    while (const std::optional<std::size_t> piece = take(thread)) {
      try {
        work_(*piece);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failures_[*piece] = std::current_exception();
        next_ = count_;
      }
    }
  }

  /// @return whether the thread has taken a piece. @pre no pieces are left
  bool has_part(std::size_t thread) const {
    const std::lock_guard lock(mutex_);
    return busy_[thread];
  }

  /// @pre all threads with a part have ended
  void report() const {
    for (const std::exception_ptr& failure : failures_) {
      if (failure) std::rethrow_exception(failure);
    }
  }

 private:
  std::optional<std::size_t> take(std::size_t thread) {
    const std::lock_guard lock(mutex_);
    if (next_ >= count_) return std::nullopt;
    busy_[thread] = true;
    return next_++;
  }

  const std::size_t count_;
  const std::function<void(std::size_t)>& work_;  // dangles after all threads with a part have ended
  mutable std::mutex mutex_;                      // guards what follows
  std::size_t next_ = 0;
  std::vector<bool> busy_;  // by thread
  std::vector<std::exception_ptr> failures_;
};

/// How long the caller waits for the first thread.
constexpr std::chrono::milliseconds first_thread_patience{500};

/// Decides which of the started threads take part. A thread that waits in the loader may outlive the call. The gate
/// then does not admit it, and it touches nothing else.
class ThreadGate {
 public:
  explicit ThreadGate(std::size_t threads) : has_part_(threads, false) {}

  bool enter(std::size_t thread) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    has_part_[thread] = true;
    has_begun_ = true;
    ++inside_;
    changed_.notify_one();
    return true;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    changed_.notify_one();
  }

  /// Waits until all admitted threads have left, and admits no more.
  void close() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, first_thread_patience, [this] { return has_begun_; }))
      changed_.wait(lock, [this] { return inside_ == 0; });
    closed_ = true;
  }
  /// @pre closed
  bool had_part(std::size_t thread) const {
    const std::lock_guard lock(mutex_);
    return has_part_[thread];
  }

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<bool> has_part_;  // by thread
  bool has_begun_ = false;
  bool closed_ = false;
  int inside_ = 0;
};

}  // namespace

// dladdr() takes the lock.
void pass_loader() {
  Dl_info info{};
  static_cast<void>(dladdr(reinterpret_cast<const void*>(&pass_loader), &info));
}

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  const WithoutCancellation stays;
  const auto pieces = std::make_shared<Pieces>(count, work);
  std::vector<Thread> threads;
  threads.reserve(count);
  try {
    for (std::size_t thread = 1; thread < count; ++thread) {
      threads.push_back(start_thread([pieces, thread] {
        pass_loader();
        pieces->do_some(thread);
      }));
    }
  } catch (const std::exception&) {  // fewer threads, then
  }
  pieces->do_some(0);
  for (std::size_t t = 0; t < threads.size(); ++t) {
    pieces->has_part(t + 1) ? threads[t].join() : threads[t].detach();
  }
  pieces->report();
}

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  const auto gate = std::make_shared<ThreadGate>(count);
  std::vector<Thread> threads;
  threads.reserve(count);
  try {
    for (std::size_t thread = 0; thread < count; ++thread) {
      // `work` lives as long as an admitted thread runs.
      threads.push_back(start_thread([&work, gate, thread] {
        pass_loader();
        if (!gate->enter(thread)) return;
        work(thread);
        gate->leave();
      }));
    }
  } catch (const std::exception&) {  // the threads that have started do the work; with none nobody does
  }
  if (!threads.empty()) gate->close();
  for (std::size_t t = 0; t < threads.size(); ++t) gate->had_part(t) ? threads[t].join() : threads[t].detach();
}

}  // namespace tessera
