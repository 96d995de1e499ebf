#include "kernels/cuda/half_kernels.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/cublas_library.hpp"
#include "kernels/cuda/product_kernels.hpp"
#include "kernels/cuda/vendor_batch.hpp"
#include "kernels/plan/vendor_batches.hpp"

namespace tessera::kernels::cuda {
namespace {

index_t pieces(index_t size, index_t of) { return (size + of - 1) / of; }

/// Whether every column of every problem is aligned as the fastest kernels of cuBLAS need it. Its functions for pointer
/// arrays assume this alignment, and break the program's context without it. The host cannot check pointers in device
/// memory.
bool is_aligned_for_vendor(const HalfBatch& batch) {
  constexpr std::uintptr_t vendor_load = 16;
  const Level3Batch& given = batch.products;
  const auto number = static_cast<index_t>(element_bytes(batch.stored));
  for (const UntypedMatrixOfEach* const matrix : {&given.A, &given.B, &given.C}) {
    if (matrix->of_each != nullptr || reinterpret_cast<std::uintptr_t>(matrix->first) % vendor_load != 0) return false;
    if (static_cast<std::uintptr_t>(matrix->distance * number) % vendor_load != 0) return false;
  }
  for (const NumberOfEach* const distance : {&given.lda, &given.ldb, &given.ldc}) {
    if (static_cast<std::uintptr_t>(distance->of_all * number) % vendor_load != 0) return false;
  }
  return true;
}

/// @pre vendor_has(batch.products); matrices have a common distance; the elements are real
cublasStatus_t submit_to_vendor(const HalfBatch& batch, cublasHandle_t handle) {
  const Level3Batch& given = batch.products;
  const auto size = [](const NumberOfEach& number) { return static_cast<cublas_index>(number.of_all); };
  const auto alpha = static_cast<float>(given.common.alpha.real()), beta = static_cast<float>(given.common.beta.real());
  const cublasOperation_t op_a = operation_of(given.common.op_a, given.common.type);
  const cublasOperation_t op_b = operation_of(given.common.op_b, given.common.type);
  const cudaDataType_t type = batch.stored == HalfType::h ? CUDA_R_16F : CUDA_R_16BF;
  return cublas().GemmStridedBatchedEx(handle, op_a, op_b, size(given.m), size(given.n), size(given.k), &alpha,
                                       given.A.first, type, size(given.lda), given.A.distance, given.B.first, type,
                                       size(given.ldb), given.B.distance, &beta, const_cast<void*>(given.C.first), type,
                                       size(given.ldc), given.C.distance, static_cast<cublas_index>(given.count),
                                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

}  // namespace

cudaError_t HalfKernels::load(int ordinal) {
  int multiprocessors = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
  multiprocessors_ = multiprocessors;
  return error != cudaSuccess ? error : load_half_kernels();
}

HalfLaunch HalfKernels::launch_of(const HalfBatch& batch) const {
  const Level3& bounds = batch.products.common;
  const index_t count = batch.products.count;
  HalfLaunch how;
  how.tiny = plan::choose_tiny(batch.stored, bounds.m, bounds.n);
  const bool is_bounded = bounds.m > 0 && bounds.n > 0;
  how.size_class = plan::class_of_half(is_bounded ? std::max(bounds.m, bounds.n) : 0);
  const plan::HalfBlocks& blocks = plan::half_blocks(batch.stored, how.size_class);
  // Some thread blocks for every multiprocessor if bounds are unknown. In larger problems each computes several blocks.
  const index_t largest = is_bounded ? pieces(bounds.m, blocks.rows) * pieces(bounds.n, blocks.columns)
                                     : std::clamp<index_t>(8 * multiprocessors_ / count, 1, 1024);
  how.most_blocks = std::clamp<index_t>(most_thread_blocks / count, 1, largest);
  return how;
}

Outcome HalfKernels::submit(const HalfBatch& batch, const Submission& to) const {
  const Level3Batch& given = batch.products;
  // cuBLAS rounds a product before it adds C.
  const bool is_rounded_once = given.common.beta == AnyScalar(0);
  if (!is_complex(batch.stored) && is_rounded_once && vendor_has(given) && is_aligned_for_vendor(batch) &&
      plan::vendor_is_sooner(batch.stored, given.m.of_all, given.n.of_all, given.k.of_all))
    return {.cublas = submit_to_vendor(batch, to.handle)};
  return {.cuda = submit_halves(batch, launch_of(batch), to.stream)};
}

}  // namespace tessera::kernels::cuda
