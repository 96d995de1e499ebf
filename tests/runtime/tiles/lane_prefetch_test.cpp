// The order where memory suffices, between two steps: tiles of tasks in the station and old values are fetched, and old
// values of outputs are kept.
#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/tiles/order_job.hpp"

namespace tessera::runtime {
namespace lane_prefetch_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::DeclaredTask;
using test::LaneJob;
using test::long_s;
using test::numbered_tile;
using test::output_of;
using test::product;
using test::product_by_output;
using test::separate_tasks;
using test::tiles_of;

TEST(LanePrefetch, BringsTheTilesOfTasksInTheStation) {
  const DeclaredGraph graph(separate_tasks({2, 1}));
  LaneJob job(graph, 1);
  EXPECT_TRUE(job.prefetch());
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(job.pinned(), 0);
  EXPECT_FALSE(job.prefetch());
}

TEST(LanePrefetch, WaitsForTheLink) {
  const DeclaredGraph graph(separate_tasks({1}));
  LaneJob job(graph, 1);
  const index_t queue = job.device().said().profile.link_queue_bytes;
  job.fill_link();
  EXPECT_FALSE(job.prefetch());
  EXPECT_TRUE(job.fetched().empty());
  job.device().said().profile.link_queue_bytes = queue;
  EXPECT_TRUE(job.prefetch());
}

// The result of another task is not in host memory yet.
TEST(LanePrefetch, LeavesOutResultsOfOtherTasks) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
  tasks[1].steps = {product_by_output(0, 900)};
  const DeclaredGraph graph(tasks);
  LaneJob job(graph, 1, {}, 1);
  EXPECT_TRUE(job.prefetch());
  EXPECT_EQ(job.fetched(), (std::vector<const void*>{numbered_tile(900).address}));
}

// A lane may ask for an output and two operands at any moment.
TEST(LanePrefetch, LeavesRoomForLanesAndWriteBacks) {
  const DeclaredGraph graph(separate_tasks({4}));
  for (const std::size_t lanes : {1, 2}) {
    LaneJob job(graph, lanes, {.slots = {7}});
    job.prefetch();
    EXPECT_EQ(static_cast<index_t>(job.fetched().size()), 7 - LaneSlots::slots * static_cast<index_t>(lanes));
  }
  LaneJob job(graph, 1, {.slots = {7}});
  job.worker().results.add(*job.pool, {job.cache->acquire_output(0, output_of(1), false), 0});
  job.worker().results.retire(*job.pool);
  ASSERT_EQ(job.worker().results.writing(), 1U);
  job.prefetch();
  EXPECT_EQ(job.fetched().size(), 7U - 1 - 1 - LaneSlots::slots);  // its slot, and one more
  job.device().finish_all(StreamKind::down);
  job.worker().results.retire(*job.pool);
  job.prefetch();
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}, {0, 1}}));
}

// Task 0 has an output, and its product has been asked for.
TEST(LanePrefetch, BringsOldValuesThatAreAddedLastBeforeTilesOfOtherTasks) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
  tasks[0].reads_old = true;
  const DeclaredGraph graph(tasks);
  LaneJob job(graph, 1, {.product_s = long_s});
  job.submit();
  ASSERT_EQ(job.taken(), 1);
  EXPECT_TRUE(job.prefetch());
  const auto others = tiles_of({{1, 0}});
  std::vector<const void*> expected = tiles_of({{0, 0}});
  expected.push_back(output_of(0).address);
  expected.insert(expected.end(), others.begin(), others.end());
  EXPECT_EQ(job.fetched(), expected);
}

TEST(LanePrefetch, BringsNoOldValueThatNobodyReads) {
  const DeclaredGraph graph(separate_tasks({1, 1}));
  LaneJob job(graph, 1, {.product_s = long_s});
  job.submit();
  job.prefetch();
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}, {1, 0}}));
}

TEST(LanePrefetch, BringsNothingElseWhileAnOldValueWaitsForTheLink) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
  tasks[0].reads_old = true;
  const DeclaredGraph graph(tasks);
  LaneJob job(graph, 1, {.product_s = long_s});
  job.submit();
  job.fill_link();
  EXPECT_FALSE(job.prefetch());
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}}));
}

// The old value of a task that has begun goes to a peer as soon as it has come.
TEST(LanePrefetch, KeepsOldValuesOfTasksThatHaveBegun) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  LaneJob job(graph, 1, {.slots = {100, 100}, .old_values = OldValuesPlace::peers, .product_s = long_s});
  job.submit();
  job.prefetch();
  EXPECT_TRUE(job.device().work(StreamKind::to_peer).empty());
  job.device().finish_all(StreamKind::up);
  job.prefetch();
  EXPECT_EQ(job.device().work(StreamKind::to_peer).size(), 1U);
}

}  // namespace lane_prefetch_test
}  // namespace tessera::runtime
