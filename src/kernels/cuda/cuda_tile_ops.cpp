#include "kernels/cuda/cuda_tile_ops.hpp"

#include <complex>
#include <limits>
#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "device/cuda/nvtx_range.hpp"

namespace tessera::kernels::cuda {
namespace {

using device::cuda::CurrentContext;

#if CUBLAS_VERSION >= 120000
using cublas_index = std::int64_t;
#define TESSERA_CUBLAS(name) name##_64
#else
using cublas_index = int;
#define TESSERA_CUBLAS(name) name
#endif

cublas_index narrow(index_t value) {
  if (value > std::numeric_limits<cublas_index>::max()) {
    throw InternalError("a tile of " + std::to_string(value) + " rows or columns is too large for this cuBLAS");
  }
  return static_cast<cublas_index>(value);
}

/// Sizes of one product as cuBLAS takes them.
struct Shape {
  cublasOperation_t op_x, op_y;
  cublas_index m, n, k, ldx, ldy, ldc;
};

cublasStatus_t call(cublasHandle_t handle, const Shape& s, const float* alpha, const float* X, const float* Y,
                    const float* beta, float* C) {
  return TESSERA_CUBLAS(cublasSgemm)(handle, s.op_x, s.op_y, s.m, s.n, s.k, alpha, X, s.ldx, Y, s.ldy, beta, C, s.ldc);
}

cublasStatus_t call(cublasHandle_t handle, const Shape& s, const double* alpha, const double* X, const double* Y,
                    const double* beta, double* C) {
  return TESSERA_CUBLAS(cublasDgemm)(handle, s.op_x, s.op_y, s.m, s.n, s.k, alpha, X, s.ldx, Y, s.ldy, beta, C, s.ldc);
}

/// std::complex<Real> and the types of cuComplex.h both are a real and an imaginary part side by side.
template <class Cuda, class T>
auto as(T* pointer) {
  if constexpr (std::is_const_v<T>) {
    return reinterpret_cast<const Cuda*>(pointer);
  } else {
    return reinterpret_cast<Cuda*>(pointer);
  }
}

using ComplexFloat = std::complex<float>;
using ComplexDouble = std::complex<double>;

cublasStatus_t call(cublasHandle_t handle, const Shape& s, const ComplexFloat* alpha, const ComplexFloat* X,
                    const ComplexFloat* Y, const ComplexFloat* beta, ComplexFloat* C) {
  return TESSERA_CUBLAS(cublasCgemm)(handle, s.op_x, s.op_y, s.m, s.n, s.k, as<cuComplex>(alpha), as<cuComplex>(X),
                                     s.ldx, as<cuComplex>(Y), s.ldy, as<cuComplex>(beta), as<cuComplex>(C), s.ldc);
}

cublasStatus_t call(cublasHandle_t handle, const Shape& s, const ComplexDouble* alpha, const ComplexDouble* X,
                    const ComplexDouble* Y, const ComplexDouble* beta, ComplexDouble* C) {
  return TESSERA_CUBLAS(cublasZgemm)(handle, s.op_x, s.op_y, s.m, s.n, s.k, as<cuDoubleComplex>(alpha),
                                     as<cuDoubleComplex>(X), s.ldx, as<cuDoubleComplex>(Y), s.ldy,
                                     as<cuDoubleComplex>(beta), as<cuDoubleComplex>(C), s.ldc);
}

#undef TESSERA_CUBLAS

cublasOperation_t operation(Op op) {
  switch (op) {
    case Op::no_trans:
      return CUBLAS_OP_N;
    case Op::trans:
      return CUBLAS_OP_T;
    case Op::conj_trans:
      break;
  }
  return CUBLAS_OP_C;
}

}  // namespace

CudaTileOps::CudaTileOps(device::cuda::CudaDevice& device) : device_(device) {
  const CurrentContext current(device_.context());
  try {
    for (int index = 0; index < device::compute_streams; ++index) {
      cublasHandle_t& handle = handles_[static_cast<std::size_t>(index)];
      const cublasStatus_t created = cublasCreate(&handle);
      if (created != CUBLAS_STATUS_SUCCESS) handle = nullptr;
      check("cublasCreate", created);
      check("cublasSetStream", cublasSetStream(handle, device_.stream({device::StreamKind::compute, index})));
      check("cublasSetPointerMode", cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
      check("cublasSetMathMode", cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
    }
  } catch (...) {
    destroy_handles();
    throw;
  }
}

CudaTileOps::~CudaTileOps() {
  // As in ~CudaDevice: where CUDA cannot be called any more, the handles are left to the process's end. Once the runtime shuts down
  // every call of it fails, and cuBLAS must not be called.
  if (!device_.owned_by_this_process() || device_.lost()) return;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    device::cuda::forget_error();
    return;
  }
  destroy_handles();
}

void CudaTileOps::destroy_handles() noexcept {
  const CurrentContext current(device_.context());
  for (cublasHandle_t& handle : handles_) {
    if (handle != nullptr) static_cast<void>(cublasDestroy(handle));
    handle = nullptr;
  }
}

void CudaTileOps::check(const char* what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  device::cuda::forget_error();
  const std::string text = "cuda:" + std::to_string(device_.ordinal()) + ": " + what + ": " +
                           cublasGetStatusString(status) + " (" + std::to_string(static_cast<int>(status)) + ")";
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(text);
  device_.lose(text);
}

void CudaTileOps::run(int compute_stream, const Level3& product) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  if (!device_.accepts_work({device::StreamKind::compute, compute_stream})) return;
  const device::cuda::NvtxRange range("gemm");
  const CurrentContext current(device_.context());
  const cublasHandle_t handle = handles_[static_cast<std::size_t>(compute_stream)];
  const Shape shape{operation(product.op_a), operation(product.op_b), narrow(product.m),   narrow(product.n),
                    narrow(product.k),       narrow(product.lda),     narrow(product.ldb), narrow(product.ldc)};
  dispatch(product.type, [&]<Scalar T>(T) {
    const T alpha = scalar_cast<T>(product.alpha);
    const T beta = scalar_cast<T>(product.beta);
    // cuBLAS reads alpha and beta before the call returns (pointer mode host).
    check("gemm", call(handle, shape, &alpha, static_cast<const T*>(product.A),
                       static_cast<const T*>(product.B), &beta, static_cast<T*>(product.C)));
  });
}

}  // namespace tessera::kernels::cuda
