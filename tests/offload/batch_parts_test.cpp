// The parts into which a batch is taken apart.
#include "offload/batch_parts.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "tests/offload/batches.hpp"

namespace tessera::offload {
namespace batch_parts_test {

using test::cubes;
using test::systems;

TEST(BatchParts, ProductsThatAreWorthItAloneAreCallsOfTheirOwn) {
  const auto single = [](GemmBatch batch) { return take_single_calls(batch).size(); };
  EXPECT_EQ(single(cubes(405, 3)), 0u);
  EXPECT_EQ(single(cubes(407, 3)), 3u) << "a volume of 2^26";
  EXPECT_EQ(single(cubes(1400, 2, 0, 1)), 0u);
  EXPECT_EQ(single(cubes(1500, 2, 0, 1)), 2u) << "more than 16 MiB";
  EXPECT_EQ(single(cubes(4, 2, 3, 0)), 2u) << "C is only scaled";
  GemmBatch mixed = cubes(4, 5);
  mixed.problems[2].k = 0;
  EXPECT_EQ(take_single_calls(mixed).size(), 1u);
  EXPECT_EQ(mixed.size(), 4);
}

TEST(BatchParts, LargeProblemsAreDecidedApartAndVeryLargeOnesLeftToTheCpu) {
  LapackProblems all = systems(Routine::potrf, 100, 0, 3);
  for (const index_t n : {1440, 1460, 5700, 5900}) {
    all.problems.push_back(all.problems.front());
    all.problems.back().m = all.problems.back().n = n;
  }
  const BySize sizes = by_size(std::move(all));
  EXPECT_EQ(sizes.small.size(), 4);
  EXPECT_EQ(sizes.large.size(), 2);
  EXPECT_EQ(sizes.too_large.size(), 1);
  EXPECT_EQ(sizes.large.routine, Routine::potrf);
}

}  // namespace batch_parts_test
}  // namespace tessera::offload
