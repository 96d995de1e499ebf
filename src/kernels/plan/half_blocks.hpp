// How batches of products of 16-bit numbers are computed: the blocks of C of thread blocks (block/half_block.hpp), and
// the tiny problems that parts of warps compute whole (block/half_tiny.hpp). The choice depends on the type and size of
// the matrices, and was measured on one GPU (bench/half_blocks).
#pragma once

#include <array>
#include <cstddef>

#include "core/half.hpp"
#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// The eight parameters of a block: rows x columns of C, steps of k that are loaded at a time (depth), warps_down x
/// warps_across warps, and the members below.
struct HalfBlocks {
  int rows = 0, columns = 0, depth = 0;
  int warps_down = 0, warps_across = 0;
  bool c_ahead = false;  ///< C is loaded before the operands, and waits in registers
  int residents = 1;     ///< thread blocks for which a multiprocessor must have registers
  int problems = 1;      ///< per thread block: one, or one for each of several warps

  constexpr bool operator==(const HalfBlocks&) const = default;
};

/// Each size stands for matrices up to it and above the one before. The last stands for all larger ones, too.
inline constexpr std::array<index_t, 6> half_sizes = {16, 32, 48, 64, 128, 256};
/// The class for unknown sizes.
inline constexpr std::size_t middle_half_size = 3;

namespace detail {
inline constexpr std::array<std::array<HalfBlocks, half_sizes.size()>, 4> half_blocks = {{
#include "kernels/plan/half_blocks.inc"
}};
}  // namespace detail

/// @param larger the larger of m and n; 0: not known
constexpr std::size_t class_of_half(index_t larger) {
  if (larger <= 0) return middle_half_size;
  std::size_t i = 0;
  while (i + 1 < half_sizes.size() && half_sizes[i] < larger) ++i;
  return i;
}

constexpr const HalfBlocks& half_blocks(HalfType type, std::size_t size_class) {
  return detail::half_blocks[static_cast<std::size_t>(type)][size_class];
}

/// How tiny problems are computed, if all of their rows and columns fit a part of a warp.
enum class TinyWay : unsigned char {
  blocks,        ///< with blocks, as all other problems
  tensor_cores,  ///< by tensor cores; one instruction serves as many problems as fit
  lanes          ///< by fused multiply-adds in single precision, with a lane per column
};

/// Rows, and columns, for which a problem has room.
inline constexpr std::array<int, 3> tiny_sizes = {4, 8, 16};

namespace detail {
inline constexpr std::array<std::array<TinyWay, tiny_sizes.size()>, 4> tiny_ways = {{
#include "kernels/plan/tiny_ways.inc"
}};
}  // namespace detail

constexpr TinyWay tiny_way(HalfType type, std::size_t size_class) {
  return detail::tiny_ways[static_cast<std::size_t>(type)][size_class];
}

struct TinyChoice {
  TinyWay way = TinyWay::blocks;
  std::size_t size_class = 0;  ///< index of tiny_sizes
};

/// @param m, n bounds of the sizes; 0: not known
constexpr TinyChoice choose_tiny(HalfType type, index_t m, index_t n) {
  const index_t larger = m > n ? m : n;
  if (m <= 0 || n <= 0 || larger > tiny_sizes.back()) return {};
  std::size_t i = 0;
  while (tiny_sizes[i] < larger) ++i;
  return {tiny_way(type, i), i};
}

}  // namespace tessera::kernels::plan
