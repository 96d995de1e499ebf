// The common part of graphs whose tasks are tiles of a matrix: where dimensions are cut, and in which order tiles go.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "routines/matrix_view.hpp"
#include "routines/plan.hpp"
#include "routines/tiling.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::routines {

/// The outline of a Level 3 call. @param tile see choose_tiling()
inline Outline outline_of(const ProductShape& shape, const runtime::Machine& machine, index_t tile) {
  const runtime::Tiling tiling = choose_tiling(shape, machine, tile);
  return {shape.type, shape.m, tiling, shape.work, holds_operands(shape, tiling, machine)};
}

class TiledGraph : public runtime::TaskGraph {
 public:
  /// Devices form a grid as square as can be, over which the tiles of C are dealt: then each device reads few rows of A
  /// and columns of B, and its first tiles of C grow as a square.
  index_t home(runtime::TaskId task, index_t devices) const override {
    index_t shorter = 1;
    for (index_t side = 1; side * side <= devices; ++side) {
      if (devices % side == 0) shorter = side;
    }
    if (std::min(mt(), nt()) < shorter) shorter = 1;  // else some would have nothing
    const index_t longer = devices / shorter;
    const TileIndex t = index_of(task);
    const bool wide = nt() >= mt();
    return (wide ? t.i : t.j) % shorter * longer + (wide ? t.j : t.i) % longer;
  }

 protected:
  TiledGraph(const char* name, const Outline& outline, index_t cols, index_t depth) {
    type = outline.type;
    routine = letter(type) + std::string(name);
    m = outline.m;
    n = cols;
    k = depth;
    tiling = outline.tiling;
    work = outline.work;
    slot_bytes = routines::slot_bytes(type, tiling);
  }

  static Span span(index_t index, index_t tile, index_t skew, index_t size) {
    const auto cut = [=](index_t i) { return i * tile < size ? i * tile - i % 2 * skew : size; };
    return {cut(index), cut(index + 1) - cut(index)};
  }
  Span rows(index_t i) const { return span(i, tiling.m, tiling.skew_m, m); }
  Span cols(index_t j) const { return span(j, tiling.n, tiling.skew_n, n); }
  Span depth(index_t l) const { return span(l, tiling.k, tiling.skew_k, k); }
  index_t mt() const { return ceil_div(m, tiling.m); }
  index_t nt() const { return ceil_div(n, tiling.n); }
  index_t kt() const { return ceil_div(k, tiling.k); }

  TileIndex index_of(runtime::TaskId task) const { return order_[static_cast<std::size_t>(task)]; }
  runtime::TaskId task_of(index_t i, index_t j) const { return tasks_[place_of(i, j)]; }

  /// Makes the task of a tile the next one, if it is none yet.
  void append(index_t i, index_t j) {
    if (tasks_.empty()) tasks_.assign(static_cast<std::size_t>(mt() * nt()), runtime::no_task);
    if (task_of(i, j) != runtime::no_task) return;
    tasks_[place_of(i, j)] = static_cast<runtime::TaskId>(order_.size());
    order_.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)});
  }
  void end_group() { group_ends.push_back(static_cast<runtime::TaskId>(order_.size())); }

  using Use = device::Touched::Use;

  void touch(const std::vector<const MatrixView*>& operands) {
    for (const MatrixView* operand : operands) touched.push_back({operand->host()});
  }

  /// A kernel of the graph's type with all else at its default.
  Level3 tile_call(Routine of, index_t rows, index_t cols, index_t depth) const {
    return {.routine = of, .type = type, .m = rows, .n = cols, .k = depth};
  }
  /// C = alpha X Y + beta C.
  runtime::Step product_step(AnyScalar alpha, const Block& X, const Block& Y, AnyScalar beta = 1) const {
    Level3 call = tile_call(Routine::gemm, X.rows, Y.cols, X.cols);
    call.op_a = X.op;
    call.op_b = Y.op;
    call.alpha = alpha;
    call.beta = beta;
    return {.kernel = call, .a = X, .b = Y};
  }

  std::vector<TileIndex> order_;  // by task

 private:
  std::size_t place_of(index_t i, index_t j) const { return static_cast<std::size_t>(i * nt() + j); }

  std::vector<runtime::TaskId> tasks_;  // by tile, where tasks were appended one by one
};

}  // namespace tessera::routines
