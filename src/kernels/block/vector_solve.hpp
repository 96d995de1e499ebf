// The solution of two triangular systems, one behind the other, for one right-hand side, as a warp computes it: what
// potrs and getrs are for small matrices. Each element of the factors is loaded once, and nothing but them decides how
// long it takes.
//
// The warp has 32 x 32 elements of a factor at a time, a row of what is stored per lane, so that loads lie side by side.
// Where that is a row of the triangle T, solved elements are told to all lanes. Where it is a column (T is the transpose
// of what is stored), products are summed up over the lanes.
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// @tparam blocks of 32 rows, at most
template <class R, int parts, int blocks, class Machine>
class VectorSolve {
  using E = Element<R, parts>;
  static constexpr int width = 32;

 public:
  /// @param order at most 32 * blocks
  TESSERA_DEVICE VectorSolve(const E* stored, index_t ld, int order, Machine machine)
      : stored_(machine.in_global(stored)), ld_(ld), order_(order), machine_(machine) {}

  /// x(row, element) for the thread's rows.
  template <class F>
  TESSERA_DEVICE void for_each_row(F f) {
    TESSERA_UNROLL
    for (int b = 0; b < blocks; ++b) {
      const int row = width * b + machine_.lane();
      if (row < order_) f(row, x_[b]);
    }
  }

  /// T x = b, x in the place of b. T is lower where it goes forward.
  /// @tparam transposed T is the transpose of what is stored, or, if `conjugates`, the conjugate of it
  template <bool forward, bool transposed>
  TESSERA_DEVICE void solve(bool is_unit, bool conjugates) {
    TESSERA_UNROLL
    for (int step = 0; step < blocks; ++step) {
      const int block = forward ? step : blocks - 1 - step;
      if (width * block >= order_) continue;
      TESSERA_UNROLL
      for (int before = 0; before < step; ++before) {
        const int solved = forward ? before : blocks - 1 - before;
        if (width * solved >= order_) continue;
        subtract<transposed>(block, solved, conjugates);
      }
      solve_block<forward, transposed>(block, is_unit, conjugates);
    }
  }

 private:
  /// Of rows from first_row on, in the thread's row; f(column) says which are wanted.
  template <class Wanted>
  TESSERA_DEVICE void load(int first_row, int first_column, bool conjugates, Wanted wanted) {
    // Neither elements of several blocks at a time nor addresses to be used again have room in registers.
    const int row = machine_.made_anew(first_row) + machine_.lane();
    const index_t ld = machine_.made_anew(ld_);
    const E* const from = stored_ + row + first_column * ld;
    TESSERA_UNROLL
    for (int j = 0; j < width; ++j) {
      a_[j] = {};
      if (row < order_ && first_column + j < order_ && wanted(j)) a_[j] = from[j * ld];
    }
    if constexpr (parts == 2) {
      if (conjugates) {
        TESSERA_UNROLL
        for (int j = 0; j < width; ++j) a_[j].part[1] = -a_[j].part[1];
      }
    }
  }

  TESSERA_DEVICE E from_lane(const E& value, int lane) {
    E there;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) there.part[p] = machine_.shuffle(value.part[p], lane);
    return there;
  }
  TESSERA_DEVICE E from_partner(const E& value, int distance) { return from_lane(value, machine_.lane() ^ distance); }
  static TESSERA_DEVICE E sum(E a, const E& b) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) a.part[p] += b.part[p];
    return a;
  }

  /// The matrix has the thread's row of a block. What others compute with may not be finite.
  TESSERA_DEVICE bool has_row(int block) const { return width * block + machine_.lane() < order_; }

  /// x of a block less T times what is solved.
  template <bool transposed>
  TESSERA_DEVICE void subtract(int block, int solved, bool conjugates) {
    const auto all = [](int /*column*/) { return true; };
    if constexpr (!transposed) {
      load(width * block, width * solved, conjugates, all);
      TESSERA_UNROLL
      for (int j = 0; j < width; ++j) {
        if (width * solved + j >= order_) continue;
        const E there = from_lane(x_[solved], j);
        if (has_row(block)) x_[block] = fused(negative(a_[j]), there, x_[block]);
      }
    } else {
      load(width * solved, width * block, conjugates, all);
      TESSERA_UNROLL
      for (int j = 0; j < width; ++j) a_[j] = has_row(solved) ? product(a_[j], x_[solved]) : E{};
      sum_over_lanes<width / 2>();
      x_[block] = sum(x_[block], negative(a_[0]));
    }
  }

  /// Of all columns at once: each step halves the columns that a lane still has; at last a_[0] is that of its own.
  template <int distance>
  TESSERA_DEVICE void sum_over_lanes() {
    const bool is_upper = (machine_.lane() & distance) != 0;
    TESSERA_UNROLL
    for (int j = 0; j < distance; ++j) {
      const E given = is_upper ? a_[j] : a_[j + distance];
      a_[j] = sum(is_upper ? a_[j + distance] : a_[j], from_partner(given, distance));
    }
    if constexpr (distance > 1) sum_over_lanes<distance / 2>();
  }

  template <bool forward, bool transposed>
  TESSERA_DEVICE void solve_block(int block, bool is_unit, bool conjugates) {
    constexpr bool stored_lower = forward != transposed;
    const int lane = machine_.lane();
    load(width * block, width * block, conjugates, [&](int j) { return stored_lower ? j <= lane : j >= lane; });
    E diagonal{};
    diagonal.part[0] = 1;
    const int row = width * block + lane;
    if (row < order_ && !is_unit) diagonal = stored_[row * (ld_ + 1)];
    if constexpr (parts == 2) {
      if (conjugates) diagonal.part[1] = -diagonal.part[1];
    }
    const ScaledReciprocal inverse(diagonal);
    E& x = x_[block];
    TESSERA_UNROLL
    for (int step = 0; step < width; ++step) {
      const int j = forward ? step : width - 1 - step;
      if (width * block + j >= order_) continue;
      if constexpr (!transposed) {
        const E solved = from_lane(inverse.quotient(x), j);
        if (lane == j) x = solved;
        if (forward ? lane > j && has_row(block) : lane < j) x = fused(negative(a_[j]), solved, x);
      } else {
        E all{};
        if (forward ? lane < j : lane > j && has_row(block)) all = product(a_[j], x);
        TESSERA_UNROLL
        for (int distance = width / 2; distance > 0; distance /= 2) all = sum(all, from_partner(all, distance));
        const E rest = sum(x, negative(all));
        if (lane == j) x = inverse.quotient(rest);
      }
    }
  }

  const E* stored_;
  index_t ld_;
  int order_;
  Machine machine_;
  E x_[blocks] = {};
  E a_[width];
};

}  // namespace tessera::kernels::block
