// The readable reference, against the oracle and by hand, and the fixture that checks results by it.
#include "kernels/reference/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "tests/kernels/small_problems.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace reference_test {

using test::Level3Case;
using test::Level3Fixture;

TEST(Reference, FollowsTheReferenceBlas) {
  test::for_each_small_problem([&](auto& fixture) {
    kernels::reference_level3(fixture.problem());
    ASSERT_TRUE(fixture.check());
  });
}

TEST(Reference, ComputesAProductDoneByHand) {
  // The oracle itself is checked by hand: [1+i 2; 0 i] * [i; 3-i] = [5-i; 1+3i], and with X conjugated and transposed.
  using z = std::complex<double>;
  const z X[4] = {z(1, 1), 0, 2, z(0, 1)};  // column-major
  const z Y[2] = {z(0, 1), z(3, -1)};
  z C[2] = {z(10, 0), z(0, 10)};
  kernels::reference_gemm<z>(Op::no_trans, Op::no_trans, 2, 1, 2, 1, X, 2, Y, 2, 0, C, 2);
  EXPECT_EQ(C[0], z(5, -1));
  EXPECT_EQ(C[1], z(1, 3));
  // conj(X)^T * Y = [(1-i) i; 2i - i (3-i)] = [1+i; -1-i]; times i, plus 2 C.
  kernels::reference_gemm<z, kernels::Wide<z>>(Op::conj_trans, Op::no_trans, 2, 1, 2, z(0, 1), X, 2, Y, 2, 2, C, 2);
  EXPECT_EQ(C[0], z(9, -1));
  EXPECT_EQ(C[1], z(3, 5));
  // X^T * conj(Y)^T for a 1 x 2 Y: X^T = [1+i 0; 2 i].
  kernels::reference_gemm<z>(Op::trans, Op::conj_trans, 2, 1, 2, 1, X, 2, Y, 1, 0, C, 2);
  EXPECT_EQ(C[0], z(1, -1));
  EXPECT_EQ(C[1], z(-1, 1));
}

TEST(Reference, ComputesTheOtherRoutinesDoneByHand) {
  using z = std::complex<double>;
  using Matrix = std::vector<z>;  // 2 x 2, column-major
  const z i(0, 1);
  const Matrix before = {1, 2, 3, 4};
  const auto expect = [&](Level3 call, const Matrix& A, const Matrix& B, const Matrix& expected) {
    for (const auto& compute : {kernels::reference_level3, kernels::oracle_level3}) {
      Matrix C = before;
      call.type = ScalarType::z;
      call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 2;
      call.A = A.data();
      call.B = call.is_triangular() ? C.data() : B.data();
      call.C = C.data();
      compute(call);
      EXPECT_EQ(C, expected) << name_of(call);
    }
  };
  // The lower triangle of A is [i .; 2 1]: symmetric [i 2; 2 1], Hermitian [0 2; 2 1] (its first element counts as 0).
  const Matrix A = {i, 2, 77, 1};
  const Matrix unit = {1, 0, 0, 1};
  const Matrix X = {1, i, 0, 1};  // [1 0; i 1]
  expect({.routine = Routine::symm, .beta = 2}, A, unit, {2.0 + i, 6, 8, 9});
  expect({.routine = Routine::hemm, .beta = 2}, A, unit, {2, 6, 8, 9});
  expect({.routine = Routine::symm, .side = Side::right}, A, X, {i, 1, 2, 1.0 + 2.0 * i});
  // The upper triangle of a Hermitian matrix [3 1+i; 1-i 2] times the unit matrix.
  expect({.routine = Routine::hemm, .uplo = Uplo::upper}, {3, 77, 1.0 + i, 2}, unit, {3, 1.0 - i, 1.0 + i, 2});
  // X X^T = [1 i; i 0], X X^H = [1 -i; i 2], X^H X = [2 -i; i 1].
  expect({.routine = Routine::syrk, .beta = 1}, X, {}, {2, 2.0 + i, 3, 4});
  expect({.routine = Routine::herk, .beta = 1}, X, {}, {2, 2.0 + i, 3, 6});
  expect({.routine = Routine::herk, .uplo = Uplo::upper, .op_a = Op::conj_trans}, X, {}, {2, 2, -i, 1});
  // X B^T for B = [1 2; 0 3]: [1 0; 2+i 3]; conj(X)^T B = [1 2-3i; 0 3]. The other triangle stays as it is.
  expect({.routine = Routine::gemmt, .op_b = Op::trans, .beta = 1}, X, {1, 0, 2, 3}, {2, 4.0 + i, 3, 7});
  expect({.routine = Routine::gemmt, .uplo = Uplo::upper, .op_a = Op::conj_trans}, X, {1, 0, 2, 3},
         {1, 2, 2.0 - 3.0 * i, 3});
  // i X B^T + i B X^T and i X B^H - i B X^H for B = [0 0; 1 0]: X B^T = [0 1; 0 i], X B^H the same.
  expect({.routine = Routine::syr2k, .alpha = i}, X, {0, 1, 0, 0}, {0, i, 3, -2});
  expect({.routine = Routine::her2k, .uplo = Uplo::upper, .alpha = i}, X, {0, 1, 0, 0}, {0, 2, i, -2});
  // [1 .; i 1] times [1 3; 2 4], and its transpose, and from the right, where the upper triangle is [1 2; . 1].
  expect({.routine = Routine::trmm}, X, {}, {1, 2.0 + i, 3, 4.0 + 3.0 * i});
  expect({.routine = Routine::trmm, .op_a = Op::conj_trans}, X, {}, {1.0 - 2.0 * i, 2, 3.0 - 4.0 * i, 4});
  expect({.routine = Routine::trmm, .side = Side::right, .uplo = Uplo::upper}, {1, 77, 2, 1}, {}, {1, 2, 5, 8});
  // And back: these solve what the three above multiplied, scaled by 2.
  expect({.routine = Routine::trsm, .alpha = 2}, X, {}, {2, 4.0 - 2.0 * i, 6, 8.0 - 6.0 * i});
  expect({.routine = Routine::trsm, .op_a = Op::trans, .diag = Diag::unit}, {77, i, 0, 77}, {},
         {1.0 - 2.0 * i, 2, 3.0 - 4.0 * i, 4});
  expect({.routine = Routine::trsm, .side = Side::right, .uplo = Uplo::upper}, {1, 77, 2, 2}, {}, {1, 2, 0.5, 0});
}

TEST(Level3Fixture, RefusesWhatIsWrong) {
  // All tests of kernels and routines rely on these: one wrong element, a forbidden write, or no computation at all
  // must show.
  for (const Routine routine : test::all_routines) {
    const ScalarType type = test::types_of(routine).back();
    const Level3Case base{.routine = routine, .m = 6, .n = 6, .k = 6, .alpha = 0.5, .beta = 1, .padding = 2};
    test::for_each_variant(type, base, [&](const Level3Case& c) {
      using T = std::complex<double>;
      const auto right = [&] {
        Level3Fixture<T> fixture(c, 7);
        kernels::reference_level3(fixture.problem());
        return fixture;
      };
      Level3Fixture<T> untouched(c, 7);
      EXPECT_FALSE(untouched.check()) << c;
      EXPECT_TRUE(right().check()) << c;
      for (std::size_t at = 0; at < right().C().size(); ++at) {
        Level3Fixture<T> wrong = right();
        T& element = wrong.C()[at];
        element = std::isnan(element.real()) ? T(1) : element + T(1e-12);
        EXPECT_FALSE(wrong.check()) << c << " at " << at;
        Level3Fixture<T> wrong_input = right();
        wrong_input.A()[at] = 3;
        EXPECT_FALSE(wrong_input.check()) << c << " at " << at;
      }
      if (right().B().empty()) return;
      Level3Fixture<T> wrong_input = right();
      wrong_input.B()[0] = 3;
      EXPECT_FALSE(wrong_input.check()) << c;
    });
  }
}

}  // namespace reference_test
}  // namespace tessera
