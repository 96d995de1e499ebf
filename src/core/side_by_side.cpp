#include "core/side_by_side.hpp"

#include <dlfcn.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/thread.hpp"

namespace tessera {
namespace {

/// What the threads share. A thread that the loader holds up may outlive the call, but then there is nothing left that
/// it could take.
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

  /// @pre all have ended that have a part
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
  const std::function<void(std::size_t)>& work_;  // dangles once no pieces are left and all have ended that have a part
  mutable std::mutex mutex_;                      // guards what follows
  std::size_t next_ = 0;
  std::vector<bool> busy_;  // by thread
  std::vector<std::exception_ptr> failures_;
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

}  // namespace tessera
