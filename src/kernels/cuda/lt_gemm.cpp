#include "kernels/cuda/lt_gemm.hpp"

#include <cstdint>

#include "device/cuda/cuda_context.hpp"
#include "kernels/cuda/wave_fill.hpp"

namespace tessera::kernels::cuda {
namespace {

// From inner shapes on, cuBLASLt has what is needed.
#if CUBLAS_VERSION >= 120000

constexpr index_t block_side = 128;

struct Kernel {
  cublasLtMatmulStages_t stages;
  cublasLtMatmulInnerShape_t instruction;
  index_t least_depth;  // below it cublasDgemm's choice is as good or better
};
// The best first. Where neither operand is transposed cuBLAS has the second one only.
constexpr std::array<Kernel, 2> kernels = {{{CUBLASLT_MATMUL_STAGES_16x3, CUBLASLT_MATMUL_INNER_SHAPE_MMA16816, 1024},
                                            {CUBLASLT_MATMUL_STAGES_32x3, CUBLASLT_MATMUL_INNER_SHAPE_MMA1688, 2048}}};

// With fewer blocks than that cublasDgemm's smaller ones fill the GPU better.
constexpr double least_fill = 0.8;

constexpr std::uintptr_t alignment = 16;

bool is_aligned(const void* matrix, index_t ld) {
  return (reinterpret_cast<std::uintptr_t>(matrix) | static_cast<std::uintptr_t>(ld) * sizeof(double)) % alignment == 0;
}

// What cuBLASLt wants to know of a product. Its descriptors are filled in place, not allocated.
class Description {
 public:
  explicit Description(const Level3& call) {
    const StoredShape a = shape_of_a(call);
    const StoredShape b = shape_of_b(call);
    note(cublasLtMatmulDescInit(&product_, CUBLAS_COMPUTE_64F, CUDA_R_64F));
    set_op(CUBLASLT_MATMUL_DESC_TRANSA, call.op_a);
    set_op(CUBLASLT_MATMUL_DESC_TRANSB, call.op_b);
    set_layout(A_, a, call.lda);
    set_layout(B_, b, call.ldb);
    set_layout(C_, {call.m, call.n}, call.ldc);
  }

  cublasStatus_t status() const { return status_; }

  /// Whether the algorithm can do this product without a workspace.
  bool admits(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(handle, &product_, &A_, &B_, &C_, &C_, &algorithm, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize == 0;
  }

  /// What cuBLASLt proposes by itself. @return how many of `results` were filled
  int propose(cublasLtHandle_t handle, std::array<cublasLtMatmulHeuristicResult_t, 32>& results) {
    cublasLtMatmulPreferenceOpaque_t preference;
    int count = 0;
    if (cublasLtMatmulPreferenceInit(&preference) != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulAlgoGetHeuristic(handle, &product_, &A_, &B_, &C_, &C_, &preference,
                                       static_cast<int>(results.size()), results.data(),
                                       &count) != CUBLAS_STATUS_SUCCESS)
      return 0;
    return count;
  }

  cublasStatus_t submit(cublasLtHandle_t handle, cudaStream_t stream, const cublasLtMatmulAlgo_t& algorithm,
                        const Level3& call) {
    const double alpha = scalar_cast<double>(call.alpha);
    const double beta = scalar_cast<double>(call.beta);
    return cublasLtMatmul(handle, &product_, &alpha, call.A, &A_, call.B, &B_, &beta, call.C, &C_, call.C, &C_,
                          &algorithm, nullptr, 0, stream);
  }

 private:
  void note(cublasStatus_t status) {
    if (status_ == CUBLAS_STATUS_SUCCESS) status_ = status;
  }
  void set_op(cublasLtMatmulDescAttributes_t which, Op op) {
    const cublasOperation_t value = op == Op::no_trans ? CUBLAS_OP_N : CUBLAS_OP_T;
    note(cublasLtMatmulDescSetAttribute(&product_, which, &value, sizeof value));
  }
  void set_layout(cublasLtMatrixLayoutOpaque_t& layout, const StoredShape& shape, index_t ld) {
    note(cublasLtMatrixLayoutInit(&layout, CUDA_R_64F, static_cast<std::uint64_t>(shape.rows),
                                  static_cast<std::uint64_t>(shape.cols), ld));
  }

  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t A_, B_, C_;
};

bool configure(cublasLtMatmulAlgo_t& algorithm, const Kernel& kernel) {
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t which, auto value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  };
  return set(CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<std::uint32_t>(CUBLASLT_MATMUL_TILE_128x128)) &&
         set(CUBLASLT_ALGO_CONFIG_STAGES_ID, static_cast<std::uint32_t>(kernel.stages)) &&
         set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, static_cast<std::uint16_t>(kernel.instruction)) &&
         set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, std::uint32_t{1});
}

int id_of(const cublasLtMatmulAlgo_t& algorithm) {
  int id = -1;
  std::size_t written = 0;
  static_cast<void>(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &written));
  return id;
}

// Algorithms have numbers that nobody documents: ours is the one that cuBLASLt ranks first, with other blocks. (Others take the same
// settings and run at half the rate.)
std::optional<LtGemm::Choice> find(cublasLtHandle_t handle, Op op_a, Op op_b) {
  constexpr index_t n = 4096;
  Description large({.op_a = op_a, .op_b = op_b, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n});
  if (large.status() != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  std::array<cublasLtMatmulHeuristicResult_t, 32> proposals{};
  const int count = large.propose(handle, proposals);
  for (const Kernel& kernel : kernels) {
    for (int i = 0; i < count; ++i) {
      cublasLtMatmulAlgo_t algorithm = proposals[static_cast<std::size_t>(i)].algo;
      if (id_of(algorithm) == id_of(proposals.front().algo) && configure(algorithm, kernel) &&
          large.admits(handle, algorithm))
        return LtGemm::Choice{algorithm, kernel.least_depth};
    }
  }
  return std::nullopt;
}

#endif

}  // namespace

LtGemm::LtGemm([[maybe_unused]] int ordinal) {
#if CUBLAS_VERSION >= 120000
  // Where it was measured.
  if (device::cuda::attribute(ordinal, cudaDevAttrComputeCapabilityMajor) == 9) {
    multiprocessors_ = device::cuda::attribute(ordinal, cudaDevAttrMultiProcessorCount);
  }
#endif
}

cublasStatus_t LtGemm::multiply([[maybe_unused]] cublasLtHandle_t handle, [[maybe_unused]] cudaStream_t stream,
                                [[maybe_unused]] const Level3& call) {
#if CUBLAS_VERSION >= 120000
  if (multiprocessors_ == 0 || wave_fill(call.m, call.n, block_side, multiprocessors_) < least_fill ||
      !is_aligned(call.A, call.lda) || !is_aligned(call.B, call.ldb) || !is_aligned(call.C, call.ldc))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::size_t transposes = (call.op_a != Op::no_trans ? 2 : 0) + (call.op_b != Op::no_trans ? 1 : 0);
  std::optional<Found>& found = found_[transposes];
  if (!found) found = find(handle, call.op_a, call.op_b);
  const Found& choice = *found;
  if (!choice || call.k < choice->least_depth) return CUBLAS_STATUS_NOT_SUPPORTED;
  Description product(call);
  if (product.status() != CUBLAS_STATUS_SUCCESS || !product.admits(handle, choice->algorithm))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return product.submit(handle, stream, choice->algorithm, call);
#else
  return CUBLAS_STATUS_NOT_SUPPORTED;
#endif
}

}  // namespace tessera::kernels::cuda
