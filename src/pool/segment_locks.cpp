// Page-locking of a SegmentPool's segments. The pool's thread alone changes locks, one after the other and without the
// mutex. Such a segment may be freed meanwhile, but not given back: leave_to_keeper() leaves that to the thread.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "pool/segment_pool.hpp"

namespace tessera::pool {
namespace {

using Lock = Segment::Lock;
using State = Segment::State;

/// Locking makes all pages. A segment of which the program has touched little stays as it is. Its size may be up to a
/// unit, or an eighth, more than the program has asked for.
bool is_mostly_there(std::byte* begin, std::size_t bytes) {
  constexpr std::size_t piece_bytes = std::size_t{32} << 20;
  static const std::size_t page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::array<unsigned char, piece_bytes / 4096> pages;  // no machine has smaller ones
  std::size_t there_bytes = 0;
  for (std::size_t at = 0; at < bytes; at += piece_bytes) {
    const std::size_t piece = std::min(bytes - at, piece_bytes);
    if (mincore(begin + at, piece, pages.data()) != 0) return false;
    for (std::size_t page = 0; page < piece / page_bytes; ++page) there_bytes += (pages[page] & 1) * page_bytes;
  }
  return there_bytes + std::max(bytes / 8, SegmentPool::unit) >= bytes;
}

bool is_held(const Segment& segment) { return segment.lock == Lock::changing || segment.lock == Lock::locked; }

}  // namespace

std::size_t SegmentPool::locked_bytes() const noexcept {
  const std::unique_lock held = lock();
  return locked_bytes_;
}

bool SegmentPool::has_locked_pages(const Segment& segment) const noexcept {
  if (!may_lock()) return false;
  const std::unique_lock held = lock();
  return is_held(segment);
}

void SegmentPool::want_locked(const void* address, PageLocker& locker) noexcept {
  Segment* const segment = table_.find(address);
  if (segment == nullptr || !may_lock()) return;
  {
    const std::unique_lock held = lock();
    if (locker_ == nullptr) locker_ = &locker;
    if (segment->lock != Lock::none || segment->state.load() != State::used) return;
    segment->lock = Lock::wanted;
    has_wanted_ = true;
  }
  ensure_keeper();
  changed_.notify_all();
}

// Of what is kept, a child has nothing, so nothing of it is copied.
void SegmentPool::before_fork(std::chrono::milliseconds patience) noexcept {
  std::unique_lock held = lock();
  ++bars_;
  if (locked_bytes_ == 0 && !is_changing_) return;
  fork_waits_ = true;
  changed_.notify_all();
  changed_.wait_for(held, patience, [this] { return !fork_waits_; });
}

/// The keeper's part of it: a driver may wait for kernels that end only after the fork.
void SegmentPool::unlock_used(std::unique_lock<std::mutex>& held) noexcept {
  table_.for_each([&](Segment& segment) {
    if (segment.lock == Lock::locked && segment.state.load() == State::used) change_lock(segment, Lock::none, held);
  });
  fork_waits_ = false;
  changed_.notify_all();
}

void SegmentPool::after_fork() noexcept {
  const std::unique_lock held = lock();
  --bars_;
  no_locks_until_ = Clock::now() + limits_.until_locks;
  changed_.notify_all();
}

/// In a child, whose memory is not locked.
void SegmentPool::forget_locks() noexcept {
  locker_ = nullptr;
  leaving_ = nullptr;
  locked_bytes_ = 0;
  bars_ = 0;
  has_wanted_ = is_changing_ = fork_waits_ = false;
}

/// Before the size changes. @return false: the pages are locked
bool SegmentPool::leave_unlocked(Segment& segment) noexcept {
  const std::unique_lock held = lock();
  if (is_held(segment)) return false;
  segment.lock = Lock::none;
  return true;
}

/// Before a segment is given back. @return whether the keeper will do it, once the pages are unlocked
bool SegmentPool::leave_to_keeper(Segment& segment) noexcept {
  if (!may_lock()) return false;
  const std::unique_lock held(mutex_);  // lock() would wait here for a child's first call, which may be this one
  if (!is_held(segment)) {
    segment.lock = Lock::none;
    return false;
  }
  segment.newer = leaving_;
  leaving_ = &segment;
  changed_.notify_all();
  return true;
}

/// Waits until the keeper has given back what is left to it; not for long, since the keeper may wait for the caller.
void SegmentPool::await_leaving() noexcept {
  constexpr std::chrono::milliseconds patience{200};
  if (!may_lock()) return;
  std::unique_lock held = lock();
  changed_.wait_for(held, patience, [this] { return leaving_ == nullptr && !is_leaving_; });
}

/// By the keeper. Lets go of the mutex meanwhile.
void SegmentPool::change_lock(Segment& segment, Lock wanted, std::unique_lock<std::mutex>& held) noexcept {
  PageLocker& locker = *locker_;
  const Lock before = std::exchange(segment.lock, Lock::changing);
  is_changing_ = true;
  held.unlock();
  const bool succeeds =
      wanted == Lock::none ? locker.unlock(segment.begin, segment.bytes)
                           : is_mostly_there(segment.begin, segment.bytes) && locker.lock(segment.begin, segment.bytes);
  held.lock();
  is_changing_ = false;
  segment.lock = succeeds ? wanted : before == Lock::locked ? Lock::locked : Lock::none;
  if (succeeds) locked_bytes_ += wanted == Lock::locked ? segment.bytes : -segment.bytes;
  changed_.notify_all();
  // It was freed meanwhile, and is none that the kernel may take.
  if (segment.lock == Lock::none && segment.state.load() == State::kept) {
    unlink(segment);
    held.unlock();
    release(segment);
    held.lock();
  }
}

/// The keeper's part. @return whether there was anything to do
bool SegmentPool::serve_locks(std::unique_lock<std::mutex>& held) noexcept {
  if (fork_waits_) {
    unlock_used(held);
    return true;
  }
  if (bars_ > 0) return false;
  if (leaving_ != nullptr) {
    Segment& segment = *std::exchange(leaving_, leaving_->newer);
    is_leaving_ = true;
    if (segment.lock == Lock::locked) change_lock(segment, Lock::none, held);
    if (segment.lock != Lock::locked) {  // else its addresses stay taken for ever
      held.unlock();
      release(segment);
      held.lock();
    }
    is_leaving_ = false;
    changed_.notify_all();
    return true;
  }
  if (!std::exchange(has_wanted_, false)) return false;
  held.unlock();
  lock_one();
  held.lock();
  return true;
}

/// Of a segment that is used again: it may have been freed before the keeper came to it.
void SegmentPool::recall_wanted(const Segment& segment) noexcept {
  if (!may_lock()) return;
  const std::unique_lock held = lock();
  if (segment.lock != Lock::wanted) return;
  has_wanted_ = true;
  changed_.notify_all();
}

/// By the keeper. A segment that has been freed since it was wanted waits for its next use.
void SegmentPool::lock_one() noexcept {
  const bool is_short = is_memory_short();
  bool has_one = false;
  table_.for_each([&](Segment& segment) {
    std::unique_lock held = lock();
    if (segment.lock != Lock::wanted || segment.state.load() != State::used) return;
    if (is_short || bars_ > 0 || Clock::now() < no_locks_until_ ||
        locked_bytes_ + segment.bytes > limits_.most_locked_bytes) {
      segment.lock = Lock::none;
    } else if (has_one) {
      has_wanted_ = true;  // later
    } else {
      has_one = true;
      change_lock(segment, Lock::locked, held);
    }
  });
}

/// Kept segments whose pages the kernel cannot take. @return a chain of them, linked by `newer`
Segment* SegmentPool::take_locked_kept() noexcept {
  Segment* chain = nullptr;
  for (Segment* segment = oldest_; segment != nullptr;) {
    Segment* const next = segment->newer;
    if (is_held(*segment)) {
      unlink(*segment);
      segment->newer = chain;
      chain = segment;
    }
    segment = next;
  }
  return chain;
}

bool SegmentPool::is_memory_short() const noexcept {
  try {
    return limits_.available() < limits_.least_available_bytes;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace tessera::pool
