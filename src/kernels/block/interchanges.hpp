// The row interchanges of a panel of an LU factorization, as one permutation. It moves the panel's top rows, and the
// rows from below that reach the top. With it a column is read and written once, and all of its loads overlap.
//
// Row i of the top is interchanged with row pivots[i] >= i, in this order, as LAPACK's ?laswp does it. Only rows of the
// top move to places below it; nothing else moves there.
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// @tparam most top rows, at most 64
template <int most>
struct Interchanges {
  static constexpr int rows = most;
  int source[most];  ///< the row that moves to each place of the top
  int target[most];  ///< the place below the top to which each of its rows moves; -1: none

  /// @pre one warp calls it
  /// @param count top rows
  /// @param pivots pivots(i) is the pivot of top row i, counted from the first one; pivots(i) >= i
  template <class Machine, class Pivots>
  TESSERA_DEVICE void make(Machine machine, Pivots pivots, int count) {
    constexpr int parts = (most + 31) / 32;
    int comes[parts], goes[parts];  // for rows lane and lane + 32: the row in that place, and where that row has gone
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      comes[p] = machine.lane() + 32 * p;
      goes[p] = comes[p] < count ? comes[p] : -1;  // rows beyond `count` match no search
    }
    const auto of = [&](const int(&numbers)[parts], int row) {
      int number = machine.shuffle(numbers[0], row % 32);
      if constexpr (parts == 2) {
        const int other = machine.shuffle(numbers[1], row % 32);
        if (row >= 32) number = other;
      }
      return number;
    };
    const auto set = [&](int(&numbers)[parts], int row, int number) {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        if (machine.lane() + 32 * p == row) numbers[p] = number;
      }
    };
    TESSERA_NO_UNROLL
    for (int i = 0; i < count; ++i) {
      const int to = pivots(i);
      if (to == i) continue;
      const int leaving = of(comes, i);
      int coming = to;
      if (to < count) {
        coming = of(comes, to);
        set(comes, to, leaving);
      } else {
        // A row of the top that has moved to that place comes back.
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) {
          const int lane = machine.first_lane(goes[p] == to);
          if (lane >= 0) coming = lane + 32 * p;
        }
      }
      set(goes, leaving, to);
      set(comes, i, coming);
      if (coming < count) set(goes, coming, i);
    }
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      const int row = machine.lane() + 32 * p;
      if (row >= most) continue;
      source[row] = comes[p];
      target[row] = goes[p] < count ? -1 : goes[p];
    }
  }

  /// Reads the rows of one column that move. One thread handles all top rows of a column.
  /// @param top the column's first element
  /// @param count top rows
  /// @param rows receives the rows that move to the top
  /// @param before receives the top rows that move below
  template <class E>
  TESSERA_DEVICE void take(const E* top, int count, E (&rows)[most], E (&before)[most]) const {
    TESSERA_UNROLL
    for (int i = 0; i < most; ++i) {
      rows[i] = before[i] = {};
      if (i < count) {
        rows[i] = top[source[i]];
        if (target[i] >= 0) before[i] = top[i];
      }
    }
  }
  template <class E>
  TESSERA_DEVICE void put_below(E* top, int count, const E (&before)[most]) const {
    TESSERA_UNROLL
    for (int i = 0; i < most; ++i) {
      if (i < count && target[i] >= 0) top[target[i]] = before[i];
    }
  }
};

}  // namespace tessera::kernels::block
