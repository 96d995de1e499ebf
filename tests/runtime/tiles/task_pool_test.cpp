// A job tells its workers when to look again, and which device should take a task.
#include "runtime/tiles/task_pool.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace tessera::runtime {
namespace task_pool_test {

constexpr index_t size = 10;  // of a tile
constexpr double flops_of_task = 2.0 * size * size * size;

/// Tasks of one product each, alternately at home on each device. In order: of the result before it, and the tile behind
/// it as it was.
class Products final : public TaskGraph {
 public:
  /// @param tasks_in_a_group 0: each task goes its own way
  explicit Products(index_t tasks, bool in_order = false, index_t tasks_in_a_group = 0) : in_order_(in_order) {
    routine = "dgemm";
    task_count = tasks;
    working_slots = 3;
    slot_bytes = size * size * sizeof(double);
    work.flops = flops_of_task * static_cast<double>(tasks);
    for (TaskId end = tasks_in_a_group; end > 0 && end <= tasks; end += tasks_in_a_group) group_ends.push_back(end);
    derive();
  }

  Output output(TaskId) const override { return {}; }
  index_t step_count(TaskId) const override { return 1; }
  Step step(TaskId task, index_t) const override {
    Step step{.kernel = Level3{.m = size, .n = size, .k = size}};
    if (in_order_ && task > 0) step.a.writer = task - 1;
    if (in_order_ && task + 1 < task_count) step.b.writer = task + 1;
    return step;
  }
  index_t home(TaskId task, index_t devices) const override { return task % devices; }

 private:
  bool in_order_;
};

struct WatchedJob {
  explicit WatchedJob(index_t tasks, bool ordered = false, std::vector<bool> usable = {true, true})
      : graph(tasks, ordered),
        job(
            graph, usable, all_of(tasks), false, [this] { ++raised; }, [this] { ++announced; }) {}
  static std::vector<TaskId> all_of(index_t tasks) {
    std::vector<TaskId> all(static_cast<std::size_t>(tasks));
    std::iota(all.begin(), all.end(), TaskId{0});
    return all;
  }
  Products graph;
  int raised = 0;
  int announced = 0;
  TaskPool job;
};

// After the last task, nothing else would wake a worker that sleeps.
TEST(TaskPool, ItsLastTaskWakesAllWorkers) {
  WatchedJob watched(3);
  watched.job.finish_task(1);
  watched.job.finish_task(0);
  EXPECT_EQ(watched.raised, 0);  // nobody waits for these
  EXPECT_FALSE(watched.job.ended());
  watched.job.finish_task(2);
  EXPECT_TRUE(watched.job.ended());
  EXPECT_EQ(watched.raised, 1);
}

TEST(TaskPool, EveryTaskWakesThoseWhoseResultsWaitForItsReads) {
  WatchedJob watched(3, true);
  EXPECT_FALSE(watched.job.may_overwrite(1));
  watched.job.finish_task(0);
  EXPECT_TRUE(watched.job.may_overwrite(1));
  EXPECT_EQ(watched.raised, 1);
}

TEST(TaskPool, APublishedResultWakesItsReaders) {
  WatchedJob watched(3, true);
  const Read read{.tile = {}, .writer = 1};
  EXPECT_FALSE(watched.job.readable(read, 2));
  EXPECT_TRUE(watched.job.readable(read, 0));  // the value before task 1
  watched.job.publish(1);
  EXPECT_TRUE(watched.job.readable(read, 2));
  EXPECT_EQ(watched.raised, 1);
}

// After the loss of a device, tiles may be factored beside each other. The first breakdown counts. The tasks that
// follow it count as done, even if they are done later.
TEST(TaskPool, WhatABreakdownLeavesOutCountsOnce) {
  WatchedJob watched(5, true);
  TaskPool& job = watched.job;
  job.break_down({2, 7});
  job.break_down({1, 4});
  job.break_down({3, 9});
  EXPECT_EQ(job.breakdown().task, 2);
  EXPECT_EQ(job.breakdown().info, 7);
  for (const TaskId task : {3, 0, 1, 2}) {
    EXPECT_FALSE(job.ended()) << task;
    job.begin_write_back();
    job.finish_task(task);
  }
  EXPECT_TRUE(job.ended());
}

TEST(TaskPool, AFailureWakesAllWorkers) {
  WatchedJob watched(3);
  watched.job.fail();
  EXPECT_TRUE(watched.job.ended());
  EXPECT_EQ(watched.raised, 1);
}

// One at rate 1, one at a hundredth of it; what each has taken and not computed yet is given in tasks.
TEST(TaskPool, ASlowDeviceLeavesTheLastTasksToAFastOne) {
  constexpr index_t tasks = 10;
  WatchedJob watched(tasks);
  TaskPool& job = watched.job;
  const double f = flops_of_task;
  EXPECT_TRUE(job.should_take(0, f));
  EXPECT_TRUE(job.should_take(1, f));  // nobody knows yet
  job.take(0, f);
  job.take(1, f);
  job.complete(0, f, f);
  EXPECT_TRUE(job.should_take(1, f));  // taken for as fast as the other
  job.complete(1, f, f / 100);
  // Alone it would need 100 for one of the 8 that are left, the other one 8 for all of them.
  EXPECT_TRUE(job.should_take(0, f));
  EXPECT_FALSE(job.should_take(1, f));
  // The other one has much to do now.
  job.take(0, 200 * f);
  EXPECT_TRUE(job.should_take(1, f));
}

TEST(TaskPool, ADeviceThatTakesNoPartIsNotWaitedFor) {
  WatchedJob watched(10, false, {true, true, false});
  TaskPool& job = watched.job;
  const double f = flops_of_task;
  for (const std::size_t d : {0, 1}) {
    job.take(d, f);
    job.complete(d, f, d == 0 ? f : f / 100);
  }
  EXPECT_FALSE(job.should_take(1, f));
  job.take(0, 200 * f);
  EXPECT_TRUE(job.should_take(1, f));
}

// Two tasks are at home on each device, five of ten. Its lanes take four.
TEST(TaskPool, OthersTakeWhatADeviceIsNotAboutToTake) {
  for (const index_t tasks : {4, 10}) {
    WatchedJob watched(tasks);
    TaskPool& job = watched.job;
    job.reserve(0, 4);
    EXPECT_EQ(job.has_spare_tasks(0), tasks == 10);
    EXPECT_TRUE(job.has_spare_tasks(1));  // which has not begun
    job.take(0, flops_of_task);           // as reserved
    EXPECT_EQ(job.has_spare_tasks(0), tasks == 10);
    job.take(1, flops_of_task, true);
    job.note_stolen(0);
    EXPECT_FALSE(job.has_spare_tasks(0));
    // It may leave the others to a faster device now, which may be asleep.
    const int raised = watched.raised;
    job.complete(1, flops_of_task, flops_of_task);
    EXPECT_TRUE(job.has_spare_tasks(0));
    EXPECT_EQ(watched.raised, raised + 1);
    job.complete(1, flops_of_task, flops_of_task);
    EXPECT_EQ(watched.raised, raised + 1);
  }
}

// Tasks that the CPU or another device took before the device began are not there any more.
TEST(TaskPool, WhatOthersHaveTakenIsNotSpare) {
  WatchedJob watched(12);
  TaskPool& job = watched.job;
  ASSERT_TRUE(job.pop(0));
  job.note_stolen(0);
  EXPECT_TRUE(job.has_spare_tasks(0));  // it has not begun
  job.reserve(0, 4);
  EXPECT_TRUE(job.has_spare_tasks(0));  // one of five
  ASSERT_TRUE(job.take_for_cpu({.flops_per_s = 1, .devices_flops_per_s = 1, .always = true}));
  EXPECT_FALSE(job.has_spare_tasks(0));
  job.reserve(1, 4);
  EXPECT_TRUE(job.has_spare_tasks(1));
}

TEST(TaskPool, WorkIsLeftUntilDevicesHaveComputedIt) {
  WatchedJob watched(12);
  TaskPool& job = watched.job;
  EXPECT_DOUBLE_EQ(job.flops_left(), 12 * flops_of_task);
  job.take(0, flops_of_task);
  EXPECT_DOUBLE_EQ(job.flops_left(), 12 * flops_of_task);
  job.complete(0, flops_of_task, 1);
  EXPECT_DOUBLE_EQ(job.flops_left(), 11 * flops_of_task);
  ASSERT_TRUE(job.take_for_cpu({.flops_per_s = 1, .devices_flops_per_s = 1, .always = true}));
  EXPECT_DOUBLE_EQ(job.flops_left(), 10 * flops_of_task);
}

TEST(TaskPool, MoreTasksThanReservedAreFewerForOthers) {
  WatchedJob watched(12);
  TaskPool& job = watched.job;
  job.reserve(0, 4);
  for (int taken = 0; taken < 6; ++taken) {
    EXPECT_EQ(job.has_spare_tasks(0), taken < 6) << taken;
    job.take(0, flops_of_task);
  }
  EXPECT_FALSE(job.has_spare_tasks(0));
}

// A device that leaves a task to others might wait for it.
TEST(TaskPool, TasksThatWaitForEachOtherAreTakenByWhoeverAsks) {
  WatchedJob watched(10, true);
  TaskPool& job = watched.job;
  for (const std::size_t d : {0, 1}) {
    job.take(d, flops_of_task);
    job.complete(d, flops_of_task, d == 0 ? flops_of_task : flops_of_task / 100);
  }
  EXPECT_TRUE(job.should_take(1, flops_of_task));
}

// Of three devices, one of which does not take part.
TEST(TaskPool, TellsWhenAllHaveArrivedAndWhenItEndsSoon) {
  WatchedJob watched(4, false, {true, false, true});
  TaskPool& job = watched.job;
  EXPECT_EQ(job.device_count(), 3U);
  EXPECT_EQ(job.usable_count(), 2U);
  job.arrive();
  EXPECT_FALSE(job.all_arrived());
  job.arrive();
  EXPECT_TRUE(job.all_arrived());
  for (int task = 0; task < 4; ++task) {
    EXPECT_FALSE(job.ends_soon());
    EXPECT_EQ(watched.announced, 0);
    job.begin_write_back();
  }
  EXPECT_TRUE(job.ends_soon());
  EXPECT_EQ(watched.announced, 1);
  for (TaskId task = 0; task < 4; ++task) {
    EXPECT_FALSE(job.ended());
    job.finish_task(task);
  }
  EXPECT_TRUE(job.ended());
}

// The last groups are left to devices that can start them now: as many as take part, not as many as there are.
TEST(TaskPool, DealsGroupsAheadToThoseWhoTakePart) {
  const Products graph(12, false, 3);
  const auto groups_drawn_ahead = [&](const std::vector<bool>& usable) {
    TaskPool job(
        graph, usable, WatchedJob::all_of(12), false, [] {}, [] {});
    std::size_t groups = 0;
    while (!job.draw_group(true).empty()) ++groups;
    return groups;
  };
  EXPECT_EQ(groups_drawn_ahead({true}), 4U);
  EXPECT_EQ(groups_drawn_ahead({true, false, false, false}), 4U);
  EXPECT_EQ(groups_drawn_ahead({true, true, true, true}), 1U);
}

// Of a group that an attempt before has worked on, what is left.
TEST(TaskPool, DrawsOfAGroupWhatIsToDo) {
  const Products graph(9, false, 3);
  TaskPool job(
      graph, {true}, {1, 2, 6, 8}, false, [] {}, [] {});
  EXPECT_EQ(job.draw_group(false), (std::vector<TaskId>{1, 2}));
  EXPECT_EQ(job.draw_group(false), (std::vector<TaskId>{6, 8}));
  EXPECT_TRUE(job.draw_group(false).empty());
}

}  // namespace task_pool_test
}  // namespace tessera::runtime
