#include "kernels/host/small_solve.hpp"

#include <algorithm>
#include <complex>

#include "core/scalar.hpp"

namespace tessera::kernels {
namespace {

// Written in parts, because operator* of complex numbers checks for NaNs.
template <Scalar T>
void subtract_product(T& c, const T& a, const T& b) {
  if constexpr (std::floating_point<T>)
    c -= a * b;
  else
    c -= T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
}

/// Accesses op(A) by columns.
template <Scalar T>
class Triangle {
 public:
  explicit Triangle(const Level3& trsm) : order_(trsm.side == Side::left ? trsm.m : trsm.n) {
    const auto* const A = static_cast<const T*>(trsm.A);
    const bool is_transposed = trsm.op_a != Op::no_trans;
    is_unit_ = trsm.diag == Diag::unit;
    is_lower_ = (trsm.uplo == Uplo::lower) != is_transposed;
    for (index_t j = 0; j < order_; ++j) {
      for (index_t i = first_row(j); i < end_row(j); ++i) {
        T value = is_transposed ? A[j + i * trsm.lda] : A[i + j * trsm.lda];
        if constexpr (!std::floating_point<T>) {
          if (trsm.op_a == Op::conj_trans) value = std::conj(value);
        }
        elements_[j * most_order_of_small_solve + i] = value;
      }
    }
  }
  index_t order() const { return order_; }
  bool is_lower() const { return is_lower_; }
  bool is_unit() const { return is_unit_; }
  const T* column(index_t j) const { return elements_ + j * most_order_of_small_solve; }

  /// The first stored row of the triangle's column, without a unit diagonal.
  index_t first_row(index_t j) const { return is_lower_ ? j + (is_unit_ ? 1 : 0) : 0; }
  index_t end_row(index_t j) const { return is_lower_ ? order_ : j + (is_unit_ ? 0 : 1); }

 private:
  const index_t order_;
  bool is_unit_ = false, is_lower_ = false;
  T elements_[most_order_of_small_solve * most_order_of_small_solve];
};

/// Solves X = op(A)^-1 C for several columns at a time, so that each element of A serves all of them.
template <int columns, Scalar T>
void solve_columns(const Triangle<T>& triangle, T* C, index_t ldc) {
  const index_t order = triangle.order();
  for (index_t step = 0; step < order; ++step) {
    const index_t k = triangle.is_lower() ? step : order - 1 - step;
    const T* const a = triangle.column(k);
    T x[columns];
    for (int c = 0; c < columns; ++c) {
      T& at = C[k + c * ldc];
      if (!triangle.is_unit()) at /= a[k];
      x[c] = at;
    }
    const index_t first = triangle.is_lower() ? k + 1 : 0, end = triangle.is_lower() ? order : k;
    for (index_t i = first; i < end; ++i) {
      for (int c = 0; c < columns; ++c) subtract_product(C[i + c * ldc], a[i], x[c]);
    }
  }
}

template <Scalar T>
void solve_left(const Triangle<T>& triangle, index_t n, T* C, index_t ldc) {
  constexpr int at_once = 4;
  index_t j = 0;
  for (; j + at_once <= n; j += at_once) solve_columns<at_once>(triangle, C + j * ldc, ldc);
  for (; j < n; ++j) solve_columns<1>(triangle, C + j * ldc, ldc);
}

/// Solves X op(A) = C.
template <Scalar T>
void solve_right(const Triangle<T>& triangle, index_t m, T* C, index_t ldc) {
  const index_t order = triangle.order();
  for (index_t step = 0; step < order; ++step) {
    const index_t j = triangle.is_lower() ? order - 1 - step : step;
    const T* const a = triangle.column(j);
    T* const c = C + j * ldc;
    const index_t first = triangle.is_lower() ? j + 1 : 0, end = triangle.is_lower() ? order : j;
    for (index_t k = first; k < end; ++k) {
      const T* const x = C + k * ldc;
      for (index_t i = 0; i < m; ++i) subtract_product(c[i], x[i], a[k]);
    }
    if (triangle.is_unit()) continue;
    for (index_t i = 0; i < m; ++i) c[i] /= a[j];
  }
}

}  // namespace

void solve_small(const Level3& trsm) {
  dispatch(trsm.type, [&]<Scalar T>(T) {
    const Triangle<T> triangle(trsm);
    auto* const C = static_cast<T*>(trsm.C);
    trsm.side == Side::left ? solve_left(triangle, trsm.n, C, trsm.ldc) : solve_right(triangle, trsm.m, C, trsm.ldc);
  });
}

}  // namespace tessera::kernels
