// Random products of 16-bit numbers, and the comparison of a result with sums in double. The bounds hold for sums in
// single in every order, and one rounding. All memory that must be neither read nor written is poisoned.
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
#include <vector>

#include "calls/level3.hpp"
#include "core/half.hpp"
#include "kernels/half_batch.hpp"

namespace tessera::test {

struct HalfCase {
  Op op_a = Op::no_trans, op_b = Op::no_trans;
  index_t m = 0, n = 0, k = 0;
  AnyScalar alpha = {0.75, -0.5}, beta = {-1.5, 0.25};  ///< real types: the real parts
  index_t padding = 0;                                  ///< of every leading dimension
  double scale = 1;                                     ///< of the elements of A, which lie in [-scale, scale]
  /// The first elements of A and B, for tests of NaN and infinities.
  double first_of_a = 0, first_of_b = 0;
  bool has_special = false;

  friend std::ostream& operator<<(std::ostream& out, const HalfCase& c) {
    const auto op = [](Op one) { return one == Op::no_trans ? 'n' : one == Op::trans ? 't' : 'c'; };
    return out << op(c.op_a) << op(c.op_b) << ' ' << c.m << " x " << c.n << " x " << c.k << " alpha " << c.alpha
               << " beta " << c.beta << " padding " << c.padding << " scale " << c.scale;
  }
};

template <class E>
class HalfFixture {
 public:
  using Element = E;
  using R = typename E::R;
  static constexpr int parts = E::parts;

  HalfFixture(const HalfCase& c, unsigned seed) : case_(c) {
    const auto factor = [](AnyScalar value) { return parts == 2 ? value : AnyScalar(value.real()); };
    call_ = {.routine = Routine::gemm, .type = kernels::sums_of(half_type_of<E>()), .op_a = c.op_a, .op_b = c.op_b};
    call_.m = c.m;
    call_.n = c.n;
    call_.k = c.k;
    call_.alpha = factor(c.alpha);
    call_.beta = factor(c.beta);
    const auto ld = [&](index_t rows) { return std::max<index_t>(rows, 1) + c.padding; };
    call_.lda = ld(shape_of_a(call_).rows);
    call_.ldb = ld(shape_of_b(call_).rows);
    call_.ldc = ld(c.m);
    std::mt19937_64 random(seed);
    A_ = matrix(shape_of_a(call_), call_.lda, c.scale, random);
    B_ = matrix(shape_of_b(call_), call_.ldb, 1, random);
    C_ = matrix({c.m, c.n}, call_.ldc, 1, random);
    if (c.has_special && !A_.empty() && !B_.empty()) {
      A_.front().part[0] = rounded_to<R>(static_cast<float>(c.first_of_a));
      B_.front().part[0] = rounded_to<R>(static_cast<float>(c.first_of_b));
    }
    if (call_.beta == AnyScalar(0)) std::fill(C_.begin(), C_.end(), poison());
    // Poison for elements that must not be read.
    if (call_.only_scales()) {
      std::fill(A_.begin(), A_.end(), poison());
      std::fill(B_.begin(), B_.end(), poison());
    }
    A_before_ = A_;
    B_before_ = B_;
    C_before_ = C_;
  }

  Level3 problem() {
    Level3 call = call_;
    call.A = A_.data();
    call.B = B_.data();
    call.C = C_.data();
    return call;
  }
  std::vector<E>& A() { return A_; }
  std::vector<E>& B() { return B_; }
  std::vector<E>& C() { return C_; }

  ::testing::AssertionResult check() const {
    if (!same(A_, A_before_) || !same(B_, B_before_)) return failure() << "an operand was written";
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.ldc; ++i) {
        const auto at = static_cast<std::size_t>(i + j * call_.ldc);
        if (i >= call_.m) {
          if (std::memcmp(&C_[at], &C_before_[at], sizeof(E)) != 0) return failure() << "padding was written";
          continue;
        }
        const Expected expected = expected_at(i, j);
        for (int p = 0; p < parts; ++p) {
          const double value = to_single(C_[at].part[p]);
          if (!is_good(value, expected.value[p], expected.error))
            return failure() << "C(" << i << ", " << j << ") part " << p << " is " << value << ", not "
                             << expected.value[p] << " within " << expected.error << " before rounding";
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

  static E poison() {
    E element;
    std::memset(&element, 0xff, sizeof element);
    return element;
  }

 private:
  static constexpr bool is_half = std::same_as<R, Half>;
  /// Half a unit in the last place of numbers in [1, 2) and of the smallest numbers; and the threshold to infinity.
  static constexpr double unit = is_half ? 0x1p-11 : 0x1p-8, least = is_half ? 0x1p-25 : 0x1p-134;
  static constexpr double beyond = is_half ? 65520.0 : 0x1.ffp127;

  struct Expected {
    double value[2] = {};
    double error = 0;  ///< the error of sums in single precision
  };
  struct Term {
    double re = 0, im = 0;
  };

  ::testing::AssertionResult failure() const {
    return ::testing::AssertionFailure() << letters(half_type_of<E>()) << "gemm " << case_ << ": ";
  }
  static bool same(const std::vector<E>& one, const std::vector<E>& other) {
    return one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(E)) == 0;
  }

  static std::vector<E> matrix(StoredShape shape, index_t ld, double scale, std::mt19937_64& random) {
    std::uniform_real_distribution<double> value(-scale, scale);
    std::vector<E> all(static_cast<std::size_t>(ld * shape.cols), poison());
    for (index_t j = 0; j < shape.cols; ++j) {
      for (index_t i = 0; i < shape.rows; ++i) {
        for (R& part : all[static_cast<std::size_t>(i + j * ld)].part)
          part = rounded_to<R>(static_cast<float>(value(random)));
      }
    }
    return all;
  }
  static Term seen(const E& element, Op op) {
    Term term{to_single(element.part[0]), parts == 2 ? to_single(element.part[parts - 1]) : 0.0};
    if (op == Op::conj_trans) term.im = -term.im;
    return term;
  }
  static Term product(const Term& a, const Term& b) {
    if (parts == 1) return {a.re * b.re, 0};
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  static double size(const Term& a) { return std::abs(a.re) + std::abs(a.im); }

  Expected expected_at(index_t i, index_t j) const {
    const Term alpha{call_.alpha.real(), call_.alpha.imag()}, beta{call_.beta.real(), call_.beta.imag()};
    Term sum;
    double sizes = 0;
    for (index_t l = 0; l < call_.k && !call_.only_scales(); ++l) {
      const bool a = call_.op_a == Op::no_trans, b = call_.op_b == Op::no_trans;
      const Term left = seen(A_[static_cast<std::size_t>(a ? i + l * call_.lda : l + i * call_.lda)], call_.op_a);
      const Term right = seen(B_[static_cast<std::size_t>(b ? l + j * call_.ldb : j + l * call_.ldb)], call_.op_b);
      const Term term = product(left, right);
      sum.re += term.re;
      sum.im += term.im;
      sizes += size(left) * size(right);
    }
    Term value = call_.only_scales() ? Term{} : product(alpha, sum);
    double all = size(alpha) * sizes;
    if (call_.beta != AnyScalar(0)) {
      const Term before = seen(C_before_[static_cast<std::size_t>(i + j * call_.ldc)], Op::no_trans);
      const Term kept = call_.beta == AnyScalar(1) ? before : product(beta, before);
      value.re += kept.re;
      value.im += kept.im;
      all += size(beta) * size(before);
    }
    // A tensor core's sum loses up to a unit of the last place of its largest term with each.
    return {{value.re, value.im}, static_cast<double>(2 * call_.k + 8) * 0x1p-23 * all};
  }

  static bool is_good(double value, double expected, double error) {
    if (std::isnan(expected)) return std::isnan(value);
    if (std::isinf(expected)) return value == expected;
    if (!std::isfinite(error)) return true;  // the other part's
    if (std::isnan(value)) return false;
    const bool may_be_infinite = std::abs(expected) + error >= beyond, must_be = std::abs(expected) - error >= beyond;
    if (std::isinf(value)) return may_be_infinite && (value > 0) == (expected > 0);
    if (must_be) return false;
    const double largest = std::abs(expected) + error;
    return std::abs(value - expected) <= error + std::max(unit * largest, least);
  }

  HalfCase case_;
  Level3 call_;
  std::vector<E> A_, B_, C_, A_before_, B_before_, C_before_;
};

}  // namespace tessera::test
