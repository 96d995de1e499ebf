// LAPACK's routines on the CPU, with the LAPACK of the CPU BLAS, on one thread or on all of its threads, against the
// readable reference.
#include "kernels/host/cpu_lapack.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "calls/arguments.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "tests/lapack_systems.hpp"

namespace tessera::kernels {
namespace cpu_lapack_test {

void run_all(const CpuBlas& blas, const LapackProblems& batch, bool on_one_thread) {
  std::vector<std::byte> memory;
  for (const LapackProblem& problem : batch.problems) {
    const std::size_t bytes = lapack_space_bytes(batch.routine, batch.type, problem.n);
    SpaceOfThreads space;
    space.reserve(bytes, 1);
    *problem.info = run_lapack(&blas, batch, problem, on_one_thread, space.of(0));
  }
}

class CpuLapack : public ::testing::TestWithParam<Routine> {};

TEST_P(CpuLapack, AgreesWithTheReference) {
  const auto blas = CpuBlas::open("");
  for (const bool on_one_thread : {true, false}) {
    for (const ScalarType type : scalar_types) {
      dispatch(type, [&]<Scalar T>(T) {
        test::Systems<T> systems(GetParam(), 1), expected(GetParam(), 1);
        for (test::Systems<T>* const each : {&systems, &expected}) {
          for (const index_t n : {1, 2, 7, 8, 9, 31, 33, 63, 64, 65, 100, 129}) {
            each->add(n, n, 1 + n % 20);
            each->add(n + 5, n, 7);
            each->add(n, n + 70, 8);
          }
          each->add(300, 280, 3);
          each->add(1, 300, 1);
          each->add(300, 1, 1);
        }
        expected.compute();
        run_all(*blas, systems.batch(), on_one_thread);
        systems.expect_same(expected);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Routines, CpuLapack, ::testing::ValuesIn(test::host_lapack_routines),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// The identity of order n, with one element replaced.
struct Replaced {
  std::vector<double> A;
  std::vector<int> ipiv;
  index_t n = 0;

  Replaced(index_t order, index_t i, index_t j, double value)
      : A(static_cast<std::size_t>(order * order)), ipiv(static_cast<std::size_t>(order)), n(order) {
    for (index_t k = 0; k < n; ++k) at(k, k) = 1;
    at(i, j) = value;
  }
  double& at(index_t i, index_t j) { return A[static_cast<std::size_t>(i + j * n)]; }
  int run(const CpuBlas& blas, Routine routine, bool on_one_thread, Uplo uplo = Uplo::lower) {
    LapackProblems batch;
    batch.routine = routine;
    batch.forms = {{.uplo = uplo, .has_pivots = true}};
    batch.problems = {{.m = n, .n = n, .A = A.data(), .lda = n, .ipiv = ipiv.data()}};
    for (int k = 0; k < n && !factors(routine); ++k) ipiv[static_cast<std::size_t>(k)] = k + 1;
    SpaceOfThreads space;
    space.reserve(lapack_space_bytes(routine, ScalarType::d, n), 1);
    return run_lapack(&blas, batch, batch.problem(0), on_one_thread, space.of(0));
  }
};

TEST(CpuLapackInfo, TellsTheFirstBadMinorOrPivotWhereverItStands) {
  const auto blas = CpuBlas::open("");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool on_one_thread : {true, false}) {
    for (const index_t n : {5, 63, 64, 150}) {
      for (const index_t at : {index_t{0}, n / 2, n - 1}) {
        const int place = static_cast<int>(at) + 1;
        for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
          for (const double bad : {0.0, -2.0, nan}) {
            Replaced matrix(n, at, at, bad);
            EXPECT_EQ(matrix.run(*blas, Routine::potrf, on_one_thread, uplo), place) << n << ' ' << bad;
          }
        }
        EXPECT_EQ(Replaced(n, at, at, 0).run(*blas, Routine::getrf, on_one_thread), place) << n;
        for (const Routine inverse : {Routine::potri, Routine::getri}) {
          Replaced factor(n, at, at, 0);
          const std::vector<double> before = factor.A;
          EXPECT_EQ(factor.run(*blas, inverse, on_one_thread), place) << n;
          EXPECT_EQ(factor.A, before) << n;
        }
      }
      Replaced beside(n, n - 1, 0, nan);
      EXPECT_EQ(beside.run(*blas, Routine::potrf, on_one_thread), n) << n;
    }
  }
}

}  // namespace cpu_lapack_test
}  // namespace tessera::kernels
