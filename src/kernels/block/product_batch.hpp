// Many products of one form: their sizes, leading dimensions and places, in device memory or the same for all. What a
// thread block needs of one of them.
//
// Every problem is clipped and checked by itself: sizes in the arrays count, not the bounds that a grid is cut by, and
// a bad argument keeps only its own problem from running. Source: Abdelfattah, Haidar, Tomov, Dongarra, "Novel HPC
// techniques to batch execution of many variable size BLAS computations on GPUs" (sections 4 and 5): here the grid is
// truncated by each block for itself.
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

template <class Stored>
struct ProductBatch {
  using E = Stored;
  using Problem = ProductProblem<E>;
  ProductForm<E> form = {};
  ArgumentPositions positions = {};
  index_t count = 0;
  NumberOfEach m = {}, n = {}, k = {}, lda = {}, ldb = {}, ldc = {};
  MatrixOfEach<const E> A = {}, B = {};
  MatrixOfEach<E> C = {};

  TESSERA_HOST_DEVICE ProductProblem<E> problem(index_t i) const {
    const index_t columns = n.of(i);
    return {
        form.square ? columns : m.of(i), columns, k.of(i), A.of(i), lda.of(i), B.of(i), ldb.of(i), C.of(i), ldc.of(i)};
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
  made.m = batch.m;
  made.n = batch.n;
  made.k = batch.k;
  made.lda = batch.lda;
  made.ldb = batch.ldb;
  made.ldc = batch.ldc;
  made.A = batch.A.as<const E>();
  made.B = batch.B.as<const E>();
  made.C = batch.C.as<E>();
  return made;
}

}  // namespace tessera::kernels::block
