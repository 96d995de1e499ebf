// Many products of one form. Their sizes, leading dimensions and addresses are in device memory, or one value serves
// all. A thread block takes the arguments of one product from here.
//
// Every problem is clipped and checked by itself. The sizes in the arrays count, not the bounds that shape the grid,
// and a bad argument stops only its own problem. Source: Abdelfattah, Haidar, Tomov, Dongarra, "Novel HPC techniques to
// batch execution of many variable size BLAS computations on GPUs" (sections 4 and 5). Here each block truncates the
// grid for itself.
#pragma once

#include "kernels/block/block_product.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

template <class Stored>
struct ProductBatch : ProductProblems<Stored> {
  ProductForm<Stored> form = {};
  ArgumentPositions positions = {};
};

/// @pre no trmm or trsm; R and parts are those of the batch's type
template <class R, int parts>
ProductBatch<Element<R, parts>> product_batch(const Level3Batch& batch) {
  ProductBatch<Element<R, parts>> made;
  made.form = product_form<R, parts>(batch.common);
  made.positions = argument_positions(batch.common.routine);
  made.take(batch, made.form.square);
  return made;
}

}  // namespace tessera::kernels::block
