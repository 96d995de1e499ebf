// Calls of LAPACK on one matrix, with everything poisoned that must neither be read nor written, and their check against
// the readable reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "calls/lapack_call.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

struct LapackCase {
  Routine routine = Routine::getrf;
  index_t m = 1, n = 1, nrhs = 0;
  Uplo uplo = Uplo::lower;
  Op op = Op::no_trans;
  index_t padding = 3;
  int ipiv_bits = 32;
  index_t wrong_at = -1;  ///< column that is zero, or makes a minor that is not positive; -1: none
  bool has_nan = false;   ///< in place of that
};

inline std::ostream& operator<<(std::ostream& out, const LapackCase& c) {
  return out << name_of(c.routine) << " m " << c.m << " n " << c.n << " nrhs " << c.nrhs
             << (c.uplo == Uplo::lower ? " lower" : " upper") << " op " << static_cast<int>(c.op) << " padding "
             << c.padding << " pivots of " << c.ipiv_bits << " bits, wrong at " << c.wrong_at
             << (c.has_nan ? " by a NaN" : "");
}

template <Scalar T>
class LapackCallProblem {
 public:
  LapackCallProblem(const LapackCase& c, unsigned seed)
      : case_(c),
        m_(has_m(c.routine) ? c.m : c.n),
        lda_(std::max<index_t>(m_, 1) + c.padding),
        ldb_(std::max<index_t>(c.n, 1) + c.padding) {
    std::mt19937_64 random(seed);
    const index_t least = std::min(m_, c.n);
    now_.A.assign(static_cast<std::size_t>(lda_ * c.n), poison<T>());
    now_.B.assign(static_cast<std::size_t>(ldb_ * c.nrhs), poison<T>());
    now_.tau.assign(static_cast<std::size_t>(least) + 1, poison<T>());
    now_.ipiv.assign(static_cast<std::size_t>(least) + 1, std::int64_t{-7});
    for (index_t j = 0; j < c.n; ++j) {
      for (index_t i = 0; i < m_; ++i) {
        if (is_stored(i, j)) element(now_.A, lda_, i, j) = random_scalar<T>(random);
      }
      if (j < m_ && is_hermitian(c.routine)) {
        // Dominant, but not by far, so that columns of the factor depend on each other.
        element(now_.A, lda_, j, j) = T(2 * std::sqrt(static_cast<float>(c.n)) + 1);
      }
    }
    for (index_t v = 0; v < c.nrhs; ++v) {
      for (index_t i = 0; i < c.n; ++i) element(now_.B, ldb_, i, v) = random_scalar<T>(random);
    }
    spoil();
    // A solve needs factors.
    if (!factors(c.routine)) {
      LapackCall factorize = call();
      factorize.routine = is_hermitian(c.routine) ? Routine::potrf : Routine::getrf;
      index_t found = 0;
      kernels::compute_on_cpu(nullptr, factorize, found);
    }
    before_ = now_;
  }

  LapackCall call() { return call_on(now_); }

  /// Compares all results, but of a Cholesky factor that broke down only the final part: the first `final_columns`
  /// columns (rows, of an upper triangle).
  ::testing::AssertionResult check(index_t info, index_t final_columns = 0) {
    Memory expected = before_;
    index_t found = 0;
    const index_t expected_info = kernels::compute_on_cpu(nullptr, call_on(expected), found);
    if (info != expected_info)
      return ::testing::AssertionFailure() << case_ << ": info " << info << ", not " << expected_info;
    if (!case_.has_nan || is_hermitian(case_.routine)) {
      if (now_.ipiv != expected.ipiv) return ::testing::AssertionFailure() << case_ << ": other pivots";
    }
    const bool broke_down = info != 0 && is_hermitian(case_.routine);
    const auto is_final = [&](index_t i, index_t j) { return !broke_down || std::min(i, j) < final_columns; };
    if (auto good = compare("A", now_.A, expected.A, before_.A, lda_, m_, case_.n, is_final); !good) return good;
    if (auto good =
            compare("B", now_.B, expected.B, before_.B, ldb_, case_.n, case_.nrhs, [](auto, auto) { return true; });
        !good)
      return good;
    const index_t taus = makes_reflectors(case_.routine) ? std::min(m_, case_.n) : 0;
    return compare("tau", now_.tau, expected.tau, before_.tau, static_cast<index_t>(now_.tau.size()), taus, 1,
                   [](auto, auto) { return true; });
  }

 private:
  using Real = decltype(std::abs(T{}));
  struct Memory {
    std::vector<T> A, B, tau;
    std::vector<std::int64_t> ipiv;  // or twice as many of 32 bits
  };

  LapackCall call_on(Memory& memory) const {
    return {.routine = case_.routine,
            .type = scalar_type_of<T>(),
            .uplo = case_.uplo,
            .op = case_.op,
            .m = m_,
            .n = case_.n,
            .k = case_.nrhs,
            .A = memory.A.data(),
            .lda = lda_,
            .B = memory.B.data(),
            .ldb = ldb_,
            .tau = memory.tau.data(),
            .ipiv = memory.ipiv.data(),
            .ipiv_bits = case_.ipiv_bits};
  }
  void spoil() {
    const index_t at = case_.wrong_at;
    if (at < 0) return;
    const Real nan = std::numeric_limits<Real>::quiet_NaN();
    if (is_hermitian(case_.routine)) {
      element(now_.A, lda_, at, at) = case_.has_nan ? T(nan) : T(-1);
      return;
    }
    for (index_t i = 0; i < m_; ++i) element(now_.A, lda_, i, at) = case_.has_nan ? T(nan) : T(0);
  }
  static T& element(std::vector<T>& matrix, index_t ld, index_t i, index_t j) {
    return matrix[static_cast<std::size_t>(i + j * ld)];
  }
  bool is_stored(index_t i, index_t j) const {
    if (!is_hermitian(case_.routine)) return true;
    return case_.uplo == Uplo::lower ? i >= j : i <= j;
  }

  /// Elements that the reference has left as they were must have their bytes; others may differ by rounding.
  template <class IsFinal>
  ::testing::AssertionResult compare(const char* what, const std::vector<T>& now, const std::vector<T>& expected,
                                     const std::vector<T>& before, index_t ld, index_t rows, index_t columns,
                                     IsFinal is_final) const {
    double norm = 1;
    for (const T& x : expected) {
      if (std::isfinite(std::abs(x))) norm = std::max(norm, static_cast<double>(std::abs(x)));
    }
    // Pivots bound what errors grow by; the matrices are small.
    const double bound = 500 * norm * static_cast<double>(std::max(m_, case_.n) + 10) *
                         static_cast<double>(std::numeric_limits<Real>::epsilon());
    for (std::size_t at = 0; at < now.size(); ++at) {
      const auto i = static_cast<index_t>(at) % ld, j = static_cast<index_t>(at) / ld;
      const bool is_kept = std::memcmp(&expected[at], &before[at], sizeof(T)) == 0;
      const bool is_result = i < rows && j < columns && (what[0] != 'A' || is_stored(i, j));
      if (!is_result) {
        if (std::memcmp(&now[at], &before[at], sizeof(T)) != 0)
          return ::testing::AssertionFailure() << case_ << ": " << what << " (" << i << ", " << j << ") was written";
        continue;
      }
      if (!is_final(i, j) || (is_kept && std::memcmp(&now[at], &before[at], sizeof(T)) == 0)) continue;
      const bool is_nan = std::isnan(std::abs(expected[at]));
      const double error = static_cast<double>(std::abs(now[at] - expected[at]));
      if (is_nan ? !std::isnan(std::abs(now[at])) : !(error <= bound))
        return ::testing::AssertionFailure()
               << case_ << ": " << what << " (" << i << ", " << j << ") is " << now[at] << ", not " << expected[at];
    }
    return ::testing::AssertionSuccess();
  }

  LapackCase case_;
  index_t m_, lda_, ldb_;
  Memory now_, before_;
};

}  // namespace tessera::test
