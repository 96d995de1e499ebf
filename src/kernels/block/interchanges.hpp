// The interchanges of rows that a panel of an LU factorization ends with, as one permutation: of its top rows, and of
// those that were taken from below. So that a column is read and written once, with all loads on their way together.
//
// Row i of the top is interchanged with row pivots[i] >= i, in this order, as LAPACK's ?laswp does it. What goes below
// the top are rows of the top, and there are no other moves below it.
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// @tparam most of the top rows: up to 64
template <int most>
struct Interchanges {
  static constexpr int rows = most;
  int source[most];  ///< which row comes to a place of the top
  int target[most];  ///< the place below the top that a row of it goes to; -1: none

  /// By one warp. @param count of the top rows @param pivots (i) of each, counted from the first of them; pivots(i) >= i
  template <class Machine, class Pivots>
  TESSERA_DEVICE void make(Machine machine, Pivots pivots, int count) {
    constexpr int parts = (most + 31) / 32;
    int comes[parts], goes[parts];  // of rows lane, lane + 32: what stands there now, and where they stand
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      comes[p] = machine.lane() + 32 * p;
      goes[p] = comes[p] < count ? comes[p] : -1;  // others are not looked for
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
        // A row of the top that has been put there comes back.
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

  /// Of one column, by one thread that has all of its top rows. @param top of the column @param step from row to row
  /// @param count of the top rows @param rows what comes to them
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
