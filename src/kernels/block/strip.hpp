// A strip of the right-hand sides of a triangular system (triangular_system.hpp), as the threads of one block hold it: what solves and products
// of a leaf have in common. Each warp has a block of 16 rows; the rows of all are exchanged in shared memory.
//
// Sums of blocks run on FP64 tensor cores (fused multiply-adds) for double, and as fused multiply-adds else. What happens to a column does not
// depend on the strip that it is in.
//
// The machine is a parameter: the kernel's is the GPU's warp, that of the tests is made of host threads.
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

inline constexpr int rows_per_block = 16;  ///< of the tensor cores' instruction

/// A leaf has at most `warps` blocks of 16 rows. A strip has 8, 16 or 32 columns: one for each lane in the substitution.
template <class Real, int parts_of_element, int warps_of_strip, int columns_of_strip>
struct StripShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int warps = warps_of_strip;
  static constexpr int threads = 32 * warps;
  static constexpr int rows = rows_per_block * warps;
  static constexpr int columns = columns_of_strip;
  static constexpr int column_tiles = columns / 8;
  /// Elements from row to row of a strip in shared memory: four rows of eight doubles, which a warp reads at once as the
  /// second operand of a product, then lie in different banks.
  static constexpr int stride = columns + 4;
};

/// Shared memory of a thread block.
template <class Shape>
struct StripMemory {
  typename Shape::R X[Shape::parts][Shape::rows * Shape::stride];
  /// Per warp its diagonal block, by columns.
  typename Shape::E diagonal[Shape::warps][rows_per_block * rows_per_block];
};

/// The threads of a block as one of them sees it. Members are per thread unless they say otherwise.
///
/// Machine:  int lane(), int warp()
///           void sync_warp()                      all of the warp; shared memory written before is seen after
///           void arrive(int barrier, int warps)   all of the warp; counts it, and goes on
///           void await(int barrier, int warps)    all of the warp; waits until so many warps have arrived or wait
///           R shuffle(R value, int lane)          all of the warp; the value of that lane
///           bool any(bool value)                  all of the warp; whether it is true of some lane
///           void multiply(double (&upper)[2], double (&lower)[2], const double (&a)[2][4], const double (&b)[4])
///                                                 all of the warp; C += A B, A 16 x 16, B 16 x 8: thread 4 g + q has
///                                                 C(g, 2 q), C(g, 2 q + 1), C(g + 8, ..), A(g + 8 t, q + 4 s), B(q + 4 s, g)
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

  /// 16 rows of the strip. Thread 4 g + q of a warp has those of rows g and g + 8, columns 2 q and 2 q + 1 of every eight.
  struct Tile {
    R part[parts][2][column_tiles][2];  ///< [row tile][column tile][column]
  };
  /// 16 x 16 elements of minus L. The thread has those of rows g and g + 8, columns q, q + 4, q + 8 and q + 12.
  struct Factor {
    R part[parts][2][4];  ///< [row tile][column tile]
  };

  /// @pre in the triangle
  TESSERA_DEVICE E element_of_l(index_t i, index_t j) const {
    E value = system_.L[i * system_.l_row + j * system_.l_col];
    if constexpr (parts == 2) {
      if (system_.conjugate) value.part[im] = -value.part[im];
    }
    return value;
  }
  /// @pre the diagonal is not one
  TESSERA_DEVICE E diagonal_element(index_t at) const { return element_of_l(at, at); }

  TESSERA_DEVICE R* row_of_strip(int part, int row) const { return memory_.X[part] + row * Shape::stride; }

  /// Global element (row, column of the strip); nullptr outside.
  TESSERA_DEVICE E* element(int row, int column) const {
    const index_t j = first_column_ + column;
    if (row >= system_.order || j >= system_.columns) return nullptr;
    return system_.X + row * system_.x_row + j * system_.x_col;
  }

  /// Rows and columns outside are zero. A row outside is behind all others, so it reaches none of them.
  TESSERA_DEVICE void load_right_hand_sides(Tile& tile, int block) const {
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const E* const from = element(block * rows_per_block + 8 * t + group_, 8 * u + 2 * member_ + c);
          E value = from != nullptr ? *from : E{};
          if (system_.scales) value = product(system_.alpha, value);
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) tile.part[p][t][u][c] = value.part[p];
        }
      }
    }
  }

  /// 16 rows from the registers of the warp to shared memory.
  TESSERA_DEVICE void put_rows(const Tile& tile, int block) const {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        R* const row = row_of_strip(p, block * rows_per_block + 8 * t + group_);
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) {
          row[8 * u + 2 * member_] = tile.part[p][t][u][0];
          row[8 * u + 2 * member_ + 1] = tile.part[p][t][u][1];
        }
      }
    }
  }

  /// The block of L in block row `block` and block column `k`, or minus it, with zeros on and above the diagonal of L and below its end.
  template <bool negative>
  TESSERA_DEVICE void load_factor(Factor& factor, int block, int k) const {
    const int i = block * rows_per_block + group_;
    const int j = k * rows_per_block + member_;
    const E* const from = system_.L + i * system_.l_row + j * system_.l_col;
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        E value{};
        if (i + 8 * t < system_.order && j + 4 * s < i + 8 * t) {
          value = from[8 * t * system_.l_row + 4 * s * system_.l_col];
        }
        factor.part[re][t][s] = negative ? -value.part[re] : value.part[re];
        if constexpr (parts == 2)
          factor.part[im][t][s] = system_.conjugate != negative ? -value.part[im] : value.part[im];
      }
    }
  }

  /// tile += factor X(block k)
  TESSERA_DEVICE void update(Tile& tile, const Factor& factor, int k) {
    if constexpr (sizeof(R) == sizeof(double)) {
      update_by_tensor_cores(tile, factor, k);
    } else {
      update_by_fma(tile, factor, k);
    }
  }

  TESSERA_DEVICE void update_by_tensor_cores(Tile& tile, const Factor& factor, int k) {
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      R x[parts][4];
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        TESSERA_UNROLL
        for (int s = 0; s < 4; ++s) x[p][s] = row_of_strip(p, k * rows_per_block + 4 * s + member_)[8 * u + group_];
      }
      multiply(tile, re, u, factor.part[re], x[re]);
      if constexpr (parts == 2) {
        multiply(tile, im, u, factor.part[re], x[im]);
        multiply(tile, im, u, factor.part[im], x[re]);
        // The product of two imaginary parts is minus a real one.
        TESSERA_UNROLL
        for (int s = 0; s < 4; ++s) x[im][s] = -x[im][s];
        multiply(tile, re, u, factor.part[im], x[im]);
      }
    }
  }
  TESSERA_DEVICE void multiply(Tile& tile, int part, int u, const R (&l)[2][4], const R (&x)[4]) {
    machine_.multiply(tile.part[part][0][u], tile.part[part][1][u], l, x);
  }

  TESSERA_DEVICE void update_by_fma(Tile& tile, const Factor& factor, int k) {
    TESSERA_UNROLL
    for (int s = 0; s < 4; ++s) {
      TESSERA_UNROLL
      for (int q = 0; q < 4; ++q) {
        R x[parts][column_tiles][2];
        R l[parts][2];
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) {
          const R* const row = row_of_strip(p, k * rows_per_block + 4 * s + q);
          TESSERA_UNROLL
          for (int u = 0; u < column_tiles; ++u) {
            x[p][u][0] = row[8 * u + 2 * member_];
            x[p][u][1] = row[8 * u + 2 * member_ + 1];
          }
          TESSERA_UNROLL
          for (int t = 0; t < 2; ++t) l[p][t] = machine_.shuffle(factor.part[p][t][s], 4 * group_ + q);
        }
        TESSERA_UNROLL
        for (int t = 0; t < 2; ++t) {
          TESSERA_UNROLL
          for (int u = 0; u < column_tiles; ++u) {
            TESSERA_UNROLL
            for (int c = 0; c < 2; ++c) {
              R& sum = tile.part[re][t][u][c];
              sum = fused(l[re][t], x[re][u][c], sum);
              if constexpr (parts == 2) {
                R& sum_im = tile.part[im][t][u][c];
                sum = fused(-l[im][t], x[im][u][c], sum);
                sum_im = fused(l[re][t], x[im][u][c], sum_im);
                sum_im = fused(l[im][t], x[re][u][c], sum_im);
              }
            }
          }
        }
      }
    }
  }

  /// Block k from shared to global memory, by the warp that has solved it.
  TESSERA_DEVICE void store(int k) const {
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int row = k * rows_per_block + 8 * t + group_;
          const int column = 8 * u + 2 * member_ + c;
          E value;
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) value.part[p] = row_of_strip(p, row)[column];
          E* const to = element(row, column);
          if (to != nullptr) *to = value;
        }
      }
    }
  }

  const TriangularSystem<E>& system_;
  StripMemory<Shape>& memory_;
  Machine machine_;
  const index_t first_column_;
  const int group_;   ///< row of a thread in a tile of eight
  const int member_;  ///< its place among the four threads of that row
};

}  // namespace tessera::kernels::block
