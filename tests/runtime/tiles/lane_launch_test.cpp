// The order where memory suffices, when tiles have come: which step is launched, and in which stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/tiles/order_job.hpp"

namespace tessera::runtime {
namespace lane_launch_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::LaneJob;
using test::long_s;
using test::medium_s;
using test::numbered_tile;
using test::product;
using test::separate_tasks;
using test::short_s;

constexpr device::StreamId up{StreamKind::up};

// -- steps that are launched --

TEST(LaneLaunch, AStepIsLaunchedWhenItsTilesHaveComeUnlessItIsShort) {
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

TEST(LaneLaunch, AStepWaitsForTheOldValueThatItReads) {
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
TEST(LaneLaunch, AStepWhoseTileNeverComesIsLaunched) {
  const DeclaredGraph graph(separate_tasks({1}));
  LaneJob job(graph, 1, {.product_s = long_s});
  job.submit();
  job.device().finish(up, device::EventStatus::failed);
  job.device().finish_all(StreamKind::up);
  job.submit();
  EXPECT_EQ(job.device().kernels().size(), 1U);
}

TEST(LaneLaunch, LaunchesOneStepAfterTheOtherOldestFirstAndOnlyEnough) {
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
TEST(LaneLaunch, TheOldestTaskIsLaunchedFirstWhateverItsLane) {
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

TEST(LaneLaunch, AStreamHasOnlySoManyKernelsOfTasksSideBySide) {
  const DeclaredGraph graph(separate_tasks({18, 1}));
  LaneJob job(graph, 1, {.side_by_side = true});
  job.submit_all();
  EXPECT_EQ(job.device().kernels().size(), LaneOrder::run_ahead * LaneOrder::tasks_per_lane);
}

// A task of steps that leave gaps fills the device with no more than four of them.
TEST(LaneLaunch, TasksThatLeaveGapsLeaveRoomForOthers) {
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
std::vector<int> streams(double product_s, std::vector<index_t> slots, bool side_by_side = false,
                         TaskId first_steps_last = 0) {
  DeclaredGraph graph(separate_tasks({1, 1, 1}));
  graph.first_steps_last = first_steps_last;
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
TEST(LaneLaunch, OlderTasksHaveStreamsOfHigherRank) {
  EXPECT_EQ(streams(long_s, {100}), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(streams(long_s, {100}, true), (std::vector<int>{0, 0, 1}));
}

TEST(LaneLaunch, ShortKernelsAndSeveralDevicesUseTheStreamOfTheLane) {
  EXPECT_EQ(streams(medium_s, {100}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(streams(long_s, {100, 100}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(streams(long_s, {100, 100}, true), (std::vector<int>{0, 1, 2}));
}

// Some of them begin all at once, and end at about the same time anyway.
TEST(LaneLaunch, TasksWithStepsApartUseTheStreamOfTheLane) {
  EXPECT_EQ(streams(long_s, {100}, false, 3), (std::vector<int>{0, 1, 2}));
}

TEST(LaneLaunch, TheLastStreamTakesAllThatIsYounger) {
  const DeclaredGraph graph(separate_tasks({1, 1, 1}));
  LaneJob job(graph, 2, {.product_s = long_s});
  job.device().said().profile.backlog_s = 1;
  job.submit();
  job.device().finish_all(StreamKind::up);
  for (int kernel = 0; kernel < 2; ++kernel) job.submit();
  job.submit();  // asks for the tiles of task 2
  job.device().finish_all(StreamKind::up);
  job.submit();
  EXPECT_EQ(job.streams(), (std::vector<int>{0, 1, 1}));
}

TEST(LaneLaunch, FactorizationsHaveTheHighestRank) {
  DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {test::factorization(0)}, .reads_old = true}});
  LaneJob job(graph, 2, {.slots = {100, 100}, .product_s = medium_s});
  job.submit();
  job.device().finish_all(StreamKind::up);
  job.submit();
  job.submit();
  EXPECT_EQ(job.names(), (std::vector<std::string>{"gemm", "factor"}));
  EXPECT_EQ(job.streams(), (std::vector<int>{0, 0}));
}

// The products are launched, and the old value is still on its way.
TEST(LaneLaunch, AnAdditionFollowsItsProductAndWaitsForItsTileOnlySideBySide) {
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

}  // namespace lane_launch_test
}  // namespace tessera::runtime
