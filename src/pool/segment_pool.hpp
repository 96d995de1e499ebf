// A pool of large pieces of host memory, which are reused without page faults.
//
// Large memory that malloc hands out is new each time: the kernel makes and clears its pages at the first touch, which
// takes longer than most work on it. Here a segment that is freed keeps its pages for the next caller of about that
// size. Segments lie in one range of addresses that is reserved at first use, so that a comparison tells whether an
// address is the pool's. They are made of large pages where the system has such.
//
// The kernel may take the pages of free segments under pressure (MADV_FREE), also under that of a cgroup. They go back
// after some idle seconds, by a thread that lives only meanwhile. A child after fork has the segments as plain memory,
// and a pool of its own. Thread-safe; nothing throws. The lists of the pool are small, and so never the pool's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace tessera::pool {

class SegmentPool {
 public:
  /// All segments begin and end at multiples of it: a large page.
  static constexpr std::size_t unit = std::size_t{2} << 20;

  struct Limits {
    std::size_t region_bytes;                                      ///< of addresses, which cost nothing
    std::size_t most_kept_bytes;                                   ///< of free segments
    std::chrono::milliseconds patience = std::chrono::seconds(5);  ///< after which these go back
  };

  /// The process's, which is never destroyed. Limits follow its memory and TESSERA_POOL_MEMORY. nullptr: there is none, or
  /// another thread is making it just now; for ever so in a child that is forked meanwhile.
  static SegmentPool* of_process() noexcept;
  /// Whether the address is in the pool of the process; one comparison, and no pool is made for it.
  static bool owns(const void* address) noexcept;

  explicit SegmentPool(const Limits& limits);
  /// @pre all segments are free
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// Memory of at least so many bytes, aligned to `unit`; nullptr if there is none.
  /// @param zeroed all of these bytes are 0
  void* allocate(std::size_t bytes, bool zeroed = false) noexcept;
  /// @pre the address came from allocate()
  void free(void* address) noexcept;
  /// Changes the size where that is possible in place, and where not much would be left over. @return whether it was
  bool resize(void* address, std::size_t bytes) noexcept;
  /// The size for which the memory has room.
  std::size_t capacity_of(const void* address) const noexcept;
  bool has(const void* address) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin_) < bytes_;
  }

  /// Gives back all free segments.
  void trim() noexcept;
  std::size_t kept_bytes() const noexcept;
  std::size_t used_bytes() const noexcept;

  // Around a fork, in the thread that forks.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork() noexcept { mutex_.unlock(); }
  void after_fork_in_child() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Segment {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    Clock::time_point freed_at = {};
  };
  using Kept = std::multimap<std::size_t, std::unique_ptr<Segment>>;  ///< free segments by their size
  using Runs = std::map<std::size_t, std::size_t>;                    ///< units that are nobody's: first, count

  /// A used segment keeps its place in `kept_`, so that freeing it needs no memory.
  struct Used {
    Kept::node_type place;
  };

  static std::size_t capacity_for(std::size_t bytes);
  std::size_t unit_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin_) / unit;
  }
  // All with the mutex.
  std::unique_ptr<Used> take_kept(std::size_t capacity);
  std::unique_ptr<Used> make(std::size_t capacity);
  bool take_units(std::size_t first, std::size_t count);
  void give_back_units(std::size_t first, std::size_t count) noexcept;
  void release(Kept::iterator place) noexcept;
  void release_oldest() noexcept;
  Clock::time_point release_idle(Clock::time_point now) noexcept;
  void start_keeper() noexcept;
  void serve() noexcept;

  const std::size_t most_kept_bytes_;
  const std::chrono::milliseconds patience_;
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Runs runs_;
  Kept kept_;
  std::map<std::size_t, std::unique_ptr<Used>> used_;  ///< by the first unit
  std::size_t kept_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  bool has_keeper_ = false;  ///< a thread gives back what is idle
  bool ending_ = false;
};

}  // namespace tessera::pool
