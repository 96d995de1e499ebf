// Random problems of LAPACK that a device solves whole, in memory that shows what has been written. Memory that must be
// neither read nor written is poisoned.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <random>
#include <vector>

#include "calls/lapack_call.hpp"
#include "calls/lapack_results.hpp"
#include "kernels/reference/dense_matrix.hpp"
#include "kernels/reference/reference_qr.hpp"
#include "tests/bunch_kaufman.hpp"
#include "tests/dense_reference.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {

inline std::ostream& operator<<(std::ostream& out, const LapackCall& p) {
  return out << name_of(p) << " m " << p.m << " n " << p.n << " k " << p.k << (p.vectors ? " vectors" : "") << " u "
             << static_cast<int>(p.u) << " vt " << static_cast<int>(p.vt) << " range " << static_cast<int>(p.range)
             << (p.uplo == Uplo::lower ? " lower" : " upper") << (p.side == Side::left ? " left" : " right") << " op "
             << static_cast<int>(p.op) << " itype " << p.itype << (p.diag == Diag::unit ? " unit" : "")
             << (p.storage == ReflectorStorage::rows ? " rows" : "")
             << (p.order == ReflectorOrder::backward ? " backward" : "");
}

}  // namespace tessera

namespace tessera::test {

template <Scalar T>
class DenseProblem {
 public:
  using Real = decltype(std::abs(T{}));

  /// @param form the problem without addresses and leading dimensions
  /// @param padding rows of padding of all matrices
  DenseProblem(const LapackCall& form, unsigned seed, index_t padding = 3) : p_(form), random_(seed) {
    p_.type = scalar_type_of<T>();
    p_.found = &found_;
    for (const LapackOperand& operand : LapackOperands(p_)) {
      const index_t ld = operand.has_ld() ? operand.rows + padding : operand.rows;
      // At least the elements of the largest output; all begin as poison.
      auto& memory = memory_[operand.slot];
      const auto elements = static_cast<std::size_t>(ld * operand.cols);
      const std::size_t integers = static_cast<std::size_t>(operand.bytes()) / sizeof(T) + 1;
      memory.assign(std::max(elements, integers) + 1, poison<T>());
      address_of(p_, operand.slot) = memory.data();
      if (operand.has_ld()) ld_of(p_, operand.slot) = ld;
    }
    fill();
    before_ = memory_;
  }

  LapackCall& problem() { return p_; }
  T& at(LapackSlot slot, index_t i, index_t j) {
    return memory_[slot][static_cast<std::size_t>(i + j * ld_of(p_, slot))];
  }
  /// Must be called after a change of the inputs.
  void begin_anew() { before_ = memory_; }

  /// LAPACK may have destroyed A, but nothing around it.
  void take_a_back() {
    for (index_t j = 0; j < p_.n; ++j) {
      const auto column = static_cast<std::size_t>(j * p_.lda);
      for (std::size_t i = column; i < column + static_cast<std::size_t>(p_.m == 0 ? p_.n : p_.m); ++i)
        memory_[LapackSlot::A][i] = before_[LapackSlot::A][i];
    }
  }

  /// Whether the memory that a caller may still need is unchanged: the inputs, and all memory outside the problem.
  ::testing::AssertionResult inputs_are_intact() const { return is_unwritten(true); }

  /// Pure outputs begin as ones in place of poison, so that written NaN are visible.
  void begin_with_ones() {
    for (const LapackOperand& operand : LapackOperands(p_)) {
      if (operand.writes && operand.address != p_.A && operand.address != p_.B)
        std::fill_n(reinterpret_cast<Real*>(operand.address), reals_of(operand), Real(1));
    }
    begin_anew();
  }

  /// Whether all results are NaN, and nothing else has been written.
  /// @param found number of eigenvalues that heevr has returned
  ::testing::AssertionResult results_are_nan(index_t found) const {
    if (auto unwritten = is_unwritten(false); !unwritten) return unwritten;
    for (const LapackOperand& operand : LapackOperands(p_)) {
      if (!operand.writes) continue;
      const bool finds_some = p_.routine == Routine::heevr;
      const bool has_all = !finds_some || (operand.slot == LapackSlot::values && p_.range == EigenRange::values);
      const index_t parts = operand.element_bytes / index_t{sizeof(Real)};
      for (index_t j = 0; j < operand.cols; ++j) {
        for (index_t i = 0; i < operand.rows; ++i) {
          if (!is_in(operand.written_part, i, j)) continue;
          const bool is_result = has_all || (operand.slot == LapackSlot::values ? i : j) < found;
          for (index_t part = 0; part < parts; ++part) {
            const Real number = reinterpret_cast<const Real*>(operand.address)[(i + j * operand.ld) * parts + part];
            if (std::isnan(number) == is_result) continue;
            return ::testing::AssertionFailure()
                   << p_ << ": slot " << static_cast<int>(operand.slot) << " (" << i << ", " << j << ") is " << number;
          }
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

 protected:
  /// Reflector r of A, of `length` elements, including those that are not stored; conjugated if LAPACK stores it so.
  Wide reflector(index_t r, index_t length) const {
    using enum Routine;
    const bool are_rows = is(p_.routine, in_rows);
    const bool is_upper = p_.routine == unmtr && p_.uplo == Uplo::upper;
    const index_t one = p_.routine == unmtr && !is_upper ? r + 1 : r;
    const index_t column = is_upper ? r + 1 : r;
    Wide v{length, 1};
    for (index_t i = is_upper ? 0 : one + 1; i < (is_upper ? one : length); ++i)
      v(i, 0) = are_rows ? std::conj(AnyScalar(before_at(r, i))) : AnyScalar(before_at(i, column));
    v(one, 0) = 1;
    return v;
  }
  T before_at(index_t i, index_t j) const {
    return before_.at(LapackSlot::A)[static_cast<std::size_t>(i + j * p_.lda)];
  }

  /// Q of ungqr, unglq and of the products with reflectors: that of geqrf, gelqf and hetrd; of larfb, H.
  Wide right_q() const {
    using enum Routine;
    if (p_.routine == larfb) return block_reflector();
    const index_t length = forms_q(p_.routine) ? std::max(p_.m, p_.n) : reflected_of(p_);
    const index_t count = p_.routine == unmtr ? length - 1 : p_.k;
    // H(1) H(2) ...; the products of the others begin with the last one, and gelqf's has adjoint factors.
    const bool is_forward = !is(p_.routine, in_rows) && !(p_.routine == unmtr && p_.uplo == Uplo::upper);
    Wide Q = identity<AnyScalar>(length);
    for (index_t step = 0; step < count; ++step) {
      const index_t r = is_forward ? count - 1 - step : step;
      const AnyScalar tau = before_.at(LapackSlot::tau)[static_cast<std::size_t>(r)];
      reflect(reflector(r, length), is(p_.routine, in_rows) ? std::conj(tau) : tau, Q);
    }
    return Q;
  }

  /// I - V T V^H, or I - V^H T V of reflectors in rows.
  Wide block_reflector() const {
    const index_t length = reflected_of(p_);
    const bool in_columns = p_.storage == ReflectorStorage::columns, is_forward = p_.order == ReflectorOrder::forward;
    Wide V{length, p_.k}, W{p_.k, p_.k};
    for (index_t r = 0; r < p_.k; ++r) {
      const index_t one = is_forward ? r : length - p_.k + r;
      for (index_t i = is_forward ? one + 1 : 0; i < (is_forward ? length : one); ++i)
        V(i, r) = in_columns ? AnyScalar(before_at(i, r)) : std::conj(AnyScalar(before_at(r, i)));
      V(one, r) = 1;
      for (index_t i = is_forward ? 0 : r; i < (is_forward ? r + 1 : p_.k); ++i)
        W(i, r) = before_.at(LapackSlot::T)[static_cast<std::size_t>(i + r * p_.ldt)];
    }
    Wide H = V * (W * adjoint(V));
    for (AnyScalar& element : H.elements) element = -element;
    for (index_t i = 0; i < length; ++i) H(i, i) += 1;
    return H;
  }

  static bool is_in(Part part, index_t i, index_t j) {
    return part == Part::full || (part == Part::lower ? i >= j : i <= j);
  }

  index_t reals_of(const LapackOperand& operand) const {
    return operand.ld * operand.cols * operand.element_bytes / index_t{sizeof(Real)};
  }

  void fill() {
    for (const LapackOperand& operand : LapackOperands(p_)) {
      if (!operand.reads || !operand.has_ld()) continue;
      for (index_t j = 0; j < operand.read_cols; ++j) {
        for (index_t i = 0; i < operand.read_rows; ++i) {
          if (is_in(operand.read_part, i, j)) at(operand.slot, i, j) = random_scalar<T>(random_);
        }
      }
      shape(operand);
    }
    switch (p_.routine) {
      case Routine::unglq:
        kernels::reference_qr({kernels::PanelKind::lq, p_.type, p_.n, p_.k, p_.A, p_.lda, nullptr}, p_.tau);
        break;
      case Routine::ungqr:
      case Routine::unmqr: {
        const index_t rows = p_.routine == Routine::unmqr ? reflected_of(p_) : p_.m;
        kernels::reference_qr({kernels::PanelKind::qr, p_.type, rows, p_.k, p_.A, p_.lda, nullptr}, p_.tau);
        break;
      }
      case Routine::unmlq:
        return fill_tau(p_.k, [](index_t i, index_t j) { return j > i ? i : -1; });
      case Routine::unmtr:
        return fill_tau(reflected_of(p_) - 1, [this](index_t i, index_t j) {
          if (p_.uplo == Uplo::lower) return i > j + 1 ? j : -1;
          return i < j - 1 ? j - 1 : -1;
        });
      case Routine::larfb:
        return hide_what_reflectors_do_not_have();
      case Routine::gelsd:
        if (p_.rcond > 0) take_rank_away();
        break;
      case Routine::getri:
        for (index_t i = 0; i < p_.n; ++i)
          static_cast<std::int64_t*>(p_.ipiv)[i] = std::uniform_int_distribution<index_t>(i + 1, p_.n)(random_);
        break;
      case Routine::sytrs:
      case Routine::hetrs:
        return make_indefinite_factors();
      default:
        break;
    }
  }

  Dense<T> matrix(const std::map<LapackSlot, std::vector<T>>& memory, LapackSlot slot, index_t ld, index_t rows,
                  index_t cols) const {
    Dense<T> result{rows, cols};
    for (index_t j = 0; j < cols; ++j) {
      for (index_t i = 0; i < rows; ++i) result(i, j) = memory.at(slot)[static_cast<std::size_t>(i + j * ld)];
    }
    return result;
  }

  /// Factors of a matrix that is far from singular.
  void make_indefinite_factors() {
    const std::vector<std::int64_t> pivots = random_pivots(p_.n, p_.uplo, random_);
    dispatch_pivots(p_, [&]<class Integer>(Integer* ipiv) {
      std::transform(pivots.begin(), pivots.end(), ipiv, [](std::int64_t row) { return static_cast<Integer>(row); });
    });
    for (index_t j = 0; j < p_.n; ++j) {
      for (index_t i = 0; i < p_.n; ++i) {
        if (is_in(part_of(p_.uplo), i, j)) at(LapackSlot::A, i, j) /= Real(p_.n);
      }
    }
    for (const auto& [k, size] : indefinite_factors(memory_).blocks()) {
      const bool is_lower = p_.uplo == Uplo::lower;
      T& pivot =
          size == 1 ? at(LapackSlot::A, k, k) : at(LapackSlot::A, k + (is_lower ? 1 : 0), k + (is_lower ? 0 : 1));
      pivot = T(random_() % 2 == 0 ? 1 : -1);
      for (index_t i = k; i < k + size && is_hermitian(p_.routine); ++i)
        at(LapackSlot::A, i, i) = T(std::real(at(LapackSlot::A, i, i)));
    }
  }
  IndefiniteFactors indefinite_factors(const std::map<LapackSlot, std::vector<T>>& memory) const {
    IndefiniteFactors factors{.elements = widened(matrix(memory, LapackSlot::A, p_.lda, p_.n, p_.n)),
                              .uplo = p_.uplo,
                              .is_hermitian = is_hermitian(p_.routine)};
    LapackCall with_pivots = p_;
    with_pivots.ipiv = const_cast<T*>(memory.at(LapackSlot::ipiv).data());
    dispatch_pivots(with_pivots, [&](const auto* ipiv) { factors.pivots.assign(ipiv, ipiv + p_.n); });
    return factors;
  }

  /// Makes the reflectors unitary.
  /// @param reflector_of(i, j) the reflector that contains A's element, or -1; each also has a one that is not stored
  template <class ReflectorOf>
  void fill_tau(index_t count, ReflectorOf reflector_of) {
    std::vector<double> squares(static_cast<std::size_t>(count), 1);
    const LapackOperand A = *LapackOperands(p_).begin();
    for (index_t j = 0; j < A.cols; ++j) {
      for (index_t i = 0; i < A.rows; ++i) {
        if (const index_t r = reflector_of(i, j); r >= 0)
          squares[static_cast<std::size_t>(r)] += std::norm(AnyScalar(at(LapackSlot::A, i, j)));
      }
    }
    for (index_t r = 0; r < count; ++r)
      static_cast<T*>(p_.tau)[r] = T(static_cast<Real>(2 / squares[static_cast<std::size_t>(r)]));
  }

  /// larfb's ones, and the zeros on one side of them, are not stored.
  void hide_what_reflectors_do_not_have() {
    const bool in_columns = p_.storage == ReflectorStorage::columns, is_forward = p_.order == ReflectorOrder::forward;
    const index_t length = reflected_of(p_), first = is_forward ? 0 : length - p_.k;
    for (index_t r = 0; r < p_.k; ++r) {
      for (index_t i = is_forward ? 0 : first + r; i < (is_forward ? r + 1 : length); ++i)
        at(LapackSlot::A, in_columns ? i : r, in_columns ? r : i) = poison<T>();
    }
  }

  void take_rank_away() {
    const index_t last = std::min(p_.m, p_.n) - 1;
    has_null_vector_ = last > 0;
    for (index_t i = 0; last > 0 && i < std::max(p_.m, p_.n); ++i) {
      if (p_.m >= p_.n)
        at(LapackSlot::A, i, last) = at(LapackSlot::A, i, 0);
      else
        at(LapackSlot::A, last, i) = at(LapackSlot::A, 0, i);
    }
  }

  /// Diagonals: those of Hermitian matrices count as real, with any imaginary parts; those of matrices to be inverted
  /// are large.
  void shape(const LapackOperand& operand) {
    using enum Routine;
    const bool is_solved = operand.slot == LapackSlot::A && (p_.routine == getri || is_least_squares(p_.routine));
    const bool is_triangle = p_.routine == trtrs || p_.routine == trtri || p_.routine == lauum;
    const bool is_inverted = operand.slot == LapackSlot::A && (is_triangle || p_.routine == potri);
    const bool is_definite = p_.routine == hegvd && operand.slot == LapackSlot::B;
    const bool is_indefinite = is_hermitian(p_.routine) && operand.slot == LapackSlot::A &&
                               pivots_diagonally(p_.routine) && factors(p_.routine);
    if (!is_solved && !is_inverted && !is_indefinite && !is_eigenproblem(p_.routine)) return;
    const auto order = static_cast<double>(std::max(operand.rows, operand.cols));
    for (index_t j = 0; j < std::min(operand.rows, operand.cols); ++j) {
      T& diagonal = at(operand.slot, j, j);
      double real = AnyScalar(diagonal).real();
      if (is_inverted || is_solved) real = std::sqrt(order) + 1;
      if (is_definite || is_least_squares(p_.routine)) real = 2 * std::sqrt(order) + 2;
      const double imaginary = is_inverted || is_solved ? 0 : std::numeric_limits<double>::quiet_NaN();
      diagonal = scalar_cast<T>(AnyScalar(real, imaginary));
      const bool is_unit = (p_.routine == trtri || p_.routine == trtrs) && p_.diag == Diag::unit;
      if (is_unit) diagonal = poison<T>();
      for (index_t i = 0; i < p_.n; ++i) {  // so that the inverse does not grow
        if ((is_unit && i != j && is_in(operand.read_part, i, j)) || (p_.routine == getri && i > j))
          at(operand.slot, i, j) /= Real(p_.n);
      }
    }
  }

  /// @param inputs_too whether inputs that results may replace must be unchanged, too
  ::testing::AssertionResult is_unwritten(bool inputs_too) const {
    for (const LapackOperand& operand : LapackOperands(p_)) {
      const bool is_a = operand.slot <= LapackSlot::VT && operand.address == p_.A;
      const auto slot = is_a ? LapackSlot::A : operand.slot;
      bool may_write = operand.writes;
      for (const LapackOperand& other : LapackOperands(p_))
        may_write |= other.writes && other.address == operand.address;
      const bool is_unit = p_.routine == Routine::trtri && p_.diag == Diag::unit;
      for (index_t j = 0; j < operand.cols; ++j) {
        for (index_t i = 0; i < operand.ld; ++i) {
          const bool is_read =
              operand.reads && i < operand.read_rows && j < operand.read_cols && is_in(operand.read_part, i, j);
          const bool is_written =
              may_write && i < operand.rows && is_in(operand.written_part, i, j) && !(is_unit && i == j);
          if (is_written && !(inputs_too && is_read)) continue;
          const auto at = static_cast<std::size_t>(i + j * operand.ld);
          if (std::memcmp(&memory_.at(slot)[at], &before_.at(slot)[at], sizeof(T)) != 0 &&
              (operand.has_ld() || operand.reads))
            return ::testing::AssertionFailure()
                   << p_ << ": slot " << static_cast<int>(slot) << " (" << i << ", " << j << ") was written";
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

  const T& at(LapackSlot slot, index_t i, index_t j) const {
    LapackCall p = p_;
    return memory_.at(slot)[static_cast<std::size_t>(i + j * ld_of(p, slot))];
  }

  LapackCall p_;
  std::mt19937_64 random_;
  std::map<LapackSlot, std::vector<T>> memory_, before_;
  index_t found_ = -1;
  bool has_null_vector_ = false;  ///< take_rank_away() has worked
};

}  // namespace tessera::test
