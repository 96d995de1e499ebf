// Which segment an address belongs to: a table of two levels, read without locks.
//
// Addresses are divided into units. Each has an entry, of which the segment that begins there uses all fields, and the
// others only `first`. Entries never move and never go, so that a reader needs no lock. They are made, by the kernel,
// when they are first touched.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tessera::pool {

struct alignas(64) Segment {
  enum class State : std::uint8_t {
    changing,  ///< in the hands of a thread of the pool
    used,      ///< the program's
    kept,      ///< in the list of those that wait for the next caller
  };
  /// Of its pages.
  enum class Lock : std::uint8_t {
    none,
    wanted,    ///< devices have used it
    changing,  ///< in the hands of a thread that locks or unlocks it
    locked,
  };

  std::atomic<Segment*> first = nullptr;  ///< the segment that has this unit; nullptr: nobody
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::atomic<State> state = State::changing;
  bool is_large = false;  ///< asked to be of large pages
  // With the pool's mutex:
  Lock lock = Lock::none;
  // Of a kept one:
  std::chrono::steady_clock::time_point freed_at = {};
  Segment* older = nullptr;
  Segment* newer = nullptr;
};

class SegmentTable {
 public:
  /// All segments begin and end at multiples of it: a large page.
  static constexpr std::size_t unit = std::size_t{2} << 20;
  /// Linux gives no others to those that do not ask for them.
  static constexpr std::size_t most_address_bits = 47;

  SegmentTable() = default;
  ~SegmentTable() {
    for (std::atomic<Segment*>& leaf : leaves_) {
      if (Segment* const entries = leaf.load(std::memory_order_relaxed)) munmap(entries, leaf_bytes);
    }
  }
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  /// The segment to which the address belongs, or nullptr.
  Segment* find(const void* address) const noexcept {
    const Segment* const entry = entry_at(address);
    return entry != nullptr ? entry->first.load(std::memory_order_acquire) : nullptr;
  }

  /// The entry for a segment that is to begin there. nullptr: no memory, or addresses that have no entries
  Segment* make_entries(const std::byte* begin, std::size_t bytes) noexcept {
    for (std::size_t at = 0; at < bytes; at += leaf_span) {
      if (!make_leaf(begin + at)) return nullptr;
    }
    if (!make_leaf(begin + bytes - unit)) return nullptr;
    Segment* const entry = entry_at(begin);
    static_cast<void>(
        entry->first.load(std::memory_order_acquire));  // pairs with remove(): its former segment has left
    return entry;
  }
  /// Declares these units part of a segment whose fields are set. @pre they have entries
  void enter(Segment& segment, const std::byte* begin, std::size_t bytes) noexcept { set(begin, bytes, &segment); }
  void remove(const std::byte* begin, std::size_t bytes) noexcept { set(begin, bytes, nullptr); }

  /// Of all segments. `visit` may remove the one it is given.
  template <class Visit>
  void for_each(Visit visit) noexcept {
    for (std::atomic<Segment*>& leaf : leaves_) {
      Segment* const entries = leaf.load(std::memory_order_acquire);
      for (std::size_t i = 0; entries != nullptr && i < entries_of_leaf; ++i) {
        if (entries[i].first.load(std::memory_order_acquire) == &entries[i]) visit(entries[i]);
      }
    }
  }

 private:
  static constexpr std::size_t entries_of_leaf = 4096;
  static constexpr std::size_t leaf_bytes = entries_of_leaf * sizeof(Segment);
  static constexpr std::size_t leaf_span = entries_of_leaf * unit;

  static std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
  static bool has_entry(const void* address) { return number_of(address) >> most_address_bits == 0; }

  Segment* entry_at(const void* address) const noexcept {
    if (!has_entry(address)) return nullptr;
    Segment* const entries = leaves_[number_of(address) / leaf_span].load(std::memory_order_acquire);
    return entries != nullptr ? &entries[number_of(address) / unit % entries_of_leaf] : nullptr;
  }
  // Zeroed memory is a leaf of entries that are nobody's.
  bool make_leaf(const void* address) noexcept {
    if (!has_entry(address)) return false;
    std::atomic<Segment*>& leaf = leaves_[number_of(address) / leaf_span];
    if (leaf.load(std::memory_order_acquire) != nullptr) return true;
    void* const made = mmap(nullptr, leaf_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return false;
    Segment* nobodys = nullptr;
    if (!leaf.compare_exchange_strong(nobodys, static_cast<Segment*>(made))) munmap(made, leaf_bytes);
    return true;
  }
  // The entry of the segment itself comes last, and goes first.
  void set(const std::byte* begin, std::size_t bytes, Segment* segment) noexcept {
    if (segment == nullptr) entry_at(begin)->first.store(nullptr, std::memory_order_release);
    for (std::size_t at = bytes; at > 0; at -= unit)
      entry_at(begin + at - unit)->first.store(segment, std::memory_order_release);
  }

  std::array<std::atomic<Segment*>, (std::size_t{1} << most_address_bits) / leaf_span> leaves_ = {};
};

}  // namespace tessera::pool
