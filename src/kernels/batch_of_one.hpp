// One call as a batch.
#pragma once

#include "calls/level3.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

/// @param call on matrices in the memory of the device
inline Level3Batch batch_of_one(const Level3& call) {
  Level3Batch batch;
  batch.common = call;
  batch.count = 1;
  batch.m.of_all = call.m;
  batch.n.of_all = call.n;
  batch.k.of_all = call.k;
  batch.lda.of_all = call.lda;
  batch.ldb.of_all = call.ldb;
  batch.ldc.of_all = call.ldc;
  batch.A.first = call.A;
  batch.B.first = call.B;
  batch.C.first = call.C;
  return batch;
}

}  // namespace tessera::kernels
