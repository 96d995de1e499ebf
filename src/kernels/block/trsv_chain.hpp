// A triangular solve with one right-hand side, by a chain of thread blocks as in trsm_chain.hpp: L x = alpha b, L lower
// triangular with any number of rows.
//
// Each warp has 32 rows, one per lane. It subtracts the products with the earlier blocks of 32 rows of x, one after the
// other. Then it solves its own block; each lane broadcasts its row to the lanes behind it. The chain from row to row
// is one shuffle and one fused multiply-add. Blocks of L are copied to shared memory ahead of their use: a link that
// waits for one would delay all links behind it. Lanes read contiguous elements whether L is stored by columns or by
// rows.
//
// Arithmetic: as in trsm_strip.hpp, with blocks of 32 rows; each row adds its products in four partial sums. The error
// bound is the same.
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/solved_blocks.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

/// A link has one warp for every 32 of its rows.
template <class Real, int parts_of_element, int warps_of_link, int blocks_at_a_time>
struct VectorShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int warps = warps_of_link;
  static constexpr int depth = blocks_at_a_time;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_of_warp = 32;
  static constexpr int rows = rows_of_warp * warps;
  static constexpr int columns = 1;
};

/// @tparam Machine as in strip.hpp, without multiply()
template <class Shape, class Machine>
class VectorLink {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int width = Shape::rows_of_warp;
  /// The distance between lines of a block in shared memory: elements of a row and of a column lie in different banks.
  static constexpr int stride = width + 1;
  /// Blocks of L that are being copied or used.
  static constexpr int depth = Shape::depth;

  /// 32 rows of x in shared memory, aligned so that a thread reads 16 bytes at once.
  struct RowsOfX {
    static constexpr int at_once = 16 / static_cast<int>(sizeof(E));
    struct alignas(16) Group {
      E element[at_once];
    } groups[width / at_once];
    TESSERA_DEVICE E& element(int i) { return groups[i / at_once].element[i % at_once]; }
  };

 public:
  struct Memory {
    RowsOfX x[Shape::warps];
    struct OfWarp {
      RowsOfX taken;                    ///< a block of x of an earlier link
      E diagonal[width * stride];       ///< the diagonal block, by columns
      E blocks[depth][width * stride];  ///< blocks of L, in their stored layout
    } of_warp[Shape::warps];
  };

  /// @param of_link system_of_link()
  /// @param solved the column's marks, for all blocks of the triangle
  TESSERA_DEVICE VectorLink(const TriangularSystem<E>& of_link, Memory& memory, int link, index_t column,
                            const SolvedBlocks& solved, Machine machine)
      : system_(of_link),
        memory_(memory),
        mine_(memory.of_warp[machine.warp()]),
        machine_(machine),
        before_(link * Shape::warps),
        block_(machine.warp()),
        lane_(machine.lane()),
        row_(static_cast<index_t>(machine.warp()) * width + machine.lane()),
        by_columns_(of_link.l_row == 1 || of_link.l_row == -1),
        x_(of_link.X + column * of_link.x_col),
        solved_(solved) {}

  TESSERA_DEVICE void run() {
    const int blocks = static_cast<int>((system_.order + width - 1) / width);
    if (block_ >= blocks) return;
    E x = has_row(row_) ? x_[row_ * system_.x_row] : E{};
    if (system_.scales) x = product(system_.alpha, x);
    for (int ahead = 0; ahead < depth - 1; ++ahead) ask_for_block(-before_ + ahead);
    make_diagonal();
    x = solve(minus_products(x, blocks));
    memory_.x[block_].element(lane_) = x;
    if (block_ + 1 < blocks) machine_.arrive(block_ % 2, blocks - block_);
    if (has_row(row_)) x_[row_ * system_.x_row] = x;
    solved_.tell(machine_, before_ + block_);
  }

 private:
  TESSERA_DEVICE bool has_row(index_t row) const { return row < system_.order; }

  TESSERA_DEVICE static E sum(E a, const E& b) {
    TESSERA_UNROLL
    for (int p = 0; p < Shape::parts; ++p) a.part[p] += b.part[p];
    return a;
  }
  TESSERA_DEVICE E told_by(const E& value, int lane) {
    E told;
    TESSERA_UNROLL
    for (int p = 0; p < Shape::parts; ++p) told.part[p] = machine_.shuffle(value.part[p], lane);
    return told;
  }
  TESSERA_DEVICE E conjugate_if_asked(E value) const {
    if constexpr (Shape::parts == 2) {
      if (system_.conjugate) value.part[E::im] = -value.part[E::im];
    }
    return value;
  }

  /// x minus the products with all earlier blocks.
  TESSERA_DEVICE E minus_products(const E& x, int blocks) {
    E sums[4] = {};
    TESSERA_NO_UNROLL
    for (int k = -before_; k < block_; ++k) {
      machine_.sync_warp();  // all lanes have used the former block
      ask_for_block(k + depth - 1);
      machine_.template await_batches<depth - 1>();
      machine_.sync_warp();
      E l[width];
      TESSERA_UNROLL
      for (int i = 0; i < width; ++i)
        l[i] = negative(conjugate_if_asked(slot_of(k)[by_columns_ ? i * stride + lane_ : lane_ * stride + i]));
      const RowsOfX& rows = k < 0 ? take(k) : await(k, blocks);
      TESSERA_UNROLL
      for (int g = 0; g < width / RowsOfX::at_once; ++g) {
        const auto group = rows.groups[g];
        TESSERA_UNROLL
        for (int c = 0; c < RowsOfX::at_once; ++c) {
          const int i = g * RowsOfX::at_once + c;
          sums[i % 4] = fused(l[i], group.element[c], sums[i % 4]);
        }
      }
    }
    return sum(sum(sums[0], sums[1]), sum(x, sum(sums[2], sums[3])));
  }

  // Blocks of L: the lane's i-th element is that of its row and column i, or that of row i and its column.

  /// @pre first_column belongs to a block before the diagonal, or to the diagonal block
  TESSERA_DEVICE const E* first_element(index_t first_column) const {
    const index_t row = static_cast<index_t>(block_) * width;
    return by_columns_ ? system_.L + row_ * system_.l_row + first_column * system_.l_col
                       : system_.L + row * system_.l_row + (first_column + lane_) * system_.l_col;
  }
  TESSERA_DEVICE index_t step() const { return by_columns_ ? system_.l_col : system_.l_row; }
  TESSERA_DEVICE bool has_element(int i) const {
    return has_row(by_columns_ ? row_ : static_cast<index_t>(block_) * width + i);
  }

  TESSERA_DEVICE E* slot_of(int k) const { return mine_.blocks[(k + before_) % depth]; }

  /// Starts the copy of block k, if it is before the diagonal.
  TESSERA_DEVICE void ask_for_block(int k) {
    if (k < block_) {
      const E* const from = first_element(static_cast<index_t>(k) * width);
      TESSERA_UNROLL
      for (int i = 0; i < width; ++i)
        machine_.template copy_async<1>(slot_of(k) + i * stride + lane_, from + i * step(), has_element(i) ? 1 : 0);
    }
    machine_.end_of_batch();
  }

  // Rows of x that other warps have solved.

  TESSERA_DEVICE const RowsOfX& take(int k) {
    solved_.await(machine_, before_ + k, before_);
    machine_.sync_warp();  // all lanes have used the former rows
    mine_.taken.element(lane_) = x_[(static_cast<index_t>(k) * width + lane_) * system_.x_row];
    machine_.sync_warp();
    return mine_.taken;
  }
  // Round k + 1 uses the other of two barriers: no warp can be two rounds ahead of a warp that waits.
  TESSERA_DEVICE const RowsOfX& await(int k, int blocks) {
    machine_.await(k % 2, blocks - k);
    return memory_.x[k];
  }

  /// Prepares the elements below the diagonal of the warp's block: negated, each times the reciprocal of its row's
  /// pivot.
  TESSERA_DEVICE void make_diagonal() {
    const E* const from = first_element(static_cast<index_t>(block_) * width);
    TESSERA_UNROLL
    for (int i = 0; i < width; ++i) {
      const bool is_below = by_columns_ ? i < lane_ : lane_ < i;
      const E value = is_below && has_element(i) ? from[i * step()] : E{};
      mine_.diagonal[by_columns_ ? i * stride + lane_ : lane_ * stride + i] = value;
    }
    machine_.sync_warp();
    inverse_ = E{};
    inverse_.part[E::re] = -1;
    divides_ = false;
    if (!system_.unit && has_row(row_)) {
      inverse_ = negative(reciprocal(pivot()));
      divides_ = !is_normal(inverse_);
    }
    TESSERA_NO_UNROLL
    for (int j = 0; j < lane_; ++j) {
      E& value = mine_.diagonal[j * stride + lane_];
      const bool is_there = magnitude(value) != 0;
      value = conjugate_if_asked(value);
      value = system_.unit ? negative(value) : product(value, inverse_);
      divides_ = divides_ || (is_there && !system_.unit && !is_normal(value));
    }
    machine_.sync_warp();
  }
  TESSERA_DEVICE E pivot() const { return conjugate_if_asked(system_.L[row_ * (system_.l_row + system_.l_col)]); }

  /// Substitutes with the diagonal block.
  TESSERA_DEVICE E solve(const E& b) {
    E x = system_.unit ? b : negative(product(b, inverse_));
    // A quotient that overflows here may still lead to a finite element.
    const bool is_finite = magnitude(x) <= E::most_normal;
    if (machine_.any(divides_ || (!is_finite && !system_.unit))) return divide(b);
    constexpr int at_a_time = 8;  // elements of L loaded ahead, so that no step waits for one
    E next[at_a_time];
    TESSERA_UNROLL
    for (int j = 0; j < at_a_time; ++j) next[j] = mine_.diagonal[j * stride + lane_];
    TESSERA_UNROLL
    for (int j = 0; j < width; ++j) {
      const E l = next[j % at_a_time];
      if (j + at_a_time < width) next[j % at_a_time] = mine_.diagonal[(j + at_a_time) * stride + lane_];
      const E solved = told_by(x, j);
      const E updated = fused(l, solved, x);
      if (lane_ > j) x = updated;
    }
    return x;
  }
  /// The same with quotients. It is rarely needed.
  TESSERA_DEVICE E divide(E x) {
    TESSERA_NO_UNROLL
    for (int j = 0; j < width; ++j) {
      if (lane_ == j && !system_.unit && has_row(row_)) x = quotient(x, pivot());
      const E solved = told_by(x, j);
      if (lane_ <= j || !has_row(row_)) continue;
      const E* const l = system_.L + row_ * system_.l_row + (static_cast<index_t>(block_) * width + j) * system_.l_col;
      x = fused(negative(conjugate_if_asked(*l)), solved, x);
    }
    return x;
  }

  const TriangularSystem<E>& system_;
  Memory& memory_;
  typename Memory::OfWarp& mine_;
  Machine machine_;
  const int before_;  ///< blocks before the link
  const int block_;   ///< the warp's block within the link
  const int lane_;
  const index_t row_;
  const bool by_columns_;
  E* const x_;
  SolvedBlocks solved_;
  E inverse_;     ///< minus the reciprocal of the row's pivot
  bool divides_;  ///< this or another number of the row is not a normal one
};

}  // namespace tessera::kernels::block
