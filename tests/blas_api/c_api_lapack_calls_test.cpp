// Single calls of LAPACK of the C API and its C++ veneer: results, checks of arguments in the caller's order, statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tessera/lapack.hpp"
#include "tests/blas_api/lapack_call_problem.hpp"

namespace tessera {
namespace c_api_lapack_calls_test {

using test::LapackCallProblem;
using test::LapackCase;

constexpr const char* on_devices = "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16";
constexpr const char* on_cpu = "TESSERA_OFFLOAD=never";

/// Through the veneer. @return info
template <Scalar T>
std::int64_t run(const Context& c, const LapackCall& call) {
  T *const A = static_cast<T*>(call.A), *const B = static_cast<T*>(call.B);
  auto* const ipiv = static_cast<std::int64_t*>(call.ipiv);
  const tessera_uplo uplo = call.uplo == Uplo::lower ? TESSERA_LOWER : TESSERA_UPPER;
  const auto trans = static_cast<tessera_transpose>(static_cast<int>(call.op) + TESSERA_NO_TRANS);
  switch (call.routine) {
    case Routine::potrf:
      return potrf(c, TESSERA_COL_MAJOR, uplo, call.n, A, call.lda);
    case Routine::potrs:
      return potrs<T>(c, TESSERA_COL_MAJOR, uplo, call.n, call.k, A, call.lda, B, call.ldb);
    case Routine::posv:
      return posv(c, TESSERA_COL_MAJOR, uplo, call.n, call.k, A, call.lda, B, call.ldb);
    case Routine::getrf:
      return getrf(c, TESSERA_COL_MAJOR, call.m, call.n, A, call.lda, ipiv);
    case Routine::getrs:
      return getrs<T>(c, TESSERA_COL_MAJOR, trans, call.n, call.k, A, call.lda, ipiv, B, call.ldb);
    case Routine::gesv:
      return gesv(c, TESSERA_COL_MAJOR, call.n, call.k, A, call.lda, ipiv, B, call.ldb);
    case Routine::gelqf:
      return gelqf(c, TESSERA_COL_MAJOR, call.m, call.n, A, call.lda, static_cast<T*>(call.tau));
    default:
      break;
  }
  return geqrf(c, TESSERA_COL_MAJOR, call.m, call.n, A, call.lda, static_cast<T*>(call.tau));
}

template <class T>
class LapackApi : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LapackApi, Types);

TYPED_TEST(LapackApi, ComputesEveryRoutineOnDevicesAndOnTheCpu) {
  for (const char* settings : {on_devices, on_cpu}) {
    const Context context(settings);
    for (const Routine routine : routines_of<Way::factors>) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
          LapackCallProblem<TypeParam> problem(
              {.routine = routine, .m = 45, .n = 37, .nrhs = 18, .uplo = uplo, .op = op, .ipiv_bits = 64}, 1);
          const std::int64_t info = run<TypeParam>(context, problem.call());
          EXPECT_TRUE(problem.check(info)) << settings;
          EXPECT_EQ(context.last_job_stats().devices > 0, settings == std::string(on_devices));
        }
      }
    }
  }
}

TEST(LapackApiArguments, AreCheckedInTheirOrder) {
  const Context context(on_devices);
  tessera_context ctx = context.handle();
  double A[4] = {4, 1, 1, 3}, B[2] = {1, 2}, tau[2];
  std::int64_t ipiv[2] = {1, 2}, info = 99;
  volatile int no_uplo = 999;  // a value that the type need not have, as a C program may pass it
  const auto wrong_trans = static_cast<tessera_transpose>(7);
  constexpr std::int64_t huge = std::int64_t{1} << 31, most = std::numeric_limits<std::int64_t>::max();
  struct Wrong {
    int position;
    std::function<tessera_status()> call;
  };
  const Wrong all[] = {
      {1, [&] { return tessera_dpotrf(nullptr, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, A, 2, &info); }},
      {3, [&] { return tessera_dpotrf(ctx, TESSERA_COL_MAJOR, static_cast<tessera_uplo>(no_uplo), -1, A, 2, &info); }},
      {4, [&] { return tessera_dpotrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, -1, A, 0, &info); }},
      {4, [&] { return tessera_dpotrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, huge, A, huge, &info); }},
      {5, [&] { return tessera_dpotrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, nullptr, 1, &info); }},
      {6, [&] { return tessera_dpotrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, A, 1, nullptr); }},
      {7, [&] { return tessera_dpotrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, A, 2, nullptr); }},
      {5, [&] { return tessera_dpotrs(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, -1, A, 1, B, 2, &info); }},
      {5, [&] { return tessera_dpotrs(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 0, huge, A, 1, B, 1, &info); }},
      {7, [&] { return tessera_dpotrs(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, 1, A, 1, B, 1, &info); }},
      {5, [&] { return tessera_dposv(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 0, huge, A, 1, B, 1, &info); }},
      {8, [&] { return tessera_dposv(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, 1, A, 2, nullptr, 1, &info); }},
      {9, [&] { return tessera_dposv(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, 1, A, 2, B, 1, &info); }},
      {3, [&] { return tessera_dgetrf(ctx, TESSERA_COL_MAJOR, -1, -1, A, 0, ipiv, &info); }},
      {7, [&] { return tessera_dgetrf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, nullptr, nullptr); }},
      {8, [&] { return tessera_dgetrf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, ipiv, nullptr); }},
      {3, [&] { return tessera_dgetrs(ctx, TESSERA_COL_MAJOR, wrong_trans, -1, 1, A, 2, ipiv, B, 2, &info); }},
      {5, [&] { return tessera_dgetrs(ctx, TESSERA_COL_MAJOR, TESSERA_TRANS, 0, huge, A, 2, ipiv, B, 2, &info); }},
      {8,
       [&] { return tessera_dgetrs(ctx, TESSERA_COL_MAJOR, TESSERA_TRANS, 2, 1, A, 2, nullptr, nullptr, 2, &info); }},
      {10, [&] { return tessera_dgetrs(ctx, TESSERA_COL_MAJOR, TESSERA_TRANS, 2, 1, A, 2, ipiv, B, 1, &info); }},
      {4, [&] { return tessera_dgesv(ctx, TESSERA_COL_MAJOR, 2, -1, A, 2, ipiv, B, 2, &info); }},
      {4, [&] { return tessera_dgesv(ctx, TESSERA_COL_MAJOR, 0, huge, A, 2, ipiv, B, 2, &info); }},
      {9, [&] { return tessera_dgesv(ctx, TESSERA_COL_MAJOR, 2, 1, A, 2, ipiv, B, 1, &info); }},
      {10, [&] { return tessera_dgesv(ctx, TESSERA_COL_MAJOR, 2, 1, A, 2, ipiv, B, 2, nullptr); }},
      {6, [&] { return tessera_dgetrf(ctx, TESSERA_COL_MAJOR, 2, 2, A, most, ipiv, &info); }},
      {9, [&] { return tessera_dgesv(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, ipiv, B, most, &info); }},
      {6, [&] { return tessera_dgeqrf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 1, nullptr, &info); }},
      {7, [&] { return tessera_dgeqrf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, nullptr, &info); }},
      {3, [&] { return tessera_dgelqf(ctx, TESSERA_COL_MAJOR, -1, -1, A, 0, nullptr, &info); }},
      {6, [&] { return tessera_dgelqf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 1, nullptr, &info); }},
      {7, [&] { return tessera_dgelqf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, nullptr, &info); }},
  };
  for (const Wrong& wrong : all) {
    EXPECT_EQ(wrong.call(), TESSERA_INVALID_ARGUMENT) << wrong.position;
    EXPECT_EQ(tessera_last_error_position(), wrong.position) << tessera_last_error();
  }
  EXPECT_THAT(A, testing::ElementsAre(4, 1, 1, 3));
  EXPECT_EQ(info, 99);
  EXPECT_EQ(tessera_dgeqrf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, tau, nullptr), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_dgelqf(ctx, TESSERA_COL_MAJOR, 2, 2, A, 2, tau, nullptr), TESSERA_SUCCESS);
}

TEST(LapackApiArguments, MayBeNullWhereThereIsNothingToDo) {
  const Context context(on_devices);
  std::int64_t info = 99;
  EXPECT_EQ(tessera_dgetrf(context.handle(), TESSERA_COL_MAJOR, 0, 5, nullptr, 1, nullptr, &info), TESSERA_SUCCESS);
  EXPECT_EQ(info, 0);
  info = 99;
  EXPECT_EQ(tessera_dgesv(context.handle(), TESSERA_COL_MAJOR, 0, 5, nullptr, 1, nullptr, nullptr, 1, &info),
            TESSERA_SUCCESS);
  EXPECT_EQ(info, 0);
  EXPECT_EQ(tessera_dpotrs(context.handle(), TESSERA_COL_MAJOR, TESSERA_UPPER, 5, 0, nullptr, 5, nullptr, 5, nullptr),
            TESSERA_SUCCESS);
}

TEST(LapackApiErrors, LeaveAsTheyWereWhatDevicesCannotHold) {
  const Context context(std::string(on_devices) + " TESSERA_HOST_DEVICE=memory=512");
  LapackCallProblem<double> problem({.routine = Routine::getrf, .m = 60, .n = 60, .ipiv_bits = 64}, 1);
  const LapackCall call = problem.call();
  const std::vector<double> before(static_cast<double*>(call.A), static_cast<double*>(call.A) + call.lda * call.n);
  std::int64_t info = 99;
  EXPECT_EQ(tessera_dgetrf(context.handle(), TESSERA_COL_MAJOR, call.m, call.n, static_cast<double*>(call.A), call.lda,
                           static_cast<std::int64_t*>(call.ipiv), &info),
            TESSERA_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(std::memcmp(before.data(), call.A, before.size() * sizeof(double)), 0);
  EXPECT_EQ(info, 99);
}

}  // namespace c_api_lapack_calls_test
}  // namespace tessera
