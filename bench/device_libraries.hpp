// Tessera and cuBLAS on one stream, as the programs that measure in device memory use them: handles, the enumerations of
// both, any Level-3 call by cuBLAS, and what a report says about the machine.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <complex>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "bench/device_timer.hpp"
#include "core/level3.hpp"
#include "tessera/device_blas.h"

namespace tessera::bench {

inline void check(tessera_status status, const char* what) {
  if (status != TESSERA_SUCCESS) throw std::runtime_error(std::string(what) + ": " + tessera_device_last_error());
}

/// They live as long as the process.
struct Libraries {
  tessera_device_handle own = nullptr;
  cublasHandle_t vendor = nullptr;
  cudaStream_t stream = nullptr;
};
inline Libraries open_libraries() {
  Libraries to;
  check(cudaStreamCreateWithFlags(&to.stream, cudaStreamNonBlocking), "stream");
  check(cublasCreate(&to.vendor), "cublasCreate");
  check(cublasSetStream(to.vendor, to.stream), "cublasSetStream");
  check(tessera_device_create(&to.own), "tessera_device_create");
  check(tessera_device_set_stream(to.own, to.stream), "tessera_device_set_stream");
  return to;
}

inline tessera_side own(Side side) { return side == Side::left ? TESSERA_LEFT : TESSERA_RIGHT; }
inline tessera_uplo own(Uplo uplo) { return uplo == Uplo::upper ? TESSERA_UPPER : TESSERA_LOWER; }
inline tessera_transpose own(Op op) {
  return op == Op::no_trans ? TESSERA_NO_TRANS : op == Op::trans ? TESSERA_TRANS : TESSERA_CONJ_TRANS;
}
inline tessera_diag own(Diag diag) { return diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT; }
inline cublasSideMode_t vendor(Side side) { return side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT; }
inline cublasFillMode_t vendor(Uplo uplo) {
  return uplo == Uplo::upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}
inline cublasOperation_t vendor(Op op) {
  return op == Op::no_trans ? CUBLAS_OP_N : op == Op::trans ? CUBLAS_OP_T : CUBLAS_OP_C;
}
inline cublasDiagType_t vendor(Diag diag) { return diag == Diag::unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT; }

/// cuBLAS's functions of one type, which differ by a letter.
template <class T>
struct Vendor;
/// herk, her2k and hemm, which complex types have only.
template <class T>
struct VendorHermitian;
#define TESSERA_VENDOR(T, Element, letter)                               \
  template <>                                                            \
  struct Vendor<T> {                                                     \
    using Value = Element;                                               \
    static constexpr auto gemm = cublas##letter##gemm_64;                \
    static constexpr auto symm = cublas##letter##symm_64;                \
    static constexpr auto syrk = cublas##letter##syrk_64;                \
    static constexpr auto syr2k = cublas##letter##syr2k_64;              \
    static constexpr auto syrkx = cublas##letter##syrkx_64;              \
    static constexpr auto trmm = cublas##letter##trmm_64;                \
    static constexpr auto trsm = cublas##letter##trsm_64;                \
    static constexpr auto axpy = cublas##letter##axpy_64;                \
    static constexpr auto gemm_batched = cublas##letter##gemmBatched_64; \
    static constexpr auto trsm_batched = cublas##letter##trsmBatched_64; \
  }
TESSERA_VENDOR(float, float, S);
TESSERA_VENDOR(double, double, D);
TESSERA_VENDOR(std::complex<float>, cuComplex, C);
TESSERA_VENDOR(std::complex<double>, cuDoubleComplex, Z);
#undef TESSERA_VENDOR
#define TESSERA_VENDOR_HERMITIAN(T, letter)                 \
  template <>                                               \
  struct VendorHermitian<T> {                               \
    static constexpr auto hemm = cublas##letter##hemm_64;   \
    static constexpr auto herk = cublas##letter##herk_64;   \
    static constexpr auto her2k = cublas##letter##her2k_64; \
  }
TESSERA_VENDOR_HERMITIAN(std::complex<float>, C);
TESSERA_VENDOR_HERMITIAN(std::complex<double>, Z);
#undef TESSERA_VENDOR_HERMITIAN

/// The address as cuBLAS's declarations want it.
template <Scalar T>
const auto* vendor_elements(const T* address) {
  return reinterpret_cast<const typename Vendor<T>::Value*>(address);
}
template <Scalar T>
auto* vendor_elements(T* address) {
  return reinterpret_cast<typename Vendor<T>::Value*>(address);
}

/// The call by cuBLAS. trmm goes from B to C, which may be the same. Of gemmt cuBLAS has what its syrkx computes: one of A
/// and B transposed.
template <Scalar T>
void call_vendor(cublasHandle_t handle, const Level3& c) {
  using Api = Vendor<T>;
  using Value = typename Api::Value;
  const T alpha_value = scalar_cast<T>(c.alpha), beta_value = scalar_cast<T>(c.beta);
  const auto* const alpha = reinterpret_cast<const Value*>(&alpha_value);
  const auto* const beta = reinterpret_cast<const Value*>(&beta_value);
  const auto* const A = static_cast<const Value*>(c.A);
  const auto* const B = static_cast<const Value*>(c.B);
  auto* const C = static_cast<Value*>(c.C);
  const cublasSideMode_t side = vendor(c.side);
  const cublasFillMode_t uplo = vendor(c.uplo);
  const cublasOperation_t op_a = vendor(c.op_a);
  const auto done = [&](cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) check(status, ("cublas " + name_of(c)).c_str());
  };
  switch (c.routine) {
    case Routine::gemm:
      return done(Api::gemm(handle, op_a, vendor(c.op_b), c.m, c.n, c.k, alpha, A, c.lda, B, c.ldb, beta, C, c.ldc));
    case Routine::gemmt:
      if (c.op_a == Op::conj_trans || c.op_b == Op::conj_trans || c.op_a == c.op_b)
        throw std::runtime_error("cuBLAS has no such gemmt");
      return done(Api::syrkx(handle, uplo, op_a, c.n, c.k, alpha, A, c.lda, B, c.ldb, beta, C, c.ldc));
    case Routine::symm:
      return done(Api::symm(handle, side, uplo, c.m, c.n, alpha, A, c.lda, B, c.ldb, beta, C, c.ldc));
    case Routine::syrk:
      return done(Api::syrk(handle, uplo, op_a, c.n, c.k, alpha, A, c.lda, beta, C, c.ldc));
    case Routine::syr2k:
      return done(Api::syr2k(handle, uplo, op_a, c.n, c.k, alpha, A, c.lda, B, c.ldb, beta, C, c.ldc));
    case Routine::trmm:
      return done(Api::trmm(handle, side, uplo, op_a, vendor(c.diag), c.m, c.n, alpha, A, c.lda, B, c.ldb, C, c.ldc));
    case Routine::trsm:
      return done(Api::trsm(handle, side, uplo, op_a, vendor(c.diag), c.m, c.n, alpha, A, c.lda, C, c.ldc));
    case Routine::hemm:
    case Routine::herk:
    case Routine::her2k:
      break;
  }
  if constexpr (!std::floating_point<T>) {
    using Hermitian = VendorHermitian<T>;
    const auto real_alpha = alpha_value.real(), real_beta = beta_value.real();
    if (c.routine == Routine::hemm)
      return done(Hermitian::hemm(handle, side, uplo, c.m, c.n, alpha, A, c.lda, B, c.ldb, beta, C, c.ldc));
    if (c.routine == Routine::herk)
      return done(Hermitian::herk(handle, uplo, op_a, c.n, c.k, &real_alpha, A, c.lda, &real_beta, C, c.ldc));
    return done(Hermitian::her2k(handle, uplo, op_a, c.n, c.k, alpha, A, c.lda, B, c.ldb, &real_beta, C, c.ldc));
  }
  throw std::runtime_error("there is no " + name_of(c));
}

inline ScalarType type_of(char of_type) {
  for (const ScalarType type : scalar_types) {
    if (letter(type) == of_type) return type;
  }
  throw std::runtime_error(std::string("no type ") + of_type);
}

/// The first GPU and the software around it, as a report begins.
inline nlohmann::json machine() {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, 0), "no GPU");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "driver");
  check(cudaRuntimeGetVersion(&runtime), "runtime");
  return {{"gpu", gpu.name}, {"driver", driver}, {"runtime", runtime}, {"cublas", CUBLAS_VERSION}};
}

inline void write(const nlohmann::json& report, const std::string& name) {
  std::ofstream file(name);
  file << report.dump(1) << "\n";
  if (!file) throw std::runtime_error("cannot write " + name);
}

}  // namespace tessera::bench
