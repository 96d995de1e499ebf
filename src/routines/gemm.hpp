// C = alpha * op_a(A) * op_b(B) + beta * C as tile tasks.
#pragma once

#include <memory>

#include "core/scalar.hpp"
#include "runtime/runtime.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::routines {

/// A checked, column-major gemm: op_a(A) is m x k, op_b(B) is k x n, C is m x n.
struct GemmProblem {
  ScalarType type = ScalarType::d;
  Op op_a = Op::no_trans;
  Op op_b = Op::no_trans;
  index_t m = 0, n = 0, k = 0;
  AnyScalar alpha = 1;
  const void* A = nullptr;
  index_t lda = 0;
  const void* B = nullptr;
  index_t ldb = 0;
  AnyScalar beta = 0;
  void* C = nullptr;
  index_t ldc = 0;

  /// Neither alpha nor k asks for a product: C is at most scaled, and A and B are not read.
  bool only_scales() const { return alpha == AnyScalar(0) || k == 0; }
};

/// Runs the problem on the runtime's devices. @pre m, n, k >= 1 and alpha != 0
/// @param tile forced tile size (TESSERA_TILE), 0: chosen from the problem and the machine
/// @throws OutOfDeviceMemory, DeviceLost (see Runtime::run)
runtime::JobStatistics run_gemm(runtime::Runtime& runtime, const GemmProblem& problem, index_t tile = 0);

}  // namespace tessera::routines
