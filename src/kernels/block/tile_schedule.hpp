// The assignment of the blocks of a batch's problems to thread blocks (gemm_block.hpp).
//
// There are two kinds of grids. A cut grid is shaped by the upper bounds of the sizes: each problem has as many thread
// blocks as the largest one. Thread blocks without work end at once. Where a problem is larger than the bounds, each
// thread block computes several of its blocks. A persistent grid has as many thread blocks as the device runs at a
// time. Each has the same share of the work of all problems, whose costs are summed on the device before. Source:
// Abdelfattah, Haidar, Tomov, Dongarra, "Novel HPC techniques to batch execution of many variable size BLAS
// computations on GPUs", section 5 (adaptive truncation).
#pragma once

#include <cstdint>

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::block {

constexpr TESSERA_HOST_DEVICE index_t pieces(index_t size, index_t of) { return (size + of - 1) / of; }

/// The blocks of rows x columns that a problem has work for. They are numbered down the columns of blocks, because
/// neighbours then share columns of the right operand. An updated triangle has only the blocks that it crosses. Their
/// number fits 32 bits if the matrix fits a device's memory.
template <int rows, int columns>
class BlocksOfProduct {
  using Count = std::uint32_t;

 public:
  BlocksOfProduct() = default;
  template <class E>
  explicit TESSERA_HOST_DEVICE BlocksOfProduct(const BlockProduct<E>& product) : region_(product.updated) {
    if (product.does_nothing || product.m <= 0 || product.n <= 0) return;
    down_ = static_cast<Count>(pieces(product.m, rows));
    across_ = static_cast<Count>(pieces(product.n, columns));
    steps_ = product.terms * pieces(product.k, plan::steps_of_stage);
  }

  TESSERA_HOST_DEVICE index_t count() const {
    Count all = 0;
    if (region_ == Region::full) {
      all = down_ * across_;
      return all;
    }
    for (Count column = 0; column < across_; ++column) all += end_of(column) - begin_of(column);
    return all;
  }

  struct Place {
    index_t first_row = 0, first_column = 0;
  };
  /// @pre number < count()
  TESSERA_HOST_DEVICE Place at(index_t number) const {
    auto left = static_cast<Count>(number);
    Count column = 0;
    if (region_ == Region::full) {
      // Most problems have one column of blocks, and a division is slow.
      if (left >= down_) column = left / down_;
      left -= column * down_;
    } else {
      while (left >= end_of(column) - begin_of(column)) {
        left -= end_of(column) - begin_of(column);
        ++column;
      }
    }
    return {static_cast<index_t>(begin_of(column) + left) * rows, static_cast<index_t>(column) * columns};
  }

  /// Finds the place of block `number`. @return whether the problem has that block
  template <class E>
  static TESSERA_HOST_DEVICE bool find(const BlockProduct<E>& product, index_t number, Place& place) {
    // Many problems have one block.
    if (product.m <= rows && product.n <= columns)
      return number == 0 && product.m > 0 && product.n > 0 && !product.does_nothing;
    const BlocksOfProduct blocks(product);
    if (number >= blocks.count()) return false;
    place = blocks.at(number);
    return true;
  }

  /// The cost of each block: its stages of k, and a constant for the rest of its work.
  TESSERA_HOST_DEVICE index_t cost() const { return steps_ + 12; }

 private:
  TESSERA_HOST_DEVICE Count begin_of(Count column) const {
    return region_ == Region::lower ? column * columns / rows : 0;
  }
  TESSERA_HOST_DEVICE Count end_of(Count column) const {
    const Count end = ((column + 1) * columns - 1) / rows + 1;
    return region_ == Region::upper && end < down_ ? end : down_;
  }

  Region region_ = Region::full;
  Count down_ = 0, across_ = 0;
  index_t steps_ = 0;
};

/// The cost of a problem in the division of the work. A problem without blocks costs one, which limits the number of
/// problems in a share.
constexpr TESSERA_HOST_DEVICE index_t cost_of_problem(index_t blocks, index_t cost) { return blocks * cost + 1; }

/// Prefix sums of the problems' costs. `ends` sums within chunks of problems, each entry including its own problem;
/// `chunks` holds the sums of whole chunks.
struct SummedCosts {
  static constexpr index_t problems_of_chunk = 1024;
  index_t* ends = nullptr;
  index_t* chunks = nullptr;
};

/// A range of blocks of one problem.
struct BlockRange {
  index_t first = 0, end = 0, step = 1;
};

/// One of equal shares of the work of all problems: the blocks whose costs begin in it.
class ShareOfWork {
 public:
  ShareOfWork() = default;
  TESSERA_HOST_DEVICE ShareOfWork(const SummedCosts& costs, index_t count, index_t number, index_t shares)
      : count_(count) {
    const index_t chunks = pieces(count, SummedCosts::problems_of_chunk);
    index_t all = 0;
    for (index_t i = 0; i < chunks; ++i) all += costs.chunks[i];
    const index_t rest = all % shares;
    from_ = all / shares * number + (number < rest ? number : rest);
    to_ = from_ + all / shares + (number < rest ? 1 : 0);
    if (from_ == to_) {
      problem_ = count;
      return;
    }
    index_t chunk = 0;
    while (start_ + costs.chunks[chunk] <= from_) start_ += costs.chunks[chunk++];
    const index_t first = chunk * SummedCosts::problems_of_chunk;
    const index_t left = count - first;
    const index_t in_chunk = left < SummedCosts::problems_of_chunk ? left : SummedCosts::problems_of_chunk;
    const index_t owner = owner_of(costs.ends + first, in_chunk, from_ - start_);
    if (owner > 0) start_ += costs.ends[first + owner - 1];
    problem_ = first + owner;
  }

  TESSERA_HOST_DEVICE bool is_done() const { return problem_ >= count_ || start_ >= to_; }
  TESSERA_HOST_DEVICE index_t problem() const { return problem_; }

  /// Returns the blocks of problem() that are in the share, and moves on to the next problem.
  TESSERA_HOST_DEVICE BlockRange take(index_t blocks, index_t cost) {
    const index_t first = from_ > start_ ? pieces(from_ - start_, cost) : 0;
    const index_t end = to_ - start_ < blocks * cost ? pieces(to_ - start_, cost) : blocks;
    start_ += cost_of_problem(blocks, cost);
    ++problem_;
    return {first, end, 1};
  }

 private:
  /// The first problem whose cost ends behind `place`. @pre there is one
  static TESSERA_HOST_DEVICE index_t owner_of(const index_t* ends, index_t count, index_t place) {
    index_t first = 0, last = count - 1;
    while (first < last) {
      const index_t middle = first + (last - first) / 2;
      if (ends[middle] > place)
        last = middle;
      else
        first = middle + 1;
    }
    return first;
  }

  index_t count_ = 0;
  index_t from_ = 0, to_ = 0;
  index_t start_ = 0;  ///< the place in the work where problem_ begins
  index_t problem_ = 0;
};

}  // namespace tessera::kernels::block
