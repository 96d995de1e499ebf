// Batches of LAPACK's routines (device_lapack.h) in every type, variant and form, on every implementation. Residuals
// are those of LAPACK's own tests; some factors and pivots are exact. Matrices are singular, indefinite, graded,
// subnormal, or have NaNs. Elements that must not be read are NaN. Elements that must not be written are compared byte
// for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calls/lapack.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_problem.hpp"
#include "tests/device_api/lapack_runner.hpp"

namespace tessera {
namespace lapack_conformance_test {

using test::BatchForm;
using test::ExactFactors;
using test::ExactProblems;
using test::ImplementationKind;
using test::LapackPlacement;
using test::LapackProblem;
using test::LapackProblems;
using test::LapackRunner;
using test::LapackVariant;

constexpr index_t numbers_of_right_hand_sides[] = {1, 2, 7, 33, 100};
constexpr index_t increments[] = {1, -1, 3, -2};

class DeviceLapackConformance : public ::testing::TestWithParam<std::tuple<ImplementationKind, Routine>> {
 protected:
  void SetUp() override {
    TESSERA_OPEN_IMPLEMENTATION(opened, test::open_implementation, kind());
    implementation_ = std::move(opened);
    runner_.emplace(*implementation_);
  }

  ImplementationKind kind() const { return std::get<ImplementationKind>(GetParam()); }
  Routine routine() const { return std::get<Routine>(GetParam()); }
  bool is_gpu() const { return kind().name == ImplementationKind::cuda; }
  bool has_m() const { return position_of(routine(), Parameter::m) != 0 || routine() == Routine::laswp; }
  bool has_lu_factors() const { return factors(routine()) && !is_hermitian(routine()); }

  /// All orders on a GPU, where kernels depend on them; elsewhere the orders around powers of two.
  std::vector<index_t> orders() const {
    if (!is_gpu()) return {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 50, 64, 65};
    std::vector<index_t> all(130);
    std::iota(all.begin(), all.end(), 1);
    return all;
  }
  std::vector<index_t> some_orders() const {
    if (!is_gpu()) return {1, 2, 4, 9, 33, 66};
    return {1, 2, 4, 9, 16, 31, 33, 48, 64, 66, 100, 129};
  }

  LapackVariant variant(int turn) const {
    LapackVariant made{.routine = routine()};
    made.uplo = turn % 2 == 0 ? Uplo::lower : Uplo::upper;
    made.op = test::all_ops[turn % 3];
    made.incx = increments[turn % 4];
    made.with_pivots = turn % 5 != 0 || !(routine() == Routine::getrs || routine() == Routine::getri);
    return made;
  }

  template <Scalar T>
  static void check(const LapackVariant& variant, const std::vector<LapackProblem<T>>& before,
                    const std::vector<LapackProblem<T>>& after) {
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(test::is_solved(variant, before[i], after[i]))
          << "problem " << i << ", " << before[i].m << " x " << before[i].n << ", " << before[i].nrhs;
  }

  template <Scalar T>
  void run_and_check(const LapackVariant& variant, const std::vector<LapackProblem<T>>& problems,
                     const LapackPlacement& placement) {
    auto after = problems;
    runner_->run(variant, after, placement);
    check(variant, problems, after);
  }

  /// Sizes of 0 to 9, some of them 0 or 1, with an outlier in the middle.
  template <Scalar T>
  std::vector<LapackProblem<T>> problems_of_many_sizes(const LapackVariant& variant, unsigned seed) const {
    LapackProblems<T> made(variant, seed);
    std::vector<LapackProblem<T>> problems;
    for (index_t i = 0; i < 12; ++i) {
      const auto size = [&] { return made.integer(0, 9); };
      if (i == 6)
        problems.push_back(made.make(is_gpu() ? 150 : 70, is_gpu() ? 140 : 66, 11, 3));
      else
        problems.push_back(made.make(i == 0 ? 0 : size(),
                                     i == 1   ? 1
                                     : i == 3 ? 0
                                              : size(),
                                     i == 2 ? 0 : size(), i % 4));
    }
    return problems;
  }

  /// Runs exact problems as one batch, and checks that their factors are the expected ones. The B of bad problems must
  /// be unchanged, and that of good ones must be the solution.
  template <Scalar T>
  void run_exact(const LapackVariant& variant, const std::vector<ExactFactors<T>>& exact,
                 const LapackPlacement& placement) {
    std::vector<LapackProblem<T>> problems;
    for (const ExactFactors<T>& one : exact) problems.push_back(one.problem);
    auto after = problems;
    runner_->run(variant, after, placement);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const LapackProblem<T>& expected = exact[i].expected;
      // Only this part of a Cholesky factor exists.
      const bool is_cut = is_hermitian(variant.routine) && expected.info > 0;
      EXPECT_TRUE(test::has_these_factors(variant, after[i], expected,
                                          is_cut ? std::optional(expected.info - 1) : std::nullopt))
          << "problem " << i << ", " << expected.m << " x " << expected.n;
      if (!solves(variant.routine)) continue;
      if (expected.info > 0) {
        EXPECT_TRUE(test::same_bits(after[i].B, problems[i].B)) << "problem " << i;
      } else if (expected.n <= 66) {  // the solutions of larger ones overflow
        EXPECT_TRUE(test::solves_system(test::matrix_map(variant, problems[i]), problems[i], after[i]))
            << "problem " << i;
      }
    }
  }

  /// @param f called with a value of every type
  template <class F>
  static void for_types(F&& f) {
    for (const ScalarType type : test::all_types) {
      if (!HasFailure()) dispatch(type, f);
    }
  }

  std::unique_ptr<test::Implementation> implementation_;
  std::optional<LapackRunner> runner_;
};

TEST_P(DeviceLapackConformance, AllSizesOfOneSize) {
  int turn = 0;
  for (const index_t n : orders()) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      const index_t nrhs = numbers_of_right_hand_sides[turn % (n > 40 ? 3 : 5)];
      LapackProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<LapackProblem<T>> problems;
      for (int i = 0; i < 3; ++i) problems.push_back(made.make(n, n, nrhs, turn % 3));
      run_and_check(variant, problems,
                    {.form = turn / 4 % 2 == 0 ? BatchForm::pointers : BatchForm::strides,
                     .with_info = turn % 7 < 5,
                     .misaligned = turn % 3 == 1});
    });
  }
}

TEST_P(DeviceLapackConformance, AllVariantsOfVariableSize) {
  for (int turn = 0; turn < 60 && !HasFailure(); ++turn) {
    SCOPED_TRACE("turn " + std::to_string(turn));
    dispatch(test::all_types[turn % 4], [&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(turn / 4);
      run_and_check(variant, problems_of_many_sizes<T>(variant, static_cast<unsigned>(turn)),
                    {.form = turn % 3 == 0 ? BatchForm::wide_sizes : BatchForm::sizes,
                     .with_bounds = turn % 5 < 3,
                     .with_info = turn % 7 < 5,
                     .misaligned = turn % 2 == 0,
                     .dense = turn % 6 == 1});
    });
  }
}

TEST_P(DeviceLapackConformance, AllSizesTogether) {
  int turn = 0;
  for_types([&]<Scalar T>(T) {
    const LapackVariant variant = this->variant(++turn);
    LapackProblems<T> made(variant, 1);
    std::vector<LapackProblem<T>> problems;
    for (const index_t n : orders()) problems.push_back(made.make(n, n, n % 9, n % 4));
    run_and_check(variant, problems, {.with_bounds = turn % 2 == 0});
  });
}

TEST_P(DeviceLapackConformance, LargeSizes) {
  if (!is_gpu()) return;  // the reference has no sizes that it treats otherwise
  int turn = 0;
  for (const index_t n : {160, 200, 255, 256, 257, 384, 511, 512, 513, 777, 1000, 1024}) {
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      LapackProblems<T> made(variant, static_cast<unsigned>(turn));
      const std::vector<LapackProblem<T>> problems{made.make(n, n, 9, 1), made.make(n, n, 9, 1)};
      run_and_check(variant, problems, {.form = test::all_batch_forms[turn % 4]});
    });
  }
}

TEST_P(DeviceLapackConformance, TallAndWide) {
  if (!has_m()) return;
  std::vector<std::pair<index_t, index_t>> shapes = {{1, 9},   {9, 1},  {5, 3},  {3, 5},   {31, 33},
                                                     {33, 31}, {64, 7}, {7, 64}, {65, 32}, {32, 65}};
  if (is_gpu()) {
    for (const index_t edge : {32, 64, 128, 256}) {
      for (const index_t m : {edge - 1, edge, edge + 1, 2 * edge + 3}) {
        for (const index_t n : {edge - 1, edge, edge + 1, index_t{5}}) shapes.insert(shapes.end(), {{m, n}, {n, m}});
      }
    }
    // Higher than the registers of a thread block.
    shapes.insert(shapes.end(), {{1025, 3}, {1100, 17}, {2500, 33}, {1300, 100}, {3000, 65}});
  }
  int turn = 0;
  for (const auto& [m, n] : shapes) {
    for_types([&, m = m, n = n]<Scalar T>(T) {
      const LapackVariant variant = this->variant(++turn);
      LapackProblems<T> made(variant, static_cast<unsigned>(turn));
      std::vector<LapackProblem<T>> problems{made.make(m, n, 0, turn % 3), made.make(m, n, 0, turn % 3)};
      if (routine() == Routine::getrf_nopiv) {
        for (LapackProblem<T>& problem : problems) {
          for (index_t i = 0; i < std::min(m, n); ++i) problem.a(i, i) += T(static_cast<test::RealPart<T>>(m));
        }
      }
      run_and_check(variant, problems, {.form = test::all_batch_forms[turn % 4]});
    });
  }
}

// The result is exact in any order of summation.
TEST_P(DeviceLapackConformance, ExactFactorsAndPivots) {
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

TEST_P(DeviceLapackConformance, TiesGoToTheTopmostRow) {
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
TEST_P(DeviceLapackConformance, SingularMatrices) {
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

TEST_P(DeviceLapackConformance, MinorsThatAreNotPositive) {
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
TEST_P(DeviceLapackConformance, NanBesideTheDiagonalOfADefiniteMatrix) {
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
TEST_P(DeviceLapackConformance, NanInAGeneralMatrix) {
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
TEST_P(DeviceLapackConformance, NanInARowThatIsNoPivot) {
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
TEST_P(DeviceLapackConformance, SubnormalPivots) {
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

TEST_P(DeviceLapackConformance, GradedMatrices) {
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

TEST_P(DeviceLapackConformance, TinyPivotsAreReplaced) {
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
TEST_P(DeviceLapackConformance, SingularFactorsAreNotInverted) {
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

// Bits do not depend on the number of problems for which the workspace suffices.
TEST_P(DeviceLapackConformance, AnyWorkspaceWillDo) {
  if (!inverts(routine())) return;
  int turn = 0;
  for_types([&]<Scalar T>(T) {
    const LapackVariant variant = this->variant(++turn);
    const std::vector<LapackProblem<T>> problems = problems_of_many_sizes<T>(variant, 5);
    auto all = problems;
    runner_->run(variant, all, {});
    check(variant, problems, all);
    for (const index_t at_once : {1, 2, 5, 20}) {
      auto after = problems;
      runner_->run(variant, after, {.workspace_problems = at_once});
      for (std::size_t i = 0; i < problems.size(); ++i) EXPECT_TRUE(test::same_bits(after[i].A, all[i].A)) << at_once;
    }
  });
}

// Only that problem is reported and left alone; all others are computed.
TEST_P(DeviceLapackConformance, OneBadProblemAmongMany) {
  if (routine() == Routine::laswp) return;  // complains of nothing
  int turn = 0;
  for (const Parameter parameter : {Parameter::m, Parameter::n, Parameter::nrhs, Parameter::lda, Parameter::ldb}) {
    const int position = position_of(routine(), parameter);
    if (position == 0) continue;
    for (const std::size_t bad : {std::size_t{1}, std::size_t{11}}) {
      for_types([&]<Scalar T>(T) {
        const LapackVariant variant = this->variant(++turn);
        const std::vector<LapackProblem<T>> problems = problems_of_many_sizes<T>(variant, 3);
        auto after = problems;
        runner_->run(variant, after,
                     {.form = turn % 3 == 0 ? BatchForm::wide_sizes : BatchForm::sizes,
                      .with_bounds = turn % 2 == 0,
                      .bad = LapackPlacement::Bad{bad, parameter}});
        for (std::size_t i = 0; i < problems.size(); ++i) {
          if (i == bad)
            EXPECT_EQ(after[i].info, -position);
          else
            EXPECT_TRUE(test::is_solved(variant, problems[i], after[i])) << "problem " << i;
        }
      });
    }
  }
}

// The same for common sizes: then only info is written.
TEST_P(DeviceLapackConformance, NothingToComputeIsWell) {
  int turn = 0;
  for (const BatchForm form : {BatchForm::pointers, BatchForm::strides, BatchForm::sizes}) {
    if (inverts(routine()) && form == BatchForm::sizes) continue;  // their max_n must not be 0
    for (const auto& [m, n, nrhs] : {std::tuple{3, 0, 2}, std::tuple{0, 4, 2}, std::tuple{5, 5, 0}}) {
      dispatch(test::all_types[++turn % 4], [&, m = m, n = n, nrhs = nrhs]<Scalar T>(T) {
        const LapackVariant variant = this->variant(turn);
        LapackProblems<T> made(variant, 1);
        std::vector<LapackProblem<T>> problems;
        for (int i = 0; i < 3; ++i) problems.push_back(made.make(m, n, nrhs));
        run_and_check(variant, problems, {.form = form});
      });
    }
  }
}

// The neighbours of a problem do not matter either, as long as bounds are the same.
TEST_P(DeviceLapackConformance, BitsDoNotDependOnThePlace) {
  for (int turn = 0; turn < 8 && !HasFailure(); ++turn) {
    dispatch(test::all_types[turn % 4], [&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(turn);
      const std::vector<LapackProblem<T>> problems = problems_of_many_sizes<T>(variant, static_cast<unsigned>(turn));
      LapackPlacement placement{.with_bounds = turn < 4};
      auto after = problems;
      runner_->run(variant, after, placement);
      check(variant, problems, after);
      placement.order.resize(problems.size());
      std::iota(placement.order.begin(), placement.order.end(), 0);
      std::shuffle(placement.order.begin(), placement.order.end(), std::mt19937(static_cast<unsigned>(turn)));
      auto shuffled = problems;
      runner_->run(variant, shuffled, placement);
      LapackPlacement::Bounds bounds;
      for (const LapackProblem<T>& problem : problems) {
        bounds = {std::max(bounds.m, problem.m), std::max(bounds.n, problem.n), std::max(bounds.nrhs, problem.nrhs)};
      }
      for (std::size_t i = 0; i < problems.size(); ++i) {
        EXPECT_TRUE(test::same_bits(after[i].A, shuffled[i].A) && test::same_bits(after[i].B, shuffled[i].B)) << i;
        if (!placement.with_bounds) continue;
        std::vector<LapackProblem<T>> alone{problems[i]};
        runner_->run(variant, alone, {.bounds = bounds, .workspace_order = bounds.n});
        EXPECT_TRUE(test::same_bits(after[i].A, alone[0].A) && test::same_bits(after[i].B, alone[0].B))
            << i << " alone";
      }
    });
  }
}

// More problems than any dimension of a grid has. Each of a few problems occurs many times, and has the same bits
// everywhere.
TEST_P(DeviceLapackConformance, ManyTinyProblems) {
  for (const bool with_bounds : {false, true}) {
    dispatch(test::all_types[(static_cast<int>(routine()) + (with_bounds ? 1 : 0)) % 4], [&]<Scalar T>(T) {
      const LapackVariant variant = this->variant(with_bounds ? 1 : 2);
      LapackProblems<T> made(variant, 1);
      std::vector<LapackProblem<T>> problems;
      for (index_t i = 0; i < 100; ++i)
        problems.push_back(made.make(made.integer(0, 4), made.integer(0, 4), made.integer(0, 3), i % 3));
      LapackPlacement placement{.with_bounds = with_bounds, .dense = true};
      for (std::size_t i = 0; i < 70'000; ++i) placement.order.push_back(i * 3 % problems.size());
      run_and_check(variant, problems, placement);
    });
  }
}

std::string name_of_instance(const ::testing::TestParamInfo<DeviceLapackConformance::ParamType>& info) {
  return name_of(std::get<Routine>(info.param));
}

#define TESSERA_INSTANTIATE_LAPACK(prefix, kind)                                                               \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceLapackConformance,                                                    \
                           ::testing::Combine(::testing::Values(ImplementationKind{ImplementationKind::kind}), \
                                              ::testing::ValuesIn(test::all_lapack_routines())),               \
                           name_of_instance)
TESSERA_INSTANTIATE_LAPACK(Reference, reference);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_LAPACK(Cuda, cuda);
TESSERA_INSTANTIATE_LAPACK(Standin, cuda_standin);
#endif

}  // namespace lapack_conformance_test
}  // namespace tessera
