// Applies a panel of an LU factorization to a strip of other columns, by the threads of one block. It makes the panel's
// interchanges. Right of the panel it computes the rows of U by a solve with the panel's unit triangle
// (trsm_strip.hpp).
#pragma once

#include "kernels/block/interchanges.hpp"
#include "kernels/block/lapack_problems.hpp"
#include "kernels/block/trsm_strip.hpp"

namespace tessera::kernels::block {

/// @tparam Shape that of strips, whose leaf has room for all columns of a panel
template <class Shape, class Machine>
class LuStrip {
  using E = typename Shape::E;
  static constexpr int rows = Shape::rows;  ///< rows of the triangle, which are the columns of a panel
  static constexpr int rows_of_lane = (rows + 31) / 32;
  static constexpr int columns_at_a_time = 2;

 public:
  struct Memory {
    Interchanges<rows> interchanges;
    int pivots[rows];
    StripMemory<Shape> strip;
    alignas(16) unsigned char system[sizeof(TriangularSystem<E>)];
  };

  TESSERA_DEVICE LuStrip(Memory& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// Prepares one panel for all of its strips. @param ipiv null: there are no interchanges
  TESSERA_DEVICE void begin(const LapackProblem<E>& problem, index_t first) {
    problem_ = &problem;
    first_ = first;
    const index_t smaller = problem.m < problem.n ? problem.m : problem.n;
    top_ = static_cast<int>(smaller - first < rows ? smaller - first : rows);
    if (problem.ipiv.at == nullptr) return;
    for (int i = machine_.thread(); i < top_; i += Shape::threads)
      memory_.pivots[i] = static_cast<int>(problem.ipiv.get(first + i) - 1 - first);
    machine_.meet();
    if (machine_.warp() == 0)
      memory_.interchanges.make(
          machine_, [&](int i) { return memory_.pivots[i]; }, top_);
    machine_.meet();
  }

  /// Handles the columns from `column` up to `end`, at most Shape::columns. @pre all are on one side of the panel
  TESSERA_DEVICE void run(index_t column, index_t end) {
    if (end - column > Shape::columns) end = column + Shape::columns;
    if (problem_->ipiv.at != nullptr) {
      for (index_t j = column + machine_.warp() * columns_at_a_time; j < end; j += Shape::warps * columns_at_a_time)
        interchange(j, end);
      machine_.meet();
    }
    if (column < first_) return;
    auto& system = *reinterpret_cast<TriangularSystem<E>*>(memory_.system);
    if (machine_.thread() == 0) {
      system.L = problem_->A + first_ + first_ * problem_->lda;
      system.l_row = 1;
      system.l_col = problem_->lda;
      system.X = problem_->A + first_;
      system.x_row = 1;
      system.x_col = problem_->lda;
      system.order = top_;
      system.columns = end;
      system.alpha = {};
      system.alpha.part[0] = 1;
      system.scales = system.conjugate = false;
      system.unit = true;
    }
    machine_.meet();
    StripSolver<Shape, Machine>(system, memory_.strip, column, machine_).run();
    machine_.meet();
  }

 private:
  /// Interchanges rows of some columns from j on. One warp calls it.
  TESSERA_DEVICE void interchange(index_t j, index_t end) {
    E comes[columns_at_a_time][rows_of_lane], goes[columns_at_a_time][rows_of_lane];
    E* const top = machine_.in_global(problem_->A) + first_ + j * problem_->lda;
    const auto for_each = [&](auto f) {
      TESSERA_UNROLL
      for (int c = 0; c < columns_at_a_time; ++c) {
        TESSERA_UNROLL
        for (int p = 0; p < rows_of_lane; ++p) {
          const int row = machine_.lane() + 32 * p;
          if (row < top_ && j + c < end) f(top + c * problem_->lda, row, comes[c][p], goes[c][p]);
        }
      }
    };
    const Interchanges<rows>& all = memory_.interchanges;
    for_each([&](const E* column, int row, E& come, E& go) {
      come = column[all.source[row]];
      if (all.target[row] >= 0) go = column[row];
    });
    machine_.sync_warp();
    for_each([&](E* column, int row, const E& come, const E& go) {
      column[row] = come;
      if (all.target[row] >= 0) column[all.target[row]] = go;
    });
  }

  Memory& memory_;
  Machine machine_;
  const LapackProblem<E>* problem_ = nullptr;
  index_t first_ = 0;
  int top_ = 0;
};

}  // namespace tessera::kernels::block
