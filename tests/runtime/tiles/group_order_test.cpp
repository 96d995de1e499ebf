// The order where memory is short: tasks of a group take turns, the next group is taken in time, and the cache learns
// when each tile is read again.
#include "runtime/tiles/group_order.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/tiles/order_job.hpp"

namespace tessera::runtime {
namespace group_order_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::DeclaredTask;
using test::GroupJob;
using test::numbered_tile;
using test::output_of;
using test::product;
using test::product_by_output;
using test::separate_tasks;
using test::tiles_of;

using Tasks = std::vector<TaskId>;

/// All that has been submitted ends, and makes room for more.
void end_all(GroupJob& job) {
  for (bool progress = true; progress;) {
    progress = job.device().finish_all();
    progress |= job.retire();
  }
}
index_t next_use(const GroupJob& job, const HostTile& tile) { return job.cache->directory().find(0, tile)->next_use; }

// -- turns --

TEST(GroupOrder, TasksTakeTurnsOverAllLanes) {
  const DeclaredGraph graph(separate_tasks({2, 2, 2}), {3});
  GroupJob job(graph, 2);
  job.submit_all();
  EXPECT_EQ(job.launched(), (Tasks{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(job.streams(), (std::vector<int>{0, 1, 0, 0, 1, 0}));
}

TEST(GroupOrder, TasksJoinInTheWaveInWhichTheyBegin) {
  const auto launched = [](const std::vector<index_t>& first_waves) {
    std::vector<DeclaredTask> tasks = separate_tasks({2, 2});
    for (std::size_t task = 0; task < 2; ++task) tasks[task].first_wave = first_waves[task];
    const DeclaredGraph graph(tasks, {2});
    GroupJob job(graph, 2);
    job.submit_all();
    return job.launched();
  };
  EXPECT_EQ(launched({7, 7}), (Tasks{0, 1, 0, 1}));
  EXPECT_EQ(launched({7, 9}), (Tasks{0, 0, 1, 1}));
  EXPECT_EQ(launched({8, 7}), (Tasks{1, 0, 1, 0}));
}

// The second task does not pass the first one, whose stream is full.
TEST(GroupOrder, StreamsHaveOnlySoManyKernelsAndNobodyPasses) {
  const DeclaredGraph graph(separate_tasks({6, 6}), {2});
  GroupJob job(graph, 2);
  job.submit_all();
  EXPECT_EQ(job.device().kernels().size(), 2 * GroupOrder::run_ahead);
  job.device().finish_all(StreamKind::up);
  job.device().finish_kernel(1);
  job.retire();
  EXPECT_FALSE(job.submit());
  job.device().finish_kernel(0);
  job.retire();
  job.submit_all();
  EXPECT_EQ(job.device().kernels().size(), 2 * GroupOrder::run_ahead + 2);
}

TEST(GroupOrder, AStepWhoseOperandIsComputedLetsOthersPass) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1, 1});
  tasks[1].steps = {product_by_output(0, 900)};
  const DeclaredGraph graph(tasks, {3});
  GroupJob job(graph, 2);
  job.submit_all();
  EXPECT_EQ(job.launched(), (Tasks{0, 2}));
  job.device().finish_all();
  job.retire();  // publishes the result
  job.submit_all();
  EXPECT_EQ(job.launched(), (Tasks{0, 2, 1}));
}

TEST(GroupOrder, FactorizationsHaveTheHighestRank) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
  tasks[1] = {.steps = {test::factorization(0)}, .reads_old = true};
  const DeclaredGraph graph(tasks, {2});
  GroupJob job(graph, 2);
  job.submit_all();
  EXPECT_EQ(job.names(), (std::vector<std::string>{"gemm", "factor"}));
  EXPECT_EQ(job.streams(), (std::vector<int>{0, 0}));
}

TEST(GroupOrder, LetsGoOfTasksThatABreakdownLeavesOut) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
  tasks[1].steps = {product_by_output(0, 900)};
  const DeclaredGraph graph(tasks, {2});
  GroupJob job(graph, 1);
  job.submit_all();
  EXPECT_EQ(job.taken(), 2);
  job.pool->break_down({0, 1});
  job.submit();
  EXPECT_EQ(job.taken(), 1);
}

// -- groups --

TEST(GroupOrder, DrawsAGroupWhereThereIsNothingToDo) {
  const DeclaredGraph graph(separate_tasks({1, 1, 1, 1, 1, 1}), {2, 4, 6});
  GroupJob job(graph, 1);
  EXPECT_TRUE(job.refill());
  EXPECT_EQ(job.pool->station(0).size(), 2U);
  EXPECT_FALSE(job.refill());  // the station has some
  ASSERT_TRUE(job.submit());
  EXPECT_EQ(job.taken(), 2);
  EXPECT_EQ(job.pool->station(0).size(), 2U);  // the next group
  for (TaskId task = 2; task < 4; ++task) {
    job.pool->station(0).take_best([](const StationEntry&) { return true; });
  }
  EXPECT_FALSE(job.refill());  // a group is worked on
}

TEST(GroupOrder, OneGroupComesAfterTheOther) {
  const DeclaredGraph graph(separate_tasks({2, 2, 2, 2, 1, 1}), {2, 4, 6});
  GroupJob job(graph, 4);
  std::vector<index_t> taken;
  while (job.submit()) {
    taken.push_back(job.taken());
    job.device().finish_all(StreamKind::up);
    job.device().finish_all(StreamKind::compute);
    job.retire();
  }
  EXPECT_EQ(job.launched(), (Tasks{0, 1, 0, 1, 2, 3, 2, 3, 4, 5}));
  // The second one is taken early, the third one when the first has been submitted.
  EXPECT_EQ(taken, (std::vector<index_t>{2, 4, 4, 4, 6, 6, 6, 6, 6, 6}));
}

// Two tasks of 20 steps: 40 positions, of which it looks 32 ahead.
TEST(GroupOrder, TakesTheNextGroupWhenTheEndOfThisOneIsInSight) {
  const DeclaredGraph graph(separate_tasks({20, 20, 1, 1}), {2, 4});
  GroupJob job(graph, 2);
  std::size_t kernels = 0;
  for (; job.taken() < 4 && kernels < 40; ++kernels) {
    ASSERT_TRUE(job.submit());
    job.device().finish_all();
    job.retire();
  }
  EXPECT_EQ(kernels, 9U);  // with the one at position 8
}

// Memory has room for three or four outputs beside the operands of two lanes.
TEST(GroupOrder, TakesTheNextGroupOnlyWhereItsOutputsHaveRoom) {
  const DeclaredGraph graph(separate_tasks({2, 2, 1, 1}), {2, 4});
  for (const index_t outputs : {3, 4}) {
    GroupJob job(graph, 2, {.slots = {outputs + 2 * LaneSlots::inputs}});
    job.submit();
    EXPECT_EQ(job.taken(), 2);
    job.submit();
    EXPECT_EQ(job.taken(), outputs == 3 ? 2 : 4);
    while (job.launched().size() < 6) {
      end_all(job);
      ASSERT_TRUE(job.submit());
    }
  }
}

/// The second device has no group of its own. Both are idle, and as fast as each other.
struct StealingJob : GroupJob {
  StealingJob(const TaskGraph& graph, std::size_t lanes) : GroupJob(graph, lanes, {.slots = {100, 100}}, 0, 1) {
    workers[0].intake.draw_group(*pool, false);
    for (const std::size_t d : {0, 1}) pool->complete(d, 0, 1);
  }
};

// Of six tasks that nobody has begun, three are its share. In ordered graphs it takes one for each lane.
TEST(GroupOrder, StealsItsShareAndTakesItInOrder) {
  const DeclaredGraph free(separate_tasks(std::vector<index_t>(6, 1)), {6});
  std::vector<DeclaredTask> tasks = separate_tasks(std::vector<index_t>(6, 1));
  tasks[5].steps.push_back(product_by_output(0, 900));
  const DeclaredGraph ordered(tasks, {6});
  for (const DeclaredGraph* graph : {&free, &ordered}) {
    StealingJob job(*graph, 2);
    job.submit();
    EXPECT_EQ(job.taken(), graph->ordered ? 2 : 3);
    EXPECT_EQ(job.pool->station(0).ordered(), graph->ordered ? (Tasks{0, 1, 2, 3}) : (Tasks{0, 1, 2}));
    job.submit();
    EXPECT_EQ(job.launched(), graph->ordered ? (Tasks{4, 5}) : (Tasks{3, 4}));
  }
}

TEST(GroupOrder, StealsNothingBesideAGroupOfItsOwn) {
  const DeclaredGraph graph(separate_tasks(std::vector<index_t>(6, 1)), {2, 6});
  GroupJob job(graph, 2, {.slots = {100, 100}}, 0, 1);
  job.refill();
  job.workers[0].intake.draw_group(*job.pool, false);
  for (int submissions = 0; submissions < 2; ++submissions) {
    ASSERT_TRUE(job.submit());
    EXPECT_EQ(job.taken(), 2);
  }
}

// -- what the cache learns --

// Tile 900 is read by both tasks in the first wave, and by the first one in the third.
TEST(GroupOrder, TellsTheCacheWhenTilesAreReadAgain) {
  std::vector<DeclaredTask> tasks = separate_tasks({3, 3, 1});
  for (const auto& [task, l] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 2}, {2, 0}})
    tasks[task].steps[l].a.tile = numbered_tile(900);
  const DeclaredGraph graph(tasks, {2, 3});
  GroupJob job(graph, 1);
  job.bring(numbered_tile(900));
  const std::vector<index_t> uses = {1, 4, 4, 4, 6};
  for (const index_t use : uses) {
    ASSERT_TRUE(job.submit());
    job.device().finish_all();
    job.retire();
    EXPECT_EQ(next_use(job, numbered_tile(900)), use);
  }
}

// A tile that the device has from before counts as well.
TEST(GroupOrder, TellsTheCacheOfTilesThatAreHere) {
  std::vector<DeclaredTask> tasks = separate_tasks({4});
  tasks[0].steps[3].b.tile = numbered_tile(900);
  const DeclaredGraph graph(tasks, {1});
  GroupJob job(graph, 1);
  job.bring(numbered_tile(900));
  job.bring(numbered_tile(901));
  job.submit();
  EXPECT_EQ(next_use(job, numbered_tile(900)), 3);
  EXPECT_EQ(next_use(job, numbered_tile(901)), cache::never);
}

// Three tiles, all of which task 1 reads, and the output of task 0 fill the memory.
TEST(GroupOrder, WaitsForAResultToLeaveRatherThanEvictTilesThatAreReadSoon) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {product(1, 2), product(1, 3)}}}, {2});
  GroupJob job(graph, 1, {.slots = {4}});
  job.bring(numbered_tile(3));
  ASSERT_TRUE(job.submit());
  EXPECT_EQ(job.taken(), 2);
  job.device().finish_all(StreamKind::up);
  EXPECT_FALSE(job.submit());  // the kernel is under way
  job.device().finish_kernel(0);
  job.retire();
  ASSERT_EQ(job.worker().results.writing(), 1U);
  EXPECT_FALSE(job.submit());
  end_all(job);
  EXPECT_TRUE(job.submit());
  EXPECT_EQ(job.fetched().size(), 3U);
}

TEST(GroupOrder, EvictsTilesThatAreReadSoonWhereNoRoomWillCome) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(3, 4)}}}, {1});
  GroupJob job(graph, 1, {.slots = {3}});
  for (const index_t number : {1, 2, 3}) job.bring(numbered_tile(number));
  EXPECT_TRUE(job.submit());
  EXPECT_EQ(job.cache->locate(0, numbered_tile(3)), cache::Level::host);
  EXPECT_EQ(job.fetched().size(), 3U);  // and the tiles of the step itself stay
}

// -- prefetches --

TEST(GroupOrder, PrefetchesTheTilesOfTheStepsToCome) {
  const DeclaredGraph graph(separate_tasks({2, 2, 1}), {2, 3});
  GroupJob job(graph, 2);
  EXPECT_FALSE(job.prefetch());  // nothing has been taken
  job.submit();
  EXPECT_TRUE(job.prefetch());
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}}));
  EXPECT_FALSE(job.prefetch());
}

TEST(GroupOrder, PrefetchesOnlySoFarAhead) {
  DeclaredTask task;
  for (index_t l = 0; l < 40; ++l) task.steps.push_back(product(100 + 2 * l, 101 + 2 * l));
  const DeclaredGraph graph({task}, {1});
  GroupJob job(graph, 1, {.slots = {200}});
  job.submit();
  const std::size_t before = job.fetched().size();
  job.prefetch();
  EXPECT_EQ(job.fetched().size() - before, 2U * 2 * GroupOrder::run_ahead * device::compute_streams);
}

TEST(GroupOrder, PrefetchesOldValuesOfTasksThatBegin) {
  const DeclaredGraph graph(
      {{.steps = {product(1, 2)}, .reads_old = true}, {.steps = {product(3, 4)}, .reads_old = true}}, {2});
  GroupJob job(graph, 2);
  job.submit();
  EXPECT_TRUE(job.prefetch());
  EXPECT_EQ(job.fetched(),
            (std::vector<const void*>{output_of(0).address, numbered_tile(1).address, numbered_tile(2).address,
                                      output_of(1).address, numbered_tile(3).address, numbered_tile(4).address}));
  job.submit_all();
  EXPECT_EQ(job.fetched().size(), 6U);
}

TEST(GroupOrder, PrefetchesNothingThatIsStillComputed) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
  tasks[1].steps = {product_by_output(0, 900)};
  const DeclaredGraph graph(tasks, {2});
  GroupJob job(graph, 2);
  job.submit();
  job.prefetch();
  EXPECT_EQ(job.fetched().back(), numbered_tile(900).address);
  EXPECT_EQ(job.fetched().size(), 3U);
}

TEST(GroupOrder, PrefetchesNothingWhileTheLinkHasEnough) {
  for (const bool reads_old : {false, true}) {
    std::vector<DeclaredTask> tasks = separate_tasks({1, 1});
    tasks[1].reads_old = reads_old;
    const DeclaredGraph graph(tasks, {2});
    GroupJob job(graph, 2);
    job.submit();
    const std::size_t before = job.fetched().size();
    job.fill_link();
    EXPECT_FALSE(job.prefetch());
    EXPECT_EQ(job.fetched().size(), before);
  }
}

// There is room for two more tiles. The tiles of the first step are read again in the last one, after tiles 5 and 6.
// With one task, two positions ahead is near.
TEST(GroupOrder, OnlyATileThatIsReadAtOnceReplacesOneThatIsReadAgain) {
  const auto replaces = [](bool near) {
    DeclaredTask task{.steps = {product(1, 2), product(3, 4), product(5, 6), product(1, 2)}};
    if (!near) task.steps.insert(task.steps.begin() + 2, product(3, 4));
    const DeclaredGraph graph({task}, {1});
    GroupJob job(graph, 1, {.slots = {5}});
    job.submit();
    job.device().finish_all();
    job.retire();
    job.prefetch();
    EXPECT_EQ(job.cache->locate(0, numbered_tile(4)), cache::Level::l1);
    return job.cache->locate(0, numbered_tile(6)) == cache::Level::l1;
  };
  EXPECT_TRUE(replaces(true));
  EXPECT_FALSE(replaces(false));
}

}  // namespace group_order_test
}  // namespace tessera::runtime
