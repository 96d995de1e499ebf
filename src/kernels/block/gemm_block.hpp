// A block of C of a product (block_product.hpp), computed by the threads of one block.
//
// Shared memory holds stages of sixteen steps of k of both operands. Some stages are being copied while others are
// used.
//
// A warp has a rectangle of the block. Its thread 4 g + q has rows g + 8 t and columns 8 u + 2 q and 8 u + 2 q + 1: the
// layout of the accumulators of the tensor cores' instruction. Sums use tensor cores in double precision, and fused
// multiply-adds in single precision. A complex product is four real ones. All steps of all terms are summed in order,
// so a result depends neither on its block nor on its neighbours.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/block/block_product.hpp"
#include "kernels/block/block_update.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/block/stage_copy.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::block {

/// Blocks of C of block_rows x block_columns, by warps_down x warps_across warps.
template <class Real, int parts_of_element, int block_rows, int block_columns, int warps_down, int warps_across,
          int steps_ahead>
struct GemmShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int rows = block_rows, columns = block_columns;
  static constexpr int across = warps_across;
  static constexpr int warps = warps_down * warps_across;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_of_warp = rows / warps_down, columns_of_warp = columns / warps_across;
  static constexpr int depth = plan::steps_of_stage;
  static constexpr int stages = steps_ahead;
  using Place = plan::StagePlace<sizeof(Real), parts_of_element>;
  static_assert(rows_of_warp % 16 == 0 && columns_of_warp % 8 == 0 && stages >= 2);
};

template <class Real, int parts, plan::ProductBlocks blocks>
using ShapeOfBlocks =
    GemmShape<Real, parts, blocks.rows, blocks.columns, blocks.warps_down, blocks.warps_across, blocks.stages>;

/// Shared memory of a thread block.
template <class Shape>
struct GemmMemory {
  using E = typename Shape::E;
  struct Stage {
    alignas(16) E left[Shape::Place::elements(Shape::rows)];
    alignas(16) E right[Shape::Place::elements(Shape::columns)];
  } stages[Shape::stages];
};

/// @tparam Machine as in strip.hpp
template <class Shape, class Machine, Operands operands = Operands::any, Result result = Result::by_columns>
class GemmBlock {
  using R = typename Shape::R;
  using E = typename Shape::E;
  using Operand = ProductOperand<E>;
  using Place = typename Shape::Place;
  using Update = BlockUpdate<Shape, Machine, result>;
  static constexpr int parts = Shape::parts;
  static constexpr int depth = Shape::depth;
  static constexpr int row_tiles = Shape::rows_of_warp / 8, column_tiles = Shape::columns_of_warp / 8;
  static constexpr bool by_tensor_cores = sizeof(R) == sizeof(double);
  static constexpr bool is_plain = operands == Operands::plain;
  static constexpr int words_of_sums = row_tiles * column_tiles * 2 * static_cast<int>(sizeof(E) / 4);
  /// Whether C is loaded while the sums are computed: there are registers for it.
  static constexpr bool loads_early = words_of_sums <= 32;
  /// Otherwise C is copied to the stages that are free at the end, if there are enough: so many columns per stage.
  static constexpr int columns_of_stage = Shape::columns >= Shape::rows ? 2 * depth : depth;
  static constexpr bool has_free_stages =
      !loads_early && result == Result::by_columns && (Shape::stages - 1) * columns_of_stage >= Shape::columns;

 public:
  /// @pre the product updates something of the block
  TESSERA_DEVICE GemmBlock(const BlockProduct<E>& product, GemmMemory<Shape>& memory, index_t first_row,
                           index_t first_column, Machine machine)
      : product_(product),
        memory_(memory),
        machine_(machine),
        first_row_(first_row),
        first_column_(first_column),
        group_(machine.lane() / 4),
        member_(machine.lane() % 4),
        row_of_warp_(machine.warp() / Shape::across * Shape::rows_of_warp),
        column_of_warp_(machine.warp() % Shape::across * Shape::columns_of_warp) {}

  TESSERA_DEVICE void run() {
    rows_ = at_most(product_.m - first_row_, Shape::rows);
    columns_ = at_most(product_.n - first_column_, Shape::columns);
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) sums_[p][t][u][0] = sums_[p][t][u][1] = 0;
      }
    }
    stages_of_term_ = static_cast<Count>((product_.k + depth - 1) / depth);
    stages_ = static_cast<Count>(product_.terms) * stages_of_term_;
    last_steps_ = static_cast<int>(product_.k - static_cast<index_t>(stages_of_term_ - 1) * depth);
    typename Update::template Before<loads_early ? row_tiles : 1> before;
    add_all(before);
    if constexpr (loads_early) {
      if (stages_ == 0) update().load(before, 0);
      update().store(sums_, before, 0);
    } else if (c_comes_by_stages()) {
      store_with_stages();
    } else {
      store();
    }
  }

 private:
  using Term = typename BlockProduct<E>::Term;
  using Stage = typename GemmMemory<Shape>::Stage;
  /// Counts stages. 32 bits suffice for any operand that fits a device's memory.
  using Count = std::uint32_t;
  using LeftCopy = StageCopy<Shape, Machine, Shape::rows, is_plain>;
  using RightCopy = StageCopy<Shape, Machine, Shape::columns, is_plain>;
  using LeftLayout = StageLayout<Place, Shape::rows, depth>;
  using RightLayout = StageLayout<Place, Shape::columns, depth>;

  static TESSERA_DEVICE int at_most(index_t left, int most) { return left < most ? static_cast<int>(left) : most; }

  TESSERA_DEVICE Update update() const {
    return Update(product_, first_row_, first_column_, row_of_warp_, column_of_warp_, rows_, columns_, machine_);
  }

  /// Where registers do not suffice for all of C, it is updated some row tiles at a time. Loads overlap only while no
  /// store comes between them.
  TESSERA_DEVICE void store() {
    constexpr int tiles = words_of_sums <= 32 || row_tiles == 1 ? row_tiles : row_tiles / 2;
    const Update update = this->update();
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; t += tiles) {
      typename Update::template Before<tiles> before;
      update.load(before, t);
      update.store(sums_, before, t);
    }
  }

  /// A triangle cannot be copied by stages: the elements outside it must not be read.
  TESSERA_DEVICE bool c_comes_by_stages() const {
    return has_free_stages && product_.reads_c && product_.updated == Region::full;
  }
  TESSERA_DEVICE void ask_for_c(Stage& to, int number) const {
    LeftCopy copy(machine_, first_row_, rows_);
    Operand c;
    c.at = product_.C;
    c.row = 1;
    c.step = product_.column;
    const index_t column = number * columns_of_stage;
    if constexpr (columns_of_stage > depth) {
      if (column + depth < columns_) ask_for_c(to.right, c, column + depth, copy);
    }
    if (column < columns_) ask_for_c(to.left, c, column, copy);
  }
  TESSERA_DEVICE void ask_for_c(E* to, const Operand& c, index_t column, LeftCopy& copy) const {
    copy.copy(to, c, true, first_column_ + column, at_most(columns_ - column, depth));
  }
  TESSERA_DEVICE void store_with_stages() {
    machine_.template await_batches<0>();
    meet();
    const int next_column = LeftLayout::next_step(Place::is_fixed && Place::is_by_steps);
    const int next_row = LeftLayout::next_row(Place::is_fixed && Place::is_by_steps);
    const int first = static_cast<int>(stages_ % Shape::stages);
    update().template store<row_tiles>(sums_, 0, [&](int t, int u, int c) {
      const int column = column_of_warp_ + 8 * u, number = column / columns_of_stage;
      const int place = first + number < Shape::stages ? first + number : first + number - Shape::stages;
      const Stage& stage = memory_.stages[place];
      const E* const part = column % columns_of_stage < depth ? stage.left : stage.right;
      return part[(column % depth + 2 * member_ + c) * next_column + (row_of_warp_ + group_ + 8 * t) * next_row];
    });
  }

  TESSERA_DEVICE bool is_second(Count stage) const { return !is_plain && stage >= stages_of_term_; }
  TESSERA_DEVICE bool begins_term(Count stage) const { return stage == 0 || stage == stages_of_term_; }
  TESSERA_DEVICE Count stage_of_term(Count stage) const { return is_second(stage) ? stage - stages_of_term_ : stage; }
  TESSERA_DEVICE index_t step_of(Count stage) const { return static_cast<index_t>(stage_of_term(stage)) * depth; }
  TESSERA_DEVICE int steps_of(Count stage) const {
    return stage_of_term(stage) + 1 < stages_of_term_ ? depth : last_steps_;
  }
  TESSERA_DEVICE const Term& term_of(Count stage) const { return product_.term[is_second(stage) ? 1 : 0]; }

  template <class Before>
  TESSERA_DEVICE void add_all(Before& before) {
    LeftCopy left(machine_, first_row_, rows_);
    RightCopy right(machine_, first_column_, columns_);
    // A warp without elements of the matrix still takes part in the copies.
    const bool has_part = row_of_warp_ < rows_ && column_of_warp_ < columns_;
    constexpr int ahead = Shape::stages - 1;
    int place = 0, place_ahead = 0;
    // The first iterations only start copies. The code of the copies is long, so the loop contains it once.
    TESSERA_NO_UNROLL
    for (Count turn = 0; turn < stages_ + ahead; ++turn) {
      if (turn >= ahead) {
        machine_.template await_batches<Shape::stages - 2>();
        meet();  // all copies of this stage have arrived, and the stage before is free
      }
      if (turn < stages_)
        ask_for(memory_.stages[place_ahead], turn, left, right);
      else if (c_comes_by_stages())
        ask_for_c(memory_.stages[place_ahead], static_cast<int>(turn - stages_));
      machine_.end_of_batch();
      place_ahead = place_ahead + 1 < Shape::stages ? place_ahead + 1 : 0;
      if (turn < ahead) continue;
      const Count at = turn - ahead;
      if constexpr (loads_early) {
        if (at == 0) update().load(before, 0);
      }
      if (has_part) {
        // The copies may have reached another term, whose operands have another layout.
        const Term& term = term_of(at);
        add_stage(memory_.stages[place], at, is_plain ? left.by_steps() : LeftLayout::is_by_steps(term.left),
                  is_plain ? right.by_steps() : RightLayout::is_by_steps(term.right));
      }
      place = place + 1 < Shape::stages ? place + 1 : 0;
    }
  }

  TESSERA_DEVICE void meet() {
    if constexpr (Shape::warps == 1) {
      machine_.sync_warp();
    } else {
      machine_.meet();
    }
  }

  TESSERA_DEVICE void ask_for(Stage& to, Count stage, LeftCopy& left, RightCopy& right) const {
    const Term& term = term_of(stage);
    const bool begins = begins_term(stage);
    const index_t step = step_of(stage);
    const int steps = steps_of(stage);
    left.copy(to.left, term.left, begins, step, steps);
    right.copy(to.right, term.right, begins, step, steps);
  }

  /// An element of an operand, computed from the stored element.
  TESSERA_DEVICE static E seen(E value, const Operand& operand, index_t i, index_t k) {
    if constexpr (parts == 2) {
      bool conjugates = operand.conjugate;
      if (!is_plain && operand.hermitian) {
        if (i == k) value.part[E::im] = 0;
        if (!is_in(operand.stored, i, k)) conjugates = !conjugates;
      }
      if (conjugates) value.part[E::im] = -value.part[E::im];
    }
    return value;
  }

  /// Rows of the left operand are rows of C; rows of the right operand are columns of C.
  TESSERA_DEVICE E left_element(const Term& term, E stored, index_t first_step, int step, int row) const {
    const E value = seen(stored, term.left, first_row_ + row, first_step + step);
    if constexpr (parts == 2 && !is_plain) {
      if (product_.has_factors) return product(term.factor, value);
    }
    return value;
  }
  TESSERA_DEVICE E right_element(const Term& term, E stored, index_t first_step, int step, int column) const {
    return seen(stored, term.right, first_column_ + column, first_step + step);
  }

  /// The first row of the right operand that a thread reads.
  TESSERA_DEVICE int first_right() const { return column_of_warp_ + (by_tensor_cores ? group_ : 2 * member_); }

  TESSERA_DEVICE void add_stage(const Stage& stage, Count at, bool left, bool right) {
    if constexpr (Place::is_fixed) {
      add_stage<Place::is_by_steps, Place::is_by_steps>(stage, at);
    } else {
      if (left)
        right ? add_stage<true, true>(stage, at) : add_stage<true, false>(stage, at);
      else
        right ? add_stage<false, true>(stage, at) : add_stage<false, false>(stage, at);
    }
  }
  template <bool left_by_steps, bool right_by_steps>
  TESSERA_DEVICE void add_stage(const Stage& stage, Count at) {
    const int step = by_tensor_cores ? member_ : 0;
    const int row = LeftLayout::next_row(left_by_steps), right_row = RightLayout::next_row(right_by_steps);
    const E* const left = stage.left + (row_of_warp_ + group_) * row + step * LeftLayout::next_step(left_by_steps);
    const E* const right = stage.right + first_right() * right_row + step * RightLayout::next_step(right_by_steps);
    if constexpr (by_tensor_cores) {
      const bool has_all =
          row_of_warp_ + Shape::rows_of_warp <= rows_ && column_of_warp_ + Shape::columns_of_warp <= columns_;
      if (row_tiles * column_tiles > 8 && has_all)  // for few tiles the test costs as much as it saves
        add_by_tensor_cores<left_by_steps, right_by_steps, true>(left, right, at);
      else
        add_by_tensor_cores<left_by_steps, right_by_steps, false>(left, right, at);
    } else if constexpr (Place::is_fixed) {
      add_by_fma_of_four_steps(left, right);
    } else {
      add_by_fma<left_by_steps, right_by_steps>(left, right, at);
    }
  }

  /// Whether the matrix has this row tile or column tile of the warp's rectangle. The answer is the same in all of the
  /// warp.
  /// @pre the matrix has a part of the rectangle
  TESSERA_DEVICE bool has_rows(int t) const { return t == 0 || row_of_warp_ + 8 * t < rows_; }
  TESSERA_DEVICE bool has_columns(int u) const { return u == 0 || column_of_warp_ + 8 * u < columns_; }

  template <bool left_by_steps, bool right_by_steps, bool has_all>
  TESSERA_DEVICE void add_by_tensor_cores(const E* left_at, const E* right_at, Count at) {
    const Term& term = term_of(at);
    const index_t first_step = step_of(at);
    const int row_distance = LeftLayout::next_row(left_by_steps), step_distance = LeftLayout::next_step(left_by_steps);
    const int right_row = RightLayout::next_row(right_by_steps), right_step = RightLayout::next_step(right_by_steps);
    R right[column_tiles][parts][4];
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      if (!has_all && !has_columns(u)) break;
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const E stored = right_at[8 * u * right_row + 4 * s * right_step];
        const E value = right_element(term, stored, first_step, 4 * s + member_, first_right() + 8 * u);
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) right[u][p][s] = value.part[p];
      }
    }
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; t += 2) {
      if (!has_all && !has_rows(t)) break;
      R left[parts][2][4];
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        TESSERA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int row = 8 * (t + half);
          const E stored = left_at[row * row_distance + 4 * s * step_distance];
          const E value = left_element(term, stored, first_step, 4 * s + member_, row_of_warp_ + group_ + row);
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) left[p][half][s] = value.part[p];
        }
      }
      constexpr int re = E::re, im = E::im;
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        if (!has_all && !has_columns(u)) break;
        machine_.multiply(sums_[re][t][u], sums_[re][t + 1][u], left[re], right[u][re]);
        if constexpr (parts == 2) {
          machine_.multiply(sums_[im][t][u], sums_[im][t + 1][u], left[re], right[u][im]);
          machine_.multiply(sums_[im][t][u], sums_[im][t + 1][u], left[im], right[u][re]);
        }
      }
      if constexpr (parts == 2) {
        // The product of two imaginary parts is minus a real one.
        TESSERA_UNROLL
        for (int half = 0; half < 2; ++half) {
          TESSERA_UNROLL
          for (int s = 0; s < 4; ++s) left[im][half][s] = -left[im][half][s];
        }
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) {
          if (!has_all && !has_columns(u)) break;
          machine_.multiply(sums_[re][t][u], sums_[re][t + 1][u], left[im], right[u][im]);
        }
      }
    }
  }

  template <bool left_by_steps, bool right_by_steps>
  TESSERA_DEVICE void add_by_fma(const E* left_at, const E* right_at, Count at) {
    const Term& term = term_of(at);
    const index_t first_step = step_of(at);
    const int row_distance = LeftLayout::next_row(left_by_steps), step_distance = LeftLayout::next_step(left_by_steps);
    const int right_row = RightLayout::next_row(right_by_steps), right_step = RightLayout::next_step(right_by_steps);
    constexpr int together = 4;  // more would exceed the instruction cache
    TESSERA_NO_UNROLL
    for (int steps = 0; steps < depth; steps += together) {
      TESSERA_UNROLL
      for (int of_steps = 0; of_steps < together; ++of_steps) {
        const int step = steps + of_steps;
        E right[column_tiles][2];
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) {
          TESSERA_UNROLL
          for (int c = 0; c < 2; ++c) {
            const int row = 8 * u + c;
            const E stored = right_at[row * right_row + step * right_step];
            right[u][c] = right_element(term, stored, first_step, step, first_right() + row);
          }
        }
        TESSERA_UNROLL
        for (int t = 0; t < row_tiles; ++t) {
          if (!has_rows(t)) break;
          const E stored = left_at[8 * t * row_distance + step * step_distance];
          add_products(t, left_element(term, stored, first_step, step, row_of_warp_ + group_ + 8 * t), right);
        }
      }
    }
  }
  TESSERA_DEVICE void add_products(int t, const E& left, const E (&right)[column_tiles][2]) {
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      TESSERA_UNROLL
      for (int c = 0; c < 2; ++c) {
        E sum;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) sum.part[p] = sums_[p][t][u][c];
        sum = fused(left, right[u][c], sum);
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) sums_[p][t][u][c] = sum.part[p];
      }
    }
  }

  /// For real elements whose steps are contiguous: one load reads four of them.
  struct alignas(4 * sizeof(E)) FourSteps {
    E element[4];
  };
  TESSERA_DEVICE static FourSteps four_steps(const E* from) {
    FourSteps four;
    memcpy(&four, __builtin_assume_aligned(from, sizeof four), sizeof four);
    return four;
  }
  TESSERA_DEVICE void add_by_fma_of_four_steps(const E* left_at, const E* right_at) {
    const int distance = LeftLayout::next_row(true);
    TESSERA_UNROLL
    for (int step = 0; step < depth; step += 4) {
      FourSteps right[column_tiles][2];
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) right[u][c] = four_steps(right_at + (8 * u + c) * distance + step);
      }
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        if (!has_rows(t)) break;
        const FourSteps left = four_steps(left_at + 8 * t * distance + step);
        TESSERA_UNROLL
        for (int s = 0; s < 4; ++s) {
          E of_step[column_tiles][2];
          TESSERA_UNROLL
          for (int u = 0; u < column_tiles; ++u) {
            TESSERA_UNROLL
            for (int c = 0; c < 2; ++c) of_step[u][c] = right[u][c].element[s];
          }
          add_products(t, left.element[s], of_step);
        }
      }
    }
  }

  const BlockProduct<E>& product_;
  GemmMemory<Shape>& memory_;
  Machine machine_;
  const index_t first_row_, first_column_;
  const int group_;   ///< the thread's row in a tile of eight
  const int member_;  ///< the thread's place among the four threads of that row
  const int row_of_warp_, column_of_warp_;
  int rows_ = 0, columns_ = 0;  ///< of the block, as far as the matrix has them
  Count stages_ = 0, stages_of_term_ = 0;
  int last_steps_ = 0;  ///< steps of k in the last stage of a term
  typename Update::Sums sums_;
};

}  // namespace tessera::kernels::block
