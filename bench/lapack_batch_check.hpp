// Whether what a routine has left is right: residuals of single problems, computed on the host in complex double precision.
//
// A residual is a matrix R that would be zero without rounding, and what is told is |R|_1 / (n |A|_1 eps), which LAPACK's
// testers want below 30. R is never formed: it is applied to vectors. Up to n = 64 these are all unit vectors, which gives
// |R|_1; above, some with random signs, which makes of |R v|_1 / sqrt(n) an estimate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "bench/frame/linear_maps.hpp"
#include "bench/lapack_batch_cases.hpp"

namespace tessera::bench {

inline constexpr double lapack_bound = 30;

/// A linear map, as far as it can be applied.
using Map = std::function<Vector(const Vector&)>;

/// A square matrix, column by column, or what is stored in its place: triangles.
class Stored {
 public:
  template <class T>
  Stored(const std::vector<T>& elements, std::size_t n) : n_(n), elements_(elements.begin(), elements.end()) {}

  std::size_t n() const { return n_; }
  AnyScalar operator()(std::size_t i, std::size_t j) const { return elements_[i + j * n_]; }

  /// The product of the factors that are stored.
  Vector product_of_factors(const std::vector<int>& pivots, const Vector& x) const {
    Vector y = product(Part::unit_lower, *this, product(Part::upper, *this, x));
    for (std::size_t i = pivots.size(); i-- > 0;) std::swap(y[i], y[static_cast<std::size_t>(pivots[i] - 1)]);
    return y;
  }
  Vector product_of_factors(Uplo uplo, const Vector& x) const {
    const bool lower = uplo == Uplo::lower;
    return product(triangle_of(uplo), *this, product(triangle_of(uplo), *this, x, lower), !lower);
  }

  /// The matrix of the absolute values.
  Stored absolute() const {
    Stored copy = *this;
    for (AnyScalar& x : copy.elements_) x = std::abs(x);
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
      for (AnyScalar& x : vectors[k]) x = random() % 2 == 0 ? 1 : -1;
    }
  }
  return {vectors, all ? 1 : std::sqrt(static_cast<double>(n))};
}

/// |A - B|_1 or an estimate of it; not a number if there is one in an image.
inline double difference(const Map& A, const Map& B, std::size_t n) {
  const auto [vectors, factor] = probes(n);
  double largest = 0;
  for (const Vector& v : vectors) {
    const double norm = distance1(A(v), B(v)) / factor;
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

/// Whether pivots are in their range, and factors below the diagonal no larger than interchanges let them be.
inline bool are_interchanged(const CheckedProblem& p) {
  const std::size_t n = p.A.n();
  for (std::size_t i = 0; i < n; ++i) {
    if (p.pivots[i] <= static_cast<int>(i) || p.pivots[i] > static_cast<int>(n)) return false;
  }
  // Pivots of complex matrices are the largest by |re| + |im|.
  return !p.what.factors() || p.result.largest_below() <= std::sqrt(2.0) + 1e-3;
}

/// The largest |A x - b|_1 / |x|_1 of the right-hand sides; not a number if there is one in a solution.
inline double residual_of_solutions(const CheckedProblem& p, const Map& of_a) {
  const std::size_t n = p.A.n();
  double largest = 0;
  for (std::size_t j = 0; j * n < p.B.size(); ++j) {
    const auto begin = static_cast<std::ptrdiff_t>(j * n), end = begin + static_cast<std::ptrdiff_t>(n);
    const Vector x(p.X.begin() + begin, p.X.begin() + end), b(p.B.begin() + begin, p.B.begin() + end);
    const double of_column = distance1(of_a(x), b) / norm1(x);
    if (!(of_column <= largest)) largest = of_column;
    if (std::isnan(of_column)) break;
  }
  return largest;
}

/// |R|_1 / (n |A|_1 eps), of solutions and inverses |R|_1 / (n |A|_1 |X|_1 eps). Infinite where pivots are not in their
/// range or factors below the diagonal are larger than interchanges let them be.
inline double lapack_residual(const CheckedProblem& p) {
  const LapackCase& c = p.what;
  const std::size_t n = p.A.n();
  const bool is_single = c.type == ScalarType::s || c.type == ScalarType::c;
  const double eps = is_single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (c.has_pivots() && !are_interchanged(p)) return wrong;

  const bool is_matrix = c.factors() || p.inverts_matrix;
  const Part part = c.is_cholesky() ? hermitian_of(c.uplo) : Part::whole;
  const Map of_a = [&](const Vector& x) { return is_matrix ? product(part, p.A, x) : apply_factors(p, p.A, x); };
  // Of factors by rows, of the product of their absolute values.
  const double norm_a = is_matrix ? norm1(part, p.A, n) : largest_of(apply_factors(p, p.A.absolute(), Vector(n, 1)));
  double residual = 0;
  if (c.solves()) {
    residual = residual_of_solutions(p, of_a);
  } else if (c.inverts()) {
    const Part of_inverse = p.inverts_matrix ? Part::whole : part;
    const Map both = [&](const Vector& x) { return of_a(product(of_inverse, p.result, x)); };
    residual = difference(
                   both, [](const Vector& x) { return x; }, n) /
               norm1(of_inverse, p.result, n);
  } else {
    residual = difference(
        of_a, [&](const Vector& x) { return apply_factors(p, p.result, x); }, n);
  }
  residual /= norm_a * static_cast<double>(n) * eps;
  return std::isnan(residual) ? wrong : residual;
}

}  // namespace tessera::bench
