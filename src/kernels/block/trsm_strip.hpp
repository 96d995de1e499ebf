// One leaf of a triangular solve as the threads of one block compute it: L X = alpha B for a strip of 16 or 32 right-hand sides, L lower
// triangular. Every variant is brought to this form (triangular_system.hpp).
//
// Each warp has a block of 16 rows. It keeps its part of the strip in registers, in the layout of the accumulators of
// mma.m16n8k16, until its block has been updated by all blocks before it; then it solves and publishes it in shared memory, from where
// the warps behind it take it to update theirs (right-looking). L is read from global memory straight into registers, every
// element once per strip, one step ahead of its use. The chain from block to block is one product of a block and one
// substitution of 16 rows.
//
// Arithmetic: substitution. x_i = b_i / l_ii - sum_j<i (l_ij / l_ii) x_j within a block of 16 rows, so that the chain from row to row is one fused
// multiply-add; the reciprocals of single diagonal elements are the only ones taken. Every element of L, and b_i, has one rounding more than in
// the order of the textbook, so the solution is as stable: that of a triangle which differs from L by (i + 3) units of rounding in each element (Higham,
// Accuracy and Stability of Numerical Algorithms, section 8.1). A block in which one of these numbers is not a normal one divides instead.
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
  /// Of the diagonal block: reciprocals on the diagonal, and minus the elements below it, each times the reciprocal of its row.
  /// @return whether some of these are not normal numbers, so that the block must divide; the same in all of the warp
  TESSERA_DEVICE bool load_diagonal(int block) {
    bool divides = false;
    Factor factor;
    this->template load_factor<true>(factor, block, block);
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      const int i = 8 * t + this->group_;
      const index_t at = block * rows_per_block + i;
      E inverse{};
      inverse.part[re] = 1;
      if (at < system_.order && !system_.unit) inverse = reciprocal(diagonal_element(at));
      divides = divides || !is_normal(inverse);
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const int j = 4 * s + this->member_;
        E value;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] = factor.part[p][t][s];
        const bool is_there = magnitude(value) != 0;
        value = i == j ? inverse : system_.unit ? value : product(value, inverse);
        divides = divides || (is_there && !system_.unit && !is_normal(value));
        memory_.diagonal[machine_.warp()][j * rows_per_block + i] = value;
      }
    }
    return machine_.any(divides);
  }

  /// Substitution with diagonal block k, one column per thread, from the registers of the warp to shared memory.
  TESSERA_DEVICE void solve(const Tile& tile, int k, bool divides) {
    put_rows(tile, k);
    machine_.sync_warp();
    const E* const diagonal = memory_.diagonal[machine_.warp()];
    const bool has_column = machine_.lane() < Shape::columns;
    E x[rows_per_block];
    bool is_finite = true;
    if (has_column) {
      TESSERA_UNROLL
      for (int i = 0; i < rows_per_block; ++i) {
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) x[i].part[p] = row_of_strip(p, k * rows_per_block + i)[machine_.lane()];
        if (!system_.unit) x[i] = product(x[i], diagonal[i * rows_per_block + i]);
        is_finite = is_finite && magnitude(x[i]) <= E::most_normal;
      }
    }
    // A quotient that is too large may still lead to an element that is not.
    divides = machine_.any(!is_finite) || divides;
    if (divides) {
      if (has_column) substitute_by_division(k);
    } else if (has_column) {
      TESSERA_UNROLL
      for (int j = 0; j < rows_per_block; ++j) {
        TESSERA_UNROLL
        for (int i = j + 1; i < rows_per_block; ++i) x[i] = fused(diagonal[j * rows_per_block + i], x[j], x[i]);
      }
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        TESSERA_UNROLL
        for (int i = 0; i < rows_per_block; ++i)
          row_of_strip(p, k * rows_per_block + i)[machine_.lane()] = x[i].part[p];
      }
    }
    machine_.sync_warp();
  }

  /// The same with quotients. Rare: it stays in shared and global memory, and takes no registers from the other way.
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
