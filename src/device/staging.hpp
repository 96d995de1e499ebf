// Host memory that copy engines are slow with, pageable or scattered, on its way to or from a device: through a ring
// of page-locked slots, filled or emptied by copy threads.
//
// A device reads page-locked memory at the rate of its link, pageable memory at an eighth of it, and page-locking
// takes longer than one transfer. So a copy is cut into pieces of at most a slot; threads copy pieces between the
// matrix and the slots, which are few and so stay in the last-level cache, and the device copies between the slots and
// its memory. Several threads share a piece, so that the first one is there soon and pieces may be large: a device is
// idle for some microseconds between two of them. Both sides go on when a number in page-locked memory says so; a
// GPU's streams wait for and write such numbers by themselves (cuStreamBatchMemOp), so that the
// copy keeps its place in the stream and nobody waits for a stream.
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
#include <memory>
#include <mutex>
#include <vector>

#include "core/thread.hpp"
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
/// Likewise, but each piece is a slice of the block, as large as a slot takes. @pre can_stage_slices()
std::vector<StagedPiece> staged_slices(Extent extent, SliceKind kind, index_t slot_bytes);
/// Whether a slot takes slices that are worth copying: a column, or rows enough that what lies together is not too short.
bool can_stage_slices(Extent extent, SliceKind kind, index_t slot_bytes);

/// A part of a piece that a copy engine (or the kernel for triangles) can copy at once: `extent` at (first, column) of the block.
struct StagedPart {
  Extent extent;
  index_t column = 0;
  index_t first = 0;
};
/// The one or two parts of a piece: a rectangle, and a triangle on the diagonal.
std::vector<StagedPart> staged_parts(const StagedPiece& piece, Extent extent);

/// What one thread carries of a piece at a time: whole columns, or a part of one. `offset` of its first byte in the piece, packed.
struct StagedShare {
  StagedPiece piece;
  index_t offset = 0;
};
/// A piece in shares of about that many bytes.
std::vector<StagedShare> staged_shares(const StagedPiece& piece, index_t bytes);

class StagingRing;

/// Threads that carry for rings, all of one device. Where several rings have something to carry, each gets some of them at most,
/// so that something is left for the other direction. One of a ring's threads waits until the device has done its part; the others
/// sleep meanwhile.
class StagingThreads {
 public:
  /// With fewer two rings would wait for each other: one thread that waits for one of them does nothing for the other.
  static constexpr int fewest = 2;
  /// @param threads at least `fewest`; where some cannot be started the others do
  /// @param most_alone that one ring may have at a time while no other has anything to carry, if that is more than it has then
  /// @throws std::system_error if fewer than `fewest` can be started
  StagingThreads(int threads, int most_alone);
  /// @pre there are no rings
  ~StagingThreads();
  StagingThreads(const StagingThreads&) = delete;
  StagingThreads& operator=(const StagingThreads&) = delete;

 private:
  friend class StagingRing;
  void serve();
  void stop() noexcept;
  /// The ring that is furthest from having all of its threads, of those that have something to carry.
  StagingRing* neediest() const;

  const int most_alone_;
  std::mutex mutex_;  // guards what follows, and the jobs of all rings
  std::condition_variable changed_;
  std::vector<StagingRing*> rings_;
  bool stopping_ = false;

  std::vector<Thread> threads_;
};

class StagingRing {
 public:
  enum class Direction : std::uint8_t { up, down };
  /// In bytes, at least 1.
  struct Sizes {
    index_t slot;
    index_t share;  ///< what one thread carries at a time
  };

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

  /// @param slots, memory page-locked, `count` of them and count * sizes.slot bytes; both outlive the ring
  /// @param threads that carry; outlive the ring. @param most of them at a time, while another ring has something to carry
  StagingRing(Direction direction, Slot* slots, std::byte* memory, std::size_t count, Sizes sizes,
              StagingThreads& threads, int most);
  /// @pre no device is using a slot
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  index_t slot_bytes() const { return sizes_.slot; }
  std::size_t slot_count() const { return count_; }
  Slot& slot(std::size_t index) const { return slots_[index]; }
  std::byte* memory(std::size_t index) const {
    return memory_ + static_cast<std::ptrdiff_t>(index) * static_cast<std::ptrdiff_t>(sizes_.slot);
  }

  /// A piece of a copy between `host` and the device. `host` must stay valid until the device has been told that the use is over.
  /// The caller makes the device do its part for this use, in the same order. One thread at a time.
  /// @param written down: what is told when a piece that is a slice has been written, or nullptr
  Use add(Block host, Extent extent, const StagedPiece& piece, const WrittenSlicesPtr& written = nullptr);

  /// What is added from now on is not read before the device has written the number of this gate. As add().
  std::uint32_t add_gate();

  /// Forgets all pieces, for good, because the device is lost; slices that have begun to be written are first written to their
  /// ends. On return no thread touches the memory of any copy. What the device waits for it is told, now and after each later
  /// add(), so that it ends. Thread-safe.
  void abandon() noexcept;

 private:
  friend class StagingThreads;
  /// What the shares of a piece have in common.
  struct Piece {
    Block host;
    Extent extent;
    Use use = {};
    std::uint32_t gate = 0;
    WrittenSlicesPtr written = nullptr;  ///< nullptr: it is no slice
    index_t slice_end = 0;               ///< as WrittenSlices::end()
    std::size_t left = 0;    ///< shares that have not been carried; guarded by the threads' mutex, as is the next
    bool has_begun = false;  ///< to be carried
  };
  struct Job {
    StagedShare share;
    std::shared_ptr<Piece> piece;
  };

  // -- with the mutex --
  bool is_in_use() const { return !jobs_.empty() || busy_ > 0; }
  /// Something that can be carried, or that nobody waits for yet. @param most threads at a time
  bool has_work(int most) const {
    return !jobs_.empty() && busy_ < most && (!somebody_waits_ || is_ready(*jobs_.front().piece));
  }
  double occupied() const { return static_cast<double>(busy_) / most_; }
  /// One share, or the wait for it. @param lock is released meanwhile
  void serve(std::unique_lock<std::mutex>& lock);

  /// The first share, which will be carried.
  Job take_first();
  /// It has been.
  void note_carried(Piece& piece);

  /// Whether the stream has come to this copy, and the device has done its part of the slot's last use.
  bool is_ready(const Piece& piece) const;
  void await(const Piece& piece) const;
  void carry(const Job& job) const;
  /// The threads' part of this use is over.
  void finish(Use use);

  Direction direction_;
  Slot* slots_;
  std::byte* memory_;
  std::size_t count_;
  Sizes sizes_;
  StagingThreads& threads_;
  int most_;

  // Guarded by the threads' mutex.
  std::uint64_t added_ = 0;
  std::uint32_t gates_ = 0;
  std::deque<Job> jobs_;
  int busy_ = 0;  ///< threads that carry a share or wait for one
  bool somebody_waits_ = false;
  /// Also read without the mutex, by who waits for a number. Relaxed: what must have happened is ordered by the mutex.
  std::atomic<bool> abandoned_ = false;
};

}  // namespace tessera::device
