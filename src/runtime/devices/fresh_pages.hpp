// Pages of memory that a job only writes, made while nothing has come down yet.
//
// Memory that a program has just allocated has no pages. Each is made when it is first written, one after the other by
// the threads that carry results, which takes longer than the results take on the link. Threads of their own make the
// pages ahead, with MADV_POPULATE_WRITE (Linux 5.14; before that nothing is made). Nothing else changes: only pages
// whose every run of bytes between two gaps of a page the job writes are made, and their contents stay. Where pages
// cannot be made, whoever writes first makes them, or fails, as without this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/thread.hpp"
#include "device/device.hpp"

namespace tessera::runtime {

/// A part of a matrix that a job writes.
struct WrittenArea {
  device::Block block;
  device::Extent extent;
};

/// Whole pages.
struct Pages {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool operator==(const Pages&) const = default;
};

/// The pages that lie inside the bytes of the area: of all columns together where the gaps between them are shorter than
/// a page, else of each. In pieces of at most so many bytes, a multiple of a page, that end at multiples of that.
std::vector<Pages> pages_inside(const WrittenArea& area, std::size_t page_bytes, std::size_t piece_bytes);

class FreshPages {
 public:
  /// Looks at some pages of each area and, where some are missing, starts threads that make them. Takes microseconds.
  /// @param most_threads at least 1 @pre the areas stay allocated while this lives
  FreshPages(std::span<const WrittenArea> areas, int most_threads) noexcept;
  /// Stops, and waits for what a thread has begun: a millisecond at most.
  ~FreshPages();
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  /// Waits until all pages are made, or cannot be.
  void wait();
  /// Of the pages that were made, or were there. Thread-safe.
  std::int64_t bytes() const { return made_bytes_.load(std::memory_order_relaxed); }

 private:
  void make();

  std::vector<Pages> pieces_;
  std::vector<Thread> threads_;
  // They order nothing: the pages are the kernel's.
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> made_bytes_ = 0;
};

}  // namespace tessera::runtime
