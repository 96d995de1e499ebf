// Page-locking of a SegmentPool's segments. One lock is changed at a time, without the mutex, and only of a segment that
// cannot be given back meanwhile: leave_to_keeper() leaves those to the thread that gives back what is idle.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/memory_limit.hpp"
#include "pool/segment_pool.hpp"

namespace tessera::pool {
namespace {

using Lock = Segment::Lock;
using State = Segment::State;

/// Locking makes all pages. A segment of which the program has touched little stays as it is.
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
  return there_bytes >= bytes / 8 * 7;
}

bool is_held(const Segment& segment) { return segment.lock == Lock::changing || segment.lock == Lock::locked; }

}  // namespace

std::size_t SegmentPool::locked_bytes() const noexcept {
  const std::unique_lock held = lock();
  return locked_bytes_;
}

bool SegmentPool::has_locked_pages(const Segment& segment) const noexcept {
  const std::unique_lock held = lock();
  return is_held(segment);
}

void SegmentPool::want_locked(const void* address, PageLocker& locker) noexcept {
  Segment* const segment = table_.find(address);
  if (segment == nullptr || limits_.most_locked_bytes == 0) return;
  {
    const std::unique_lock held = lock();
    if (locker_ == nullptr) locker_ = &locker;
    if (locker_ != &locker || segment->lock != Lock::none || segment->state.load() != State::used) return;
    segment->lock = Lock::wanted;
    has_wanted_ = true;
  }
  ensure_keeper();
  changed_.notify_all();
}

void SegmentPool::forget(PageLocker& locker) noexcept {
  std::unique_lock held = lock();
  if (locker_ != &locker) return;
  const bool were_barred = std::exchange(locks_barred_, true);
  changed_.wait(held, [this] { return !is_changing_; });
  unlock_all([](const Segment&) { return true; }, held);
  locker_ = nullptr;
  locks_barred_ = were_barred;
  changed_.notify_all();
}

void SegmentPool::before_fork(std::chrono::milliseconds patience) noexcept {
  std::unique_lock held = lock();
  locks_barred_ = true;
  // Those that are kept are wiped in the child: nothing of them is copied.
  if (changed_.wait_for(held, patience, [this] { return !is_changing_; }))
    unlock_all([](const Segment& segment) { return segment.state.load() != State::kept; }, held);
}

void SegmentPool::after_fork() noexcept {
  const std::unique_lock held = lock();
  locks_barred_ = false;
  no_locks_until_ = Clock::now() + limits_.until_locks;
  changed_.notify_all();
}

/// In a child, whose memory is not locked. The mutex is new.
void SegmentPool::forget_locks() noexcept {
  locker_ = nullptr;
  leaving_ = nullptr;
  locked_bytes_ = 0;
  has_wanted_ = is_changing_ = locks_barred_ = false;
}

/// @return false: its pages are locked
bool SegmentPool::leave_unlocked(Segment& segment) noexcept {
  const std::unique_lock held = lock();
  if (is_held(segment)) return false;
  segment.lock = Lock::none;
  return true;
}

/// Before a segment is given back. @return whether the keeper will do it, once the pages are unlocked
bool SegmentPool::leave_to_keeper(Segment& segment) noexcept {
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

/// @pre its lock is another one, and none is being changed
void SegmentPool::change_lock(Segment& segment, Lock wanted, std::unique_lock<std::mutex>& held) noexcept {
  PageLocker* const locker = locker_;
  const Lock before = std::exchange(segment.lock, Lock::changing);
  is_changing_ = true;
  held.unlock();
  bool succeeds = locker != nullptr;
  if (succeeds && wanted == Lock::locked)
    succeeds = is_mostly_there(segment.begin, segment.bytes) && locker->lock(segment.begin, segment.bytes);
  if (succeeds && wanted == Lock::none) succeeds = locker->unlock(segment.begin, segment.bytes);
  held.lock();
  is_changing_ = false;
  segment.lock = succeeds ? wanted : before == Lock::locked ? Lock::locked : Lock::none;
  if (succeeds) locked_bytes_ += wanted == Lock::locked ? segment.bytes : -segment.bytes;
  changed_.notify_all();
}

template <class Which>
void SegmentPool::unlock_all(Which which, std::unique_lock<std::mutex>& held) noexcept {
  table_.for_each([&](Segment& segment) {
    if (segment.lock == Lock::locked && which(segment)) change_lock(segment, Lock::none, held);
  });
}

/// The keeper's part. @return whether there was anything to do
bool SegmentPool::serve_locks(std::unique_lock<std::mutex>& held) noexcept {
  if (is_changing_ || locks_barred_) return false;
  if (leaving_ != nullptr) {
    Segment& segment = *std::exchange(leaving_, leaving_->newer);
    if (segment.lock == Lock::locked) change_lock(segment, Lock::none, held);
    if (segment.lock == Lock::locked) return true;  // it cannot be unlocked: its addresses stay taken
    held.unlock();
    release(segment);
    held.lock();
    return true;
  }
  if (!std::exchange(has_wanted_, false)) return false;
  held.unlock();
  lock_wanted();
  held.lock();
  return true;
}

/// Of a segment that is used again: it may have been freed before its lock came.
void SegmentPool::recall_wanted(const Segment& segment) noexcept {
  const std::unique_lock held = lock();
  if (segment.lock != Lock::wanted) return;
  has_wanted_ = true;
  changed_.notify_all();
}

/// By the keeper. A segment that is freed meanwhile waits for its next use.
void SegmentPool::lock_wanted() noexcept {
  table_.for_each([this](Segment& segment) {
    std::unique_lock held = lock();
    if (segment.lock != Lock::wanted || segment.state.load() != State::used) return;
    const bool is_barred = is_changing_ || locks_barred_ || Clock::now() < no_locks_until_;
    if (is_barred || locked_bytes_ + segment.bytes > limits_.most_locked_bytes)
      segment.lock = Lock::none;
    else
      change_lock(segment, Lock::locked, held);
  });
}

bool SegmentPool::is_memory_short() const noexcept {
  try {
    return available_memory() < limits_.least_available_bytes;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

}  // namespace tessera::pool
