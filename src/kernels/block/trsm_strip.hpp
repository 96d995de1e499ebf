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
// the only ones taken. A block in which one of them is not a normal number divides instead.
//
// Cost in double on an H200: the chain decides. Measured for one block of 16 rows and 16 columns, in cycles: product 250, or 700 where all
// warps are at theirs; to shared memory and to columns 200; substitution 550 (16 dependent pairs of multiply and FMA, 17 cycles each);
// back 110; barrier 200 to 500. The products of a strip of 256 rows and 32 columns alone are 7700 cycles of the tensor cores, 4 us
// of the 20 that it takes. A strip of 32 columns has as many lanes in the substitution as a warp has, so it costs little more time than one
// of 16, on half as many multiprocessors; what else runs on the GPU gets the others.
#pragma once

#include "kernels/block/strip.hpp"

namespace tessera::kernels::block {

/// A strip has 8, 16 or 32 columns: one for each lane in the substitution.
template <class Shape, class Machine>
class StripSolver : private Strip<Shape, Machine> {
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
  using Base::update;
  using typename Base::E;
  using typename Base::Factor;
  using typename Base::R;
  using typename Base::Tile;
  static constexpr int parts = Shape::parts;
  static constexpr int re = E::re, im = E::im;

 public:
  /// @pre order <= Shape::rows
  TESSERA_DEVICE StripSolver(const TriangularSystem<E>& system, StripMemory<Shape>& memory, index_t first_column,
                             Machine machine)
      : Base(system, memory, first_column, machine) {}

  TESSERA_DEVICE void run() {
    const int blocks = block_count();
    const int block = machine_.warp();
    if (block >= blocks) return;
    Tile sums;
    load_right_hand_sides(sums, block);
    const bool divides = load_diagonal(block);
    // In round k block k is solved, and then taken off all blocks behind it. Who has solved its block takes no part in later rounds. Round
    // k + 1 uses the other of two barriers: nobody can be two rounds ahead of a warp that waits.
    for (int k = 0; k < block; ++k) {
      Factor factor;
      this->template load_factor<true>(factor, block, k);
      machine_.await(k % 2, blocks - k);
      update(sums, factor, k);
    }
    solve(sums, block, divides);
    if (block + 1 < blocks) machine_.arrive(block % 2, blocks - block);
    store(block);
  }

 private:
  /// Of the diagonal block: minus the elements below the diagonal, reciprocals on it.
  /// @return whether some reciprocal is not a normal number, so that the block must divide; the same in all of the warp
  TESSERA_DEVICE bool load_diagonal(int block) {
    bool divides = false;
    Factor factor;
    this->template load_factor<true>(factor, block, block);
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const int i = 8 * t + this->group_, j = 4 * s + this->member_;
        E value;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] = factor.part[p][t][s];
        if (i == j) {
          value = E{};
          value.part[re] = 1;
          const index_t at = block * rows_per_block + i;
          if (at < system_.order && !system_.unit) {
            value = reciprocal(diagonal_element(at));
            divides = divides || !is_normal(value);
          }
        }
        memory_.diagonal[machine_.warp()][j * rows_per_block + i] = value;
      }
    }
    return machine_.any(divides);
  }

  /// Substitution with diagonal block k, one column per thread, from the registers of the warp to shared memory.
  TESSERA_DEVICE void solve(const Tile& tile, int k, bool divides) {
    put_rows(tile, k);
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
      const E x = quotient(load(j), diagonal_element(k * rows_per_block + j));
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
};

}  // namespace tessera::kernels::block
