// Problems of LAPACK's batched routines, and checks of their results. Residuals are those of LAPACK's own tests, in
// more precision than the routine's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "calls/arguments.hpp"
#include "calls/lapack.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

/// The common part of the problems of a batch.
struct LapackVariant {
  Routine routine;
  Uplo uplo = Uplo::lower;
  Op op = Op::no_trans;
  index_t incx = 1;
  double tiny = 0;
  bool with_pivots = true;  ///< getrs, getri
};

template <Scalar T>
using RealPart = typename RealOf<T>::type;

/// One problem, in host memory. Rows and columns count from 0, pivots from 1.
template <Scalar T>
struct LapackProblem {
  index_t m = 0, n = 0, nrhs = 0, lda = 1, ldb = 1;
  index_t k1 = 1, k2 = 0;  ///< laswp
  std::vector<T> A, B;
  std::vector<index_t> ipiv;
  index_t info = 0;

  T& a(index_t i, index_t j) { return A[static_cast<std::size_t>(i + j * lda)]; }
  const T& a(index_t i, index_t j) const { return A[static_cast<std::size_t>(i + j * lda)]; }
  T& b(index_t i, index_t j) { return B[static_cast<std::size_t>(i + j * ldb)]; }
  const T& b(index_t i, index_t j) const { return B[static_cast<std::size_t>(i + j * ldb)]; }
};

inline bool is_stored(const LapackVariant& variant, index_t i, index_t j) {
  if (!is_hermitian(variant.routine)) return true;
  return variant.uplo == Uplo::lower ? i >= j : i <= j;
}

/// The size by which pivots are compared.
template <Scalar T>
RealPart<T> magnitude(T value) {
  return std::abs(std::real(value)) + std::abs(std::imag(value));
}
template <class T>
T conjugate(T value) {
  if constexpr (std::floating_point<T>)
    return value;
  else
    return std::conj(value);
}
template <class To, class From>
To widened(From value) {
  if constexpr (std::floating_point<From>)
    return static_cast<To>(value);
  else
    return To(std::real(value), std::imag(value));
}
template <Scalar T>
T narrowed(std::complex<double> value) {
  return scalar_cast<T>(AnyScalar(value));
}

/// A linear map that can be applied to a vector, in more precision than T has.
template <Scalar T>
class Map {
 public:
  using WideReal = std::conditional_t<std::is_same_v<RealPart<T>, float>, double, long double>;
  using Wide = std::conditional_t<std::floating_point<T>, WideReal, std::complex<WideReal>>;
  using Vector = std::vector<Wide>;

  index_t columns = 0;
  std::function<Vector(const Vector&)> apply;

  Vector column(index_t j) const {
    Vector unit(static_cast<std::size_t>(columns));
    unit[static_cast<std::size_t>(j)] = 1;
    return apply(unit);
  }
  /// All columns or, if there are many, some of them.
  std::vector<index_t> sampled_columns() const {
    const index_t step = columns <= 140 ? 1 : columns / 11;
    std::vector<index_t> sampled;
    for (index_t j = 0; j < columns; j += step) sampled.push_back(j);
    if (sampled.empty() || sampled.back() != columns - 1) sampled.push_back(columns - 1);
    return sampled;
  }
  static WideReal norm(const Vector& vector) {
    WideReal sum = 0;
    for (const Wide& element : vector) sum += std::abs(element);
    return sum;
  }
  /// A number that is at most the 1-norm.
  WideReal norm() const {
    WideReal largest = 0;
    for (const index_t j : sampled_columns()) largest = std::max(largest, norm(column(j)));
    return largest;
  }
  static Vector difference(Vector one, const Vector& other) {
    for (std::size_t i = 0; i < one.size(); ++i) one[i] -= other[i];
    return one;
  }
  static Vector conjugated(Vector vector) {
    for (Wide& element : vector) element = conjugate(element);
    return vector;
  }
};

/// A's elements: m x n, or n x n by one triangle.
template <Scalar T>
Map<T> matrix_map(const LapackVariant& variant, const LapackProblem<T>& problem) {
  using Wide = typename Map<T>::Wide;
  return {problem.n, [&variant, &problem](const std::vector<Wide>& x) {
            const bool is_symmetric = is_hermitian(variant.routine);
            std::vector<Wide> y(static_cast<std::size_t>(is_symmetric ? problem.n : problem.m));
            for (index_t j = 0; j < problem.n; ++j) {
              const Wide factor = x[static_cast<std::size_t>(j)];
              if (factor == Wide(0)) continue;
              for (index_t i = 0; i < static_cast<index_t>(y.size()); ++i) {
                Wide element;
                if (is_symmetric && i == j)
                  element = Wide(std::real(problem.a(i, i)));
                else if (is_stored(variant, i, j))
                  element = widened<Wide>(problem.a(i, j));
                else
                  element = conjugate(widened<Wide>(problem.a(j, i)));
                y[static_cast<std::size_t>(i)] += element * factor;
              }
            }
            return y;
          }};
}

/// The map L L^H, by the factor in A.
template <Scalar T>
Map<T> cholesky_map(const LapackVariant& variant, const LapackProblem<T>& problem) {
  using Wide = typename Map<T>::Wide;
  return {problem.n, [&variant, &problem](const std::vector<Wide>& x) {
            const auto L = [&](index_t i, index_t j) {
              return variant.uplo == Uplo::lower ? widened<Wide>(problem.a(i, j))
                                                 : conjugate(widened<Wide>(problem.a(j, i)));
            };
            const index_t n = problem.n;
            std::vector<Wide> z(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n));
            for (index_t j = 0; j < n; ++j) {
              for (index_t i = j; i < n; ++i)
                z[static_cast<std::size_t>(j)] += conjugate(L(i, j)) * x[static_cast<std::size_t>(i)];
            }
            for (index_t j = 0; j < n; ++j) {
              for (index_t i = j; i < n; ++i)
                y[static_cast<std::size_t>(i)] += L(i, j) * z[static_cast<std::size_t>(j)];
            }
            return y;
          }};
}

template <class Element>
void interchange(std::vector<Element>& rows, const std::vector<index_t>& ipiv, bool forward) {
  const std::size_t count = ipiv.size();
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t i = forward ? t : count - 1 - t;
    std::swap(rows[i], rows[static_cast<std::size_t>(ipiv[i] - 1)]);
  }
}

/// The map P L U, m x n, by the factors in A and the pivots. With an op, the matrix must be square.
template <Scalar T>
Map<T> lu_map(const LapackProblem<T>& problem, Op op = Op::no_trans) {
  using Wide = typename Map<T>::Wide;
  using Vector = std::vector<Wide>;
  return {problem.n, [&problem, op](const Vector& x) {
            const index_t m = problem.m, n = problem.n, k = std::min(m, n);
            const auto a = [&](index_t i, index_t j) { return widened<Wide>(problem.a(i, j)); };
            const auto at = [](auto& vector, index_t i) -> auto& { return vector[static_cast<std::size_t>(i)]; };
            if (op == Op::no_trans) {
              Vector z(static_cast<std::size_t>(k)), y(static_cast<std::size_t>(m));
              for (index_t j = 0; j < n; ++j) {
                if (at(x, j) == Wide(0)) continue;
                for (index_t i = 0; i <= std::min(j, k - 1); ++i) at(z, i) += a(i, j) * at(x, j);
              }
              for (index_t j = 0; j < k; ++j) {
                at(y, j) += at(z, j);
                for (index_t i = j + 1; i < m; ++i) at(y, i) += a(i, j) * at(z, j);
              }
              interchange(y, problem.ipiv, false);
              return y;
            }
            Vector permuted = op == Op::conj_trans ? Map<T>::conjugated(x) : x;
            interchange(permuted, problem.ipiv, true);
            Vector z(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n));
            for (index_t j = 0; j < n; ++j) {
              at(z, j) = at(permuted, j);
              for (index_t i = j + 1; i < n; ++i) at(z, j) += a(i, j) * at(permuted, i);
            }
            for (index_t j = 0; j < n; ++j) {
              for (index_t i = 0; i <= j; ++i) at(y, j) += a(i, j) * at(z, i);
            }
            return op == Op::conj_trans ? Map<T>::conjugated(y) : y;
          }};
}

/// The bound of LAPACK's test programs.
inline constexpr double largest_ratio = 30;

template <Scalar T>
::testing::AssertionResult is_small(typename Map<T>::WideReal residual, index_t n, typename Map<T>::WideReal scale,
                                    const char* what) {
  using WideReal = typename Map<T>::WideReal;
  const WideReal eps = std::numeric_limits<RealPart<T>>::epsilon() / 2;
  const WideReal bound =
      static_cast<WideReal>(largest_ratio) * static_cast<WideReal>(std::max<index_t>(n, 1)) * scale * eps;
  if (residual <= bound) return ::testing::AssertionSuccess();  // false for a NaN
  return ::testing::AssertionFailure() << what << ": residual " << static_cast<double>(residual) << ", bound "
                                       << static_cast<double>(bound) << ", n = " << n;
}

/// The product of the factors, one column at a time.
template <Scalar T>
::testing::AssertionResult factors_agree(const Map<T>& before, const Map<T>& factors) {
  typename Map<T>::WideReal worst = 0;
  for (const index_t j : before.sampled_columns()) {
    const auto residual = Map<T>::norm(Map<T>::difference(before.column(j), factors.column(j)));
    if (!(residual <= worst)) worst = residual;
  }
  return is_small<T>(worst, before.columns, before.norm(), "factors");
}

template <Scalar T>
::testing::AssertionResult solves_system(const Map<T>& map, const LapackProblem<T>& before,
                                         const LapackProblem<T>& after) {
  using Wide = typename Map<T>::Wide;
  const auto norm = map.norm();
  for (index_t v = 0; v < before.nrhs; ++v) {
    std::vector<Wide> x, b;
    for (index_t i = 0; i < before.n; ++i) {
      x.push_back(widened<Wide>(after.b(i, v)));
      b.push_back(widened<Wide>(before.b(i, v)));
    }
    const auto residual = Map<T>::norm(Map<T>::difference(map.apply(x), b));
    const auto result = is_small<T>(residual, before.n, norm * Map<T>::norm(x), "solution");
    if (!result) return result;
  }
  return ::testing::AssertionSuccess();
}

template <Scalar T>
::testing::AssertionResult is_inverse(const Map<T>& map, const Map<T>& inverse) {
  typename Map<T>::WideReal worst = 0;
  for (const index_t j : map.sampled_columns()) {
    auto product = map.apply(inverse.column(j));
    product[static_cast<std::size_t>(j)] -= 1;
    const auto residual = Map<T>::norm(product);
    if (!(residual <= worst)) worst = residual;
  }
  return is_small<T>(worst, map.columns, map.norm() * inverse.norm(), "inverse");
}

/// Random, well conditioned problems of a routine. potrs, potri, getrs and getri get factors as input.
template <Scalar T>
class LapackProblems {
 public:
  LapackProblems(const LapackVariant& variant, unsigned seed) : variant_(variant), random_(seed) {}

  LapackProblem<T> make(index_t m, index_t n, index_t nrhs, index_t padding = 0) {
    LapackProblem<T> problem = make_empty(m, n, nrhs, padding);
    for (index_t j = 0; j < problem.n; ++j) {
      for (index_t i = 0; i < problem.m; ++i) {
        if (is_stored(variant_, i, j)) problem.a(i, j) = element(i, j, problem);
      }
    }
    for (index_t v = 0; v < problem.nrhs; ++v) {
      for (index_t i = 0; i < problem.n; ++i) problem.b(i, v) = random_scalar<T>(random_);
    }
    choose_pivots(problem);
    return problem;
  }

  /// A problem with NaN everywhere.
  LapackProblem<T> make_empty(index_t m, index_t n, index_t nrhs, index_t padding = 0) const {
    LapackProblem<T> problem;
    const bool is_square = position_of(variant_.routine, Parameter::m) == 0 && variant_.routine != Routine::laswp;
    problem.m = is_square ? n : m;
    problem.n = n;
    problem.lda = std::max<index_t>(problem.m, 1) + padding;
    problem.A.assign(static_cast<std::size_t>(problem.lda * n), poison<T>());
    if (solves(variant_.routine)) {
      problem.nrhs = nrhs;
      problem.ldb = std::max<index_t>(n, 1) + padding / 2;
      problem.B.assign(static_cast<std::size_t>(problem.ldb * nrhs), poison<T>());
    }
    if (variant_.routine == Routine::getrf || variant_.routine == Routine::gesv)
      problem.ipiv.assign(static_cast<std::size_t>(std::min(problem.m, n)), -77);
    return problem;
  }

  index_t integer(index_t least, index_t most) { return std::uniform_int_distribution<index_t>(least, most)(random_); }
  std::mt19937_64& random() { return random_; }

 private:
  T element(index_t i, index_t j, const LapackProblem<T>& problem) {
    using enum Routine;
    const T value = random_scalar<T>(random_);
    const double order = static_cast<double>(problem.n);
    switch (variant_.routine) {
      case potrf:
      case posv:
        if (i != j) return value;
        // Imaginary parts of the diagonal are not read.
        return narrowed<T>({0.7 * order + 1, std::numeric_limits<double>::quiet_NaN()});
      case potrs:
      case potri:
        if (i == j) return T(1 + std::abs(std::real(value)));
        return value / T(static_cast<RealPart<T>>(std::sqrt(order)));
      case getrs:
      case getri:
        if (i == j) return value + T(std::real(value) < 0 ? RealPart<T>(-1) : RealPart<T>(1));
        return value / T(static_cast<RealPart<T>>(std::sqrt(order)));
      case getrf_nopiv:
        return i == j ? value + T(static_cast<RealPart<T>>(order)) : value;
      default:
        break;
    }
    return value;
  }

  void choose_pivots(LapackProblem<T>& problem) {
    using enum Routine;
    if (variant_.routine == laswp) {
      // The same in all problems of one size.
      problem.k1 = std::max<index_t>(std::min(1 + problem.m % 3, problem.m), 1);
      problem.k2 = problem.m > 0 ? std::max(problem.k1, problem.m - problem.m % 2) : 0;
      const index_t pivots = problem.k1 + (problem.k2 - problem.k1) * std::abs(variant_.incx);
      for (index_t i = 0; i < std::max<index_t>(pivots, 1); ++i)
        problem.ipiv.push_back(integer(1, std::max<index_t>(problem.m, 1)));
    } else if ((variant_.routine == getrs || variant_.routine == getri) && variant_.with_pivots) {
      for (index_t i = 1; i <= problem.n; ++i) problem.ipiv.push_back(integer(i, problem.n));
    }
  }

  LapackVariant variant_;
  std::mt19937_64 random_;
};

/// Whether |L| <= 1, and each pivot comes from the remaining rows.
template <Scalar T>
::testing::AssertionResult has_good_pivots(const LapackProblem<T>& after) {
  const RealPart<T> eps = std::numeric_limits<RealPart<T>>::epsilon();
  const RealPart<T> most =
      (is_complex(scalar_type_of<T>()) ? std::sqrt(RealPart<T>(2)) : RealPart<T>(1)) * (1 + 4 * eps);
  for (index_t j = 0; j < std::min(after.m, after.n); ++j) {
    const index_t pivot = after.ipiv[static_cast<std::size_t>(j)];
    if (pivot <= j || pivot > after.m) return ::testing::AssertionFailure() << "pivot " << pivot << " of row " << j;
    for (index_t i = j + 1; i < after.m; ++i) {
      if (!(std::abs(after.a(i, j)) <= most)) return ::testing::AssertionFailure() << "L(" << i << ", " << j << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

template <Scalar T>
::testing::AssertionResult rows_are_interchanged(const LapackVariant& variant, const LapackProblem<T>& before,
                                                 const LapackProblem<T>& after) {
  LapackProblem<T> expected = before;
  const index_t step = std::abs(variant.incx), rows = before.k2 - before.k1 + 1;
  for (index_t t = 0; t < rows && variant.incx != 0; ++t) {
    const index_t i = variant.incx > 0 ? t : rows - 1 - t;
    const index_t one = before.k1 - 1 + i, other = before.ipiv[static_cast<std::size_t>(before.k1 - 1 + i * step)] - 1;
    for (index_t j = 0; j < before.n; ++j) {
      const T kept = expected.a(one, j);
      expected.a(one, j) = expected.a(other, j);
      expected.a(other, j) = kept;
    }
  }
  for (index_t j = 0; j < before.n; ++j) {
    for (index_t i = 0; i < before.m; ++i) {
      if (expected.a(i, j) != after.a(i, j)) return ::testing::AssertionFailure() << "row " << i << ", column " << j;
    }
  }
  return ::testing::AssertionSuccess();
}

/// Whether a good problem has a good result.
template <Scalar T>
::testing::AssertionResult is_solved(const LapackVariant& variant, const LapackProblem<T>& before,
                                     const LapackProblem<T>& after) {
  using enum Routine;
  if (after.info != 0) return ::testing::AssertionFailure() << "info = " << after.info;
  if (variant.routine == laswp) return rows_are_interchanged(variant, before, after);
  if (before.m == 0 || before.n == 0) return ::testing::AssertionSuccess();
  if (is_hermitian(variant.routine) && variant.routine != potrs) {
    for (index_t j = 0; j < after.n; ++j) {
      if (std::imag(after.a(j, j)) != 0)
        return ::testing::AssertionFailure() << "diagonal element " << j << " is not real";
    }
  }
  if (variant.routine == potrf || variant.routine == posv) {
    if (const auto good = factors_agree(matrix_map(variant, before), cholesky_map(variant, after)); !good) return good;
  }
  if (variant.routine == getrf || variant.routine == gesv || variant.routine == getrf_nopiv) {
    if (const auto good = factors_agree(matrix_map(variant, before), lu_map(after)); !good) return good;
    if (variant.routine != getrf_nopiv) {
      if (const auto good = has_good_pivots(after); !good) return good;
    }
  }
  switch (variant.routine) {
    case potrs:
      return solves_system(cholesky_map(variant, before), before, after);
    case posv:
    case gesv:
      return solves_system(matrix_map(variant, before), before, after);
    case getrs:
      return solves_system(lu_map(before, variant.op), before, after);
    case potri:
      return is_inverse(cholesky_map(variant, before), matrix_map(variant, after));
    case getri:
      return is_inverse(lu_map(before), matrix_map(variant, after));
    default:
      return ::testing::AssertionSuccess();
  }
}

}  // namespace tessera::test
