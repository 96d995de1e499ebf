// Matrices with infinities and NaN in problems that LAPACK solves by an iteration. They are answered on the CPU without
// LAPACK, which might never return.
#include "calls/nonfinite_problem.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <limits>

#include "kernels/host/cpu_lapack_call.hpp"
#include "tests/dense_fixture.hpp"

namespace tessera {
namespace nonfinite_problem_test {

using enum VectorJob;
constexpr LapackCall iterating[] = {
    {.routine = Routine::heevd, .n = 5},
    {.routine = Routine::heevd, .vectors = true, .uplo = Uplo::upper, .n = 5},
    {.routine = Routine::heevr, .vectors = true, .n = 5},
    {.routine = Routine::heevr, .vectors = true, .range = EigenRange::indices, .n = 5, .il = 2, .iu = 4},
    {.routine = Routine::heevr, .vectors = true, .range = EigenRange::values, .n = 5, .vl = -1, .vu = 1},
    {.routine = Routine::heevd, .vectors = true, .n = 25},
    {.routine = Routine::heevd, .vectors = true, .n = 26},
    {.routine = Routine::heevd, .n = 26},
    {.routine = Routine::hegvd, .vectors = true, .n = 5},
    {.routine = Routine::hegvd, .vectors = true, .n = 26},
    {.routine = Routine::hegvd, .uplo = Uplo::upper, .n = 5},
    {.routine = Routine::gesdd, .m = 7, .n = 5},
    {.routine = Routine::gesdd, .u = thin, .vt = thin, .m = 5, .n = 7},
    {.routine = Routine::gesvd, .u = all, .vt = none, .m = 7, .n = 5},
    {.routine = Routine::geev, .vectors = true, .n = 5},
    {.routine = Routine::geev, .n = 1},
    {.routine = Routine::gelsd, .m = 7, .n = 5, .k = 2},
    {.routine = Routine::gelsd, .m = 5, .n = 7, .k = 2}};

template <class T>
class NonfiniteProblems : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(NonfiniteProblems, Types);

template <class T>
constexpr auto nan_of = std::numeric_limits<decltype(std::abs(T{}))>::quiet_NaN();
template <class T>
constexpr auto infinity_of = std::numeric_limits<decltype(std::abs(T{}))>::infinity();

index_t expected_info(const LapackCall& p, bool is_nan) {
  if (is_nan && (p.routine == Routine::gesdd || p.routine == Routine::geev)) return -4;
  if (finds_singular_values(p.routine)) return std::min(p.m, p.n);
  if (p.routine == Routine::heevd || p.routine == Routine::hegvd) return p.vectors && p.n == 26 ? 0 : p.n - 1;
  return p.range == EigenRange::indices ? p.iu - p.il + 1 : p.n;
}

TYPED_TEST(NonfiniteProblems, AreAnsweredAtOnce) {
  using T = TypeParam;
  for (const LapackCall& form : iterating) {
    const index_t least = form.m == 0 ? form.n : std::min(form.m, form.n);
    for (index_t at = 0; at < least; ++at) {
      for (const bool is_nan : {true, false}) {
        test::DenseFixture<T> fixture(form, 5);
        // On the diagonal, which belongs to both triangles.
        fixture.at(LapackSlot::A, at, at) = T(is_nan ? nan_of<T> : -infinity_of<T>);
        fixture.begin_with_ones();
        index_t found = -1;
        EXPECT_EQ(kernels::compute_on_cpu(test::cpu_blas().get(), fixture.problem(), found),
                  expected_info(fixture.problem(), is_nan))
            << fixture.problem();
        const bool finds_some = form.routine == Routine::heevr && form.range != EigenRange::values;
        EXPECT_EQ(found, finds_some ? most_found(form) : 0) << fixture.problem();
        EXPECT_TRUE(fixture.results_are_nan(found));
      }
    }
  }
}

// No problem is computed here.
TYPED_TEST(NonfiniteProblems, AreSeenByTheElementsThatAreRead) {
  using T = TypeParam;
  for (const LapackCall& form : iterating) {
    test::DenseFixture<T> fixture(form, 5);
    // Padding, the other triangle and the imaginary parts of a Hermitian diagonal are NaN.
    EXPECT_FALSE(info_of_nonfinite(fixture.problem())) << fixture.problem();
    const LapackOperand A = *LapackOperands(fixture.problem()).begin();
    for (index_t j = 0; j < A.read_cols; ++j) {
      for (index_t i = 0; i < A.read_rows; ++i) {
        const bool is_read = A.read_part == Part::full || (A.read_part == Part::lower ? i >= j : i <= j);
        T& element = fixture.at(LapackSlot::A, i, j);
        const T before = element;
        element = T(infinity_of<T>);
        EXPECT_EQ(info_of_nonfinite(fixture.problem()).has_value(), is_read) << fixture.problem() << i << ' ' << j;
        if constexpr (is_complex(scalar_type_of<T>())) {
          element = T(1, nan_of<T>);
          const bool is_hermitian_diagonal = A.read_part != Part::full && i == j;
          EXPECT_EQ(info_of_nonfinite(fixture.problem()).has_value(), is_read && !is_hermitian_diagonal)
              << fixture.problem() << i << ' ' << j;
        }
        element = before;
      }
    }
  }
}

// LAPACK has formulas for them.
TYPED_TEST(NonfiniteProblems, OfOrderTwoAreLeftToLapack) {
  using T = TypeParam;
  for (const Routine routine : {Routine::heevd, Routine::hegvd}) {
    for (const bool vectors : {false, true}) {
      test::DenseFixture<T> fixture({.routine = routine, .vectors = vectors, .n = 2}, 5);
      fixture.at(LapackSlot::A, 1, 0) = T(nan_of<T>);
      EXPECT_FALSE(info_of_nonfinite(fixture.problem()));
      index_t found = -1;
      EXPECT_EQ(kernels::compute_on_cpu(test::cpu_blas().get(), fixture.problem(), found), 0);
    }
  }
}

TYPED_TEST(NonfiniteProblems, OfBAreMinorsThatAreNotPositive) {
  using T = TypeParam;
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    test::DenseFixture<T> fixture({.routine = Routine::hegvd, .uplo = uplo, .n = 6}, 5);
    const auto spoil = [&](index_t i, index_t j) {
      fixture.at(LapackSlot::B, uplo == Uplo::lower ? i : j, uplo == Uplo::lower ? j : i) = T(nan_of<T>);
    };
    spoil(5, 0);
    EXPECT_EQ(info_of_nonfinite(fixture.problem()), 6 + 6);
    spoil(3, 2);
    EXPECT_EQ(info_of_nonfinite(fixture.problem()), 6 + 4);
    spoil(1, 1);
    EXPECT_EQ(info_of_nonfinite(fixture.problem()), 6 + 2);
  }
}

TYPED_TEST(NonfiniteProblems, RightHandSidesAreNotIteratedOn) {
  using T = TypeParam;
  test::DenseFixture<T> fixture({.routine = Routine::gelsd, .m = 7, .n = 5, .k = 2}, 5);
  fixture.at(LapackSlot::B, 3, 1) = T(nan_of<T>);
  index_t found = -1;
  EXPECT_EQ(kernels::compute_on_cpu(test::cpu_blas().get(), fixture.problem(), found), 0);
  EXPECT_EQ(found, 5);
  EXPECT_FALSE(std::isnan(std::abs(fixture.at(LapackSlot::B, 0, 0))));
  EXPECT_TRUE(std::isnan(std::abs(fixture.at(LapackSlot::B, 0, 1))));
}

TEST(NonfiniteProblem, OthersDoNotIterate) {
  for (const Routine routine :
       {Routine::gels, Routine::trtri, Routine::potri, Routine::getri, Routine::ungqr, Routine::trtrs, Routine::sysv}) {
    test::DenseFixture<double> fixture({.routine = routine, .m = 5, .n = 5, .k = 5}, 5);
    fixture.at(LapackSlot::A, 2, 2) = nan_of<double>;
    EXPECT_FALSE(info_of_nonfinite(fixture.problem())) << fixture.problem();
  }
}

TEST(NonfiniteProblem, NoLapackIsNeededToAnswer) {
  test::DenseFixture<double> fixture({.routine = Routine::geev, .n = 5}, 5);
  index_t found = -1;
  EXPECT_THROW(kernels::compute_on_cpu(nullptr, fixture.problem(), found), NotAvailable);
  fixture.at(LapackSlot::A, 4, 0) = infinity_of<double>;
  EXPECT_EQ(kernels::compute_on_cpu(nullptr, fixture.problem(), found), 5);
}

}  // namespace nonfinite_problem_test
}  // namespace tessera
