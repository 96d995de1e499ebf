// Random problems of LAPACK that a device solves whole (dense_problem.hpp), and the check of their results by residuals
// and our own references.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calls/lapack_call.hpp"
#include "core/loaded_objects.hpp"
#include "kernels/reference/dense_matrix.hpp"
#include "tests/dense_problem.hpp"
#include "tests/dense_reference.hpp"
#include "tests/device/backends.hpp"
#include "tests/direct_lapack.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

template <Scalar T>
class DenseFixture : public DenseProblem<T> {
  using Base = DenseProblem<T>;

 public:
  using Base::at;
  using Base::Base;
  using Base::problem;
  using Base::take_a_back;
  using typename Base::Real;

  /// @param info as returned
  ::testing::AssertionResult check(index_t info) {
    if (auto unwritten = is_unwritten(false); !unwritten) return unwritten;
    if (const index_t right = right_info(); info != right)
      return ::testing::AssertionFailure() << p_ << ": info " << info << ", not " << right;
    if (info != 0) return ::testing::AssertionSuccess();
    if (is_eigenproblem(p_.routine)) return check_eigen();
    if (is_svd(p_.routine)) return check_svd();
    if (p_.routine == Routine::geev) return check_geev();
    if (is_least_squares(p_.routine)) return check_least_squares();
    if (pivots_diagonally(p_.routine)) return check_indefinite();
    return check_elements();
  }

  /// Finds a function of a LAPACK by its Fortran name without prefix and suffix, or nullptr.
  using Find = std::function<void*(const char* name)>;

  /// The error in the problem's solution by a library that is called without Tessera; empty: no error was found.
  std::string fault_of_library(const Find& find) const {
    DenseFixture direct = *this;
    direct.memory_ = before_;
    for (auto& [slot, elements] : direct.memory_) address_of(direct.p_, slot) = elements.data();
    direct.p_.found = &direct.found_;
    if (is_svd(p_.routine)) direct.p_.routine = Routine::gesvd;  // gesvd's jobs allow more
    const std::string name = name_of(direct.p_);
    void* const function = can_call_directly(direct.p_.routine) ? find(name.c_str()) : nullptr;
    if (function == nullptr) return {};
    const index_t info = call_lapack_directly<T>(function, direct.p_, direct.found_);
    if (destroys_a(direct.p_)) direct.take_a_back();
    const ::testing::AssertionResult result = direct.check(info);
    if (result) return {};
    const char* const file = file_of_object(function);
    return name + " of " + (file != nullptr ? file : "an unknown file") + ", called directly: " + result.message();
  }

  /// For a problem that the CPU's LAPACK has solved through us, on a host device or beside the devices. If that library
  /// alone gives a wrong result, too, the test is skipped instead of failed.
  /// @param result of check(), or another failure
  ::testing::AssertionResult unless_library_is_wrong(const ::testing::AssertionResult& result) const {
    if (result) return result;
    const std::string fault = fault_of_library([](const char* name) { return cpu_blas()->fortran(name); });
    if (fault.empty()) return result;
    [&] { GTEST_SKIP() << "the CPU's LAPACK is wrong by itself: " << fault; }();
    return ::testing::AssertionSuccess();
  }

 private:
  using Base::before_;
  using Base::found_;
  using Base::has_null_vector_;
  using Base::indefinite_factors;
  using Base::is_in;
  using Base::is_unwritten;
  using Base::matrix;
  using Base::memory_;
  using Base::p_;
  using Base::right_q;

  static constexpr double eps = std::numeric_limits<Real>::epsilon();

  Dense<T> mirrored(LapackSlot slot, index_t ld) const {
    Dense<T> A = matrix(before_, slot, ld, p_.n, p_.n);
    const Part part = part_of(p_.uplo);
    for (index_t j = 0; j < p_.n; ++j) {
      for (index_t i = 0; i < p_.n; ++i) {
        if (i == j && is_hermitian(p_.routine)) A(i, j) = T(std::real(A(i, j)));
        if (!is_in(part, i, j)) {
          const AnyScalar value = A(j, i);
          A(i, j) = scalar_cast<T>(is_hermitian(p_.routine) ? std::conj(value) : value);
        }
      }
    }
    return A;
  }
  static double real_at(const std::map<LapackSlot, std::vector<T>>& memory, LapackSlot slot, index_t i) {
    return reinterpret_cast<const Real*>(memory.at(slot).data())[i];
  }
  static double norm(const Dense<T>& A) {  // of the order of the largest row or column sum
    return distance(A, Dense<T>{A.rows, A.cols}) * std::sqrt(static_cast<double>(std::max<index_t>(A.rows, A.cols)));
  }
  ::testing::AssertionResult is_small(const char* what, double value, double scale) const {
    const double size = static_cast<double>(std::max({p_.m, p_.n, p_.k, index_t{4}}));
    if (value <= 30 * size * eps * scale) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << p_ << ": " << what << ' ' << value / (size * eps * scale) << " n eps";
  }
  ::testing::AssertionResult are_orthonormal(const char* what, const Dense<T>& V) const {
    return is_small(what, distance(adjoint(V) * V, identity<T>(V.cols)), 1);
  }

  /// LAPACK's info: the first zero on a diagonal, the first minor that is not positive definite.
  index_t right_info() const {
    using enum Routine;
    const auto first_zero = [](index_t count, auto element) {
      for (index_t i = 0; i < count; ++i) {
        if (element(i) == T(0)) return i + 1;
      }
      return index_t{0};
    };
    if (p_.routine == hegvd) {
      index_t minor = 0;
      static_cast<void>(cholesky(widened(mirrored(LapackSlot::B, p_.ldb)), minor));
      return minor == 0 ? 0 : p_.n + minor;
    }
    if (p_.routine == trtrs || is_inverse(p_.routine)) {
      const Dense<T> A = matrix(before_, LapackSlot::A, p_.lda, p_.n, p_.n);
      return p_.diag == Diag::unit ? 0 : first_zero(p_.n, [&](index_t i) { return A(i, i); });
    }
    if (p_.routine == gels) {  // a column or row of zeros stays zero
      Dense<T> A = matrix(before_, LapackSlot::A, p_.lda, p_.m, p_.n);
      if (p_.m < p_.n) A = adjoint(A);
      const auto largest_of = [&](index_t j) {
        const auto column = A.elements.begin() + j * A.rows;
        return std::any_of(column, column + A.rows, [](T element) { return element != T(0); }) ? T(1) : T(0);
      };
      return first_zero(A.cols, largest_of);
    }
    return 0;
  }

  ::testing::AssertionResult check_values(const std::vector<double>& expected) const {
    return check_values(expected, 0, static_cast<index_t>(expected.size()),
                        norm(matrix(before_, LapackSlot::A, p_.lda, p_.m, p_.n)));
  }
  /// @param first index among the expected ones
  ::testing::AssertionResult check_values(const std::vector<double>& expected, index_t first, index_t count,
                                          double scale) const {
    for (index_t i = 0; i < count; ++i) {
      const double value = real_at(memory_, LapackSlot::values, i),
                   right = expected.at(static_cast<std::size_t>(first + i));
      if (auto small = is_small("value", std::abs(value - right), scale); !small) return small << " at " << i;
    }
    return ::testing::AssertionSuccess();
  }

  ::testing::AssertionResult is_found(const char* what, index_t right) const {
    if (found_ == right) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << p_ << ": " << what << ' ' << found_ << ", not " << right;
  }

  /// The eigenvalues of the problem as one of a single Hermitian matrix, in ascending order. @param L B's Cholesky
  /// factor
  std::vector<double> right_eigenvalues(const Dense<T>& A, const Wide& L) const {
    if (p_.routine != Routine::hegvd) return hermitian_eigenvalues(widened(A));
    const Wide left = p_.itype == 1 ? inverse(L) : adjoint(L);
    return hermitian_eigenvalues(left * widened(A) * adjoint(left));
  }

  /// The first eigenvalue that heevr is to compute, and their number.
  std::pair<index_t, index_t> asked_for(const std::vector<double>& eigenvalues) const {
    if (p_.range == EigenRange::indices) return {p_.il - 1, p_.iu - p_.il + 1};
    if (p_.range == EigenRange::all) return {0, p_.n};
    const auto up_to = [&](double bound) {
      return std::upper_bound(eigenvalues.begin(), eigenvalues.end(), bound) - eigenvalues.begin();
    };
    return {up_to(p_.vl), up_to(p_.vu) - up_to(p_.vl)};
  }

  /// ||A - L D L'|| / (n ||A|| eps), and ||B - A X|| / (n ||A|| ||X|| eps) of the solution.
  ::testing::AssertionResult check_indefinite() const {
    const IndefiniteFactors left = indefinite_factors(factors(p_.routine) ? memory_ : before_);
    if (left.blocks().empty()) return ::testing::AssertionFailure() << p_ << ": these are no pivots";
    const Wide A = factors(p_.routine) ? widened(mirrored(LapackSlot::A, p_.lda)) : left.matrix();
    const auto is_rounding = [&](const char* what, const Wide& residual, double scale) {
      const double ratio = one_norm(residual) / (static_cast<double>(p_.n) * scale * eps);
      if (ratio < 30) return ::testing::AssertionSuccess();
      return ::testing::AssertionFailure() << p_ << ": " << what << ' ' << ratio << " n eps";
    };
    if (factors(p_.routine)) {
      const auto result = is_rounding("factors", difference(left.matrix(), A), one_norm(A));
      if (!result) return result;
    }
    if (!solves(p_.routine) || p_.k == 0) return ::testing::AssertionSuccess();
    const Wide X = widened(matrix(memory_, LapackSlot::B, p_.ldb, p_.n, p_.k));
    const Wide B = widened(matrix(before_, LapackSlot::B, p_.ldb, p_.n, p_.k));
    return is_rounding("solution", difference(A * X, B), one_norm(A) * one_norm(X));
  }

  ::testing::AssertionResult check_eigen() const {
    const bool has_b = p_.routine == Routine::hegvd;
    const bool finds_some = p_.routine == Routine::heevr;
    const Dense<T> A = mirrored(LapackSlot::A, p_.lda);
    const Dense<T> B = has_b ? mirrored(LapackSlot::B, p_.ldb) : identity<T>(p_.n);
    const double scale = norm(A) * (has_b ? norm(B) : 1);
    index_t minor = 0;
    const Wide L = has_b ? cholesky(widened(B), minor) : Wide{};
    const std::vector<double> right = right_eigenvalues(A, L);
    const auto [first, count] = asked_for(right);
    if (auto found = is_found("eigenvalues", count); finds_some && !found) return found;
    if (auto values = check_values(right, first, count, scale); !values) return values;
    if (has_b) {
      const Wide factor = p_.uplo == Uplo::lower ? L : adjoint(L);
      if (auto good = check_part(factor, LapackSlot::B, part_of(p_.uplo), norm(B)); !good) return good;
    }
    if (!p_.vectors) return ::testing::AssertionSuccess();
    const Dense<T> V = finds_some ? matrix(memory_, LapackSlot::U, p_.ldu, p_.n, count)
                                  : matrix(memory_, LapackSlot::A, p_.lda, p_.n, p_.n);
    Dense<T> W = V;
    for (index_t j = 0; j < count; ++j) {
      for (index_t i = 0; i < p_.n; ++i) W(i, j) *= Real(real_at(memory_, LapackSlot::values, j));
    }
    const Dense<T> left = p_.itype == 1 ? A * V : p_.itype == 2 ? A * (B * V) : B * (A * V);
    if (auto small = is_small("A V - V W", distance(left, p_.itype == 1 ? B * W : W), scale * norm(V)); !small)
      return small;
    return has_b ? ::testing::AssertionSuccess() : are_orthonormal("V^H V - I", V);
  }

  ::testing::AssertionResult check_svd() const {
    const Dense<T> A = matrix(before_, LapackSlot::A, p_.lda, p_.m, p_.n);
    const index_t least = std::min(p_.m, p_.n);
    if (auto values = check_values(singular_values(widened(A))); !values) return values;
    Dense<T> S{least, least};
    for (index_t i = 0; i < least; ++i) S(i, i) = T(Real(real_at(memory_, LapackSlot::values, i)));
    const auto check_side = [&](const char* what, const Dense<T>& vectors, const Dense<T>& from_left) {
      if (auto orthonormal = are_orthonormal(what, vectors); !orthonormal) return orthonormal;
      Dense<T> first{vectors.rows, least};
      std::copy_n(vectors.elements.begin(), first.elements.size(), first.elements.begin());
      const Dense<T> G = adjoint(first) * from_left;
      return is_small(what, distance(G * adjoint(G), S * S), norm(A) * norm(A));
    };
    const auto stored = [&](VectorJob job, LapackSlot slot, index_t ld, index_t rows, index_t cols) {
      const bool in_a = job == VectorJob::overwrite;
      return matrix(memory_, in_a ? LapackSlot::A : slot, in_a ? p_.lda : ld, rows, cols);
    };
    Dense<T> U, VT;
    if (p_.u != VectorJob::none) {
      U = stored(p_.u, LapackSlot::U, p_.ldu, p_.m, p_.u == VectorJob::all ? p_.m : least);
      if (auto side = check_side("U", U, A); !side) return side;
    }
    if (p_.vt != VectorJob::none) {
      VT = stored(p_.vt, LapackSlot::VT, p_.ldvt, p_.vt == VectorJob::all ? p_.n : least, p_.n);
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

  ::testing::AssertionResult check_geev() const {
    const Dense<T> A = matrix(before_, LapackSlot::A, p_.lda, p_.n, p_.n);
    const auto value = [&](index_t i) {
      if (is_complex(p_.type)) return AnyScalar(memory_.at(LapackSlot::values)[static_cast<std::size_t>(i)]);
      return AnyScalar(real_at(memory_, LapackSlot::values, i), real_at(memory_, LapackSlot::imaginary, i));
    };
    // Matches each right value once.
    std::vector<AnyScalar> right = eigenvalues(widened(A));
    for (index_t i = 0; i < p_.n; ++i) {
      const auto distance_to = [&](AnyScalar other) { return std::abs(value(i) - other); };
      const auto match = std::min_element(right.begin(), right.end(),
                                          [&](AnyScalar a, AnyScalar b) { return distance_to(a) < distance_to(b); });
      const double nearest = distance_to(*match);
      right.erase(match);
      // Eigenvalues of general matrices are sensitive: those of random matrices by a factor of some hundreds.
      if (auto small = is_small("eigenvalue", nearest / 100, norm(A)); !small) return small;
    }
    if (!p_.vectors) return ::testing::AssertionSuccess();
    using Complex = std::complex<Real>;
    for (index_t j = 0; j < p_.n; ++j) {
      const AnyScalar w = value(j);
      Dense<Complex> v{p_.n, 1}, from{p_.n, p_.n};
      const auto stored = [&](index_t i, index_t column) { return at(LapackSlot::U, i, column); };
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

  /// @param expected what the first rows and columns of the slot should hold
  ::testing::AssertionResult check_part(const Wide& expected, LapackSlot slot, Part part, double scale,
                                        bool without_diagonal = false) const {
    LapackCall p = p_;
    for (index_t j = 0; j < expected.cols; ++j) {
      for (index_t i = 0; i < expected.rows; ++i) {
        if (!is_in(part, i, j) || (without_diagonal && i == j)) continue;
        const auto place = static_cast<std::size_t>(i + j * ld_of(p, slot));
        const double error = std::abs(AnyScalar(memory_.at(slot)[place]) - expected(i, j));
        if (auto small = is_small("element", error, scale); !small) return small << " at " << i << ", " << j;
      }
    }
    return ::testing::AssertionSuccess();
  }

  /// The shortest X of least |M X - B|, by normal equations: the matrices are well conditioned, except for the null
  /// vector that take_rank_away() has made. Its square, added to M^H M or M M^H, makes that matrix regular and does not
  /// change X.
  Wide right_least_squares(const Wide& M, const Wide& B) const {
    const bool is_tall = M.rows >= M.cols;
    Wide square = is_tall ? adjoint(M) * M : M * adjoint(M);
    if (const index_t last = square.rows - 1; has_null_vector_) {
      square(0, 0) += 1;
      square(last, last) += 1;
      square(0, last) -= 1;
      square(last, 0) -= 1;
    }
    return is_tall ? inverse(square) * (adjoint(M) * B) : adjoint(M) * (inverse(square) * B);
  }

  /// X, singular values, the sums of squares of the residuals, and the triangle among A's factors.
  ::testing::AssertionResult check_least_squares() const {
    const bool is_tall = p_.m >= p_.n, is_plain = p_.op == Op::no_trans;
    const Dense<T> A = matrix(before_, LapackSlot::A, p_.lda, p_.m, p_.n);
    const index_t least = std::min(p_.m, p_.n);
    const Wide M = with_op(p_.op, widened(A)), B = widened(matrix(before_, LapackSlot::B, p_.ldb, M.rows, p_.k));
    const Wide X = right_least_squares(M, B);
    if (auto good = check_part(X, LapackSlot::B, Part::full, 10); !good) return good;
    if (p_.routine == Routine::gelsd) {
      const std::vector<double> values = singular_values(widened(A));
      const double smallest = (p_.rcond < 0 ? eps : p_.rcond) * values.front();
      const auto rank = std::count_if(values.begin(), values.end(), [&](double value) { return value > smallest; });
      if (auto found = is_found("rank", rank); !found) return found;
      if (auto good = check_values(values); !good) return good;
    } else {
      const Dense<T> factors = matrix(memory_, LapackSlot::A, p_.lda, p_.m, p_.n);
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
    const bool tells_residuals = is_tall == is_plain && (p_.routine == Routine::gels || found_ == least);
    const Wide MX = M * X;
    for (index_t j = 0; tells_residuals && j < p_.k; ++j) {
      double squares = 0, right = 0;
      for (index_t i = M.cols; i < M.rows; ++i)
        squares += std::norm(AnyScalar(memory_.at(LapackSlot::B)[static_cast<std::size_t>(i + j * p_.ldb)]));
      for (index_t i = 0; i < M.rows; ++i) right += std::norm(B(i, j) - MX(i, j));
      if (auto small = is_small("residual", std::abs(squares - right), right + 1); !small) return small;
    }
    return ::testing::AssertionSuccess();
  }

  /// The triangle of A that is read.
  Wide triangle_of_a() const {
    Wide triangle = widened(matrix(before_, LapackSlot::A, p_.lda, p_.n, p_.n));
    for (index_t j = 0; j < p_.n; ++j) {
      for (index_t i = 0; i < p_.n; ++i) {
        if (!is_in(part_of(p_.uplo), i, j)) triangle(i, j) = 0;
        if (i == j && p_.diag == Diag::unit) triangle(i, j) = 1;
      }
    }
    return triangle;
  }

  /// The matrix whose factors getrf left in A.
  Wide product_of_lu() const {
    Wide L = widened(matrix(before_, LapackSlot::A, p_.lda, p_.n, p_.n)), U = L;
    for (index_t j = 0; j < p_.n; ++j) {
      for (index_t i = 0; i < p_.n; ++i) (i > j ? U : L)(i, j) = 0;
      L(j, j) = 1;
    }
    Wide A = L * U;
    const auto* const pivots = reinterpret_cast<const std::int64_t*>(before_.at(LapackSlot::ipiv).data());
    for (index_t i = p_.n - 1; i >= 0; --i) {
      for (index_t j = 0; j < p_.n; ++j) std::swap(A(i, j), A(pivots[i] - 1, j));
    }
    return A;
  }

  /// Whether two matrices differ only by rounding.
  ::testing::AssertionResult check_elements() const {
    using enum Routine;
    if (multiplies_by_reflectors(p_.routine)) {
      const Dense<T> B = matrix(before_, LapackSlot::B, p_.ldb, p_.m, p_.n);
      const Wide Q = with_op(p_.op, right_q());
      // H of larfb is an arbitrary product here, not a reflection.
      const double growth = p_.routine == larfb ? static_cast<double>(p_.k * reflected_of(p_)) : 1;
      return check_part(p_.side == Side::left ? Q * widened(B) : widened(B) * Q, LapackSlot::B, Part::full,
                        growth * norm(B));
    }
    const Part part = part_of(p_.uplo);
    const bool is_unit = p_.diag == Diag::unit;
    switch (p_.routine) {
      case trtrs: {
        const Wide B = widened(matrix(before_, LapackSlot::B, p_.ldb, p_.n, p_.k));
        return check_part(inverse(with_op(p_.op, triangle_of_a())) * B, LapackSlot::B, Part::full, 1);
      }
      case ungqr: {
        Wide Q = right_q();
        Q.cols = p_.n;
        return check_part(Q, LapackSlot::A, Part::full, 1);
      }
      case unglq: {
        const Wide Q = right_q();
        Wide first_rows{p_.m, p_.n};
        for (index_t j = 0; j < p_.n; ++j) {
          for (index_t i = 0; i < p_.m; ++i) first_rows(i, j) = Q(i, j);
        }
        return check_part(first_rows, LapackSlot::A, Part::full, 1);
      }
      case getri:
        return check_part(inverse(product_of_lu()), LapackSlot::A, Part::full, 1);
      case trtri:
        return check_part(inverse(triangle_of_a()), LapackSlot::A, part, 1, is_unit);
      default:
        break;
    }
    const Wide triangle = triangle_of_a(), other = adjoint(triangle);
    if (p_.routine == potri)
      return check_part(inverse(p_.uplo == Uplo::lower ? triangle * other : other * triangle), LapackSlot::A, part, 1);
    return check_part(p_.uplo == Uplo::lower ? other * triangle : triangle * other, LapackSlot::A, part,
                      static_cast<double>(p_.n));
  }
};

}  // namespace tessera::test
