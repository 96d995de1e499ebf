// The Cholesky factor of a small matrix, as a warp or a part of one computes it: each thread has a row, in registers.
//
// Of a lower triangle each step tells all threads a column of L, of an upper one a row of U. Rows and columns may be
// any distance apart: an upper triangle of A is the lower one of its transpose, which is Hermitian, too; its factor is
// that of A, transposed.
//
// Arithmetic: LAPACK's ?potf2, with the reciprocal of a root in place of divisions by it, which is a normal number.
#pragma once

#include <cmath>

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// @tparam team_threads of a team: a power of two up to 32, or several warps
template <class Real, int parts_of_element, int most_rows, int team_threads>
struct CholeskyShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int rows = most_rows;
  static constexpr int threads = team_threads;
  static_assert(rows <= threads);
};

/// Shared memory of a team, in turns: columns of L, or rows of U, and their pivots.
template <class Shape>
struct CholeskyMemory {
  alignas(16) typename Shape::E line[2][Shape::rows];
  typename Shape::R pivot[2];
};

template <class R>
TESSERA_DEVICE R root(R a) {
  using std::sqrt;
  return sqrt(a);
}

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> conjugate(Element<R, parts> a) {
  if constexpr (parts == 2) a.part[1] = -a.part[1];
  return a;
}

/// Machine: as in lu_panel.hpp; meet() and shuffle() are those of the team.
/// @tparam is_upper of the triangle: a thread's row is one of U
template <class Shape, class Machine, bool is_upper = false>
class CholeskyBlock {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int rows = Shape::rows;

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

  /// @return the order of the first leading minor that is not positive; 0: none. All of the team.
  TESSERA_DEVICE int factor() {
    int failed = 0;
    TESSERA_UNROLL
    for (int k = 0; k < rows; ++k) {
      if (k >= order_ || failed > 0) break;
      const R pivot = pivot_of(k);
      if (!(pivot > 0)) {
        failed = k + 1;
        break;
      }
      const R diagonal = root(pivot);
      eliminate(k, diagonal, R(1) / diagonal);
    }
    return failed;
  }

  TESSERA_DEVICE void store(E* H, index_t row, index_t column) const {
    column = machine_.made_anew(column);  // else the addresses are kept from the loads
    E* const mine = machine_.in_global(H) + machine_.thread() * row;
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      if (has(j)) mine[j * column] = a_[j];
    }
  }

  /// f(column, element) for the thread's row.
  template <class F>
  TESSERA_DEVICE void for_each_element(F f) const {
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) f(j, a_[j]);
  }

 private:
  /// The triangle, in the thread's row.
  TESSERA_DEVICE bool has(int column) const {
    const int row = machine_.thread();
    return is_upper ? row <= column && column < order_ : row < order_ && column <= row;
  }

  TESSERA_DEVICE void eliminate(int k, R diagonal, R inverse) {
    const int row = machine_.thread();
    E* const line = memory_.line[k % 2];
    E diagonal_element{};
    diagonal_element.part[E::re] = diagonal;
    if constexpr (is_upper) {
      if (row == k) {
        a_[k] = diagonal_element;
        TESSERA_UNROLL
        for (int j = k + 1; j < rows; ++j) line[j] = a_[j] = product(a_[j], inverse);
      }
      machine_.meet();
      const E minus = row > k && row < rows ? negative(conjugate(line[row])) : E{};
      TESSERA_UNROLL
      for (int j = k + 1; j < rows; ++j) a_[j] = fused(minus, line[j], a_[j]);
    } else {
      const E factor = row == k ? diagonal_element : product(a_[k], inverse);
      if (row >= k) a_[k] = factor;
      if (row < rows) line[row] = factor;
      machine_.meet();
      const E minus = row > k ? negative(factor) : E{};
      TESSERA_UNROLL
      for (int j = k + 1; j < rows; ++j) a_[j] = fused(minus, conjugate(line[j]), a_[j]);
    }
  }

  /// All of the team.
  TESSERA_DEVICE R pivot_of(int k) {
    const R own = a_[k].part[E::re];
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
