// The parts of a copy on a host device: the columns of a block, and slices of it.
#pragma once

#include <cstddef>
#include <cstring>

#include "device/device.hpp"

namespace tessera::device {

/// The first half of a copy, rounded down: of its slices if it has slices, else of its columns.
inline Extent half_of(Extent extent, const WrittenSlicesPtr& written) {
  if (written && written->kind() == SliceKind::rows) {
    extent.column_bytes = extent.column_bytes / extent.element_bytes / 2 * extent.element_bytes;
  } else {
    extent.columns /= 2;
  }
  return extent;
}

/// Notes that all of them have been written.
inline void note(const WrittenSlicesPtr& written, Extent extent) {
  if (written) written->note(written->kind() == SliceKind::rows ? extent.column_bytes : extent.columns);
}

inline void copy_columns(Block to, Block from, Extent extent) {
  if (extent.column_bytes == 0 || extent.columns == 0) return;
  const bool is_contiguous = to.pitch_bytes == extent.column_bytes && from.pitch_bytes == extent.column_bytes;
  if (is_contiguous && extent.part == Part::full) {
    std::memcpy(to.address, from.address, static_cast<std::size_t>(extent.bytes()));
    return;
  }
  for (index_t j = 0; j < extent.columns; ++j) {
    const index_t first = extent.first_byte(j);
    std::memcpy(to.address + j * to.pitch_bytes + first, from.address + j * from.pitch_bytes + first,
                static_cast<std::size_t>(extent.last_byte(j) - first));
  }
}

}  // namespace tessera::device
