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
#include "kernels/reference/reference_qr.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {

inline std::ostream& operator<<(std::ostream& out, const DenseProblem& p) {
  return out << name_of(p) << " m " << p.m << " n " << p.n << " k " << p.k << (p.vectors ? " vectors" : "") << " u "
             << static_cast<int>(p.u) << " vt " << static_cast<int>(p.vt) << " range " << static_cast<int>(p.range)
             << (p.uplo == Uplo::lower ? " lower" : " upper") << (p.side == Side::left ? " left" : " right") << " op "
             << static_cast<int>(p.op) << " itype " << p.itype << (p.diag == Diag::unit ? " unit" : "");
}

}  // namespace tessera

namespace tessera::test {

inline const kernels::DenseLapack& cpu_dense_lapack() {
  static const kernels::DenseLapack lapack([](const char* name) { return cpu_blas()->fortran(name); });
  return lapack;
}

/// Column-major without padding.
template <Scalar T>
struct Dense {
  index_t rows = 0, cols = 0;
  std::vector<T> elements = std::vector<T>(static_cast<std::size_t>(rows * cols));

  T& operator()(index_t i, index_t j) { return elements[static_cast<std::size_t>(i + j * rows)]; }
  const T& operator()(index_t i, index_t j) const { return elements[static_cast<std::size_t>(i + j * rows)]; }
};
template <Scalar T>
Dense<T> adjoint(const Dense<T>& A) {
  Dense<T> result{A.cols, A.rows};
  for (index_t j = 0; j < A.cols; ++j) {
    for (index_t i = 0; i < A.rows; ++i) result(j, i) = scalar_cast<T>(std::conj(AnyScalar(A(i, j))));
  }
  return result;
}
template <Scalar T>
Dense<T> operator*(const Dense<T>& A, const Dense<T>& B) {
  Dense<T> C{A.rows, B.cols};
  for (index_t j = 0; j < B.cols; ++j) {
    for (index_t l = 0; l < A.cols; ++l) {
      for (index_t i = 0; i < A.rows; ++i) C(i, j) += A(i, l) * B(l, j);
    }
  }
  return C;
}
/// The largest of |A - B|; NaN if there is one.
template <Scalar T>
double distance(const Dense<T>& A, const Dense<T>& B) {
  double largest = 0;
  for (std::size_t i = 0; i < A.elements.size(); ++i) {
    const double d = static_cast<double>(std::abs(A.elements[i] - B.elements[i]));
    if (!(d <= largest)) largest = d;
  }
  return largest;
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
      memory.assign(static_cast<std::size_t>(ld * operand.cols) + 1, poison<T>());
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

  /// What a caller may still need is as it was: inputs, and all that is none of the problem's.
  ::testing::AssertionResult inputs_are_intact() const { return is_unwritten(true); }

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
    if (p_.routine == DenseRoutine::heevr && found_ != outcome.found)
      return ::testing::AssertionFailure() << p_ << ": " << found_ << " eigenvalues, not " << outcome.found;
    if (is_hermitian(p_.routine)) return check_eigen(expected);
    if (is_svd(p_.routine)) return check_svd(expected);
    if (p_.routine == DenseRoutine::geev) return check_geev(expected);
    return check_elements(expected);
  }

 private:
  static constexpr double eps = std::numeric_limits<Real>::epsilon();

  static bool is_in(Part part, index_t i, index_t j) {
    return part == Part::full || (part == Part::lower ? i >= j : i <= j);
  }

  void fill() {
    for (const DenseOperand& operand : DenseOperands(p_)) {
      if (!operand.reads || operand.slot == DenseSlot::tau) continue;
      for (index_t j = 0; j < operand.read_cols; ++j) {
        for (index_t i = 0; i < operand.rows; ++i) {
          if (is_in(operand.read_part, i, j)) at(operand.slot, i, j) = random_scalar<T>(random_);
        }
      }
      shape(operand);
    }
    if (p_.routine == DenseRoutine::ungqr || p_.routine == DenseRoutine::unmqr) {
      const index_t rows = p_.routine == DenseRoutine::unmqr && p_.side == Side::right ? p_.n : p_.m;
      kernels::reference_qr({kernels::PanelKind::qr, p_.type, rows, p_.k, p_.A, p_.lda, nullptr}, p_.tau);
    }
  }

  /// Diagonals: what is Hermitian has real ones, whatever their imaginary parts are; what is inverted large ones.
  void shape(const DenseOperand& operand) {
    const bool is_inverted = p_.routine == DenseRoutine::trtri || p_.routine == DenseRoutine::potri;
    const bool is_definite = p_.routine == DenseRoutine::hegvd && operand.slot == DenseSlot::B;
    for (index_t j = 0; j < (operand.read_part == Part::full ? 0 : p_.n); ++j) {
      T& diagonal = at(operand.slot, j, j);
      double real = AnyScalar(diagonal).real();
      if (is_inverted) real = std::sqrt(static_cast<double>(p_.n)) + 1;
      if (is_definite) real = 2 * std::sqrt(static_cast<double>(p_.n)) + 2;
      const double imaginary = is_inverted ? 0 : std::numeric_limits<double>::quiet_NaN();
      diagonal = scalar_cast<T>(AnyScalar(real, imaginary));
      if (p_.routine == DenseRoutine::trtri && p_.diag == Diag::unit) {
        diagonal = poison<T>();
        for (index_t i = 0; i < p_.n; ++i) {  // so that the inverse does not grow
          if (i != j && is_in(operand.read_part, i, j)) at(operand.slot, i, j) /= Real(p_.n);
        }
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
              operand.reads && i < operand.rows && j < operand.read_cols && is_in(operand.read_part, i, j);
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
      if (auto factor = check_part(expected, DenseSlot::B, part_of(p_.uplo), p_.ldb, norm(B)); !factor) return factor;
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
                                        index_t ld, double scale, bool without_diagonal = false) const {
    const index_t rows = p_.m == 0 ? p_.n : p_.m;
    for (index_t j = 0; j < p_.n; ++j) {
      for (index_t i = 0; i < rows; ++i) {
        if (!is_in(part, i, j) || (without_diagonal && i == j)) continue;
        const auto at = static_cast<std::size_t>(i + j * ld);
        const double error = static_cast<double>(std::abs(memory_.at(slot)[at] - expected.at(slot)[at]));
        if (auto small = is_small("element", error, scale); !small) return small << " at " << i << ", " << j;
      }
    }
    return ::testing::AssertionSuccess();
  }

  /// Of what rounding alone makes different.
  ::testing::AssertionResult check_elements(const std::map<DenseSlot, std::vector<T>>& expected) const {
    if (p_.routine == DenseRoutine::unmqr)
      return check_part(expected, DenseSlot::B, Part::full, p_.ldb,
                        norm(matrix(before_, DenseSlot::B, p_.ldb, p_.m, p_.n)));
    if (p_.routine == DenseRoutine::ungqr) return check_part(expected, DenseSlot::A, Part::full, p_.lda, 1);
    return check_part(expected, DenseSlot::A, part_of(p_.uplo), p_.lda, 1, p_.diag == Diag::unit);
  }

  DenseProblem p_;
  std::mt19937_64 random_;
  std::map<DenseSlot, std::vector<T>> memory_, before_;
  index_t found_ = -1;
};

}  // namespace tessera::test
