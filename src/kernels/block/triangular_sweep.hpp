// A triangular solve or in-place product with any number of rows, for a strip of columns, by the threads of one block
// (triangular_system.hpp). It works leaf by leaf (trsm_strip.hpp, trmm_strip.hpp). Before a solve's leaf, or after a
// product's leaf, it adds the product with all rows above the leaf (gemm_block.hpp). A solve goes down the triangle, so
// the rows above are solved. A product goes up, so the rows above are not yet multiplied. Columns of X do not depend on
// each other: thread blocks exchange nothing, and one launch computes problems of any size.
//
// Every strip reads the whole triangle; for the matrices of a batch it comes from the cache.
#pragma once

#include <type_traits>

#include "kernels/block/gemm_block.hpp"
#include "kernels/block/trmm_strip.hpp"
#include "kernels/block/trsm_strip.hpp"

namespace tessera::kernels::block {

/// @tparam has_one_leaf the triangle has at most Shape::rows rows: no product, and half of the registers
template <class Shape, class Machine, bool is_solve, bool has_one_leaf = false>
class TriangularSweep {
  using E = typename Shape::E;
  using Leaf = std::conditional_t<is_solve, StripSolver<Shape, Machine>, StripMultiplier<Shape, Machine>>;
  static constexpr int stages = 3;
  /// A block of C as high as a leaf, with a row block per warp.
  using Block = GemmShape<typename Shape::R, Shape::parts, Shape::rows, Shape::columns, Shape::warps, 1, stages>;

 public:
  union SharedMemory {
    StripMemory<Shape> leaf;
    GemmMemory<Block> product;
  };
  struct LeafMemory {
    StripMemory<Shape> leaf;
  };
  using Memory = std::conditional_t<has_one_leaf, LeafMemory, SharedMemory>;

  TESSERA_DEVICE TriangularSweep(const TriangularSystem<E>& system, Memory& memory, index_t first_column,
                                 Machine machine)
      : system_(system), memory_(memory), first_column_(first_column), machine_(machine) {}

  TESSERA_DEVICE void run() {
    if constexpr (has_one_leaf) {
      compute_leaf(0);
    } else {
      run_all();
    }
  }

 private:
  TESSERA_DEVICE void run_all() {
    const index_t leaves = (system_.order + Shape::rows - 1) / Shape::rows;
    TESSERA_NO_UNROLL
    for (index_t i = 0; i < leaves; ++i) {
      const index_t row = (is_solve ? i : leaves - 1 - i) * Shape::rows;
      if (is_solve && row > 0) add_product(row);
      compute_leaf(row);
      if (!is_solve && row > 0) add_product(row);
    }
  }

  TESSERA_DEVICE index_t rows_from(index_t row) const {
    return system_.order - row < Shape::rows ? system_.order - row : Shape::rows;
  }

  TESSERA_DEVICE void compute_leaf(index_t row) {
    TriangularSystem<E> leaf = system_;
    leaf.L += row * (leaf.l_row + leaf.l_col);
    leaf.X += row * leaf.x_row;
    leaf.order = rows_from(row);
    // In a solve the product has already applied alpha.
    if (is_solve && row > 0) leaf.scales = false;
    Leaf(leaf, memory_.leaf, first_column_, machine_).run();
    machine_.meet();
  }

  /// Adds to the rows of a leaf the product with all rows above them.
  TESSERA_DEVICE void add_product(index_t row) {
    E one{};
    one.part[0] = 1;
    BlockProduct<E> product;
    product.m = rows_from(row);
    product.n = system_.columns;
    product.k = row;
    product.terms = 1;
    auto& term = product.term[0];
    term.left.at = system_.L + row * system_.l_row;
    term.left.row = system_.l_row;
    term.left.step = system_.l_col;
    term.left.conjugate = system_.conjugate;
    term.right.at = system_.X;
    term.right.row = system_.x_col;
    term.right.step = system_.x_row;
    product.alpha = is_solve ? negative(one) : system_.alpha;
    product.beta = is_solve && system_.scales ? system_.alpha : one;
    product.alpha_is_real = is_solve;
    product.beta_is_real = !is_solve || !system_.scales;
    product.reads_c = true;
    product.C = system_.X + row * system_.x_row;
    product.row = system_.x_row;
    product.column = system_.x_col;
    GemmBlock<Block, Machine, Operands::plain, Result::anyhow>(product, memory_.product, 0, first_column_, machine_)
        .run();
    machine_.meet();
  }

  const TriangularSystem<E>& system_;
  Memory& memory_;
  const index_t first_column_;
  Machine machine_;
};

}  // namespace tessera::kernels::block
