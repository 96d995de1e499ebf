// One leaf of a triangular solve, by the threads of one block: L X = alpha B for a strip of right-hand sides, L lower
// triangular. Every variant is brought to this form (triangular_system.hpp).
//
// Each warp has a block of 16 rows. It keeps its part of the strip in registers, in the layout of the accumulators of
// mma.m16n8k16, until all blocks above have updated it. Then it solves its block and publishes the result in shared
// memory, where the warps of later blocks read it for their updates (right-looking). L is read from global memory
// straight into registers, every element once per strip, one step ahead of its use. The chain from block to block is
// one product of a block and one substitution of 16 rows.
//
// Arithmetic: substitution. Within a block of 16 rows x_i = b_i / l_ii - sum_j<i (l_ij / l_ii) x_j. The chain from row
// to row is one fused multiply-add, and only reciprocals of single diagonal elements are taken. Every element of L, and
// b_i, has one rounding more than in the order of the textbook. So the solution is that of a triangle which differs
// from L by (i + 3) units of rounding in each element (Higham, Accuracy and Stability of Numerical Algorithms, section
// 8.1). A block in which one of these numbers is not a normal one divides instead.
//
// Cost in double precision on an H200: the chain dominates, with 1200 to 1800 cycles for a block of 16 rows and 8
// columns. docs/adr/0009-trsm-kernel.md lists its parts.
#pragma once

#include <type_traits>

#include "kernels/block/strip.hpp"

namespace tessera::kernels::block {

/// A strip has 8, 16 or 32 columns.
template <class Shape, class Machine>
class StripSolver : protected Strip<Shape, Machine> {
 protected:
  using Base = Strip<Shape, Machine>;
  using Base::block_count;
  using Base::diagonal_element;
  using Base::load_right_hand_sides;
  using Base::machine_;
  using Base::memory_;
  using Base::put_rows;
  using Base::row_of_strip;
  using Base::store;
  using Base::system_;
  using typename Base::E;
  using typename Base::Factor;
  using typename Base::Tile;
  static constexpr int parts = Shape::parts;
  static constexpr int re = E::re, im = E::im;

 public:
  /// @pre order <= Shape::rows
  TESSERA_DEVICE StripSolver(const TriangularSystem<E>& system, StripMemory<Shape>& memory, index_t first_column,
                             Machine machine)
      : Base(system, memory, first_column, machine) {}

  TESSERA_DEVICE void run() {
    if constexpr (Machine::all_meet)
      solve_in_rounds();
    else
      solve_behind(NoBlocksBefore{});
  }

 protected:
  using Rows = typename Base::Rows;

  /// The empty set of blocks before a system that is a single leaf.
  struct NoBlocksBefore {
    static constexpr int count = 0;
    TESSERA_DEVICE typename Base::FactorStream factors(StripSolver& solver, int block) const {
      return {solver, block, 0};
    }
    TESSERA_DEVICE void tell(int) const {}
  };

  /// Solves the blocks of the system, which come after blocks of the same triangle that other thread blocks solve.
  /// @tparam Before has
  ///   count                   the number of these earlier blocks
  ///   factors(solver, block)  the stream of a row of L, from the first earlier block on
  ///   rows(k)                 all of the warp; the solution of block k < 0, valid until the next call
  ///   tell(k)                 all of the warp; announces that block k >= 0 is in global memory
  template <class Before>
  TESSERA_DEVICE void solve_behind(Before before) {
    const int blocks = block_count();
    const int block = machine_.warp();
    if (block >= blocks) return;
    // The loads for the first block are issued before the loads that are needed later.
    Tile x;
    load_right_hand_sides(x, block);
    RawDiagonal raw;
    ask_for_diagonal(raw, block);
    auto factors = before.factors(*this, block);
    const Diagonal diagonal = make_diagonal(raw);
    this->scale_by_alpha(x);
    negate(x);
    add_products(x, factors, before, blocks);
    solve(x, block, diagonal);
    if (block + 1 < blocks) machine_.arrive(block % 2, blocks - block);
    store(x, block);
    before.tell(block);
  }

 private:
  /// Solves the system if warps can only meet all together, each time at the same place. In round k block k is solved,
  /// and then subtracted from all later blocks.
  TESSERA_DEVICE void solve_in_rounds() {
    const int blocks = block_count();
    const int block = machine_.warp();
    const bool takes_part = block < blocks;
    Tile x;
    Diagonal diagonal;
    typename Base::FactorStream factors(*this, block, 0);  // loads nothing in a warp without a block
    if (takes_part) {
      load_right_hand_sides(x, block);
      RawDiagonal raw;
      ask_for_diagonal(raw, block);
      diagonal = make_diagonal(raw);
      this->scale_by_alpha(x);
      negate(x);
    }
    typename Base::Sums sums;
    TESSERA_NO_UNROLL
    for (int k = 0; k < blocks; ++k) {
      if (k == block) {
        sums.add_to(x, *this);
        solve(x, block, diagonal);
      }
      machine_.meet();
      if (takes_part && k < block) {
        Factor factor = factors.next(k);
        sums.add(*this, factor, this->rows_of_block(k));
      }
    }
    if (takes_part) store(x, block);
  }

  /// tile += the products with all earlier blocks.
  template <class Factors, class Before>
  TESSERA_DEVICE void add_products(Tile& tile, Factors& factors, Before& before, int blocks) {
    typename Base::Sums sums;
    // In round k block k is solved, and then subtracted from all later blocks. A warp takes part in no round after it
    // has solved its own block. Round k + 1 uses the other of two barriers: no warp can be two rounds ahead of a warp
    // that waits.
    factors.for_each([&](Factor& factor, int k) {
      if constexpr (!std::is_same_v<Before, NoBlocksBefore>) {
        if (k < 0) {
          sums.add(*this, factor, before.rows(k));
          return;
        }
      }
      machine_.await(k % 2, blocks - k);
      sums.add(*this, factor, this->rows_of_block(k));
    });
    sums.add_to(tile, *this);
  }

  /// Reciprocals of a diagonal block. Its elements below the diagonal are in shared memory, each negated and multiplied
  /// by the reciprocal of its row.
  struct Diagonal {
    E inverse[2];  ///< minus the reciprocals of rows g and g + 8
    bool divides;  ///< some of these numbers are not normal ones; the same for all of the warp
  };

  /// The diagonal block as it is stored.
  struct RawDiagonal {
    Factor below;
    E pivots[2];
  };
  TESSERA_DEVICE void ask_for_diagonal(RawDiagonal& raw, int block) const {
    this->load_diagonal_factor(raw.below, block);
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      const index_t at = block * rows_per_block + 8 * t + this->group_;
      raw.pivots[t] = E{};
      raw.pivots[t].part[re] = 1;
      if (at < system_.order && !system_.unit) raw.pivots[t] = this->stored_element(at, at);
    }
  }

  TESSERA_DEVICE Diagonal make_diagonal(RawDiagonal& raw) {
    Diagonal diagonal;
    this->conjugate_if_asked(raw.below);
    bool divides = false;
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      const E inverse = negative(reciprocal(this->conjugate_if_asked(raw.pivots[t])));
      diagonal.inverse[t] = inverse;
      divides = divides || !is_normal(inverse);
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        E value;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] = raw.below.part[p][t][s];
        const bool is_there = magnitude(value) != 0;
        value = system_.unit ? negative(value) : product(value, inverse);
        divides = divides || (is_there && !system_.unit && !is_normal(value));
        memory_.diagonal[machine_.warp()][(4 * s + this->member_) * rows_per_block + 8 * t + this->group_] = value;
      }
    }
    machine_.sync_warp();  // other lanes read this lane's elements
    diagonal.divides = machine_.any(divides);
    return diagonal;
  }

  TESSERA_DEVICE void negate(Tile& tile) const {
    this->for_each_element(tile, 0, [](E& value, int, int) { value = negative(value); });
  }

  /// Substitutes with diagonal block k.
  /// @param tile minus the right-hand sides; afterwards the solution, which is then in shared memory, too
  TESSERA_DEVICE void solve(Tile& tile, int k, const Diagonal& diagonal) {
    Tile x;
    bool is_finite = true;
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int u = 0; u < Shape::column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          E value = Base::value_of(tile, t, u, c);
          value = system_.unit ? negative(value) : product(value, diagonal.inverse[t]);
          is_finite = is_finite && magnitude(value) <= E::most_normal;
          Base::set(x, t, u, c, value);
        }
      }
    }
    // A quotient that overflows here may still lead to a finite element.
    if (machine_.any(diagonal.divides || (!is_finite && !system_.unit))) {
      negate(tile);
      divide(tile, k);
      return;
    }
    if constexpr (Shape::columns == 32) {
      tile = x;
      put_rows(tile, k);
      machine_.sync_warp();
      substitute_by_columns(k);
      this->get_rows(tile, k);
    } else {
      substitute_by_rows(x);
      tile = x;
      put_rows(tile, k);
      machine_.sync_warp();
    }
  }

  /// Substitutes in registers: the thread that has solved a row broadcasts it.
  TESSERA_DEVICE void substitute_by_rows(Tile& x) {
    const E* const L = memory_.diagonal[machine_.warp()];
    TESSERA_UNROLL
    for (int j = 0; j < rows_per_block; ++j) {
      TESSERA_UNROLL
      for (int u = 0; u < Shape::column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const E solved = of_row(x, j, u, c);
          TESSERA_UNROLL
          for (int t = j / 8; t < 2; ++t) {
            const int i = 8 * t + this->group_;
            if (i > j) Base::set(x, t, u, c, fused(L[j * rows_per_block + i], solved, Base::value_of(x, t, u, c)));
          }
        }
      }
    }
  }

  /// Substitutes in shared memory, one column per thread. With as many columns as threads this is faster than
  /// broadcasts.
  TESSERA_DEVICE void substitute_by_columns(int k) {
    const E* const L = memory_.diagonal[machine_.warp()];
    E x[rows_per_block];
    TESSERA_UNROLL
    for (int i = 0; i < rows_per_block; ++i) {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) x[i].part[p] = row_of_strip(p, k * rows_per_block + i)[machine_.lane()];
    }
    TESSERA_UNROLL
    for (int j = 0; j < rows_per_block; ++j) {
      TESSERA_UNROLL
      for (int i = j + 1; i < rows_per_block; ++i) x[i] = fused(L[j * rows_per_block + i], x[j], x[i]);
    }
    TESSERA_UNROLL
    for (int i = 0; i < rows_per_block; ++i) {
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) row_of_strip(p, k * rows_per_block + i)[machine_.lane()] = x[i].part[p];
    }
    machine_.sync_warp();
  }

  /// Broadcasts an element of a row from the thread that has it.
  TESSERA_DEVICE E of_row(const Tile& tile, int row, int u, int c) {
    E value;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      value.part[p] = machine_.shuffle(tile.part[p][row / 8][u][c], 4 * (row % 8) + this->member_);
    }
    return value;
  }

  /// The same with quotients, one column per thread. It is rare, so it uses shared and global memory and leaves the
  /// registers to the usual path.
  TESSERA_DEVICE void divide(Tile& tile, int k) {
    put_rows(tile, k);
    machine_.sync_warp();
    if (machine_.lane() < Shape::columns) substitute_by_division(k);
    machine_.sync_warp();
    this->get_rows(tile, k);
  }
  TESSERA_DEVICE void substitute_by_division(int k) {
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
    const index_t first = k * rows_per_block;
    const int rows = static_cast<int>(system_.order - first < rows_per_block ? system_.order - first : rows_per_block);
    TESSERA_NO_UNROLL
    for (int j = 0; j < rows; ++j) {
      const E x = system_.unit ? load(j) : quotient(load(j), diagonal_element(first + j));
      put(j, x);
      TESSERA_NO_UNROLL
      for (int i = j + 1; i < rows; ++i) put(i, fused(negative(this->element_of_l(first + i, first + j)), x, load(i)));
    }
  }
};

}  // namespace tessera::kernels::block
