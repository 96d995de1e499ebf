// The heap of one device: a slab reserved once, cut into segments by a FreeList. Never calls the driver.
// Not thread-safe: the tile cache, its only caller, holds its lock. Source: BLASX, section IV-E, Fig. 6.
#pragma once

#include <cstddef>

#include "heap/free_list.hpp"

namespace tessera::heap {

class DeviceHeap {
 public:
  /// `slab`: device address of `bytes` bytes, owned by the device, aligned to FreeList::alignment.
  DeviceHeap(std::byte* slab, std::size_t bytes) : slab_(slab), segments_(bytes) {}

  /// @return device address of a segment of at least `bytes`, or nullptr if no free segment is large enough
  std::byte* allocate(std::size_t bytes) {
    const auto offset = segments_.allocate(bytes);
    return offset ? slab_ + *offset : nullptr;
  }
  /// @throws InternalError if `segment` was not allocated
  void free(std::byte* segment) { segments_.free(static_cast<std::size_t>(segment - slab_)); }

  std::size_t capacity() const { return segments_.capacity(); }
  std::size_t free_bytes() const { return segments_.free_bytes(); }
  std::size_t occupied_count() const { return segments_.occupied_count(); }
  void check_invariants() const { segments_.check_invariants(); }

 private:
  std::byte* slab_;
  FreeList segments_;
};

}  // namespace tessera::heap
