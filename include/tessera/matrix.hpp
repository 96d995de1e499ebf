// C++ veneer over tessera/matrix.h: matrices that end by themselves, and exceptions instead of status codes. Header-only,
// C++17. matrix.h documents what each function does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tessera/matrix.h"
#include "tessera/tessera.hpp"

namespace tessera {

/// Owns a tessera_matrix of elements T; after a move, the source owns none. The context outlives it. All functions but the
/// destructor throw StatusError.
template <class T>
class Matrix {
 public:
  /// Over memory of the caller, which outlives this.
  Matrix(const Context& context, tessera_layout layout, std::int64_t rows, std::int64_t cols, T* memory,
         std::int64_t ld) {
    check(tessera_matrix_create(context.handle(), layout, rows, cols, sizeof(T), memory, ld, &handle_));
  }
  /// On devices.
  Matrix(const Context& context, tessera_layout layout, std::int64_t rows, std::int64_t cols) {
    check(tessera_matrix_create_on_devices(context.handle(), layout, rows, cols, sizeof(T), &handle_));
  }
  ~Matrix() { tessera_matrix_destroy(handle_); }
  Matrix(Matrix&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Matrix& operator=(Matrix&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  tessera_matrix handle() const noexcept { return handle_; }
  /// For the arguments of calls.
  T* data() const noexcept { return static_cast<T*>(tessera_matrix_address(handle_)); }
  std::int64_t ld() const noexcept { return tessera_matrix_ld(handle_); }

  void sync() const { check(tessera_matrix_sync(handle_)); }
  void host_changed(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) const {
    check(tessera_matrix_host_changed(handle_, row, col, rows, cols));
  }
  void read(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols, T* to, std::int64_t ldto) const {
    check(tessera_matrix_read(handle_, row, col, rows, cols, to, ldto));
  }
  void write(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols, const T* from,
             std::int64_t ldfrom) const {
    check(tessera_matrix_write(handle_, row, col, rows, cols, from, ldfrom));
  }
  std::int64_t resident_bytes() const {
    std::int64_t bytes = 0;
    check(tessera_matrix_resident_bytes(handle_, &bytes));
    return bytes;
  }

 private:
  tessera_matrix handle_ = nullptr;
};

}  // namespace tessera
