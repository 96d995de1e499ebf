// Positive definite matrices with everything poisoned that potrf must neither read nor write, and the check of their factors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "calls/level3.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_lapack.hpp"
#include "routines/lapack.hpp"
#include "tests/level3_problem.hpp"
#include "tests/special_values.hpp"

namespace tessera::test {

struct CholeskyCase {
  Uplo uplo = Uplo::lower;
  index_t n = 1;
  index_t padding = 3;
  index_t indefinite_at = -1;  ///< the minor that ends with this row is not positive definite; -1: all are
  bool with_nan = false;       ///< because there is a NaN on the diagonal
};

inline std::ostream& operator<<(std::ostream& out, const CholeskyCase& c) {
  return out << (c.uplo == Uplo::lower ? "lower" : "upper") << " n " << c.n << " padding " << c.padding
             << " indefinite at " << c.indefinite_at << (c.with_nan ? " by a NaN" : "");
}

template <Scalar T>
class CholeskyFixture {
 public:
  CholeskyFixture(const CholeskyCase& c, unsigned seed) : case_(c), ld_(c.n + c.padding) {
    std::mt19937_64 random(seed);
    A_.assign(static_cast<std::size_t>(ld_ * c.n), poison<T>());
    for (index_t j = 0; j < c.n; ++j) {
      for (index_t i = 0; i < c.n; ++i) {
        if (is_stored(i, j)) at(A_, i, j) = random_scalar<T>(random);
      }
      // Dominant, but not by far, so that columns of the factor depend on each other.
      at(A_, j, j) = with_imaginary_poison(2 * std::sqrt(static_cast<double>(c.n)) + 1);
    }
    if (c.indefinite_at >= 0) {
      at(A_, c.indefinite_at, c.indefinite_at) =
          with_imaginary_poison(c.with_nan ? std::numeric_limits<double>::quiet_NaN() : -1);
    }
    before_ = A_;
  }

  routines::CholeskyCall call() {
    return {.type = scalar_type_of<T>(), .uplo = case_.uplo, .n = case_.n, .A = A_.data(), .lda = ld_};
  }

  /// Of the stored triangle, wherever its mirror image is named.
  T& element(index_t i, index_t j) { return is_stored(i, j) ? at(A_, i, j) : at(A_, j, i); }
  /// After a change of elements.
  void begin_anew() { before_ = A_; }

  /// info is the reference's; where there is a factor, its elements are finite where those of the reference are.
  ::testing::AssertionResult check_what_is_finite(index_t info) const {
    std::vector<T> expected = before_;
    if (const index_t told = factor(expected); info != told)
      return ::testing::AssertionFailure() << case_ << ": info " << info << ", not " << told;
    for (index_t j = 0; info == 0 && j < case_.n; ++j) {
      for (index_t i = 0; i < case_.n; ++i) {
        if (is_stored(i, j) && is_finite(at(A_, i, j)) != is_finite(at(expected, i, j)))
          return ::testing::AssertionFailure() << case_ << ": (" << i << ", " << j << ") is " << at(A_, i, j)
                                               << ", and with the reference " << at(expected, i, j);
      }
    }
    return ::testing::AssertionSuccess();
  }

  /// The info that LAPACK returns.
  index_t expected_info() const {
    std::vector<T> copy = before_;
    return factor(copy);
  }

  /// @param info that was told
  /// @param final_columns of a factorization that broke down: so many (rows, of the upper triangle) are final
  ::testing::AssertionResult check(index_t info, index_t final_columns) const {
    for (index_t j = 0; j < case_.n; ++j) {
      for (index_t i = 0; i < ld_; ++i) {
        if ((i >= case_.n || !is_stored(i, j)) && std::memcmp(&at(A_, i, j), &at(before_, i, j), sizeof(T)) != 0)
          return ::testing::AssertionFailure() << case_ << ": (" << i << ", " << j << ") was written";
      }
    }
    if (const index_t expected = expected_info(); info != expected)
      return ::testing::AssertionFailure() << case_ << ": info " << info << ", not " << expected;
    return info == 0 ? check_residual() : check_columns(final_columns);
  }

 private:
  using Real = decltype(std::abs(T{}));

  bool is_stored(index_t i, index_t j) const { return case_.uplo == Uplo::lower ? i >= j : i <= j; }
  T& at(std::vector<T>& matrix, index_t i, index_t j) const { return matrix[static_cast<std::size_t>(i + j * ld_)]; }
  const T& at(const std::vector<T>& matrix, index_t i, index_t j) const {
    return matrix[static_cast<std::size_t>(i + j * ld_)];
  }
  static T with_imaginary_poison(double real) {
    return scalar_cast<T>(AnyScalar(real, std::numeric_limits<double>::quiet_NaN()));
  }
  index_t factor(std::vector<T>& matrix) const {
    int info = 0;
    kernels::LapackBatch one;
    one.routine = Routine::potrf;
    one.type = scalar_type_of<T>();
    one.uplo = case_.uplo;
    one.count = 1;
    one.n.of_all = one.max_n = case_.n;
    one.lda.of_all = ld_;
    one.A.first = matrix.data();
    one.info = &info;
    kernels::reference_lapack_batch(one);
    return info;
  }

  /// ||A - L L^H||_1 / (n ||A||_1 eps), by the oracle.
  ::testing::AssertionResult check_residual() const {
    const index_t n = case_.n;
    std::vector<T> rest(static_cast<std::size_t>(n * n)), L(rest.size());
    const auto full = [&](const std::vector<T>& stored, bool hermitian) {
      std::vector<T> whole(rest.size());
      for (index_t j = 0; j < n; ++j) {
        for (index_t i = 0; i < n; ++i) {
          T& element = whole[static_cast<std::size_t>(i + j * n)];
          if (is_stored(i, j)) element = at(stored, i, j);
          if (i == j) element = T(std::real(element));
          if (!is_stored(i, j) && hermitian) element = scalar_cast<T>(conj(AnyScalar(at(stored, j, i))));
        }
      }
      return whole;
    };
    for (index_t j = 0; j < n; ++j) {
      if (!(std::imag(AnyScalar(at(A_, j, j))) == 0))
        return ::testing::AssertionFailure() << case_ << ": the diagonal is not real";
    }
    rest = full(before_, true);
    const double norm = norm_of(rest);
    L = full(A_, false);
    const Op adjoint = is_complex(scalar_type_of<T>()) ? Op::conj_trans : Op::trans;
    const bool lower = case_.uplo == Uplo::lower;
    Level3 product{.routine = Routine::gemm,
                   .type = scalar_type_of<T>(),
                   .op_a = lower ? Op::no_trans : adjoint,
                   .op_b = lower ? adjoint : Op::no_trans,
                   .m = n,
                   .n = n,
                   .k = n,
                   .alpha = -1,
                   .A = L.data(),
                   .lda = n,
                   .B = L.data(),
                   .ldb = n,
                   .beta = 1,
                   .C = rest.data(),
                   .ldc = n};
    kernels::oracle_level3(product);
    const double residual =
        norm_of(rest) / (static_cast<double>(n) * norm * static_cast<double>(std::numeric_limits<Real>::epsilon()));
    if (residual < 30) return ::testing::AssertionSuccess();  // a NaN fails this
    return ::testing::AssertionFailure() << case_ << ": residual " << residual;
  }

  double norm_of(const std::vector<T>& matrix) const {
    double largest = 0;
    for (index_t j = 0; j < case_.n; ++j) {
      double sum = 0;
      for (index_t i = 0; i < case_.n; ++i)
        sum += static_cast<double>(std::abs(matrix[static_cast<std::size_t>(i + j * case_.n)]));
      largest = sum > largest || std::isnan(sum) ? sum : largest;
    }
    return largest;
  }

  /// Those of the factor that the matrix has up to there; everything behind is another matrix, so that all of it exists.
  ::testing::AssertionResult check_columns(index_t columns) const {
    std::vector<T> definite = before_;
    at(definite, case_.indefinite_at, case_.indefinite_at) = with_imaginary_poison(1e4);
    factor(definite);
    const double bound = 1e3 * static_cast<double>(case_.n) * static_cast<double>(std::numeric_limits<Real>::epsilon());
    for (index_t j = 0; j < case_.n; ++j) {
      for (index_t i = 0; i < case_.n; ++i) {
        if (!is_stored(i, j) || std::min(i, j) >= columns) continue;
        const double error = static_cast<double>(std::abs(at(A_, i, j) - at(definite, i, j)));
        if (!(error <= bound))
          return ::testing::AssertionFailure() << case_ << ": (" << i << ", " << j << ") is not final";
      }
    }
    return ::testing::AssertionSuccess();
  }

  CholeskyCase case_;
  index_t ld_;
  std::vector<T> A_, before_;
};

}  // namespace tessera::test
