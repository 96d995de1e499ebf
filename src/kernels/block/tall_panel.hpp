// LU factors of a few columns that are too high for the registers of a team (lu_panel.hpp). They are computed in global
// memory, column by column; a multiprocessor reads its elements from its caches.
#pragma once

#include "kernels/block/lu_panel.hpp"

namespace tessera::kernels::block {

template <class Shape, class Machine, bool pivots>
class TallPanel {
  using R = typename Shape::R;
  using E = typename Shape::E;
  using Key = MagnitudeKey<R>;
  static constexpr int columns = Shape::columns;

 public:
  TESSERA_DEVICE TallPanel(PanelMemory<Shape>& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// Interchanges rows in these columns only; memory.pivots holds the interchanges. All threads may read the result
  /// when it returns.
  /// @pre height > width; rows are counted in 31 bits
  /// @return the first column, from 1, whose pivot is zero; 0: none
  TESSERA_DEVICE int factor(E* A, index_t lda, index_t height, int width, R tiny) {
    int first_zero = 0;
    TESSERA_NO_UNROLL
    for (int k = 0; k < width; ++k) {
      E pivot = make_pivot(A, lda, height, width, k, tiny);
      const bool is_singular = is_zero(pivot);
      if (is_singular) {  // LAPACK leaves the column as it is, and continues
        if (first_zero == 0) first_zero = k + 1;
        pivot.part[0] = 1;
      }
      E u[columns];
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) u[j] = j > k && j < width ? A[k + j * lda] : E{};
      const ScaledReciprocal inverse(pivot);
      TESSERA_NO_UNROLL
      for (index_t i = k + 1 + machine_.thread(); i < height; i += Shape::threads) {
        E* const row = A + i;
        const E factor = is_singular ? row[k * lda] : inverse.quotient(row[k * lda]);
        row[k * lda] = factor;
        TESSERA_UNROLL
        for (int j = 0; j < columns; ++j) {
          if (j > k && j < width) row[j * lda] = fused(negative(factor), u[j], row[j * lda]);
        }
      }
      machine_.meet();
    }
    return first_zero;
  }

 private:
  TESSERA_DEVICE E make_pivot(E* A, index_t lda, index_t height, int width, int k, R tiny) {
    if constexpr (pivots) {
      const int place = find(A + k * lda, height, k);
      if (machine_.thread() == 0) memory_.pivots[k] = place;
      if (machine_.thread() < width && place != k) {
        E* const column = A + machine_.thread() * lda;
        const E above = column[k];
        column[k] = column[place];
        column[place] = above;
      }
      machine_.meet();
      return A[k + k * lda];
    }
    E pivot = A[k + k * lda];
    if (sum_of_parts(pivot) < tiny) {
      pivot = replaced_pivot(pivot, tiny);
      machine_.meet();  // all threads have read the old element
      if (machine_.thread() == 0) A[k + k * lda] = pivot;
    }
    return pivot;
  }

  TESSERA_DEVICE int find(const E* column, index_t height, int k) {
    constexpr int nowhere = LuPanel<Shape, Machine>::nowhere;
    Key key = 0;
    int place = nowhere;
    TESSERA_NO_UNROLL
    for (index_t i = k + machine_.thread(); i < height; i += Shape::threads) {
      const R size = size_to_compare(column[i]);
      const Key mine = !is_nan(size) || i == k ? key_of(size) : 0;
      if (mine > key) {
        key = mine;
        place = static_cast<int>(i);
      }
    }
    const int best = machine_.place_of_largest(key, place);
    const int turn = k % 2;
    if (best == nowhere ? machine_.lane() == 0 : best == place) {
      memory_.place[turn][machine_.warp()] = place;
      memory_.key[turn][machine_.warp()] = key;
    }
    machine_.meet();
    const int lane = machine_.lane();
    return machine_.place_of_largest(lane < Shape::warps ? memory_.key[turn][lane] : Key{0},
                                     lane < Shape::warps ? memory_.place[turn][lane] : nowhere);
  }

  PanelMemory<Shape>& memory_;
  Machine machine_;
};

}  // namespace tessera::kernels::block
