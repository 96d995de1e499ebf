// The Cholesky factor of a small matrix, as a warp or a part of one computes it: each thread has a row, in registers.
//
// Only the lower triangle of a Hermitian matrix is looked at: H(i, j) for i >= j, at rows and columns of any distance.
// An upper triangle of A is the lower one of its transpose, which is Hermitian, too; its factor is that of A,
// transposed. So one code is native to both.
//
// Arithmetic: LAPACK's ?potf2, with the reciprocal of a root in place of divisions by it, which is a normal number.
#pragma once

#include <cmath>

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// @tparam team_threads of a team: a power of two up to 32
template <class Real, int parts_of_element, int most_rows, int team_threads>
struct CholeskyShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int rows = most_rows;
  static constexpr int threads = team_threads;
  static_assert(rows <= threads);
};

/// Shared memory of a team: columns of the factor, in turns.
template <class Shape>
struct CholeskyMemory {
  alignas(16) typename Shape::E column[2][Shape::rows];
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
template <class Shape, class Machine>
class CholeskyBlock {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int rows = Shape::rows;

 public:
  TESSERA_DEVICE CholeskyBlock(CholeskyMemory<Shape>& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// @pre order <= Shape::rows
  TESSERA_DEVICE void load(const E* H, index_t row, index_t column, int order) {
    order_ = order;
    const E* const mine = machine_.in_global(H) + machine_.lane() * row;
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      a_[j] = {};
      if (machine_.lane() < order && j <= machine_.lane()) a_[j] = mine[j * column];
    }
  }

  /// @return the order of the first leading minor that is not positive; 0: none. All of the team.
  TESSERA_DEVICE int factor() {
    int failed = 0;
    TESSERA_UNROLL
    for (int k = 0; k < rows; ++k) {
      if (k >= order_ || failed > 0) break;
      const R pivot = machine_.shuffle(a_[k].part[E::re], k);
      if (!(pivot > 0)) {
        failed = k + 1;
        break;
      }
      const R diagonal = root(pivot);
      const R inverse = R(1) / diagonal;
      const bool is_below = machine_.lane() > k;
      E factor = product(a_[k], inverse);
      if (machine_.lane() == k) {
        factor = {};
        factor.part[E::re] = diagonal;
      }
      if (machine_.lane() >= k) a_[k] = factor;
      E* const column = memory_.column[k % 2];
      if (machine_.lane() < rows) column[machine_.lane()] = factor;
      machine_.meet();
      const E minus = is_below ? negative(factor) : E{};
      TESSERA_UNROLL
      for (int j = k + 1; j < rows; ++j) a_[j] = fused(minus, conjugate(column[j]), a_[j]);
    }
    return failed;
  }

  TESSERA_DEVICE void store(E* H, index_t row, index_t column) const {
    E* const mine = machine_.in_global(H) + machine_.lane() * row;
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) {
      if (machine_.lane() < order_ && j <= machine_.lane()) mine[j * column] = a_[j];
    }
  }

  /// f(column, element) for the thread's row.
  template <class F>
  TESSERA_DEVICE void for_each_element(F f) const {
    TESSERA_UNROLL
    for (int j = 0; j < rows; ++j) f(j, a_[j]);
  }

 private:
  CholeskyMemory<Shape>& memory_;
  Machine machine_;
  int order_ = 0;
  E a_[rows];
};

}  // namespace tessera::kernels::block
