// Tessera and cuBLAS on one stream, as the programs that measure in device memory use them: handles, the enumerations of
// both, any Level-3 call by cuBLAS, and what a report says about the machine.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <complex>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/frame/device_timer.hpp"
#include "bench/frame/options.hpp"
#include "bench/frame/report.hpp"
#include "calls/level3.hpp"
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

/// cuBLAS's functions of one type, which differ by letters. Hermitian routines are the symmetric ones in real types.
template <class T>
struct Vendor;
#define TESSERA_VENDOR(T, Element, letter, he, nrm2)                     \
  template <>                                                            \
  struct Vendor<T> {                                                     \
    using Value = Element;                                               \
    static constexpr auto gemm = cublas##letter##gemm_64;                \
    static constexpr auto symm = cublas##letter##symm_64;                \
    static constexpr auto hemm = cublas##letter##he##mm_64;              \
    static constexpr auto syrk = cublas##letter##syrk_64;                \
    static constexpr auto herk = cublas##letter##he##rk_64;              \
    static constexpr auto syr2k = cublas##letter##syr2k_64;              \
    static constexpr auto her2k = cublas##letter##he##r2k_64;            \
    static constexpr auto syrkx = cublas##letter##syrkx_64;              \
    static constexpr auto trmm = cublas##letter##trmm_64;                \
    static constexpr auto trsm = cublas##letter##trsm_64;                \
    static constexpr auto axpy = cublas##letter##axpy_64;                \
    static constexpr auto norm = cublas##nrm2##_64;                      \
    static constexpr auto gemm_batched = cublas##letter##gemmBatched_64; \
    static constexpr auto trsm_batched = cublas##letter##trsmBatched_64; \
  }
TESSERA_VENDOR(float, float, S, sy, Snrm2);
TESSERA_VENDOR(double, double, D, sy, Dnrm2);
TESSERA_VENDOR(std::complex<float>, cuComplex, C, he, Scnrm2);
TESSERA_VENDOR(std::complex<double>, cuDoubleComplex, Z, he, Dznrm2);
#undef TESSERA_VENDOR

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
  const auto real_alpha = std::real(alpha_value), real_beta = std::real(beta_value);
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
      return done(Api::hemm(handle, side, uplo, c.m, c.n, alpha, A, c.lda, B, c.ldb, beta, C, c.ldc));
    case Routine::herk:
      return done(Api::herk(handle, uplo, op_a, c.n, c.k, &real_alpha, A, c.lda, &real_beta, C, c.ldc));
    case Routine::her2k:
      return done(Api::her2k(handle, uplo, op_a, c.n, c.k, alpha, A, c.lda, B, c.ldb, &real_beta, C, c.ldc));
    default:
      break;
  }
  throw std::runtime_error("there is no " + name_of(c));
}

/// Which triangle, and how A is transposed, as options.
struct Variant {
  std::string uplo = "lower", op = "n";

  void add_to(CLI::App& app) {
    add_name(app, "--uplo", uplo, {"lower", "upper"}, "");
    add_name(app, "--op", op, {"n", "t", "c"}, "of A");
  }
  void set(Level3& call) const {
    call.uplo = uplo == "lower" ? Uplo::lower : Uplo::upper;
    call.op_a = op == "n" ? Op::no_trans : op == "t" ? Op::trans : Op::conj_trans;
  }
};

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

/// run(letter, T()) for the type of each letter.
template <class Run>
void for_types(const std::string& letters, const Run& run) {
  for (const char of_type : letters) {
    dispatch(type_of(of_type), [&]<Scalar T>(T x) { run(of_type, x); });
  }
}

/// A case takes at least as long as its traffic at the rate of a copy in device memory, and as its operations at the
/// rate of a large product. A repeated case that fits into the L2 cache may be quicker.
struct Roof {
  double copy_rate = 0, peak = 0;

  double memory_s(double bytes) const { return bytes / copy_rate; }
  double seconds(double flops, double bytes) const { return std::max(memory_s(bytes), flops / peak); }
};

/// Operations per second of a large gemm.
template <Scalar T>
double measured_peak(const Timer& timer, cublasHandle_t handle) {
  const index_t n = sizeof(T) == 16 ? 4096 : 8192;
  const auto elements = static_cast<std::size_t>(n * n);
  const DeviceArray<T> A(elements), B(elements), C(elements);
  for (const DeviceArray<T>* matrix : {&A, &B}) fill_random<T>(matrix->get(), n * n, 1, true);
  Level3 call{.routine = Routine::gemm, .type = scalar_type_of<T>(), .m = n, .n = n, .k = n};
  call.A = A.get(), call.B = B.get(), call.C = C.get();
  call.lda = call.ldb = call.ldc = n;
  return flops_of(call) / timer.seconds({{"gemm", [&] { call_vendor<T>(handle, call); }}})[0];
}

/// The base of programs that measure cases in device memory. It has the libraries, a timer, the roof of a case, and a
/// report that begins with the machine.
class DeviceProgram {
 protected:
  /// @param lists  of results, in the report
  DeviceProgram(const Measuring& how, const std::vector<const char*>& lists)
      : to_(open_libraries()), timer_(to_.stream, how.group_s, how.groups), report_(how.json, how.time_budget_s) {
    report_.json() = machine();
    for (const char* const list : lists) report_.json()[list] = nlohmann::json::array();
  }

  void measure_copies() {
    report_.json()["copy_bytes_per_s"] = roof_.copy_rate = measured_copy_rate(timer_, to_.stream);
    std::printf("copy in device memory: %.0f GB/s, read and written\n", roof_.copy_rate * 1e-9);
  }
  template <Scalar T>
  void measure_peak(char of_type) {
    report_.json()["peak_flops"][std::string(1, of_type)] = roof_.peak = measured_peak<T>(timer_, to_.vendor);
    std::printf("large %cgemm: %.1f TFLOP/s\n", of_type, roof_.peak * 1e-12);
  }

  Libraries to_;
  Timer timer_;
  Report report_;
  Roof roof_;
};

}  // namespace tessera::bench
