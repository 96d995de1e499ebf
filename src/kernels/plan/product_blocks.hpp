// Blocks of C that the thread blocks of a batch of products compute (block/gemm_block.hpp): which there are, and which
// are the quickest for matrices of a size, measured on one GPU (bench/batch_blocks).
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// Of rows x columns, by warps_down x warps_across warps, so many stages of k on their way or in use.
struct ProductBlocks {
  int rows = 0, columns = 0;
  int warps_down = 0, warps_across = 0;
  int stages = 0;
  int residents = 1;  ///< thread blocks that a multiprocessor is to have registers for
  int problems = 1;   ///< of a thread block: one, or one for each of several warps

  constexpr bool operator==(const ProductBlocks&) const = default;
};

/// Steps of k at a time, those of the tensor cores' instruction.
inline constexpr int steps_of_stage = 16;

/// How an operand lies in shared memory: rows side by side, or steps. Single real elements always by steps, of which
/// four are loaded at once; complex double ones always by rows; others as they lie in global memory, from where they
/// are copied 16 bytes at a time.
template <std::size_t bytes_of_part, int parts>
struct StagePlace {
  static constexpr int element_bytes = static_cast<int>(bytes_of_part) * parts;
  static constexpr bool is_fixed = element_bytes != 8;
  static constexpr bool is_by_steps = element_bytes == 4;
  /// Elements from line to line. Eight rows of four steps, which a warp reads at once, then lie in different banks.
  static constexpr int distance(int length) { return length + (element_bytes == 16 ? 2 : 4); }
  /// Of an operand in a stage.
  static constexpr int elements(int rows) {
    const int by_rows = steps_of_stage * distance(rows), by_steps = rows * distance(steps_of_stage);
    if (is_fixed) return is_by_steps ? by_steps : by_rows;
    return by_rows > by_steps ? by_rows : by_steps;
  }
};

/// Each stands for matrices up to it that are larger than the one before; the last for all larger ones, too.
inline constexpr std::array<index_t, 5> block_sizes = {16, 32, 64, 128, 256};

namespace detail {
inline constexpr std::array<std::array<ProductBlocks, block_sizes.size()>, 4> product_blocks = {{
#include "kernels/plan/product_blocks.inc"
}};
}  // namespace detail

/// Where the size is not known.
inline constexpr std::size_t middle_block_size = 2;

/// @param larger of m and n; 0: not known
constexpr std::size_t class_of_blocks(index_t larger) {
  if (larger <= 0) return middle_block_size;
  std::size_t i = 0;
  while (i + 1 < block_sizes.size() && block_sizes[i] < larger) ++i;
  return i;
}

/// Whether sizes in the class may be far from each other: they are not known, or bounded by something large.
constexpr bool is_for_any_spread(std::size_t size_class) {
  return size_class == middle_block_size || size_class + 1 == block_sizes.size();
}

constexpr const ProductBlocks& product_blocks(ScalarType type, std::size_t size_class) {
  return detail::product_blocks[static_cast<std::size_t>(type)][size_class];
}

}  // namespace tessera::kernels::plan
