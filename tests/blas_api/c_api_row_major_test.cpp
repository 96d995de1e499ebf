// LAPACK on row-major matrices through the C API: each routine by the equation that its results fulfil, on devices and on the CPU,
// with padding that must stay as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "calls/row_major.hpp"
#include "offload/context.hpp"
#include "tessera/lapack.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace c_api_row_major_test {

constexpr auto rows = TESSERA_ROW_MAJOR;

/// A row-major matrix with padding behind each row. There is one more row, since OpenBLAS 0.3.21's zlauum reads behind a matrix.
template <Scalar T>
class Rows {
 public:
  Rows(index_t m, index_t n) : m(m), n(n), ld(n + 3), elements(static_cast<std::size_t>((m + 1) * ld), T(77)) {}
  static Rows random(index_t m, index_t n, std::mt19937_64& source) {
    Rows made(m, n);
    made.fill([&](index_t, index_t) { return test::random_scalar<T>(source); });
    return made;
  }
  template <class F>
  void fill(F&& f) {
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j) at(i, j) = f(i, j);
  }
  T& at(index_t i, index_t j) { return elements[static_cast<std::size_t>(i * ld + j)]; }
  const T& at(index_t i, index_t j) const { return elements[static_cast<std::size_t>(i * ld + j)]; }
  T* data() { return elements.data(); }
  bool has_its_padding() const {
    for (index_t i = 0; i < m; ++i)
      for (index_t j = n; j < ld; ++j)
        if (elements[static_cast<std::size_t>(i * ld + j)] != T(77)) return false;
    return true;
  }

  index_t m, n, ld;
  std::vector<T> elements;
};

template <Scalar T>
T conjugate(T x) {
  if constexpr (std::floating_point<T>)
    return x;
  else
    return std::conj(x);
}

template <Scalar T>
Rows<T> with_op(const Rows<T>& A, Op op) {
  if (op == Op::no_trans) return A;
  Rows<T> made(A.n, A.m);
  made.fill([&](index_t i, index_t j) { return op == Op::trans ? A.at(j, i) : conjugate(A.at(j, i)); });
  return made;
}

template <Scalar T>
Rows<T> operator*(const Rows<T>& A, const Rows<T>& B) {
  Rows<T> C(A.m, B.n);
  C.fill([&](index_t i, index_t j) {
    T sum{};
    for (index_t l = 0; l < A.n; ++l) sum += A.at(i, l) * B.at(l, j);
    return sum;
  });
  return C;
}

template <Scalar T>
double norm(const Rows<T>& A) {
  double most = 0;
  for (index_t i = 0; i < A.m; ++i)
    for (index_t j = 0; j < A.n; ++j) most = std::max(most, static_cast<double>(std::abs(A.at(i, j))));
  return most;
}

template <Scalar T>
double distance(const Rows<T>& A, const Rows<T>& B) {
  Rows<T> difference(A.m, A.n);
  difference.fill([&](index_t i, index_t j) { return A.at(i, j) - B.at(i, j); });
  return std::isnan(norm(difference)) ? 1e300 : norm(difference);
}

template <Scalar T>
Rows<T> identity(index_t n) {
  Rows<T> made(n, n);
  made.fill([](index_t i, index_t j) { return T(i == j ? 1 : 0); });
  return made;
}

/// The triangle, and zeros.
template <Scalar T>
Rows<T> triangle_of(const Rows<T>& A, Uplo uplo, Diag diag = Diag::non_unit) {
  Rows<T> made(A.m, A.n);
  made.fill([&](index_t i, index_t j) {
    if (i == j && diag == Diag::unit) return T(1);
    return (uplo == Uplo::lower ? j <= i : j >= i) ? A.at(i, j) : T(0);
  });
  return made;
}

/// With poison in the other triangle.
template <Scalar T>
Rows<T> spoilt(Rows<T> A, Uplo kept) {
  A.fill(
      [&](index_t i, index_t j) { return (kept == Uplo::lower ? j <= i : j >= i) ? A.at(i, j) : test::poison<T>(); });
  return A;
}

template <Scalar T>
Rows<T> diagonal(const std::vector<decltype(std::abs(T{}))>& values) {
  const auto n = static_cast<index_t>(values.size());
  Rows<T> made(n, n);
  made.fill([&](index_t i, index_t j) { return i == j ? T(values[static_cast<std::size_t>(i)]) : T(0); });
  return made;
}

constexpr tessera_uplo c_uplo(Uplo uplo) { return uplo == Uplo::lower ? TESSERA_LOWER : TESSERA_UPPER; }
constexpr tessera_transpose c_trans(Op op) {
  return static_cast<tessera_transpose>(static_cast<int>(op) + TESSERA_NO_TRANS);
}
std::int64_t* integers(std::vector<std::int64_t>& values) { return values.data(); }

template <class T>
class RowMajor : public testing::Test {
 protected:
  using Real = decltype(std::abs(T{}));
  static constexpr index_t n = 53, more = 67, nrhs = 21;

  template <class F>
  void everywhere(F&& f) {
    for (const char* settings :
         {"TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16", "TESSERA_OFFLOAD=never"}) {
      SCOPED_TRACE(settings);
      const Context context(settings);
      f(context);
    }
  }
  /// @param scale of the numbers that the difference comes from
  void expect_near(const Rows<T>& A, const Rows<T>& B, double scale = 1) {
    EXPECT_LE(distance(A, B),
              200 * static_cast<double>(std::numeric_limits<Real>::epsilon()) * n * std::max(scale, norm(B)));
  }
  Rows<T> random(index_t m, index_t columns) { return Rows<T>::random(m, columns, source_); }
  /// Random, and no eigenvalue near 0.
  Rows<T> regular() {
    Rows<T> A = random(n, n);
    for (index_t i = 0; i < n; ++i) A.at(i, (i * 7 + 3) % n) += T(20);
    return A;
  }
  Rows<T> hermitian(bool definite) {
    Rows<T> A = random(n, n);
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < i; ++j) A.at(j, i) = conjugate(A.at(i, j));
      A.at(i, i) = T(std::real(A.at(i, i)) + (definite ? 20 : 0));
    }
    return A;
  }

 private:
  std::mt19937_64 source_{17};
};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RowMajor, Types);

TYPED_TEST(RowMajor, CholeskyFactorsSolvesAndInverts) {
  using T = TypeParam;
  constexpr index_t n = TestFixture::n;
  this->everywhere([&](const Context& c) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      const Rows<T> A = this->hermitian(true), X = this->random(n, this->nrhs);
      Rows<T> factor = spoilt(A, uplo), B = A * X;
      EXPECT_EQ(potrf(c, rows, c_uplo(uplo), n, factor.data(), factor.ld), 0);
      const Rows<T> triangle = triangle_of(factor, uplo), other = with_op(triangle, Op::conj_trans);
      this->expect_near(uplo == Uplo::lower ? triangle * other : other * triangle, A);
      EXPECT_EQ(potrs<T>(c, rows, c_uplo(uplo), n, B.n, factor.data(), factor.ld, B.data(), B.ld), 0);
      this->expect_near(B, X);
      EXPECT_TRUE(B.has_its_padding() && factor.has_its_padding());
      Rows<T> inverse = factor;
      EXPECT_EQ(potri(c, rows, c_uplo(uplo), n, inverse.data(), inverse.ld), 0);
      Rows<T> whole = inverse;
      whole.fill([&](index_t i, index_t j) {
        return (uplo == Uplo::lower) == (j <= i) ? inverse.at(i, j) : conjugate(inverse.at(j, i));
      });
      this->expect_near(whole * A, identity<T>(n));

      Rows<T> together = spoilt(A, uplo), solution = A * X;
      EXPECT_EQ(posv(c, rows, c_uplo(uplo), n, X.n, together.data(), together.ld, solution.data(), solution.ld), 0);
      this->expect_near(solution, X);
    }
  });
}

TYPED_TEST(RowMajor, LuFactorsSolvesAndInverts) {
  using T = TypeParam;
  constexpr index_t n = TestFixture::n;
  this->everywhere([&](const Context& c) {
    for (const auto& [m, columns] : {std::pair{n, n}, {n, TestFixture::more}, {TestFixture::more, n}}) {
      const Rows<T> A = this->random(m, columns);
      const index_t least = std::min(m, columns);
      std::vector<std::int64_t> ipiv(static_cast<std::size_t>(least));
      Rows<T> factors = A;
      EXPECT_EQ(getrf(c, rows, m, columns, factors.data(), factors.ld, integers(ipiv)), 0);
      EXPECT_TRUE(factors.has_its_padding());
      Rows<T> L(m, least), U(least, columns), swapped = A;
      L.fill([&](index_t i, index_t j) { return j <= i ? factors.at(i, j) : T(0); });
      U.fill([&](index_t i, index_t j) { return i == j ? T(1) : j > i ? factors.at(i, j) : T(0); });
      for (index_t j = 0; j < least; ++j) {
        const index_t other = ipiv[static_cast<std::size_t>(j)] - 1;
        for (index_t i = 0; i < m; ++i) std::swap(swapped.at(i, j), swapped.at(i, other));
      }
      this->expect_near(L * U, swapped);
      EXPECT_LE(norm(triangle_of(U, Uplo::upper)), 1.5);  // the pivot is the largest by |re| + |im|
    }
    const Rows<T> A = this->regular(), X = this->random(n, this->nrhs);
    std::vector<std::int64_t> ipiv(static_cast<std::size_t>(n));
    Rows<T> factors = A, B = A * X;
    EXPECT_EQ(gesv(c, rows, n, B.n, factors.data(), factors.ld, integers(ipiv), B.data(), B.ld), 0);
    this->expect_near(B, X);
    EXPECT_TRUE(B.has_its_padding());
    for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
      Rows<T> right = with_op(A, op) * X;
      EXPECT_EQ(getrs<T>(c, rows, c_trans(op), n, X.n, factors.data(), factors.ld, ipiv.data(), right.data(), right.ld),
                0);
      this->expect_near(right, X);
    }
    EXPECT_EQ(getri(c, rows, n, factors.data(), factors.ld, ipiv.data()), 0);
    this->expect_near(A * factors, identity<T>(n));

    Rows<T> singular = A, untouched = X;
    for (index_t j = 0; j < n; ++j) singular.at(11, j) = T(0);
    EXPECT_GT(gesv(c, rows, n, X.n, singular.data(), singular.ld, integers(ipiv), untouched.data(), untouched.ld), 0);
    EXPECT_EQ(distance(untouched, X), 0);
  });
}

TYPED_TEST(RowMajor, BunchKaufmanFactorsAndSolves) {
  using T = TypeParam;
  constexpr index_t n = TestFixture::n;
  this->everywhere([&](const Context& c) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      for (const bool is_hermitian : {false, true}) {
        if (is_hermitian && std::floating_point<T>) continue;
        Rows<T> A = this->hermitian(false);
        if (!is_hermitian) A.fill([&](index_t i, index_t j) { return A.at(std::max(i, j), std::min(i, j)); });
        const Rows<T> X = this->random(n, this->nrhs);
        const double scale = 1e3 * norm(X);  // the condition of a random matrix
        std::vector<std::int64_t> ipiv(static_cast<std::size_t>(n));
        Rows<T> factors = spoilt(A, uplo), together = factors, B = A * X, solution = B;
        if constexpr (!std::floating_point<T>) {
          if (is_hermitian) {
            EXPECT_EQ(hetrf(c, rows, c_uplo(uplo), n, factors.data(), factors.ld, integers(ipiv)), 0);
            EXPECT_EQ(hetrs<T>(c, rows, c_uplo(uplo), n, B.n, factors.data(), factors.ld, ipiv.data(), B.data(), B.ld),
                      0);
            EXPECT_EQ(hesv(c, rows, c_uplo(uplo), n, B.n, together.data(), together.ld, integers(ipiv), solution.data(),
                           B.ld),
                      0);
          }
        }
        if (!is_hermitian) {
          EXPECT_EQ(sytrf(c, rows, c_uplo(uplo), n, factors.data(), factors.ld, integers(ipiv)), 0);
          EXPECT_EQ(sytrs<T>(c, rows, c_uplo(uplo), n, B.n, factors.data(), factors.ld, ipiv.data(), B.data(), B.ld),
                    0);
          EXPECT_EQ(
              sysv(c, rows, c_uplo(uplo), n, B.n, together.data(), together.ld, integers(ipiv), solution.data(), B.ld),
              0);
        }
        this->expect_near(B, X, scale);
        this->expect_near(solution, X, scale);
        EXPECT_TRUE(B.has_its_padding());
      }
    }
  });
}

TYPED_TEST(RowMajor, TrianglesSolveAndAreInverted) {
  using T = TypeParam;
  constexpr index_t n = TestFixture::n;
  this->everywhere([&](const Context& c) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      for (const Diag diag : {Diag::unit, Diag::non_unit}) {
        Rows<T> A = this->random(n, n);
        A.fill([&](index_t i, index_t j) { return i == j ? A.at(i, j) + T(9) : A.at(i, j) * T(0.05F); });
        const Rows<T> triangle = triangle_of(A, uplo, diag), X = this->random(n, this->nrhs);
        Rows<T> given = spoilt(A, uplo);
        const tessera_diag c_diag = diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT;
        for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
          Rows<T> B = with_op(triangle, op) * X;
          EXPECT_EQ(
              trtrs<T>(c, rows, c_uplo(uplo), c_trans(op), c_diag, n, B.n, given.data(), given.ld, B.data(), B.ld), 0);
          this->expect_near(B, X);
          EXPECT_TRUE(B.has_its_padding());
        }
        Rows<T> inverse = given;
        EXPECT_EQ(trtri(c, rows, c_uplo(uplo), c_diag, n, inverse.data(), inverse.ld), 0);
        this->expect_near(triangle_of(inverse, uplo, diag) * triangle, identity<T>(n));
        if (diag == Diag::unit) continue;
        Rows<T> B = X;
        given.at(4, 4) = T(0);
        EXPECT_EQ(
            trtrs<T>(c, rows, c_uplo(uplo), TESSERA_NO_TRANS, c_diag, n, B.n, given.data(), given.ld, B.data(), B.ld),
            5);
        EXPECT_EQ(distance(B, X), 0);
      }
    }
  });
}

TYPED_TEST(RowMajor, ReflectorsMakeQ) {
  using T = TypeParam;
  this->everywhere([&](const Context& c) {
    for (const auto& [m, columns] : {std::pair{TestFixture::more, TestFixture::n},
                                     {TestFixture::n, TestFixture::n},
                                     {TestFixture::n, TestFixture::more}}) {
      const index_t least = std::min(m, columns);
      const Rows<T> A = this->random(m, columns);
      Rows<T> factored = A;
      std::vector<T> tau(static_cast<std::size_t>(least));
      EXPECT_EQ(geqrf(c, rows, m, columns, factored.data(), factored.ld, tau.data()), 0);
      Rows<T> R(least, columns), Q(m, least);
      R.fill([&](index_t i, index_t j) { return j >= i ? factored.at(i, j) : T(0); });
      Q.fill([&](index_t i, index_t j) { return factored.at(i, j); });
      EXPECT_EQ(ungqr(c, rows, m, least, least, Q.data(), Q.ld, tau.data()), 0);
      EXPECT_TRUE(Q.has_its_padding() && factored.has_its_padding());
      this->expect_near(Q * R, A);
      this->expect_near(with_op(Q, Op::conj_trans) * Q, identity<T>(least));
      // By the first reflector alone, from its definition: the stored vectors are LAPACK's.
      Rows<T> v(m, 1), first = A;
      v.fill([&](index_t i, index_t) { return i == 0 ? T(1) : factored.at(i, 0); });
      const Rows<T> projection = v * (with_op(v, Op::conj_trans) * A);
      first.fill([&](index_t i, index_t j) { return A.at(i, j) - conjugate(tau[0]) * projection.at(i, j); });
      for (index_t i = 1; i < m; ++i) EXPECT_LE(std::abs(first.at(i, 0)), 1e-4);

      for (const bool left : {true, false}) {
        for (const Op op : {Op::no_trans, Op::conj_trans}) {
          Rows<T> C = left ? this->random(m, 9) : this->random(9, m);
          Rows<T> all = C;  // Q of m columns, by its products with the identity
          const Rows<T> given = C;
          EXPECT_EQ(unmqr<T>(c, rows, left ? TESSERA_LEFT : TESSERA_RIGHT, c_trans(op), C.m, C.n, least,
                             factored.data(), factored.ld, tau.data(), C.data(), C.ld),
                    0);
          EXPECT_TRUE(C.has_its_padding());
          Rows<T> whole = identity<T>(m);
          EXPECT_EQ(unmqr<T>(c, rows, TESSERA_LEFT, c_trans(op), m, m, least, factored.data(), factored.ld, tau.data(),
                             whole.data(), whole.ld),
                    0);
          this->expect_near(C, left ? whole * given : given * whole);
          if (op == Op::conj_trans) whole = with_op(whole, Op::conj_trans);
          Rows<T> thin(m, least);
          thin.fill([&](index_t i, index_t j) { return whole.at(i, j); });
          this->expect_near(thin, Q);
        }
      }

      Rows<T> lq = A;
      EXPECT_EQ(gelqf(c, rows, m, columns, lq.data(), lq.ld, tau.data()), 0);
      Rows<T> L(m, least), rows_of_q(least, columns);
      L.fill([&](index_t i, index_t j) { return j <= i ? lq.at(i, j) : T(0); });
      rows_of_q.fill([&](index_t i, index_t j) { return lq.at(i, j); });
      EXPECT_EQ(unglq(c, rows, least, columns, least, rows_of_q.data(), rows_of_q.ld, tau.data()), 0);
      this->expect_near(L * rows_of_q, A);
    }
  });
}

TYPED_TEST(RowMajor, EigenvaluesAndVectors) {
  using T = TypeParam;
  constexpr index_t n = TestFixture::n;
  this->everywhere([&](const Context& c) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      const Rows<T> A = this->hermitian(false), B = this->hermitian(true);
      std::vector<typename TestFixture::Real> w(n), alone(n);
      Rows<T> V = spoilt(A, uplo), destroyed = V;
      EXPECT_EQ(heevd(c, rows, TESSERA_VECTORS, c_uplo(uplo), n, V.data(), V.ld, w.data()), 0);
      EXPECT_TRUE(V.has_its_padding());
      this->expect_near(A * V, V * diagonal<T>(w), 9);
      this->expect_near(with_op(V, Op::conj_trans) * V, identity<T>(n));
      EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
      EXPECT_EQ(heevd(c, rows, TESSERA_NO_VECTORS, c_uplo(uplo), n, destroyed.data(), destroyed.ld, alone.data()), 0);
      this->expect_near(diagonal<T>(alone), diagonal<T>(w), 9);

      Rows<T> G = spoilt(A, uplo), factor = spoilt(B, uplo);
      EXPECT_EQ(hegvd(c, rows, 1, TESSERA_VECTORS, c_uplo(uplo), n, G.data(), G.ld, factor.data(), factor.ld, w.data()),
                0);
      this->expect_near(A * G, B * (G * diagonal<T>(w)), 9);
      const Rows<T> triangle = triangle_of(factor, uplo), other = with_op(triangle, Op::conj_trans);
      this->expect_near(uplo == Uplo::lower ? triangle * other : other * triangle, B);
      Rows<T> again = spoilt(A, uplo), other_factor = spoilt(B, uplo);
      EXPECT_EQ(hegvd(c, rows, 1, TESSERA_NO_VECTORS, c_uplo(uplo), n, again.data(), again.ld, other_factor.data(),
                      other_factor.ld, alone.data()),
                0);
      this->expect_near(diagonal<T>(alone), diagonal<T>(w), 9);
    }
  });
}

TYPED_TEST(RowMajor, SingularValuesAndVectors) {
  using T = TypeParam;
  this->everywhere([&](const Context& c) {
    for (const auto& [m, columns] :
         {std::pair{TestFixture::more, TestFixture::n}, {TestFixture::n, TestFixture::more}}) {
      for (const tessera_vectors vectors : {TESSERA_NO_VECTORS, TESSERA_VECTORS, TESSERA_ALL_VECTORS}) {
        const index_t least = std::min(m, columns);
        const bool all = vectors == TESSERA_ALL_VECTORS;
        const Rows<T> A = this->random(m, columns);
        Rows<T> destroyed = A, U(m, all ? m : least), VT(all ? columns : least, columns);
        std::vector<typename TestFixture::Real> s(static_cast<std::size_t>(least));
        EXPECT_EQ(gesdd(c, rows, vectors, m, columns, destroyed.data(), destroyed.ld, s.data(), U.data(), U.ld,
                        VT.data(), VT.ld),
                  0);
        EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend()));
        if (vectors == TESSERA_NO_VECTORS) continue;
        Rows<T> S(U.n, VT.m);
        S.fill([&](index_t i, index_t j) { return i == j ? T(s[static_cast<std::size_t>(i)]) : T(0); });
        this->expect_near(U * S * VT, A, 9);
        this->expect_near(with_op(U, Op::conj_trans) * U, identity<T>(U.n));
        EXPECT_TRUE(U.has_its_padding() && VT.has_its_padding());
      }
    }
  });
}

TYPED_TEST(RowMajor, LeastSquares) {
  using T = TypeParam;
  this->everywhere([&](const Context& c) {
    for (const auto& [m, columns] :
         {std::pair{TestFixture::more, TestFixture::n}, {TestFixture::n, TestFixture::more}}) {
      const Rows<T> A = this->random(m, columns);
      for (const Op op : {Op::no_trans, Op::conj_trans}) {
        const Rows<T> problem = with_op(A, op), X = this->random(problem.n, this->nrhs);
        const Rows<T> right = problem * X;
        Rows<T> B(std::max(m, columns), X.n), factors = A;
        B.fill([&](index_t i, index_t j) { return i < right.m ? right.at(i, j) : T(0); });
        EXPECT_EQ(gels(c, rows, c_trans(op), m, columns, X.n, factors.data(), factors.ld, B.data(), B.ld), 0);
        EXPECT_TRUE(B.has_its_padding());
        Rows<T> solution(problem.n, X.n);
        solution.fill([&](index_t i, index_t j) { return B.at(i, j); });
        this->expect_near(problem * solution, right, 90);
        if (problem.m >= problem.n) this->expect_near(solution, X, 90);
      }
      const Rows<T> X = this->random(columns, this->nrhs), right = A * X;
      Rows<T> B(std::max(m, columns), X.n), destroyed = A;
      B.fill([&](index_t i, index_t j) { return i < right.m ? right.at(i, j) : T(0); });
      std::vector<typename TestFixture::Real> s(static_cast<std::size_t>(std::min(m, columns)));
      std::int64_t rank = 0;
      EXPECT_EQ(gelsd(c, rows, m, columns, X.n, destroyed.data(), destroyed.ld, B.data(), B.ld, s.data(),
                      static_cast<typename TestFixture::Real>(-1), &rank),
                0);
      EXPECT_EQ(rank, std::min(m, columns));
      Rows<T> solution(columns, X.n);
      solution.fill([&](index_t i, index_t j) { return B.at(i, j); });
      this->expect_near(A * solution, right, 90);
    }
  });
}

TYPED_TEST(RowMajor, GeneralEigenvectors) {
  using T = TypeParam;
  using Complex = std::complex<typename TestFixture::Real>;
  constexpr index_t n = TestFixture::n;
  this->everywhere([&](const Context& c) {
    const Rows<T> A = this->random(n, n);
    Rows<T> destroyed = A, V(n, n);
    std::vector<Complex> values(n);
    Rows<Complex> vectors(n, n), matrix(n, n);
    matrix.fill([&](index_t i, index_t j) { return Complex(A.at(i, j)); });
    if constexpr (std::floating_point<T>) {
      std::vector<T> real(n), imaginary(n);
      EXPECT_EQ(geev(c, rows, TESSERA_VECTORS, n, destroyed.data(), destroyed.ld, real.data(), imaginary.data(),
                     V.data(), V.ld),
                0);
      for (index_t j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(j);
        values[at] = Complex(real[at], imaginary[at]);
        const index_t first = imaginary[at] < 0 ? j - 1 : j;
        const T sign = imaginary[at] < 0 ? T(-1) : T(1);
        for (index_t i = 0; i < n; ++i)
          vectors.at(i, j) = Complex(V.at(i, first), imaginary[at] != 0 ? sign * V.at(i, first + 1) : T(0));
      }
    } else {
      EXPECT_EQ(geev(c, rows, TESSERA_VECTORS, n, destroyed.data(), destroyed.ld, values.data(), V.data(), V.ld), 0);
      vectors.fill([&](index_t i, index_t j) { return V.at(i, j); });
    }
    EXPECT_TRUE(V.has_its_padding());
    Rows<Complex> scaled = vectors;
    scaled.fill([&](index_t i, index_t j) { return vectors.at(i, j) * values[static_cast<std::size_t>(j)]; });
    EXPECT_LE(distance(matrix * vectors, scaled),
              2e4 * static_cast<double>(std::numeric_limits<typename TestFixture::Real>::epsilon()));
  });
}

TEST(RowMajorArguments, AreCheckedByTheirColumns) {
  const Context context("TESSERA_OFFLOAD=never");
  tessera_context ctx = context.handle();
  double A[6] = {4, 1, 1, 3, 2, 2}, B[6] = {}, tau[2];
  std::int64_t ipiv[2], info = 99;
  EXPECT_EQ(tessera_dgetrf(ctx, static_cast<tessera_layout>(103), -1, 2, A, 2, ipiv, &info), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 2);
  EXPECT_EQ(tessera_dgetrf(ctx, rows, 2, 3, A, 2, ipiv, &info), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 6);
  EXPECT_THAT(tessera_last_error(), testing::HasSubstr("columns"));
  EXPECT_EQ(tessera_dgesv(ctx, rows, 2, 3, A, 2, ipiv, B, 2, &info), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 9);
  EXPECT_EQ(info, 99);
  EXPECT_EQ(tessera_dgeqrf(ctx, rows, 3, 2, A, 2, tau, &info), TESSERA_SUCCESS);
}

/// Every routine of the own interface has been thought of: where it is called in columns, its operands have the shapes that they
/// have in memory, transposed, or are copied.
TEST(RowMajorCalls, HaveTheTransposedShapes) {
  for (const RoutineRow& row : routine_rows) {
    if ((row.way != Way::factors && row.way != Way::whole) || is(row.routine, fortran_only)) continue;
    for (const ScalarType type : scalar_types) {
      if (!exists(row.routine, type)) continue;
      LapackCall given{
          .routine = row.routine, .type = type, .vectors = true, .u = VectorJob::thin, .vt = VectorJob::all};
      given.m = given.n = 6;
      if (has_m(row.routine)) given.m = 8;
      if (is(row.routine, in_rows) && forms_q(row.routine)) std::swap(given.m, given.n);
      given.k = 5;
      given.lda = given.ldb = given.ldu = given.ldvt = 11;
      const InColumns made = in_columns(given);
      const LapackOperands before(given), after(made.call);
      ASSERT_EQ(before.end() - before.begin(), after.end() - after.begin()) << row.real;
      for (const LapackOperand& operand : before) {
        if (!operand.has_ld()) continue;
        const bool is_vectors = operand.slot == LapackSlot::U || operand.slot == LapackSlot::VT;
        const LapackSlot slot = is_vectors && is_svd(row.routine)
                                    ? (operand.slot == LapackSlot::U ? LapackSlot::VT : LapackSlot::U)
                                    : operand.slot;
        for (const LapackOperand& lying : after) {
          if (lying.slot != slot) continue;
          const auto expected =
              made.copies(slot) ? std::pair{operand.rows, operand.cols} : std::pair{operand.cols, operand.rows};
          EXPECT_EQ(std::pair(lying.rows, lying.cols), expected) << row.real << " slot " << static_cast<int>(slot);
        }
      }
    }
  }
}

TEST(WouldOffload, IsTheDecision) {
  int answer = 9;
  const Context always("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always"),
      never("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=never");
  const Context by_size("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=never,getrf=100");
  EXPECT_EQ(tessera_would_offload(always.handle(), "dgetrf", 5, 5, 0, &answer), TESSERA_SUCCESS);
  EXPECT_EQ(answer, 1);
  EXPECT_EQ(tessera_would_offload(never.handle(), "dgetrf", 5000, 5000, 0, &answer), TESSERA_SUCCESS);
  EXPECT_EQ(answer, 0);
  for (const auto& [order, expected] : {std::pair{50, 0}, {500, 1}}) {
    EXPECT_EQ(tessera_would_offload(by_size.handle(), "dgetrf", order, order, 0, &answer), TESSERA_SUCCESS);
    EXPECT_EQ(answer, expected) << order;
  }
  for (const char* name : {"dgetrf", "zheevd", "sgemm", "cunmqr", "dorgqr", "dtrsm"})
    EXPECT_EQ(tessera_would_offload(always.handle(), name, 50, 40, 30, &answer), TESSERA_SUCCESS) << name;
  for (const char* name : {"getrf", "dgetrf_", "", "dheevd", "nonsense"}) {
    EXPECT_EQ(tessera_would_offload(always.handle(), name, 5, 5, 5, &answer), TESSERA_INVALID_ARGUMENT) << name;
    EXPECT_EQ(tessera_last_error_position(), 2);
  }
  EXPECT_EQ(tessera_would_offload(always.handle(), "dgemm", 5, -1, 5, &answer), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 4);
  EXPECT_EQ(tessera_would_offload(always.handle(), "dgemm", 5, 1, 5, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 6);
}

TEST(SharedContext, IsOneAndStays) {
  tessera_context first = nullptr, second = nullptr;
  EXPECT_EQ(tessera_shared_context(&first), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_destroy(first), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_shared_context(&second), TESSERA_SUCCESS);
  EXPECT_EQ(first, second);
  double A[4] = {4, 1, 1, 3};
  std::int64_t info = 9;
  EXPECT_EQ(tessera_dpotrf(second, rows, TESSERA_LOWER, 2, A, 2, &info), TESSERA_SUCCESS);
  EXPECT_EQ(info, 0);
  EXPECT_EQ(A[0], 2);
}

TEST(SharedContext, MayBeChosen) {
  static tessera_context other = nullptr;  // never destroyed
  tessera_context environments = nullptr, now = nullptr;
  EXPECT_EQ(tessera_shared_context(&environments), TESSERA_SUCCESS);
  ASSERT_EQ(tessera_create_with(&other, "TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always"), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_choose_context(other), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_shared_context(&now), TESSERA_SUCCESS);
  EXPECT_EQ(now, other);
  EXPECT_EQ(offload::shared_context().config().devices, DeviceChoice::host);
  EXPECT_EQ(tessera_destroy(other), TESSERA_INVALID_ARGUMENT);  // the symbols may be using it
  EXPECT_EQ(tessera_choose_context(nullptr), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_shared_context(&now), TESSERA_SUCCESS);
  EXPECT_EQ(now, environments);
  EXPECT_EQ(tessera_destroy(other), TESSERA_INVALID_ARGUMENT);
}

TEST(CopyMatrix, ChecksItsArgumentsAndCopies) {
  const double from[6] = {1, 2, 3, 4, 5, 6};
  double to[6] = {};
  EXPECT_EQ(tessera_copy_matrix(TESSERA_COPY_FULL, 0, 2, 3, 8, from, 24, 8, to, 8, 16), TESSERA_SUCCESS);
  EXPECT_THAT(to, testing::ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(tessera_copy_matrix(TESSERA_COPY_UPPER, 0, 2, 3, 8, from, 24, 8, to, 24, 8), TESSERA_SUCCESS);
  EXPECT_THAT(to, testing::ElementsAre(1, 2, 3, 0, 5, 6));
  const auto position = [&](int part, int conjugate, std::int64_t m, std::int64_t columns, std::size_t element,
                            const void* source, std::int64_t stride, void* target) {
    const auto status = tessera_copy_matrix(static_cast<tessera_copied_part>(part), conjugate, m, columns, element,
                                            source, stride, 8, target, 24, 8);
    return status == TESSERA_INVALID_ARGUMENT ? tessera_last_error_position() : 0;
  };
  EXPECT_EQ(position(5, 0, 2, 3, 8, from, 24, to), 1);
  EXPECT_EQ(position(0, 0, -2, 3, 8, from, 24, to), 3);
  EXPECT_EQ(position(0, 0, 2, -3, 8, from, 24, to), 4);
  EXPECT_EQ(position(0, 0, 2, 3, 3, from, 24, to), 5);
  EXPECT_EQ(position(0, 1, 2, 3, 4, from, 24, to), 5);
  EXPECT_EQ(position(0, 0, 2, 3, 8, nullptr, 24, to), 6);
  EXPECT_EQ(position(0, 0, 3, 3, 8, from, std::numeric_limits<std::int64_t>::max() / 2, to), 7);
  EXPECT_EQ(position(0, 0, 2, 3, 8, from, 24, nullptr), 9);
  EXPECT_EQ(position(0, 0, 0, 3, 8, nullptr, 24, nullptr), 0);
}

TEST(CopyMatrix, OfABatchChecksItsArgumentsAndCopies) {
  const double from[4] = {1, 2, 3, 4};
  double to[4] = {};
  const auto position = [&](std::int64_t from_stride, void* target, std::int64_t to_stride, std::int64_t count) {
    const auto status = tessera_copy_matrix_batch_strided(TESSERA_COPY_FULL, 0, 1, 2, 8, from, 16, 8, from_stride,
                                                          target, 16, 8, to_stride, count);
    return status == TESSERA_INVALID_ARGUMENT ? tessera_last_error_position() : 0;
  };
  EXPECT_EQ(position(-16, to + 2, -16, 0), 0);
  EXPECT_EQ(position(16, to + 2, -16, 2), 0);
  EXPECT_THAT(to, testing::ElementsAre(3, 4, 1, 2));
  EXPECT_EQ(position(std::numeric_limits<std::int64_t>::max() / 2, to, 16, 3), 9);
  EXPECT_EQ(position(16, nullptr, 16, 2), 10);
  EXPECT_EQ(position(16, to, std::numeric_limits<std::int64_t>::max() / 2, 3), 13);
  EXPECT_EQ(position(16, to, 16, -1), 14);
}

}  // namespace c_api_row_major_test
}  // namespace tessera
