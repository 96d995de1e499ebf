// Problems of LAPACK's batched routines with known factors and pivots, which are exact in every order of operations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "calls/lapack.hpp"
#include "tests/device_api/lapack_problem.hpp"

namespace tessera::test {

/// A matrix with exact factors. All intermediate numbers are quarters of small integers, in any order of summation.
/// Pivots are powers of two, times 1, i or their sum.
template <Scalar T>
struct ExactFactors {
  LapackProblem<T> problem;
  LapackProblem<T> expected;  ///< A, pivots and info afterwards

  /// Scales the elements of both by a power of two. That scales U; it scales Cholesky factors by its root.
  void scale(const LapackVariant& variant, int exponent) {
    const auto times = [](T& value, int power) { value *= T(std::ldexp(RealPart<T>(1), power)); };
    for (index_t j = 0; j < problem.n; ++j) {
      for (index_t i = 0; i < problem.m; ++i) {
        if (!is_stored(variant, i, j)) continue;
        times(problem.a(i, j), exponent);
        if (is_hermitian(variant.routine))
          times(expected.a(i, j), exponent / 2);
        else if (i <= j)
          times(expected.a(i, j), exponent);
      }
    }
  }
};

template <Scalar T>
class ExactProblems {
 public:
  ExactProblems(const LapackVariant& variant, unsigned seed) : variant_(variant), problems_(variant, seed) {}

  struct Wish {
    bool ties = false;  ///< elements as large as the pivot follow it
    bool interchanges = true;
    std::optional<index_t> zero_pivot = {};  ///< among the columns up to it only this one becomes zero
    std::optional<index_t> rank = {};        ///< after so many columns all remaining elements are zero
  };

  /// Builds P L U backwards: the remaining matrix after column j from the one after column j + 1.
  ExactFactors<T> lu(index_t m, index_t n, index_t nrhs, const Wish& wish, index_t padding = 0) {
    ExactFactors<T> made = start(m, n, nrhs, padding);
    const index_t k = std::min(m, n);
    std::vector<std::complex<double>> left(static_cast<std::size_t>(m * n)), factors = left;
    const auto at = [m](auto& matrix, index_t i, index_t j) -> auto& {
      return matrix[static_cast<std::size_t>(i + j * m)];
    };
    std::vector<index_t> pivot_of(static_cast<std::size_t>(k));
    for (index_t j = k - 1; j >= 0; --j) {
      const bool is_nothing = wish.rank && j >= *wish.rank;
      const bool is_zero = is_nothing || (wish.zero_pivot && j == *wish.zero_pivot);
      const index_t row = is_zero || !wish.interchanges ? j : problems_.integer(j, m - 1);
      pivot_of[static_cast<std::size_t>(j)] = row;
      if (!is_zero) at(factors, j, j) = pivot();
      for (index_t c = j + 1; c < n; ++c) at(factors, j, c) = is_nothing ? 0 : small_integer();
      for (index_t i = j + 1; i < m; ++i) {
        const std::complex<double> l = is_zero ? 0 : multiplier(at(factors, j, j), wish.ties && i > row);
        at(factors, i, j) = l;
        at(left, i, j) = l * at(factors, j, j);
        for (index_t c = j + 1; c < n; ++c) at(left, i, c) += l * at(factors, j, c);
      }
      for (index_t c = j; c < n; ++c) {
        at(left, j, c) = at(factors, j, c);
        std::swap(at(left, j, c), at(left, row, c));
      }
    }
    // Later interchanges move rows of the earlier columns of L, too.
    for (index_t j = 0; j < k; ++j) {
      for (index_t c = 0; c < j; ++c)
        std::swap(at(factors, j, c), at(factors, pivot_of[static_cast<std::size_t>(j)], c));
    }
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = 0; i < m; ++i) {
        made.problem.a(i, j) = narrowed<T>(at(left, i, j));
        made.expected.a(i, j) = narrowed<T>(at(factors, i, j));
      }
    }
    for (std::size_t j = 0; j < made.expected.ipiv.size(); ++j) made.expected.ipiv[j] = pivot_of[j] + 1;
    for (index_t j = k - 1; j >= 0; --j) {
      if (at(factors, j, j) == 0.0) made.expected.info = j + 1;
    }
    return made;
  }

  /// @param bad_minor the order, less 1, of the first minor that is not positive: zero, or smaller by `less`
  ExactFactors<T> cholesky(index_t n, index_t nrhs, std::optional<index_t> bad_minor = {}, double less = 0,
                           index_t padding = 0) {
    ExactFactors<T> made = start(n, n, nrhs, padding);
    std::vector<std::complex<double>> L(static_cast<std::size_t>(n * n));
    const auto l = [&](index_t i, index_t j) -> auto& { return L[static_cast<std::size_t>(i + j * n)]; };
    for (index_t j = 0; j < n; ++j) {
      l(j, j) = std::ldexp(1.0, static_cast<int>(problems_.integer(0, 2)));
      for (index_t i = j + 1; i < n; ++i) l(i, j) = small_integer();
    }
    const bool is_lower = variant_.uplo == Uplo::lower;
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = j; i < n; ++i) {
        std::complex<double> sum = 0;
        for (index_t c = 0; c <= j; ++c) sum += l(i, c) * std::conj(l(j, c));
        if (i == j && bad_minor == i) sum -= l(i, i) * l(i, i) + less;
        const auto put = [&](LapackProblem<T>& problem, std::complex<double> value) {
          (is_lower ? problem.a(i, j) : problem.a(j, i)) = narrowed<T>(is_lower ? value : std::conj(value));
        };
        put(made.problem, sum);
        put(made.expected, l(i, j));
      }
    }
    if (bad_minor) made.expected.info = *bad_minor + 1;
    return made;
  }

  ExactFactors<T> of_routine(index_t m, index_t n, index_t nrhs, const Wish& wish, index_t padding = 0) {
    if (is_hermitian(variant_.routine)) return cholesky(n, nrhs, {}, 0, padding);
    return lu(position_of(variant_.routine, Parameter::m) != 0 ? m : n, n, nrhs, wish, padding);
  }

 private:
  ExactFactors<T> start(index_t m, index_t n, index_t nrhs, index_t padding) {
    ExactFactors<T> made;
    made.problem = problems_.make_empty(m, n, nrhs, padding);
    for (index_t v = 0; v < made.problem.nrhs; ++v) {
      for (index_t i = 0; i < n; ++i) made.problem.b(i, v) = narrowed<T>(small_integer());
    }
    made.expected = made.problem;
    return made;
  }

  std::complex<double> turned(double value) {
    return is_complex(scalar_type_of<T>()) && problems_.integer(0, 1) == 1 ? std::complex<double>(0, value) : value;
  }
  double sign() { return problems_.integer(0, 1) == 1 ? 1 : -1; }
  std::complex<double> pivot() {
    const double value = std::ldexp(sign(), static_cast<int>(problems_.integer(0, 2)));
    if (is_complex(scalar_type_of<T>()) && problems_.integer(0, 2) == 0) return {value, sign() * value};
    return turned(value);
  }
  std::complex<double> small_integer() {
    const auto part = [this] { return static_cast<double>(problems_.integer(-2, 2)); };
    const double real = part();
    return is_complex(scalar_type_of<T>()) ? std::complex<double>(real, part()) : real;
  }
  /// A multiplier whose product with the pivot is smaller than the pivot, or, if `may_be_one`, no larger, by |re| +
  /// |im|. If the pivot has two parts, the product's modulus may be larger: 1.5 beside 1 + i.
  std::complex<double> multiplier(std::complex<double> pivot, bool may_be_one) {
    if (pivot.real() != 0 && pivot.imag() != 0 && problems_.integer(0, 2) == 0) return {0.75 * sign(), 0.75 * sign()};
    const auto value = static_cast<double>(problems_.integer(may_be_one ? -2 : -1, may_be_one ? 2 : 1)) / 2;
    return turned(value);
  }

  LapackVariant variant_;
  LapackProblems<T> problems_;
};

/// Compares the first `order` rows and columns of the factors; without `order` all of them.
template <Scalar T>
::testing::AssertionResult has_these_factors(const LapackVariant& variant, const LapackProblem<T>& after,
                                             const LapackProblem<T>& expected, std::optional<index_t> order = {}) {
  for (index_t j = 0; j < std::min(expected.n, order.value_or(expected.n)); ++j) {
    for (index_t i = 0; i < std::min(expected.m, order.value_or(expected.m)); ++i) {
      if (is_stored(variant, i, j) && after.a(i, j) != expected.a(i, j))
        return ::testing::AssertionFailure()
               << "element (" << i << ", " << j << ") is " << after.a(i, j) << ", not " << expected.a(i, j);
    }
  }
  if (after.ipiv != expected.ipiv) return ::testing::AssertionFailure() << "other pivots";
  if (after.info != expected.info)
    return ::testing::AssertionFailure() << "info is " << after.info << ", not " << expected.info;
  return ::testing::AssertionSuccess();
}

}  // namespace tessera::test
