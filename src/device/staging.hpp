// Pageable host memory on its way to or from a device: through a ring of page-locked slots, filled or emptied by copy threads.
//
// A device reads page-locked memory at the rate of its link, pageable memory at an eighth of it, and page-locking takes longer
// than one transfer. So a copy is cut into pieces of at most a slot; threads copy pieces between the matrix and the slots,
// which are few and so stay in the last-level cache, and the device copies between the slots and its memory. Both sides go on when a
// number in page-locked memory says so; a GPU's streams wait for and write such numbers by themselves
// (cuStreamWaitValue32, cuStreamWriteValue32), so that the copy keeps its place in the stream and nobody waits for a stream.
//
// The k-th use of a slot (from 1) is over when both numbers are k:
//   up    thread: waits for emptied == k - 1, fills the slot, filled = k.    device: waits for filled >= k, copies, emptied = k.
//   down  device: waits for emptied >= k - 1, copies, filled = k.            thread: waits for filled == k, empties it, emptied = k.
// Memory on the way up may be what an earlier copy down is to write. A thread therefore reads nothing before the stream has passed
// what it was told to wait for: it says so by a gate, a number that grows.
// Pieces are taken in the order of add(), so each waits for earlier ones only: nothing can wait in a circle, provided that
// the device gets the pieces of a ring in the same order.
//
// Nothing here knows CUDA.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "device/device.hpp"

namespace tessera::device {

/// Bytes [first, last) of some columns: what one slot carries, packed, column after column.
struct StagedPiece {
  index_t column = 0;
  index_t columns = 0;
  index_t first = 0;
  index_t last = 0;
  index_t pitch_bytes() const { return last - first; }
};

/// The pieces of a copy, none larger than a slot. Where a piece has several columns of a triangle, it has all their rows that the
/// triangle reaches, and is packed with them; only elements of the triangle are copied.
std::vector<StagedPiece> staged_pieces(Extent extent, index_t slot_bytes);

/// A part of a piece that a copy engine (or the kernel for triangles) can copy at once: `extent` at (first, column) of the block.
struct StagedPart {
  Extent extent;
  index_t column = 0;
  index_t first = 0;
};
/// The one or two parts of a piece: a rectangle, and a triangle on the diagonal.
std::vector<StagedPart> staged_parts(const StagedPiece& piece, Extent extent);

class StagingRing {
 public:
  enum class Direction : std::uint8_t { up, down };

  /// Numbers of one slot, in page-locked memory, zero at first. A line of the cache each: both sides poll.
  struct Slot {
    alignas(64) std::uint32_t filled = 0;
    alignas(64) std::uint32_t emptied = 0;
    alignas(64) std::uint32_t gate = 0;  ///< of the first slot only: the last gate that the stream has passed
  };
  /// One use of a slot.
  struct Use {
    std::size_t slot = 0;
    std::uint32_t number = 0;
  };

  /// Starts the threads. @param slots, memory page-locked, `count` of them and count * slot_bytes bytes; both outlive the ring
  /// @throws std::system_error
  StagingRing(Direction direction, Slot* slots, std::byte* memory, std::size_t count, index_t slot_bytes, int threads);
  /// @pre no device is using a slot
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  index_t slot_bytes() const { return slot_bytes_; }
  std::size_t slot_count() const { return count_; }
  Slot& slot(std::size_t index) const { return slots_[index]; }
  std::byte* memory(std::size_t index) const {
    return memory_ + static_cast<std::ptrdiff_t>(index) * static_cast<std::ptrdiff_t>(slot_bytes_);
  }

  /// A piece of a copy between `host` and the device. `host` must stay valid until the device has been told that the use is over.
  /// The caller makes the device do its part for this use, in the same order. One thread at a time.
  Use add(Block host, Extent extent, const StagedPiece& piece);

  /// What is added from now on is not read before the device has written the number of this gate. As add().
  std::uint32_t add_gate();

  /// Forgets all pieces, for good, because the device is lost. On return no thread touches the memory of any copy. What the
  /// device waits for it is told, now and after each later add(), so that it ends. Thread-safe.
  void abandon() noexcept;

 private:
  struct Job {
    Block host;
    Extent extent;
    StagedPiece piece;
    Use use;
    std::uint32_t gate = 0;
  };

  void serve();
  void carry(const Job& job);
  /// The threads' part of this use is over.
  void finish(Use use);
  /// Waits until the number is at least `value`. @return false if the ring was abandoned
  bool await(std::uint32_t& number, std::uint32_t value) const;

  Direction direction_;
  Slot* slots_;
  std::byte* memory_;
  std::size_t count_;
  index_t slot_bytes_;

  std::mutex mutex_;  // guards what follows
  std::uint64_t added_ = 0;
  std::uint32_t gates_ = 0;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int busy_ = 0;  ///< threads that carry a piece
  bool stopping_ = false;
  /// Also read without the mutex, by who waits for a number. Relaxed: what must have happened is ordered by the mutex.
  std::atomic<bool> abandoned_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace tessera::device
