// Random Level-3 problems of every routine, and the comparison of a result with the oracle by bounds that hold for
// every order of summation. All memory that must be neither read nor written is poisoned.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <span>
#include <vector>

#include "calls/level3.hpp"
#include "core/scalar.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::test {

inline constexpr Routine all_routines[] = {Routine::gemm, Routine::symm,  Routine::hemm,  Routine::syrk,
                                           Routine::herk, Routine::syr2k, Routine::her2k, Routine::trmm,
                                           Routine::trsm, Routine::gemmt};
inline constexpr ScalarType all_types[] = {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z};
inline constexpr Op all_ops[] = {Op::no_trans, Op::trans, Op::conj_trans};
inline constexpr Side all_sides[] = {Side::left, Side::right};
inline constexpr Uplo all_uplos[] = {Uplo::upper, Uplo::lower};
inline constexpr Diag all_diags[] = {Diag::non_unit, Diag::unit};

/// The Hermitian routines exist in the complex types only.
inline std::span<const ScalarType> types_of(Routine routine) {
  const bool complex_only = Level3{.routine = routine}.is_hermitian();
  return std::span(all_types).subspan(complex_only ? 2 : 0);
}

template <Scalar T>
T random_scalar(std::mt19937_64& random) {
  std::uniform_real_distribution<double> value(-1, 1);
  const double real = value(random);
  return scalar_cast<T>(AnyScalar(real, is_complex(scalar_type_of<T>()) ? value(random) : 0));
}

template <Scalar T>
T poison() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return scalar_cast<T>(AnyScalar(nan, nan));
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

/// The triangle of a system to be solved. Substitution has a small residual for every triangle (Higham, Accuracy and
/// Stability of Numerical Algorithms, section 8.1). Other algorithms have one only for well-conditioned triangles.
enum class Triangle : std::uint8_t {
  dominant,  ///< the diagonal is larger than the rest of its row together
  ones,      ///< all elements have modulus one, so that the solution grows from row to row
  graded,    ///< elements of rows and columns fall to 2^-40
  kahan,     ///< Kahan's: ill conditioned, which no element shows
  subnormal  ///< some pivots are so small that their reciprocals overflow, with rows, columns and right-hand sides as small
};
inline constexpr Triangle harder_triangles[] = {Triangle::ones, Triangle::graded, Triangle::kahan};

/// One call to be tested. Members that a routine does not need are ignored. Rank updates and gemmt are n x n. In the
/// complex types any transposition stands for the only one of BLAS (syrk: trans, herk: conj_trans).
struct Level3Case {
  Routine routine = Routine::gemm;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Op op_a = Op::no_trans;
  Op op_b = Op::no_trans;
  Diag diag = Diag::non_unit;
  index_t m = 1, n = 1, k = 1;
  AnyScalar alpha = 1;
  AnyScalar beta = 0;
  index_t padding = 3;  ///< added to every leading dimension
  Triangle triangle = Triangle::dominant;
  bool apart = false;  ///< trmm's B is separate from C
  bool free_half =
      false;  ///< gemmt may leave anything in the other triangle of C, as on a device (kernels/tile_ops.hpp)
};

inline std::ostream& operator<<(std::ostream& out, const Level3Case& c) {
  return out << name_of(c.routine) << (c.side == Side::left ? " left" : " right")
             << (c.uplo == Uplo::lower ? " lower" : " upper") << " ops "
             << "NTC"[static_cast<int>(c.op_a)] << "NTC"[static_cast<int>(c.op_b)]
             << (c.diag == Diag::unit ? " unit" : "") << " m " << c.m << " n " << c.n << " k " << c.k << " alpha "
             << c.alpha << " beta " << c.beta << " padding " << c.padding << (c.apart ? " B apart" : "") << " triangle "
             << static_cast<int>(c.triangle);
}

/// A case with its matrices. A test passes problem() to the code under test, then calls check(). It may also copy the
/// matrices elsewhere and back: problem() points only to A(), B() and C().
template <Scalar T>
class Level3Fixture {
 public:
  using Element = T;
  Level3Fixture(const Level3Case& c, unsigned seed) : case_(c) {
    if (c.routine != Routine::trmm) case_.apart = false;
    const bool complex = is_complex(scalar_type_of<T>());
    call_ = {.routine = c.routine,
             .type = scalar_type_of<T>(),
             .side = c.side,
             .uplo = c.uplo,
             .op_a = c.op_a,
             .op_b = c.op_b,
             .diag = c.diag,
             .m = c.m,
             .n = c.n,
             .k = c.k,
             .alpha = as_passed(c.alpha),
             .beta = as_passed(c.beta)};
    if (call_.updates_triangle()) call_.m = call_.n;
    if (call_.is_rank_update()) {
      if (complex && call_.op_a != Op::no_trans) call_.op_a = call_.is_hermitian() ? Op::conj_trans : Op::trans;
      if (call_.is_hermitian()) call_.beta = call_.beta.real();
      if (call_.routine == Routine::herk) call_.alpha = call_.alpha.real();
    }
    if (call_.is_triangular()) call_.beta = 0;

    std::mt19937_64 random(seed);
    call_.lda = leading_dimension(shape_of_a(call_).rows);
    call_.ldb = leading_dimension(b_shape().rows);
    call_.ldc = leading_dimension(call_.m);
    A_ = random_matrix<T>(shape_of_a(call_).rows, shape_of_a(call_).cols, call_.lda, random);
    B_ = random_matrix<T>(b_shape().rows, b_shape().cols, call_.ldb, random);
    C_ = random_matrix<T>(call_.m, call_.n, call_.ldc, random);
    if (call_.routine == Routine::trsm) make_system();
    if (!call_.has_k()) shape_triangle_of_a();
    if (case_.routine == Routine::trsm && is_hard()) multiply_right_hand_sides();
    poison_unread();
    A_before_ = A_;
    B_before_ = B_;
    C_before_ = C_;
  }

  Level3 problem() {
    Level3 call = call_;
    call.A = A_.data();
    call.C = C_.data();
    if (is_in_place()) {
      call.B = C_.data();
      call.ldb = call.ldc;
    } else if (!B_.empty()) {
      call.B = B_.data();
    }
    return call;
  }

  std::vector<T>& A() { return A_; }
  std::vector<T>& B() { return B_; }  ///< empty if the routine has no B, or uses C as B
  std::vector<T>& C() { return C_; }
  const Level3Case& parameters() const { return case_; }

  ::testing::AssertionResult check() const {
    if (!same_bytes(A_, A_before_)) return failure() << "A was written";
    if (!same_bytes(B_, B_before_)) return failure() << "B was written";
    const bool does_nothing = call_.only_scales() && !call_.is_triangular() && call_.beta == AnyScalar(1);
    for (index_t at = 0; at < static_cast<index_t>(C_.size()); ++at) {
      const index_t i = at % call_.ldc;
      const index_t j = at / call_.ldc;
      const bool is_free = case_.free_half && call_.routine == Routine::gemmt && i < call_.m;
      if (does_nothing || (!is_written(i, j) && !is_free)) {
        const auto element = static_cast<std::size_t>(at);
        if (std::memcmp(&C_[element], &C_before_[element], sizeof(T)) != 0)
          return failure() << "element (" << i << ", " << j << ") of C was written";
      }
    }
    if (does_nothing) return ::testing::AssertionSuccess();
    return call_.routine == Routine::trsm && !call_.only_scales() ? check_residual() : check_product();
  }

 private:
  using Real = decltype(std::abs(T{}));
  using Wide = kernels::Wide<T>;

  static AnyScalar as_passed(AnyScalar value) { return AnyScalar(scalar_cast<T>(value)); }
  bool is_in_place() const { return call_.routine == Routine::trmm && !case_.apart; }
  StoredShape b_shape() const { return is_in_place() ? StoredShape{} : shape_of_b(call_); }
  index_t leading_dimension(index_t rows) const { return std::max<index_t>(1, rows + case_.padding); }

  static bool is_outside(Uplo uplo, index_t i, index_t j) { return uplo == Uplo::lower ? i < j : i > j; }

  bool is_written(index_t i, index_t j) const {
    return i < call_.m && !(call_.updates_triangle() && is_outside(call_.uplo, i, j));
  }

  static T with_poisoned_imaginary_part(T value) {
    return scalar_cast<T>(AnyScalar(AnyScalar(value).real(), std::numeric_limits<double>::quiet_NaN()));
  }

  /// Gives both triangles of A the case's form, and makes right-hand sides as small as the pivots.
  void make_system() {
    const index_t order = shape_of_a(call_).rows;
    // Pivots below this one have reciprocals that overflow.
    const Real tiny = std::numeric_limits<Real>::min() / 64;
    const auto is_tiny = [&](index_t i) { return case_.triangle == Triangle::subnormal && i % 5 == 2; };
    for (index_t j = 0; j < order; ++j) {
      for (index_t i = 0; i < order; ++i) {
        T& a = A_[static_cast<std::size_t>(i + j * call_.lda)];
        const T sign = a / std::abs(a);
        switch (case_.triangle) {
          case Triangle::dominant:
          case Triangle::subnormal:
            a = i == j ? a + sign : a * static_cast<Real>(0.5 / static_cast<double>(order));
            break;
          case Triangle::ones:
            a = sign;
            break;
          case Triangle::graded:
            a = (i == j ? a + sign : a) * static_cast<Real>(std::exp2(-20 * (i + j) / order));
            break;
          case Triangle::kahan: {
            constexpr double angle = 1.2;
            const double row = std::pow(std::sin(angle), static_cast<double>(std::min(i, j)));
            a = static_cast<Real>(i == j ? row : -std::cos(angle) * row);
            break;
          }
        }
        if (is_tiny(i) || is_tiny(j)) a *= tiny;
      }
    }
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.m; ++i) {
        if (is_tiny(call_.side == Side::left ? i : j)) C_[static_cast<std::size_t>(i + j * call_.ldc)] *= tiny;
      }
    }
  }

  bool is_hard() const {
    return std::ranges::find(harder_triangles, case_.triangle) != std::ranges::end(harder_triangles);
  }

  /// B = op(A) X for the present random X. So X is small although the inverse is large, and its residual must be small,
  /// too.
  void multiply_right_hand_sides() {
    Level3 call = call_;
    call.routine = Routine::trmm;
    call.alpha = 1;
    call.A = A_.data();
    call.B = call.C = C_.data();
    call.ldb = call.ldc;
    kernels::oracle_level3(call);
  }

  /// The triangle of A that is not stored, and the parts of its diagonal that are not read, become NaN.
  void shape_triangle_of_a() {
    const index_t order = shape_of_a(call_).rows;
    for (index_t j = 0; j < order; ++j) {
      for (index_t i = 0; i < order; ++i) {
        T& a = A_[static_cast<std::size_t>(i + j * call_.lda)];
        if (is_outside(call_.uplo, i, j)) {
          a = poison<T>();
        } else if (i == j && call_.is_triangular()) {
          if (call_.diag == Diag::unit) a = poison<T>();
        } else if (i == j && call_.is_hermitian()) {
          a = with_poisoned_imaginary_part(a);
        }
      }
    }
  }

  void poison_unread() {
    if (call_.only_scales()) {
      std::fill(A_.begin(), A_.end(), poison<T>());
      std::fill(B_.begin(), B_.end(), poison<T>());
    }
    const bool reads_c = call_.is_triangular() ? !call_.only_scales() && !case_.apart : call_.beta != AnyScalar(0);
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.m; ++i) {
        T& c = C_[static_cast<std::size_t>(i + j * call_.ldc)];
        if (!reads_c || !is_written(i, j)) {
          c = poison<T>();
        } else if (i == j && has_real_diagonal()) {
          c = with_poisoned_imaginary_part(c);
        }
      }
    }
  }

  bool has_real_diagonal() const { return call_.is_rank_update() && call_.is_hermitian(); }

  /// The moduli of a matrix; if only the real part of a diagonal counts, the modulus of that.
  static std::vector<double> moduli(const std::vector<T>& matrix, index_t ld, bool real_diagonal) {
    std::vector<double> result(matrix.size());
    for (std::size_t at = 0; at < matrix.size(); ++at) {
      const auto i = static_cast<index_t>(at) % ld;
      const auto j = static_cast<index_t>(at) / ld;
      const std::complex<double> value(matrix[at]);
      result[at] = real_diagonal && i == j ? std::abs(value.real()) : std::abs(value);
    }
    return result;
  }

  /// |alpha| |A| |B| + |beta| |C| for the operands of `call` and the old C; in C's storage.
  std::vector<double> magnitude(Level3 call, const std::vector<T>& B) const {
    const std::vector<double> a = moduli(A_, call.lda, call.routine == Routine::hemm);
    const std::vector<double> b = moduli(B, call.ldb, false);
    std::vector<double> c = moduli(C_before_, call.ldc, has_real_diagonal());
    if (call.routine == Routine::hemm) call.routine = Routine::symm;
    if (call.routine == Routine::herk) call.routine = Routine::syrk;
    if (call.routine == Routine::her2k) call.routine = Routine::syr2k;
    call.type = ScalarType::d;
    call.alpha = std::abs(call.alpha);
    call.beta = std::abs(call.beta);
    call.A = a.data();
    call.B = b.data();
    call.C = c.data();
    kernels::oracle_level3(call);
    return c;
  }

  /// gamma of Higham, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 3.6, for any order of summation
  /// with or without fused operations. Every term of an element goes through at most this many roundings.
  long double gamma() const {
    index_t terms = call_.k;
    if (!call_.has_k()) terms = shape_of_a(call_).rows;
    if (call_.routine == Routine::syr2k || call_.routine == Routine::her2k) terms *= 2;
    const long double u = std::numeric_limits<Real>::epsilon() / 2;
    return static_cast<long double>(terms + 4) * u * (std::floating_point<T> ? 1 : 2 * std::sqrt(2.0L));
  }

  ::testing::AssertionResult check_product() const {
    std::vector<T> expected = C_before_;
    Level3 call = call_;
    call.A = A_.data();
    call.B = B_.data();
    if (is_in_place()) {
      call.B = expected.data();
      call.ldb = call.ldc;
    }
    call.C = expected.data();
    kernels::oracle_level3(call);
    const std::vector<double> size = magnitude(call, is_in_place() ? C_before_ : B_);
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.m; ++i) {
        if (!is_written(i, j)) continue;
        const auto at = static_cast<std::size_t>(i + j * call_.ldc);
        const long double error = std::abs(Wide(C_[at]) - Wide(expected[at]));
        // A NaN fails this.
        if (!(error <= gamma() * size[at])) {
          return failure() << "element (" << i << ", " << j << ") is " << C_[at] << ", not " << expected[at];
        }
        if (i == j && has_real_diagonal() && AnyScalar(C_[at]).imag() != 0) {
          return failure() << "element " << i << " of the diagonal is " << C_[at] << ", which is not real";
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

  /// |alpha B - op(A) X| against |op(A)| |X| + |alpha B|. Substitution satisfies this with factor 1 (Higham, section
  /// 8.1); kernels that invert diagonal blocks add the condition of these triangles, which is small.
  ::testing::AssertionResult check_residual() const {
    Level3 call = call_;
    call.routine = Routine::trmm;
    call.alpha = 1;
    call.A = A_.data();
    call.B = C_.data();
    call.ldb = call.ldc;
    std::vector<T> product = C_before_;
    call.C = product.data();
    kernels::oracle_level3(call);
    const std::vector<double> size = magnitude(call, C_);
    const Wide alpha(scalar_cast<T>(call_.alpha));
    // The rounding of operations on subnormal numbers.
    const long double underflow =
        static_cast<long double>(4 * (shape_of_a(call_).rows + 4)) * std::numeric_limits<Real>::denorm_min();
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.m; ++i) {
        const auto at = static_cast<std::size_t>(i + j * call_.ldc);
        const Wide right_hand_side = alpha * Wide(C_before_[at]);
        const long double residual = std::abs(right_hand_side - Wide(product[at]));
        if (!(residual <= 4 * gamma() * (size[at] + std::abs(right_hand_side)) + underflow)) {
          return failure() << "the residual of element (" << i << ", " << j << ") is " << residual << ", X is "
                           << C_[at];
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

  ::testing::AssertionResult failure() const {
    return ::testing::AssertionFailure() << letter(call_.type) << case_ << ": ";
  }

  static bool same_bytes(const std::vector<T>& one, const std::vector<T>& other) {
    return one.size() == other.size() &&
           (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
  }

  Level3Case case_;
  Level3 call_;  ///< without addresses
  std::vector<T> A_, B_, C_, A_before_, B_before_, C_before_;
};

using GemmCase = Level3Case;
template <Scalar T>
using GemmFixture = Level3Fixture<T>;

/// 0, 1 and another; in complex types one that is not real.
inline std::vector<AnyScalar> factors(ScalarType type) {
  return {0, 1, is_complex(type) ? AnyScalar(0.5, -1.25) : AnyScalar(-1.5)};
}

/// Every combination of side, uplo, ops and diag that the routine has in the type; the rest as in `base`.
template <class F>
void for_each_variant(ScalarType type, const Level3Case& base, F&& f) {
  const Level3 call{.routine = base.routine};
  std::vector<Op> ops(std::begin(all_ops), std::end(all_ops));
  if (call.is_rank_update() && is_complex(type)) ops = {Op::no_trans, call.is_hermitian() ? Op::conj_trans : Op::trans};
  const bool is_symmetric = base.routine == Routine::symm || base.routine == Routine::hemm;
  const auto is_first = [](auto value) { return static_cast<int>(value) == 0; };
  for (const Side side : all_sides) {
    if (!is_first(side) && call.has_k()) continue;
    for (const Uplo uplo : all_uplos) {
      if (!is_first(uplo) && base.routine == Routine::gemm) continue;
      for (const Op op_a : ops) {
        if (!is_first(op_a) && is_symmetric) continue;
        for (const Op op_b : ops) {
          if (!is_first(op_b) && !call.has_op_b()) continue;
          for (const Diag diag : all_diags) {
            if (!is_first(diag) && !call.is_triangular()) continue;
            Level3Case c = base;
            c.side = side;
            c.uplo = uplo;
            c.op_a = op_a;
            c.op_b = op_b;
            c.diag = diag;
            f(c);
          }
        }
      }
    }
  }
}

}  // namespace tessera::test
