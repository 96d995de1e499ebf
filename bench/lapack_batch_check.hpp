// Whether what a routine has left is right: residuals of single problems, computed on the host in complex double precision.
//
// A residual is a matrix R that would be zero without rounding, and what is told is |R|_1 / (n |A|_1 eps), which LAPACK's
// testers want below 30. R is never formed: it is applied to vectors. Up to n = 64 these are all unit vectors, which gives
// |R|_1; above, some with random signs, which makes of |R v|_1 / sqrt(n) an estimate.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "bench/lapack_batch_cases.hpp"

namespace tessera::bench {

inline constexpr double lapack_bound = 30;

using Value = std::complex<double>;
using Vector = std::vector<Value>;
/// A linear map, as far as it can be applied.
using Map = std::function<Vector(const Vector&)>;

inline double norm1(const Vector& v) {
  double sum = 0;
  for (const Value& x : v) sum += std::abs(x);
  return sum;
}

/// A square matrix, column by column, or what is stored in its place: triangles.
class Stored {
 public:
  template <class T>
  Stored(const std::vector<T>& elements, std::size_t n) : n_(n), elements_(elements.begin(), elements.end()) {}

  std::size_t n() const { return n_; }
  Value operator()(std::size_t i, std::size_t j) const { return elements_[i + j * n_]; }

  Vector general(const Vector& x) const {
    return sum_of_columns(
        x, [](std::size_t) { return 0; }, [this](std::size_t) { return n_; }, false);
  }
  /// The triangle with its diagonal, or with ones in place of that.
  Vector triangle(Uplo uplo, const Vector& x, bool has_ones = false) const {
    const bool lower = uplo == Uplo::lower;
    return sum_of_columns(
        x, [&](std::size_t j) { return lower ? j : 0; }, [&](std::size_t j) { return lower ? n_ : j + 1; }, has_ones);
  }
  /// The conjugate transpose of the triangle.
  Vector transposed_triangle(Uplo uplo, const Vector& x) const {
    Vector y(n_);
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = uplo == Uplo::lower ? j : 0; i < (uplo == Uplo::lower ? n_ : j + 1); ++i)
        y[j] += std::conj((*this)(i, j)) * x[i];
    }
    return y;
  }
  /// The Hermitian matrix of which one triangle is stored.
  Vector hermitian(Uplo uplo, const Vector& x) const {
    Vector y = triangle(uplo, x);
    const Vector other = transposed_triangle(uplo, x);
    for (std::size_t i = 0; i < n_; ++i) y[i] += other[i] - std::conj((*this)(i, i)) * x[i];
    return y;
  }
  /// The product of the factors that are stored.
  Vector product_of_factors(const std::vector<int>& pivots, const Vector& x) const {
    Vector y = triangle(Uplo::lower, triangle(Uplo::upper, x), true);
    for (std::size_t i = pivots.size(); i-- > 0;) std::swap(y[i], y[static_cast<std::size_t>(pivots[i] - 1)]);
    return y;
  }
  Vector product_of_factors(Uplo uplo, const Vector& x) const {
    return uplo == Uplo::lower ? triangle(uplo, transposed_triangle(uplo, x))
                               : transposed_triangle(uplo, triangle(uplo, x));
  }

  /// The matrix of the absolute values.
  Stored absolute() const {
    Stored copy = *this;
    for (Value& x : copy.elements_) x = std::abs(x);
    return copy;
  }
  /// The largest absolute value below the diagonal.
  double largest_below() const {
    double largest = 0;
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j + 1; i < n_; ++i) largest = std::max(largest, std::abs((*this)(i, j)));
    }
    return largest;
  }

 private:
  template <class First, class Last>
  Vector sum_of_columns(const Vector& x, First first, Last last, bool has_ones) const {
    Vector y(n_);
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = first(j); i < last(j); ++i) y[i] += (has_ones && i == j ? 1.0 : (*this)(i, j)) * x[j];
    }
    return y;
  }

  std::size_t n_;
  Vector elements_;
};

/// Unit vectors or some with random signs, and what norms of their images have to be divided by.
inline std::pair<std::vector<Vector>, double> probes(std::size_t n) {
  const bool all = n <= 64;
  std::vector<Vector> vectors(all ? n : 3, Vector(n));
  std::mt19937 random(7);
  for (std::size_t k = 0; k < vectors.size(); ++k) {
    if (all) {
      vectors[k][k] = 1;
    } else {
      for (Value& x : vectors[k]) x = random() % 2 == 0 ? 1 : -1;
    }
  }
  return {vectors, all ? 1 : std::sqrt(static_cast<double>(n))};
}

/// |A - B|_1 or an estimate of it; not a number if there is one in an image.
inline double difference(const Map& A, const Map& B, std::size_t n) {
  const auto [vectors, factor] = probes(n);
  double largest = 0;
  for (const Vector& v : vectors) {
    Vector image = A(v);
    const Vector other = B(v);
    for (std::size_t i = 0; i < n; ++i) image[i] -= other[i];
    const double norm = norm1(image) / factor;
    if (!(norm <= largest)) largest = norm;
    if (std::isnan(norm)) break;
  }
  return largest;
}

/// One problem before and after a call.
struct CheckedProblem {
  LapackCase what;
  Stored A, result;  ///< result: factors or the inverse; where A is only read, as A
  std::vector<int> pivots;
  Vector B{}, X{};  ///< n x nrhs
  /// A is no pair of factors, but the matrix that is inverted
  bool inverts_matrix = false;
};

inline Vector apply_factors(const CheckedProblem& p, const Stored& factors, const Vector& x) {
  return p.what.is_cholesky() ? factors.product_of_factors(p.what.uplo, x) : factors.product_of_factors(p.pivots, x);
}

/// |R|_1 / (n |A|_1 eps), of solutions and inverses |R|_1 / (n |A|_1 |X|_1 eps). Infinite where pivots are not in their
/// range or factors below the diagonal are larger than interchanges let them be.
inline double lapack_residual(const CheckedProblem& p) {
  const LapackCase& c = p.what;
  const std::size_t n = p.A.n();
  const bool is_single = c.type == ScalarType::s || c.type == ScalarType::c;
  const double eps = is_single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const double unit = static_cast<double>(n) * eps;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (c.has_pivots()) {
    for (std::size_t i = 0; i < n; ++i) {
      if (p.pivots[i] <= static_cast<int>(i) || p.pivots[i] > static_cast<int>(n)) return wrong;
    }
    // Pivots of complex matrices are the largest by |re| + |im|.
    if (c.factors() && p.result.largest_below() > std::sqrt(2.0) + 1e-3) return wrong;
  }

  const bool is_matrix = c.factors() || p.inverts_matrix;
  const Map of_a = [&](const Vector& x) {
    if (!is_matrix) return apply_factors(p, p.A, x);
    return c.is_cholesky() ? p.A.hermitian(c.uplo, x) : p.A.general(x);
  };
  // 1-norms: columns of absolute values are summed by their transpose, and of what is Hermitian by itself.
  const auto norm_of = [&](const Stored& M, bool hermitian) {
    double largest = 0;
    const Stored absolute = M.absolute();
    if (hermitian) {
      for (const Value& sum : absolute.hermitian(c.uplo, Vector(n, 1))) largest = std::max(largest, std::abs(sum));
    } else {
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += absolute(i, j).real();
        largest = std::max(largest, sum);
      }
    }
    return largest;
  };
  double norm_a = 0;
  if (is_matrix) {
    norm_a = norm_of(p.A, c.is_cholesky());
  } else {  // by rows, of the product of the factors' absolute values
    for (const Value& sum : apply_factors(p, p.A.absolute(), Vector(n, 1))) norm_a = std::max(norm_a, std::abs(sum));
  }

  if (c.solves()) {
    double largest = 0;
    for (std::size_t j = 0; j * n < p.B.size(); ++j) {
      const auto begin = static_cast<std::ptrdiff_t>(j * n), end = begin + static_cast<std::ptrdiff_t>(n);
      const Vector x(p.X.begin() + begin, p.X.begin() + end);
      Vector rest = of_a(x);
      for (std::size_t i = 0; i < n; ++i) rest[i] -= p.B[j * n + i];
      const double of_column = norm1(rest) / (norm_a * norm1(x) * unit);
      if (!(of_column <= largest)) largest = of_column;
      if (std::isnan(of_column)) return wrong;
    }
    return largest;
  }
  double residual = 0;
  if (c.inverts()) {
    const bool hermitian = c.is_cholesky() && !p.inverts_matrix;
    const Map product = [&](const Vector& x) {
      return of_a(hermitian ? p.result.hermitian(c.uplo, x) : p.result.general(x));
    };
    residual = difference(
                   product, [](const Vector& x) { return x; }, n) /
               (norm_a * norm_of(p.result, hermitian) * unit);
  } else {
    residual = difference(
                   of_a, [&](const Vector& x) { return apply_factors(p, p.result, x); }, n) /
               (norm_a * unit);
  }
  return std::isnan(residual) ? wrong : residual;
}

}  // namespace tessera::bench
