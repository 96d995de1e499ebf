// What the graphs of all routines have in common: the call, its tiling, the order of its tasks, and the bookkeeping
// that follows from them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "routines/matrix_view.hpp"
#include "routines/tiling.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::routines {

class CallGraph : public runtime::TaskGraph {
 public:
  std::string routine() const override { return name_of(call_); }
  ScalarType type() const override { return call_.type; }
  runtime::Tiling tiling() const override { return tiling_; }
  index_t m() const override { return call_.m; }
  index_t n() const override { return call_.n; }
  index_t k() const override { return shape_.k; }
  index_t task_count() const override { return static_cast<index_t>(order_.size()); }
  std::size_t slot_bytes() const override { return routines::slot_bytes(call_.type, tiling_); }
  index_t working_slots() const override { return slots_for_all(shape_, tiling_); }
  double flops() const override { return flops_of(call_); }
  bool grouped() const override { return !group_ends_.empty(); }
  runtime::TaskId group_end(runtime::TaskId task) const override {
    return *std::upper_bound(group_ends_.begin(), group_ends_.end(), task);
  }

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
  /// A range of one dimension in elements.
  struct Span {
    index_t first = 0;
    index_t size = 0;
  };

  CallGraph(const Level3& call, const runtime::Machine& machine, index_t tile)
      : call_(call), shape_(shape_of(call)), tiling_(choose_tiling(shape_, machine, tile)) {}

  /// @param call that has the operation's sizes and type
  CallGraph(const Level3& call, const runtime::Tiling& tiling) : call_(call), shape_(shape_of(call)), tiling_(tiling) {}

  static Span span(index_t index, index_t tile, index_t skew, index_t size) {
    const auto cut = [=](index_t i) { return i * tile < size ? i * tile - i % 2 * skew : size; };
    return {cut(index), cut(index + 1) - cut(index)};
  }
  Span rows(index_t i) const { return span(i, tiling_.m, tiling_.skew_m, shape_.m); }
  Span cols(index_t j) const { return span(j, tiling_.n, tiling_.skew_n, shape_.n); }
  Span depth(index_t l) const { return span(l, tiling_.k, tiling_.skew_k, shape_.k); }
  index_t mt() const { return ceil_div(shape_.m, tiling_.m); }
  index_t nt() const { return ceil_div(shape_.n, tiling_.n); }
  index_t kt() const { return ceil_div(shape_.k, tiling_.k); }

  void set_order(TaskOrder order) {
    order_ = std::move(order.tiles);
    group_ends_ = std::move(order.group_ends);
  }
  TileIndex index_of(runtime::TaskId task) const { return order_[static_cast<std::size_t>(task)]; }

  /// A step of the call's type with all else at its default.
  Level3 tile_call(Routine routine, index_t m, index_t n, index_t k) const {
    Level3 call;
    call.routine = routine;
    call.type = call_.type;
    call.m = m;
    call.n = n;
    call.k = k;
    return call;
  }

  static std::vector<device::HostRange> ranges_of(const std::vector<const MatrixView*>& views) {
    std::vector<device::HostRange> ranges;
    for (const MatrixView* view : views) {
      if (view->is_dense()) ranges.push_back(view->range());
    }
    return ranges;
  }

  Level3 call_;
  ProductShape shape_;
  runtime::Tiling tiling_;
  std::vector<TileIndex> order_;
  std::vector<runtime::TaskId> group_ends_;  // ascending; empty: not grouped
};

}  // namespace tessera::routines
