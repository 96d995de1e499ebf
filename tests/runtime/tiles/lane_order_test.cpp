// The order where memory suffices: how many tasks a lane takes, and when their steps are asked for. Launches are in
// lane_launch_test.cpp, prefetches in lane_prefetch_test.cpp.
#include "runtime/tiles/lane_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/runtime/tiles/order_job.hpp"

namespace tessera::runtime {
namespace lane_order_test {

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

constexpr device::StreamId up{StreamKind::up};

// -- tasks that lanes take --

TEST(LaneOrder, EachLaneTakesATaskAndAsksForOneStep) {
  const DeclaredGraph graph(separate_tasks({2, 2, 2, 2}));
  LaneJob job(graph, 3);
  EXPECT_TRUE(job.submit());
  EXPECT_EQ(job.taken(), 3);
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}, {1, 0}, {2, 0}}));
}

TEST(LaneOrder, ALaneHasOneTaskUnlessTasksAdvanceSideBySide) {
  const DeclaredGraph graph(separate_tasks(std::vector<index_t>(8, 1)));
  for (const bool side_by_side : {false, true}) {
    LaneJob job(graph, 1, {.side_by_side = side_by_side, .product_s = long_s});
    job.submit_all();  // nothing arrives
    EXPECT_EQ(job.taken(), side_by_side ? static_cast<index_t>(LaneOrder::tasks_per_lane) : 1);
  }
}

// Two kernels are launched, and a third step could be.
TEST(LaneOrder, ALaneTakesNoMoreTasksOnceTilesHaveCome) {
  const DeclaredGraph graph(separate_tasks({3, 1}));
  for (const bool comes : {false, true}) {
    LaneJob job(graph, 1, {.side_by_side = true, .product_s = long_s});
    for (int step = 0; step < 2; ++step) {
      job.submit();  // asks
      job.device().finish_all(StreamKind::up);
      job.submit();  // launches
    }
    job.submit();  // asks for the third step
    if (comes) job.device().finish_all(StreamKind::up);
    EXPECT_EQ(job.taken(), 1);
    job.submit();
    EXPECT_EQ(job.taken(), comes ? 1 : 2);
  }
}

// Kernels of four steps are in its stream, though their tasks have left the lane.
TEST(LaneOrder, ALaneThatHasEnoughKernelsTakesNoTask) {
  const DeclaredGraph graph(separate_tasks({LaneOrder::run_ahead, 1}));
  LaneJob job(graph, 1);
  job.submit_all();
  EXPECT_EQ(job.taken(), 1);
  EXPECT_EQ(job.device().kernels().size(), LaneOrder::run_ahead);
  job.device().finish_all(StreamKind::up);
  job.device().finish_kernel(0);
  job.retire();
  job.submit();
  EXPECT_EQ(job.taken(), 2);
}

/// Two steps of the first task have been launched, and the link has no time for the third one.
struct StarvingJob : LaneJob {
  StarvingJob(const TaskGraph& graph, std::vector<index_t> slots)
      : LaneJob(graph, 1, {.slots = std::move(slots), .side_by_side = true, .product_s = long_s}) {
    for (int step = 0; step < 2; ++step) {
      submit();  // asks
      device().finish_all(StreamKind::up);
      submit();  // launches
    }
    EXPECT_EQ(device().kernels().size(), 2U);
    fill_link();
  }
};

struct Starving {
  std::size_t left = LaneOrder::left_per_lane;  ///< tasks in the station
  int computed = 2;                             ///< steps
  std::vector<index_t> slots = {100};
  TaskId first_steps_last = 0;
};

bool takes_early(const Starving& starving) {
  std::vector<index_t> steps(starving.left, 1);
  steps.insert(steps.begin(), 3);
  DeclaredGraph graph(separate_tasks(steps));
  graph.first_steps_last = starving.first_steps_last;
  StarvingJob job(graph, starving.slots);
  for (int step = 0; step < starving.computed; ++step) job.device().finish_kernel(0);
  job.retire();
  job.submit();
  return job.taken() == 2;
}

TEST(LaneOrder, AStarvedDeviceTakesTasksEarlyWhereManyAreLeft) {
  EXPECT_TRUE(takes_early({}));
  EXPECT_FALSE(takes_early({.left = LaneOrder::left_per_lane - 1}));
  EXPECT_FALSE(takes_early({.computed = 1}));        // a product is under way
  EXPECT_FALSE(takes_early({.slots = {100, 100}}));  // others may be about to fetch the tiles
  EXPECT_FALSE(takes_early({.first_steps_last = 1}));
}

TEST(LaneOrder, ADeviceThatHasComputedNothingIsNotStarved) {
  const DeclaredGraph graph(separate_tasks({1, 1, 1}));
  LaneJob job(graph, 1, {.side_by_side = true});
  job.fill_link();
  job.submit_all();
  job.submit_all();
  EXPECT_EQ(job.taken(), 1);
}

// Task 1 waits for task 0, which is computed elsewhere.
TEST(LaneOrder, ALaneThatWaitsForResultsTakesTasksWhileTheLinkIsIdle) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1, 1});
  tasks[1].steps = {product_by_output(0, 0)};
  const DeclaredGraph graph(tasks);
  for (const bool idle : {true, false}) {
    LaneJob job(graph, 1, {.side_by_side = true, .product_s = long_s}, 1);
    job.submit();
    EXPECT_EQ(job.taken(), 1);
    if (!idle) {
      for (const index_t number : {900, 901}) job.cache->pin(0, numbered_tile(number));
    }
    job.submit();
    EXPECT_EQ(job.taken(), idle ? 2 : 1);
  }
}

// -- steps that they ask for --

TEST(LaneOrder, AsksOnlySoManyStepsAhead) {
  const DeclaredGraph graph(separate_tasks({10}));
  LaneJob job(graph, 1, {.product_s = long_s});
  job.submit_all();
  EXPECT_EQ(job.fetched().size(), 2 * LaneOrder::run_ahead);
  job.device().finish(up);
  job.device().finish(up);
  job.submit();  // launches the first one
  job.submit_all();
  EXPECT_EQ(job.fetched().size(), 2 * LaneOrder::run_ahead + 2);
}

TEST(LaneOrder, TasksSideBySideAdvanceWaveByWave) {
  const DeclaredGraph graph(separate_tasks({3, 3}));
  LaneJob job(graph, 1, {.side_by_side = true, .product_s = long_s});
  job.submit_all();
  EXPECT_EQ(job.fetched(), tiles_of({{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}));
}

// A peer has the tiles, so that the link plays no part.
TEST(LaneOrder, TasksSideBySideAdvanceWaveByWaveWithTilesOfPeers) {
  const DeclaredGraph graph(separate_tasks({3, 1}));
  LaneJob job(graph, 1, {.slots = {100, 100}, .side_by_side = true, .product_s = long_s});
  for (TaskId task = 0; task < 2; ++task) {
    for (index_t l = 0; l < graph.step_count(task); ++l) {
      const Step step = graph.step(task, l);
      for (const Read* read : {&step.a, &step.b}) job.cache->release(job.cache->pin(1, read->tile));
    }
  }
  job.devices[1].finish_all();
  job.submit();
  job.submit();
  const auto is_asked_for = [&](TaskId task, index_t l) {
    return job.cache->locate(0, graph.step(task, l).a.tile) == cache::Level::l1;
  };
  EXPECT_TRUE(is_asked_for(1, 0));
  EXPECT_FALSE(is_asked_for(0, 1));
  job.submit();
  EXPECT_TRUE(is_asked_for(0, 1));
}

// The second step of task 0 waits for nothing, so its result goes down early.
TEST(LaneOrder, TheOldestTaskWhoseTilesAreHereGoesFirst) {
  std::vector<DeclaredTask> tasks = separate_tasks({2, 1});
  tasks[0].steps[1] = product(900, 901);
  const DeclaredGraph graph(tasks);
  for (const bool both : {true, false}) {
    LaneJob job(graph, 1, {.side_by_side = true, .product_s = long_s});
    job.bring(numbered_tile(900));
    if (both) job.bring(numbered_tile(901));
    const std::size_t before = job.fetched().size();
    job.submit();
    job.submit();
    EXPECT_EQ(job.taken(), 2);
    EXPECT_EQ(job.fetched().size() - before, both ? 2U : 4U);
    job.submit();
    EXPECT_EQ(job.fetched().back(), both ? tiles_of({{1, 0}}).back() : numbered_tile(901).address);
  }
}

// Task 1 is far ahead.
TEST(LaneOrder, TasksSideBySideWaitForTheOneThatIsBehind) {
  std::vector<DeclaredTask> tasks = separate_tasks({2, 1});
  tasks[1].first_wave = 5;
  const DeclaredGraph graph(tasks);
  for (const bool side_by_side : {true, false}) {
    LaneJob job(graph, 2, {.side_by_side = side_by_side, .product_s = long_s});
    job.submit_all();
    EXPECT_EQ(job.fetched(), side_by_side ? tiles_of({{0, 0}, {0, 1}, {1, 0}}) : tiles_of({{0, 0}, {1, 0}, {0, 1}}));
  }
}

// The device that computes task 0 may wait for us.
TEST(LaneOrder, TasksSideBySideDoNotWaitForOneThatWaitsForAResult) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1, 1});
  tasks[1].steps = {product_by_output(0, 0), product(900, 901)};
  tasks[2].first_wave = 5;
  const DeclaredGraph graph(tasks);
  for (const bool is_published : {false, true}) {
    LaneJob job(graph, 2, {.side_by_side = true, .product_s = long_s}, 1);
    if (is_published) job.pool->publish(0);
    job.submit();
    EXPECT_EQ(job.taken(), 2);
    const auto fetched = job.fetched();
    EXPECT_EQ(std::count(fetched.begin(), fetched.end(), tiles_of({{2, 0}})[0]), is_published ? 0 : 1);
  }
}

// Lane 0 has taken task 2, which is younger than task 1 in lane 1.
TEST(LaneOrder, TheOldestTaskAsksFirstWhereTasksGoInTurn) {
  const DeclaredGraph graph(separate_tasks({1, 2, 1}));
  for (const bool in_turn : {true, false}) {
    LaneJob job(graph, 2, {.slots = std::vector<index_t>(in_turn ? 1 : 2, 100), .product_s = long_s});
    job.submit();
    job.device().finish_all();
    job.submit();  // launches task 0
    job.device().finish_all();
    job.submit();  // launches the first step of task 1
    EXPECT_EQ(job.launched(), (std::vector<TaskId>{0, 1}));
    job.submit();
    EXPECT_EQ(job.fetched(),
              in_turn ? tiles_of({{0, 0}, {1, 0}, {1, 1}, {2, 0}}) : tiles_of({{0, 0}, {1, 0}, {2, 0}, {1, 1}}));
  }
}

// Both wait for the panel of task 0. The next panel, to which task 1 belongs, is what all others wait for.
TEST(LaneOrder, BlockColumnsComeInTheirOrder) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}},
                             {.steps = {test::panel_update(0)}, .first_wave = 3, .reads_old = true},
                             {.steps = {test::panel_update(0)}, .reads_old = true}});
  LaneJob job(graph, 1, {.side_by_side = true, .product_s = long_s}, 1);
  const index_t queue = std::exchange(job.device().said().profile.link_queue_bytes, 0);
  job.submit_all();
  job.submit_all();
  EXPECT_EQ(job.taken(), 2);
  EXPECT_TRUE(job.fetched().empty());
  job.device().said().profile.link_queue_bytes = queue;
  job.submit_all();
  EXPECT_EQ(job.fetched(), (std::vector<const void*>{output_of(1).address, output_of(2).address}));
}

// -- old values --

const std::vector<DeclaredTask> one_product = {{.steps = {product(1, 2)}, .reads_old = true}};

TEST(LaneOrder, OldValuesAreAddedLastSideBySideAndInTurn) {
  const DeclaredGraph graph(one_product);
  const auto fetches_first = [&](std::vector<index_t> slots, bool side_by_side) {
    LaneJob job(graph, 1, {.slots = std::move(slots), .side_by_side = side_by_side, .product_s = long_s});
    job.submit();
    return job.fetched().front() == output_of(0).address;
  };
  EXPECT_FALSE(fetches_first({100}, true));
  EXPECT_FALSE(fetches_first({100, 100}, true));
  EXPECT_FALSE(fetches_first({100}, false));
  EXPECT_TRUE(fetches_first({100, 100}, false));
}

// Then tasks wait for each other's tiles, and results should go down early.
TEST(LaneOrder, OldValuesComeFirstWhereNotAllTilesHaveRoom) {
  DeclaredGraph graph(one_product);
  for (const index_t tiles : {100, 101}) {
    graph.working_slots = tiles;
    LaneJob job(graph, 1, {.product_s = long_s});
    job.submit();
    EXPECT_EQ(job.fetched().front() == output_of(0).address, tiles > 100);
  }
}

// -- the decision for a job --

// The product takes as long as the link or so much longer.
TEST(LaneOrder, TasksAdvanceSideBySideWhereComputingTakesLongest) {
  const auto side_by_side = [](double compute_s, double link_s, bool reads_old) {
    DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = reads_old}});
    graph.work.up = 1000;
    LaneJob job(graph, 1, {.product_s = compute_s});
    job.device().said().link_bytes_per_s = link_s > 0 ? 1000 / link_s : 0;
    return job.order().should_advance_side_by_side(graph);
  };
  EXPECT_TRUE(side_by_side(1.01, 1, false));
  EXPECT_FALSE(side_by_side(0.99, 1, false));
  EXPECT_TRUE(side_by_side(0.51, 1, true));
  EXPECT_FALSE(side_by_side(0.49, 1, true));
  EXPECT_TRUE(side_by_side(0, 1, false));  // nobody knows
  EXPECT_TRUE(side_by_side(0.01, 0, false));
}

TEST(LaneOrder, TasksAdvanceSideBySideOnlyWhereAllTilesHaveRoom) {
  DeclaredGraph graph(separate_tasks({1}));
  DeclaredGraph grouped(separate_tasks({1}), {1});
  LaneJob job(graph, 1);
  EXPECT_TRUE(job.order().should_advance_side_by_side(graph));
  EXPECT_FALSE(job.order().should_advance_side_by_side(grouped));
  graph.working_slots = 101;
  EXPECT_FALSE(job.order().should_advance_side_by_side(graph));
}

// -- tasks that a breakdown leaves out --

TEST(LaneOrder, LetsGoOfTasksThatABreakdownLeavesOut) {
  std::vector<DeclaredTask> tasks = separate_tasks({1, 1, 1});
  tasks[1].steps.push_back(product_by_output(0, 0));
  const DeclaredGraph graph(tasks);
  LaneJob job(graph, 1, {.product_s = long_s}, 1);
  job.submit_all();
  job.device().finish_all();
  job.submit();  // the first step of task 1
  job.pool->break_down({0, 1});
  job.submit_all();
  EXPECT_EQ(job.taken(), 1);  // its kernel is under way
  job.device().finish_all();
  job.retire();
  EXPECT_TRUE(job.submit());
  EXPECT_EQ(job.taken(), 1);  // task 2, in place of task 1
  EXPECT_EQ(job.fetched().back(), tiles_of({{2, 0}}).back());
}

}  // namespace lane_order_test
}  // namespace tessera::runtime
