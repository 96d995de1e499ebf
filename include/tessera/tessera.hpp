// C++ veneer over tessera.h: a context that closes itself, exceptions instead of status codes, one function per routine
// for all its types. Header-only, C++17; links with libtessera.so. Thread-safe like the C API.
#pragma once

#include <complex>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "tessera/tessera.h"

namespace tessera {

/// Thrown by a call whose status is not TESSERA_SUCCESS.
class StatusError : public std::runtime_error {
 public:
  StatusError(tessera_status status, const std::string& text, int position)
      : std::runtime_error(text), status_(status), position_(position) {}
  tessera_status status() const noexcept { return status_; }
  /// Position of the bad argument in the C function, from 1; 0 if unknown.
  int position() const noexcept { return position_; }

 private:
  tessera_status status_;
  int position_;
};

/// @throws StatusError with this thread's last error unless `status` is TESSERA_SUCCESS
inline void check(tessera_status status) {
  if (status != TESSERA_SUCCESS) throw StatusError(status, tessera_last_error(), tessera_last_error_position());
}

/// Owns a tessera_context; after a move, the source owns none.
class Context {
 public:
  /// @param settings NAME=value pairs separated by white space, or NAME="value", as tessera_create_with() takes them
  explicit Context(const std::string& settings = std::string()) {
    check(tessera_create_with(&handle_, settings.c_str()));
  }
  ~Context() { tessera_destroy(handle_); }
  Context(Context&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  tessera_context handle() const noexcept { return handle_; }

  /// tessera_warm_up() for this context.
  void warm_up() const { check(tessera_warm_up(handle_)); }

  /// One line per device.
  std::string devices() const { return text_of(tessera_devices); }
  /// The statistics of the last completed call, as JSON.
  std::string last_job_json() const { return text_of(tessera_last_job_json); }
  tessera_job_stats last_job_stats() const {
    tessera_job_stats stats = {};
    stats.struct_size = sizeof(stats);
    check(tessera_last_job_stats(handle_, &stats));
    return stats;
  }

 private:
  std::string text_of(tessera_status (*get)(tessera_context, char*, std::size_t, std::size_t*)) const {
    // The text may grow between two calls (another thread completes a job), so repeat until it fits.
    std::string text(256, '\0');
    for (;;) {
      std::size_t needed = 0;
      check(get(handle_, text.data(), text.size(), &needed));
      const bool complete = needed <= text.size();
      text.resize(complete ? needed - 1 : needed);
      if (complete) return text;
    }
  }

  tessera_context handle_ = nullptr;
};

namespace detail {

/// The C functions for elements of type T.
template <class T>
struct Functions;
template <>
struct Functions<float> {
  static constexpr auto gemm = tessera_sgemm;
  static constexpr auto gemm_batch = tessera_sgemm_batch;
  static constexpr auto gemm_batch_strided = tessera_sgemm_batch_strided;
  static constexpr auto gemmt = tessera_sgemmt;
  static constexpr auto symm = tessera_ssymm;
  static constexpr auto syrk = tessera_ssyrk;
  static constexpr auto syr2k = tessera_ssyr2k;
  static constexpr auto trmm = tessera_strmm;
  static constexpr auto trsm = tessera_strsm;
};
template <>
struct Functions<double> {
  static constexpr auto gemm = tessera_dgemm;
  static constexpr auto gemm_batch = tessera_dgemm_batch;
  static constexpr auto gemm_batch_strided = tessera_dgemm_batch_strided;
  static constexpr auto gemmt = tessera_dgemmt;
  static constexpr auto symm = tessera_dsymm;
  static constexpr auto syrk = tessera_dsyrk;
  static constexpr auto syr2k = tessera_dsyr2k;
  static constexpr auto trmm = tessera_dtrmm;
  static constexpr auto trsm = tessera_dtrsm;
};
template <>
struct Functions<std::complex<float>> {
  static constexpr auto gemm = tessera_cgemm;
  static constexpr auto gemm_batch = tessera_cgemm_batch;
  static constexpr auto gemm_batch_strided = tessera_cgemm_batch_strided;
  static constexpr auto gemmt = tessera_cgemmt;
  static constexpr auto symm = tessera_csymm;
  static constexpr auto syrk = tessera_csyrk;
  static constexpr auto syr2k = tessera_csyr2k;
  static constexpr auto trmm = tessera_ctrmm;
  static constexpr auto trsm = tessera_ctrsm;
  static constexpr auto hemm = tessera_chemm;
  static constexpr auto herk = tessera_cherk;
  static constexpr auto her2k = tessera_cher2k;
};
template <>
struct Functions<std::complex<double>> {
  static constexpr auto gemm = tessera_zgemm;
  static constexpr auto gemm_batch = tessera_zgemm_batch;
  static constexpr auto gemm_batch_strided = tessera_zgemm_batch_strided;
  static constexpr auto gemmt = tessera_zgemmt;
  static constexpr auto symm = tessera_zsymm;
  static constexpr auto syrk = tessera_zsyrk;
  static constexpr auto syr2k = tessera_zsyr2k;
  static constexpr auto trmm = tessera_ztrmm;
  static constexpr auto trsm = tessera_ztrsm;
  static constexpr auto hemm = tessera_zhemm;
  static constexpr auto herk = tessera_zherk;
  static constexpr auto her2k = tessera_zher2k;
};

template <class T>
struct RealOf {
  using type = T;
};
template <class Real>
struct RealOf<std::complex<Real>> {
  using type = Real;
};
template <class T>
using Real = typename RealOf<T>::type;

/// Keeps scalars out of the deduction of T, so that `2` or `1.0f` may be passed for any type.
template <class T>
struct Same {
  using type = T;
};
template <class T>
using Value = typename Same<T>::type;

/// As the C functions take scalars.
inline float pass(const float& scalar) { return scalar; }
inline double pass(const double& scalar) { return scalar; }
template <class Real>
const void* pass(const std::complex<Real>& scalar) {
  return &scalar;
}

/// As the C functions take arrays of matrices.
inline const float* const* pass_all(const float* const* matrices) { return matrices; }
inline const double* const* pass_all(const double* const* matrices) { return matrices; }
inline float* const* pass_all(float* const* matrices) { return matrices; }
inline double* const* pass_all(double* const* matrices) { return matrices; }
template <class Real>
const void* const* pass_all(const std::complex<Real>* const* matrices) {
  return reinterpret_cast<const void* const*>(matrices);
}
template <class Real>
void* const* pass_all(std::complex<Real>* const* matrices) {
  return reinterpret_cast<void* const*>(matrices);
}

}  // namespace detail

// The Level-3 BLAS for T = float, double and their std::complex; hemm, herk and her2k for the complex types. tessera.h
// documents each function. All throw StatusError.

template <class T>
void gemm(const Context& context, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
          std::int64_t m, std::int64_t n, std::int64_t k, detail::Value<T> alpha, const T* A, std::int64_t lda,
          const T* B, std::int64_t ldb, detail::Value<T> beta, T* C, std::int64_t ldc) {
  check(detail::Functions<T>::gemm(context.handle(), layout, transa, transb, m, n, k, detail::pass(alpha), A, lda, B,
                                   ldb, detail::pass(beta), C, ldc));
}
/// Groups of products, see tessera.h: alpha and beta have an entry for each group, A, B and C one for each product.
template <class T>
void gemm_batch(const Context& context, tessera_layout layout, const tessera_transpose* transa,
                const tessera_transpose* transb, const std::int64_t* m, const std::int64_t* n, const std::int64_t* k,
                const detail::Value<T>* alpha, const T* const* A, const std::int64_t* lda, const T* const* B,
                const std::int64_t* ldb, const detail::Value<T>* beta, T* const* C, const std::int64_t* ldc,
                std::int64_t group_count, const std::int64_t* group_size) {
  check(detail::Functions<T>::gemm_batch(context.handle(), layout, transa, transb, m, n, k, alpha, detail::pass_all(A),
                                         lda, detail::pass_all(B), ldb, beta, detail::pass_all(C), ldc, group_count,
                                         group_size));
}
template <class T>
void gemm_batch_strided(const Context& context, tessera_layout layout, tessera_transpose transa,
                        tessera_transpose transb, std::int64_t m, std::int64_t n, std::int64_t k,
                        detail::Value<T> alpha, const T* A, std::int64_t lda, std::int64_t stridea, const T* B,
                        std::int64_t ldb, std::int64_t strideb, detail::Value<T> beta, T* C, std::int64_t ldc,
                        std::int64_t stridec, std::int64_t batch_size) {
  check(detail::Functions<T>::gemm_batch_strided(context.handle(), layout, transa, transb, m, n, k, detail::pass(alpha),
                                                 A, lda, stridea, B, ldb, strideb, detail::pass(beta), C, ldc, stridec,
                                                 batch_size));
}
template <class T>
void gemmt(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_transpose transa,
           tessera_transpose transb, std::int64_t n, std::int64_t k, detail::Value<T> alpha, const T* A,
           std::int64_t lda, const T* B, std::int64_t ldb, detail::Value<T> beta, T* C, std::int64_t ldc) {
  check(detail::Functions<T>::gemmt(context.handle(), layout, uplo, transa, transb, n, k, detail::pass(alpha), A, lda,
                                    B, ldb, detail::pass(beta), C, ldc));
}
template <class T>
void symm(const Context& context, tessera_layout layout, tessera_side side, tessera_uplo uplo, std::int64_t m,
          std::int64_t n, detail::Value<T> alpha, const T* A, std::int64_t lda, const T* B, std::int64_t ldb,
          detail::Value<T> beta, T* C, std::int64_t ldc) {
  check(detail::Functions<T>::symm(context.handle(), layout, side, uplo, m, n, detail::pass(alpha), A, lda, B, ldb,
                                   detail::pass(beta), C, ldc));
}
template <class T>
void hemm(const Context& context, tessera_layout layout, tessera_side side, tessera_uplo uplo, std::int64_t m,
          std::int64_t n, detail::Value<T> alpha, const T* A, std::int64_t lda, const T* B, std::int64_t ldb,
          detail::Value<T> beta, T* C, std::int64_t ldc) {
  check(detail::Functions<T>::hemm(context.handle(), layout, side, uplo, m, n, detail::pass(alpha), A, lda, B, ldb,
                                   detail::pass(beta), C, ldc));
}
template <class T>
void syrk(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_transpose trans, std::int64_t n,
          std::int64_t k, detail::Value<T> alpha, const T* A, std::int64_t lda, detail::Value<T> beta, T* C,
          std::int64_t ldc) {
  check(detail::Functions<T>::syrk(context.handle(), layout, uplo, trans, n, k, detail::pass(alpha), A, lda,
                                   detail::pass(beta), C, ldc));
}
template <class T>
void herk(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_transpose trans, std::int64_t n,
          std::int64_t k, detail::Real<T> alpha, const T* A, std::int64_t lda, detail::Real<T> beta, T* C,
          std::int64_t ldc) {
  check(detail::Functions<T>::herk(context.handle(), layout, uplo, trans, n, k, detail::pass(alpha), A, lda,
                                   detail::pass(beta), C, ldc));
}
template <class T>
void syr2k(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_transpose trans, std::int64_t n,
           std::int64_t k, detail::Value<T> alpha, const T* A, std::int64_t lda, const T* B, std::int64_t ldb,
           detail::Value<T> beta, T* C, std::int64_t ldc) {
  check(detail::Functions<T>::syr2k(context.handle(), layout, uplo, trans, n, k, detail::pass(alpha), A, lda, B, ldb,
                                    detail::pass(beta), C, ldc));
}
template <class T>
void her2k(const Context& context, tessera_layout layout, tessera_uplo uplo, tessera_transpose trans, std::int64_t n,
           std::int64_t k, detail::Value<T> alpha, const T* A, std::int64_t lda, const T* B, std::int64_t ldb,
           detail::Real<T> beta, T* C, std::int64_t ldc) {
  check(detail::Functions<T>::her2k(context.handle(), layout, uplo, trans, n, k, detail::pass(alpha), A, lda, B, ldb,
                                    detail::pass(beta), C, ldc));
}
template <class T>
void trmm(const Context& context, tessera_layout layout, tessera_side side, tessera_uplo uplo, tessera_transpose transa,
          tessera_diag diag, std::int64_t m, std::int64_t n, detail::Value<T> alpha, const T* A, std::int64_t lda, T* B,
          std::int64_t ldb) {
  check(detail::Functions<T>::trmm(context.handle(), layout, side, uplo, transa, diag, m, n, detail::pass(alpha), A,
                                   lda, B, ldb));
}
template <class T>
void trsm(const Context& context, tessera_layout layout, tessera_side side, tessera_uplo uplo, tessera_transpose transa,
          tessera_diag diag, std::int64_t m, std::int64_t n, detail::Value<T> alpha, const T* A, std::int64_t lda, T* B,
          std::int64_t ldb) {
  check(detail::Functions<T>::trsm(context.handle(), layout, side, uplo, transa, diag, m, n, detail::pass(alpha), A,
                                   lda, B, ldb));
}

}  // namespace tessera
