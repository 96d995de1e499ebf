// A strip of the right-hand sides of a triangular system (triangular_system.hpp), held by the threads of one block.
// Solves and products of a leaf share this code. Each warp has a block of 16 rows; warps exchange rows through shared
// memory.
//
// Sums of blocks run on FP64 tensor cores for double, and as fused multiply-adds for the other types. The result of a
// column does not depend on its strip.
//
// The machine is a template parameter: the kernels pass the GPU's warp, and the tests pass one made of host threads.
#pragma once

#include <type_traits>

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/factor_stream.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

/// A leaf has at most `warps` blocks of 16 rows. A strip has 8, 16 or 32 columns.
template <class Real, int parts_of_element, int warps_of_strip, int columns_of_strip>
struct StripShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int warps = warps_of_strip;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_of_warp = rows_per_block;
  static constexpr int rows = rows_of_warp * warps;
  static constexpr int columns = columns_of_strip;
  static constexpr int column_tiles = columns / 8;
  /// Elements from row to row of a strip in shared memory. The four rows of eight doubles that a warp reads at once, as
  /// the second operand of a product, then lie in different banks.
  static constexpr int stride = columns + 4;
};

/// Shared memory of a thread block.
template <class Shape>
struct StripMemory {
  typename Shape::R X[Shape::parts][Shape::rows * Shape::stride];
  /// For each warp its diagonal block, by columns.
  typename Shape::E diagonal[Shape::warps][rows_per_block * rows_per_block];
};

/// The threads of a block, as one of them sees it. Members belong to the thread unless they say otherwise. "All of the
/// warp" means that all of its lanes must call the function.
///
/// Machine:  int lane(), int warp()
///           void sync_warp()                      all of the warp; earlier writes to shared memory become visible
///           void arrive(int barrier, int warps)   all of the warp; counts the warp, and does not wait; barriers are 0
///           and 1
///           void await(int barrier, int warps)    all of the warp; waits until so many warps have arrived or wait
///           void meet()                           all of the block; earlier writes become visible
///           R shuffle(R value, int lane)          all of the warp; the value of that lane
///           E* in_global(E* pointer)              the same address, known to the compiler as one of global memory
///           made_anew(number)                     the same number; results computed from it before are not reused
///           bool any(bool value)                  all of the warp; whether it is true of some lane
///           int marks_set(const Mark* marks, int most, Mark value)
///                                                 all of the warp; how many marks from the first on, at most 32, have
///                                                 the value. Global writes before their set_mark() become visible
///           void set_mark(Mark* mark, Mark value) all of the warp; releases its earlier writes to global memory
///           void copy_async<most>(E* to, const E* from, int count)
///                                                 copies `count` elements to shared memory, and zeros up to `most`.
///                                                 Several at once are 16 bytes, and aligned
///           void end_of_batch()                   ends a batch of the thread's copies
///           void await_batches<n>()               waits for all of the thread's batches but the last n
///           void multiply(double (&upper)[2], double (&lower)[2], const double (&a)[2][4], const double (&b)[4])
///                                                 all of the warp; C += A B, A 16 x 16, B 16 x 8: thread 4 g + q has
///                                                 C(g, 2 q), C(g, 2 q + 1), C(g + 8, ..), A(g + 8 t, q + 4 s), B(q + 4
///                                                 s, g)
template <class Shape, class Machine>
class Strip {
 protected:
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int parts = Shape::parts;
  static constexpr int re = E::re, im = E::im;
  static constexpr int column_tiles = Shape::column_tiles;

  /// @pre order <= Shape::rows
  TESSERA_DEVICE Strip(const TriangularSystem<E>& system, StripMemory<Shape>& memory, index_t first_column,
                       Machine machine)
      : system_(system),
        memory_(memory),
        machine_(machine),
        first_column_(first_column),
        group_(machine.lane() / 4),
        member_(machine.lane() % 4) {}

  TESSERA_DEVICE int block_count() const {
    return static_cast<int>((system_.order + rows_per_block - 1) / rows_per_block);
  }

  /// 16 rows of the strip. Thread 4 g + q of a warp holds those of rows g and g + 8, columns 2 q and 2 q + 1 of every
  /// eight.
  struct Tile {
    R part[parts][2][column_tiles][2];  ///< [row tile][column tile][column]
  };
  TESSERA_DEVICE static E value_of(const Tile& tile, int t, int u, int c) {
    E value;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) value.part[p] = tile.part[p][t][u][c];
    return value;
  }
  TESSERA_DEVICE static void set(Tile& tile, int t, int u, int c, const E& value) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) tile.part[p][t][u][c] = value.part[p];
  }

  using Factor = BlockOfFactor<E>;

  TESSERA_DEVICE E stored_element(index_t i, index_t j) const {
    return system_.L[i * system_.l_row + j * system_.l_col];
  }
  TESSERA_DEVICE E conjugate_if_asked(E value) const {
    if constexpr (parts == 2) {
      if (system_.conjugate) value.part[im] = -value.part[im];
    }
    return value;
  }
  /// @pre (i, j) is in the triangle
  TESSERA_DEVICE E element_of_l(index_t i, index_t j) const { return conjugate_if_asked(stored_element(i, j)); }
  /// @pre the diagonal is not `unit`
  TESSERA_DEVICE E diagonal_element(index_t at) const { return element_of_l(at, at); }

  TESSERA_DEVICE R* row_of_strip(int part, int row) const { return memory_.X[part] + row * Shape::stride; }

  /// 16 rows of a strip in shared memory, Shape::stride elements from row to row.
  struct Rows {
    R* part[parts];
  };
  TESSERA_DEVICE Rows rows_of_block(int block) const {
    Rows rows;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) rows.part[p] = row_of_strip(p, block * rows_per_block);
    return rows;
  }

  /// Calls f(value, address) for the thread's elements of a block in global memory. The address is nullptr outside.
  template <class AnyTile, class F>
  TESSERA_DEVICE void for_each_stored(AnyTile& tile, int block, F f) const {
    const index_t row = block * rows_per_block + group_;
    const index_t column = first_column_ + 2 * member_;
    const bool has_row[2] = {row < system_.order, row + 8 < system_.order};
    E* at = system_.X + row * system_.x_row + column * system_.x_col;
    const index_t half = 8 * system_.x_row;
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      TESSERA_UNROLL
      for (int c = 0; c < 2; ++c) {
        const bool has_column = column + 8 * u + c < system_.columns;
        E* const here = at + c * system_.x_col;
        TESSERA_UNROLL
        for (int t = 0; t < 2; ++t) {
          E value = value_of(tile, t, u, c);
          f(value, has_row[t] && has_column ? here + t * half : nullptr);
          if constexpr (!std::is_const_v<AnyTile>) set(tile, t, u, c, value);
        }
      }
      at += 8 * system_.x_col;
    }
  }

  /// Rows and columns outside the strip become zeros. A row outside lies behind all others, so it reaches none of them.
  TESSERA_DEVICE void load_right_hand_sides(Tile& tile, int block) const {
    for_each_stored(tile, block, [](E& value, const E* from) { value = from != nullptr ? *from : E{}; });
  }
  TESSERA_DEVICE void scale_by_alpha(Tile& tile) const {
    if (!system_.scales) return;
    for_each_element(tile, 0, [&](E& value, int, int) { value = product(system_.alpha, value); });
  }

  /// Copies a block from the warp's registers to shared memory.
  TESSERA_DEVICE void put_rows(const Tile& tile, const Rows& rows) const {
    for_each_element(tile, 0, [&](const E& value, int row, int column) {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) rows.part[p][row * Shape::stride + column] = value.part[p];
    });
  }
  TESSERA_DEVICE void put_rows(const Tile& tile, int block) const { put_rows(tile, rows_of_block(block)); }
  /// Copies a block back to registers.
  TESSERA_DEVICE void get_rows(Tile& tile, int block) const {
    for_each_element(tile, block * rows_per_block, [&](E& value, int row, int column) {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) value.part[p] = row_of_strip(p, row)[column];
    });
  }

  /// Loads the block on the diagonal, with zeros on and above its diagonal and beyond the end of L.
  TESSERA_DEVICE void load_diagonal_factor(Factor& factor, int block) const {
    const int i = block * rows_per_block + group_;
    const int j = block * rows_per_block + member_;
    const E* const from = system_.L + i * system_.l_row + j * system_.l_col;
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        E value{};
        if (i + 8 * t < system_.order && j + 4 * s < i + 8 * t) {
          value = from[8 * t * system_.l_row + 4 * s * system_.l_col];
        }
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) factor.part[p][t][s] = value.part[p];
      }
    }
  }

  TESSERA_DEVICE void conjugate_if_asked(Factor& factor) const {
    if constexpr (parts == 2) {
      if (!system_.conjugate) return;
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        TESSERA_UNROLL
        for (int s = 0; s < 4; ++s) factor.part[im][t][s] = -factor.part[im][t][s];
      }
    }
  }

  class FactorStream : public block::FactorStream<E> {
   public:
    TESSERA_DEVICE FactorStream(const Strip& strip, int block, int first, typename FactorStream::Memory = {})
        : block::FactorStream<E>(strip.system_, block, first, strip.machine_.lane()) {}
  };
  template <int depth>
  class FactorRing : public block::FactorRing<E, Machine, depth> {
   public:
    TESSERA_DEVICE FactorRing(const Strip& strip, int block, int first, typename FactorRing::Memory& memory)
        : block::FactorRing<E, Machine, depth>(strip.system_, block, first, memory, strip.machine_) {}
  };

  /// The sums of products with blocks of X, for the 16 rows of a warp. Tensor cores produce them in the layout of a
  /// tile. With fused multiply-adds each of the four threads that share a row sums a quarter of each product, for all
  /// columns. The quarters are added at the end, so that no element of L goes from thread to thread.
  class Sums {
    static constexpr bool by_tensor_cores = sizeof(R) == sizeof(double);

   public:
    TESSERA_DEVICE Sums() {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        TESSERA_UNROLL
        for (int t = 0; t < 2; ++t) {
          TESSERA_UNROLL
          for (int c = 0; c < columns; ++c) part_[p][t][c] = 0;
        }
      }
    }

    /// this += factor * rows
    TESSERA_DEVICE void add(Strip& strip, Factor& factor, const Rows& rows) {
      strip.conjugate_if_asked(factor);
      if constexpr (by_tensor_cores) {
        add_by_tensor_cores(strip, factor, rows);
      } else {
        add_by_fma(strip, factor, rows);
      }
    }

    /// tile += this
    TESSERA_DEVICE void add_to(Tile& tile, Strip& strip) const {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) {
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) {
            if constexpr (by_tensor_cores) {
              tile.part[p][t][u][0] += part_[p][t][2 * u];
              tile.part[p][t][u][1] += part_[p][t][2 * u + 1];
            } else {
              const R* const of_eight = part_[p][t] + 8 * u;
              R two[2];
              strip.sum_of_four(two, of_eight);
              tile.part[p][t][u][0] += two[0];
              tile.part[p][t][u][1] += two[1];
            }
          }
        }
      }
    }

   private:
    static constexpr int columns = by_tensor_cores ? 2 * column_tiles : Shape::columns;

    TESSERA_DEVICE void add_by_tensor_cores(Strip& strip, const Factor& factor, const Rows& rows) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        R x[parts][4];
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) {
          TESSERA_UNROLL
          for (int s = 0; s < 4; ++s)
            x[p][s] = rows.part[p][(4 * s + strip.member_) * Shape::stride + 8 * u + strip.group_];
        }
        multiply(strip, re, u, factor.part[re], x[re]);
        if constexpr (parts == 2) {
          multiply(strip, im, u, factor.part[re], x[im]);
          multiply(strip, im, u, factor.part[im], x[re]);
          // The product of two imaginary parts is minus a real one.
          TESSERA_UNROLL
          for (int s = 0; s < 4; ++s) x[im][s] = -x[im][s];
          multiply(strip, re, u, factor.part[im], x[im]);
        }
      }
    }
    TESSERA_DEVICE void multiply(Strip& strip, int part, int u, const R (&l)[2][4], const R (&x)[4]) {
      R(&upper)[2] = reinterpret_cast<R(&)[2]>(part_[part][0][2 * u]);
      R(&lower)[2] = reinterpret_cast<R(&)[2]>(part_[part][1][2 * u]);
      strip.machine_.multiply(upper, lower, l, x);
    }

    TESSERA_DEVICE void add_by_fma(Strip& strip, const Factor& factor, const Rows& rows) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const int row = (4 * s + strip.member_) * Shape::stride;
        TESSERA_UNROLL
        for (int c = 0; c < columns; ++c) {
          E x;
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) x.part[p] = rows.part[p][row + c];
          TESSERA_UNROLL
          for (int t = 0; t < 2; ++t) {
            E l, sum;
            TESSERA_UNROLL
            for (int p = 0; p < parts; ++p) {
              l.part[p] = factor.part[p][t][s];
              sum.part[p] = part_[p][t][c];
            }
            sum = fused(l, x, sum);
            TESSERA_UNROLL
            for (int p = 0; p < parts; ++p) part_[p][t][c] = sum.part[p];
          }
        }
      }
    }

    R part_[parts][2][columns];  ///< [part][row tile][column]
  };

  /// Adds up the sums of a row's four threads. Each thread receives those of its two columns of eight. The order of the
  /// additions is fixed.
  TESSERA_DEVICE void sum_of_four(R (&two)[2], const R* of_eight) {
    // First an exchange with the thread two places away, for half of the columns, then with the neighbour, for a
    // quarter.
    const bool second_half = member_ >= 2, odd = member_ % 2 != 0;
    const int lane = machine_.lane();
    R four[4];
    TESSERA_UNROLL
    for (int c = 0; c < 4; ++c) {
      const R mine = second_half ? of_eight[4 + c] : of_eight[c];
      const R other = second_half ? of_eight[c] : of_eight[4 + c];
      four[c] = mine + machine_.shuffle(other, lane ^ 2);
    }
    TESSERA_UNROLL
    for (int c = 0; c < 2; ++c) {
      const R mine = odd ? four[2 + c] : four[c];
      const R other = odd ? four[c] : four[2 + c];
      two[c] = mine + machine_.shuffle(other, lane ^ 1);
    }
  }

  /// Calls f(value, row, column of the strip) for the thread's elements of a tile, for 16 rows from `first_row` on. The
  /// value is a reference.
  template <class AnyTile, class F>
  TESSERA_DEVICE void for_each_element(AnyTile& tile, int first_row, F f) const {
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          E value = value_of(tile, t, u, c);
          f(value, first_row + 8 * t + group_, 8 * u + 2 * member_ + c);
          if constexpr (!std::is_const_v<AnyTile>) set(tile, t, u, c, value);
        }
      }
    }
  }

  /// Stores a block to global memory.
  TESSERA_DEVICE void store(const Tile& tile, int block) const {
    for_each_stored(tile, block, [](const E& value, E* to) {
      if (to != nullptr) *to = value;
    });
  }

  const TriangularSystem<E>& system_;
  StripMemory<Shape>& memory_;
  Machine machine_;
  const index_t first_column_;
  const int group_;   ///< the thread's row in a tile of eight
  const int member_;  ///< the thread's place among the four threads of that row
};

}  // namespace tessera::kernels::block
