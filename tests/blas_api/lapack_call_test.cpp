// Single calls of LAPACK in a context, on host devices: results, where they ran, and what becomes of them when devices fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "offload/context.hpp"
#include "tests/blas_api/lapack_call_problem.hpp"

namespace tessera::offload {
namespace lapack_call_test {

using test::LapackCallProblem;
using test::LapackCase;
using testing::HasSubstr;
using enum Routine;

constexpr index_t tile = 16;

std::string settings_of(int devices, const std::string& more = "") {
  return "TESSERA_DEVICES=host:" + std::to_string(devices) + " TESSERA_OFFLOAD=always TESSERA_TILE=16 " + more;
}

/// Runs it where it must run, and checks it.
template <Scalar T>
::testing::AssertionResult run_on_devices(Context& context, const LapackCase& c, unsigned seed = 1) {
  LapackCallProblem<T> problem(c, seed);
  LapackRun call{.problem = problem.call()};
  const auto job = context.run(call);
  if (!job) return ::testing::AssertionFailure() << c << ": not on devices";
  if (job->routine != name_of(call.problem)) return ::testing::AssertionFailure() << c << " is called " << job->routine;
  return problem.check(call.info, call.info > 0 ? (call.info - 1) / tile * tile : 0);
}

template <class T>
class LapackCalls : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LapackCalls, Types);

TYPED_TEST(LapackCalls, FactorLikeLapackOnOneToThreeDevices) {
  for (const int devices : {1, 2, 3}) {
    Context context(Config::from_settings(settings_of(devices)));
    for (const index_t n : {index_t{1}, tile - 1, tile, tile + 1, 3 * tile + 5}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = potrf, .n = n, .uplo = uplo}));
        EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = posv, .n = n, .nrhs = 5, .uplo = uplo}));
      }
      for (const index_t m : {index_t{1}, tile, 2 * tile + 3, 4 * tile}) {
        EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = getrf, .m = m, .n = n, .ipiv_bits = 64}));
        EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = geqrf, .m = m, .n = n}));
        EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = gelqf, .m = m, .n = n}));
      }
      EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = gesv, .n = n, .nrhs = tile + 2}));
    }
  }
}

TYPED_TEST(LapackCalls, SolveWithFactors) {
  Context context(Config::from_settings(settings_of(2)));
  for (const index_t n : {index_t{1}, tile, 2 * tile + 3}) {
    for (const index_t nrhs : {index_t{1}, tile + 1, 3 * tile}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper})
        EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = potrs, .n = n, .nrhs = nrhs, .uplo = uplo}));
      for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
        for (const int bits : {32, 64})
          EXPECT_TRUE(run_on_devices<TypeParam>(
              context, {.routine = getrs, .n = n, .nrhs = nrhs, .op = op, .padding = 0, .ipiv_bits = bits}));
      }
    }
  }
}

TYPED_TEST(LapackCalls, TellWhatIsSingularOrIndefinite) {
  Context context(Config::from_settings(settings_of(2)));
  const index_t n = 3 * tile + 5;
  for (const index_t at : {index_t{0}, tile, n - 1}) {
    for (const bool nan : {false, true}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Routine routine : {potrf, posv}) {
          EXPECT_TRUE(run_on_devices<TypeParam>(
              context, {.routine = routine, .n = n, .nrhs = 3, .uplo = uplo, .wrong_at = at, .has_nan = nan}));
        }
      }
    }
    // B stays as it is.
    EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = gesv, .n = n, .nrhs = 3, .wrong_at = at}));
    EXPECT_TRUE(run_on_devices<TypeParam>(context, {.routine = getrf, .m = n + 7, .n = n, .wrong_at = at}));
  }
}

TEST(LapackCall, FactorsWithoutRightHandSides) {
  Context context(Config::from_settings(settings_of(1)));
  EXPECT_TRUE(run_on_devices<double>(context, {.routine = gesv, .n = 20, .nrhs = 0}));
  EXPECT_TRUE(run_on_devices<double>(context, {.routine = posv, .n = 20, .nrhs = 0}));
}

TEST(LapackCall, FollowsTheRuleOfItsName) {
  Context context(Config::from_settings(settings_of(1, "TESSERA_OFFLOAD=always,getrf=never,dpotrf=8,geqrf=never")));
  const auto is_on_devices = [&](const LapackCase& c) {
    LapackCallProblem<double> problem(c, 1);
    LapackRun call{.problem = problem.call()};
    const bool on_devices = context.run(call).has_value();
    EXPECT_TRUE(problem.check(call.info));
    return on_devices;
  };
  EXPECT_FALSE(is_on_devices({.routine = getrf, .m = 30, .n = 30}));
  EXPECT_FALSE(is_on_devices({.routine = geqrf, .m = 30, .n = 30}));
  EXPECT_TRUE(is_on_devices({.routine = gesv, .n = 30, .nrhs = 2}));
  // n^3 / 6, half of its operations, is the volume of a cube of 8 from 15 on.
  EXPECT_FALSE(is_on_devices({.routine = potrf, .n = 14}));
  EXPECT_TRUE(is_on_devices({.routine = potrf, .n = 15}));
}

TEST(LapackCall, IsComputedByTheCpuThatItIsGiven) {
  class Counting final : public CpuLapack {
   public:
    void compute(LapackRun& call) override {
      ++calls;
      call.info = 77;
    }
    int calls = 0;
  };
  LapackCallProblem<double> problem({.routine = getrf, .m = 30, .n = 30}, 1);
  for (const char* settings : {"TESSERA_OFFLOAD=never", "TESSERA_DEVICES=none TESSERA_OFFLOAD=always",
                               "TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=1000"}) {
    Context context(Config::from_settings(settings));
    Counting cpu;
    LapackRun call{.problem = problem.call()};
    EXPECT_FALSE(context.run(call, Fallback::cpu_blas, nullptr, &cpu));
    EXPECT_EQ(cpu.calls, 1) << settings;
    EXPECT_EQ(call.info, 77);
  }
}

TEST(LapackCall, GoesToTheCpuWhereDevicesAreTooSmall) {
  const LapackCase c{.routine = gesv, .n = 60, .nrhs = 2};
  Context context(Config::from_settings(settings_of(1, "TESSERA_HOST_DEVICE=memory=512")));
  LapackCallProblem<double> problem(c, 1);
  LapackRun call{.problem = problem.call()};
  EXPECT_FALSE(context.run(call, Fallback::cpu_blas));
  EXPECT_TRUE(problem.check(call.info));
  LapackCallProblem<double> again(c, 1);
  LapackRun reported{.problem = again.call()};
  EXPECT_THROW(context.run(reported, Fallback::report), OutOfDeviceMemory);
}

TEST(LapackCall, IsRightWhicheverOperationOfADeviceFails) {
  for (const Routine routine : {posv, gesv, geqrf, gelqf}) {
    for (int op = 0; op < 60; ++op) {
      Context context(Config::from_settings(settings_of(2, "TESSERA_HOST_DEVICE=fail=" + std::to_string(op) + ";")));
      EXPECT_TRUE(run_on_devices<double>(context, {.routine = routine, .m = 50, .n = 50, .nrhs = 20})) << op;
    }
  }
}

TEST(LapackCall, IsRightWhereAllDevicesFail) {
  for (const Routine routine : {posv, gesv, geqrf, gelqf}) {
    for (const int op : {0, 1, 5, 20}) {
      Context context(Config::from_settings(settings_of(2, "TESSERA_HOST_DEVICE=fail=" + std::to_string(op))));
      LapackCallProblem<double> problem({.routine = routine, .m = 50, .n = 50, .nrhs = 20}, 1);
      LapackRun call{.problem = problem.call()};
      static_cast<void>(context.run(call, Fallback::cpu_blas));
      EXPECT_TRUE(problem.check(call.info)) << op;
    }
  }
}

TEST(LapackCall, IsMadeByManyThreadsAtOnce) {
  Context context(Config::from_settings(settings_of(2)));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (unsigned caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      for (unsigned i = 0; i < 10; ++i) {
        const Routine routine = routines_of<Way::factors>[(caller + i) % routines_of<Way::factors>.size()];
        const auto good = run_on_devices<double>(context, {.routine = routine, .m = 40, .n = 40, .nrhs = 9}, caller);
        if (!good) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LapackCall, IsToldByItsName) {
  testing::internal::CaptureStderr();
  {
    Context context(Config::from_settings(settings_of(1, "TESSERA_VERBOSE=1")));
    static_cast<void>(run_on_devices<double>(context, {.routine = gesv, .n = 20, .nrhs = 3}));
    static_cast<void>(run_on_devices<std::complex<float>>(context, {.routine = potrf, .n = 20, .uplo = Uplo::upper}));
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("tessera: dgesv n=20 nrhs=3 on host:0 (TESSERA_OFFLOAD=always): "));
  EXPECT_THAT(told, HasSubstr("tessera: dtrsm LLNU m=20 n=3 on host:0 "));
  EXPECT_THAT(told, HasSubstr("tessera: cpotrf U n=20 on host:0 "));
}

TEST(LapackCall, IsWeighedWhereDevicesAreSureToWin) {
  // Such devices take no time at all in the model.
  Context context(Config::from_settings("TESSERA_DEVICES=host:1"));
  LapackCallProblem<double> problem({.routine = potrf, .n = 800}, 1);
  LapackRun call{.problem = problem.call()};
  EXPECT_TRUE(context.run(call));
  EXPECT_EQ(call.info, 0);
}

}  // namespace lapack_call_test
}  // namespace tessera::offload
