// The Cholesky factor of a small matrix, computed by a warp or by a part of one. Each thread holds a row of the lower
// triangle in registers. In each step all threads receive one column of L.
//
// The transpose of an upper triangle of A is a lower triangle of A^T, which is Hermitian, too. Its factor is the
// transpose of A's. An upper triangle reaches the registers through shared memory, so that threads read neighbouring
// addresses.
//
// Arithmetic: LAPACK's ?potf2, with a product by the reciprocal of the root in place of each division. That reciprocal
// is always a normal number.
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/reciprocal.hpp"
#include "kernels/block/turning_columns.hpp"

namespace tessera::kernels::block {

/// @tparam team_threads threads of a team: a power of two up to 32, or several warps
template <class Real, int parts_of_element, int most_rows, int team_threads>
struct CholeskyShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int rows = most_rows;
  static constexpr int threads = team_threads;
  static_assert(rows <= threads);
};

/// Shared memory of a team: columns of L and their pivots. Odd and even columns take turns with the two places.
template <class Shape>
struct CholeskyMemory {
  /// Reads beyond the last row are allowed: their results are not used.
  alignas(16) typename Shape::E line[2][Shape::rows + group_of_columns(Shape::rows)];
  typename Shape::R pivot[2];
};

/// Shared memory of a team for an upper triangle, stored by columns.
template <class Shape>
struct UpperTriangle {
  /// one row of padding: threads read a row from different banks
  typename Shape::E column[Shape::rows][Shape::rows + 1];
};

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> conjugate(Element<R, parts> a) {
  if constexpr (parts == 2) a.part[1] = -a.part[1];
  return a;
}

/// @tparam Machine as in lu_panel.hpp; meet() and shuffle() are those of the team
template <class Shape, class Machine>
class CholeskyBlock {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int rows = Shape::rows;
  static constexpr int of_group = group_of_columns(rows);

 public:
  TESSERA_DEVICE CholeskyBlock(CholeskyMemory<Shape>& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// @pre order <= Shape::rows
  TESSERA_DEVICE void load(const E* H, index_t row, index_t column, int order) {
    order_ = order;
    const E* const mine = machine_.in_global(H) + machine_.thread() * row;
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      a_[j] = {};
      if (has(j)) a_[j] = mine[j * column];
    }
  }
  /// The same for an upper triangle.
  TESSERA_DEVICE void load_upper(UpperTriangle<Shape>& triangle, const E* A, index_t lda, int order) {
    const int i = machine_.thread();
    const E* at = machine_.in_global(A) + i;
    for (int j = 0; j < order; ++j, at += lda) {
      if (i <= j) machine_.template copy_async<1>(&triangle.column[j][i], at, 1);
    }
    machine_.end_of_batch();
    machine_.template await_batches<0>();
    machine_.meet();
    order_ = order;
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      a_[j] = {};
      if (has(j)) a_[j] = triangle.column[i][j];
    }
  }

  /// @return the order of the first leading minor that is not positive; 0: none
  /// @pre all threads of the team call it
  TESSERA_DEVICE int factor() {
    int failed = 0;
    TESSERA_UNROLL
    for (int first = 0; first < rows; first += of_group) {
      if (first >= order_ || failed > 0) break;
      int turn = 0;
      TESSERA_NO_UNROLL
      for (; turn < of_group && first + turn < order_; ++turn) {
        const R pivot = pivot_of(first, turn);
        if (!(pivot > 0)) {
          failed = first + turn + 1;
          break;
        }
        eliminate(first, turn, root_of(pivot));
      }
      finish_turns<of_group>(a_ + first, turn);
    }
    return failed;
  }

  TESSERA_DEVICE void store(E* H, index_t row, index_t column) const {
    column = machine_.made_anew(column);  // else the compiler keeps the addresses of the loads in registers
    E* const mine = machine_.in_global(H) + machine_.thread() * row;
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      if (has(j)) mine[j * column] = a_[j];
    }
  }
  TESSERA_DEVICE void store_upper(UpperTriangle<Shape>& triangle, E* A, index_t lda) {
    const int i = machine_.thread();
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      if (has(j)) triangle.column[i][j] = a_[j];
    }
    machine_.meet();
    E* at = machine_.in_global(A) + i;
    for (int j = 0; j < order_; ++j, at += lda) {
      if (i <= j) *at = triangle.column[j][i];
    }
  }

  /// Calls f(column, element) for the thread's row.
  template <class F>
  TESSERA_DEVICE void for_each_element(F f) const {
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) f(j, a_[j]);
  }

 private:
  /// Whether the thread's row of the triangle has this column.
  TESSERA_DEVICE bool has(int column) const {
    const int row = machine_.thread();
    return row < order_ && column <= row;
  }

  /// Eliminates column first + turn, which turning has brought to the first place of its group.
  TESSERA_DEVICE void eliminate(int first, int turn, const Root<R>& pivot) {
    const int k = first + turn;
    const R diagonal = pivot.root, inverse = pivot.inverse;
    const int row = machine_.thread();
    E* const line = memory_.line[k % 2];
    E diagonal_element{};
    diagonal_element.part[E::re] = diagonal;
    const E factor = row == k ? diagonal_element : product(a_[first], inverse);
    if (row < rows) line[row] = factor;
    machine_.meet();
    const E minus = row > k ? negative(factor) : E{};
    turn_group<of_group>(a_ + first, row < k ? a_[first] : factor, [&](int j, const E& old) {
      return fused_if(j < of_group - turn, minus, conjugate(line[k + j]), old);
    });
    TESSERA_UNROLL
    for (int j = first + of_group; j < rows; ++j) a_[j] = fused(minus, conjugate(line[j]), a_[j]);
  }

  /// @pre all threads of the team call it
  TESSERA_DEVICE R pivot_of(int first, int turn) {
    const int k = first + turn;
    const R own = a_[first].part[E::re];
    if constexpr (Shape::threads <= 32) return machine_.shuffle(own, k);
    if (machine_.thread() == k) memory_.pivot[k % 2] = own;
    machine_.meet();
    return memory_.pivot[k % 2];
  }

  CholeskyMemory<Shape>& memory_;
  Machine machine_;
  int order_ = 0;
  E a_[rows];
};

}  // namespace tessera::kernels::block
