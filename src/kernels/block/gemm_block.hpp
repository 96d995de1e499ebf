// A block of C of a product (block_product.hpp) as the threads of one block compute it.
//
// Sixteen steps of k of both operands at a time lie in shared memory, by steps, some of them on their way while others
// are used. They are copied element by element, whatever their layout, alignment and leading dimension; what lies
// beyond the matrices is zero. A warp has a rectangle of the block; its thread 4 g + q has rows g + 8 t and columns 8 u
// + 2 q and 8 u + 2 q + 1, the layout of the accumulators of the tensor cores' instruction. Sums run there in double
// precision, and as fused multiply-adds in single; complex products are four real ones. All steps of all terms are
// summed in order, so that a result depends neither on the block that it is in nor on its neighbours.
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"

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
  static constexpr int depth = 16;  ///< steps of k at a time, those of the tensor cores' instruction
  static constexpr int stages = steps_ahead;
  /// Elements from step to step in shared memory: four steps of eight rows, which a warp reads at once, lie in
  /// different banks.
  static constexpr int padding = sizeof(E) == 16 ? 2 : 4;
  static constexpr int left_stride = rows + padding, right_stride = columns + padding;
  static_assert(rows_of_warp % 16 == 0 && columns_of_warp % 8 == 0 && stages >= 2);
};

/// Shared memory of a thread block.
template <class Shape>
struct GemmMemory {
  using E = typename Shape::E;
  struct Stage {
    E left[Shape::depth * Shape::left_stride];
    E right[Shape::depth * Shape::right_stride];
  } stages[Shape::stages];
};

/// Machine: as in strip.hpp.
template <class Shape, class Machine>
class GemmBlock {
  using R = typename Shape::R;
  using E = typename Shape::E;
  using Operand = ProductOperand<E>;
  static constexpr int parts = Shape::parts;
  static constexpr int depth = Shape::depth;
  static constexpr int row_tiles = Shape::rows_of_warp / 8, column_tiles = Shape::columns_of_warp / 8;
  static constexpr bool by_tensor_cores = sizeof(R) == sizeof(double);

 public:
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
    if (product_.does_nothing || is_outside()) return;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) sums_[p][t][u][0] = sums_[p][t][u][1] = 0;
      }
    }
    const index_t stages_of_term = (product_.k + depth - 1) / depth;
    const index_t stages = product_.terms * stages_of_term;
    for (index_t ahead = 0; ahead < Shape::stages - 1; ++ahead) ask_for(ahead, stages, stages_of_term);
    TESSERA_NO_UNROLL
    for (index_t at = 0; at < stages; ++at) {
      machine_.template await_batches<Shape::stages - 2>();
      machine_.await(0, Shape::warps);  // what all have asked for has come, and nobody uses the stage before any more
      ask_for(at + Shape::stages - 1, stages, stages_of_term);
      const bool is_second = at >= stages_of_term;
      add_stage(product_.term[is_second ? 1 : 0], memory_.stages[at % Shape::stages],
                (is_second ? at - stages_of_term : at) * depth);
    }
    store();
  }

 private:
  /// Nothing of the block is updated.
  TESSERA_DEVICE bool is_outside() const {
    if (first_row_ >= product_.m || first_column_ >= product_.n) return true;
    const index_t last_row = first_row_ + Shape::rows - 1, last_column = first_column_ + Shape::columns - 1;
    return (product_.updated == Region::lower && last_row < first_column_) ||
           (product_.updated == Region::upper && first_row_ > last_column);
  }

  TESSERA_DEVICE static bool is_in(Region region, index_t i, index_t j) {
    return region == Region::full || (region == Region::lower ? i >= j : i <= j);
  }

  TESSERA_DEVICE void ask_for(index_t stage, index_t stages, index_t stages_of_term) {
    if (stage < stages) {
      const bool is_second = stage >= stages_of_term;
      const index_t first_step = (is_second ? stage - stages_of_term : stage) * depth;
      const auto& term = product_.term[is_second ? 1 : 0];
      auto& to = memory_.stages[stage % Shape::stages];
      copy<Shape::rows, Shape::left_stride>(to.left, term.left, first_row_, product_.m, first_step);
      copy<Shape::columns, Shape::right_stride>(to.right, term.right, first_column_, product_.n, first_step);
    }
    machine_.end_of_batch();
  }

  /// Neighbouring threads copy what lies side by side.
  template <int rows, int stride>
  TESSERA_DEVICE void copy(E* to, const Operand& from, index_t first_row, index_t end, index_t first_step) {
    const int thread = machine_.warp() * 32 + machine_.lane();
    const bool rows_lie_together = from.row == 1;
    TESSERA_UNROLL
    for (int n = 0; n < rows * depth; n += Shape::threads) {
      const int at = n + thread;
      if (at >= rows * depth) break;
      const int row = rows_lie_together ? at % rows : at / depth;
      const int step = rows_lie_together ? at / rows : at % depth;
      const index_t i = first_row + row, k = first_step + step;
      const bool is_there = i < end && k < product_.k;
      const bool is_stored = is_in(from.stored, i, k);
      const index_t offset = is_stored ? i * from.row + k * from.step : k * from.row + i * from.step;
      machine_.copy_async(to + step * stride + row, is_there ? from.at + offset : from.at, is_there);
    }
  }

  /// An element of an operand from what is stored of it.
  TESSERA_DEVICE static E seen(E value, const Operand& operand, index_t i, index_t k) {
    if constexpr (parts == 2) {
      bool conjugates = operand.conjugate;
      if (operand.hermitian) {
        if (i == k) value.part[E::im] = 0;
        if (!is_in(operand.stored, i, k)) conjugates = !conjugates;
      }
      if (conjugates) value.part[E::im] = -value.part[E::im];
    }
    return value;
  }

  using Term = typename BlockProduct<E>::Term;
  using Stage = typename GemmMemory<Shape>::Stage;

  TESSERA_DEVICE E left_element(const Term& term, const Stage& stage, index_t first_step, int step, int tile) const {
    const int row = row_of_warp_ + 8 * tile + group_;
    const E value = seen(stage.left[step * Shape::left_stride + row], term.left, first_row_ + row, first_step + step);
    return product_.has_factors ? product(term.factor, value) : value;
  }
  TESSERA_DEVICE E right_element(const Term& term, const Stage& stage, index_t first_step, int step, int column) const {
    return seen(stage.right[step * Shape::right_stride + column], term.right, first_column_ + column,
                first_step + step);
  }

  TESSERA_DEVICE void add_stage(const Term& term, const Stage& stage, index_t first_step) {
    if constexpr (by_tensor_cores) {
      add_by_tensor_cores(term, stage, first_step);
    } else {
      add_by_fma(term, stage, first_step);
    }
  }

  TESSERA_DEVICE void add_by_tensor_cores(const Term& term, const Stage& stage, index_t first_step) {
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; t += 2) {
      R left[parts][2][4];
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        TESSERA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const E value = left_element(term, stage, first_step, 4 * s + member_, t + half);
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) left[p][half][s] = value.part[p];
        }
      }
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        R right[parts][4];
        TESSERA_UNROLL
        for (int s = 0; s < 4; ++s) {
          const int column = column_of_warp_ + 8 * u + group_;
          const E value = right_element(term, stage, first_step, 4 * s + member_, column);
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) right[p][s] = value.part[p];
        }
        constexpr int re = E::re, im = E::im;
        machine_.multiply(sums_[re][t][u], sums_[re][t + 1][u], left[re], right[re]);
        if constexpr (parts == 2) {
          machine_.multiply(sums_[im][t][u], sums_[im][t + 1][u], left[re], right[im]);
          machine_.multiply(sums_[im][t][u], sums_[im][t + 1][u], left[im], right[re]);
          // The product of two imaginary parts is minus a real one.
          TESSERA_UNROLL
          for (int s = 0; s < 4; ++s) right[im][s] = -right[im][s];
          machine_.multiply(sums_[re][t][u], sums_[re][t + 1][u], left[im], right[im]);
        }
      }
    }
  }

  TESSERA_DEVICE void add_by_fma(const Term& term, const Stage& stage, index_t first_step) {
    TESSERA_UNROLL
    for (int step = 0; step < depth; ++step) {
      E right[column_tiles][2];
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c)
          right[u][c] = right_element(term, stage, first_step, step, column_of_warp_ + 8 * u + 2 * member_ + c);
      }
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        const E left = left_element(term, stage, first_step, step, t);
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) {
          TESSERA_UNROLL
          for (int c = 0; c < 2; ++c) set_sum(t, u, c, fused(left, right[u][c], sum(t, u, c)));
        }
      }
    }
  }

  TESSERA_DEVICE E sum(int t, int u, int c) const {
    E value;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) value.part[p] = sums_[p][t][u][c];
    return value;
  }
  TESSERA_DEVICE void set_sum(int t, int u, int c, const E& value) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) sums_[p][t][u][c] = value.part[p];
  }

  TESSERA_DEVICE void store() const {
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; ++t) {
      const index_t i = first_row_ + row_of_warp_ + 8 * t + group_;
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const index_t j = first_column_ + column_of_warp_ + 8 * u + 2 * member_ + c;
          if (i < product_.m && j < product_.n && is_in(product_.updated, i, j)) update(i, j, sum(t, u, c));
        }
      }
    }
  }
  TESSERA_DEVICE void update(index_t i, index_t j, E value) const {
    E& element = product_.C[i + j * product_.ldc];
    const bool is_real = parts == 2 && product_.real_diagonal && i == j;
    if (product_.terms > 0 && !product_.has_factors) value = product(product_.alpha, value);
    if (product_.reads_c) {
      const E before = is_real ? real_part(element) : element;
      value = fused(product_.beta, before, value);
    }
    element = is_real ? real_part(value) : value;
  }

  const BlockProduct<E>& product_;
  GemmMemory<Shape>& memory_;
  Machine machine_;
  const index_t first_row_, first_column_;
  const int group_;   ///< row of a thread in a tile of eight
  const int member_;  ///< its place among the four threads of that row
  const int row_of_warp_, column_of_warp_;
  R sums_[parts][row_tiles][column_tiles][2];
};

}  // namespace tessera::kernels::block
