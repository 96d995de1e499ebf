// The work of calls of all families.
#include "offload/work.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/offload/batches.hpp"

namespace tessera::offload {
namespace work_test {

using test::cubes;
using test::systems;
using enum Routine;

Work square(Routine routine, index_t n, index_t nrhs = 0, ScalarType type = ScalarType::d) {
  return work_of(LapackCall{.routine = routine, .type = type, .m = n, .n = n, .k = nrhs, .lda = n, .ldb = n});
}

TEST(WorkOf, ACallOfLapack) {
  const double n = 1000;
  EXPECT_DOUBLE_EQ(square(getrf, 1000).up, 8 * n * n);
  EXPECT_DOUBLE_EQ(square(getrf, 1000).down, 8 * n * n + 8 * n);  // with pivots of 64 bits
  EXPECT_DOUBLE_EQ(square(potrf, 1000, 0, ScalarType::z).up, 16 * n * (n + 1) / 2);
  EXPECT_DOUBLE_EQ(square(getrs, 1000, 10).up, 8 * (n * n + 10 * n) + 8 * n);
  EXPECT_DOUBLE_EQ(square(getrs, 1000, 10).down, 8 * 10 * n);
  EXPECT_EQ(square(getrs, 1000, 10).beside_s, 0);
  EXPECT_DOUBLE_EQ(work_of(LapackCall{.routine = geqrf, .m = 70, .n = 1000}).beside_s, 70 * 9e-6);
  EXPECT_DOUBLE_EQ(work_of(LapackCall{.routine = gelqf, .m = 70, .n = 1000}).beside_s, 70 * 9e-6);
  // A product of as much arithmetic: half of a real call's operations, whatever the type.
  EXPECT_EQ(square(potrf, 600).volume, 600 * 600 * 100);
  EXPECT_EQ(square(potrf, 600, 0, ScalarType::c).volume, 600 * 600 * 100);
  EXPECT_EQ(square(getrf, index_t{1} << 31).volume, std::numeric_limits<index_t>::max());
}

TEST(WorkOf, AProblemThatADeviceSolvesWhole) {
  LapackCall eigen{.routine = Routine::heevd, .type = ScalarType::d, .vectors = true, .m = 1000, .n = 1000};
  const Work work = work_of(eigen);
  EXPECT_EQ(work.routine, Routine::heevd);
  EXPECT_DOUBLE_EQ(work.up, 8 * 1000 * 1001 / 2);
  EXPECT_DOUBLE_EQ(work.down, 8 * (1000 * 1000 + 1000));
  EXPECT_LT(work.part_of_rate, 0.1);
  // Half of a real problem's operations, whatever the type.
  eigen.type = ScalarType::c;
  EXPECT_EQ(work_of(eigen).volume, work.volume);
}

TEST(WorkOf, ABatchCountsSharedOperandsOnce) {
  const GemmBatch batch = cubes(10, 5, 1);
  const Work work = work_of(batch, 0, batch.size());
  EXPECT_EQ(work.problems, 5);
  EXPECT_EQ(work.forms, 1);
  EXPECT_EQ(work.volume, 5000);
  EXPECT_EQ(work.mean_volume(), 1000);
  EXPECT_EQ(work.flops, 10000);
  EXPECT_EQ(work.up, 8 * (5 * 100 + 100 + 5 * 100)) << "one B for all";
  EXPECT_EQ(work.down, 8 * 500);
  EXPECT_EQ(work_of(batch, 1, 3).problems, 2);
}

TEST(WorkOf, ABatchOfLapack) {
  const LapackProblems both = systems(Routine::gesv, 12, 2, 10);
  const Work work = work_of(both, 0, both.size());
  EXPECT_EQ(work.problems, 10);
  EXPECT_EQ(work.routine, Routine::gesv);
  EXPECT_NEAR(work.flops, 10 * (2.0 / 3 * 12 * 12 * 12 + 2 * 12 * 12 * 2), 1e-6);
  EXPECT_EQ(work.volume, 10 * 864) << "half of the operations";
  EXPECT_EQ(work.mean_order(), 12);
  EXPECT_EQ(work.up, 10 * 8 * (144 + 24));
  EXPECT_EQ(work.down, 10 * (8 * (144 + 24) + 4 * 12));
  const LapackProblems solve = systems(Routine::getrs, 12, 2, 10);
  EXPECT_EQ(work_of(solve, 0, 10).up, 10 * (8 * (144 + 24) + 4 * 12));
  EXPECT_EQ(work_of(solve, 0, 10).down, 10 * 8 * 24);
}

}  // namespace work_test
}  // namespace tessera::offload
