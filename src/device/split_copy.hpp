// Copies a block in as few pieces as the copy engine accepts. Pure control flow. The CUDA backend needs it: one copy
// may neither exceed the pitch limit nor cross the edge of page-locked memory. (An application may have page-locked a
// part of a matrix.)
#pragma once

#include "device/device.hpp"

namespace tessera::device {

/// Calls `copy(to, from, extent)` for the whole block. If that returns false, calls it for the two halves, first by
/// columns and then within a column. One edge inside the block thus costs about 2 * log2(bytes) calls.
/// @return false if a single byte was refused; pieces before it have then been copied
template <class Copy>
bool copy_in_pieces(Copy& copy, Block to, Block from, Extent extent) {
  if (extent.columns <= 0 || extent.column_bytes <= 0) return true;
  if (copy(to, from, extent)) return true;
  if (extent.columns > 1) {
    const index_t left = extent.columns / 2;
    return copy_in_pieces(copy, to, from, {extent.column_bytes, left}) &&
           copy_in_pieces(copy, {to.address + left * to.pitch_bytes, to.pitch_bytes},
                          {from.address + left * from.pitch_bytes, from.pitch_bytes},
                          {extent.column_bytes, extent.columns - left});
  }
  if (extent.column_bytes > 1) {
    const index_t upper = extent.column_bytes / 2;
    return copy_in_pieces(copy, to, from, {upper, 1}) &&
           copy_in_pieces(copy, {to.address + upper, to.pitch_bytes}, {from.address + upper, from.pitch_bytes},
                          {extent.column_bytes - upper, 1});
  }
  return false;
}

}  // namespace tessera::device
