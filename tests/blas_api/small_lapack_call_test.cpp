// Which calls of LAPACK are small by their sizes alone.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "blas_api/lapack/small_call.hpp"

namespace tessera::lapack {
namespace small_lapack_call_test {

template <class Integer, std::size_t count>
index_t size_of(Routine routine, ScalarType type, const std::array<void*, count>& arguments) {
  return small_size(SmallCallPlaces::of(routine, is_complex(type)), type, arguments, sizeof(Integer) * 8);
}

template <class Integer>
index_t size_of_gesv(Integer n, Integer nrhs) {
  double A = 0, B = 0;
  Integer lda = 99, ipiv = 0, ldb = 99, info = 0;
  return size_of<Integer>(Routine::gesv, ScalarType::d,
                          std::array<void*, 8>{&n, &nrhs, &A, &lda, &ipiv, &B, &ldb, &info});
}

TEST(SmallLapackCall, HasSizesUpToALimitAndSomethingToDo) {
  EXPECT_EQ(size_of_gesv<std::int32_t>(3, 2), 3);
  EXPECT_EQ(size_of_gesv<std::int64_t>(3, 20), 20);
  EXPECT_EQ(size_of_gesv<std::int64_t>(most_small_size, 1), most_small_size);
  for (const std::int32_t odd : {-1, 0, static_cast<std::int32_t>(most_small_size) + 1}) {
    EXPECT_EQ(size_of_gesv<std::int32_t>(odd, 1), 0);
    EXPECT_EQ(size_of_gesv<std::int32_t>(2, odd), 0);
  }
}

TEST(SmallLapackCall, DoesNotAskForSizesOfWorkspaces) {
  std::int32_t m = 4, n = 3, lda = 4, lwork = 3, info = 0;
  std::array<double, 12> A{};
  std::array<double, 3> tau{}, work{};
  const auto size = [&] {
    return size_of<std::int32_t>(Routine::geqrf, ScalarType::d,
                                 std::array<void*, 8>{&m, &n, A.data(), &lda, tau.data(), work.data(), &lwork, &info});
  };
  EXPECT_EQ(size(), 4);
  A[5] = std::numeric_limits<double>::quiet_NaN();  // which no loop depends on
  EXPECT_EQ(size(), 4);
  lwork = -1;
  EXPECT_EQ(size(), 0);
}

TEST(SmallLapackCall, IsFiniteWhereTheRoutineIterates) {
  std::int64_t n = 3, lda = 4, lwork = 99, info = 0;
  std::vector<std::complex<float>> A(12), work(99);
  std::array<float, 3> w{};
  std::array<float, 9> rwork{};
  char jobz = 'N', uplo = 'L';
  const auto size = [&] {
    return size_of<std::int64_t>(
        Routine::heev, ScalarType::c,
        std::array<void*, 10>{&jobz, &uplo, &n, A.data(), &lda, w.data(), work.data(), &lwork, rwork.data(), &info});
  };
  EXPECT_EQ(size(), 3);
  A[3] = std::numeric_limits<float>::infinity();  // below the matrix
  EXPECT_EQ(size(), 3);
  A[8] = std::numeric_limits<float>::infinity();  // above the diagonal, which is not read
  EXPECT_EQ(size(), 3);
  A[2] = {0, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(size(), 0);
  uplo = 'u';
  EXPECT_EQ(size(), 0);
  A[8] = 0;
  EXPECT_EQ(size(), 3);
  uplo = 'X';
  EXPECT_EQ(size(), 0);
  uplo = 'u';
  lda = 2;
  EXPECT_EQ(size(), 0);
}

/// The bound holds for all routines, whatever they are asked for.
TEST(SmallLapackCall, HasNoMoreWorkThanIsSaid) {
  constexpr index_t n = most_small_size;
  for (const RoutineRow& row : routine_rows) {
    if (row.way != Way::factors && row.way != Way::whole && row.way != Way::as_other) continue;
    for (const VectorJob job : {VectorJob::none, VectorJob::thin, VectorJob::all}) {
      for (const bool vectors : {false, true}) {
        LapackCall call{.routine = row.computed_as, .type = ScalarType::d, .vectors = vectors, .u = job, .vt = job};
        call.m = call.n = call.k = n;
        const double bound = static_cast<double>(volume_of_small(SmallCallPlaces::of(row.routine, false), n));
        EXPECT_LE(flops_of(call) / 2, bound) << name_of(call);
      }
    }
  }
}

}  // namespace small_lapack_call_test
}  // namespace tessera::lapack
