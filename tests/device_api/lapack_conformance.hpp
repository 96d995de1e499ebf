// The fixture of the suites that run batches of LAPACK's routines on every implementation.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calls/lapack.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_exact_problem.hpp"
#include "tests/device_api/lapack_problem.hpp"
#include "tests/device_api/lapack_runner.hpp"

namespace tessera::test {

class LapackConformance : public ::testing::TestWithParam<std::tuple<ImplementationKind, Routine>> {
 protected:
  static constexpr index_t increments[] = {1, -1, 3, -2};

  void SetUp() override {
    TESSERA_OPEN_IMPLEMENTATION(opened, open_implementation, kind());
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
    made.op = all_ops[turn % 3];
    made.incx = increments[turn % 4];
    made.with_pivots = turn % 5 != 0 || !(routine() == Routine::getrs || routine() == Routine::getri);
    return made;
  }

  template <Scalar T>
  static void check(const LapackVariant& variant, const std::vector<LapackProblem<T>>& before,
                    const std::vector<LapackProblem<T>>& after) {
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(is_solved(variant, before[i], after[i]))
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
      EXPECT_TRUE(
          has_these_factors(variant, after[i], expected, is_cut ? std::optional(expected.info - 1) : std::nullopt))
          << "problem " << i << ", " << expected.m << " x " << expected.n;
      if (!solves(variant.routine)) continue;
      if (expected.info > 0) {
        EXPECT_TRUE(same_bits(after[i].B, problems[i].B)) << "problem " << i;
      } else if (expected.n <= 66) {  // the solutions of larger ones overflow
        EXPECT_TRUE(solves_system(matrix_map(variant, problems[i]), problems[i], after[i])) << "problem " << i;
      }
    }
  }

  /// @param f called with a value of every type
  template <class F>
  static void for_types(F&& f) {
    for (const ScalarType type : all_types) {
      if (!HasFailure()) dispatch(type, f);
    }
  }

  std::unique_ptr<Implementation> implementation_;
  std::optional<LapackRunner> runner_;
};

inline std::string name_of_lapack_instance(const ::testing::TestParamInfo<LapackConformance::ParamType>& info) {
  return name_of(std::get<Routine>(info.param));
}

}  // namespace tessera::test

#define TESSERA_INSTANTIATE_LAPACK_FOR(suite, prefix, kind)                                                  \
  INSTANTIATE_TEST_SUITE_P(                                                                                  \
      prefix, suite,                                                                                         \
      ::testing::Combine(                                                                                    \
          ::testing::Values(::tessera::test::ImplementationKind{::tessera::test::ImplementationKind::kind}), \
          ::testing::ValuesIn(::tessera::test::all_lapack_routines())),                                      \
      ::tessera::test::name_of_lapack_instance)
#if TESSERA_HAS_CUDA
#define TESSERA_INSTANTIATE_LAPACK(suite)                      \
  TESSERA_INSTANTIATE_LAPACK_FOR(suite, Reference, reference); \
  TESSERA_INSTANTIATE_LAPACK_FOR(suite, Cuda, cuda);           \
  TESSERA_INSTANTIATE_LAPACK_FOR(suite, Standin, cuda_standin)
#else
#define TESSERA_INSTANTIATE_LAPACK(suite) TESSERA_INSTANTIATE_LAPACK_FOR(suite, Reference, reference)
#endif
