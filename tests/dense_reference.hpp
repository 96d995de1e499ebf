// Reference solutions of LAPACK's problems on small matrices, in double precision and by textbook methods. They use no
// BLAS or LAPACK of the machine. Source: Golub and Van Loan, Matrix Computations, 4th ed.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

#include "calls/lapack_call.hpp"
#include "core/scalar.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "kernels/reference/dense_matrix.hpp"

namespace tessera::test {

using kernels::Dense;
using kernels::identity;
using Wide = Dense<AnyScalar>;

template <Scalar T>
Wide widened(const Dense<T>& A) {
  Wide result{A.rows, A.cols};
  std::copy(A.elements.begin(), A.elements.end(), result.elements.begin());
  return result;
}

inline Wide with_op(Op op, Wide A) {
  if (op == Op::no_trans) return A;
  A = adjoint(A);
  if (op == Op::trans)
    std::transform(A.elements.begin(), A.elements.end(), A.elements.begin(), [](AnyScalar a) { return std::conj(a); });
  return A;
}

/// By LU of the reference kernels. @pre A is regular
inline Wide inverse(Wide A) {
  const index_t n = A.rows;
  Wide result = identity<AnyScalar>(n);
  std::vector<int> pivots(static_cast<std::size_t>(n));
  LapackCall call{.routine = Routine::gesv, .type = ScalarType::z, .m = n, .n = n, .k = n};
  call.A = A.elements.data();
  call.B = result.elements.data();
  call.lda = call.ldb = n;
  call.ipiv = pivots.data();
  call.ipiv_bits = 32;
  index_t found = 0;
  kernels::compute_on_cpu(nullptr, call, found);
  return result;
}

/// The lower factor L of A = L L^H, by the reference kernels. @param info the first minor that is not positive
/// definite, or 0
inline Wide cholesky(Wide A, index_t& info) {
  LapackCall call{.routine = Routine::potrf, .type = ScalarType::z, .m = A.rows, .n = A.rows};
  call.A = A.elements.data();
  call.lda = A.rows;
  index_t found = 0;
  info = kernels::compute_on_cpu(nullptr, call, found);
  for (index_t j = 0; j < A.cols; ++j) {
    for (index_t i = 0; i < j; ++i) A(i, j) = 0;
  }
  return A;
}

/// A becomes H A, H = I - tau v v^H. @param first before which v is zero
inline void reflect(const Wide& v, AnyScalar tau, Wide& A, index_t first = 0) {
  for (index_t j = 0; j < A.cols; ++j) {
    AnyScalar product = 0;
    for (index_t i = first; i < A.rows; ++i) product += std::conj(v(i, 0)) * A(i, j);
    product *= tau;
    for (index_t i = first; i < A.rows; ++i) A(i, j) -= product * v(i, 0);
  }
}

/// A reflection that reflect() has applied.
struct Reflection {
  Wide v;
  double tau = 0;
};

/// Applies the reflection from the left that makes the column zero below `row` (section 5.1.2).
inline Reflection clear_below(Wide& A, index_t row, index_t column) {
  Reflection made{Wide{A.rows, 1}};
  double squares = 0;
  for (index_t i = row; i < A.rows; ++i) squares += std::norm(made.v(i, 0) = A(i, column));
  if (squares == 0) return made;
  AnyScalar& first = made.v(row, 0);
  const double length = std::sqrt(squares), size = std::abs(first);
  made.tau = 1 / (length * (length + size));
  first += size > 0 ? first / size * length : AnyScalar(length);
  reflect(made.v, made.tau, A, row);
  return made;
}

/// A becomes Q^H A Q, which is zero below its subdiagonal; for a Hermitian A it is tridiagonal (section 7.4.2).
inline void reduce_to_hessenberg(Wide& A) {
  for (index_t k = 0; k + 2 < A.rows; ++k) {
    const Reflection left = clear_below(A, k + 1, k);
    A = adjoint(A);
    reflect(left.v, left.tau, A, k + 1);
    A = adjoint(A);
  }
}

/// The eigenvalues with the numbers first, first + 1, ... of a symmetric tridiagonal matrix, in ascending order: by
/// bisection with the inertia of A - x I (section 8.4.1). @param beside the diagonal
inline std::vector<double> tridiagonal_eigenvalues(const std::vector<double>& diagonal,
                                                   const std::vector<double>& beside, std::size_t first = 0) {
  double bound = 0;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    const double left = i > 0 ? beside[i - 1] : 0, right = i < beside.size() ? beside[i] : 0;
    bound = std::max(bound, std::abs(diagonal[i]) + std::abs(left) + std::abs(right));
  }
  const auto smaller_than = [&](double x) {
    std::size_t count = 0;
    double pivot = 1;
    for (std::size_t i = 0; i < diagonal.size(); ++i) {
      pivot = diagonal[i] - x - (i > 0 ? beside[i - 1] * beside[i - 1] / pivot : 0);
      if (pivot == 0) pivot = std::numeric_limits<double>::min();
      if (pivot < 0) ++count;
    }
    return count;
  };
  std::vector<double> values;
  for (std::size_t k = first; k < diagonal.size(); ++k) {
    double low = values.empty() ? -bound : values.back(), high = bound;
    for (int halving = 0; halving < 54 && low < high; ++halving) {
      const double middle = low + (high - low) / 2;
      (smaller_than(middle) <= k ? low : high) = middle;
    }
    values.push_back(low);
  }
  return values;
}

/// In ascending order.
inline std::vector<double> hermitian_eigenvalues(Wide A) {
  reduce_to_hessenberg(A);
  std::vector<double> diagonal, beside;
  for (index_t i = 0; i < A.rows; ++i) {
    diagonal.push_back(A(i, i).real());
    if (i > 0) beside.push_back(std::abs(A(i, i - 1)));
  }
  return tridiagonal_eigenvalues(diagonal, beside);
}

/// In descending order. With B bidiagonal like A, they are the larger half of the eigenvalues of (0 B; B^H 0). This
/// matrix is tridiagonal after a permutation of its rows (section 8.6.1).
inline std::vector<double> singular_values(Wide A) {
  if (A.rows < A.cols) A = adjoint(A);
  const index_t n = A.cols;
  std::vector<double> beside;
  for (index_t k = 0; k < n; ++k) {
    clear_below(A, k, k);
    beside.push_back(std::abs(A(k, k)));
    if (k + 1 == n) break;
    A = adjoint(A);
    clear_below(A, k + 1, k);
    beside.push_back(std::abs(A(k + 1, k)));
    A = adjoint(A);
  }
  const auto order = static_cast<std::size_t>(n);
  std::vector<double> values = tridiagonal_eigenvalues(std::vector<double>(2 * order), beside, order);
  std::reverse(values.begin(), values.end());
  return values;
}

/// One QR step with a shift on the rows and columns first .. last of a Hessenberg matrix (section 7.5.1).
inline void step_of_qr(Wide& A, index_t first, index_t last, AnyScalar shift) {
  for (index_t i = first; i <= last; ++i) A(i, i) -= shift;
  std::vector<std::pair<AnyScalar, AnyScalar>> rotations;
  for (index_t k = first; k < last; ++k) {
    const AnyScalar a = A(k, k), b = A(k + 1, k);
    const double length = std::hypot(std::abs(a), std::abs(b));
    const auto [c, s] = rotations.emplace_back(length > 0 ? a / length : 1, length > 0 ? b / length : 0);
    for (index_t j = k; j <= last; ++j) {
      const AnyScalar upper = A(k, j), lower = A(k + 1, j);
      A(k, j) = std::conj(c) * upper + std::conj(s) * lower;
      A(k + 1, j) = c * lower - s * upper;
    }
  }
  for (index_t k = first; k < last; ++k) {
    const auto [c, s] = rotations[static_cast<std::size_t>(k - first)];
    for (index_t i = first; i <= std::min(k + 1, last); ++i) {
      const AnyScalar left = A(i, k), right = A(i, k + 1);
      A(i, k) = left * c + right * s;
      A(i, k + 1) = right * std::conj(c) - left * std::conj(s);
    }
  }
  for (index_t i = first; i <= last; ++i) A(i, i) += shift;
}

/// In no order; NaN if the iteration does not converge.
inline std::vector<AnyScalar> eigenvalues(Wide A) {
  reduce_to_hessenberg(A);
  constexpr double eps = std::numeric_limits<double>::epsilon();
  constexpr int most_steps = 100;
  int steps = 0;
  for (index_t last = A.rows - 1; last > 0;) {
    index_t first = last;
    while (first > 0 &&
           std::abs(A(first, first - 1)) > eps * (std::abs(A(first, first)) + std::abs(A(first - 1, first - 1))))
      --first;
    if (first == last) {
      --last;
      steps = 0;
      continue;
    }
    if (++steps > most_steps) {
      A(last, last) = std::numeric_limits<double>::quiet_NaN();
      return std::vector<AnyScalar>(static_cast<std::size_t>(A.rows), A(last, last));
    }
    // The eigenvalue of the last 2 x 2 block that is nearer to its last element; sometimes another number, to break
    // cycles.
    const AnyScalar a = A(last - 1, last - 1), d = A(last, last), half = (a - d) / 2.0;
    const AnyScalar root = std::sqrt(half * half + A(last - 1, last) * A(last, last - 1));
    const AnyScalar offset = std::abs(half + root) < std::abs(half - root) ? half + root : half - root;
    step_of_qr(A, first, last, steps % 10 == 0 ? d + std::abs(A(last, last - 1)) : d + offset);
  }
  std::vector<AnyScalar> values;
  for (index_t i = 0; i < A.rows; ++i) values.push_back(A(i, i));
  return values;
}

}  // namespace tessera::test
