// Random problems of LAPACK that a device solves whole, with everything poisoned that must be neither read nor written;
// and the check of their results: by residuals, and against the CPU's LAPACK.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/dense_problem.hpp"
#include "kernels/host/dense_lapack.hpp"
#include "kernels/reference/dense_matrix.hpp"
#include "kernels/reference/reference_qr.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {

inline std::ostream& operator<<(std::ostream& out, const DenseProblem& p) {
  return out << name_of(p) << " m " << p.m << " n " << p.n << " k " << p.k << (p.vectors ? " vectors" : "") << " u "
             << static_cast<int>(p.u) << " vt " << static_cast<int>(p.vt) << " range " << static_cast<int>(p.range)
             << (p.uplo == Uplo::lower ? " lower" : " upper") << (p.side == Side::left ? " left" : " right") << " op "
             << static_cast<int>(p.op) << " itype " << p.itype << (p.diag == Diag::unit ? " unit" : "")
             << (p.storage == ReflectorStorage::rows ? " rows" : "")
             << (p.order == ReflectorOrder::backward ? " backward" : "");
}

}  // namespace tessera

namespace tessera::test {

using kernels::Dense;

inline const kernels::DenseLapack& cpu_dense_lapack() {
  static const kernels::DenseLapack lapack([](const char* name) { return cpu_blas()->fortran(name); },
                                           cpu_blas()->integer_bits());
  return lapack;
}

template <Scalar T>
class DenseFixture {
 public:
  using Real = decltype(std::abs(T{}));

  /// @param form everything of the problem but addresses and leading dimensions @param padding of all matrices
  DenseFixture(const DenseProblem& form, unsigned seed, index_t padding = 3) : p_(form), random_(seed) {
    p_.type = scalar_type_of<T>();
    p_.found = &found_;
    for (const DenseOperand& operand : DenseOperands(p_)) {
      const index_t ld = operand.has_ld() ? operand.rows + padding : operand.rows;
      // At least so many elements as may ever be told of; what it begins as is poison.
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

  DenseProblem& problem() { return p_; }
  T& at(DenseSlot slot, index_t i, index_t j) {
    return memory_[slot][static_cast<std::size_t>(i + j * ld_of(p_, slot))];
  }
  /// After a change of what the problem reads.
  void begin_anew() { before_ = memory_; }

  /// LAPACK may have destroyed A, but nothing around it.
  void take_a_back() {
    for (index_t j = 0; j < p_.n; ++j) {
      const auto column = static_cast<std::size_t>(j * p_.lda);
      for (std::size_t i = column; i < column + static_cast<std::size_t>(p_.m == 0 ? p_.n : p_.m); ++i)
        memory_[DenseSlot::A][i] = before_[DenseSlot::A][i];
    }
  }

  /// What a caller may still need is as it was: inputs, and all that is none of the problem's.
  ::testing::AssertionResult inputs_are_intact() const { return is_unwritten(true); }

  /// Whatever is written but not read begins as ones in place of poison, so that NaN are seen to be written.
  void begin_with_ones() {
    for (const DenseOperand& operand : DenseOperands(p_)) {
      if (operand.writes && operand.address != p_.A && operand.address != p_.B)
        std::fill_n(reinterpret_cast<Real*>(operand.address), reals_of(operand), Real(1));
    }
    begin_anew();
  }

  /// All results are NaN, and nothing else has been written. @param found eigenvalues that heevr has told
  ::testing::AssertionResult results_are_nan(index_t found) const {
    if (auto unwritten = is_unwritten(false); !unwritten) return unwritten;
    for (const DenseOperand& operand : DenseOperands(p_)) {
      if (!operand.writes) continue;
      const bool finds_some = p_.routine == DenseRoutine::heevr;
      const bool has_all = !finds_some || (operand.slot == DenseSlot::values && p_.range == EigenRange::values);
      const index_t parts = operand.element_bytes / index_t{sizeof(Real)};
      for (index_t j = 0; j < operand.cols; ++j) {
        for (index_t i = 0; i < operand.rows; ++i) {
          if (!is_in(operand.written_part, i, j)) continue;
          const bool is_result = has_all || (operand.slot == DenseSlot::values ? i : j) < found;
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

  /// What LAPACK makes of the problem as it was. @return its info
  int solve_here(std::map<DenseSlot, std::vector<T>>& memory, kernels::DenseOutcome& outcome) const {
    memory = before_;
    DenseProblem here = p_;
    for (auto& [slot, elements] : memory) address_of(here, slot) = elements.data();
    std::vector<T> vectors;
    const auto apart = [&](VectorJob& job, DenseSlot slot) {
      if (job != VectorJob::overwrite) return;
      job = VectorJob::thin;
      ld_of(here, slot) = std::max<index_t>(std::max(p_.m, p_.n), 1);
      memory[slot].assign(static_cast<std::size_t>(ld_of(here, slot) * std::max(p_.m, p_.n)), T(0));
      address_of(here, slot) = memory[slot].data();
    };
    apart(here.u, DenseSlot::U);
    apart(here.vt, DenseSlot::VT);
    return cpu_dense_lapack().prepare(here)(outcome);
  }

  /// @param info that was told
  ::testing::AssertionResult check(index_t info) {
    if (auto unwritten = is_unwritten(false); !unwritten) return unwritten;
    std::map<DenseSlot, std::vector<T>> expected;
    kernels::DenseOutcome outcome;
    if (const int told = solve_here(expected, outcome); info != told)
      return ::testing::AssertionFailure() << p_ << ": info " << info << ", not " << told;
    if (info != 0) return ::testing::AssertionSuccess();
    if ((p_.routine == DenseRoutine::heevr || p_.routine == DenseRoutine::gelsd) && found_ != outcome.found)
      return ::testing::AssertionFailure() << p_ << ": " << found_ << " eigenvalues or ranks, not " << outcome.found;
    if (is_hermitian(p_.routine)) return check_eigen(expected);
    if (is_svd(p_.routine)) return check_svd(expected);
    if (p_.routine == DenseRoutine::geev) return check_geev(expected);
    if (is_least_squares(p_.routine)) return check_least_squares(expected);
    return check_elements(expected);
  }

 private:
  static constexpr double eps = std::numeric_limits<Real>::epsilon();

  static bool is_in(Part part, index_t i, index_t j) {
    return part == Part::full || (part == Part::lower ? i >= j : i <= j);
  }

  index_t reals_of(const DenseOperand& operand) const {
    return operand.ld * operand.cols * operand.element_bytes / index_t{sizeof(Real)};
  }

  void fill() {
    for (const DenseOperand& operand : DenseOperands(p_)) {
      if (!operand.reads || !operand.has_ld()) continue;
      for (index_t j = 0; j < operand.read_cols; ++j) {
        for (index_t i = 0; i < operand.read_rows; ++i) {
          if (is_in(operand.read_part, i, j)) at(operand.slot, i, j) = random_scalar<T>(random_);
        }
      }
      shape(operand);
    }
    switch (p_.routine) {
      case DenseRoutine::ungqr:
      case DenseRoutine::unmqr: {
        const index_t rows = p_.routine == DenseRoutine::unmqr ? reflected_of(p_) : p_.m;
        kernels::reference_qr({kernels::PanelKind::qr, p_.type, rows, p_.k, p_.A, p_.lda, nullptr}, p_.tau);
        break;
      }
      case DenseRoutine::unmlq:
        return fill_tau(p_.k, [](index_t i, index_t j) { return j > i ? i : -1; });
      case DenseRoutine::unmtr:
        return fill_tau(reflected_of(p_) - 1, [this](index_t i, index_t j) {
          if (p_.uplo == Uplo::lower) return i > j + 1 ? j : -1;
          return i < j - 1 ? j - 1 : -1;
        });
      case DenseRoutine::larfb:
        return hide_what_reflectors_do_not_have();
      case DenseRoutine::gelsd:
        if (p_.rcond > 0) take_rank_away();
        break;
      case DenseRoutine::getri:
        for (index_t i = 0; i < p_.n; ++i)
          static_cast<std::int64_t*>(p_.ipiv)[i] = std::uniform_int_distribution<index_t>(i + 1, p_.n)(random_);
        break;
      default:
        break;
    }
  }

  /// So that reflectors reflect. @param reflector_of(i, j) that has A's element, or -1; each has a one, too, that is not stored
  template <class ReflectorOf>
  void fill_tau(index_t count, ReflectorOf reflector_of) {
    std::vector<double> squares(static_cast<std::size_t>(count), 1);
    const DenseOperand A = *DenseOperands(p_).begin();
    for (index_t j = 0; j < A.cols; ++j) {
      for (index_t i = 0; i < A.rows; ++i) {
        if (const index_t r = reflector_of(i, j); r >= 0)
          squares[static_cast<std::size_t>(r)] += std::norm(AnyScalar(at(DenseSlot::A, i, j)));
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
        at(DenseSlot::A, in_columns ? i : r, in_columns ? r : i) = poison<T>();
    }
  }

  void take_rank_away() {
    const index_t last = std::min(p_.m, p_.n) - 1;
    for (index_t i = 0; last > 0 && i < std::max(p_.m, p_.n); ++i) {
      if (p_.m >= p_.n)
        at(DenseSlot::A, i, last) = at(DenseSlot::A, i, 0);
      else
        at(DenseSlot::A, last, i) = at(DenseSlot::A, 0, i);
    }
  }

  /// Diagonals: what is Hermitian has real ones, whatever their imaginary parts are; what is inverted large ones.
  void shape(const DenseOperand& operand) {
    using enum DenseRoutine;
    const bool is_solved = operand.slot == DenseSlot::A && (p_.routine == getri || is_least_squares(p_.routine));
    const bool is_inverted = operand.slot == DenseSlot::A && p_.routine >= trtrs && p_.routine != getri;
    const bool is_definite = p_.routine == hegvd && operand.slot == DenseSlot::B;
    if (!is_solved && !is_inverted && !is_hermitian(p_.routine)) return;
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

  /// @param inputs_too those that results may take the place of, too
  ::testing::AssertionResult is_unwritten(bool inputs_too) const {
    for (const DenseOperand& operand : DenseOperands(p_)) {
      const bool is_a = operand.slot <= DenseSlot::VT && operand.address == p_.A;
      const auto slot = is_a ? DenseSlot::A : operand.slot;
      bool may_write = operand.writes;
      for (const DenseOperand& other : DenseOperands(p_)) may_write |= other.writes && other.address == operand.address;
      const bool is_unit = p_.routine == DenseRoutine::trtri && p_.diag == Diag::unit;
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

  Dense<T> matrix(const std::map<DenseSlot, std::vector<T>>& memory, DenseSlot slot, index_t ld, index_t rows,
                  index_t cols) const {
    Dense<T> result{rows, cols};
    for (index_t j = 0; j < cols; ++j) {
      for (index_t i = 0; i < rows; ++i) result(i, j) = memory.at(slot)[static_cast<std::size_t>(i + j * ld)];
    }
    return result;
  }
  Dense<T> hermitian(DenseSlot slot, index_t ld) const {
    Dense<T> A = matrix(before_, slot, ld, p_.n, p_.n);
    const Part part = part_of(p_.uplo);
    for (index_t j = 0; j < p_.n; ++j) {
      for (index_t i = 0; i < p_.n; ++i) {
        if (i == j) A(i, j) = T(std::real(A(i, j)));
        if (!is_in(part, i, j)) A(i, j) = scalar_cast<T>(std::conj(AnyScalar(A(j, i))));
      }
    }
    return A;
  }
  static double real_at(const std::map<DenseSlot, std::vector<T>>& memory, DenseSlot slot, index_t i) {
    return reinterpret_cast<const Real*>(memory.at(slot).data())[i];
  }
  static Dense<T> identity(index_t n) {
    Dense<T> I{n, n};
    for (index_t i = 0; i < n; ++i) I(i, i) = T(1);
    return I;
  }
  static double norm(const Dense<T>& A) {  // of the largest row or column sum's order
    return distance(A, Dense<T>{A.rows, A.cols}) * std::sqrt(static_cast<double>(std::max<index_t>(A.rows, A.cols)));
  }
  ::testing::AssertionResult is_small(const char* what, double value, double scale) const {
    const double size = static_cast<double>(std::max({p_.m, p_.n, p_.k, index_t{4}}));
    if (value <= 30 * size * eps * scale) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << p_ << ": " << what << ' ' << value / (size * eps * scale) << " n eps";
  }
  ::testing::AssertionResult are_orthonormal(const char* what, const Dense<T>& V) const {
    return is_small(what, distance(adjoint(V) * V, identity(V.cols)), 1);
  }

  ::testing::AssertionResult check_values(const std::map<DenseSlot, std::vector<T>>& expected, index_t count,
                                          double scale) const {
    for (index_t i = 0; i < count; ++i) {
      const double value = real_at(memory_, DenseSlot::values, i), right = real_at(expected, DenseSlot::values, i);
      if (auto small = is_small("value", std::abs(value - right), scale); !small) return small << " at " << i;
    }
    return ::testing::AssertionSuccess();
  }

  ::testing::AssertionResult check_eigen(const std::map<DenseSlot, std::vector<T>>& expected) const {
    const bool has_b = p_.routine == DenseRoutine::hegvd;
    const bool finds_some = p_.routine == DenseRoutine::heevr;
    const index_t count = finds_some ? found_ : p_.n;
    const Dense<T> A = hermitian(DenseSlot::A, p_.lda);
    const Dense<T> B = has_b ? hermitian(DenseSlot::B, p_.ldb) : identity(p_.n);
    const double scale = norm(A) * (has_b ? norm(B) : 1);
    if (auto values = check_values(expected, count, scale); !values) return values;
    if (has_b) {
      if (auto factor = check_part(expected, DenseSlot::B, part_of(p_.uplo), p_.n, p_.n, norm(B)); !factor)
        return factor;
    }
    if (!p_.vectors) return ::testing::AssertionSuccess();
    const Dense<T> V = finds_some ? matrix(memory_, DenseSlot::U, p_.ldu, p_.n, count)
                                  : matrix(memory_, DenseSlot::A, p_.lda, p_.n, p_.n);
    Dense<T> W = V;
    for (index_t j = 0; j < count; ++j) {
      for (index_t i = 0; i < p_.n; ++i) W(i, j) *= Real(real_at(memory_, DenseSlot::values, j));
    }
    const Dense<T> left = p_.itype == 1 ? A * V : p_.itype == 2 ? A * (B * V) : B * (A * V);
    if (auto small = is_small("A V - V W", distance(left, p_.itype == 1 ? B * W : W), scale * norm(V)); !small)
      return small;
    return has_b ? ::testing::AssertionSuccess() : are_orthonormal("V^H V - I", V);
  }

  ::testing::AssertionResult check_svd(const std::map<DenseSlot, std::vector<T>>& expected) const {
    const Dense<T> A = matrix(before_, DenseSlot::A, p_.lda, p_.m, p_.n);
    const index_t least = std::min(p_.m, p_.n);
    if (auto values = check_values(expected, least, norm(A)); !values) return values;
    Dense<T> S{least, least};
    for (index_t i = 0; i < least; ++i) S(i, i) = T(Real(real_at(memory_, DenseSlot::values, i)));
    const auto check_side = [&](const char* what, const Dense<T>& vectors, const Dense<T>& from_left) {
      if (auto orthonormal = are_orthonormal(what, vectors); !orthonormal) return orthonormal;
      Dense<T> first{vectors.rows, least};
      std::copy_n(vectors.elements.begin(), first.elements.size(), first.elements.begin());
      const Dense<T> G = adjoint(first) * from_left;
      return is_small(what, distance(G * adjoint(G), S * S), norm(A) * norm(A));
    };
    const auto stored = [&](VectorJob job, DenseSlot slot, index_t ld, index_t rows, index_t cols) {
      const bool in_a = job == VectorJob::overwrite;
      return matrix(memory_, in_a ? DenseSlot::A : slot, in_a ? p_.lda : ld, rows, cols);
    };
    Dense<T> U, VT;
    if (p_.u != VectorJob::none) {
      U = stored(p_.u, DenseSlot::U, p_.ldu, p_.m, p_.u == VectorJob::all ? p_.m : least);
      if (auto side = check_side("U", U, A); !side) return side;
    }
    if (p_.vt != VectorJob::none) {
      VT = stored(p_.vt, DenseSlot::VT, p_.ldvt, p_.vt == VectorJob::all ? p_.n : least, p_.n);
      if (auto side = check_side("V", adjoint(VT), adjoint(A)); !side) return side;
    }
    if (p_.u == VectorJob::none || p_.vt == VectorJob::none) return ::testing::AssertionSuccess();
    Dense<T> US{p_.m, least}, first{least, p_.n};
    for (index_t i = 0; i < least; ++i) {
      for (index_t j = 0; j < p_.m; ++j) US(j, i) = U(j, i) * S(i, i);
      for (index_t j = 0; j < p_.n; ++j) first(i, j) = VT(i, j);
    }
    return is_small("U S VT - A", distance(US * first, A), norm(A));
  }

  ::testing::AssertionResult check_geev(const std::map<DenseSlot, std::vector<T>>& expected) const {
    const Dense<T> A = matrix(before_, DenseSlot::A, p_.lda, p_.n, p_.n);
    const auto value = [&](const std::map<DenseSlot, std::vector<T>>& memory, index_t i) {
      if (is_complex(p_.type)) return AnyScalar(memory.at(DenseSlot::values)[static_cast<std::size_t>(i)]);
      return AnyScalar(real_at(memory, DenseSlot::values, i), real_at(memory, DenseSlot::imaginary, i));
    };
    for (index_t i = 0; i < p_.n; ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (index_t j = 0; j < p_.n; ++j) nearest = std::min(nearest, std::abs(value(memory_, i) - value(expected, j)));
      // They are as sensitive as they are: those of random matrices by some hundreds.
      if (auto small = is_small("eigenvalue", nearest / 100, norm(A)); !small) return small;
    }
    if (!p_.vectors) return ::testing::AssertionSuccess();
    using Complex = std::complex<Real>;
    for (index_t j = 0; j < p_.n; ++j) {
      const AnyScalar w = value(memory_, j);
      Dense<Complex> v{p_.n, 1}, from{p_.n, p_.n};
      const auto stored = [&](index_t i, index_t column) { return at(DenseSlot::U, i, column); };
      const bool second = !is_complex(p_.type) && w.imag() < 0;
      for (index_t i = 0; i < p_.n; ++i) {
        for (index_t l = 0; l < p_.n; ++l) from(i, l) = Complex(A(i, l));
        v(i, 0) = Complex(stored(i, second ? j - 1 : j));
        if (!is_complex(p_.type) && w.imag() != 0)
          v(i, 0) += Complex(0, std::real(stored(i, second ? j : j + 1)) * (second ? -1 : 1));
      }
      Dense<Complex> vw = v;
      for (Complex& element : vw.elements) element *= Complex(w);
      if (auto small = is_small("A v - w v", distance(from * v, vw), norm(A)); !small) return small;
      if (auto small = is_small("|v| - 1", distance(adjoint(v) * v, Dense<Complex>{1, 1, {Complex(1)}}), 1); !small)
        return small;
    }
    return ::testing::AssertionSuccess();
  }
  const T& at(DenseSlot slot, index_t i, index_t j) const {
    DenseProblem p = p_;
    return memory_.at(slot)[static_cast<std::size_t>(i + j * ld_of(p, slot))];
  }

  ::testing::AssertionResult check_part(const std::map<DenseSlot, std::vector<T>>& expected, DenseSlot slot, Part part,
                                        index_t rows, index_t cols, double scale, bool without_diagonal = false) const {
    DenseProblem p = p_;
    for (index_t j = 0; j < cols; ++j) {
      for (index_t i = 0; i < rows; ++i) {
        if (!is_in(part, i, j) || (without_diagonal && i == j)) continue;
        const auto place = static_cast<std::size_t>(i + j * ld_of(p, slot));
        const double error = static_cast<double>(std::abs(memory_.at(slot)[place] - expected.at(slot)[place]));
        if (auto small = is_small("element", error, scale); !small) return small << " at " << i << ", " << j;
      }
    }
    return ::testing::AssertionSuccess();
  }

  /// X, singular values, what is told of the residuals, and the triangle among A's factors.
  ::testing::AssertionResult check_least_squares(const std::map<DenseSlot, std::vector<T>>& expected) const {
    const bool is_tall = p_.m >= p_.n, is_plain = p_.op == Op::no_trans;
    const Dense<T> A = matrix(before_, DenseSlot::A, p_.lda, p_.m, p_.n);
    const index_t least = std::min(p_.m, p_.n), unknowns = is_plain ? p_.n : p_.m;
    if (auto X = check_part(expected, DenseSlot::B, Part::full, unknowns, p_.k, 10); !X) return X;
    if (p_.routine == DenseRoutine::gelsd) {
      if (auto values = check_values(expected, least, norm(A)); !values) return values;
    } else {
      const Dense<T> factors = matrix(memory_, DenseSlot::A, p_.lda, p_.m, p_.n);
      Dense<T> triangle{least, least};
      for (index_t j = 0; j < least; ++j) {
        for (index_t i = 0; i < least; ++i) {
          if (is_in(is_tall ? Part::upper : Part::lower, i, j)) triangle(i, j) = factors(i, j);
        }
      }
      const Dense<T> left = is_tall ? adjoint(triangle) * triangle : triangle * adjoint(triangle);
      const Dense<T> right = is_tall ? adjoint(A) * A : A * adjoint(A);
      if (auto small = is_small("factors", distance(left, right), norm(A) * norm(A)); !small) return small;
    }
    const bool tells_residuals = is_tall == is_plain && (p_.routine == DenseRoutine::gels || found_ == least);
    for (index_t j = 0; tells_residuals && j < p_.k; ++j) {
      double squares = 0, of_lapack = 0;
      for (index_t i = unknowns; i < std::max(p_.m, p_.n); ++i) {
        const auto place = static_cast<std::size_t>(i + j * p_.ldb);
        squares += std::norm(AnyScalar(memory_.at(DenseSlot::B)[place]));
        of_lapack += std::norm(AnyScalar(expected.at(DenseSlot::B)[place]));
      }
      if (auto small = is_small("residual", std::abs(squares - of_lapack), of_lapack + 1); !small) return small;
    }
    return ::testing::AssertionSuccess();
  }

  /// Of what rounding alone makes different.
  ::testing::AssertionResult check_elements(const std::map<DenseSlot, std::vector<T>>& expected) const {
    using enum DenseRoutine;
    if (multiplies_by_reflectors(p_.routine)) {
      // H of larfb is no reflection here, only some product.
      const double growth = p_.routine == larfb ? static_cast<double>(p_.k * reflected_of(p_)) : 1;
      return check_part(expected, DenseSlot::B, Part::full, p_.m, p_.n,
                        growth * norm(matrix(before_, DenseSlot::B, p_.ldb, p_.m, p_.n)));
    }
    if (p_.routine == trtrs) return check_part(expected, DenseSlot::B, Part::full, p_.n, p_.k, 1);
    if (p_.routine == ungqr) return check_part(expected, DenseSlot::A, Part::full, p_.m, p_.n, 1);
    if (p_.routine == getri) return check_part(expected, DenseSlot::A, Part::full, p_.n, p_.n, 1);
    const double scale = p_.routine == lauum ? static_cast<double>(p_.n) : 1;
    return check_part(expected, DenseSlot::A, part_of(p_.uplo), p_.n, p_.n, scale, p_.diag == Diag::unit);
  }

  DenseProblem p_;
  std::mt19937_64 random_;
  std::map<DenseSlot, std::vector<T>> memory_, before_;
  index_t found_ = -1;
};

}  // namespace tessera::test
