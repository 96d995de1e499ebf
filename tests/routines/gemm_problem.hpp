// Random gemm problems with poisoned padding, and their comparison with the oracle (DESIGN section 10).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/scalar.hpp"
#include "kernels/host/reference.hpp"
#include "routines/gemm.hpp"

namespace tessera::test {

inline constexpr Op all_ops[] = {Op::no_trans, Op::trans, Op::conj_trans};

template <Scalar T>
T random_scalar(std::mt19937_64& random) {
  std::uniform_real_distribution<double> value(-1, 1);
  if constexpr (std::floating_point<T>) {
    return static_cast<T>(value(random));
  } else {
    using Real = typename T::value_type;
    const auto real = static_cast<Real>(value(random));
    return T(real, static_cast<Real>(value(random)));
  }
}

template <Scalar T>
T poison() {
  if constexpr (std::floating_point<T>) {
    return std::numeric_limits<T>::quiet_NaN();
  } else {
    constexpr auto nan = std::numeric_limits<typename T::value_type>::quiet_NaN();
    return T(nan, nan);
  }
}

/// Column-major rows x cols with `ld` and random elements; the padding holds NaN.
template <Scalar T>
std::vector<T> random_matrix(index_t rows, index_t cols, index_t ld, std::mt19937_64& random) {
  std::vector<T> matrix(static_cast<std::size_t>(ld * cols), poison<T>());
  for (index_t j = 0; j < cols; ++j) {
    for (index_t i = 0; i < rows; ++i) matrix[static_cast<std::size_t>(i + j * ld)] = random_scalar<T>(random);
  }
  return matrix;
}

template <Scalar T>
double frobenius(const std::vector<T>& matrix, index_t rows, index_t cols, index_t ld) {
  double sum = 0;
  for (index_t j = 0; j < cols; ++j) {
    for (index_t i = 0; i < rows; ++i) sum += std::norm(std::complex<double>(matrix[static_cast<std::size_t>(i + j * ld)]));
  }
  return std::sqrt(sum);
}

struct GemmCase {
  Op op_a = Op::no_trans;
  Op op_b = Op::no_trans;
  index_t m = 1, n = 1, k = 1;
  AnyScalar alpha = 1;
  AnyScalar beta = 0;
  index_t padding = 3;  ///< added to every leading dimension
};

inline std::ostream& operator<<(std::ostream& out, const GemmCase& c) {
  return out << "ops " << static_cast<int>(c.op_a) << static_cast<int>(c.op_b) << " m " << c.m << " n " << c.n << " k " << c.k
             << " alpha " << c.alpha << " beta " << c.beta << " padding " << c.padding;
}

/// A case with its matrices; run it by handing problem() to what is under test, then check().
template <Scalar T>
class GemmFixture {
 public:
  GemmFixture(const GemmCase& c, unsigned seed) : case_(c) {
    std::mt19937_64 random(seed);
    const bool a_plain = c.op_a == Op::no_trans;
    const bool b_plain = c.op_b == Op::no_trans;
    a_rows_ = a_plain ? c.m : c.k;
    a_cols_ = a_plain ? c.k : c.m;
    b_rows_ = b_plain ? c.k : c.n;
    b_cols_ = b_plain ? c.n : c.k;
    lda_ = a_rows_ + c.padding;
    ldb_ = b_rows_ + c.padding;
    ldc_ = c.m + c.padding;
    A_ = random_matrix<T>(a_rows_, a_cols_, lda_, random);
    B_ = random_matrix<T>(b_rows_, b_cols_, ldb_, random);
    C_ = random_matrix<T>(c.m, c.n, ldc_, random);
    before_ = C_;
    if (c.beta == AnyScalar(0)) {  // must not be read
      for (index_t j = 0; j < c.n; ++j) {
        for (index_t i = 0; i < c.m; ++i) C_[static_cast<std::size_t>(i + j * ldc_)] = poison<T>();
      }
    }
    A_before_ = A_;
    B_before_ = B_;
  }

  Level3 problem() {
    return {.type = scalar_type_of<T>(),
            .op_a = case_.op_a,
            .op_b = case_.op_b,
            .m = case_.m,
            .n = case_.n,
            .k = case_.k,
            .alpha = case_.alpha,
            .A = A_.data(),
            .lda = lda_,
            .B = B_.data(),
            .ldb = ldb_,
            .beta = case_.beta,
            .C = C_.data(),
            .ldc = ldc_};
  }

  ::testing::AssertionResult check() const {
    std::vector<T> expected = before_;
    const T alpha = scalar_cast<T>(case_.alpha);
    const T beta = scalar_cast<T>(case_.beta);
    kernels::reference_gemm<T, kernels::Wide<T>>(case_.op_a, case_.op_b, case_.m, case_.n, case_.k, alpha, A_.data(), lda_,
                                                 B_.data(), ldb_, beta, expected.data(), ldc_);
    double difference = 0;
    for (index_t j = 0; j < case_.n; ++j) {
      for (index_t i = 0; i < case_.m; ++i) {
        const auto at = static_cast<std::size_t>(i + j * ldc_);
        difference += std::norm(std::complex<double>(C_[at]) - std::complex<double>(expected[at]));
      }
      for (index_t i = case_.m; i < ldc_; ++i) {
        const auto at = static_cast<std::size_t>(i + j * ldc_);
        if (std::memcmp(&C_[at], &before_[at], sizeof(T)) != 0) {
          return ::testing::AssertionFailure() << "padding of C written at (" << i << ", " << j << "): " << case_;
        }
      }
    }
    using Real = decltype(std::abs(T{}));
    const double u = std::numeric_limits<Real>::epsilon() / 2;
    const double factor = std::floating_point<T> ? 1 : 2 * std::sqrt(2.0);
    // The worst case, not the square root of k that rounding errors add up to on average: these problems are small, and an element
    // that is a handful of roundings has no average.
    const double bound = factor * u *
                         ((static_cast<double>(case_.k) + 3) * std::abs(case_.alpha) *
                              frobenius(A_, a_rows_, a_cols_, lda_) * frobenius(B_, b_rows_, b_cols_, ldb_) +
                          3 * std::abs(case_.beta) * frobenius(before_, case_.m, case_.n, ldc_));
    if (!(std::sqrt(difference) <= bound)) {
      return ::testing::AssertionFailure() << "error " << std::sqrt(difference) << " > " << bound << ": " << case_;
    }
    if (std::memcmp(A_.data(), A_before_.data(), A_.size() * sizeof(T)) != 0 ||
        std::memcmp(B_.data(), B_before_.data(), B_.size() * sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "an input was written: " << case_;
    }
    return ::testing::AssertionSuccess();
  }

 private:
  GemmCase case_;
  index_t a_rows_, a_cols_, b_rows_, b_cols_, lda_, ldb_, ldc_;
  std::vector<T> A_, B_, C_, before_, A_before_, B_before_;
};

/// Runs a case of each of the four types on the runtime and checks it.
inline void expect_right_in_all_types(runtime::Runtime& runtime, const GemmCase& c, index_t tile, unsigned seed) {
  for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
    dispatch(type, [&]<class T>(T) {
      GemmFixture<T> fixture(c, seed);
      routines::run_gemm(runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check()) << "type " << letter(type) << " tile " << tile;
    });
  }
}

}  // namespace tessera::test
