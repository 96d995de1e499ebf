// Matrices for LU, QR and LQ with everything poisoned that must neither be read nor written, and the check of their factors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <vector>

#include "calls/level3.hpp"
#include "kernels/panel.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_lapack.hpp"
#include "kernels/reference/reference_qr.hpp"
#include "routines/lapack.hpp"
#include "tests/level3_problem.hpp"
#include "tests/special_values.hpp"

namespace tessera::test {

struct ColumnsCase {
  kernels::PanelKind kind = kernels::PanelKind::lu;
  index_t m = 1, n = 1;
  index_t padding = 3;
  index_t zero_column = -1;    ///< of zeros, so that a pivot is zero; -1: none. LQ: a row, here and below
  bool equal_columns = false;  ///< the last one is the first one again: reflectors that do nothing
};

inline std::ostream& operator<<(std::ostream& out, const ColumnsCase& c) {
  return out << kernels::name_of(c.kind) << " " << c.m << " x " << c.n << " padding " << c.padding << " zero column "
             << c.zero_column;
}

template <Scalar T>
class ColumnsFixture {
 public:
  ColumnsFixture(const ColumnsCase& c, unsigned seed)
      : case_(c), ld_(c.m + c.padding), ipiv_(static_cast<std::size_t>(least()), -1), tau_(ipiv_.size(), poison<T>()) {
    std::mt19937_64 random(seed);
    A_.assign(static_cast<std::size_t>(ld_ * c.n), poison<T>());
    for (index_t j = 0; j < c.n; ++j) {
      for (index_t i = 0; i < c.m; ++i) {
        const T value = random_scalar<T>(random);
        const index_t line = in_rows() ? i : j, last = (in_rows() ? c.m : c.n) - 1;
        at(A_, i, j) = line == c.zero_column ? T(0) : value;
        if (c.equal_columns && line == last) at(A_, i, j) = in_rows() ? at(A_, 0, j) : at(A_, i, 0);
      }
    }
    before_ = A_;
  }

  runtime::JobStatistics run(runtime::Runtime& runtime, index_t columns, const runtime::CpuHelp& cpu = {}) {
    if (case_.kind == kernels::PanelKind::lu)
      return routines::lu(runtime, {scalar_type_of<T>(), case_.m, case_.n, A_.data(), ld_, ipiv_.data()}, columns, cpu);
    const ReflectorStorage storage = in_rows() ? ReflectorStorage::rows : ReflectorStorage::columns;
    return routines::qr(runtime, {scalar_type_of<T>(), case_.m, case_.n, A_.data(), ld_, tau_.data(), storage}, columns,
                        cpu);
  }

  T& element(index_t i, index_t j) { return at(A_, i, j); }
  /// After a change of elements.
  void begin_anew() { before_ = A_; }

  ::testing::AssertionResult check(index_t info) const {
    if (auto padding = padding_is_unwritten(); !padding) return padding;
    return case_.kind == kernels::PanelKind::lu ? check_lu(info) : check_qr(info);
  }

  /// info, pivots, and which elements are finite, are the reference's. QR and LQ may have fewer that are, since a product
  /// with T is one with its zeros, too.
  ::testing::AssertionResult check_what_is_finite(index_t info) const {
    if (auto padding = padding_is_unwritten(); !padding) return padding;
    std::vector<T> expected = before_, tau(tau_.size());
    if (case_.kind == kernels::PanelKind::lu) {
      if (auto same = is_as_told_by_reference(info, expected); !same) return same;
    } else {
      if (info != 0) return ::testing::AssertionFailure() << case_ << ": info " << info;
      kernels::reference_qr({case_.kind, scalar_type_of<T>(), m_of_qr(), n_of_qr(), expected.data(), ld_, nullptr},
                            tau.data());
    }
    for (index_t j = 0; j < case_.n; ++j) {
      for (index_t i = 0; i < case_.m; ++i) {
        const bool should_be = is_finite(at(expected, i, j));
        if (should_be && case_.kind != kernels::PanelKind::lu) continue;
        if (is_finite(at(A_, i, j)) != should_be)
          return ::testing::AssertionFailure() << case_ << ": (" << i << ", " << j << ") is " << at(A_, i, j)
                                               << ", and with the reference " << at(expected, i, j);
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  using Real = decltype(std::abs(T{}));

  ::testing::AssertionResult padding_is_unwritten() const {
    for (index_t j = 0; j < case_.n; ++j) {
      for (index_t i = case_.m; i < ld_; ++i) {
        if (std::memcmp(&at(A_, i, j), &at(before_, i, j), sizeof(T)) != 0)
          return ::testing::AssertionFailure() << case_ << ": (" << i << ", " << j << ") was written";
      }
    }
    return ::testing::AssertionSuccess();
  }

  index_t least() const { return std::min(case_.m, case_.n); }
  bool in_rows() const { return is_in_rows(case_.kind); }
  /// Of A, or of A^H for LQ.
  index_t m_of_qr() const { return in_rows() ? case_.n : case_.m; }
  index_t n_of_qr() const { return in_rows() ? case_.m : case_.n; }
  /// Where `keep` says no, zero. Without padding.
  template <class Keep>
  std::vector<T> part_of_qr(const std::vector<T>& matrix, Keep keep) const {
    const index_t m = m_of_qr(), n = n_of_qr();
    if (!in_rows()) return part(matrix, m, n, keep);
    std::vector<T> adjoint(static_cast<std::size_t>(m * n));
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = 0; i < m; ++i) {
        if (keep(i, j)) adjoint[static_cast<std::size_t>(i + j * m)] = conjugate(at(matrix, j, i));
      }
    }
    return adjoint;
  }
  T& at(std::vector<T>& matrix, index_t i, index_t j) const { return matrix[static_cast<std::size_t>(i + j * ld_)]; }
  const T& at(const std::vector<T>& matrix, index_t i, index_t j) const {
    return matrix[static_cast<std::size_t>(i + j * ld_)];
  }

  /// Without padding; where `keep` says no, `other`.
  template <class Keep>
  std::vector<T> part(const std::vector<T>& matrix, index_t rows, index_t columns, Keep keep) const {
    std::vector<T> whole(static_cast<std::size_t>(rows * columns));
    for (index_t j = 0; j < columns; ++j) {
      for (index_t i = 0; i < rows; ++i) {
        T& element = whole[static_cast<std::size_t>(i + j * rows)];
        if (keep(i, j)) element = at(matrix, i, j);
      }
    }
    return whole;
  }

  static void subtract_product(const std::vector<T>& A, const std::vector<T>& B, std::vector<T>& C, index_t m,
                               index_t n, index_t k, Op op_a = Op::no_trans) {
    kernels::oracle_level3({.type = scalar_type_of<T>(),
                            .op_a = op_a,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha = -1,
                            .A = A.data(),
                            .lda = op_a == Op::no_trans ? m : k,
                            .B = B.data(),
                            .ldb = k,
                            .beta = 1,
                            .C = C.data(),
                            .ldc = m});
  }

  static double norm_of(const std::vector<T>& matrix, index_t rows) {
    double largest = 0;
    for (std::size_t begin = 0; begin < matrix.size(); begin += static_cast<std::size_t>(rows)) {
      double sum = 0;
      for (std::size_t i = begin; i < begin + static_cast<std::size_t>(rows); ++i)
        sum += static_cast<double>(std::abs(matrix[i]));
      largest = sum > largest || std::isnan(sum) ? sum : largest;
    }
    return largest;
  }

  ::testing::AssertionResult is_small(const char* what, double error, double scale) const {
    const double residual = error / (static_cast<double>(std::max(case_.m, case_.n)) * std::max(scale, 1e-300) *
                                     static_cast<double>(std::numeric_limits<Real>::epsilon()));
    if (residual < 30) return ::testing::AssertionSuccess();  // a NaN fails this
    return ::testing::AssertionFailure() << case_ << ": " << what << " " << residual;
  }

  /// @param factors the matrix as it was, which becomes the reference's factors
  ::testing::AssertionResult is_as_told_by_reference(index_t info, std::vector<T>& factors) const {
    std::vector<int> pivots(static_cast<std::size_t>(least()));
    int expected = 0;
    kernels::LapackBatch one;
    one.routine = Routine::getrf;
    one.type = scalar_type_of<T>();
    one.count = 1;
    one.m.of_all = one.max_m = case_.m;
    one.n.of_all = one.max_n = case_.n;
    one.lda.of_all = ld_;
    one.A.first = factors.data();
    one.ipiv.first = pivots.data();
    one.info = &expected;
    kernels::reference_lapack_batch(one);
    if (info != expected) return ::testing::AssertionFailure() << case_ << ": info " << info << ", not " << expected;
    for (std::size_t i = 0; i < pivots.size(); ++i) {
      if (ipiv_[i] != pivots[i])
        return ::testing::AssertionFailure() << case_ << ": pivot " << i << " is " << ipiv_[i] << ", not " << pivots[i];
    }
    return ::testing::AssertionSuccess();
  }

  /// Pivots as LAPACK chooses them, |L| <= 1, and ||P A - L U||_1 / (n ||A||_1 eps).
  ::testing::AssertionResult check_lu(index_t info) const {
    const index_t m = case_.m, n = case_.n, k = least();
    std::vector<T> factors = before_;
    if (auto same = is_as_told_by_reference(info, factors); !same) return same;
    std::vector<T> rest = part(before_, m, n, [](index_t, index_t) { return true; });
    const double norm = norm_of(rest, m);
    for (index_t i = 0; i < k; ++i) {
      const index_t row = ipiv_[static_cast<std::size_t>(i)] - 1;
      for (index_t j = 0; j < n && row != i; ++j)
        std::swap(rest[static_cast<std::size_t>(i + j * m)], rest[static_cast<std::size_t>(row + j * m)]);
    }
    std::vector<T> L = part(A_, m, k, [](index_t i, index_t j) { return i > j; });
    for (index_t j = 0; j < k; ++j) L[static_cast<std::size_t>(j + j * m)] = 1;
    // Complex pivots are the largest by |re| + |im|.
    const double largest = (is_complex(scalar_type_of<T>()) ? std::sqrt(2.0) : 1.0) + 1e-5;
    const auto larger = [largest](T x) { return !(static_cast<double>(std::abs(x)) <= largest); };
    if (std::any_of(L.begin(), L.end(), larger)) return ::testing::AssertionFailure() << case_ << ": L is too large";
    const std::vector<T> U = part(A_, k, n, [](index_t i, index_t j) { return i <= j; });
    subtract_product(L, U, rest, m, n, k);
    return is_small("residual", norm_of(rest, m), norm);
  }

  /// ||A - Q R||_1 / (m ||A||_1 eps), and ||I - Q^H Q||_1 / (m eps), with Q made of V and tau. LQ: the same of A^H.
  ::testing::AssertionResult check_qr(index_t info) const {
    if (info != 0) return ::testing::AssertionFailure() << case_ << ": info " << info;
    const index_t m = m_of_qr(), n = n_of_qr(), k = least();
    const auto all = [](index_t, index_t) { return true; };
    const std::vector<T> factors = part_of_qr(A_, all);
    std::vector<T> Q(static_cast<std::size_t>(m * m));
    for (index_t i = 0; i < m; ++i) Q[static_cast<std::size_t>(i + i * m)] = 1;
    for (index_t r = k - 1; r >= 0; --r) {
      const auto v = [&](index_t i) { return i == r ? T(1) : factors[static_cast<std::size_t>(i + r * m)]; };
      for (index_t j = 0; j < m; ++j) {
        Wide<T> sum = 0;
        for (index_t i = r; i < m; ++i)
          sum += Wide<T>(conjugate(v(i))) * Wide<T>(Q[static_cast<std::size_t>(i + j * m)]);
        sum *= Wide<T>(tau_[static_cast<std::size_t>(r)]);
        for (index_t i = r; i < m; ++i) Q[static_cast<std::size_t>(i + j * m)] -= T(Wide<T>(v(i)) * sum);
      }
    }
    std::vector<T> rest = part_of_qr(before_, all);
    const double norm = norm_of(rest, m);
    const std::vector<T> R = part_of_qr(A_, [](index_t i, index_t j) { return i <= j; });
    subtract_product(Q, R, rest, m, n, m);
    if (const auto right = is_small("residual", norm_of(rest, m), norm); !right) return right;
    std::vector<T> identity(Q.size());
    for (index_t i = 0; i < m; ++i) identity[static_cast<std::size_t>(i + i * m)] = 1;
    subtract_product(Q, Q, identity, m, m, m, is_complex(scalar_type_of<T>()) ? Op::conj_trans : Op::trans);
    return is_small("loss of orthogonality", norm_of(identity, m), 1);
  }

  template <Scalar X>
  using Wide = kernels::Wide<X>;
  static T conjugate(T x) { return scalar_cast<T>(std::conj(AnyScalar(x))); }

  ColumnsCase case_;
  index_t ld_;
  std::vector<T> A_, before_;
  std::vector<index_t> ipiv_;
  std::vector<T> tau_;
};

}  // namespace tessera::test
