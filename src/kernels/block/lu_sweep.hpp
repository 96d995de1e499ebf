// LU factors of some columns of a matrix, with or without pivoting, computed by the threads of one block. It is
// right-looking, in leaves of few columns:
//   1. the leaf is factored in registers (lu_panel.hpp), or in global memory if it is too high (tall_panel.hpp);
//   2. its interchanges and the solve with its unit triangle are applied to the other columns;
//   3. a product (gemm_block.hpp) updates the rest, so that all columns of the sweep are up to date.
//
// A matrix of few leaves is one sweep. In a larger matrix a sweep is a panel, and other thread blocks update the
// columns behind it.
#pragma once

#include "kernels/block/gemm_block.hpp"
#include "kernels/block/interchanges.hpp"
#include "kernels/block/lapack_problems.hpp"
#include "kernels/block/lu_panel.hpp"
#include "kernels/block/tall_panel.hpp"

namespace tessera::kernels::block {

/// The update of the rows below and the columns behind a panel of `k` columns: the product of its parts L and U is
/// subtracted.
/// @param A the panel's first row and column
/// @param m, n rows and columns from there on
template <class E>
TESSERA_DEVICE BlockProduct<E> product_behind_panel(E* A, index_t lda, index_t m, index_t n, index_t k) {
  E one{};
  one.part[0] = 1;
  BlockProduct<E> product;
  product.m = m - k;
  product.n = n - k;
  product.k = k;
  product.terms = 1;
  product.term[0].left.at = A + k;
  product.term[0].left.row = 1;
  product.term[0].left.step = lda;
  product.term[0].right.at = A + k * lda;
  product.term[0].right.row = lda;
  product.term[0].right.step = 1;
  product.alpha = negative(one);
  product.beta = one;
  product.alpha_is_real = product.beta_is_real = true;
  product.reads_c = true;
  product.C = A + k + k * lda;
  product.column = lda;
  return product;
}

/// @tparam Leaf PanelShape
/// @tparam Block GemmShape with as many threads
/// @tparam any_height whether leaves may be higher than Leaf::rows
template <class Leaf, class Block, class Machine, bool pivots, bool any_height>
class LuSweep {
  using R = typename Leaf::R;
  using E = typename Leaf::E;
  static constexpr int parts = Leaf::parts;
  static constexpr int columns = Leaf::columns;
  static_assert(Leaf::threads == Block::threads);

  struct Corner {
    alignas(16) E factor[columns][columns];  ///< the unit lower triangle, by columns
    Interchanges<columns> interchanges;
  };

 public:
  struct Memory {
    union {
      PanelMemory<Leaf> panel;
      GemmMemory<Block> stages;
    };
    Corner corner;
    alignas(16) unsigned char product[sizeof(BlockProduct<E>)];
    int first_zero;
  };

  TESSERA_DEVICE LuSweep(Memory& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// @param A the first row and column of the sweep
  /// @param height rows from there on
  /// @param width columns of the sweep
  /// @param ipiv pivots of the whole matrix, in which A is row `first`
  /// @return the same for all threads: the first column, counted from 1 at A, whose pivot is zero; 0: none
  TESSERA_DEVICE index_t run(E* A, index_t lda, index_t height, index_t width, Numbers ipiv, index_t first, R tiny) {
    A_ = machine_.in_global(A);
    lda_ = lda;
    width_ = width;
    index_t first_zero = 0;
    const index_t steps = height < width ? height : width;
    TESSERA_NO_UNROLL
    for (index_t k = 0; k < steps; k += columns) {
      const int of_leaf = static_cast<int>(width - k < columns ? width - k : columns);
      const int top = static_cast<int>(height - k < of_leaf ? height - k : of_leaf);
      const int zero = factor_leaf(k, height - k, of_leaf, top, tiny);
      if (zero > 0 && first_zero == 0) first_zero = k + zero;
      if constexpr (pivots) {
        if (machine_.thread() < top)
          ipiv.set(first + k + machine_.thread(), first + k + memory_.panel.pivots[machine_.thread()] + 1);
      }
      machine_.meet();
      finish_columns(k, of_leaf, top);
      machine_.meet();
      update(k, height, of_leaf);
    }
    return first_zero;
  }

 private:
  TESSERA_DEVICE E* at(index_t row, index_t column) const { return A_ + row + column * lda_; }

  /// @param top rows of the leaf's triangle
  /// @post some threads may see the last step's results only after all threads have met
  TESSERA_DEVICE int factor_leaf(index_t k, index_t height, int of_leaf, int top, R tiny) {
    if constexpr (any_height) {
      if (height > Leaf::rows) return factor_tall_leaf(k, height, of_leaf, tiny);
    }
    LuPanel<Leaf, Machine, pivots> panel(memory_.panel, machine_);
    panel.load(at(k, k), lda_, static_cast<int>(height), of_leaf);
    const int zero = panel.factor(tiny);
    machine_.meet();
    panel.store(at(k, k), lda_);
    auto& interchanges = memory_.corner.interchanges;
    panel.for_each_row([&](int number, int place, const E(&row)[columns]) {
      if (place < top) {
        interchanges.source[place] = number;
        TESSERA_UNROLL
        for (int j = 0; j < columns; ++j) memory_.corner.factor[j][place] = row[j];
      }
      if (number < top) interchanges.target[number] = place < top ? -1 : place;
    });
    return zero;
  }

  TESSERA_DEVICE int factor_tall_leaf(index_t k, index_t height, int of_leaf, R tiny) {
    TallPanel<Leaf, Machine, pivots> panel(memory_.panel, machine_);
    const int zero = panel.factor(at(k, k), lda_, height, of_leaf, tiny);
    Corner& corner = memory_.corner;
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < of_leaf * of_leaf; e += Leaf::threads)
      corner.factor[e / of_leaf][e % of_leaf] = *at(k + e % of_leaf, k + e / of_leaf);
    if constexpr (pivots) {
      if (machine_.warp() == 0)
        corner.interchanges.make(
            machine_, [&](int i) { return memory_.panel.pivots[i]; }, of_leaf);
    }
    return zero;
  }

  /// Interchanges rows in all columns beside the leaf, and solves with its triangle in the columns behind it. Each
  /// thread handles whole columns.
  TESSERA_DEVICE void finish_columns(index_t k, int of_leaf, int top) {
    const Corner& corner = memory_.corner;
    TESSERA_NO_UNROLL
    for (index_t j = machine_.thread(); j < width_ - of_leaf; j += Leaf::threads) {
      const bool is_before = j < k;
      if (!pivots && is_before) continue;
      E* const column = at(k, is_before ? j : j + of_leaf);
      E rows[columns], before[columns];
      if constexpr (pivots) {
        corner.interchanges.take(column, top, rows, before);
        corner.interchanges.put_below(column, top, before);
      } else {
        TESSERA_UNROLL
        for (int i = 0; i < columns; ++i) rows[i] = i < top ? column[i] : E{};
      }
      if (!is_before) {
        // Loaded again for every column: the whole triangle does not fit the registers.
        const auto* const factor = corner.factor + machine_.made_anew(0);
        TESSERA_UNROLL
        for (int i = 0; i < columns; ++i) {
          const E solved = negative(rows[i]);
          TESSERA_UNROLL
          for (int l = i + 1; l < columns; ++l) rows[l] = fused(factor[i][l], solved, rows[l]);
        }
      }
      TESSERA_UNROLL
      for (int i = 0; i < columns; ++i) {
        if (i < top) column[i] = rows[i];
      }
    }
  }

  /// Updates the rows below and the columns behind the leaf.
  TESSERA_DEVICE void update(index_t k, index_t height, int of_leaf) {
    const index_t next = k + of_leaf;
    if (next >= height || next >= width_) return;
    auto& product = *reinterpret_cast<BlockProduct<E>*>(memory_.product);
    if (machine_.thread() == 0)
      product = product_behind_panel(at(k, k), lda_, height - k, width_ - k, static_cast<index_t>(of_leaf));
    machine_.meet();
    TESSERA_NO_UNROLL
    for (index_t j = 0; j < product.n; j += Block::columns) {
      TESSERA_NO_UNROLL
      for (index_t i = 0; i < product.m; i += Block::rows) {
        GemmBlock<Block, Machine, Operands::plain>(product, memory_.stages, i, j, machine_).run();
        machine_.meet();
      }
    }
  }

  Memory& memory_;
  Machine machine_;
  E* A_ = nullptr;
  index_t lda_ = 0, width_ = 0;
};

}  // namespace tessera::kernels::block
