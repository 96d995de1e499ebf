// The Cholesky factor of some columns of a matrix, computed by the threads of one block. It is left-looking, in leaves
// of 16 columns:
//   1. all columns of the sweep before a leaf update it (gemm_block.hpp);
//   2. a warp factors the triangle on the leaf's diagonal (cholesky_block.hpp);
//   3. each thread solves rows below the triangle.
//
// A small matrix is one sweep. In a larger matrix a sweep is a panel, and other thread blocks update the columns behind
// it.
#pragma once

#include "kernels/block/cholesky_block.hpp"
#include "kernels/block/gemm_block.hpp"

namespace tessera::kernels::block {

/// H -= L M^H in the lower triangle. L and M are `k` columns of the factor and are stored as H is. The caller sets the
/// numbers of rows and columns of H.
template <class E>
TESSERA_DEVICE BlockProduct<E> product_of_factor(const E* L, const E* M, E* H, index_t row, index_t column, index_t k) {
  E one{};
  one.part[0] = 1;
  BlockProduct<E> product;
  product.k = k;
  product.terms = 1;
  product.term[0].left.at = L;
  product.term[0].right.at = M;
  product.term[0].left.row = product.term[0].right.row = row;
  product.term[0].left.step = product.term[0].right.step = column;
  product.term[0].right.conjugate = true;
  product.alpha = negative(one);
  product.beta = one;
  product.alpha_is_real = product.beta_is_real = true;
  product.reads_c = true;
  product.C = H;
  product.row = row;
  product.column = column;
  product.updated = Region::lower;
  product.real_diagonal = true;
  return product;
}

/// @tparam Block a GemmShape as wide as a leaf
template <class Block, class Machine>
class CholeskySweep {
  using R = typename Block::R;
  using E = typename Block::E;
  static constexpr int columns = Block::columns;
  using Diagonal = CholeskyShape<R, Block::parts, columns, 32>;

 public:
  struct Memory {
    union {
      CholeskyMemory<Diagonal> diagonal;
      GemmMemory<Block> stages;
    };
    alignas(16) E factor[columns][columns];  ///< the triangle on the diagonal, by columns, conjugated
    R inverse[columns];                      ///< the reciprocals of its diagonal
    alignas(16) unsigned char product[sizeof(BlockProduct<E>)];
    int failed;
  };

  TESSERA_DEVICE CholeskySweep(Memory& memory, Machine machine) : memory_(memory), machine_(machine) {}

  /// @param H the first element of the sweep's diagonal; row and column are strides as in cholesky_block.hpp
  /// @param height rows from there on
  /// @param width columns of the sweep, at most `height`
  /// @return the same for all threads: the first leading minor, counted from 1 at H, that is not positive; 0: none
  TESSERA_DEVICE index_t run(E* H, index_t row, index_t column, index_t height, index_t width) {
    H_ = machine_.in_global(H);
    row_ = row;
    column_ = column;
    TESSERA_NO_UNROLL
    for (index_t k = 0; k < width; k += columns) {
      const int of_leaf = static_cast<int>(width - k < columns ? width - k : columns);
      if (k > 0) update(k, height, of_leaf);
      if (machine_.warp() == 0) factor_diagonal(k, of_leaf);
      machine_.meet();
      if (memory_.failed > 0) return k + memory_.failed;
      solve_below(k, height, of_leaf);
      machine_.meet();
    }
    return 0;
  }

 private:
  TESSERA_DEVICE E* at(index_t i, index_t j) const { return H_ + i * row_ + j * column_; }

  TESSERA_DEVICE void factor_diagonal(index_t k, int of_leaf) {
    CholeskyBlock<Diagonal, typename Machine::OneWarp> block(memory_.diagonal, typename Machine::OneWarp(machine_));
    block.load(at(k, k), row_, column_, of_leaf);
    const int failed = block.factor();
    block.store(at(k, k), row_, column_);
    const int i = machine_.lane();
    block.for_each_element([&](int j, const E& element) {
      if (i >= columns) return;
      memory_.factor[j][i] = conjugate(element);
      if (i == j) memory_.inverse[j] = R(1) / element.part[E::re];
    });
    if (i == 0) memory_.failed = failed;
  }

  /// Solves X L^H = H for the rows below the triangle.
  TESSERA_DEVICE void solve_below(index_t k, index_t height, int of_leaf) {
    TESSERA_NO_UNROLL
    for (index_t i = k + of_leaf + machine_.thread(); i < height; i += Block::threads) {
      E* const row = at(i, k);
      // Loaded again for every row: the whole triangle does not fit the registers.
      const auto* const factor = memory_.factor + machine_.made_anew(0);
      E x[columns];
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) x[j] = j < of_leaf ? row[j * column_] : E{};
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        x[j] = product(x[j], memory_.inverse[j]);
        const E minus = negative(x[j]);
        TESSERA_UNROLL
        for (int l = j + 1; l < columns; ++l) x[l] = fused(minus, factor[j][l], x[l]);
      }
      // else the compiler keeps the addresses of the loads in registers
      const index_t column = machine_.made_anew(column_);
      TESSERA_UNROLL
      for (int j = 0; j < columns; ++j) {
        if (j < of_leaf) row[j * column] = x[j];
      }
    }
  }

  /// Updates the leaf by the columns before it.
  TESSERA_DEVICE void update(index_t k, index_t height, int of_leaf) {
    auto& product = *reinterpret_cast<BlockProduct<E>*>(memory_.product);
    if (machine_.thread() == 0) {
      product = product_of_factor<E>(at(k, 0), at(k, 0), at(k, k), row_, column_, k);
      product.m = height - k;
      product.n = of_leaf;
    }
    machine_.meet();
    TESSERA_NO_UNROLL
    for (index_t i = 0; i < product.m; i += Block::rows) {
      GemmBlock<Block, Machine, Operands::plain, Result::anyhow>(product, memory_.stages, i, 0, machine_).run();
      machine_.meet();
    }
  }

  Memory& memory_;
  Machine machine_;
  E* H_ = nullptr;
  index_t row_ = 0, column_ = 0;
};

}  // namespace tessera::kernels::block
