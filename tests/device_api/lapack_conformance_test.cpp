// Batches of LAPACK's routines (device_lapack.h) in every type, variant and form, on every implementation. Residuals
// are those of LAPACK's own tests. Elements that must not be read are NaN. Elements that must not be written are
// compared byte for byte. Hard matrices are in lapack_hard_matrices_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calls/lapack.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_conformance.hpp"
#include "tests/device_api/lapack_problem.hpp"
#include "tests/device_api/lapack_runner.hpp"

namespace tessera {
namespace lapack_conformance_test {

using test::BatchForm;
using test::LapackPlacement;
using test::LapackProblem;
using test::LapackProblems;
using test::LapackVariant;

constexpr index_t numbers_of_right_hand_sides[] = {1, 2, 7, 33, 100};

class DeviceLapackConformance : public test::LapackConformance {};

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

TESSERA_INSTANTIATE_LAPACK(DeviceLapackConformance);

}  // namespace lapack_conformance_test
}  // namespace tessera
