// One leaf of a triangular solve as the threads of one block compute it: L X = alpha B for a strip of 16 or 32 right-hand sides, L lower
// triangular. Every variant is brought to this form (triangular_system.hpp).
//
// Each warp has a block of 16 rows. It keeps its part of the strip in registers, in the layout of the accumulators of
// mma.m16n8k16, until its block has been updated by all blocks before it; then it solves and publishes it in shared memory, from where
// the warps behind it take it to update theirs (right-looking). L is read from global memory straight into registers, every
// element once per strip, one step ahead of its use. The chain from block to block is one product of a block and one
// substitution of 16 rows.
//
// Arithmetic: substitution. x_i = (b_i - sum_j<i l_ij x_j) * (1 / l_ii); the reciprocals of single diagonal elements are
// the only ones taken. A block in which one of them is not a normal number divides instead. Sums of blocks run on FP64
// tensor cores (fused multiply-adds) for double, and as fused multiply-adds else.
// What happens to a column does not depend on the strip that it is in.
//
// Cost in double on an H200: the chain decides. Measured for one block of 16 rows and 16 columns, in cycles: product 250, or 700 where all
// warps are at theirs; to shared memory and to columns 200; substitution 550 (16 dependent pairs of multiply and FMA, 17 cycles each);
// back 110; barrier 200 to 500. The products of a strip of 256 rows and 32 columns alone are 7700 cycles of the tensor cores, 4 us
// of the 20 that it takes. A strip of 32 columns has as many lanes in the substitution as a warp has, so it costs little more time than one
// of 16, on half as many multiprocessors; what else runs on the GPU gets the others.
//
// The machine is a parameter: the kernel's is the GPU's warp, that of the unit test is made of host threads.
#pragma once

#include "kernels/cuda/device_code.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/triangular_system.hpp"

namespace tessera::kernels::cuda {

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
  /// Per warp its diagonal block: minus the elements below the diagonal, reciprocals on it; by columns.
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
class StripSolver {
  using R = typename Shape::R;
  using E = typename Shape::E;
  static constexpr int parts = Shape::parts;
  static constexpr int re = E::re, im = E::im;
  static constexpr int column_tiles = Shape::column_tiles;

 public:
  TESSERA_DEVICE StripSolver(const TriangularSystem<E>& system, StripMemory<Shape>& memory, index_t first_column,
                             Machine machine)
      : system_(system),
        memory_(memory),
        machine_(machine),
        first_column_(first_column),
        group_(machine.lane() / 4),
        member_(machine.lane() % 4) {}

  /// @pre order <= Shape::rows
  TESSERA_DEVICE void run() {
    const int block_count = static_cast<int>((system_.order + rows_per_block - 1) / rows_per_block);
    const int block = machine_.warp();
    if (block >= block_count) return;
    Tile sums;
    load_right_hand_sides(sums, block);
    const bool divides = load_diagonal(block);
    // In round k block k is solved, and then taken off all blocks behind it. Who has solved its block takes no part in later rounds. Round
    // k + 1 uses the other of two barriers: nobody can be two rounds ahead of a warp that waits.
    for (int k = 0; k < block; ++k) {
      Factor factor;
      load_factor(factor, block, k);
      machine_.await(k % 2, block_count - k);
      update(sums, factor, k);
    }
    solve(sums, block, divides);
    if (block + 1 < block_count) machine_.arrive(block % 2, block_count - block);
    store(block);
  }

 private:
  /// 16 rows of the strip. Thread 4 g + q of a warp has those of rows g and g + 8, columns 2 q and 2 q + 1 of every eight.
  struct Tile {
    R part[parts][2][column_tiles][2];  ///< [row tile][column tile][column]
  };
  /// 16 x 16 elements of minus L. The thread has those of rows g and g + 8, columns q, q + 4, q + 8 and q + 12.
  struct Factor {
    R part[parts][2][4];  ///< [row tile][column tile]
  };

  /// Element `at` of the diagonal. @pre at < order, and the diagonal is not one
  TESSERA_DEVICE E pivot(index_t at) const {
    E value = system_.L[at * (system_.l_row + system_.l_col)];
    if constexpr (parts == 2) {
      if (system_.conjugate) value.part[im] = -value.part[im];
    }
    return value;
  }

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

  /// Minus the block of L in block row `block` and block column `k`, with zeros on and above the diagonal of L and below its end.
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
        factor.part[re][t][s] = -value.part[re];
        if constexpr (parts == 2) factor.part[im][t][s] = system_.conjugate ? value.part[im] : -value.part[im];
      }
    }
  }

  /// @return whether some reciprocal is not a normal number, so that the block must divide; the same in all of the warp
  TESSERA_DEVICE bool load_diagonal(int block) {
    bool divides = false;
    Factor factor;
    load_factor(factor, block, block);
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const int i = 8 * t + group_, j = 4 * s + member_;
        E value;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] = factor.part[p][t][s];
        if (i == j) {
          value = E{};
          value.part[re] = 1;
          const index_t at = block * rows_per_block + i;
          if (at < system_.order && !system_.unit) {
            value = reciprocal(pivot(at));
            divides = divides || !is_normal(value);
          }
        }
        memory_.diagonal[machine_.warp()][j * rows_per_block + i] = value;
      }
    }
    return machine_.any(divides);
  }

  /// tile -= L(.., block k) X(block k)
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

  /// Substitution with diagonal block k, one column per thread, from the registers of the warp to shared memory.
  TESSERA_DEVICE void solve(const Tile& tile, int k, bool divides) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        R* const row = row_of_strip(p, k * rows_per_block + 8 * t + group_);
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) {
          row[8 * u + 2 * member_] = tile.part[p][t][u][0];
          row[8 * u + 2 * member_ + 1] = tile.part[p][t][u][1];
        }
      }
    }
    machine_.sync_warp();
    if (divides) {
      if (machine_.lane() < Shape::columns) substitute_by_division(k);
    } else if (machine_.lane() < Shape::columns) {
      const E* const diagonal = memory_.diagonal[machine_.warp()];
      R x[parts][rows_per_block];
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        TESSERA_UNROLL
        for (int i = 0; i < rows_per_block; ++i) x[p][i] = row_of_strip(p, k * rows_per_block + i)[machine_.lane()];
      }
      TESSERA_UNROLL
      for (int j = 0; j < rows_per_block; ++j) {
        const E inverse = diagonal[j * rows_per_block + j];
        if constexpr (parts == 1) {
          x[re][j] *= inverse.part[re];
        } else if (!system_.unit) {
          const E quotient = product(E{{x[re][j], x[im][j]}}, inverse);
          x[re][j] = quotient.part[re];
          x[im][j] = quotient.part[im];
        }
        TESSERA_UNROLL
        for (int i = j + 1; i < rows_per_block; ++i) {
          const E l = diagonal[j * rows_per_block + i];
          x[re][i] = fused(l.part[re], x[re][j], x[re][i]);
          if constexpr (parts == 2) {
            x[re][i] = fused(-l.part[im], x[im][j], x[re][i]);
            x[im][i] = fused(l.part[re], x[im][j], x[im][i]);
            x[im][i] = fused(l.part[im], x[re][j], x[im][i]);
          }
        }
      }
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        TESSERA_UNROLL
        for (int i = 0; i < rows_per_block; ++i) row_of_strip(p, k * rows_per_block + i)[machine_.lane()] = x[p][i];
      }
    }
    machine_.sync_warp();
  }

  /// The same with quotients. Rare: it stays in shared memory, and takes no registers from the other way.
  TESSERA_DEVICE void substitute_by_division(int k) {
    const E* const diagonal = memory_.diagonal[machine_.warp()];
    const auto load = [&](int i) {
      E x;
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) x.part[p] = row_of_strip(p, k * rows_per_block + i)[machine_.lane()];
      return x;
    };
    const auto put = [&](int i, const E& x) {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) row_of_strip(p, k * rows_per_block + i)[machine_.lane()] = x.part[p];
    };
    TESSERA_NO_UNROLL
    for (int j = 0; j < rows_per_block && k * rows_per_block + j < system_.order; ++j) {
      const E x = quotient(load(j), pivot(k * rows_per_block + j));
      put(j, x);
      TESSERA_NO_UNROLL
      for (int i = j + 1; i < rows_per_block; ++i) {
        const E l = diagonal[j * rows_per_block + i];
        E sum = load(i);
        sum.part[re] = fused(l.part[re], x.part[re], sum.part[re]);
        if constexpr (parts == 2) {
          sum.part[re] = fused(-l.part[im], x.part[im], sum.part[re]);
          sum.part[im] = fused(l.part[re], x.part[im], sum.part[im]);
          sum.part[im] = fused(l.part[im], x.part[re], sum.part[im]);
        }
        put(i, sum);
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

}  // namespace tessera::kernels::cuda
