// Small dense matrices for checks of results, with products by the loops of the textbook.
#pragma once

#include <cmath>
#include <complex>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::kernels {

/// A column-major matrix without padding.
template <Scalar T>
struct Dense {
  index_t rows = 0, cols = 0;
  std::vector<T> elements = std::vector<T>(static_cast<std::size_t>(rows * cols));

  T& operator()(index_t i, index_t j) { return elements[static_cast<std::size_t>(i + j * rows)]; }
  const T& operator()(index_t i, index_t j) const { return elements[static_cast<std::size_t>(i + j * rows)]; }
};
template <Scalar T>
Dense<T> identity(index_t n) {
  Dense<T> I{n, n};
  for (index_t i = 0; i < n; ++i) I(i, i) = T(1);
  return I;
}
template <Scalar T>
Dense<T> adjoint(const Dense<T>& A) {
  Dense<T> result{A.cols, A.rows};
  for (index_t j = 0; j < A.cols; ++j) {
    for (index_t i = 0; i < A.rows; ++i) result(j, i) = scalar_cast<T>(std::conj(AnyScalar(A(i, j))));
  }
  return result;
}
template <Scalar T>
Dense<T> operator*(const Dense<T>& A, const Dense<T>& B) {
  Dense<T> C{A.rows, B.cols};
  for (index_t j = 0; j < B.cols; ++j) {
    for (index_t l = 0; l < A.cols; ++l) {
      for (index_t i = 0; i < A.rows; ++i) C(i, j) += A(i, l) * B(l, j);
    }
  }
  return C;
}
/// The largest element of |A - B|; NaN if there is one.
template <Scalar T>
double distance(const Dense<T>& A, const Dense<T>& B) {
  double largest = 0;
  for (std::size_t i = 0; i < A.elements.size(); ++i) {
    const double d = static_cast<double>(std::abs(A.elements[i] - B.elements[i]));
    if (!(d <= largest)) largest = d;
  }
  return largest;
}

}  // namespace tessera::kernels
