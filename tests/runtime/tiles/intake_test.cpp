// A worker takes tasks that are at home first, the nearest of them before others. Tasks of other devices come last.
// It takes no more than there is room for.
#include "runtime/tiles/intake.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace intake_test {

using test::DeclaredGraph;
using test::DeclaredTask;
using test::ManualJob;
using test::numbered_tile;
using test::product;

constexpr auto no_refill = [] { return false; };

/// Tasks of one product each, of tiles that no other task reads. @param homes of the tasks
std::vector<DeclaredTask> tasks_at(const std::vector<index_t>& homes) {
  std::vector<DeclaredTask> tasks;
  for (const index_t home : homes) {
    const auto number = 2 * static_cast<index_t>(tasks.size());
    tasks.push_back({.steps = {product(number + 1, number + 2)}, .home = home});
  }
  return tasks;
}

TaskId take(ManualJob& job, std::size_t d = 0) {
  Intake& intake = job.workers[d].intake;
  intake.fill(*job.pool);
  const auto taken = intake.take(*job.pool, true, no_refill);
  return taken ? taken->task : no_task;
}

void bring(ManualJob& job, const HostTile& tile) {
  job.cache->release(job.cache->pin(0, tile));
  job.device().finish_all();
}

TEST(Intake, FillsTheStationWithItsOwnTasksAndNoMoreThanItsLanesNeed) {
  const DeclaredGraph graph(tasks_at(std::vector<index_t>(20, 1)));
  ManualJob job(graph, {.slots = {100, 100}});
  job.workers[0].intake.begin(*job.pool, 2);
  job.workers[1].intake.begin(*job.pool, 2);
  EXPECT_FALSE(job.workers[0].intake.fill(*job.pool));
  EXPECT_EQ(job.pool->station(0).size(), 0U);
  EXPECT_TRUE(job.workers[1].intake.fill(*job.pool));
  EXPECT_EQ(job.pool->station(1).size(), 2 * Intake::station_tasks_per_lane);
  EXPECT_FALSE(job.workers[1].intake.fill(*job.pool));
}

TEST(Intake, PrefersTasksWhoseTilesAreNear) {
  const DeclaredGraph graph(tasks_at({0, 0, 0, 0, 0}));
  ManualJob job(graph, {.slots = {100, 100}});
  // One tile of task 3 is on a peer, one of task 1 is here, and both tiles of task 4 are here.
  job.cache->release(job.cache->pin(1, numbered_tile(7)));
  for (const index_t number : {3, 9, 10}) bring(job, numbered_tile(number));
  job.worker().intake.begin(*job.pool, 4);
  job.worker().intake.fill(*job.pool);
  EXPECT_EQ(job.pool->station(0).ordered(), (std::vector<TaskId>{4, 1, 3, 0, 2}));
  EXPECT_EQ(take(job), 4);
}

// A task that was taken has had its tiles fetched, which others may read.
TEST(Intake, LooksAgainAtWhatIsNearWhenATaskWasTaken) {
  const DeclaredGraph graph(tasks_at({0, 0, 0, 0}));
  ManualJob job(graph, {});
  job.worker().intake.begin(*job.pool, 4);
  EXPECT_EQ(take(job), 0);
  bring(job, numbered_tile(7));
  EXPECT_FALSE(job.worker().intake.fill(*job.pool));
  EXPECT_EQ(job.pool->station(0).ordered(), (std::vector<TaskId>{3, 1, 2}));
}

TEST(Intake, TakesTasksThatDependOnEachOtherInTheirOrder) {
  std::vector<DeclaredTask> tasks = tasks_at({0, 0, 0});
  tasks.push_back({.steps = {test::product_by_output(0, 1)}});
  const DeclaredGraph graph(tasks);
  ASSERT_TRUE(graph.ordered);
  ManualJob job(graph, {});
  bring(job, numbered_tile(5));
  job.worker().intake.begin(*job.pool, 4);
  for (TaskId task = 0; task < 4; ++task) EXPECT_EQ(take(job), task);
}

// Of nine slots two lanes need two for the inputs of each. Ordered graphs leave a lane's slots to each output.
TEST(Intake, LeavesRoomForInputs) {
  std::vector<DeclaredTask> tasks = tasks_at(std::vector<index_t>(12, 0));
  tasks.push_back({.steps = {test::product_by_output(0, 1)}});
  const DeclaredGraph ordered(tasks);
  const DeclaredGraph grouped(tasks_at(std::vector<index_t>(12, 0)), {12});
  const DeclaredGraph free(tasks_at(std::vector<index_t>(12, 0)));
  const auto taken_at_once = [](const DeclaredGraph& graph) {
    ManualJob job(graph, {.slots = {9}});
    Intake& intake = job.worker().intake;
    intake.begin(*job.pool, 2);
    const auto fill = [&] { return graph.grouped() ? intake.draw_group(*job.pool, false) : intake.fill(*job.pool); };
    index_t taken = 0;
    for (fill(); intake.take(*job.pool, true, no_refill); fill()) ++taken;
    EXPECT_EQ(intake.outputs(), taken);
    intake.finished(1);
    EXPECT_EQ(intake.take(*job.pool, true, no_refill).has_value(), taken < 12);
    return taken;
  };
  EXPECT_EQ(taken_at_once(ordered), 9 / LaneSlots::slots);
  EXPECT_EQ(taken_at_once(grouped), 9 - 2 * LaneSlots::inputs);
  EXPECT_EQ(taken_at_once(free), 12);  // where outputs leave one by one
}

TEST(Intake, StealsFromTheNextQueueBeforeStations) {
  const DeclaredGraph graph(tasks_at({1, 1, 1, 1, 1, 2, 2}));
  ManualJob job(graph, {.slots = {100, 100, 100}});
  job.workers[1].intake.begin(*job.pool, 1);
  job.workers[1].intake.fill(*job.pool);  // four of five: the last one is in the queue
  Intake& intake = job.worker().intake;
  intake.begin(*job.pool, 1);
  EXPECT_FALSE(intake.take(*job.pool, false, no_refill));
  const double flops = graph.of(0).flops;
  // It computes at once what it takes, and of what the owner would take, the worst one first.
  for (const TaskId task : {4, 5, 6, 3, 2, 1, 0}) {
    EXPECT_EQ(take(job), task);
    job.pool->complete(0, flops, flops);
  }
  EXPECT_EQ(intake.stolen(), 7);
  EXPECT_EQ(take(job), no_task);
}

// The owner has two lanes, and takes two tasks as soon as it can.
TEST(Intake, StealsNothingThatTheOwnerIsAboutToTake) {
  std::vector<DeclaredTask> tasks = tasks_at({1, 1, 1, 1});
  tasks.push_back({.steps = {test::product_by_output(0, 1)}, .home = 1});
  const DeclaredGraph graph(tasks);  // ordered: no device leaves a task to a faster one
  ManualJob job(graph, {.slots = {100, 100}});
  job.worker().intake.begin(*job.pool, 2);
  job.workers[1].intake.begin(*job.pool, 2);
  job.workers[1].intake.fill(*job.pool);
  for (const TaskId task : {4, 3, 2}) EXPECT_EQ(take(job), task);
  EXPECT_EQ(take(job), no_task);
  for (const TaskId task : {0, 1}) EXPECT_EQ(take(job, 1), task);
}

// It has a lane, and takes the first of two tasks. The queue still has both.
TEST(Intake, StealsNoTaskInAQueueThatTheOwnerIsAboutToTake) {
  const DeclaredGraph graph(tasks_at({1, 1}));
  ManualJob job(graph, {.slots = {100, 100}});
  job.worker().intake.begin(*job.pool, 2);
  job.workers[1].intake.begin(*job.pool, 1);
  EXPECT_EQ(take(job), 0);
  EXPECT_EQ(take(job), no_task);
  EXPECT_EQ(take(job, 1), 1);
}

// The device has reserved one of its own tasks. It steals two, and still takes that one.
TEST(Intake, StolenTasksTakeNothingFromWhatIsReserved) {
  const DeclaredGraph graph(tasks_at({0, 0, 1, 1}));
  ManualJob job(graph, {.slots = {100, 100}});
  job.worker().intake.begin(*job.pool, 1);
  Intake& intake = job.worker().intake;
  for (int task = 0; task < 2; ++task) ASSERT_TRUE(intake.take(*job.pool, true, no_refill));  // its station is empty
  EXPECT_EQ(intake.stolen(), 2);
  job.workers[1].intake.begin(*job.pool, 1);
  EXPECT_EQ(take(job, 1), 0);
  EXPECT_EQ(take(job, 1), no_task);
}

// The owner is a hundred times as fast, and has nothing to do but these tasks.
TEST(Intake, StealsNothingThatAFasterDeviceEndsSooner) {
  const DeclaredGraph graph(tasks_at({1, 1}));
  for (const bool in_station : {false, true}) {
    ManualJob job(graph, {.slots = {100, 100}});
    for (const std::size_t d : {0, 1}) {
      job.workers[d].intake.begin(*job.pool, 1);
      job.pool->complete(d, 0, d == 0 ? 1 : 100);
    }
    if (in_station) job.workers[1].intake.fill(*job.pool);
    EXPECT_EQ(take(job), no_task);
    job.pool->take(1, 1000 * graph.of(0).flops);  // it has much to do now
    EXPECT_NE(take(job), no_task);
  }
}

// Groups are stolen task by task, from the station of their owner.
TEST(Intake, StealsOfGroupsWhatIsInStations) {
  const DeclaredGraph graph(tasks_at({0, 0, 0, 0}), {2, 4});
  ManualJob job(graph, {.slots = {100, 100}});
  job.worker().intake.begin(*job.pool, 2);
  job.workers[1].intake.begin(*job.pool, 2);
  job.worker().intake.draw_group(*job.pool, false);
  Intake& intake = job.workers[1].intake;
  const auto stolen = intake.take(*job.pool, true, no_refill);
  ASSERT_TRUE(stolen);
  EXPECT_EQ(stolen->task, 1);
  EXPECT_TRUE(intake.take(*job.pool, true, no_refill));
  EXPECT_FALSE(intake.take(*job.pool, true, no_refill));
  EXPECT_EQ(job.pool->draw_group(false), (std::vector<TaskId>{2, 3}));
}

TEST(Intake, StealsFromTheStationWithMostWork) {
  std::vector<DeclaredTask> tasks = tasks_at({1, 2, 2});
  const DeclaredGraph graph(tasks);
  ManualJob job(graph, {.slots = {100, 100, 100}});
  for (const std::size_t d : {1, 2}) {
    job.workers[d].intake.begin(*job.pool, 1);
    job.workers[d].intake.fill(*job.pool);
    job.pool->complete(d, 0, 1);  // from now on nothing is reserved
  }
  EXPECT_EQ(take(job), 2);
  EXPECT_EQ(job.worker().intake.stolen(), 1);
}

TEST(Intake, CountsTheTasksThatItTakes) {
  std::vector<DeclaredTask> tasks = tasks_at({0, 0});
  tasks[1].steps.push_back(product(1, 2));
  tasks[1].first_wave = 3;
  const DeclaredGraph graph(tasks);
  ManualJob job(graph, {});
  Intake& intake = job.worker().intake;
  intake.begin(*job.pool, 1);
  EXPECT_FALSE(intake.take(*job.pool, true, [&] { return intake.fill(*job.pool); }));  // of what came, the next time
  const auto first = intake.take(*job.pool, true, no_refill);
  const auto second = intake.take(*job.pool, true, no_refill);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->number + 1, second->number);
  EXPECT_EQ(second->steps, 2);
  EXPECT_EQ(second->wave, 3);
}

// A group is taken whole: its tasks are in the station and in no queue.
TEST(Intake, DrawsOneGroupAfterTheOther) {
  const DeclaredGraph graph(tasks_at({0, 0, 0, 0, 0}), {2, 5});
  ManualJob job(graph, {});
  Intake& intake = job.worker().intake;
  intake.begin(*job.pool, 4);
  EXPECT_TRUE(intake.draw_group(*job.pool, false));
  EXPECT_EQ(job.pool->station(0).ordered(), (std::vector<TaskId>{0, 1}));
  EXPECT_TRUE(intake.draw_group(*job.pool, false));
  EXPECT_EQ(job.pool->station(0).size(), 5U);
  EXPECT_FALSE(intake.draw_group(*job.pool, false));
}

}  // namespace intake_test
}  // namespace tessera::runtime
