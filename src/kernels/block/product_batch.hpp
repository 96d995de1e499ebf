// Many products of one form: their sizes, leading dimensions and places, in device memory or the same for all. What a
// thread block needs of one of them.
//
// Every problem is clipped and checked by itself: sizes in the arrays count, not the bounds that a grid is cut by, and
// a bad argument keeps only its own problem from running. Source: Abdelfattah, Haidar, Tomov, Dongarra, "Novel HPC
// techniques to batch execution of many variable size BLAS computations on GPUs" (sections 4 and 5): here the grid is
// truncated by each block for itself.
#pragma once

#include "kernels/block/block_product.hpp"

namespace tessera::kernels::block {

/// A number per problem, or one for all.
template <class Int>
struct NumberOfEach {
  const Int* of_each = nullptr;
  index_t of_all = 0;
  TESSERA_HOST_DEVICE index_t of(index_t problem) const {
    return of_each != nullptr ? static_cast<index_t>(of_each[problem]) : of_all;
  }
};

/// A matrix per problem: anywhere, or so many elements apart.
template <class E>
struct MatrixOfEach {
  E* const* of_each = nullptr;
  E* first = nullptr;
  index_t distance = 0;
  TESSERA_HOST_DEVICE E* of(index_t problem) const {
    return of_each != nullptr ? of_each[problem] : first + problem * distance;
  }
};

/// @tparam Int of the arrays: int, or 64 bits
template <class E, class Int>
struct ProductBatch {
  ProductForm<E> form = {};
  ArgumentPositions positions = {};
  index_t count = 0;
  NumberOfEach<Int> m = {}, n = {}, k = {}, lda = {}, ldb = {}, ldc = {};
  MatrixOfEach<const E> A = {}, B = {};
  MatrixOfEach<E> C = {};

  TESSERA_HOST_DEVICE ProductProblem<E> problem(index_t i) const {
    const index_t columns = n.of(i);
    return {
        form.square ? columns : m.of(i), columns, k.of(i), A.of(i), lda.of(i), B.of(i), ldb.of(i), C.of(i), ldc.of(i)};
  }
};

}  // namespace tessera::kernels::block
