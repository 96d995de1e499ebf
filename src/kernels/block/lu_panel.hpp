// LU factors of a few columns, with partial pivoting, computed by a team of threads. Each thread holds whole rows in
// registers. A matrix with that few columns is factored at once; a wider one is factored panel by panel (lu_sweep.hpp).
//
// Rows stay in their registers, and each row has a variable for its place. In each step every warp publishes its best
// row in shared memory, and all of the team choose among them: one barrier per column. The interchanges happen once,
// when the panel is stored.
//
// The pivot is LAPACK's: the largest |re| + |im|, and the first in the current order among equals. (i?amax compares
// with >, so a NaN is chosen only if it is the first element.)
//
// Sources: Abdelfattah, Haidar, Tomov, Dongarra, for implicit pivoting; LAPACK's ?getf2, for arithmetic and `info`.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/reciprocal.hpp"
#include "kernels/block/turning_columns.hpp"

namespace tessera::kernels::block {

/// @tparam team_threads threads of a team: a power of two up to 32, or several warps
/// @tparam columns_of_group see turning_columns.hpp
template <class Real, int parts_of_element, int most_columns, int rows_of_each, int team_threads,
          int columns_of_group = group_of_columns(most_columns)>
struct PanelShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int columns = most_columns;
  static constexpr int rows_of_thread = rows_of_each;
  static constexpr int threads = team_threads;
  static constexpr int warps = threads > 32 ? threads / 32 : 1;
  static constexpr int rows = threads * rows_of_thread;
  static constexpr int of_group = columns_of_group;
  static_assert(columns % of_group == 0);
};

/// The bits of a magnitude plus one. They compare as the magnitude does, with a NaN above all. The sign is dropped,
/// since a zero may have one. 0: no candidate.
template <class R>
using MagnitudeKey = std::conditional_t<sizeof(R) == sizeof(float), std::uint32_t, std::uint64_t>;
template <class R>
TESSERA_DEVICE MagnitudeKey<R> key_of(R magnitude) {
  MagnitudeKey<R> bits;
  memcpy(&bits, &magnitude, sizeof bits);
  return (bits & (~MagnitudeKey<R>{0} >> 1)) + 1;
}

template <class R, int parts>
TESSERA_DEVICE R sum_of_parts(const Element<R, parts>& a) {
  const auto size = [](R x) { return x < 0 ? -x : x; };
  if constexpr (parts == 1) return size(a.part[0]);
  return size(a.part[0]) + size(a.part[parts - 1]);
}

template <class R>
TESSERA_DEVICE bool is_nan(R a) {
  using std::isnan;
  return isnan(a);
}

/// The argument for key_of(), which ignores a sign.
template <class R, int parts>
TESSERA_DEVICE R size_to_compare(const Element<R, parts>& a) {
  if constexpr (parts == 1) return a.part[0];
  return sum_of_parts(a);
}

template <class R, int parts>
TESSERA_DEVICE bool is_zero(const Element<R, parts>& a) {
  bool zero = true;
  TESSERA_UNROLL
  for (int p = 0; p < parts; ++p) zero = zero && a.part[p] == 0;
  return zero;
}

/// The replacement for a pivot that is too small: of magnitude `size`, with the pivot's sign or direction.
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> replaced_pivot(const Element<R, parts>& pivot, R size) {
  Element<R, parts> value{};
  const R before = sum_of_parts(pivot);
  value.part[0] = size;
  if constexpr (parts == 1) {
    if (pivot.part[0] < 0) value.part[0] = -size;
  } else if (before > 0) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) value.part[p] = pivot.part[p] / before * size;
  }
  return value;
}

/// Shared memory of a team.
template <class Shape>
struct PanelMemory {
  using Key = MagnitudeKey<typename Shape::R>;
  /// The warps' best rows. Odd and even columns take turns, so that a warp one column ahead does not overwrite rows
  /// that others still read.
  alignas(16) typename Shape::E row[2][Shape::warps][Shape::columns];
  Key key[2][Shape::warps];
  int place[2][Shape::warps];
  /// for each top row: the row, counted from the panel's first one, that it was interchanged with
  int pivots[Shape::columns];
};

/// @tparam Machine besides the members of strip.hpp:
///   int thread()                             its number in the team
///   int place_of_largest(Key key, int place) all of the warp; place of the largest key, the lowest among equals
///   int first_lane(bool value)               all of the warp; the first lane whose value is true, or -1
/// A team of fewer than 32 threads has a Machine of its own, as a warp would.
template <class Shape, class Machine, bool pivots = true>
class LuPanel {
  using R = typename Shape::R;
  using E = typename Shape::E;
  using Key = MagnitudeKey<R>;
  static constexpr int columns = Shape::columns, rows_of_thread = Shape::rows_of_thread;
  static constexpr int of_group = Shape::of_group;

 public:
  TESSERA_DEVICE LuPanel(PanelMemory<Shape>& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// @pre height <= Shape::rows, width <= Shape::columns
  TESSERA_DEVICE void load(const E* A, index_t lda, int height, int width) {
    height_ = height;
    width_ = width;
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      place_[r] = machine_.thread() + r * Shape::threads;
      const E* const row = machine_.in_global(A) + place_[r];
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        a_[r][j] = {};
        if (place_[r] < height && j < width) a_[r][j] = row[j * lda];
      }
    }
  }

  /// @param tiny without pivoting: replaces smaller pivots
  /// @return the first column, from 1, whose pivot is zero; 0: none
  TESSERA_DEVICE int factor(R tiny = 0) {
    const int steps = height_ < width_ ? height_ : width_;
    int first_zero = 0;
    TESSERA_UNROLL
    for (int first = 0; first < columns; first += of_group) {
      if (first >= steps) break;
      int turn = 0;
      TESSERA_NO_UNROLL
      for (; turn < of_group && first + turn < steps; ++turn) {
        const bool is_zero = eliminate(first, turn, tiny);
        if (is_zero && first_zero == 0) first_zero = first + turn + 1;
      }
      TESSERA_UNROLL
      for (int r = 0; r < rows_of_thread; ++r) finish_turns<of_group>(a_[r] + first, turn);
    }
    return first_zero;
  }

  /// Stores the rows in their places. @pre all of the team have met since the last load
  TESSERA_DEVICE void store(E* A, index_t lda) const {
    lda = machine_.made_anew(lda);  // else the compiler keeps the distances from the loads in registers
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (place_[r] >= height_) continue;
      E* const row = machine_.in_global(A) + place_[r];
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        if (j < width_) row[j * lda] = a_[r][j];
      }
    }
  }

  /// Calls f(the row's number at the beginning, its place at the end, its elements) for each row of the thread.
  template <class F>
  TESSERA_DEVICE void for_each_row(F f) const {
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      const int number = machine_.thread() + r * Shape::threads;
      if (number < height_) f(number, place_[r], a_[r]);
    }
  }

  /// A place that no row has.
  static constexpr int nowhere = 0x7fffffff;

 private:
  /// Eliminates column first + turn, which turning has brought to the first place of its group.
  /// @return whether its pivot is zero
  TESSERA_DEVICE bool eliminate(int first, int turn, R tiny) {
    const int k = first + turn;
    const E* const u = choose(k, first);
    E pivot = u[first];
    if constexpr (!pivots) {
      if (sum_of_parts(pivot) < tiny) {
        pivot = replaced_pivot(pivot, tiny);
        set_own(k, first, pivot);
      }
    }
    const bool is_singular = is_zero(pivot);
    if (is_singular) pivot.part[0] = 1;  // LAPACK leaves the column as it is, and continues
    const ScaledReciprocal inverse(pivot);
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      const bool is_below = place_[r] > k && place_[r] < height_;
      E factor = a_[r][first];
      if (is_below && !is_singular) factor = inverse.quotient(factor);
      const E minus = negative(factor);
      turn_group<of_group>(a_[r] + first, factor, [&](int j, const E& old) {
        return fused_if(is_below && j < of_group - turn, minus, u[first + j], old);
      });
      if (!is_below) continue;
      TESSERA_UNROLL
      for (int j = first + of_group; j < columns; ++j) a_[r][j] = fused(minus, u[j], a_[r][j]);
    }
    return is_singular;
  }

  /// Chooses the pivot of column k, and interchanges.
  /// @param first column of the group
  /// @return the pivot's row from there on, in the order of the registers, in shared memory; valid until column k + 2
  TESSERA_DEVICE const E* choose(int k, int first) {
    const int turn = k % 2;
    if constexpr (!pivots) {
      put_up(first, k, memory_.row[turn][0]);
      machine_.meet();
      return memory_.row[turn][0];
    }
    Key key = 0;
    int place = nowhere;
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (place_[r] < k || place_[r] >= height_) continue;
      const R size = size_to_compare(a_[r][first]);
      const Key mine = !is_nan(size) || place_[r] == k ? key_of(size) : 0;  // a NaN counts only in the first place
      if (r == 0 || mine > key || (mine == key && place_[r] < place)) {
        key = mine;
        place = place_[r];
      }
    }
    int warp = 0;
    if constexpr (Shape::warps == 1) {
      place = machine_.place_of_largest(key, place);
      put_up(first, place, memory_.row[turn][0]);
      machine_.meet();
    } else {
      const Key of_thread = key;
      const int best = machine_.place_of_largest(key, place);
      if (best == nowhere ? machine_.lane() == 0 : best == place) {
        memory_.key[turn][machine_.warp()] = of_thread;
        memory_.place[turn][machine_.warp()] = best;
      }
      put_up(first, best, memory_.row[turn][machine_.warp()]);
      machine_.meet();
      const int lane = machine_.lane();
      key = 0;
      place = nowhere;
      if (lane < Shape::warps) {
        key = memory_.key[turn][lane];
        place = memory_.place[turn][lane];
      }
      const int chosen = machine_.place_of_largest(key, place);
      warp = machine_.first_lane(place == chosen);
      place = chosen;
    }
    if (machine_.thread() == 0) memory_.pivots[k] = place;
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (place_[r] == place)
        place_[r] = k;
      else if (place_[r] == k)
        place_[r] = place;
    }
    return memory_.row[turn][warp];
  }

  TESSERA_DEVICE void put_up(int first, int place, E* row) const {
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (place_[r] != place || place >= height_) continue;
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        if (j >= first) row[j] = a_[r][j];
      }
    }
  }

  TESSERA_DEVICE void set_own(int place, int column, const E& value) {
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (place_[r] != place) continue;
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        if (j == column) a_[r][j] = value;
      }
    }
  }

  PanelMemory<Shape>& memory_;
  Machine machine_;
  int height_ = 0, width_ = 0;
  E a_[rows_of_thread][columns];
  int place_[rows_of_thread];
};

}  // namespace tessera::kernels::block
