// Batches of LAPACK's routines through the C API: every routine, type, variant and form, on devices and on the CPU.
// Some matrices are singular, indefinite, or hold NaN, beside good ones. Devices fail or are small, and arguments are
// not valid. Elements that are not read hold NaN; elements that are not written are compared byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "tessera/lapack_batch.hpp"
#include "tests/blas_api/host_lapack_runner.hpp"
#include "tests/device_api/lapack_exact_problem.hpp"
#include "tests/device_api/lapack_problem.hpp"

namespace tessera {
namespace lapack_batch_test {

using test::ExactFactors;
using test::ExactProblems;
using test::HostForm;
using test::LapackProblem;
using test::LapackProblems;
using test::LapackVariant;
using test::solved;
using testing::HasSubstr;

constexpr const char* on_one = "TESSERA_OFFLOAD=always TESSERA_DEVICES=host:1 ";
constexpr const char* on_two = "TESSERA_OFFLOAD=always TESSERA_DEVICES=host:2 ";
constexpr const char* on_small = "TESSERA_OFFLOAD=always TESSERA_DEVICES=host:2 TESSERA_DEVICE_MEMORY=96KiB ";
constexpr const char* on_cpu = "TESSERA_OFFLOAD=never ";

constexpr Routine all_host_routines[] = {Routine::potrf, Routine::potrs, Routine::posv,
                                         Routine::potri, Routine::getrf, Routine::getrf_nopiv,
                                         Routine::getrs, Routine::gesv,  Routine::getri};

template <Scalar T>
void solve_and_check(const Context& context, const LapackVariant& variant,
                     const std::vector<LapackProblem<T>>& problems, HostForm form = HostForm::groups_of_one) {
  const auto after = solved(context, variant, problems, form);
  for (std::size_t i = 0; i < problems.size() && !testing::Test::HasFailure(); ++i)
    EXPECT_TRUE(test::is_solved(variant, problems[i], after[i]))
        << name_of(variant.routine) << ", problem " << i << ", " << problems[i].m << " x " << problems[i].n << ", "
        << problems[i].nrhs;
}

LapackVariant variant_of(Routine routine, int turn) {
  LapackVariant variant{.routine = routine};
  variant.uplo = turn % 2 == 0 ? Uplo::lower : Uplo::upper;
  if (routine == Routine::getrs) variant.op = test::all_ops[turn % 3];
  const bool may_do_without = routine == Routine::getrs || routine == Routine::getri;
  variant.with_pivots = !may_do_without || turn % 5 != 4;
  return variant;
}

template <Scalar T>
std::vector<LapackProblem<T>> some_problems(const LapackVariant& variant, unsigned seed, int count, index_t largest) {
  LapackProblems<T> made(variant, seed);
  std::vector<LapackProblem<T>> problems;
  for (int i = 0; i < count; ++i) {
    const auto size = [&] { return made.integer(0, 9) == 0 ? made.integer(0, 1) : made.integer(1, largest); };
    const index_t n = size();
    // Rectangles of LU without pivots need not be dominated by their diagonal.
    const index_t m = variant.routine == Routine::getrf_nopiv ? n : size();
    problems.push_back(made.make(m, n, made.integer(0, 9), i % 4));
  }
  return problems;
}

class HostLapackBatches : public ::testing::TestWithParam<Routine> {
 protected:
  template <class F>
  static void for_types(F&& f) {
    for (const ScalarType type : test::all_types) {
      if (!HasFailure()) dispatch(type, f);
    }
  }
};

TEST_P(HostLapackBatches, AllTypesAndSizesOnDevicesAndTheCpu) {
  int turn = 0;
  for (const char* const settings : {on_one, on_two, on_small, on_cpu}) {
    SCOPED_TRACE(settings);
    const Context context(settings);
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = variant_of(GetParam(), ++turn);
      solve_and_check(context, variant, some_problems<T>(variant, static_cast<unsigned>(turn), 60, 30));
      if (!HasFailure() && settings != on_cpu) {
        EXPECT_GT(context.last_job_stats().devices, 0) << context.last_job_json();
      }
    });
  }
}

TEST_P(HostLapackBatches, OneSizeInGroupsAndStrides) {
  int turn = 0;
  for (const char* const settings : {on_two, on_cpu}) {
    const Context context(settings);
    for (const HostForm form : {HostForm::merged_groups, HostForm::strides}) {
      for (const index_t n : {1, 5, 33, 70}) {
        for_types([&]<Scalar T>(T) {
          const LapackVariant variant = variant_of(GetParam(), ++turn);
          LapackProblems<T> made(variant, static_cast<unsigned>(turn));
          std::vector<LapackProblem<T>> problems;
          for (int i = 0; i < 5; ++i) problems.push_back(made.make(n, n, 1 + turn % 9, turn % 3));
          solve_and_check(context, variant, problems, form);
        });
      }
    }
  }
}

TEST_P(HostLapackBatches, LargerOnesByBlocksOnTheCpu) {
  // So many that all are shared by threads, each of which computes whole problems.
  const Context context(on_cpu);
  const LapackVariant variant = variant_of(GetParam(), 1);
  LapackProblems<double> made(variant, 5);
  std::vector<LapackProblem<double>> problems;
  for (int i = 0; i < 130; ++i) problems.push_back(made.make(60 + i, 60 + i, 9, i % 3));
  solve_and_check(context, variant, problems);
}

TEST_P(HostLapackBatches, OneProblemAndNone) {
  for (const char* const settings : {on_one, on_cpu}) {
    const Context context(settings);
    for_types([&]<Scalar T>(T) {
      const LapackVariant variant = variant_of(GetParam(), 1);
      LapackProblems<T> made(variant, 1);
      solve_and_check<T>(context, variant, {made.make(9, 9, 2, 1)});
      solve_and_check<T>(context, variant, {made.make(0, 0, 2, 1)});
      solve_and_check<T>(context, variant, {});
    });
  }
}

TEST_P(HostLapackBatches, SeventyThousandTinyOnes) {
  const LapackVariant variant = variant_of(GetParam(), 2);
  LapackProblems<float> made(variant, 7);
  std::vector<LapackProblem<float>> problems;
  for (int i = 0; i < 70000; ++i) problems.push_back(made.make(1 + i % 4, 1 + i % 4, 1, 0));
  const Context context(on_two);
  solve_and_check(context, variant, problems, HostForm::merged_groups);
  EXPECT_EQ(nlohmann::json::parse(context.last_job_json())["routine"],
            std::string("s") + name_of(GetParam()) + "_batch");
}

/// Exact problems, of which those that are bad must end as they should, and the others as without them.
template <Scalar T>
void check_exact(const Context& context, const LapackVariant& variant, const std::vector<ExactFactors<T>>& exact) {
  std::vector<LapackProblem<T>> problems;
  for (const ExactFactors<T>& one : exact) problems.push_back(one.problem);
  const auto after = solved(context, variant, problems);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const LapackProblem<T>& expected = exact[i].expected;
    const bool is_cut = is_hermitian(variant.routine) && expected.info > 0;
    EXPECT_TRUE(
        test::has_these_factors(variant, after[i], expected, is_cut ? std::optional(expected.info - 1) : std::nullopt))
        << name_of(variant.routine) << ", problem " << i << ", " << expected.m << " x " << expected.n;
    if (solves(variant.routine) && expected.info > 0) {
      EXPECT_TRUE(after[i].B.empty() ||
                  std::memcmp(after[i].B.data(), problems[i].B.data(), after[i].B.size() * sizeof(T)) == 0)
          << "B of a bad one";
    }
  }
}

TEST_P(HostLapackBatches, BadMatricesBesideGoodOnes) {
  if (!factors(GetParam())) return;
  const bool interchanges = GetParam() != Routine::getrf_nopiv;
  for (const char* const settings : {on_two, on_cpu}) {
    SCOPED_TRACE(settings);
    const Context context(settings);
    int turn = 0;
    for (const index_t n : {1, 2, 9, 33, 66}) {
      for_types([&]<Scalar T>(T) {
        const LapackVariant variant = variant_of(GetParam(), ++turn);
        ExactProblems<T> made(variant, static_cast<unsigned>(turn));
        std::vector<ExactFactors<T>> exact;
        for (const index_t at : {index_t{0}, n / 2, n - 1}) {
          if (is_hermitian(GetParam())) {
            exact.push_back(made.cholesky(n, 3, at, 0));
            exact.push_back(made.cholesky(n, 3));
            exact.push_back(made.cholesky(n, 3, at, 2));
            exact.push_back(made.cholesky(n, 3, at, 0));
            exact.back().problem.a(at, at) = test::narrowed<T>(std::numeric_limits<double>::quiet_NaN());
          } else {
            exact.push_back(made.of_routine(n, n, 2, {.interchanges = interchanges, .zero_pivot = at}));
            exact.push_back(made.of_routine(n, n, 2, {.interchanges = interchanges}));
            exact.push_back(made.of_routine(n, n, 2, {.interchanges = interchanges, .rank = at}));
          }
        }
        check_exact(context, variant, exact);
      });
    }
  }
}

TEST_P(HostLapackBatches, AZeroInTheFactorLeavesTheMatrixAsItIs) {
  if (!inverts(GetParam())) return;
  for (const char* const settings : {on_two, on_cpu}) {
    const Context context(settings);
    const LapackVariant variant = variant_of(GetParam(), 1);
    LapackProblems<double> made(variant, 1);
    std::vector<LapackProblem<double>> problems;
    for (const index_t n : {5, 40, 70}) {
      problems.push_back(made.make(n, n, 0));
      problems.push_back(made.make(n, n, 0));
      problems.back().a(n / 2, n / 2) = 0;
    }
    const auto after = solved(context, variant, problems);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (i % 2 == 0) {
        EXPECT_TRUE(test::is_solved(variant, problems[i], after[i]));
      } else {
        EXPECT_EQ(after[i].info, problems[i].n / 2 + 1);
        EXPECT_EQ(std::memcmp(after[i].A.data(), problems[i].A.data(), after[i].A.size() * sizeof(double)), 0);
      }
    }
  }
}

TEST_P(HostLapackBatches, DevicesThatFailAreMadeGood) {
  const LapackVariant variant = variant_of(GetParam(), 1);
  const auto problems = some_problems<double>(variant, 3, 250, 24);
  for (const std::string kind : {"", "up:", "down:", "kernel:"}) {
    for (const int number : {0, 1, 3}) {
      for (const int devices : {1, 2}) {
        SCOPED_TRACE(kind + std::to_string(number) + ", devices: " + std::to_string(devices));
        const Context context("TESSERA_OFFLOAD=always TESSERA_DEVICES=host:" + std::to_string(devices) +
                              " TESSERA_HOST_DEVICE=delay=100us,fail=" + kind + std::to_string(number) +
                              ";delay=100us");
        solve_and_check(context, variant, problems);
        solve_and_check(context, variant, problems);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Routines, HostLapackBatches, ::testing::ValuesIn(all_host_routines),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(HostLapackBatch, TinyPivotsAreReplaced) {
  for (const char* const settings : {on_one, on_cpu}) {
    const Context context(settings);
    std::vector<double> A = {0, 0, 0, 5};
    int info = -1;
    getrf_nopiv_batch_strided<double>(context, 2, 2, A.data(), 2, 4, 0.5, &info, 1);
    EXPECT_EQ(info, 0);
    EXPECT_EQ(A, (std::vector<double>{0.5, 0, 0, 5}));
  }
}

TEST(HostLapackBatch, FactorsAreShared) {
  for (const char* const settings : {on_two, on_cpu}) {
    const Context context(settings);
    const std::vector<double> U = {2, 0, 1, 4};
    std::vector<double> B;
    for (int i = 0; i < 3000; ++i) B.insert(B.end(), {2.0 * i + 2, 8});
    getrs_batch_strided<double>(context, TESSERA_NO_TRANS, 2, 1, U.data(), 2, 0, nullptr, 0, B.data(), 2, 2, nullptr,
                                3000);
    for (int i = 0; i < 3000; ++i) {
      ASSERT_EQ(B[static_cast<std::size_t>(2 * i)], i);
      ASSERT_EQ(B[static_cast<std::size_t>(2 * i + 1)], 2);
    }
  }
}

TEST(HostLapackBatch, FollowsTheRulesOfItsRoutineAndIsTold) {
  const auto told_of = [](const std::string& settings) {
    const Context context("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 " + settings);
    LapackVariant variant{.routine = Routine::gesv};
    LapackProblems<double> made(variant, 1);
    std::vector<LapackProblem<double>> problems;
    for (int i = 0; i < 40; ++i) problems.push_back(made.make(9, 9, 2));
    testing::internal::CaptureStderr();
    solve_and_check(context, variant, problems);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=always"),
              HasSubstr("dgesv_batch of 40 problems, 1 form, mean of n 9 on host:0 (TESSERA_OFFLOAD=always)"));
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=always,dgesv=never"), HasSubstr("on the CPU BLAS (TESSERA_OFFLOAD=never)"));
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=always,getrf=never"), HasSubstr("on host:0"));
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=auto"), HasSubstr("on the CPU BLAS (too small"));
}

TEST(HostLapackBatch, AnUnknownCpuIsMeasuredOnSamplesOfTheBatch) {
  // Devices without modelled rates take what packing takes.
  const Context context("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=compute=off");
  LapackVariant variant{.routine = Routine::potrf};
  LapackProblems<double> made(variant, 1);
  const LapackProblem<double> one = made.make(40, 40, 0);
  const std::vector<LapackProblem<double>> problems(20000, one);
  testing::internal::CaptureStderr();
  solved(context, variant, problems, HostForm::merged_groups);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("on the CPU BLAS (to measure the CPU)"));
  EXPECT_THAT(told, testing::ContainsRegex("sooner on (devices|the CPU): estimated"));
}

TEST(HostLapackBatch, SeveralThreadsCallAtOnceAndAChildComputesOnTheCpu) {
  const Context context(on_two);
  const LapackVariant variant{.routine = Routine::gesv};
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < 3; ++t)
    callers.emplace_back([&, t] { solve_and_check(context, variant, some_problems<double>(variant, t, 100, 40)); });
  for (std::thread& caller : callers) caller.join();
  const pid_t child = fork();
  if (child == 0) {
    solve_and_check(context, variant, some_problems<double>(variant, 9, 100, 40));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Two good groups of gesv, of which a test spoils the second.
struct TwoGroups {
  std::vector<std::int64_t> n{2, 3}, nrhs{1, 1}, lda{2, 3}, ldb{2, 3}, size{1, 1};
  std::vector<double> values = {1, 0, 0, 1, 5, 5, 1, 0, 0, 0, 1, 0, 0, 0, 1, 5, 5, 5};
  std::vector<double*> A{values.data(), values.data() + 6}, B{values.data() + 4, values.data() + 15};
  std::vector<int> pivots = {7, 7, 7, 7, 7};
  std::vector<int*> ipiv{pivots.data(), pivots.data() + 2};
  std::vector<int> info{7, 7};
  int* told = info.data();
  std::int64_t count = 2;

  tessera_status run(tessera_context ctx) {
    return tessera_dgesv_batch(ctx, n.data(), nrhs.data(), A.data(), lda.data(), ipiv.data(), B.data(), ldb.data(),
                               told, count, size.data());
  }
};

class HostLapackArguments : public ::testing::Test {
 protected:
  HostLapackArguments() { EXPECT_EQ(tessera_create_with(&ctx, on_cpu), TESSERA_SUCCESS); }
  ~HostLapackArguments() override { EXPECT_EQ(tessera_destroy(ctx), TESSERA_SUCCESS); }

  static void expect_refused(tessera_status status, int position, const char* text) {
    EXPECT_EQ(status, TESSERA_INVALID_ARGUMENT) << text;
    EXPECT_EQ(tessera_last_error_position(), position) << text;
    EXPECT_THAT(tessera_last_error(), HasSubstr(text));
  }

  tessera_context ctx = nullptr;
};

TEST_F(HostLapackArguments, ABadOneOfAnyGroupIsNamedBeforeAnythingIsDone) {
  const auto expect = [&](int position, const char* text, auto&& spoil) {
    TwoGroups groups;
    const std::vector<double> before = groups.values;
    spoil(groups);
    expect_refused(groups.run(ctx), position, text);
    EXPECT_EQ(groups.values, before);
    EXPECT_EQ(groups.pivots, std::vector<int>(5, 7));
    EXPECT_EQ(groups.info, std::vector<int>(2, 7));
  };
  expect(2, "n is negative (group 1", [](auto& g) { g.n[1] = -1; });
  expect(2, "n is larger than", [](auto& g) { g.n[1] = std::int64_t{1} << 31; });
  expect(3, "nrhs is negative", [](auto& g) { g.nrhs[1] = -1; });
  expect(4, "A is null", [](auto& g) { g.A[1] = nullptr; });
  expect(5, "lda is smaller", [](auto& g) { g.lda[1] = 2; });
  expect(6, "ipiv is null", [](auto& g) { g.ipiv[1] = nullptr; });
  expect(7, "B is null", [](auto& g) { g.B[1] = nullptr; });
  expect(8, "ldb is smaller", [](auto& g) { g.ldb[1] = 2; });
  expect(9, "info is null", [](auto& g) { g.told = nullptr; });
  expect(10, "group_count is negative", [](auto& g) { g.count = -1; });
  expect(11, "group_size is negative", [](auto& g) { g.size[1] = -1; });
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect(10, "arrays of so many", [](auto& g) { g.count = most; });
  expect(11, "arrays of so many are larger than any memory (group 1", [](auto& g) { g.size[1] = most; });
  expect(11, "arrays of so many are larger than any memory (group 1", [](auto& g) {
    g.n = {0, 0};  // even where there is nothing to do
    g.size = {0, std::int64_t{1} << 62};
  });
  expect(5, "a matrix is larger than any memory (group 1", [](auto& g) { g.lda[1] = most; });
  expect(8, "a matrix is larger than any memory", [](auto& g) { g.nrhs[1] = 2, g.ldb[1] = most; });
  TwoGroups groups;
  expect_refused(groups.run(nullptr), 1, "ctx is null");
  EXPECT_EQ(groups.run(ctx), TESSERA_SUCCESS);
  EXPECT_EQ(groups.info, std::vector<int>(2, 0));
  EXPECT_EQ(groups.pivots, (std::vector<int>{1, 2, 1, 2, 3}));
}

TEST_F(HostLapackArguments, OfStridedOnesHaveTheirPlaces) {
  std::vector<double> A(16, 1), B(16, 1);
  std::vector<int> ipiv(4, 1), info(4, 7);
  const auto upper = TESSERA_UPPER;
  const auto no = static_cast<tessera_uplo>(7);
  expect_refused(tessera_dpotrf_batch_strided(ctx, no, 2, A.data(), 2, 4, info.data(), 2), 2, "uplo is neither");
  expect_refused(tessera_dpotrf_batch_strided(ctx, upper, -1, A.data(), 2, 4, info.data(), 2), 3, "n is negative");
  expect_refused(tessera_dpotrf_batch_strided(ctx, upper, 2, nullptr, 2, 4, info.data(), 2), 4, "A is null");
  expect_refused(tessera_dpotrf_batch_strided(ctx, upper, 2, A.data(), 1, 4, info.data(), 2), 5, "lda is smaller");
  expect_refused(tessera_dpotrf_batch_strided(ctx, upper, 2, A.data(), 2, -4, info.data(), 2), 6, "stride");
  expect_refused(tessera_dpotrf_batch_strided(ctx, upper, 2, A.data(), 2, 4, nullptr, 2), 7, "info is null");
  expect_refused(tessera_dpotrf_batch_strided(ctx, upper, 2, A.data(), 2, 4, info.data(), -2), 8, "batch_size");
  expect_refused(tessera_dgetrf_batch_strided(ctx, 3, 2, A.data(), 2, 4, ipiv.data(), 2, info.data(), 2), 5, "lda");
  expect_refused(tessera_dgetrf_batch_strided(ctx, 2, 2, A.data(), 2, 4, ipiv.data(), -2, info.data(), 2), 8, "stride");
  expect_refused(tessera_dgetrf_nopiv_batch_strided(ctx, 2, 2, A.data(), 2, 4, std::nan(""), info.data(), 2), 7,
                 "tiny");
  expect_refused(tessera_dgetrs_batch_strided(ctx, static_cast<tessera_transpose>(7), 2, 1, A.data(), 2, 4, ipiv.data(),
                                              2, B.data(), 2, 2, nullptr, 2),
                 2, "trans is no ");
  expect_refused(tessera_dgetrs_batch_strided(ctx, TESSERA_TRANS, 2, 1, A.data(), 2, 4, ipiv.data(), 2, B.data(), 1, 2,
                                              nullptr, 2),
                 11, "ldb is smaller");
  expect_refused(tessera_dgetrs_batch_strided(ctx, TESSERA_TRANS, 2, 1, A.data(), 2, 4, ipiv.data(), 2, B.data(), 2, -2,
                                              nullptr, 2),
                 12, "stride");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto lu = [&](std::int64_t lda, std::int64_t a, std::int64_t pivots, std::int64_t count) {
    return tessera_dgetrf_batch_strided(ctx, 2, 2, A.data(), lda, a, ipiv.data(), pivots, info.data(), count);
  };
  expect_refused(lu(2, 4, 2, most), 10, "arrays of so many");
  expect_refused(lu(2, 4, 2, std::int64_t{1} << 62), 10, "arrays of so many");
  expect_refused(lu(2, most / 8, 2, 3), 6, "the stride leads beyond");
  expect_refused(lu(2, 4, most / 4, 3), 8, "the stride leads beyond");
  expect_refused(lu(most, 4, 2, 2), 5, "larger than any memory");
  expect_refused(
      tessera_dgesv_batch_strided(ctx, 2, 1, A.data(), 2, 4, ipiv.data(), 2, B.data(), 2, most, info.data(), 2), 11,
      "the stride leads beyond");
  EXPECT_EQ(A, std::vector<double>(16, 1));
  EXPECT_EQ(info, std::vector<int>(4, 7));
}

TEST_F(HostLapackArguments, WithoutEffectMayBeNullAndTellInfo) {
  EXPECT_EQ(
      tessera_dgesv_batch(ctx, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
      TESSERA_SUCCESS);
  std::vector<int> info(3, 7);
  EXPECT_EQ(tessera_zgetrf_batch_strided(ctx, 0, 5, nullptr, 1, 0, nullptr, 0, info.data(), 3), TESSERA_SUCCESS);
  EXPECT_EQ(info, std::vector<int>(3, 0));
  info.assign(3, 7);
  const std::int64_t n = 2, nrhs = 0, ld = 2, count = 3;
  const tessera_uplo uplo = TESSERA_LOWER;
  EXPECT_EQ(tessera_dpotrs_batch(ctx, &uplo, &n, &nrhs, nullptr, &ld, nullptr, &ld, info.data(), 1, &count),
            TESSERA_SUCCESS);
  EXPECT_EQ(info, std::vector<int>(3, 0));
  // gesv without right-hand sides factors.
  std::vector<double> A = {0, 2, 1, 0};
  std::vector<int> ipiv(2);
  EXPECT_EQ(tessera_dgesv_batch_strided(ctx, 2, 0, A.data(), 2, 4, ipiv.data(), 2, nullptr, 2, 0, info.data(), 1),
            TESSERA_SUCCESS);
  EXPECT_EQ(A, (std::vector<double>{2, 0, 0, 1}));
  EXPECT_EQ(ipiv, (std::vector<int>{2, 2}));
}

}  // namespace lapack_batch_test
}  // namespace tessera
