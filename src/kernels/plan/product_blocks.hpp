// The blocks of C for the thread blocks of a batch of products (block/gemm_block.hpp): the kinds that exist, and the
// fastest for matrices of a size, measured on one GPU (bench/batch_blocks).
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// A block of rows x columns, by warps_down x warps_across warps, with so many stages of k being copied or used.
struct ProductBlocks {
  int rows = 0, columns = 0;
  int warps_down = 0, warps_across = 0;
  int stages = 0;
  int residents = 1;  ///< thread blocks for which a multiprocessor must have registers
  int problems = 1;   ///< per thread block: one, or one for each of several warps

  constexpr bool operator==(const ProductBlocks&) const = default;
};

/// Steps of k per stage: those of the tensor cores' instruction.
inline constexpr int steps_of_stage = 16;

/// The layout of an operand in shared memory: rows are contiguous, or steps are. Single real elements always lie by
/// steps, and a load reads four of them. Complex double elements always lie by rows. Others lie as in global memory,
/// from where they are copied 16 bytes at a time.
template <std::size_t bytes_of_part, int parts>
struct StagePlace {
  static constexpr int element_bytes = static_cast<int>(bytes_of_part) * parts;
  static constexpr bool is_fixed = element_bytes != 8;
  static constexpr bool is_by_steps = element_bytes == 4;
  /// Elements from line to line. Eight rows of four steps, which a warp reads at once, then lie in different banks.
  static constexpr int distance(int length) { return length + (element_bytes == 16 ? 2 : 4); }
  /// Elements of an operand in a stage.
  static constexpr int elements(int rows) {
    const int by_rows = steps_of_stage * distance(rows), by_steps = rows * distance(steps_of_stage);
    if (is_fixed) return is_by_steps ? by_steps : by_rows;
    return by_rows > by_steps ? by_rows : by_steps;
  }
};

/// Each size stands for matrices up to it and above the one before. The last stands for all larger ones, too.
inline constexpr std::array<index_t, 5> block_sizes = {16, 32, 64, 128, 256};

namespace detail {
inline constexpr std::array<std::array<ProductBlocks, block_sizes.size()>, 4> product_blocks = {{
#include "kernels/plan/product_blocks.inc"
}};
}  // namespace detail

/// The class for unknown sizes.
inline constexpr std::size_t middle_block_size = 2;

/// @param larger the larger of m and n; 0: not known
constexpr std::size_t class_of_blocks(index_t larger) {
  if (larger <= 0) return middle_block_size;
  std::size_t i = 0;
  while (i + 1 < block_sizes.size() && block_sizes[i] < larger) ++i;
  return i;
}

/// Whether sizes in the class may differ widely: they are unknown, or their bound is large.
constexpr bool is_for_any_spread(std::size_t size_class) {
  return size_class == middle_block_size || size_class + 1 == block_sizes.size();
}

constexpr const ProductBlocks& product_blocks(ScalarType type, std::size_t size_class) {
  return detail::product_blocks[static_cast<std::size_t>(type)][size_class];
}

}  // namespace tessera::kernels::plan
