// Batches for tests that compute nothing: their matrices lie nowhere.
#pragma once

#include <algorithm>

#include "calls/gemm_batch.hpp"
#include "calls/lapack_problems.hpp"

namespace tessera::test {

inline GemmBatch cubes(index_t side, index_t count, AnyScalar beta = 0, index_t k = -1) {
  GemmBatchBuilder builder(ScalarType::d);
  static double nowhere = 0;
  const index_t inner = k < 0 ? side : k;
  builder.add({.arguments = {.op_a = Op::no_trans,
                             .op_b = Op::no_trans,
                             .m = side,
                             .n = side,
                             .k = inner,
                             .lda = side,
                             .ldb = std::max<index_t>(inner, 1),
                             .ldc = side},
               .beta = beta,
               .A = {.first = &nowhere, .distance_bytes = 8},
               .B = {.first = &nowhere},
               .C = {.first = &nowhere, .distance_bytes = 8},
               .count = count});
  return builder.take();
}

inline LapackProblems systems(Routine routine, index_t n, index_t nrhs, index_t count) {
  LapackProblemsBuilder builder(routine, ScalarType::d);
  static double nowhere = 0;
  static int pivots = 0;
  LapackGroup group;
  group.form.has_pivots = position_of(routine, Parameter::ipiv) != 0;
  group.common = {.m = n, .n = n, .nrhs = nrhs, .lda = n, .ldb = n};
  group.A = {.first = &nowhere, .distance_bytes = 8};
  group.B = {.first = &nowhere, .distance_bytes = 8};
  group.ipiv.first = &pivots;
  group.count = count;
  builder.add(group);
  return builder.take();
}

}  // namespace tessera::test
