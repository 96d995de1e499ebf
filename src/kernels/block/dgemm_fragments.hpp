// Where dgemm.cu keeps the elements of a block of C = alpha op(A) op(B) + beta C, and which thread takes which of them.
// Plain C++, so that it is tested without a GPU.
//
// Shared memory holds a block's parts of op(A) and op(B), 128 x 16 and 16 x 128, in chunks of 16 x 16 elements. A chunk
// is 16 lines of 16 elements; a line is contiguous in global memory, too. The copy engine swizzles lines
// (CU_TENSOR_MAP_SWIZZLE_128B): a line has eight places of 16 bytes, and place p is exchanged for p ^ (line % 8).
//
// A warp multiplies by mma.m16n8k16. Any numbering of its rows, columns and sums is correct if all operands use the
// same. The numbering here has three properties:
//   - no load of a warp has bank conflicts;
//   - a load of 16 bytes fills two consecutive registers of a fragment: of A where A is not transposed, of B where
//     neither operand is;
//   - a thread's elements of C come in pairs that are neighbours in memory.
#pragma once

#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

inline constexpr int dgemm_chunk = 16;  ///< rows, columns, or sums
inline constexpr int dgemm_chunk_bytes = dgemm_chunk * dgemm_chunk * 8;

/// @tparam transposed_a, transposed_b whether op(A) and op(B) are transposes
template <bool transposed_a, bool transposed_b>
struct DgemmFragments {
  static constexpr int line_bytes = dgemm_chunk * 8;

  /// A load of 16 bytes gives two registers of a fragment: two rows of one sum of A, or two sums of one column of B.
  static constexpr bool pairs_of_a = !transposed_a;
  static constexpr bool pairs_of_b = !transposed_a && !transposed_b;

  /// A lane's group of four lanes, and its number within the group.
  struct Lane {
    int t, g;
  };
  static TESSERA_HOST_DEVICE constexpr Lane lane_of(int lane) { return {lane % 4, lane / 4}; }

  /// The number, among the chunk's 16 sums, of the fragments' sum t + 4 j.
  static TESSERA_HOST_DEVICE constexpr int sum(Lane lane, int j) {
    return transposed_a ? lane.t + 4 * j : 2 * lane.t + (j & 1) + 8 * (j >> 1);
  }
  /// The number, among the chunk's 16 rows of op(A) and C, of the fragment's row g + 8 h.
  static TESSERA_HOST_DEVICE constexpr int row(int g, int h) { return 2 * g + h; }
  /// The number, among the chunk's 16 columns of op(B) and C, of column g in the h-th fragment of 8.
  static TESSERA_HOST_DEVICE constexpr int column(int g, int h) {
    if (pairs_of_b) return (g >> 1) + 4 * (g & 1) + 8 * h;
    if (!transposed_a) return g + 8 * h;
    if (!transposed_b) return 2 * (g & 3) + (g >> 2) + 8 * h;
    return (g & 1) + 8 * ((g >> 1) & 1) + 2 * (g >> 2) + 4 * h;
  }

  /// Bytes from the beginning of a chunk to an element.
  static TESSERA_HOST_DEVICE constexpr int offset(int line, int place) {
    return line * line_bytes + (((place >> 1) ^ (line & 7)) << 4) + (place & 1) * 8;
  }
  static TESSERA_HOST_DEVICE constexpr int offset_in_a(Lane lane, int j, int h) {
    return transposed_a ? offset(row(lane.g, h), sum(lane, j)) : offset(sum(lane, j), row(lane.g, h));
  }
  static TESSERA_HOST_DEVICE constexpr int offset_in_b(Lane lane, int j, int h) {
    return transposed_b ? offset(sum(lane, j), column(lane.g, h)) : offset(column(lane.g, h), sum(lane, j));
  }

  /// The same offsets, computed from two values that the thread keeps: (start(lane, way.start) ^ way.flip) + way.shift.
  /// `flip` and `shift` are constants of the kernel. A chunk begins at a multiple of 1024 bytes, so the formula holds
  /// for addresses, too.
  struct Way {
    int start, flip, shift;
  };
  static TESSERA_HOST_DEVICE constexpr Way way_in_a(int j, int h) {
    if (transposed_a) return {h, 32 * j, 0};
    return {j & 1, 0, 8 * h + 8 * line_bytes * (j >> 1)};
  }
  static TESSERA_HOST_DEVICE constexpr int start_in_a(Lane lane, int start) {
    return transposed_a ? offset_in_a(lane, 0, start) : offset_in_a(lane, start, 0);
  }
  static TESSERA_HOST_DEVICE constexpr Way way_in_b(int j, int h) {
    if (pairs_of_b) return {0, 64 * (j >> 1), 8 * (j & 1) + 8 * line_bytes * h};
    if (!transposed_a) return {j & 1, 64 * h, 8 * line_bytes * (j >> 1)};
    if (!transposed_b) return {0, 32 * j, 8 * line_bytes * h};
    return {j & 1, 32 * h, 8 * line_bytes * (j >> 1)};
  }
  static TESSERA_HOST_DEVICE constexpr int start_in_b(Lane lane, int start) { return offset_in_b(lane, start, 0); }
};

}  // namespace tessera::kernels::block
