// Blocks of host matrices that one device has copies of, beyond the call that brought them.
//
// A block is a rectangle of a matrix: some bytes of each of some columns. The blocks of a matrix are disjoint. A call
// may cut a matrix otherwise than the one before: a rectangle is here if blocks cover it, and then it is put together
// of them. Memory is taken from the device in segments, as blocks need it. When there is no more, the blocks go whose
// last use is longest ago.
//
// A block may be the only copy of its rectangle: host memory has older values. Such a block leaves only where others
// take the place of its bytes; what is left of it stays.
//
// A block may be lent to kernels that read it in place. Until the loan ends its memory stays as it is, also if the block
// is given up.
//
// The mirror submits nothing to the device. Its owner, the thread that submits copies, makes blocks and finds them, and
// submits copies to and from them before it makes another one. When a block is given up, its memory stays taken until
// the events have completed that `uses_end` returns when the owner asks for memory the next time.
//
// Thread-safe; functions of the owner say so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "core/scalar.hpp"
#include "device/device.hpp"
#include "heap/device_heap.hpp"

namespace tessera::residence {

using MatrixId = std::uint64_t;

/// A part of a matrix. Rows are counted in bytes.
struct Rectangle {
  index_t first_byte = 0, first_column = 0;  ///< in each column, and of the columns
  index_t column_bytes = 0, columns = 0;

  index_t end_byte() const { return first_byte + column_bytes; }
  index_t end_column() const { return first_column + columns; }
  index_t bytes() const { return column_bytes * columns; }
  bool operator==(const Rectangle&) const = default;
};
/// The bytes that both have; perhaps none.
Rectangle common_part(const Rectangle& a, const Rectangle& b);
/// `a` without `b`: disjoint rectangles, at most four.
std::vector<Rectangle> difference(const Rectangle& a, const Rectangle& b);

/// Where a part of a rectangle lies in the block that holds the rectangle.
device::Block part_of(device::Block block, const Rectangle& rectangle, const Rectangle& part);

class Mirror {
 public:
  using Events = std::vector<device::EventPtr>;

  /// The device. All functions are called with the mirror's lock held.
  struct Device {
    /// See above; called by the owner. Nothing: the device cannot say it now.
    std::function<std::optional<Events>()> uses_end;
    std::function<std::byte*(std::size_t)> take;  ///< as device::Device::take_memory()
    std::function<void(std::byte*)> free;         ///< as device::Device::free_memory()
    std::size_t most_bytes = 0;                   ///< that it takes
  };

  explicit Mirror(Device device) : device_(std::move(device)) {}

  /// A part of a rectangle, and where it lies on the device.
  struct Piece {
    Rectangle part;
    device::Block on_device;
  };
  /// The pieces of a rectangle; none if some of it is not here. Only the owner.
  std::vector<Piece> find(MatrixId matrix, const Rectangle& rectangle);
  /// The block that has this rectangle and no more, in memory of its own. Only the owner.
  /// @return nothing if there is none, or it is still being filled
  std::optional<device::LentBlock> lend(MatrixId matrix, const Rectangle& rectangle);
  /// Whether some block with a byte of the rectangle is lent.
  bool is_lent(MatrixId matrix, const Rectangle& rectangle) const;
  /// Those parts of it of which the only copy is here. They stay until they are dropped.
  std::vector<Piece> only_copies(MatrixId matrix, const Rectangle& rectangle) const;
  bool has_only_copies(MatrixId matrix) const;

  /// Makes place for a block, which is in the place of all that it overlaps from now on. Its columns are dense. Others
  /// are given up for it, but no more than it needs.
  /// @return its address; nullptr: there is no memory for it now, and the overlapped blocks are gone
  /// Only the owner.
  std::byte* make(MatrixId matrix, const Rectangle& rectangle, bool is_only_copy = false);

  /// The first half of make(): place for a block that nobody finds yet. @return as make(). Only the owner.
  std::byte* place(index_t bytes);
  /// The second half: the block at that place is in the place of all that it overlaps from now on.
  /// @param filled as of note_filling()
  void enter(MatrixId matrix, const Rectangle& rectangle, std::byte* place, bool is_only_copy,
             const device::EventPtr& filled = nullptr);
  /// Instead of the second half. Copies there may be under way. Takes no memory.
  void give_up(std::byte* place);

  /// The block in which the rectangle lies is being filled, or a part of it, until the event.
  void note_filling(MatrixId matrix, const Rectangle& rectangle, const device::EventPtr& end);
  /// The block in which the rectangle lies is written in place, and is the only copy from now on.
  void note_only_copy(MatrixId matrix, const Rectangle& rectangle);
  /// Host memory has all of the matrix again.
  void note_in_host_memory(MatrixId matrix);

  /// Gives up all blocks with some byte of the rectangle.
  void drop(MatrixId matrix, const Rectangle& rectangle);
  void drop(MatrixId matrix);
  /// Those that host memory has, too.
  void drop_copies();
  void clear();
  /// Gives up all blocks, and gives back all memory; does nothing if some are only copies. @pre nothing that used
  /// blocks is under way
  void give_back();

  std::size_t resident_bytes() const;
  /// Whether only copies take more than half of its memory.
  bool is_crowded() const;
  /// Of the rectangle.
  index_t resident_bytes(MatrixId matrix, const Rectangle& rectangle) const;
  /// Bytes of the device's memory.
  std::size_t taken_bytes() const;
  void check_invariants() const;

 private:
  struct Memory {
    std::byte* address = nullptr;
    std::size_t bytes = 0;
    int blocks = 1;  ///< that it is shared by; with the lock
    /// They end without the lock. The release at an end pairs with is_lent(), which sees that readers have read.
    std::atomic<int> loans = 0;
  };
  struct Block {
    MatrixId matrix = 0;
    Rectangle rectangle;
    device::Block on_device;
    std::shared_ptr<Memory> memory;  ///< shared by the rests of a block
    bool is_only_copy = false;
    device::EventPtr filled = nullptr;  ///< after which it is complete; nullptr: at once

    bool is_lent() const { return memory->loans.load(std::memory_order_acquire) > 0; }
    /// Where a part of it lies.
    device::Block at(const Rectangle& part) const { return part_of(on_device, rectangle, part); }
  };
  using Blocks = std::list<Block>;
  struct Retired {
    Block block;
    Events until;
  };

  std::byte* allocate(std::size_t bytes) TESSERA_REQUIRES(mutex_);
  std::byte* allocate_in_segments(std::size_t bytes) TESSERA_REQUIRES(mutex_);
  bool take_segment(std::size_t bytes) TESSERA_REQUIRES(mutex_);
  void free_small_segments(std::size_t bytes) TESSERA_REQUIRES(mutex_);
  Blocks::iterator placed_at(std::byte* place) TESSERA_REQUIRES(mutex_);
  heap::DeviceHeap& heap_of(std::byte* place) TESSERA_REQUIRES(mutex_);
  void free(Block& block) TESSERA_REQUIRES(mutex_);
  std::size_t taken() const TESSERA_REQUIRES(mutex_);
  std::size_t untaken() const TESSERA_REQUIRES(mutex_);
  std::size_t soon_free() const TESSERA_REQUIRES(mutex_);
  void drop_overlapped(MatrixId matrix, const Rectangle& rectangle) TESSERA_REQUIRES(mutex_);
  bool retire_dropped() TESSERA_REQUIRES(mutex_);
  void free_retired() TESSERA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  const Device device_;
  std::map<std::byte*, heap::DeviceHeap> segments_ TESSERA_GUARDED_BY(mutex_);  ///< by address
  Blocks blocks_ TESSERA_GUARDED_BY(mutex_);                                    ///< in order of their last use
  Blocks placed_ TESSERA_GUARDED_BY(mutex_);                                    ///< by place(): nobody finds them
  Blocks dropped_ TESSERA_GUARDED_BY(mutex_);              ///< not known to be unused from some event on
  std::list<Retired> retired_ TESSERA_GUARDED_BY(mutex_);  ///< used until their events, or until they are lent no more
};

}  // namespace tessera::residence
