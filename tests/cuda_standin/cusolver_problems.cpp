// The functions of cuSOLVER for whole problems, by the LAPACK of the machine. Results and their times follow NVIDIA's
// documentation: numbers for the host appear only when the stream reaches them, and all of the workspace is
// overwritten.
#include <algorithm>
#include <complex>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/cuda_standin/cusolver_workspace.hpp"

using namespace tessera::cuda_standin;  // NOLINT(google-build-using-namespace): these are not ours to put elsewhere
using tessera::index_t;
using tessera::LapackCall;
using tessera::Routine;
using tessera::ScalarType;
using tessera::VectorJob;

extern "C" {

cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) {
  const Call call(__func__, nullptr);
  if (!call) return status_of(call);
  *params = reinterpret_cast<cusolverDnParams_t>(new Gpu*(&call.gpu()));
  ++call.gpu().held["cuSOLVER parameters"];
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) {
  auto* const gpu = reinterpret_cast<Gpu**>(params);
  const Call call(__func__, *gpu);
  if (!call) return status_of(call);
  --(*gpu)->held["cuSOLVER parameters"];
  delete gpu;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                             cublasFillMode_t, int64_t, cudaDataType, const void*, int64_t,
                                             cudaDataType, const void*, cudaDataType, size_t* on_device,
                                             size_t* on_host) {
  return tell_sizes(on_device, on_host);
}
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode,
                                  cublasFillMode_t fill, int64_t n, cudaDataType type, void* A, int64_t lda,
                                  cudaDataType, void* W, cudaDataType, void* on_device, size_t bytes, void* on_host,
                                  size_t bytes_on_host, int* info) {
  return solve(__func__, handle,
               {.routine = Routine::heevd,
                .type = type_of(type),
                .vectors = mode == CUSOLVER_EIG_MODE_VECTOR,
                .uplo = uplo_of(fill),
                .n = n,
                .A = A,
                .lda = lda,
                .values = W},
               {on_device, bytes, on_host, bytes_on_host}, info);
}

cusolverStatus_t cusolverDnXsyevdx_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                              cusolverEigRange_t, cublasFillMode_t, int64_t, cudaDataType, const void*,
                                              int64_t, void*, void*, int64_t, int64_t, int64_t*, cudaDataType,
                                              const void*, cudaDataType, size_t* on_device, size_t* on_host) {
  return tell_sizes(on_device, on_host);
}
cusolverStatus_t cusolverDnXsyevdx(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode,
                                   cusolverEigRange_t range, cublasFillMode_t fill, int64_t n, cudaDataType type,
                                   void* A, int64_t lda, void* vl, void* vu, int64_t il, int64_t iu, int64_t* found,
                                   cudaDataType real, void* W, cudaDataType, void* on_device, size_t bytes,
                                   void* on_host, size_t bytes_on_host, int* info) {
  const auto bound = [&](const void* at) {
    return real == CUDA_R_32F ? static_cast<double>(*static_cast<const float*>(at)) : *static_cast<const double*>(at);
  };
  LapackCall problem{.routine = Routine::heevr,
                     .type = type_of(type),
                     .vectors = mode == CUSOLVER_EIG_MODE_VECTOR,
                     .uplo = uplo_of(fill),
                     .n = n,
                     .vl = bound(vl),
                     .vu = bound(vu),
                     .il = il,
                     .iu = iu,
                     .A = A,
                     .lda = lda,
                     .values = W};
  using tessera::EigenRange;
  problem.range = range == CUSOLVER_EIG_RANGE_ALL ? EigenRange::all
                  : range == CUSOLVER_EIG_RANGE_V ? EigenRange::values
                                                  : EigenRange::indices;
  return compute_in({on_device, bytes, on_host, bytes_on_host}, __func__, handle, [=] {
    LapackCall here = problem;
    std::vector<std::byte> Z(static_cast<std::size_t>(n * n) * tessera::element_bytes(here.type));
    here.U = Z.data();
    here.ldu = n;
    *found = solve_now(here, info).found;
    const auto element = static_cast<index_t>(tessera::element_bytes(here.type));
    for (index_t j = 0; here.vectors && j < *found; ++j)
      std::memcpy(static_cast<std::byte*>(A) + j * lda * element, Z.data() + j * n * element,
                  static_cast<std::size_t>(n * element));
  });
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, signed char, signed char,
                                             int64_t m, int64_t n, cudaDataType, const void*, int64_t, cudaDataType,
                                             const void*, cudaDataType, const void*, int64_t, cudaDataType, const void*,
                                             int64_t, cudaDataType, size_t* on_device, size_t* on_host) {
  return m < n ? CUSOLVER_STATUS_INVALID_VALUE : tell_sizes(on_device, on_host);
}
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t, signed char jobu, signed char jobvt,
                                  int64_t m, int64_t n, cudaDataType type, void* A, int64_t lda, cudaDataType, void* S,
                                  cudaDataType, void* U, int64_t ldu, cudaDataType, void* VT, int64_t ldvt,
                                  cudaDataType, void* on_device, size_t bytes, void* on_host, size_t bytes_on_host,
                                  int* info) {
  if (m < n) return CUSOLVER_STATUS_INVALID_VALUE;
  return solve(__func__, handle,
               {.routine = Routine::gesvd,
                .type = type_of(type),
                .u = job_of(jobu),
                .vt = job_of(jobvt),
                .m = m,
                .n = n,
                .A = A,
                .lda = lda,
                .U = U,
                .ldu = ldu,
                .VT = VT,
                .ldvt = ldvt,
                .values = S},
               {on_device, bytes, on_host, bytes_on_host}, info);
}

cusolverStatus_t cusolverDnXgesvdp_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, int, int64_t m,
                                              int64_t n, cudaDataType, const void*, int64_t, cudaDataType, const void*,
                                              cudaDataType, const void*, int64_t, cudaDataType, const void*, int64_t,
                                              cudaDataType, size_t* on_device, size_t* on_host) {
  return m < n ? CUSOLVER_STATUS_INVALID_VALUE : tell_sizes(on_device, on_host);
}
// If the smallest singular value is almost zero, it reports a perturbation, and the values have an error of that size.
// It works in U and V even if no vectors are wanted.
cusolverStatus_t cusolverDnXgesvdp(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode, int economy,
                                   int64_t m, int64_t n, cudaDataType type, void* A, int64_t lda, cudaDataType real,
                                   void* S, cudaDataType, void* U, int64_t ldu, cudaDataType, void* V, int64_t ldv,
                                   cudaDataType, void* on_device, size_t bytes, void* on_host, size_t bytes_on_host,
                                   int* info, double* perturbation) {
  if (m < n) return CUSOLVER_STATUS_INVALID_VALUE;
  if (U == nullptr || V == nullptr) return CUSOLVER_STATUS_INTERNAL_ERROR;
  const bool vectors = mode == CUSOLVER_EIG_MODE_VECTOR;
  const VectorJob left = !vectors ? VectorJob::none : economy != 0 ? VectorJob::thin : VectorJob::all;
  return compute_in({on_device, bytes, on_host, bytes_on_host}, __func__, handle, [=] {
    tessera::dispatch(type_of(type), [&]<tessera::Scalar T>(T) {
      for (index_t j = 0; j < n; ++j) {
        std::memset(static_cast<void*>(static_cast<T*>(U) + j * ldu), 0xff, static_cast<std::size_t>(m) * sizeof(T));
        std::memset(static_cast<void*>(static_cast<T*>(V) + j * ldv), 0xff, static_cast<std::size_t>(n) * sizeof(T));
      }
      std::vector<T> VT(static_cast<std::size_t>(n * n));
      solve_now({.routine = Routine::gesvd,
                 .type = type_of(type),
                 .u = left,
                 .vt = vectors ? VectorJob::all : VectorJob::none,
                 .m = m,
                 .n = n,
                 .A = A,
                 .lda = lda,
                 .U = U,
                 .ldu = ldu,
                 .VT = VT.data(),
                 .ldvt = n,
                 .values = S},
                info);
      for (index_t j = 0; vectors && j < n; ++j) {
        for (index_t i = 0; i < n; ++i) {
          static_cast<T*>(V)[i + j * ldv] =
              tessera::scalar_cast<T>(std::conj(tessera::AnyScalar(VT[static_cast<std::size_t>(j + i * n)])));
        }
      }
      const auto spoil = [&](auto* values) {
        const bool is_singular = values[n - 1] <= values[0] * 1e-12F;
        *perturbation = is_singular ? 1e-4 * static_cast<double>(values[0]) : 0;
        if (is_singular) std::for_each(values, values + n, [&](auto& value) { value += values[0] * 1e-3F; });
      };
      real == CUDA_R_32F ? spoil(static_cast<float*>(S)) : spoil(static_cast<double*>(S));
    });
  });
}

cusolverStatus_t cusolverDnXgeev_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                            cusolverEigMode_t, int64_t, cudaDataType, const void*, int64_t,
                                            cudaDataType, const void*, cudaDataType, const void*, int64_t, cudaDataType,
                                            const void*, int64_t, cudaDataType, size_t* on_device, size_t* on_host) {
  return tell_sizes(on_device, on_host);
}
cusolverStatus_t cusolverDnXgeev(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t left,
                                 cusolverEigMode_t right, int64_t n, cudaDataType type, void* A, int64_t lda,
                                 cudaDataType type_of_values, void* W, cudaDataType, void*, int64_t, cudaDataType,
                                 void* VR, int64_t ldvr, cudaDataType, void* on_device, size_t bytes, void* on_host,
                                 size_t bytes_on_host, int* info) {
  if (left == CUSOLVER_EIG_MODE_VECTOR || type_of_values != type) return CUSOLVER_STATUS_INVALID_VALUE;
  const auto element = static_cast<index_t>(tessera::element_bytes(type_of(type)));
  return solve(__func__, handle,
               {.routine = Routine::geev,
                .type = type_of(type),
                .vectors = right == CUSOLVER_EIG_MODE_VECTOR,
                .n = n,
                .A = A,
                .lda = lda,
                .U = VR,
                .ldu = ldvr,
                .values = W,
                .imaginary = static_cast<std::byte*>(W) + n * element},
               {on_device, bytes, on_host, bytes_on_host}, info);
}

cusolverStatus_t cusolverDnXtrtri_bufferSize(cusolverDnHandle_t, cublasFillMode_t, cublasDiagType_t, int64_t,
                                             cudaDataType, void*, int64_t, size_t* on_device, size_t* on_host) {
  return tell_sizes(on_device, on_host);
}
// A diagonal of ones is written, as cuSOLVER does.
cusolverStatus_t cusolverDnXtrtri(cusolverDnHandle_t handle, cublasFillMode_t fill, cublasDiagType_t diag, int64_t n,
                                  cudaDataType type, void* A, int64_t lda, void* on_device, size_t bytes, void* on_host,
                                  size_t bytes_on_host, int* info) {
  const bool is_unit = diag == CUBLAS_DIAG_UNIT;
  return compute_in({on_device, bytes, on_host, bytes_on_host}, __func__, handle, [=] {
    solve_now({.routine = Routine::trtri,
               .type = type_of(type),
               .uplo = uplo_of(fill),
               .diag = is_unit ? tessera::Diag::unit : tessera::Diag::non_unit,
               .n = n,
               .A = A,
               .lda = lda},
              info);
    tessera::dispatch(type_of(type), [&]<tessera::Scalar T>(T) {
      for (index_t i = 0; is_unit && i < n; ++i) static_cast<T*>(A)[i + i * lda] = T(1);
    });
  });
}

// Computes by the loops of the textbook.
cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t, cublasOperation_t op, int64_t n,
                                  int64_t columns, cudaDataType type, const void* A, int64_t lda, const int64_t* ipiv,
                                  cudaDataType type_of_b, void* B, int64_t ldb, int* info) {
  if (op != CUBLAS_OP_N || type != type_of_b) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(__func__, handle, [=] {
    tessera::dispatch(type_of(type), [&]<tessera::Scalar T>(T) {
      const auto at = [&](index_t i, index_t j) { return static_cast<const T*>(A)[i + j * lda]; };
      for (index_t j = 0; j < columns; ++j) {
        T* const x = static_cast<T*>(B) + j * ldb;
        for (index_t i = 0; i < n; ++i) std::swap(x[i], x[ipiv[i] - 1]);
        for (index_t i = 0; i < n; ++i) {
          for (index_t l = 0; l < i; ++l) x[i] -= at(i, l) * x[l];
        }
        for (index_t i = n - 1; i >= 0; --i) {
          for (index_t l = i + 1; l < n; ++l) x[i] -= at(i, l) * x[l];
          x[i] /= at(i, i);
        }
      }
    });
    *info = 0;
  });
}

cusolverStatus_t cusolverDnXsytrs_bufferSize(cusolverDnHandle_t, cublasFillMode_t, int64_t, int64_t, cudaDataType,
                                             const void*, int64_t, const int64_t* ipiv, cudaDataType, void*, int64_t,
                                             size_t* on_device, size_t* on_host) {
  return ipiv == nullptr ? CUSOLVER_STATUS_INVALID_VALUE : tell_sizes(on_device, on_host);
}
cusolverStatus_t cusolverDnXsytrs(cusolverDnHandle_t handle, cublasFillMode_t fill, int64_t n, int64_t columns,
                                  cudaDataType type, const void* A, int64_t lda, const int64_t* ipiv,
                                  cudaDataType type_of_b, void* B, int64_t ldb, void* on_device, size_t bytes,
                                  void* on_host, size_t bytes_on_host, int* info) {
  if (type != type_of_b) return CUSOLVER_STATUS_INVALID_VALUE;
  {
    // The library reads the pivots on the host, whatever its stream has yet to write.
    const std::lock_guard lock(machine().mutex);
    if (!stream_of(handle->stream, __func__).is_idle())
      note_offence("cusolverDnXsytrs on a stream that may still write the pivots");
  }
  return solve(__func__, handle,
               {.routine = Routine::sytrs,
                .type = type_of(type),
                .uplo = uplo_of(fill),
                .n = n,
                .k = columns,
                .A = const_cast<void*>(A),
                .lda = lda,
                .B = B,
                .ldb = ldb,
                .ipiv = const_cast<int64_t*>(ipiv),
                .ipiv_bits = 64},
               {on_device, bytes, on_host, bytes_on_host}, info);
}

#define TESSERA_OLD_PROBLEMS(letter, T, Real, of_type, symmetric, orthogonal)                                         \
  cusolverStatus_t cusolverDn##letter##symmetric##gvd_bufferSize(cusolverDnHandle_t, cusolverEigType_t,               \
                                                                 cusolverEigMode_t, cublasFillMode_t, int, const T*,  \
                                                                 int, const T*, int, const Real*, int* elements) {    \
    return tell_elements(elements);                                                                                   \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##symmetric##gvd(                                                                \
      cusolverDnHandle_t handle, cusolverEigType_t itype, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* A, \
      int lda, T* B, int ldb, Real* W, T* work, int elements, int* info) {                                            \
    return solve(__func__, handle,                                                                                    \
                 {.routine = Routine::hegvd,                                                                          \
                  .type = of_type,                                                                                    \
                  .vectors = mode == CUSOLVER_EIG_MODE_VECTOR,                                                        \
                  .uplo = uplo_of(fill),                                                                              \
                  .itype = static_cast<int>(itype),                                                                   \
                  .n = n,                                                                                             \
                  .A = A,                                                                                             \
                  .lda = lda,                                                                                         \
                  .B = B,                                                                                             \
                  .ldb = ldb,                                                                                         \
                  .values = W},                                                                                       \
                 old_workspace(work, elements), info);                                                                \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##orthogonal##gqr_bufferSize(cusolverDnHandle_t, int, int, int, const T*, int,   \
                                                                  const T*, int* elements) {                          \
    return tell_elements(elements);                                                                                   \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##orthogonal##gqr(cusolverDnHandle_t handle, int m, int n, int k, T* A, int lda, \
                                                       const T* tau, T* work, int elements, int* info) {              \
    return solve(__func__, handle,                                                                                    \
                 {.routine = Routine::ungqr,                                                                          \
                  .type = of_type,                                                                                    \
                  .m = m,                                                                                             \
                  .n = n,                                                                                             \
                  .k = k,                                                                                             \
                  .A = A,                                                                                             \
                  .lda = lda,                                                                                         \
                  .tau = const_cast<T*>(tau)},                                                                        \
                 old_workspace(work, elements), info);                                                                \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##orthogonal##mqr_bufferSize(cusolverDnHandle_t, cublasSideMode_t,               \
                                                                  cublasOperation_t, int, int, int, const T*, int,    \
                                                                  const T*, const T*, int, int* elements) {           \
    return tell_elements(elements);                                                                                   \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##orthogonal##mqr(                                                               \
      cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const T* A,        \
      int lda, const T* tau, T* C, int ldc, T* work, int elements, int* info) {                                       \
    const bool is_legal = op == CUBLAS_OP_N || (op == CUBLAS_OP_C) == tessera::is_complex(of_type);                   \
    if (!is_legal) return CUSOLVER_STATUS_INVALID_VALUE;                                                              \
    return solve(__func__, handle,                                                                                    \
                 {.routine = Routine::unmqr,                                                                          \
                  .type = of_type,                                                                                    \
                  .side = side == CUBLAS_SIDE_LEFT ? tessera::Side::left : tessera::Side::right,                      \
                  .op = op == CUBLAS_OP_N ? tessera::Op::no_trans : tessera::Op::conj_trans,                          \
                  .m = m,                                                                                             \
                  .n = n,                                                                                             \
                  .k = k,                                                                                             \
                  .A = const_cast<T*>(A),                                                                             \
                  .lda = lda,                                                                                         \
                  .B = C,                                                                                             \
                  .ldb = ldc,                                                                                         \
                  .tau = const_cast<T*>(tau)},                                                                        \
                 old_workspace(work, elements), info);                                                                \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##orthogonal##mtr_bufferSize(                                                    \
      cusolverDnHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, int, int, const T*, int, const T*,   \
      const T*, int, int* elements) {                                                                                 \
    return tell_elements(elements);                                                                                   \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##orthogonal##mtr(                                                               \
      cusolverDnHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, int m, int n,    \
      T* A, int lda, T* tau, T* C, int ldc, T* work, int elements, int* info) {                                       \
    const bool is_legal = op == CUBLAS_OP_N || (op == CUBLAS_OP_C) == tessera::is_complex(of_type);                   \
    if (!is_legal) return CUSOLVER_STATUS_INVALID_VALUE;                                                              \
    return solve(__func__, handle,                                                                                    \
                 {.routine = Routine::unmtr,                                                                          \
                  .type = of_type,                                                                                    \
                  .uplo = uplo_of(fill),                                                                              \
                  .side = side == CUBLAS_SIDE_LEFT ? tessera::Side::left : tessera::Side::right,                      \
                  .op = op == CUBLAS_OP_N ? tessera::Op::no_trans : tessera::Op::conj_trans,                          \
                  .m = m,                                                                                             \
                  .n = n,                                                                                             \
                  .A = A,                                                                                             \
                  .lda = lda,                                                                                         \
                  .B = C,                                                                                             \
                  .ldb = ldc,                                                                                         \
                  .tau = tau},                                                                                        \
                 old_workspace(work, elements), info);                                                                \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##sytrf_bufferSize(cusolverDnHandle_t, int, T*, int, int* elements) {            \
    return tell_elements(elements);                                                                                   \
  }                                                                                                                   \
  /* Tells of no pivot that is zero, as cuSOLVER of some. */                                                          \
  cusolverStatus_t cusolverDn##letter##sytrf(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T* A, int lda,  \
                                             int* ipiv, T* work, int elements, int* info) {                           \
    return compute_in(old_workspace(work, elements), __func__, handle, [=] {                                          \
      solve_now({.routine = Routine::sytrf,                                                                           \
                 .type = of_type,                                                                                     \
                 .uplo = uplo_of(fill),                                                                               \
                 .n = n,                                                                                              \
                 .A = A,                                                                                              \
                 .lda = lda,                                                                                          \
                 .ipiv = ipiv,                                                                                        \
                 .ipiv_bits = 32},                                                                                    \
                info);                                                                                                \
      *info = 0;                                                                                                      \
    });                                                                                                               \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##potri_bufferSize(cusolverDnHandle_t, cublasFillMode_t, int, T*, int,           \
                                                        int* elements) {                                              \
    return tell_elements(elements);                                                                                   \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##letter##potri(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T* A, int lda,  \
                                             T* work, int elements, int* info) {                                      \
    return solve(__func__, handle,                                                                                    \
                 {.routine = Routine::potri, .type = of_type, .uplo = uplo_of(fill), .n = n, .A = A, .lda = lda},     \
                 old_workspace(work, elements), info);                                                                \
  }
TESSERA_OLD_PROBLEMS(S, float, float, ScalarType::s, sy, or)
TESSERA_OLD_PROBLEMS(D, double, double, ScalarType::d, sy, or)
TESSERA_OLD_PROBLEMS(C, cuComplex, float, ScalarType::c, he, un)
TESSERA_OLD_PROBLEMS(Z, cuDoubleComplex, double, ScalarType::z, he, un)

}  // extern "C"
