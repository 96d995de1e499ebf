// The order where memory suffices: how many tasks a lane takes, when steps are asked for and launched, and in which
// stream. Prefetches are in lane_prefetch_test.cpp.
#include "runtime/tiles/lane_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/tiles/lane_job.hpp"

namespace tessera::runtime {
namespace lane_order_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::DeclaredTask;
using test::LaneJob;
using test::long_s;
using test::medium_s;
using test::numbered_tile;
using test::output_of;
using test::product;
using test::product_by_output;
using test::separate_tasks;
using test::short_s;
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

/// The first step of the first task has been computed, and the link has no time for the second one.
struct StarvingJob : LaneJob {
  StarvingJob(const TaskGraph& graph, std::vector<index_t> slots)
      : LaneJob(graph, 1, {.slots = std::move(slots), .side_by_side = true, .product_s = long_s}) {
    submit();
    fill_link();
    device().finish_all();
    submit();
    EXPECT_EQ(device().kernels().size(), 1U);
  }
};

TEST(LaneOrder, AStarvedDeviceTakesTasksEarlyWhereManyAreLeft) {
  const auto takes = [](std::size_t left, bool has_computed, std::vector<index_t> slots = {100}) {
    std::vector<index_t> steps(left, 1);
    steps.insert(steps.begin(), 2);
    const DeclaredGraph graph(separate_tasks(steps));
    StarvingJob job(graph, std::move(slots));
    if (has_computed) job.device().finish_all();
    job.retire();
    job.submit();
    return job.taken() == 2;
  };
  EXPECT_TRUE(takes(LaneOrder::left_per_lane, true));
  EXPECT_FALSE(takes(LaneOrder::left_per_lane - 1, true));
  EXPECT_FALSE(takes(LaneOrder::left_per_lane, false));             // a product is under way
  EXPECT_FALSE(takes(LaneOrder::left_per_lane, true, {100, 100}));  // others may be about to fetch the tiles
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

// The second step of task 0 waits for nothing, so its result goes down early.
TEST(LaneOrder, TheOldestTaskWhoseTilesAreHereGoesFirst) {
  std::vector<DeclaredTask> tasks = separate_tasks({2, 1});
  tasks[0].steps[1] = product(900, 901);
  const DeclaredGraph graph(tasks);
  LaneJob job(graph, 1, {.side_by_side = true, .product_s = long_s});
  job.bring(numbered_tile(900));
  job.bring(numbered_tile(901));
  const std::size_t before = job.fetched().size();
  job.submit();
  job.submit();
  EXPECT_EQ(job.taken(), 2);
  EXPECT_EQ(job.fetched().size() - before, 2U);
  job.submit();
  EXPECT_EQ(job.fetched().size() - before, 4U);
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

// -- steps that are launched --

TEST(LaneOrder, AStepIsLaunchedWhenItsTilesHaveComeUnlessItIsShort) {
  const DeclaredGraph graph(separate_tasks({1}));
  for (const double product_s : {medium_s, short_s}) {
    LaneJob job(graph, 1, {.product_s = product_s});
    job.submit();
    const bool is_short = product_s == short_s;
    EXPECT_EQ(job.submit(), is_short);
    job.device().finish(up);
    EXPECT_FALSE(job.submit());
    job.device().finish(up);
    EXPECT_EQ(job.submit(), !is_short);
    EXPECT_EQ(job.device().kernels().size(), 1U);
  }
}

TEST(LaneOrder, AStepWaitsForTheOldValueThatItReads) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  LaneJob job(graph, 1, {.slots = {100, 100}, .product_s = long_s});
  job.bring(numbered_tile(1));
  job.bring(numbered_tile(2));
  job.submit();
  EXPECT_FALSE(job.submit());
  job.device().finish(up);
  EXPECT_TRUE(job.submit());
}

// The kernel's event then tells of the failure.
TEST(LaneOrder, AStepWhoseTileNeverComesIsLaunched) {
  const DeclaredGraph graph(separate_tasks({1}));
  LaneJob job(graph, 1, {.product_s = long_s});
  job.submit();
  job.device().finish(up, device::EventStatus::failed);
  job.device().finish_all(StreamKind::up);
  job.submit();
  EXPECT_EQ(job.device().kernels().size(), 1U);
}

TEST(LaneOrder, LaunchesOneStepAfterTheOtherOldestFirstAndOnlyEnough) {
  const DeclaredGraph graph(separate_tasks({1, 1, 1, 1}));
  LaneJob job(graph, 4, {.product_s = long_s});
  job.submit();
  job.device().finish_all(StreamKind::up);
  for (std::size_t kernels = 1; kernels <= 2; ++kernels) {
    job.submit();
    EXPECT_EQ(job.device().kernels().size(), kernels);
  }
  job.submit_all();
  EXPECT_EQ(job.launched(), (std::vector<TaskId>{0, 1}));
  job.device().finish_kernel(0);
  job.retire();
  job.submit_all();
  EXPECT_EQ(job.launched(), (std::vector<TaskId>{0, 1, 2}));
}

// Task 2 in lane 0 is younger than task 1 in lane 1, and the tiles of both have come.
TEST(LaneOrder, TheOldestTaskIsLaunchedFirstWhateverItsLane) {
  const DeclaredGraph graph(separate_tasks({1, 2, 1}));
  LaneJob job(graph, 2, {.product_s = long_s});
  for (int step = 0; step < 2; ++step) {
    job.submit();  // asks
    job.device().finish_all();
    job.submit();  // launches
    job.device().finish_all();
    job.submit();  // launches
    job.device().finish_all();
    job.retire();
  }
  EXPECT_EQ(job.launched(), (std::vector<TaskId>{0, 1, 1, 2}));
}

// A task of steps that leave gaps fills the device with no more than four of them.
TEST(LaneOrder, TasksThatLeaveGapsLeaveRoomForOthers) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}},
                             {.steps = std::vector<Step>(LaneOrder::run_ahead + 2, test::panel_update(0))},
                             {.steps = std::vector<Step>(LaneOrder::run_ahead + 2, product(3, 4))}});
  LaneJob job(graph, 2, {}, 1);
  job.pool->publish(0);
  job.submit_all();
  const auto updates = [&] {
    const auto kernels = job.device().kernels();
    return static_cast<std::size_t>(
        std::count_if(kernels.begin(), kernels.end(), [](const auto& kernel) { return kernel.name == "apply"; }));
  };
  EXPECT_EQ(updates(), LaneOrder::run_ahead);
  EXPECT_EQ(job.device().kernels().size(), 2 * LaneOrder::run_ahead + 2);
  job.device().finish_all(StreamKind::up);
  job.device().finish_kernel(0);
  job.retire();
  job.submit_all();
  EXPECT_EQ(updates(), LaneOrder::run_ahead + 1);
}

// -- their streams --

/// The streams of three tasks of one step, of which the first has completed.
std::vector<int> streams(double product_s, std::vector<index_t> slots, bool side_by_side = false) {
  const DeclaredGraph graph(separate_tasks({1, 1, 1}));
  LaneJob job(graph, 3, {.slots = std::move(slots), .side_by_side = side_by_side, .product_s = product_s});
  job.submit();
  job.device().finish_all(StreamKind::up);
  job.submit();
  job.device().finish_all();
  job.retire();
  for (int kernel = 0; kernel < 2; ++kernel) job.submit();
  return job.streams();
}

// The third task has a stream of lower rank than the second one, whose kernel is still there.
TEST(LaneOrder, OlderTasksHaveStreamsOfHigherRank) {
  EXPECT_EQ(streams(long_s, {100}), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(streams(long_s, {100}, true), (std::vector<int>{0, 0, 1}));
}

TEST(LaneOrder, ShortKernelsAndSeveralDevicesUseTheStreamOfTheLane) {
  EXPECT_EQ(streams(medium_s, {100}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(streams(long_s, {100, 100}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(streams(long_s, {100, 100}, true), (std::vector<int>{0, 1, 2}));
}

TEST(LaneOrder, TheLastStreamTakesAllThatIsYounger) {
  const DeclaredGraph graph(separate_tasks({2, 1}));
  LaneJob job(graph, 2, {.product_s = long_s});
  job.device().said().profile.backlog_s = 1;
  job.submit();
  job.device().finish_all(StreamKind::up);
  job.submit();
  job.submit();
  EXPECT_EQ(job.streams(), (std::vector<int>{0, 1}));
}

TEST(LaneOrder, FactorizationsHaveTheHighestRank) {
  DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {test::factorization(0)}, .reads_old = true}});
  LaneJob job(graph, 2, {.slots = {100, 100}, .product_s = medium_s});
  job.submit();
  job.device().finish_all(StreamKind::up);
  job.submit();
  job.submit();
  EXPECT_EQ(job.names(), (std::vector<std::string>{"gemm", "factor"}));
  EXPECT_EQ(job.streams(), (std::vector<int>{0, 0}));
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

// The products are launched, and the old value is still on its way.
TEST(LaneOrder, AnAdditionFollowsItsProductAndWaitsForItsTileOnlySideBySide) {
  const DeclaredGraph graph({{.steps = {product(900, 901)}}, {.steps = {product(1, 2)}, .reads_old = true}});
  for (const bool side_by_side : {false, true}) {
    LaneJob job(graph, 2, {.side_by_side = side_by_side, .product_s = long_s});
    job.submit();
    job.device().finish_all(StreamKind::up);
    job.submit();  // the product of task 0
    job.device().finish_all();
    job.retire();
    job.submit();  // the product of task 1 in lane 1, which is the oldest now
    EXPECT_EQ(job.streams(), (std::vector<int>{0, 0}));
    job.submit_all();
    EXPECT_EQ(job.names().back(), side_by_side ? "gemm" : "add");
    job.device().finish_all(StreamKind::up);
    job.submit_all();
    EXPECT_EQ(job.names().back(), "add");
    EXPECT_EQ(job.streams(), (std::vector<int>{0, 0, 0}));
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
