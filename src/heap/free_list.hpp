// Offset arithmetic of the device heap: which parts of [0, capacity) are occupied. Touches no memory and calls no
// driver, so an allocation costs only a few host instructions (BLASX, section IV-E, Fig. 6).
//
// Invariants (checked by check_invariants, tested): The segments tile [0, capacity) in order of their offsets, without
// gap or overlap. Two neighbouring segments are never both free. `occupied_` and `empty_` name each segment exactly
// once. Not thread-safe. Called by DeviceHeap.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>

namespace tessera::heap {

class FreeList {
 public:
  static constexpr std::size_t alignment = 256;

  /// A free range of `capacity` bytes, rounded down to the alignment.
  explicit FreeList(std::size_t capacity);

  /// First fit. @return the offset of a segment of at least `bytes` (rounded up to the alignment, at least one unit),
  /// or nothing
  std::optional<std::size_t> allocate(std::size_t bytes);
  /// @throws InternalError if no segment was allocated at `offset`
  void free(std::size_t offset);

  std::size_t capacity() const { return capacity_; }
  std::size_t free_bytes() const { return free_bytes_; }
  std::size_t largest_free_bytes() const;
  std::size_t occupied_count() const { return occupied_.size(); }

  /// @throws InternalError that names the violated invariant
  void check_invariants() const;

 private:
  struct Segment {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    bool occupied = false;
  };
  using Position = std::list<Segment>::iterator;

  std::size_t capacity_ = 0;
  std::size_t free_bytes_ = 0;
  std::list<Segment> segments_;                         // the meta-data list of Fig. 6, ordered by offset
  std::unordered_map<std::size_t, Position> occupied_;  // by offset
  std::map<std::size_t, Position> empty_;               // by offset, so that first fit keeps the heap compact
};

}  // namespace tessera::heap
