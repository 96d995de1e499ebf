// Large products in double precision by the kernel of cuBLAS that needs the least power. What holds an H200 back after some tenths of a
// second is its power limit: what cublasDgemm chooses (blocks of 64 x 64 or 64 x 128) then computes at 48 to 52 TFLOP/s, blocks of
// 128 x 128 at 54 to 56. They are reached by cuBLASLt only (docs/adr/0010-kernels-and-power.md).
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <optional>

#include "core/level3.hpp"

namespace tessera::kernels::cuda {

/// Of one GPU; not thread-safe.
class LtGemm {
 public:
  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    index_t least_depth;  ///< of sums for which it is worth it
  };

  /// @param ordinal the GPU. Where no such kernel is known for it, multiply() does nothing.
  explicit LtGemm(int ordinal);

  /// Submits C = alpha op(A) op(B) + beta C to the stream, in the routine gemm's meaning (core/level3.hpp), where the kernel is known to be
  /// the better one for the shape, and the operands are aligned as it needs them.
  /// @param handle any of this GPU; a cublasHandle_t will do
  /// @return CUBLAS_STATUS_NOT_SUPPORTED if nothing was submitted: the product is cublasDgemm's
  /// @pre alpha != 0; the GPU is current
  cublasStatus_t multiply(cublasLtHandle_t handle, cudaStream_t stream, const Level3& call);

 private:
  // By the transposes. The inner one is empty if there is no such kernel, the outer one until it was looked for.
  using Found = std::optional<Choice>;
  std::array<std::optional<Found>, 4> found_;
  index_t multiprocessors_ = 0;  // 0: not a GPU of the kind that was measured
};

}  // namespace tessera::kernels::cuda
