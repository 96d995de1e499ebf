// Many triangular solves or products in place of one form, in device memory: what a thread block needs of one of them,
// for each part of the plan (plan/triangular_recursion.hpp) that is made for the largest. Problems that are smaller
// have what is left of the parts.
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/block/product_batch.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

/// @tparam Int of the arrays: int, or 64 bits
template <class E, class Int>
struct TriangularBatch {
  TriangularForm<E> form = {};
  ArgumentPositions positions = {};
  index_t count = 0;
  NumberOfEach<Int> m = {}, n = {}, lda = {}, ldb = {};
  MatrixOfEach<const E> A = {};
  MatrixOfEach<E> B = {};

  TESSERA_HOST_DEVICE TriangularProblem<E> problem(index_t i) const {
    return {m.of(i), n.of(i), A.of(i), lda.of(i), B.of(i), ldb.of(i)};
  }
};

/// A part that is no leaf. @pre clipped(); alpha is not zero
template <class E>
TESSERA_HOST_DEVICE BlockProduct<E> product_of(const TriangularForm<E>& form, const TriangularProblem<E>& problem,
                                               const plan::TriangularPart& part) {
  ProductOperand<E> triangle;
  triangle.at =
      problem.A + (form.transposed ? part.from_row + part.row * problem.lda : part.row + part.from_row * problem.lda);
  triangle.row = form.transposed ? problem.lda : 1;
  triangle.step = form.transposed ? 1 : problem.lda;
  triangle.conjugate = form.conjugate;
  const index_t to_next_row = form.on_left ? 1 : problem.ldb;
  ProductOperand<E> X;
  X.at = problem.B + part.from_row * to_next_row;
  X.row = form.on_left ? problem.ldb : 1;
  X.step = to_next_row;
  BlockProduct<E> product;
  product.m = form.on_left ? part.rows : problem.m;
  product.n = form.on_left ? problem.n : part.rows;
  product.k = part.from;
  product.terms = part.from > 0 ? 1 : 0;
  product.term[0].left = form.on_left ? triangle : X;
  product.term[0].right = form.on_left ? X : triangle;
  E one{};
  one.part[0] = 1;
  const bool scales = form.is_solve && form.scales && part.takes_alpha;
  product.alpha = form.is_solve ? negative(one) : form.alpha;
  product.beta = scales ? form.alpha : one;
  product.reads_c = true;
  product.C = problem.B + part.row * to_next_row;
  product.ldc = problem.ldb;
  product.does_nothing = part.from == 0 && !scales;
  return product;
}

}  // namespace tessera::kernels::block
