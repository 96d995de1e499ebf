// Host memory with which copy engines are slow, pageable or scattered, is copied to or from a device through a ring of
// page-locked slots. Copy threads fill or empty the slots.
//
// A device reads page-locked memory at the rate of its link, and pageable memory at an eighth of it. Page-locking takes
// longer than one transfer. So a copy is divided into pieces of at most a slot. Threads copy pieces between the matrix
// and the slots, and the device copies between the slots and its memory. There are few slots, so they stay in the
// last-level cache. Several threads share a piece, so that the first piece is ready soon. Pieces may then be large,
// which matters because a device is idle for some microseconds between two pieces. Each side waits for numbers in
// page-locked memory. A GPU's streams wait for and write such numbers by themselves (cuStreamBatchMemOp). So the copy
// keeps its place in the stream, and no thread waits for a stream.
//
// The k-th use of a slot (from 1) is over when both numbers are k:
//   up    thread: waits for emptied == k - 1, fills the slot, filled = k.
//         device: waits for filled >= k, copies, emptied = k.
//   down  device: waits for emptied >= k - 1, copies, filled = k.
//         thread: waits for filled == k, empties the slot, emptied = k.
// Memory on the way up may be the target of an earlier copy down. A thread therefore reads nothing before the stream
// has passed its preceding waits. The stream reports this by a gate, a number that grows. Pieces are taken in the order
// of add(), so each waits for earlier ones only. No cycle of waits is possible, provided that the device gets the
// pieces of a ring in the same order.
//
// Nothing here depends on CUDA.
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

/// Bytes [first, last) of some columns: the contents of one slot, packed, column after column.
struct StagedPiece {
  index_t column = 0;
  index_t columns = 0;
  index_t first = 0;
  index_t last = 0;
  index_t pitch_bytes() const { return last - first; }
};

/// The pieces of a copy, none larger than a slot. A piece with several columns of a triangle has all rows that the
/// triangle reaches in them, and is packed with these rows. Only elements of the triangle are copied.
std::vector<StagedPiece> staged_pieces(Extent extent, index_t slot_bytes);
/// Likewise, but each piece is a slice of the block, as large as a slot takes. @pre can_stage_slices()
std::vector<StagedPiece> staged_slices(Extent extent, SliceKind kind, index_t slot_bytes);
/// Whether a slot has room for slices that are worth copying: a whole column, or rows whose runs are not too short.
bool can_stage_slices(Extent extent, SliceKind kind, index_t slot_bytes);

/// A part of a piece that a copy engine (or the kernel for triangles) can copy at once: `extent` at (first, column) of
/// the block.
struct StagedPart {
  Extent extent;
  index_t column = 0;
  index_t first = 0;
};
/// The one or two parts of a piece: a rectangle, and a triangle on the diagonal.
std::vector<StagedPart> staged_parts(const StagedPiece& piece, Extent extent);

/// The part of a piece that one thread carries at a time: whole columns, or a part of one. `offset`: its first byte in
/// the packed piece.
struct StagedShare {
  StagedPiece piece;
  index_t offset = 0;
};
/// A piece in shares of about that many bytes.
std::vector<StagedShare> staged_shares(const StagedPiece& piece, index_t bytes);

class StagingRing;

/// Copy threads for the rings of one device. If several rings have work, each gets a limited number of threads, so that
/// some are left for the other direction. One thread of a ring waits until the device has done its part; the others
/// sleep meanwhile.
class StagingThreads {
 public:
  /// With fewer threads two rings could block each other: a thread that waits for one ring does nothing for the other.
  static constexpr int fewest = 2;
  /// @param threads at least `fewest`; if some cannot be started the rest is used
  /// @param most_alone threads of one ring while no other has work, if that is more than its usual limit
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
  /// Of the rings with work, the one that lacks the largest part of its threads.
  StagingRing* neediest() const;

  const int most_alone_;
  std::mutex mutex_;  // guards the following members, and the jobs of all rings
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
    index_t share;  ///< carried by one thread at a time
  };

  /// The numbers of one slot, in page-locked memory, zero at first. Each has a cache line of its own: both sides poll.
  struct Slot {
    alignas(64) std::uint32_t filled = 0;
    alignas(64) std::uint32_t emptied = 0;
    alignas(64) std::uint32_t gate = 0;  ///< only in the first slot: the last gate that the stream has passed
  };
  /// One use of a slot.
  struct Use {
    std::size_t slot = 0;
    std::uint32_t number = 0;
  };

  /// @param slots, memory page-locked, `count` of them and count * sizes.slot bytes; both outlive the ring
  /// @param threads copy threads, which outlive the ring
  /// @param most threads at a time while another ring has work
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

  /// Adds a piece of a copy between `host` and the device. `host` must stay valid until the device has seen the end of
  /// the use. The caller makes the device do its part of this use, in the same order. One thread at a time.
  /// @param written down: is notified when a piece that is a slice has been written, or nullptr
  Use add(Block host, Extent extent, const StagedPiece& piece, const WrittenSlicesPtr& written = nullptr);

  /// Pieces that are added from now on are not read before the device has written the number of this gate. As add().
  std::uint32_t add_gate();

  /// Forgets all pieces permanently, because the device is lost. Slices that have begun are first written to their
  /// ends. On return no thread accesses the memory of any copy. All numbers that the device waits for are written, now
  /// and after each later add(), so that it ends. Thread-safe.
  void abandon() noexcept;

 private:
  friend class StagingThreads;
  /// Shared by the shares of a piece.
  struct Piece {
    Block host;
    Extent extent;
    Use use = {};
    std::uint32_t gate = 0;
    WrittenSlicesPtr written = nullptr;  ///< nullptr: the piece is not a slice
    index_t slice_end = 0;               ///< as WrittenSlices::end()
    std::size_t left = 0;    ///< shares that have not been carried; the threads' mutex guards it and the next member
    bool has_begun = false;  ///< a share of it is being carried, or was
  };
  struct Job {
    StagedShare share;
    std::shared_ptr<Piece> piece;
  };

  // -- with the mutex --
  bool is_in_use() const { return !jobs_.empty() || busy_ > 0; }
  /// Whether there is a share to carry, or a wait that no thread has taken. @param most threads at a time
  bool has_work(int most) const {
    return !jobs_.empty() && busy_ < most && (!somebody_waits_ || is_ready(*jobs_.front().piece));
  }
  double occupied() const { return static_cast<double>(busy_) / most_; }
  /// Carries one share, or waits for it. @param lock is released meanwhile
  void serve(std::unique_lock<std::mutex>& lock);

  /// Removes the first share, in order to carry it.
  Job take_first();
  /// Notes that a share of the piece has been carried.
  void note_carried(Piece& piece);

  /// Whether the stream has reached this copy, and the device has done its part of the slot's last use.
  bool is_ready(const Piece& piece) const;
  void await(const Piece& piece) const;
  void carry(const Job& job) const;
  /// Ends the threads' part of this use.
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
  /// A thread that waits for a number reads it without the mutex. Relaxed suffices: the mutex orders all other data.
  std::atomic<bool> abandoned_ = false;
};

}  // namespace tessera::device
