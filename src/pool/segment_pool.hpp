// A pool of large pieces of host memory, which are reused without page faults.
//
// Large memory that malloc hands out is new each time: the kernel makes and clears its pages at the first touch, which
// takes longer than most work on it. Here a segment that is freed keeps its pages for the next caller of about that
// size. Each segment is a mapping of its own, aligned to a large page. So limits, overcommitment and growth are the
// kernel's, as those of malloc's own large pieces are.
//
// The kernel may take the pages of kept segments under pressure (MADV_FREE), also under that of a cgroup. They go back
// after some idle seconds, by a thread. It begins when a program that has freed a piece asks for another, or when pages
// are to be locked. It lives while there are segments; without it nothing is kept. A child after fork has what is used
// as plain memory, none of the pages of what was kept, and goes on with a pool of its own. It needs no handler for that.
//
// Pages of segments that devices have used are locked by the thread (page_locking.hpp), and stay so when a segment is
// freed. Such a segment is given back by the thread alone, which unlocks it before. Its size does not change.
//
// The mutex is held for changes of lists only: never during a call of the system, of malloc or of other libraries.
// Thread-safe; nothing throws. A pointer that is no used segment's ends the process, as malloc does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "core/memory_limit.hpp"
#include "pool/child_mark.hpp"
#include "pool/page_locking.hpp"
#include "pool/segment_table.hpp"

namespace tessera::pool {

class SegmentPool final : public LockablePool {
 public:
  static constexpr std::size_t unit = SegmentTable::unit;

  struct Limits {
    std::size_t most_kept_bytes;                                   ///< of segments that nobody uses
    std::size_t most_large_bytes;                                  ///< of segments that are asked to be of large pages
    std::chrono::milliseconds patience = std::chrono::seconds(5);  ///< after which kept segments go back
    std::size_t most_locked_bytes = 0;                             ///< of segments whose pages are locked
    std::chrono::milliseconds until_locks = std::chrono::seconds(2);  ///< after a fork
    std::size_t least_available_bytes = 0;  ///< while less memory is available, nothing locked is kept
    std::size_t (*available)() = [] { return available_memory(); };
  };

  /// Makes the pool of the process, which is never destroyed; not from within malloc. Limits follow its memory and the
  /// settings (docs/memory.md).
  /// @param locks whether devices may have pages locked, unless the user says otherwise
  static void open_for_process(bool locks) noexcept;
  /// nullptr: it has not been made, or is being made by another thread; for ever so in a child that is forked meanwhile.
  static SegmentPool* of_process() noexcept;
  /// Whether the address is in the pool of the process.
  static bool owns(const void* address) noexcept;
  /// Whether a segment of it begins there. A child may have other memory at addresses that its parent has withheld.
  static bool owns_piece(const void* address) noexcept;

  explicit SegmentPool(const Limits& limits) noexcept : limits_(limits) {}
  /// @pre no segment is used
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// Memory of at least so many bytes, aligned to `unit`; nullptr if there is none.
  /// @param zeroed all of these bytes are 0; those that are new are not touched for it
  void* allocate(std::size_t bytes, bool zeroed = false) noexcept;
  void free(void* address) noexcept;
  /// Changes the size without a copy, and perhaps the address. @return the address; nullptr: nothing has changed
  /// because there is no room, or the pages are locked
  void* resize(void* address, std::size_t bytes) noexcept;
  /// The size for which the memory has room.
  std::size_t capacity_of(const void* address) const noexcept { return used_at(address).bytes; }
  /// Whether the address is in a segment.
  bool has(const void* address) const noexcept override { return table_.find(address) != nullptr; }
  bool has_all(const void* first, const void* last) const noexcept override {
    const auto* const segment = table_.find(first);
    return segment != nullptr && segment == table_.find(last);
  }

  /// Gives back all that is kept. @return whether that was anything
  bool trim() noexcept;
  std::size_t kept_bytes() const noexcept;
  std::size_t used_bytes() const noexcept;

  std::size_t locked_bytes() const noexcept override;
  void want_locked(const void* address, PageLocker& locker) noexcept override;
  void before_fork(std::chrono::milliseconds patience) noexcept override;
  void after_fork() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;

  void enter() const noexcept;
  std::unique_lock<std::mutex> lock() const noexcept;
  Segment& used_at(const void* address) const noexcept;
  bool may_keep(const Segment& segment) const noexcept;
  Segment* take_kept(std::size_t capacity) noexcept;
  Segment* make(std::size_t capacity) noexcept;
  bool grow(Segment& segment, std::size_t capacity) noexcept;
  Segment* move(Segment& segment, std::size_t capacity) noexcept;
  void shrink(Segment& segment, std::size_t capacity) noexcept;
  void ask_for_large_pages(Segment& segment) noexcept;
  void bound_large_pages(Segment& segment, std::size_t more) noexcept;
  void release(Segment& segment) noexcept;
  void release_all(Segment* chain) noexcept;
  void add_used(std::ptrdiff_t bytes) noexcept;
  void leave_parent() noexcept;
  // With the mutex:
  void push_newest(Segment& segment) noexcept;
  void unlink(Segment& segment) noexcept;
  Segment* take_locked_kept() noexcept;
  template <class Which>
  Segment* take_oldest(Which which) noexcept;
  // The thread that gives back what is idle.
  void ensure_keeper() noexcept;
  void serve() noexcept;
  // Page-locking (segment_locks.cpp):
  bool may_lock() const noexcept { return limits_.most_locked_bytes > 0; }
  bool has_locked_pages(const Segment& segment) const noexcept;
  bool leave_unlocked(Segment& segment) noexcept;
  bool leave_to_keeper(Segment& segment) noexcept;
  void recall_wanted(const Segment& segment) noexcept;
  void await_leaving() noexcept;
  void lock_one() noexcept;
  void forget_locks() noexcept;
  bool is_memory_short() const noexcept;
  // With the mutex, which they let go of meanwhile:
  bool serve_locks(std::unique_lock<std::mutex>& held) noexcept;
  void unlock_used(std::unique_lock<std::mutex>& held) noexcept;
  void change_lock(Segment& segment, Segment::Lock wanted, std::unique_lock<std::mutex>& held) noexcept;

  const Limits limits_;
  const ChildMark mark_;
  SegmentTable table_;
  std::atomic<std::size_t> large_bytes_ = 0;
  std::atomic<bool> has_keeper_ = false;
  std::atomic<bool> has_freed_ = false;  ///< a segment

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Segment* oldest_ = nullptr;
  Segment* newest_ = nullptr;
  std::size_t kept_ = 0;  ///< their number
  std::size_t kept_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  Clock::time_point no_keeper_until_ = {};  ///< none could be started
  bool keeper_sleeps_ = false;              ///< until it is called
  bool ending_ = false;

  PageLocker* locker_ = nullptr;
  Segment* leaving_ = nullptr;  ///< locked ones that are to be given back, linked by `newer`
  std::size_t locked_bytes_ = 0;
  bool has_wanted_ = false;   ///< some segment may have Lock::wanted
  bool is_changing_ = false;  ///< some segment has Lock::changing
  bool fork_waits_ = false;   ///< until no used segment is locked
  bool is_leaving_ = false;   ///< the keeper gives back one of those
  int bars_ = 0;              ///< forks under way: the keeper changes no lock
  Clock::time_point no_locks_until_ = {};
};

}  // namespace tessera::pool
