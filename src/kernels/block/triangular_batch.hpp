// Many triangular solves or products in place of one form, in device memory: what a thread block needs of one of them.
#pragma once

#include "kernels/block/triangular_system.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

template <class Stored>
struct TriangularBatch {
  using E = Stored;
  using Problem = TriangularProblem<E>;
  TriangularForm<E> form = {};
  ArgumentPositions positions = {};
  index_t count = 0;
  NumberOfEach m = {}, n = {}, lda = {}, ldb = {};
  MatrixOfEach<const E> A = {};
  MatrixOfEach<E> B = {};

  TESSERA_HOST_DEVICE TriangularProblem<E> problem(index_t i) const {
    return {m.of(i), n.of(i), A.of(i), lda.of(i), B.of(i), ldb.of(i)};
  }
};

/// @pre trmm or trsm; R and parts are those of the batch's type
template <class R, int parts>
TriangularBatch<Element<R, parts>> triangular_batch(const Level3Batch& batch) {
  using E = Element<R, parts>;
  TriangularBatch<E> made;
  made.form = triangular_form<R, parts>(batch.common);
  made.positions = argument_positions(batch.common.routine);
  made.count = batch.count;
  made.m = batch.m;
  made.n = batch.n;
  made.lda = batch.lda;
  made.ldb = batch.ldc;
  made.A = batch.A.as<const E>();
  made.B = batch.C.as<E>();
  return made;
}

}  // namespace tessera::kernels::block
