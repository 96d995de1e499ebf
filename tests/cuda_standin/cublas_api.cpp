// The functions of cuBLAS that the plugin looks up, by the readable reference. As in the real library, the program does
// not see the results of cuBLAS's own calls of the runtime.
#include <cublas_v2.h>

#include <complex>
#include <type_traits>

#include "calls/level3.hpp"
#include "kernels/cuda/cublas_library.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_half.hpp"
#include "tests/cuda_standin/machine.hpp"

using namespace tessera::cuda_standin;  // NOLINT(google-build-using-namespace): NVIDIA's headers fix the namespace
using tessera::AnyScalar;
using tessera::Level3;
using tessera::Routine;
using tessera::ScalarType;
using tessera::kernels::cuda::cublas_index;

namespace {

cublasStatus_t status_of(const Call& call) {
  return call.error() == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <class T>
constexpr ScalarType type_of = std::is_same_v<T, float>       ? ScalarType::s
                               : std::is_same_v<T, double>    ? ScalarType::d
                               : std::is_same_v<T, cuComplex> ? ScalarType::c
                                                              : ScalarType::z;

template <class T>
AnyScalar scalar(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return {value.x, value.y};
  }
}

tessera::Op op(cublasOperation_t value) {
  if (value == CUBLAS_OP_N) return tessera::Op::no_trans;
  return value == CUBLAS_OP_T ? tessera::Op::trans : tessera::Op::conj_trans;
}
tessera::Side side(cublasSideMode_t value) {
  return value == CUBLAS_SIDE_LEFT ? tessera::Side::left : tessera::Side::right;
}
tessera::Uplo uplo(cublasFillMode_t value) {
  return value == CUBLAS_FILL_MODE_LOWER ? tessera::Uplo::lower : tessera::Uplo::upper;
}
tessera::Diag diag(cublasDiagType_t value) {
  return value == CUBLAS_DIAG_UNIT ? tessera::Diag::unit : tessera::Diag::non_unit;
}

cublasStatus_t compute(const char* name, cublasHandle_t handle, const Level3& work) {
  const Call call(name, handle->gpu);
  if (!call) return status_of(call);
  submit(stream_of(handle->stream, name), {.kind = "kernel", .work = [work](int half) {
                                             if (half == 1) tessera::kernels::reference_level3(work);
                                           }});
  return CUBLAS_STATUS_SUCCESS;
}

/// Computes many products of one form; matrices_of(work, i) sets the matrices of each.
template <class MatricesOf>
cublasStatus_t compute_all(const char* name, cublasHandle_t handle, const Level3& common, cublas_index count,
                           MatricesOf matrices_of) {
  const Call call(name, handle->gpu);
  if (!call) return status_of(call);
  submit(stream_of(handle->stream, name), {.kind = "kernel", .work = [=](int half) {
                                             for (cublas_index i = 0; i < count && half == 1; ++i) {
                                               Level3 work = common;
                                               matrices_of(work, i);
                                               tessera::kernels::reference_level3(work);
                                             }
                                           }});
  return CUBLAS_STATUS_SUCCESS;
}

/// Computes products of 16-bit numbers with sums in single precision. @pre scalars are single
cublasStatus_t compute_halves(const char* name, cublasHandle_t handle, cudaDataType_t type, cublasComputeType_t sums,
                              cublas_index count, tessera::kernels::HalfBatch batch) {
  const Call call(name, handle->gpu);
  if (!call) return status_of(call);
  if ((type != CUDA_R_16F && type != CUDA_R_16BF) || sums != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  batch.stored = type == CUDA_R_16F ? tessera::HalfType::h : tessera::HalfType::bf;
  batch.products.count = count;
  const Level3& common = batch.products.common;
  batch.products.m.of_all = common.m;
  batch.products.n.of_all = common.n;
  batch.products.k.of_all = common.k;
  batch.products.lda.of_all = common.lda;
  batch.products.ldb.of_all = common.ldb;
  batch.products.ldc.of_all = common.ldc;
  submit(stream_of(handle->stream, name), {.kind = "kernel", .work = [batch](int half) {
                                             if (half == 1) tessera::kernels::reference_half_batch(batch);
                                           }});
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

#define TESSERA_NAME(name) TESSERA_CUBLAS_ROUTINE(name)
#define TESSERA_GEMM(letter, T)                                                                                        \
  cublasStatus_t TESSERA_NAME(letter##gemm)(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, \
                                            cublas_index m, cublas_index n, cublas_index k, const T* alpha,            \
                                            const T* A, cublas_index lda, const T* B, cublas_index ldb, const T* beta, \
                                            T* C, cublas_index ldc) {                                                  \
    return compute(__func__, handle,                                                                                   \
                   {.routine = Routine::gemm,                                                                          \
                    .type = type_of<T>,                                                                                \
                    .op_a = op(transa),                                                                                \
                    .op_b = op(transb),                                                                                \
                    .m = m,                                                                                            \
                    .n = n,                                                                                            \
                    .k = k,                                                                                            \
                    .alpha = scalar(*alpha),                                                                           \
                    .A = A,                                                                                            \
                    .lda = lda,                                                                                        \
                    .B = B,                                                                                            \
                    .ldb = ldb,                                                                                        \
                    .beta = scalar(*beta),                                                                             \
                    .C = C,                                                                                            \
                    .ldc = ldc});                                                                                      \
  }
#define TESSERA_GEMM_FORM                                                                                         \
  {                                                                                                               \
    .routine = Routine::gemm, .type = type_of<T>, .op_a = op(transa), .op_b = op(transb), .m = m, .n = n, .k = k, \
    .alpha = scalar(*alpha), .lda = lda, .ldb = ldb, .beta = scalar(*beta), .ldc = ldc                            \
  }
#define TESSERA_HALF_FORM                                                                                            \
  {                                                                                                                  \
    .routine = Routine::gemm, .type = type_of<T>, .op_a = op(transa), .op_b = op(transb), .m = m, .n = n, .k = k,    \
    .alpha = *static_cast<const T*>(alpha), .lda = lda, .ldb = ldb, .beta = *static_cast<const T*>(beta), .ldc = ldc \
  }
#define TESSERA_GEMM_BATCHED(letter, Type)                                                                       \
  cublasStatus_t TESSERA_NAME(letter##gemmBatched)(                                                              \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, cublas_index m, cublas_index n, \
      cublas_index k, const Type* alpha, const Type* const A[], cublas_index lda, const Type* const B[],         \
      cublas_index ldb, const Type* beta, Type* const C[], cublas_index ldc, cublas_index count) {               \
    using T = Type;                                                                                              \
    return compute_all(__func__, handle, TESSERA_GEMM_FORM, count, [=](Level3& work, cublas_index i) {           \
      work.A = A[i];                                                                                             \
      work.B = B[i];                                                                                             \
      work.C = C[i];                                                                                             \
    });                                                                                                          \
  }                                                                                                              \
  cublasStatus_t TESSERA_NAME(letter##gemmStridedBatched)(                                                       \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, cublas_index m, cublas_index n, \
      cublas_index k, const Type* alpha, const Type* A, cublas_index lda, long long apart_a, const Type* B,      \
      cublas_index ldb, long long apart_b, const Type* beta, Type* C, cublas_index ldc, long long apart_c,       \
      cublas_index count) {                                                                                      \
    using T = Type;                                                                                              \
    return compute_all(__func__, handle, TESSERA_GEMM_FORM, count, [=](Level3& work, cublas_index i) {           \
      work.A = A + i * apart_a;                                                                                  \
      work.B = B + i * apart_b;                                                                                  \
      work.C = C + i * apart_c;                                                                                  \
    });                                                                                                          \
  }
#define TESSERA_SYMM(letter, T, name)                                                                             \
  cublasStatus_t TESSERA_NAME(letter##name)(cublasHandle_t handle, cublasSideMode_t where, cublasFillMode_t fill, \
                                            cublas_index m, cublas_index n, const T* alpha, const T* A,           \
                                            cublas_index lda, const T* B, cublas_index ldb, const T* beta, T* C,  \
                                            cublas_index ldc) {                                                   \
    return compute(__func__, handle,                                                                              \
                   {.routine = Routine::name,                                                                     \
                    .type = type_of<T>,                                                                           \
                    .side = side(where),                                                                          \
                    .uplo = uplo(fill),                                                                           \
                    .m = m,                                                                                       \
                    .n = n,                                                                                       \
                    .alpha = scalar(*alpha),                                                                      \
                    .A = A,                                                                                       \
                    .lda = lda,                                                                                   \
                    .B = B,                                                                                       \
                    .ldb = ldb,                                                                                   \
                    .beta = scalar(*beta),                                                                        \
                    .C = C,                                                                                       \
                    .ldc = ldc});                                                                                 \
  }
#define TESSERA_SYRK(letter, T, Factor, name)                                                                      \
  cublasStatus_t TESSERA_NAME(letter##name)(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t trans, \
                                            cublas_index n, cublas_index k, const Factor* alpha, const T* A,       \
                                            cublas_index lda, const Factor* beta, T* C, cublas_index ldc) {        \
    return compute(__func__, handle,                                                                               \
                   {.routine = Routine::name,                                                                      \
                    .type = type_of<T>,                                                                            \
                    .uplo = uplo(fill),                                                                            \
                    .op_a = op(trans),                                                                             \
                    .m = n,                                                                                        \
                    .n = n,                                                                                        \
                    .k = k,                                                                                        \
                    .alpha = scalar(*alpha),                                                                       \
                    .A = A,                                                                                        \
                    .lda = lda,                                                                                    \
                    .beta = scalar(*beta),                                                                         \
                    .C = C,                                                                                        \
                    .ldc = ldc});                                                                                  \
  }
#define TESSERA_SYR2K(letter, T, Beta, name)                                                                        \
  cublasStatus_t TESSERA_NAME(letter##name)(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t trans,  \
                                            cublas_index n, cublas_index k, const T* alpha, const T* A,             \
                                            cublas_index lda, const T* B, cublas_index ldb, const Beta* beta, T* C, \
                                            cublas_index ldc) {                                                     \
    return compute(__func__, handle,                                                                                \
                   {.routine = Routine::name,                                                                       \
                    .type = type_of<T>,                                                                             \
                    .uplo = uplo(fill),                                                                             \
                    .op_a = op(trans),                                                                              \
                    .m = n,                                                                                         \
                    .n = n,                                                                                         \
                    .k = k,                                                                                         \
                    .alpha = scalar(*alpha),                                                                        \
                    .A = A,                                                                                         \
                    .lda = lda,                                                                                     \
                    .B = B,                                                                                         \
                    .ldb = ldb,                                                                                     \
                    .beta = scalar(*beta),                                                                          \
                    .C = C,                                                                                         \
                    .ldc = ldc});                                                                                   \
  }
#define TESSERA_TRMM(letter, T)                                                                                       \
  cublasStatus_t TESSERA_NAME(letter##trmm)(cublasHandle_t handle, cublasSideMode_t where, cublasFillMode_t fill,     \
                                            cublasOperation_t trans, cublasDiagType_t unit, cublas_index m,           \
                                            cublas_index n, const T* alpha, const T* A, cublas_index lda, const T* B, \
                                            cublas_index ldb, T* C, cublas_index ldc) {                               \
    return compute(__func__, handle,                                                                                  \
                   {.routine = Routine::trmm,                                                                         \
                    .type = type_of<T>,                                                                               \
                    .side = side(where),                                                                              \
                    .uplo = uplo(fill),                                                                               \
                    .op_a = op(trans),                                                                                \
                    .diag = diag(unit),                                                                               \
                    .m = m,                                                                                           \
                    .n = n,                                                                                           \
                    .alpha = scalar(*alpha),                                                                          \
                    .A = A,                                                                                           \
                    .lda = lda,                                                                                       \
                    .B = B,                                                                                           \
                    .ldb = ldb,                                                                                       \
                    .C = C,                                                                                           \
                    .ldc = ldc});                                                                                     \
  }
#define TESSERA_ROUTINES(letter, T) \
  TESSERA_GEMM(letter, T)           \
  TESSERA_GEMM_BATCHED(letter, T)   \
  TESSERA_SYMM(letter, T, symm)     \
  TESSERA_SYRK(letter, T, T, syrk)  \
  TESSERA_SYR2K(letter, T, T, syr2k) TESSERA_TRMM(letter, T)
#define TESSERA_HERMITIAN(letter, T, Real) \
  TESSERA_SYMM(letter, T, hemm) TESSERA_SYRK(letter, T, Real, herk) TESSERA_SYR2K(letter, T, Real, her2k)

TESSERA_ROUTINES(S, float)
TESSERA_ROUTINES(D, double)
TESSERA_ROUTINES(C, cuComplex)
TESSERA_ROUTINES(Z, cuDoubleComplex)
TESSERA_HERMITIAN(C, cuComplex, float)
TESSERA_HERMITIAN(Z, cuDoubleComplex, double)

cublasStatus_t TESSERA_NAME(GemmStridedBatchedEx)(cublasHandle_t handle, cublasOperation_t transa,
                                                  cublasOperation_t transb, cublas_index m, cublas_index n,
                                                  cublas_index k, const void* alpha, const void* A, cudaDataType_t type,
                                                  cublas_index lda, long long apart_a, const void* B,
                                                  cudaDataType_t /*Btype*/, cublas_index ldb, long long apart_b,
                                                  const void* beta, void* C, cudaDataType_t /*Ctype*/, cublas_index ldc,
                                                  long long apart_c, cublas_index count, cublasComputeType_t sums,
                                                  cublasGemmAlgo_t /*algo*/) {
  using T = float;
  tessera::kernels::HalfBatch batch;
  batch.products.common = TESSERA_HALF_FORM;
  batch.products.A = {.first = A, .distance = apart_a};
  batch.products.B = {.first = B, .distance = apart_b};
  batch.products.C = {.first = C, .distance = apart_c};
  return compute_halves(__func__, handle, type, sums, count, batch);
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  const Call call(__func__, nullptr);
  if (!call) return status_of(call);
  *handle = new cublasContext{&call.gpu()};
  ++call.gpu().held["cuBLAS handles"];
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  const Call call(__func__, handle->gpu);
  if (!call) return status_of(call);
  --handle->gpu->held["cuBLAS handles"];
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  const Call call(__func__, handle->gpu);
  if (!call) return status_of(call);
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* /*memory*/, size_t /*bytes*/) {
  const Call call(__func__, handle->gpu);
  return call ? CUBLAS_STATUS_SUCCESS : status_of(call);
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t /*mode*/) {
  const Call call(__func__, handle->gpu);
  return call ? CUBLAS_STATUS_SUCCESS : status_of(call);
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t /*mode*/) {
  const Call call(__func__, handle->gpu);
  return call ? CUBLAS_STATUS_SUCCESS : status_of(call);
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "an allocation failed" : "execution failed";
}
