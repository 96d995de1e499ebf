// Complex matrices of 16-bit numbers as planes, real parts and imaginary ones, which cuBLAS wants: what parts and merges
// them, and the products that cuBLAS makes of them.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "bench/frame/device_timer.hpp"
#include "core/half.hpp"
#include "core/scalar.hpp"

namespace tessera::bench {

cudaError_t part_into_planes(void* re, void* im, const void* from, index_t elements, cudaStream_t stream);
cudaError_t merge_planes(void* to, const void* re, const void* im, index_t elements, cudaStream_t stream);

/// Products of one size that lie one behind the other: columns without gaps, C m x n, A m x k, B k x n.
struct HalfShapes {
  index_t m = 0, n = 0, k = 0, count = 0;

  index_t of_a() const { return m * k; }
  index_t of_b() const { return k * n; }
  index_t of_c() const { return m * n; }
};

/// A complex matrix of each problem in planes, each of which begins at a multiple of 256 bytes.
class Planes {
 public:
  explicit Planes(index_t elements)
      : elements_(elements), plane_((elements + 127) / 128 * 128), numbers_(static_cast<std::size_t>(2 * plane_)) {}

  std::uint16_t* re() const { return numbers_.get(); }
  std::uint16_t* im() const { return numbers_.get() + plane_; }
  index_t bytes_between() const { return 2 * plane_; }
  void part(const void* from, cudaStream_t stream) const {
    check(part_into_planes(re(), im(), from, elements_, stream), "part");
  }
  void merge(void* to, cudaStream_t stream) const { check(merge_planes(to, re(), im(), elements_, stream), "merge"); }

 private:
  index_t elements_, plane_;
  DeviceArray<std::uint16_t> numbers_;
};

/// cublasLt's product of planes, as a plan that is made once.
class PlanarProduct {
 public:
  /// @throws std::runtime_error where cublasLt has none
  PlanarProduct(cublasLtHandle_t handle, const HalfShapes& shapes, cudaDataType_t type, const Planes& A,
                const Planes& B, const Planes& C)
      : handle_(handle), workspace_(workspace_bytes) {
    check(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_C_32F), "cublasLtMatmulDescCreate");
    a_ = layout(type, shapes.m, shapes.k, shapes.count, A);
    b_ = layout(type, shapes.k, shapes.n, shapes.count, B);
    c_ = layout(type, shapes.m, shapes.n, shapes.count, C);
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                               sizeof workspace_bytes),
          "preference");
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, product_, a_, b_, c_, c_, preference, 1, &best_, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      release();
      throw std::runtime_error("cublasLt has no planar product of this size");
    }
  }
  ~PlanarProduct() { release(); }
  PlanarProduct(const PlanarProduct&) = delete;
  PlanarProduct& operator=(const PlanarProduct&) = delete;

  void run(const cuComplex& alpha, const Planes& A, const Planes& B, const cuComplex& beta, const Planes& C,
           cudaStream_t stream) const {
    check(cublasLtMatmul(handle_, product_, &alpha, A.re(), a_, B.re(), b_, &beta, C.re(), c_, C.re(), c_, &best_.algo,
                         workspace_.get(), workspace_bytes, stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  static cublasLtMatrixLayout_t layout(cudaDataType_t type, index_t rows, index_t columns, index_t count,
                                       const Planes& planes) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                     rows),
          "cublasLtMatrixLayoutCreate");
    const auto batches = static_cast<std::int32_t>(count);
    const std::int64_t distance = rows * columns, between = planes.bytes_between();
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches),
          "count");
    check(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance),
        "distance");
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, &between, sizeof between),
          "planes");
    return made;
  }
  void release() {
    for (const cublasLtMatrixLayout_t one : {a_, b_, c_}) {
      if (one != nullptr) cublasLtMatrixLayoutDestroy(one);
    }
    if (product_ != nullptr) cublasLtMatmulDescDestroy(product_);
  }

  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t best_{};
  DeviceArray<char> workspace_;
};

/// The four real products of planes. alpha and beta are real.
inline void multiply_planes(cublasHandle_t handle, const HalfShapes& s, cudaDataType_t type, float alpha,
                            const Planes& A, const Planes& B, float beta, const Planes& C) {
  const auto product = [&](float factor, const void* a, const void* b, float kept, void* c) {
    check(cublasGemmStridedBatchedEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, s.k, &factor, a, type, s.m,
                                        s.of_a(), b, type, s.k, s.of_b(), &kept, c, type, s.m, s.of_c(), s.count,
                                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
  };
  product(alpha, A.re(), B.re(), beta, C.re());
  product(-alpha, A.im(), B.im(), 1, C.re());
  product(alpha, A.re(), B.im(), beta, C.im());
  product(alpha, A.im(), B.re(), 1, C.im());
}

}  // namespace tessera::bench
