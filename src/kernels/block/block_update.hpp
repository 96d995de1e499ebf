// Turns the sums of a block of C (gemm_block.hpp) into elements: C = alpha sums + beta C. Only elements that the
// product updates are stored.
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

/// One thread's elements of C, within the warp's rectangle that gemm_block.hpp defines. It lives in registers: the
/// compiler would load a member in shared memory again after each store.
/// @tparam result_lies the storage of C
template <class Shape, class Machine, Result result_lies>
class BlockUpdate {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int parts = Shape::parts;
  static constexpr int row_tiles = Shape::rows_of_warp / 8, column_tiles = Shape::columns_of_warp / 8;

 public:
  using Sums = R[parts][row_tiles][column_tiles][2];

  /// Some row tiles of C, in the layout of the sums.
  template <int tiles>
  struct Before {
    E element[tiles][column_tiles][2] = {};
  };

  /// @param row, column the warp's place in the block
  /// @param rows, columns of the block, as far as the matrix has them
  TESSERA_DEVICE BlockUpdate(const BlockProduct<E>& product, index_t first_row, index_t first_column, int row,
                             int column, int rows, int columns, Machine machine)
      : alpha_(product.alpha),
        beta_(product.beta),
        alpha_is_real_(product.alpha_is_real),
        beta_is_real_(product.beta_is_real),
        reads_c_(product.reads_c),
        real_diagonal_(product.real_diagonal),
        updated_(product.updated),
        rows_of_warp_(rows - row),
        columns_of_warp_(columns - column),
        group_(machine.lane() / 4),
        first_of_two_(machine.lane() % 4 * 2) {
    if (product.terms == 0 || product.has_factors) {
      alpha_ = E{};
      alpha_.part[E::re] = 1;
    }
    // Clamped to the block's size: a diagonal farther away makes no difference.
    const index_t down = first_row - first_column;
    const index_t at_least = down < -Shape::rows ? -Shape::rows : down;
    below_ =
        static_cast<int>(at_least > Shape::columns ? Shape::columns : at_least) + row - column + group_ - first_of_two_;
    if constexpr (result_lies == Result::anyhow) row_ = product.row;
    column_ = product.column;
    C_ = machine.in_global(product.C) + (first_row + row + group_) * next_row() +
         (first_column + column + first_of_two_) * column_;
  }

  TESSERA_DEVICE bool reads_c() const { return reads_c_; }

  template <int tiles>
  TESSERA_DEVICE void load(Before<tiles>& before, int first_tile) const {
    if (!reads_c_) return;
    for_each_updated<tiles>(first_tile,
                            [&](int t, int u, int c, const E& element) { before.element[t][u][c] = element; });
  }

  template <int tiles>
  TESSERA_DEVICE void store(Sums& sums, const Before<tiles>& before, int first_tile) const {
    store<tiles>(sums, first_tile, [&](int t, int u, int c) { return before.element[t][u][c]; });
  }

  /// Computes every result, also those that are not stored: branches would make the results wait for each other.
  /// @param before (row tile, column tile, column): the element of C; any value where nothing is updated
  template <int tiles, class BeforeOf>
  TESSERA_DEVICE void store(Sums& sums, int first_tile, BeforeOf before) const {
    TESSERA_UNROLL
    for (int t = 0; t < tiles; ++t) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const E value = result(sum(sums, first_tile + t, u, c), before(t, u, c), is_real(first_tile + t, u, c));
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) sums[p][first_tile + t][u][c] = value.part[p];
        }
      }
    }
    for_each_updated<tiles>(first_tile,
                            [&](int t, int u, int c, E& element) { element = sum(sums, first_tile + t, u, c); });
  }

 private:
  TESSERA_DEVICE index_t next_row() const { return result_lies == Result::anyhow ? row_ : 1; }

  TESSERA_DEVICE static E sum(const Sums& sums, int t, int u, int c) {
    E value;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) value.part[p] = sums[p][t][u][c];
    return value;
  }

  TESSERA_DEVICE E result(const E& sum, const E& before, bool is_real) const {
    E value = scaled(alpha_, alpha_is_real_, sum);
    if (reads_c_) {
      const E kept = scaled(beta_, beta_is_real_, is_real ? real_part(before) : before);
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) value.part[p] += kept.part[p];
    }
    return is_real ? real_part(value) : value;
  }

  TESSERA_DEVICE static E scaled(const E& factor, bool is_real, const E& value) {
    if constexpr (parts == 2) {
      if (is_real) return product(value, factor.part[E::re]);
    }
    return product(factor, value);
  }

  /// Whether the element is on the diagonal of a Hermitian matrix.
  TESSERA_DEVICE bool is_real(int t, int u, int c) const {
    if constexpr (parts == 1) return false;
    return real_diagonal_ && below_ + 8 * t == 8 * u + c;
  }

  /// Calls f(row tile, column tile, column, element of C) for those of the thread's elements that are updated, in
  /// `tiles` row tiles.
  template <int tiles, class F>
  TESSERA_DEVICE void for_each_updated(int first_tile, F f) const {
    if (updated_ == Region::full)
      for_each_of<tiles>(
          first_tile, [](int /*from_diagonal*/) { return true; }, f);
    else if (updated_ == Region::lower)
      for_each_of<tiles>(
          first_tile, [](int from_diagonal) { return from_diagonal >= 0; }, f);
    else
      for_each_of<tiles>(
          first_tile, [](int from_diagonal) { return from_diagonal <= 0; }, f);
  }
  template <int tiles, class Updates, class F>
  TESSERA_DEVICE void for_each_of(int first_tile, Updates updates, F f) const {
    const int rows = rows_of_warp_ - group_ - 8 * first_tile, columns = columns_of_warp_ - first_of_two_;
    const int below = below_ + 8 * first_tile;
    const index_t next_tile = 8 * next_row();
    E* of_tile = C_ + first_tile * next_tile;
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      // The condition is the same in all of a warp. It skips the tiles that a small matrix does not have.
      if (8 * u >= columns_of_warp_) break;
      TESSERA_UNROLL
      for (int c = 0; c < 2; ++c) {
        E* at = of_tile + c * column_;
        TESSERA_UNROLL
        for (int t = 0; t < tiles; ++t) {
          if (8 * t < rows && 8 * u + c < columns && updates(below + 8 * t - 8 * u - c)) f(t, u, c, *at);
          at += next_tile;
        }
      }
      of_tile += 8 * column_;
    }
  }

  E alpha_, beta_;
  bool alpha_is_real_, beta_is_real_, reads_c_, real_diagonal_;
  Region updated_;
  int rows_of_warp_, columns_of_warp_;  ///< of the matrix, from the warp's first ones on
  int group_, first_of_two_;            ///< the thread's place in a tile: its row, and the first of its two columns
  int below_;                           ///< rows from the diagonal down to the thread's first element
  E* C_;                                ///< the thread's first element
  index_t row_ = 1, column_;
};

}  // namespace tessera::kernels::block
