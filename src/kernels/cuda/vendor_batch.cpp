#include "kernels/cuda/vendor_batch.hpp"

#include <bit>
#include <limits>

#include "kernels/cuda/cublas_library.hpp"

namespace tessera::kernels::cuda {
namespace {

/// cuBLAS's batched functions of one type: `anywhere` takes arrays of pointers, `apart` takes a distance between
/// matrices.
template <Scalar T>
struct Batched;
#define TESSERA_BATCHED(Type, CudaType, letter)                 \
  template <>                                                   \
  struct Batched<Type> {                                        \
    using Value = CudaType;                                     \
    template <class... Arguments>                               \
    static cublasStatus_t anywhere(Arguments... arguments) {    \
      return cublas().letter##gemmBatched(arguments...);        \
    }                                                           \
    template <class... Arguments>                               \
    static cublasStatus_t apart(Arguments... arguments) {       \
      return cublas().letter##gemmStridedBatched(arguments...); \
    }                                                           \
  };
TESSERA_BATCHED(float, float, S)
TESSERA_BATCHED(double, double, D)
TESSERA_BATCHED(std::complex<float>, cuComplex, C)
TESSERA_BATCHED(std::complex<double>, cuDoubleComplex, Z)
#undef TESSERA_BATCHED

template <Scalar T>
cublasStatus_t submit(const Level3Batch& batch, cublasHandle_t handle) {
  using Functions = Batched<T>;
  using Value = typename Functions::Value;
  const auto size = [](const NumberOfEach& number) { return static_cast<cublas_index>(number.of_all); };
  const auto alpha = std::bit_cast<Value>(scalar_cast<T>(batch.common.alpha));
  const auto beta = std::bit_cast<Value>(scalar_cast<T>(batch.common.beta));
  const cublasOperation_t op_a = operation_of(batch.common.op_a, batch.common.type);
  const cublasOperation_t op_b = operation_of(batch.common.op_b, batch.common.type);
  const auto count = static_cast<cublas_index>(batch.count);
  const auto A = batch.A.as<Value>(), B = batch.B.as<Value>(), C = batch.C.as<Value>();
  if (C.of_each != nullptr) {
    return Functions::anywhere(handle, op_a, op_b, size(batch.m), size(batch.n), size(batch.k), &alpha, A.of_each,
                               size(batch.lda), B.of_each, size(batch.ldb), &beta, C.of_each, size(batch.ldc), count);
  }
  return Functions::apart(handle, op_a, op_b, size(batch.m), size(batch.n), size(batch.k), &alpha, A.first,
                          size(batch.lda), A.distance, B.first, size(batch.ldb), B.distance, &beta, C.first,
                          size(batch.ldc), C.distance, count);
}

/// Larger grids have layers, and some versions of cuBLAS compute those wrongly.
constexpr index_t most_problems = 65535;

}  // namespace

bool vendor_has(const Level3Batch& batch) {
  constexpr index_t most = std::numeric_limits<cublas_index>::max();
  if (batch.common.routine != Routine::gemm || batch.has_sizes_of_each() || batch.info != nullptr) return false;
  if (batch.common.alpha == AnyScalar(0) || batch.count > most_problems) return false;
  // Matrices at negative distances: cuBLAS does not promise to support them.
  for (const UntypedMatrixOfEach* const matrix : {&batch.A, &batch.B, &batch.C}) {
    if (matrix->distance < 0) return false;
  }
  for (const NumberOfEach* const number : {&batch.m, &batch.n, &batch.k, &batch.lda, &batch.ldb, &batch.ldc}) {
    if (number->of_each != nullptr || number->of_all < 1 || number->of_all > most) return false;
  }
  return true;
}

cublasStatus_t submit_vendor_products(const Level3Batch& batch, const Submission& to) {
  return dispatch(batch.common.type, [&]<Scalar T>(T) { return submit<T>(batch, to.handle); });
}

}  // namespace tessera::kernels::cuda
