// The speeds that are learnt of the CPU's LAPACK and of batches.
#include "offload/routine_speed.hpp"

#include <gtest/gtest.h>

#include "offload/work.hpp"
#include "tests/offload/batches.hpp"

namespace tessera::offload {
namespace routine_speed_test {

using test::cubes;
using test::systems;
using enum Routine;

Work square(Routine routine, index_t n, index_t nrhs = 0, ScalarType type = ScalarType::d) {
  return work_of(LapackCall{.routine = routine, .type = type, .m = n, .n = n, .k = nrhs, .lda = n, .ldb = n});
}

TEST(RoutineSpeeds, RatesAreThoseOfTheRoutine) {
  RoutineSpeed speed;
  const LapackProblems batch = systems(Routine::potrf, 32, 0, 100);
  const Work work = work_of(batch, 0, batch.size());
  speed.record(work, 1e-3, 1);
  EXPECT_TRUE(speed.knows(work));
  EXPECT_TRUE(speed.knows_any(work));
  Work other = work;
  other.routine = Routine::getrf;
  EXPECT_FALSE(speed.knows_any(other));
  other = {.of = Work::Of::lapack, .routine = Routine::potrf};
  EXPECT_FALSE(speed.knows_any(other)) << "a single call";
}

TEST(RoutineSpeeds, AreKeptByTypeVolumeAndIntensity) {
  const GemmBatch small = cubes(8, 100), large = cubes(200, 100), thin = cubes(181, 100, 0, 1);
  const auto work = [](const GemmBatch& batch) { return work_of(batch, 0, batch.size()); };
  RoutineSpeed speed;
  speed.record(work(small), 1, 1);
  EXPECT_TRUE(speed.knows(work(small)));
  Work single = work(small);
  EXPECT_TRUE(speed.knows_any(single));
  single.type = ScalarType::s;
  EXPECT_FALSE(speed.knows_any(single));
  EXPECT_FALSE(speed.knows(work(large)));
  EXPECT_FALSE(speed.knows(work(thin)));
  // Up by a half, down by an eighth.
  speed.record(work(small), 0.5, 1);
  EXPECT_NEAR(speed.estimate(work(small), 1)->expected_s, 1 / 1.5, 1e-5);
  speed.record(work(small), 1e9, 1);
  EXPECT_NEAR(speed.estimate(work(small), 1)->expected_s, 1 / (1.5 * 7 / 8), 1e-5);
  // On more threads it takes less.
  EXPECT_NEAR(speed.estimate(work(small), 4)->expected_s, speed.estimate(work(small), 1)->expected_s / 4, 1e-5);
  for (int i = 0; i < LearntRate::lifetime; ++i) {
    EXPECT_TRUE(speed.knows(work(small)));
    speed.passed_over(work(small));
  }
  EXPECT_FALSE(speed.knows(work(small))) << "to be measured anew";
}

TEST(RoutineSpeeds, TheRateOfTheCpuIsLearntBySize) {
  RoutineSpeed speed;
  const Work large = square(getrf, 4000), small = square(getrf, 1000);
  EXPECT_FALSE(speed.estimate(large, 1));
  speed.record(large, 2.0, 1);
  ASSERT_TRUE(speed.estimate(large, 1));
  EXPECT_NEAR(speed.estimate(large, 1)->expected_s, 2.0, 1e-6);
  EXPECT_NEAR(speed.estimate(large, 1)->least_s, 2.0, 1e-6);
  // Another class is in doubt; another routine or type is not known at all.
  ASSERT_TRUE(speed.estimate(small, 1));
  EXPECT_NEAR(speed.estimate(small, 1)->expected_s, 2.0 / 64, 1e-6);
  EXPECT_LT(speed.estimate(small, 1)->least_s, speed.estimate(small, 1)->expected_s);
  EXPECT_GT(speed.estimate(small, 1)->most_s, speed.estimate(small, 1)->expected_s);
  EXPECT_FALSE(speed.estimate(square(geqrf, 4000), 1));
  EXPECT_FALSE(speed.estimate(square(getrf, 4000, 0, ScalarType::s), 1));
  // Half of the way up, an eighth of the way down.
  speed.record(large, 1.0, 1);
  EXPECT_NEAR(speed.estimate(large, 1)->expected_s, 2.0 / 1.5, 1e-6);
  for (int call = 0; call < LearntRate::lifetime; ++call) speed.passed_over(large);
  EXPECT_FALSE(speed.estimate(large, 1));
}

}  // namespace routine_speed_test
}  // namespace tessera::offload
