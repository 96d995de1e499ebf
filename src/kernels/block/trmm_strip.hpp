// One leaf of a triangular product in place as the threads of one block compute it: X = alpha L X for a strip of columns, L lower triangular.
// Every variant is brought to this form (triangular_system.hpp).
//
// The strip as it was goes to shared memory; when all of it is there, nobody reads the one in global memory any more. Each warp
// sums up its block of 16 rows over the blocks before it, in registers, and then its own block with the triangle on the diagonal, one
// column per thread: what lies beside a triangle enters no product, so that an Inf of X stays where it belongs.
// L is read from global memory straight into registers, every element once per strip.
#pragma once

#include "kernels/block/strip.hpp"

namespace tessera::kernels::block {

/// A strip has 8, 16 or 32 columns: one for each lane in the product with the diagonal block.
template <class Shape, class Machine>
class StripMultiplier : private Strip<Shape, Machine> {
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

 public:
  /// @pre order <= Shape::rows
  TESSERA_DEVICE StripMultiplier(const TriangularSystem<E>& system, StripMemory<Shape>& memory, index_t first_column,
                                 Machine machine)
      : Base(system, memory, first_column, machine) {}

  TESSERA_DEVICE void run() {
    const int blocks = block_count();
    const int block = machine_.warp();
    if (block >= blocks) return;
    Tile sums;
    load_right_hand_sides(sums, block);
    put_rows(sums, block);
    load_diagonal(block);
    clear(sums);
    machine_.await(0, blocks);  // all rows are there
    Factor next;
    this->template load_factor<false>(next, block, 0);
    TESSERA_NO_UNROLL
    for (int k = 0; k < block; ++k) {
      const Factor factor = next;
      this->template load_factor<false>(next, block, k + 1);
      update(sums, factor, k);
    }
    machine_.await(1, blocks);  // and have been read by all who need them but their owner
    multiply_by_diagonal(block);
    add_rows(sums, block);
    store(block);
  }

 private:
  TESSERA_DEVICE static void clear(Tile& tile) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        TESSERA_UNROLL
        for (int u = 0; u < Shape::column_tiles; ++u) tile.part[p][t][u][0] = tile.part[p][t][u][1] = 0;
      }
    }
  }

  TESSERA_DEVICE void load_diagonal(int block) {
    Factor factor;
    this->template load_factor<false>(factor, block, block);
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const int i = 8 * t + this->group_, j = 4 * s + this->member_;
        E value;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] = factor.part[p][t][s];
        const index_t at = block * rows_per_block + i;
        if (i == j && at < system_.order && !system_.unit) value = diagonal_element(at);
        memory_.diagonal[machine_.warp()][j * rows_per_block + i] = value;
      }
    }
  }

  /// The rows of a block in shared memory, by the warp that has it, one column per thread: from the last row on, which no other needs.
  TESSERA_DEVICE void multiply_by_diagonal(int block) {
    if (machine_.lane() < Shape::columns) {
      const E* const diagonal = memory_.diagonal[machine_.warp()];
      E x[rows_per_block];
      TESSERA_UNROLL
      for (int i = 0; i < rows_per_block; ++i) {
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) x[i].part[p] = row_of_strip(p, block * rows_per_block + i)[machine_.lane()];
      }
      TESSERA_UNROLL
      for (int i = rows_per_block - 1; i >= 0; --i) {
        E sum = system_.unit ? x[i] : product(diagonal[i * rows_per_block + i], x[i]);
        TESSERA_UNROLL
        for (int j = 0; j < i; ++j) sum = fused(diagonal[j * rows_per_block + i], x[j], sum);
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) row_of_strip(p, block * rows_per_block + i)[machine_.lane()] = sum.part[p];
      }
    }
    machine_.sync_warp();
  }

  /// Adds sums in registers to the rows of a block in shared memory.
  TESSERA_DEVICE void add_rows(const Tile& sums, int block) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        R* const row = row_of_strip(p, block * rows_per_block + 8 * t + this->group_);
        TESSERA_UNROLL
        for (int u = 0; u < Shape::column_tiles; ++u) {
          row[8 * u + 2 * this->member_] += sums.part[p][t][u][0];
          row[8 * u + 2 * this->member_ + 1] += sums.part[p][t][u][1];
        }
      }
    }
    machine_.sync_warp();
  }
};

}  // namespace tessera::kernels::block
