// C++ veneer over tessera.h: a context that closes itself, exceptions instead of status codes, one gemm for the four types.
// Header-only, C++17; links with libtessera.so. Thread-safe as the C API is.
#pragma once

#include <complex>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "tessera/tessera.h"

namespace tessera {

/// A call that returned another status than TESSERA_SUCCESS.
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

/// Owns a tessera_context; moved from, it owns none.
class Context {
 public:
  /// @param settings NAME=value pairs separated by white space, on top of the environment
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

  /// One line per device.
  std::string devices() const { return text_of(tessera_devices); }
  /// Of the last completed call, as JSON.
  std::string last_job_json() const { return text_of(tessera_last_job_json); }
  tessera_job_stats last_job_stats() const {
    tessera_job_stats stats = {};
    stats.struct_size = sizeof(stats);
    check(tessera_last_job_stats(handle_, &stats));
    return stats;
  }

 private:
  std::string text_of(tessera_status (*get)(tessera_context, char*, std::size_t, std::size_t*)) const {
    // The text may grow between two calls (another thread completes a job), so ask until it fits.
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

/// C = alpha * op(A) * op(B) + beta * C for float, double and their std::complex; see tessera_dgemm. @throws StatusError
template <class T>
void gemm(const Context& context, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
          std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* A, std::int64_t lda, const T* B,
          std::int64_t ldb, T beta, T* C, std::int64_t ldc) = delete;

template <>
inline void gemm(const Context& context, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
                 std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* A, std::int64_t lda,
                 const float* B, std::int64_t ldb, float beta, float* C, std::int64_t ldc) {
  check(tessera_sgemm(context.handle(), layout, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc));
}
template <>
inline void gemm(const Context& context, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
                 std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* A, std::int64_t lda,
                 const double* B, std::int64_t ldb, double beta, double* C, std::int64_t ldc) {
  check(tessera_dgemm(context.handle(), layout, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc));
}
template <>
inline void gemm(const Context& context, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
                 std::int64_t m, std::int64_t n, std::int64_t k, std::complex<float> alpha,
                 const std::complex<float>* A, std::int64_t lda, const std::complex<float>* B, std::int64_t ldb,
                 std::complex<float> beta, std::complex<float>* C, std::int64_t ldc) {
  check(tessera_cgemm(context.handle(), layout, transa, transb, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc));
}
template <>
inline void gemm(const Context& context, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
                 std::int64_t m, std::int64_t n, std::int64_t k, std::complex<double> alpha,
                 const std::complex<double>* A, std::int64_t lda, const std::complex<double>* B, std::int64_t ldb,
                 std::complex<double> beta, std::complex<double>* C, std::int64_t ldc) {
  check(tessera_zgemm(context.handle(), layout, transa, transb, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc));
}

}  // namespace tessera
