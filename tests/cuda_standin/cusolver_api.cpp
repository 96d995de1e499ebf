// The functions of cuSOLVER that the plugin looks up, by the readable reference.
#include <cusolverDn.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "core/scalar.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/panel.hpp"
#include "kernels/reference/reference_lapack.hpp"
#include "kernels/reference/reference_qr.hpp"
#include "tests/cuda_standin/cusolver_context.hpp"

using namespace tessera::cuda_standin;  // NOLINT(google-build-using-namespace): NVIDIA's headers fix the namespace
using tessera::ScalarType;

namespace {

/// cuSOLVER 13 takes a NaN for zero, so the NaN disappears.
void clear_nans(ScalarType type, int m, int n, void* A, int lda) {
  tessera::dispatch(type, [&]<tessera::Scalar T>(T) {
    for (tessera::index_t j = 0; j < n; ++j) {
      T* const column = static_cast<T*>(A) + j * lda;
      std::replace_if(
          column, column + m, [](T value) { return value != value; }, T(0));
    }
  });
}

/// cuSOLVER also multiplies by the reciprocal of a pivot, which overflows if the pivot is tiny.
void overflow_below_tiny_pivots(ScalarType type, int m, int n, void* A, int lda) {
  tessera::dispatch(type, [&]<tessera::Scalar T>(T) {
    using Real = decltype(std::abs(T{}));
    for (tessera::index_t j = 0; j < std::min(m, n); ++j) {
      T* const column = static_cast<T*>(A) + j * lda;
      const Real pivot = std::abs(column[j]);
      if (pivot != 0 && std::isinf(1 / pivot)) std::fill(column + j + 1, column + m, T(1 / pivot));
    }
  });
}

cusolverStatus_t factor_lu(const char* name, cusolverDnHandle_t handle, ScalarType type, int m, int n, void* A, int lda,
                           int* ipiv, int* info) {
  return compute(name, handle, [=] {
    clear_nans(type, m, n, A, lda);
    tessera::kernels::LapackBatch one;
    one.routine = tessera::Routine::getrf;
    one.type = type;
    one.count = 1;
    one.m.of_all = one.max_m = m;
    one.n.of_all = one.max_n = n;
    one.lda.of_all = lda;
    one.A.first = A;
    one.ipiv.first = ipiv;
    one.info = info;
    tessera::kernels::reference_lapack_batch(one);
    overflow_below_tiny_pivots(type, m, n, A, lda);
    clear_nans(type, m, n, A, lda);
  });
}

cusolverStatus_t factor_qr(const char* name, cusolverDnHandle_t handle, ScalarType type, int m, int n, void* A, int lda,
                           void* tau, int* info) {
  return compute(name, handle, [=] {
    clear_nans(type, m, n, A, lda);
    tessera::kernels::reference_qr({tessera::kernels::PanelKind::qr, type, m, n, A, lda, nullptr}, tau);
    *info = 0;
  });
}

cusolverStatus_t tell_size(int m, int n, int* elements) {
  *elements = std::max(1, std::min(m, n));
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  const Call call(__func__, nullptr);
  if (!call) return status_of(call);
  *handle = new cusolverDnContext{&call.gpu()};
  ++call.gpu().held["cuSOLVER handles"];
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  const Call call(__func__, handle->gpu);
  if (!call) return status_of(call);
  --handle->gpu->held["cuSOLVER handles"];
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  const Call call(__func__, handle->gpu);
  if (!call) return status_of(call);
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

#define TESSERA_FACTORIZATIONS(letter, T, type)                                                                     \
  cusolverStatus_t cusolverDn##letter##getrf_bufferSize(cusolverDnHandle_t, int m, int n, T*, int, int* elements) { \
    return tell_size(m, n, elements);                                                                               \
  }                                                                                                                 \
  cusolverStatus_t cusolverDn##letter##geqrf_bufferSize(cusolverDnHandle_t, int m, int n, T*, int, int* elements) { \
    return tell_size(m, n, elements);                                                                               \
  }                                                                                                                 \
  cusolverStatus_t cusolverDn##letter##getrf(cusolverDnHandle_t handle, int m, int n, T* A, int lda, T* /*work*/,   \
                                             int* ipiv, int* info) {                                                \
    return factor_lu(__func__, handle, type, m, n, A, lda, ipiv, info);                                             \
  }                                                                                                                 \
  cusolverStatus_t cusolverDn##letter##geqrf(cusolverDnHandle_t handle, int m, int n, T* A, int lda, T* tau,        \
                                             T* /*work*/, int /*elements*/, int* info) {                            \
    return factor_qr(__func__, handle, type, m, n, A, lda, tau, info);                                              \
  }
TESSERA_FACTORIZATIONS(S, float, ScalarType::s)
TESSERA_FACTORIZATIONS(D, double, ScalarType::d)
TESSERA_FACTORIZATIONS(C, cuComplex, ScalarType::c)
TESSERA_FACTORIZATIONS(Z, cuDoubleComplex, ScalarType::z)

}  // extern "C"
