// Batches of LAPACK's routines on every implementation: exact factors and pivots, and matrices that are singular,
// indefinite, graded, subnormal, or have NaNs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

#include "calls/lapack.hpp"
#include "tests/device_api/lapack_conformance.hpp"
#include "tests/device_api/lapack_exact_problem.hpp"

namespace tessera {
namespace lapack_hard_matrices_test {

using test::BatchForm;
using test::ExactFactors;
using test::ExactProblems;
using test::LapackProblem;
using test::LapackProblems;
using test::LapackVariant;

class HardMatricesConformance : public test::LapackConformance {};

// The result is exact in any order of summation.
TEST_P(HardMatricesConformance, ExactFactorsAndPivots) {
  if (!factors(routine())) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact;
      const bool interchanges = routine() != Routine::getrf_nopiv;
      for (const index_t m : {n, n + 3, std::max<index_t>(n - 2, 1)})
        exact.push_back(made.of_routine(m, n, 2, {.interchanges = interchanges}, turn % 3));
      run_exact(variant, exact, {.with_bounds = turn % 3 != 0});
    });
  }
}

TEST_P(HardMatricesConformance, TiesGoToTheTopmostRow) {
  if (!has_lu_factors() || routine() == Routine::getrf_nopiv) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact;
      for (int i = 0; i < 3; ++i) exact.push_back(made.of_routine(n + i, n, 2, {.ties = true}));
      run_exact(variant, exact, {.with_bounds = turn % 3 != 0});
    });
  }
}

// Factors are completed, and neighbours are the same as without singular matrices.
TEST_P(HardMatricesConformance, SingularMatrices) {
  if (!has_lu_factors()) return;
  int turn = 0;
  const bool interchanges = routine() != Routine::getrf_nopiv;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact;
      for (const index_t at : {index_t{0}, n / 2, n - 1}) {
        exact.push_back(made.of_routine(n, n, 2, {.interchanges = interchanges, .zero_pivot = at}));
        exact.push_back(made.of_routine(n, n, 2, {.interchanges = interchanges}));
        exact.push_back(made.of_routine(n, n, 2, {.interchanges = interchanges, .rank = at}));
      }
      run_exact(variant, exact, {.form = test::all_batch_forms[turn % 4]});
    });
  }
}

TEST_P(HardMatricesConformance, MinorsThatAreNotPositive) {
  if (!is_hermitian(routine()) || !factors(routine())) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact;
      for (const index_t at : {index_t{0}, n / 3, n / 2, n - 1}) {
        exact.push_back(made.cholesky(n, 3, at, 0));
        exact.push_back(made.cholesky(n, 3));
        exact.push_back(made.cholesky(n, 3, at, 2));
        exact.push_back(made.cholesky(n, 3, at, 0));
        const double nan = std::numeric_limits<double>::quiet_NaN();
        exact.back().problem.a(at, at) = test::narrowed<T>(nan);
      }
      run_exact(variant, exact, {.form = test::all_batch_forms[turn % 4]});
    });
  }
}

/// A NaN beside the diagonal reaches the diagonal of its row.
TEST_P(HardMatricesConformance, NanBesideTheDiagonalOfADefiniteMatrix) {
  if (!is_hermitian(routine()) || !factors(routine())) return;
  int turn = 0;
  for (const index_t n : {2, 9, 40}) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact{made.cholesky(n, 3), made.cholesky(n, 3), made.cholesky(n, 3)};
      const index_t row = n - 1, column = n / 3;
      (variant.uplo == Uplo::lower ? exact[1].problem.a(row, column) : exact[1].problem.a(column, row)) =
          test::poison<T>();
      exact[1].expected.info = row + 1;
      run_exact(variant, exact, {});
    });
  }
}

// A NaN becomes a pivot only if it stands on the diagonal then. It does not count as zero, and does not leave its
// problem.
TEST_P(HardMatricesConformance, NanInAGeneralMatrix) {
  if (!has_lu_factors()) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact;
      for (int i = 0; i < 4; ++i) exact.push_back(made.of_routine(n, n, 1, {.interchanges = false}));
      std::vector<LapackProblem<T>> problems;
      for (const ExactFactors<T>& one : exact) problems.push_back(one.problem);
      const index_t row = n / 2;
      problems[0].a(row, 0) = test::poison<T>();    // in its first column: spreads to the whole row
      problems[2].a(row, row) = test::poison<T>();  // on the diagonal
      auto after = problems;
      runner_->run(variant, after, {.with_bounds = turn % 2 == 0});
      for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
        LapackProblem<T> expected = exact[i].expected;
        EXPECT_TRUE(test::has_these_factors(variant, after[i], expected, row)) << "problem " << i;
        EXPECT_TRUE(std::isnan(std::real(after[i].a(row, row))));
      }
      for (const std::size_t i : {std::size_t{1}, std::size_t{3}})
        EXPECT_TRUE(test::has_these_factors(variant, after[i], exact[i].expected)) << "neighbour " << i;
    });
  }
}

// Below the pivots a NaN changes only its row.
TEST_P(HardMatricesConformance, NanInARowThatIsNoPivot) {
  if (routine() != Routine::getrf && routine() != Routine::getrf_nopiv) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      ExactFactors<T> exact = made.of_routine(n + 2, n, 0, {.interchanges = false});
      std::vector<LapackProblem<T>> problems{exact.problem};
      problems[0].a(n + 1, 0) = test::poison<T>();
      runner_->run(variant, problems, {});
      EXPECT_TRUE(std::isnan(std::real(problems[0].a(n + 1, n - 1))));
      for (index_t j = 0; j < n; ++j) problems[0].a(n + 1, j) = exact.expected.a(n + 1, j);
      EXPECT_TRUE(test::has_these_factors(variant, problems[0], exact.expected));
    });
  }
}

// Reciprocals of such pivots overflow, but quotients do not.
TEST_P(HardMatricesConformance, SubnormalPivots) {
  if (!factors(routine())) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      using Real = test::RealPart<T>;
      LapackVariant variant = this->variant(++turn);
      if (solves(routine())) return;  // solutions would overflow
      ExactProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<ExactFactors<T>> exact;
      // Quarters become the smallest positive number.
      const int least = std::numeric_limits<Real>::min_exponent - std::numeric_limits<Real>::digits;
      for (int i = 0; i < 2; ++i) {
        exact.push_back(made.of_routine(n, n, 0, {.interchanges = routine() == Routine::getrf}));
        exact.back().scale(variant, is_hermitian(routine()) ? (least + 1) / 2 * 2 + 2 : least + 2);
      }
      run_exact(variant, exact, {});
    });
  }
}

TEST_P(HardMatricesConformance, GradedMatrices) {
  if (!factors(routine()) || routine() == Routine::getrf_nopiv) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      using Real = test::RealPart<T>;
      const LapackVariant variant = this->variant(++turn);
      LapackProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<LapackProblem<T>> problems;
      for (const bool by_columns : {false, true}) {
        LapackProblem<T> problem = made.make(n, n, 2);
        for (index_t j = 0; j < n; ++j) {
          for (index_t i = 0; i < n; ++i) {
            const auto grade = static_cast<int>((is_hermitian(routine()) ? i + j : by_columns ? j : i) * 40 / n);
            if (test::is_stored(variant, i, j)) problem.a(i, j) *= std::ldexp(Real(1), -grade);
          }
        }
        problems.push_back(problem);
      }
      run_and_check(variant, problems, {});
    });
  }
}

TEST_P(HardMatricesConformance, TinyPivotsAreReplaced) {
  if (routine() != Routine::getrf_nopiv) return;
  for (const index_t n : {1, 3, 20, 70}) {
    for_types([&]<Scalar T>(T) {
      LapackVariant variant{.routine = routine(), .tiny = 0.5};
      LapackProblems<T> made(variant, 1);
      std::vector<LapackProblem<T>> problems;
      // Upper triangular, so that the pivots are the diagonal elements.
      const bool has_imaginary = is_complex(scalar_type_of<T>());
      const std::complex<double> pivots[] = {0.25, -0.25, 0, 3, has_imaginary ? std::complex(-0.125, 0.125) : 0.5};
      const std::complex<double> expected[] = {0.5, -0.5, 0.5, 3, has_imaginary ? std::complex(-0.25, 0.25) : 0.5};
      LapackProblem<T> problem = made.make(n, n, 0);
      for (index_t j = 0; j < n; ++j) {
        for (index_t i = j + 1; i < n; ++i) problem.a(i, j) = T(0);
        problem.a(j, j) = test::narrowed<T>(pivots[j % 5]);
      }
      problems.push_back(problem);
      runner_->run(variant, problems, {.form = BatchForm::pointers});
      for (index_t j = 0; j < n; ++j) problem.a(j, j) = test::narrowed<T>(expected[j % 5]);
      EXPECT_TRUE(test::has_these_factors(variant, problems[0], problem));
      // Without `tiny`, the zero is reported.
      variant.tiny = 0;
      for (index_t j = 0; j < n; ++j) problem.a(j, j) = test::narrowed<T>(pivots[j % 5]);
      problems[0] = problem;
      runner_->run(variant, problems, {});
      problem.info = n > 2 ? 3 : 0;
      EXPECT_TRUE(test::has_these_factors(variant, problems[0], problem));
    });
  }
}

// The factor is singular: nothing is computed.
TEST_P(HardMatricesConformance, SingularFactorsAreNotInverted) {
  if (!inverts(routine())) return;
  int turn = 0;
  for (const index_t n : some_orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      LapackProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<LapackProblem<T>> problems;
      for (int i = 0; i < 5; ++i) problems.push_back(made.make(n, n, 0));
      problems[1].a(n / 2, n / 2) = problems[1].a(n - 1, n - 1) = T(0);
      problems[3].a(0, 0) = T(0);
      auto after = problems;
      runner_->run(variant, after, {.form = test::all_batch_forms[turn % 4], .workspace_problems = 2});
      for (const std::size_t i : {std::size_t{1}, std::size_t{3}}) {
        EXPECT_EQ(after[i].info, i == 1 ? n / 2 + 1 : 1);
        EXPECT_TRUE(test::same_bits(after[i].A, problems[i].A)) << "problem " << i;
      }
      for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{4}})
        EXPECT_TRUE(test::is_solved(variant, problems[i], after[i])) << "problem " << i;
    });
  }
}

TESSERA_INSTANTIATE_LAPACK(HardMatricesConformance);

}  // namespace lapack_hard_matrices_test
}  // namespace tessera
