// Many products of one form. Their sizes, leading dimensions and addresses are in device memory, or one value serves
// all. A thread block takes the arguments of one product from here.
//
// Every problem is clipped and checked by itself. The sizes in the arrays count, not the bounds that shape the grid,
// and a bad argument stops only its own problem. Source: Abdelfattah, Haidar, Tomov, Dongarra, "Novel HPC techniques to
// batch execution of many variable size BLAS computations on GPUs" (sections 4 and 5). Here each block truncates the
// grid for itself.
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/block/block_product.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

template <class Stored>
struct ProductBatch {
  using E = Stored;
  using Problem = ProductProblem<E>;
  static constexpr int words = 9;  ///< words that describe a problem
  ProductForm<E> form = {};
  ArgumentPositions positions = {};
  index_t count = 0;
  WordOfEach word[words] = {};

  static TESSERA_HOST_DEVICE Problem problem_of(const index_t (&w)[words]) {
    return {w[0], w[1],
            w[2], reinterpret_cast<const E*>(w[3]),
            w[4], reinterpret_cast<const E*>(w[5]),
            w[6], reinterpret_cast<E*>(w[7]),
            w[8]};
  }
  TESSERA_HOST_DEVICE Problem problem(index_t i) const {
    index_t of_problem[words];
    for (int w = 0; w < words; ++w) of_problem[w] = word[w].of(i);
    return problem_of(of_problem);
  }
};

/// @pre no trmm or trsm; R and parts are those of the batch's type
template <class R, int parts>
ProductBatch<Element<R, parts>> product_batch(const Level3Batch& batch) {
  using E = Element<R, parts>;
  ProductBatch<E> made;
  made.form = product_form<R, parts>(batch.common);
  made.positions = argument_positions(batch.common.routine);
  made.count = batch.count;
  const WordOfEach words[] = {WordOfEach(made.form.square ? batch.n : batch.m),
                              WordOfEach(batch.n),
                              WordOfEach(batch.k),
                              WordOfEach(batch.A.as<const E>()),
                              WordOfEach(batch.lda),
                              WordOfEach(batch.B.as<const E>()),
                              WordOfEach(batch.ldb),
                              WordOfEach(batch.C.as<E>()),
                              WordOfEach(batch.ldc)};
  std::copy(std::begin(words), std::end(words), made.word);
  return made;
}

}  // namespace tessera::kernels::block
