// The solution of two triangular systems in sequence, for one right-hand side, by a warp or a part of one: potrs and
// getrs of small matrices. The time is mostly that of loading the factors.
//
// A thread has rows of the right-hand side. A square block of the factors, as wide as the team, is held in shared
// memory. All threads read a row or a column of it, so a triangle T and its transpose cost the same. Matrices of one
// block are loaded once for both systems.
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/reciprocal.hpp"

namespace tessera::kernels::block {

/// Shared memory of a team: a block of the factors, by columns.
template <class E, int width>
struct FactorTile {
  E column[width][width + 1];  ///< one row of padding: threads read a row from different banks
};

/// @tparam Machine besides the members of strip.hpp, that of a team of `width` threads, at most a warp
/// @tparam blocks most blocks of `width` rows
template <class R, int parts, int blocks, int width, class Machine>
class VectorSolve {
  using E = Element<R, parts>;

 public:
  using Memory = FactorTile<E, width>;

  /// @param region the part of the stored matrix that the systems use
  /// @param order at most width * blocks
  TESSERA_DEVICE VectorSolve(Memory& memory, const E* stored, index_t ld, int order, Region region, Machine machine)
      : memory_(memory),
        stored_(machine.in_global(stored)),
        ld_(ld),
        order_(order),
        region_(region),
        machine_(machine) {}

  /// Calls x(row, element) for the thread's rows.
  template <class F>
  TESSERA_DEVICE void for_each_row(F f) {
    TESSERA_UNROLL
    for (int b = 0; b < blocks; ++b) {
      const int row = width * b + machine_.lane();
      if (row < order_) f(row, x_[b]);
    }
  }

  /// Solves T x = b in place. T is lower triangular if `forward`.
  /// @param transposed T is the transpose of the stored triangle or, if `conjugates`, its conjugate transpose
  template <bool forward>
  TESSERA_DEVICE void solve(bool transposed, bool is_unit, bool conjugates) {
    TESSERA_UNROLL
    for (int step = 0; step < blocks; ++step) {
      const int block = forward ? step : blocks - 1 - step;
      if (width * block >= order_) continue;
      TESSERA_UNROLL
      for (int before = 0; before < step; ++before) {
        const int solved = forward ? before : blocks - 1 - before;
        if (width * solved < order_) subtract(block, solved, transposed, conjugates);
      }
      solve_block<forward>(block, transposed, is_unit, conjugates);
    }
  }

 private:
  TESSERA_DEVICE int rows_of(int block) const {
    return order_ - width * block < width ? order_ - width * block : width;
  }
  /// Whether the thread has a row of the block. Other threads compute with values that may not be finite.
  TESSERA_DEVICE bool has_row(int block) const { return machine_.lane() < rows_of(block); }

  /// Loads a block of the stored matrix to shared memory.
  TESSERA_DEVICE void hold(int row_block, int column_block) {
    if (row_block == held_row_ && column_block == held_column_) return;
    if (held_row_ >= 0) machine_.meet();  // all threads have read the former block
    held_row_ = row_block;
    held_column_ = column_block;
    const int lane = machine_.lane();
    const E* from = stored_ + width * row_block + lane + width * column_block * ld_;
    const bool is_diagonal = row_block == column_block;
    const int columns = rows_of(column_block);
    const int first = is_diagonal && region_ == Region::upper ? lane : 0;
    const int last = !has_row(row_block) ? 0 : is_diagonal && region_ == Region::lower ? lane + 1 : columns;
    for (int j = 0; j < columns; ++j) {
      if (j >= first && j < last) machine_.template copy_async<1>(&memory_.column[j][lane], from, 1);
      from += ld_;
    }
    machine_.end_of_batch();
    machine_.template await_batches<0>();
    machine_.meet();
  }

  /// T's element in the thread's row and in column j of the block that is held.
  TESSERA_DEVICE E element(int j, bool transposed, bool conjugates) const {
    const int lane = machine_.lane();
    E value = transposed ? memory_.column[lane][j] : memory_.column[j][lane];
    if constexpr (parts == 2) {
      if (conjugates) value.part[1] = -value.part[1];
    }
    return value;
  }

  TESSERA_DEVICE E from_lane(const E& value, int lane) {
    E there;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) there.part[p] = machine_.shuffle(value.part[p], lane);
    return there;
  }

  /// Subtracts T times a solved block from a block of x.
  TESSERA_DEVICE void subtract(int block, int solved, bool transposed, bool conjugates) {
    hold(transposed ? solved : block, transposed ? block : solved);
    const int steps = rows_of(solved);
    for (int j = 0; j < steps; ++j) {
      const E there = from_lane(x_[solved], j);
      if (has_row(block)) x_[block] = fused(negative(element(j, transposed, conjugates)), there, x_[block]);
    }
  }

  template <bool forward>
  TESSERA_DEVICE void solve_block(int block, bool transposed, bool is_unit, bool conjugates) {
    hold(block, block);
    const int lane = machine_.lane();
    const int steps = rows_of(block);
    E diagonal{};
    diagonal.part[0] = 1;
    if (lane < steps && !is_unit) diagonal = element(lane, transposed, conjugates);
    const ScaledReciprocal inverse(diagonal);
    E x = x_[block];
    for (int step = 0; step < steps; ++step) {
      const int j = forward ? step : steps - 1 - step;
      const E solved = from_lane(inverse.quotient(x), j);
      if (lane == j) x = solved;
      if (forward ? lane > j && lane < steps : lane < j)
        x = fused(negative(element(j, transposed, conjugates)), solved, x);
    }
    x_[block] = x;
  }

  Memory& memory_;
  const E* stored_;
  index_t ld_;
  int order_;
  Region region_;
  Machine machine_;
  int held_row_ = -1, held_column_ = -1;
  E x_[blocks] = {};
};

}  // namespace tessera::kernels::block
