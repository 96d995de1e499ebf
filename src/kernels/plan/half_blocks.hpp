// How batches of products of 16-bit numbers are computed: which blocks of C thread blocks take (block/half_block.hpp),
// and where warps take tiny problems whole (block/half_tiny.hpp). By type and size of the matrices, measured on one GPU
// (bench/half_blocks).
#pragma once

#include <array>
#include <cstddef>

#include "core/half.hpp"
#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// The eight parameters of a block: rows x columns of C, so many steps of k loaded at a time, by warps_down x warps_across warps.
struct HalfBlocks {
  int rows = 0, columns = 0, depth = 0;
  int warps_down = 0, warps_across = 0;
  bool c_ahead = false;  ///< C is loaded before the operands, and waits in registers
  int residents = 1;     ///< thread blocks that a multiprocessor is to have registers for
  int problems = 1;      ///< of a thread block: one, or one for each of several warps

  constexpr bool operator==(const HalfBlocks&) const = default;
};

/// Each stands for matrices up to it that are larger than the one before; the last for all larger ones, too.
inline constexpr std::array<index_t, 6> half_sizes = {16, 32, 48, 64, 128, 256};
/// Where the size is not known.
inline constexpr std::size_t middle_half_size = 3;

namespace detail {
inline constexpr std::array<std::array<HalfBlocks, half_sizes.size()>, 4> half_blocks = {{
#include "kernels/plan/half_blocks.inc"
}};
}  // namespace detail

/// @param larger of m and n; 0: not known
constexpr std::size_t class_of_half(index_t larger) {
  if (larger <= 0) return middle_half_size;
  std::size_t i = 0;
  while (i + 1 < half_sizes.size() && half_sizes[i] < larger) ++i;
  return i;
}

constexpr const HalfBlocks& half_blocks(HalfType type, std::size_t size_class) {
  return detail::half_blocks[static_cast<std::size_t>(type)][size_class];
}

/// How tiny problems are computed, all of whose rows and columns a part of a warp has.
enum class TinyWay : unsigned char {
  blocks,        ///< not so: as all others
  tensor_cores,  ///< as many to a multiplication of tensor cores as fit beside each other
  lanes          ///< by fused multiply-adds of single precision, a lane a column
};

/// Places for rows and for columns of a problem.
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
  std::size_t size_class = 0;  ///< of tiny_sizes
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
