// Which block of which problem a thread block of a batch computes (gemm_block.hpp).
//
// Two grids. One is cut by the upper bounds of the sizes, with as many thread blocks for each problem as the largest
// has: those that have nothing end at once. The other has as many thread blocks as the device runs at a time, which
// take the blocks of all problems in turn: the ends of the problems in one numbering of all blocks are summed up on the
// device before. Source: Abdelfattah, Haidar, Tomov, Dongarra, "Novel HPC techniques to batch execution of many
// variable size BLAS computations on GPUs", section 5 (adaptive truncation).
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

struct BlockOfProblem {
  index_t problem = 0;
  index_t first_row = 0, first_column = 0;
};

constexpr TESSERA_HOST_DEVICE index_t pieces(index_t size, index_t of) { return (size + of - 1) / of; }

/// So many blocks of rows x columns that a problem has work for; those outside of an updated triangle are among them.
template <class E>
TESSERA_HOST_DEVICE index_t count_blocks(const BlockProduct<E>& product, int rows, int columns) {
  if (product.does_nothing || product.m <= 0 || product.n <= 0) return 0;
  return pieces(product.m, rows) * pieces(product.n, columns);
}

/// Block `number` of one problem, down its columns of blocks: neighbours share their columns of the right operand.
constexpr TESSERA_HOST_DEVICE BlockOfProblem block_at(index_t problem, index_t number, index_t m, int rows,
                                                      int columns) {
  const index_t down = pieces(m, rows);
  return {problem, number % down * rows, number / down * columns};
}

/// In a grid cut by upper bounds: thread block `number` of all.
constexpr TESSERA_HOST_DEVICE BlockOfProblem block_of_truncated_grid(index_t number, index_t most_m, index_t most_n,
                                                                     int rows, int columns) {
  const index_t of_each = pieces(most_m, rows) * pieces(most_n, columns);
  return block_at(number / of_each, number % of_each, most_m, rows, columns);
}

/// The problem that has block `number` of all. @param ends blocks of the problems up to each, with it; the last is
/// above `number`
constexpr TESSERA_HOST_DEVICE index_t owner_of_block(const index_t* ends, index_t count, index_t number) {
  index_t first = 0, last = count - 1;
  while (first < last) {
    const index_t middle = first + (last - first) / 2;
    if (ends[middle] > number)
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

}  // namespace tessera::kernels::block
