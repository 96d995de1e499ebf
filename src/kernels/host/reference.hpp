// The readable gemm: what every other one is compared with, and what computes where no CPU BLAS can. Follows the
// reference BLAS (netlib xGEMM) in what is read and written: beta == 0 overwrites C without reading it, alpha == 0 or k
// == 0 only scales C and does not read X and Y, m == 0 or n == 0 does nothing.
#pragma once

#include <complex>

#include "core/scalar.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

namespace detail {
template <class T>
struct WideOf {
  using type = long double;
};
template <class Real>
struct WideOf<std::complex<Real>> {
  using type = std::complex<long double>;
};
}  // namespace detail

/// The type in which an oracle accumulates.
template <Scalar T>
using Wide = typename detail::WideOf<T>::type;

/// Element (i, j) of op(matrix), widened to Accumulator.
template <class Accumulator, Scalar T>
Accumulator op_element(Op op, const T* matrix, index_t ld, index_t i, index_t j) {
  const Accumulator value(op == Op::no_trans ? matrix[i + j * ld] : matrix[j + i * ld]);
  if constexpr (std::floating_point<T>) {
    return value;
  } else {
    return op == Op::conj_trans ? std::conj(value) : value;
  }
}

/// C = alpha * op_x(X) * op_y(Y) + beta * C, computed in Accumulator throughout and rounded to T once. Accumulator is
/// T, or Wide<T> for an oracle. Leading dimensions in elements.
template <Scalar T, class Accumulator = T>
void reference_gemm(Op op_x, Op op_y, index_t m, index_t n, index_t k, T alpha, const T* X, index_t ldx, const T* Y,
                    index_t ldy, T beta, T* C, index_t ldc) {
  const bool only_scales = alpha == T(0) || k == 0;
  if (only_scales && beta == T(1)) return;
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < m; ++i) {
      Accumulator result(0);
      if (!only_scales) {
        for (index_t l = 0; l < k; ++l) {
          result += op_element<Accumulator>(op_x, X, ldx, i, l) * op_element<Accumulator>(op_y, Y, ldy, l, j);
        }
        result *= Accumulator(alpha);
      }
      T& c = C[i + j * ldc];
      if (beta != T(0)) result += Accumulator(beta) * Accumulator(c);
      c = static_cast<T>(result);
    }
  }
}

/// The same on a type-erased product, in the precision of its type.
void reference_gemm(const Level3& call);

/// The same, accumulated in long double.
void oracle_gemm(const Level3& call);

}  // namespace tessera::kernels
