// One leaf of an in-place triangular product, by the threads of one block: X = alpha L X for a strip of columns, L
// lower triangular. Every variant is brought to this form (triangular_system.hpp).
//
// The old strip is first copied to shared memory. When all of it is there, no thread reads the old values in global
// memory any more. Each warp then sums its block of 16 rows over the blocks above it, in registers. Finally it adds its
// own block's product with the triangle on the diagonal. That last product skips the elements outside the triangle, so
// that an Inf of X reaches only the rows it should. L is read from global memory straight into registers, every element
// once per strip.
#pragma once

#include "kernels/block/strip.hpp"

namespace tessera::kernels::block {

/// A strip has 8, 16 or 32 columns.
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
  using typename Base::E;
  using typename Base::Factor;
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
    const bool takes_part = block < blocks;
    if (!Machine::all_meet && !takes_part) return;
    Tile x;
    typename Base::FactorStream factors(*this, block, 0);
    if (takes_part) {
      load_right_hand_sides(x, block);
      load_diagonal(block);
      this->scale_by_alpha(x);
      put_rows(x, block);
    }
    machine_.await(0, blocks);  // all rows are in shared memory
    if (!takes_part) return;
    typename Base::Sums sums;
    factors.for_each([&](Factor& factor, int k) { sums.add(*this, factor, this->rows_of_block(k)); });
    this->for_each_element(x, 0, [](E& value, int, int) { value = E{}; });
    sums.add_to(x, *this);
    add_product_with_diagonal(x, block);
    store(x, block);
  }

 private:
  TESSERA_DEVICE void load_diagonal(int block) {
    Factor factor;
    this->load_diagonal_factor(factor, block);
    this->conjugate_if_asked(factor);
    TESSERA_UNROLL
    for (int t = 0; t < 2; ++t) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const int i = 8 * t + this->group_, j = 4 * s + this->member_;
        E value;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] = factor.part[p][t][s];
        const index_t at = block * rows_per_block + i;
        if (i == j && at < system_.order) {
          value = E{};
          value.part[E::re] = 1;
          if (!system_.unit) value = diagonal_element(at);
        }
        memory_.diagonal[machine_.warp()][j * rows_per_block + i] = value;
      }
    }
  }

  TESSERA_DEVICE void add_product_with_diagonal(Tile& sums, int block) const {
    const E* const L = memory_.diagonal[machine_.warp()];
    TESSERA_UNROLL
    for (int j = 0; j < rows_per_block; ++j) {
      this->for_each_element(sums, 0, [&](E& sum, int i, int column) {
        if (i < j) return;
        E x;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) x.part[p] = row_of_strip(p, block * rows_per_block + j)[column];
        sum = fused(L[j * rows_per_block + i], x, sum);
      });
    }
  }
};

}  // namespace tessera::kernels::block
