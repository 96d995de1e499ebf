// QR factors of some columns of a panel, computed by a team of thread blocks (block_team.hpp), in leaves of few
// columns. Each thread holds whole rows of the leaf in registers.
//
// A column takes one meeting of the blocks. They add up the products of the column with itself and with all other
// columns of the leaf, below the diagonal. From these sums and the diagonal's row follow the reflector, its effect on
// the columns behind, and its products with the reflectors before it, of which T is made. A leaf is applied to the
// columns behind it in two meetings.
//
// Columns rotate, so that one piece of code serves all of them (turning_columns.hpp): the current one is the first, and
// those that are done follow behind the others.
//
// Columns are scaled by powers of two, so that no sum overflows, and once more where one would underflow. Reflectors do
// not depend on that; R is scaled back.
//
// Sources: LAPACK's ?geqr2, ?larfg and ?larft.
#pragma once

#include <cmath>

#include "kernels/block/block_team.hpp"
#include "kernels/block/lu_panel.hpp"
#include "kernels/block/qr_products.hpp"
#include "kernels/block/turning_columns.hpp"

namespace tessera::kernels::block {

/// Sums of one column that a block tells the others.
template <class Shape>
struct QrOffer {
  alignas(16) typename Shape::E sums[Shape::columns];
  typename Shape::E row[Shape::columns];  ///< the diagonal's, of the first block
};

/// @tparam Shape PanelShape with several warps
/// @tparam most_columns of all leaves
template <class Shape, int most_columns>
struct QrMemory {
  using E = typename Shape::E;
  static constexpr int columns = Shape::columns;
  alignas(16) E of_warp[Shape::warps][columns];
  alignas(16) E sums[2][columns];
  E row[2][columns];
  alignas(16) E gram[columns][columns];  ///< of reflectors: row before column
  alignas(16) E T[columns][columns];     ///< by rows
  E tau[columns];
  int exponent[columns];  ///< of the powers of two that columns have been divided by,
  int more[columns];      ///< and what they have from the diagonal on once more
  alignas(16) E behind[Shape::warps][most_columns][columns];  ///< sums of the columns behind a leaf
  alignas(16) E applied[most_columns][columns];
};

/// In global memory, for the sums of all columns behind a leaf.
template <class Shape, int most_columns>
struct QrSums {
  alignas(16) typename Shape::E of_block[most_blocks_of_team][most_columns][Shape::columns];
};

template <class Shape, class Machine, int most_columns>
class QrTeam {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int columns = Shape::columns, rows_of_thread = Shape::rows_of_thread, parts = Shape::parts;
  static constexpr int lanes_of_column = 32 / columns;
  static_assert(Shape::warps > 1 && 32 % columns == 0 && Shape::warps <= 32);

 public:
  using Memory = QrMemory<Shape, most_columns>;
  using Sums = QrSums<Shape, most_columns>;

  TESSERA_DEVICE QrTeam(Memory& memory, Sums& sums, Machine machine) : memory_(memory), all_(sums), machine_(machine) {}

  /// @param A the first row and column @pre width <= most_columns, width <= height
  /// @param tau receives the coefficients
  TESSERA_DEVICE void run(E* A, index_t lda, index_t height, int width, E* tau) {
    TESSERA_NO_UNROLL
    for (int k = 0; k < width; k += columns) {
      const int of_leaf = width - k < columns ? width - k : columns;
      E* const corner = machine_.in_global(A) + k + k * lda;
      load(corner, lda, height - k, of_leaf);
      factor(of_leaf);
      store(corner, lda, of_leaf);
      if (machine_.block() == 0 && machine_.thread() < of_leaf)
        tau[k + machine_.thread()] = memory_.tau[machine_.thread()];
      apply(corner + of_leaf * lda, lda, width - k - of_leaf, of_leaf);
    }
  }

 private:
  TESSERA_DEVICE index_t row_of(int r) const {
    return machine_.thread() + r * Shape::threads + static_cast<index_t>(machine_.block()) * Shape::rows;
  }

  TESSERA_DEVICE void load(const E* A, index_t lda, index_t height, int width) {
    height_ = height;
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        a_[r][j] = {};
        if (row_of(r) < height && j < width) a_[r][j] = A[row_of(r) + j * lda];
      }
    }
    E largest[columns] = {};
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) raise(largest[j], a_[r][j]);
    }
    reduce(largest, Raise());
    TESSERA_UNROLL
    for (int j = 0; j < columns; ++j) {
      const int exponent = exponent_of(memory_.sums[turn_][j].part[0]);
      TESSERA_UNROLL
      for (int r = 0; r < rows_of_thread; ++r) a_[r][j] = scaled(a_[r][j], -exponent);
      if (machine_.thread() == j) {
        memory_.exponent[j] = exponent;
        memory_.more[j] = 0;
      }
    }
  }

  TESSERA_DEVICE void factor(int width) {
    TESSERA_NO_UNROLL
    for (int k = 0; k < width; ++k) eliminate(k);
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) finish_turns<columns>(a_[r], width);
    machine_.meet();
    // Columns of T depend on those before them, and rows on nothing else.
    const int i = machine_.lane();
    if (machine_.warp() == 0 && i < columns) {
      TESSERA_NO_UNROLL
      for (int k = 0; k < columns; ++k) {
        E sum{};
        TESSERA_NO_UNROLL
        for (int l = i; l < k; ++l) sum = fused(memory_.T[i][l], memory_.gram[l][k], sum);
        const E tau = k < width ? memory_.tau[k] : E{};
        memory_.T[i][k] = i == k ? tau : i < k ? product(negative(tau), sum) : E{};
      }
    }
    machine_.meet();
  }

  TESSERA_DEVICE void eliminate(int k) {
    sum_products(k);
    if (real_of(memory_.sums[turn_][0]) < least_sum_of_squares<R>) {
      rescale(k);
      sum_products(k);
    }
    const E* const sums = memory_.sums[turn_];
    const E* const top = memory_.row[turn_];
    const E alpha = top[0];
    const auto [tau, scale, beta] = reflector_of(alpha, real_of(sums[0]));
    if (machine_.thread() < columns) {
      const int p = machine_.thread(), j = k + p - columns;
      if (p == 0) memory_.tau[k] = tau;
      if (p > 0 && j >= 0) memory_.gram[j][k] = fused(scale, conjugate_of(sums[p]), conjugate_of(top[p]));
    }
    E factor[columns];
    TESSERA_UNROLL
    for (int p = 1; p < columns; ++p)
      factor[p] = negative(product(conjugate_of(tau), fused(conjugate_of(scale), sums[p], top[p])));
    const bool changes_others = !is_zero(tau);  // else a NaN of theirs stays alone, as in LAPACK
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      const bool is_top = row_of(r) == k, is_below = row_of(r) > k && row_of(r) < height_;
      E v{};
      v.part[E::re] = 1;
      if (is_below) v = product(a_[r][0], scale);
      const E done = is_top ? beta : is_below ? v : a_[r][0];
      turn_group<columns>(a_[r], done, [&](int p, const E& old) {
        return fused_if(changes_others && (is_top || is_below) && p < columns - k, v, factor[p], old);
      });
    }
  }

  /// Adds up the products of the first column with all of them, below row k.
  TESSERA_DEVICE void sum_products(int k) {
    E sums[columns] = {};
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (row_of(r) == k) {
        TESSERA_UNROLL
        for (int p = 0; p < columns; ++p) memory_.row[1 - turn_][p] = a_[r][p];
      }
      if (row_of(r) <= k || row_of(r) >= height_) continue;
      const E first = conjugate_of(a_[r][0]);
      TESSERA_UNROLL
      for (int p = 0; p < columns; ++p) sums[p] = fused(first, a_[r][p], sums[p]);
    }
    reduce(sums, Add());
  }

  /// Scales what the current column has from row k on.
  TESSERA_DEVICE void rescale(int k) {
    E largest[columns] = {};
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (row_of(r) >= k && row_of(r) < height_) raise(largest[0], a_[r][0]);
    }
    reduce(largest, Raise());
    const int exponent = exponent_of(memory_.sums[turn_][0].part[0]);
    if (machine_.thread() == 0) memory_.more[k] += exponent;
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      if (row_of(r) >= k) a_[r][0] = scaled(a_[r][0], -exponent);
    }
  }

  using Add = AddElements;
  struct Raise {
    TESSERA_DEVICE void operator()(E& a, const E& b) const { raise(a, b); }
  };

  /// Combines the values of all threads of the team, column by column, and has the diagonal's row sent along. The
  /// result is in memory_.sums[turn_] and memory_.row[turn_], with `turn_` new, until the second call from now.
  template <class Combine>
  TESSERA_DEVICE void reduce(E (&values)[columns], Combine combine) {
    turn_ = 1 - turn_;
    combine_lanes(values, combine);
    const int lane = machine_.lane();
    if (lane % lanes_of_column == 0) memory_.of_warp[machine_.warp()][lane / lanes_of_column] = values[0];
    machine_.meet();
    if (machine_.warp() == 0) {
      const int column = lane % columns, group = lane / columns;
      E sum{};
      for (int w = group; w < Shape::warps; w += lanes_of_column) combine(sum, memory_.of_warp[w][column]);
      sum = over_groups(sum, combine);
      const auto offers = machine_.template offers<QrOffer<Shape>>();
      auto& mine = offers[machine_.block()];
      if (group == 0) {
        mine.sums[column] = sum;
        if (machine_.block() == 0) mine.row[column] = memory_.row[turn_][column];
      }
      machine_.meet_first_warps();
      sum = combined<E>(
          group, machine_.blocks(), lanes_of_column, [&](int b) { return offers[b].sums[column]; }, combine);
      sum = over_groups(sum, combine);
      if (group == 0) {
        memory_.sums[turn_][column] = sum;
        memory_.row[turn_][column] = offers[0].row[column];
      }
    }
    machine_.meet();
  }

  /// Of lanes with the same column.
  template <class Combine>
  TESSERA_DEVICE E over_groups(E value, Combine combine) {
    TESSERA_UNROLL
    for (int distance = 16; distance >= columns; distance /= 2)
      combine(value, from_lane(value, machine_.lane() ^ distance));
    return value;
  }

  TESSERA_DEVICE E from_lane(const E& value, int lane) {
    E other;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) other.part[p] = machine_.shuffle(value.part[p], lane);
    return other;
  }

  TESSERA_DEVICE void store(E* A, index_t lda, int width) const {
    TESSERA_UNROLL
    for (int r = 0; r < rows_of_thread; ++r) {
      const index_t row = row_of(r);
      if (row >= height_) continue;
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        if (j >= width) continue;
        E value = a_[r][j];
        if (row == j) value = scaled(value, memory_.more[j]);
        if (row <= j) value = scaled(value, memory_.exponent[j]);
        A[row + j * lda] = value;
      }
    }
  }

  /// C = C - V T^H V^H C, with the rows of V in registers.
  TESSERA_DEVICE void apply(E* C, index_t ldc, int count, int width) {
    if (count == 0) return;
    const auto v = [&](int r, int j) {
      E value = a_[r][j];
      if (row_of(r) == j) {
        value = {};
        value.part[E::re] = 1;
      }
      return value;
    };
    for_columns_behind(C, ldc, count, [&](int column, const E(&rows)[rows_of_thread]) {
      E sums[columns] = {};
      TESSERA_UNROLL
      for (int r = 0; r < rows_of_thread; ++r) {
        TESSERA_UNROLL
        for (int j = 0; j < columns; ++j)
          sums[j] = fused_if(is_of_reflector(r, j, width), conjugate_of(v(r, j)), rows[r], sums[j]);
      }
      combine_lanes(sums, Add());
      if (machine_.lane() % lanes_of_column == 0)
        memory_.behind[machine_.warp()][column][machine_.lane() / lanes_of_column] = sums[0];
    });
    machine_.meet();
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < count * columns; e += Shape::threads) {
      E sum{};
      TESSERA_NO_UNROLL
      for (int w = 0; w < Shape::warps; ++w) Add()(sum, memory_.behind[w][e / columns][e % columns]);
      all_.of_block[machine_.block()][e / columns][e % columns] = sum;
    }
    machine_.meet_blocks();
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < count * columns; e += Shape::threads) {
      memory_.behind[0][e / columns][e % columns] = combined<E>(
          0, machine_.blocks(), 1, [&](int b) { return all_.of_block[b][e / columns][e % columns]; }, Add());
    }
    machine_.meet();
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < count * columns; e += Shape::threads) {
      const int c = e / columns, j = e % columns;
      E sum{};
      TESSERA_NO_UNROLL
      for (int i = 0; i <= j; ++i) sum = fused(conjugate_of(memory_.T[i][j]), memory_.behind[0][c][i], sum);
      memory_.applied[c][j] = negative(sum);
    }
    machine_.meet();
    for_columns_behind(C, ldc, count, [&](int column, const E(&rows)[rows_of_thread]) {
      TESSERA_UNROLL
      for (int r = 0; r < rows_of_thread; ++r) {
        E element = rows[r];
        TESSERA_UNROLL
        for (int j = 0; j < columns; ++j)
          element = fused_if(is_of_reflector(r, j, width), v(r, j), memory_.applied[column][j], element);
        if (row_of(r) < height_) C[row_of(r) + column * ldc] = element;
      }
    });
    // The next leaf has its rows in other threads.
    machine_.meet_blocks();
  }

  /// Calls f(column, the thread's rows of it) for each column behind a leaf. Elements of several are loaded at once.
  template <class F>
  TESSERA_DEVICE void for_columns_behind(const E* C, index_t ldc, int count, F f) const {
    TESSERA_NO_UNROLL
    for (int first = 0; first < count; first += at_once) {
      E rows[at_once][rows_of_thread];
      load_behind(C, ldc, first, count, rows);
      TESSERA_UNROLL
      for (int u = 0; u < at_once; ++u) {
        if (first + u >= count) break;
        f(first + u, rows[u]);
      }
    }
  }
  static constexpr int at_once = 4;
  TESSERA_DEVICE void load_behind(const E* C, index_t ldc, int first, int count,
                                  E (&rows)[at_once][rows_of_thread]) const {
    TESSERA_UNROLL
    for (int u = 0; u < at_once; ++u) {
      TESSERA_UNROLL
      for (int r = 0; r < rows_of_thread; ++r)
        rows[u][r] = first + u < count && row_of(r) < height_ ? C[row_of(r) + (first + u) * ldc] : E{};
    }
  }
  TESSERA_DEVICE bool is_of_reflector(int r, int j, int width) const {
    return row_of(r) >= j && row_of(r) < height_ && j < width;
  }

  /// Each step halves the columns of a lane, and doubles the lanes that it speaks for.
  /// @post values[0] is of column lane / lanes_of_column
  template <class Combine>
  TESSERA_DEVICE void combine_lanes(E (&values)[columns], Combine combine) {
    const int lane = machine_.lane();
    TESSERA_UNROLL
    for (int kept = columns / 2; kept > 0; kept /= 2) {
      const int distance = kept * lanes_of_column;
      const bool is_upper = (lane & distance) != 0;
      TESSERA_UNROLL
      for (int j = 0; j < columns / 2; ++j) {
        if (j >= kept) continue;
        const E mine = is_upper ? values[j + kept] : values[j];
        const E others = from_lane(is_upper ? values[j] : values[j + kept], lane ^ distance);
        values[j] = mine;
        combine(values[j], others);
      }
    }
    TESSERA_UNROLL
    for (int distance = lanes_of_column / 2; distance > 0; distance /= 2)
      combine(values[0], from_lane(values[0], lane ^ distance));
  }

  static TESSERA_DEVICE R real_of(const E& a) { return a.part[E::re]; }
  static TESSERA_DEVICE void raise(E& largest, const E& a) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      const R size = a.part[p] < 0 ? -a.part[p] : a.part[p];
      if (size > largest.part[0]) largest.part[0] = size;
    }
  }
  static TESSERA_DEVICE int exponent_of(R size) {
    using std::ilogb;
    return size > 0 && size <= E::most_normal ? ilogb(size) : 0;
  }
  static TESSERA_DEVICE E scaled(E a, int exponent) {
    using std::scalbn;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) a.part[p] = scalbn(a.part[p], exponent);
    return a;
  }
  Memory& memory_;
  Sums& all_;
  Machine machine_;
  index_t height_ = 0;
  int turn_ = 0;
  E a_[rows_of_thread][columns];
};

}  // namespace tessera::kernels::block
