#include "kernels/cuda/cuda_tile_ops.hpp"

#include <bit>
#include <complex>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "device/cuda/nvtx_range.hpp"
#include "kernels/cuda/cublas_library.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/trsm.hpp"
#include "kernels/cuda/trsm_recursion.hpp"

namespace tessera::kernels::cuda {
namespace {

using device::cuda::CurrentContext;

cublas_index narrow(index_t value) {
  if (value > std::numeric_limits<cublas_index>::max()) {
    throw InternalError("a tile of " + std::to_string(value) + " rows or columns is too large for this cuBLAS");
  }
  return static_cast<cublas_index>(value);
}

/// cuBLAS's functions of one scalar type under one name for all: `Cublas<T>::gemm`. The letters sy or he choose what
/// the Hermitian routines are: real matrices are Hermitian where they are symmetric, and the signatures agree then.
template <Scalar T>
struct Cublas;

#define TESSERA_CUBLAS_FUNCTION(name, member)          \
  template <class... Arguments>                        \
  static cublasStatus_t name(Arguments... arguments) { \
    return cublas().member(arguments...);              \
  }
#define TESSERA_CUBLAS_FUNCTIONS(Type, CudaType, CudaReal, letter, he) \
  template <>                                                          \
  struct Cublas<Type> {                                                \
    using Value = CudaType;                                            \
    using Real = CudaReal;                                             \
    TESSERA_CUBLAS_FUNCTION(gemm, letter##gemm)                        \
    TESSERA_CUBLAS_FUNCTION(symm, letter##symm)                        \
    TESSERA_CUBLAS_FUNCTION(hemm, letter##he##mm)                      \
    TESSERA_CUBLAS_FUNCTION(syrk, letter##syrk)                        \
    TESSERA_CUBLAS_FUNCTION(herk, letter##he##rk)                      \
    TESSERA_CUBLAS_FUNCTION(syr2k, letter##syr2k)                      \
    TESSERA_CUBLAS_FUNCTION(her2k, letter##he##r2k)                    \
    TESSERA_CUBLAS_FUNCTION(trmm, letter##trmm)                        \
  }

TESSERA_CUBLAS_FUNCTIONS(float, float, float, S, sy);
TESSERA_CUBLAS_FUNCTIONS(double, double, double, D, sy);
TESSERA_CUBLAS_FUNCTIONS(std::complex<float>, cuComplex, float, C, he);
TESSERA_CUBLAS_FUNCTIONS(std::complex<double>, cuDoubleComplex, double, Z, he);

#undef TESSERA_CUBLAS_FUNCTIONS
#undef TESSERA_CUBLAS_FUNCTION

cublasSideMode_t side_of(Side side) { return side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT; }
cublasFillMode_t fill_of(Uplo uplo) { return uplo == Uplo::upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER; }
cublasDiagType_t diag_of(Diag diag) { return diag == Diag::unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT; }

/// For real types the conjugate transpose is the transpose, which not all functions of cuBLAS know.
cublasOperation_t operation_of(Op op, ScalarType type) {
  if (op == Op::no_trans) return CUBLAS_OP_N;
  return op == Op::conj_trans && is_complex(type) ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// By cuBLAS: every routine but trsm, which is solve()'s, and gemmt, which is a gemm there.
template <Scalar T>
cublasStatus_t submit(cublasHandle_t handle, const Level3& call) {
  using Functions = Cublas<T>;
  using Value = typename Functions::Value;
  using Real = typename Functions::Real;
  // std::complex<Real> and the types of cuComplex.h both are a real and an imaginary part side by side, but the latter
  // are aligned to both. cuBLAS reads the scalars before the call returns (pointer mode host).
  const auto alpha = std::bit_cast<Value>(scalar_cast<T>(call.alpha));
  const auto beta = std::bit_cast<Value>(scalar_cast<T>(call.beta));
  const auto real_alpha = static_cast<Real>(call.alpha.real());
  const auto real_beta = static_cast<Real>(call.beta.real());
  const auto* const A = static_cast<const Value*>(call.A);
  const auto* const B = static_cast<const Value*>(call.B);
  auto* const C = static_cast<Value*>(call.C);
  const cublas_index m = narrow(call.m), n = narrow(call.n), k = narrow(call.k);
  const cublas_index lda = narrow(call.lda), ldb = narrow(call.ldb), ldc = narrow(call.ldc);
  const cublasSideMode_t side = side_of(call.side);
  const cublasFillMode_t fill = fill_of(call.uplo);
  const cublasDiagType_t diag = diag_of(call.diag);
  const cublasOperation_t op_a = operation_of(call.op_a, call.type);
  const cublasOperation_t op_b = operation_of(call.op_b, call.type);
  switch (call.routine) {
    case Routine::gemm:
      return Functions::gemm(handle, op_a, op_b, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::symm:
      return Functions::symm(handle, side, fill, m, n, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::hemm:
      return Functions::hemm(handle, side, fill, m, n, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::syrk:
      return Functions::syrk(handle, fill, op_a, n, k, &alpha, A, lda, &beta, C, ldc);
    case Routine::herk:
      return Functions::herk(handle, fill, op_a, n, k, &real_alpha, A, lda, &real_beta, C, ldc);
    case Routine::syr2k:
      return Functions::syr2k(handle, fill, op_a, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::her2k:
      return Functions::her2k(handle, fill, op_a, n, k, &alpha, A, lda, B, ldb, &real_beta, C, ldc);
    case Routine::trmm:
      return Functions::trmm(handle, side, fill, op_a, diag, m, n, &alpha, A, lda, B, ldb, C, ldc);
    case Routine::trsm:
    case Routine::gemmt:
      break;
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

/// The BLAS has no complex symmetric update by the conjugate transpose and no Hermitian one by the transpose.
bool has_legal_transpose(const Level3& call) {
  if (!call.is_rank_update() || !is_complex(call.type)) return true;
  return call.op_a != (call.is_hermitian() ? Op::trans : Op::conj_trans);
}

}  // namespace

CudaTileOps::CudaTileOps(device::cuda::CudaDevice& device) : device_(device) {
  const CurrentContext current(device_.context());
  check("loading the kernels of the plugin", load_elementwise_kernels());
  check("loading the kernels of trsm", load_trsm_kernels(shared_bytes_));
  check("loading the kernels of dgemm", dgemm_.load(device_.ordinal(), device_.info().profile.dgemm));
  try {
    for (int index = 0; index < device::compute_streams; ++index) {
      cublasHandle_t& handle = handles_[static_cast<std::size_t>(index)];
      const cublasStatus_t created = cublas().Create(&handle);
      if (created != CUBLAS_STATUS_SUCCESS) handle = nullptr;
      check("cublasCreate", created);
      check("cublasSetStream", cublas().SetStream(handle, device_.stream({device::StreamKind::compute, index})));
      check("cublasSetPointerMode", cublas().SetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
      check("cublasSetMathMode", cublas().SetMathMode(handle, CUBLAS_DEFAULT_MATH));
    }
  } catch (...) {
    destroy_handles();
    throw;
  }
}

CudaTileOps::~CudaTileOps() {
  // As in ~CudaDevice: where CUDA cannot be called any more, the handles are left to the process's end. Once the
  // runtime shuts down every call of it fails, and cuBLAS must not be called.
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
    if (handle != nullptr) static_cast<void>(cublas().Destroy(handle));
    handle = nullptr;
  }
}

void CudaTileOps::check(const char* what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const cudaError_t error = cudaGetLastError();  // success where cuBLAS itself refuses
  const std::string text = "cuda:" + std::to_string(device_.ordinal()) + ": " + what + ": " +
                           cublas().GetStatusString(status) + " (" + std::to_string(static_cast<int>(status)) + ")";
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(text);
  device_.fail(error, text);
}

void CudaTileOps::check(const char* what, cudaError_t error) {
  if (error != cudaSuccess) device_.fail(error, device::cuda::describe_error(device_.ordinal(), what, error));
}

void CudaTileOps::run(int compute_stream, const Level3& call) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const char* const name = name_of(call.routine);
  if (!has_legal_transpose(call)) throw InternalError(std::string(name) + " of this type has no such transpose");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range(name);
  const CurrentContext current(device_.context());
  if (call.alpha == AnyScalar(0)) {
    check(name, scale(call, device_.stream(stream)));
    return;
  }
  if (call.is_rank_update() && call.is_hermitian() && is_complex(call.type) && call.beta != AnyScalar(0)) {
    check(name, make_diagonal_real(call, device_.stream(stream)));
  }
  const cublasHandle_t handle = handles_[static_cast<std::size_t>(compute_stream)];
  if (call.routine == Routine::trsm) {
    solve(handle, device_.stream(stream), call);
    return;
  }
  if (call.routine == Routine::gemmt) {
    // The whole square by the kernel that is quickest: the other triangle of the tile never leaves the device.
    Level3 square = call;
    square.routine = Routine::gemm;
    submit_call(name, handle, device_.stream(stream), square);
    return;
  }
  submit_call(name, handle, device_.stream(stream), call);
}

// name: of the routine that the call is, or is a part of
void CudaTileOps::submit_call(const char* name, cublasHandle_t handle, cudaStream_t stream, const Level3& call) {
  if (const auto taken = dgemm_.submit_if_taken(call, stream)) {
    check(name, *taken);
  } else {
    check(name, dispatch(call.type, [&]<Scalar T>(T) { return submit<T>(handle, call); }));
  }
}

void CudaTileOps::solve(cublasHandle_t handle, cudaStream_t stream, const Level3& call) {
  const char* const name = name_of(call.routine);
  run_in_parts(call, trsm_leaf_rows(call.type), [&](const Level3& part) {
    if (part.routine == Routine::trsm) {
      check(name, solve_leaf(part, stream, shared_bytes_, device_.info().profile.most_narrow_solve_columns));
    } else {
      submit_call(name, handle, stream, part);
    }
  });
}

void CudaTileOps::add(int compute_stream, const Addition& addition) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range("add");
  const CurrentContext current(device_.context());
  check("add", cuda::add(addition, device_.stream(stream)));
}

}  // namespace tessera::kernels::cuda
