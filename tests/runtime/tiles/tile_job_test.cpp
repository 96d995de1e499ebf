// The tasks of a job that are left after an attempt, and those that must be ended before anything else.
#include "runtime/tiles/tile_job.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace tile_job_test {

using test::DeclaredGraph;
using test::DeclaredTask;
using test::product;
using test::product_by_output;

using Tasks = std::vector<TaskId>;

/// Each task reads the result of the one before, but for task 2, which reads none.
std::vector<DeclaredTask> chain() {
  return {{.steps = {product(1, 2)}},
          {.steps = {product_by_output(0, 2)}},
          {.steps = {product(1, 2)}},
          {.steps = {product(1, 2), product_by_output(1, 2)}}};
}
PartlyWritten partly(TaskId task) {
  return {task, std::make_shared<device::WrittenSlices>(device::SliceKind::columns)};
}

TEST(PendingTasks, AreThoseThatAreNotDone) {
  const DeclaredGraph graph(chain());
  PendingTasks pending(graph);
  EXPECT_EQ(pending.tasks(), (Tasks{0, 1, 2, 3}));
  pending.note_done(Tasks{3, 1});
  pending.settle();
  EXPECT_EQ(pending.tasks(), (Tasks{0, 2}));
  pending.note_done(Tasks{0, 2});
  pending.settle();
  EXPECT_TRUE(pending.tasks().empty());
}

TEST(PendingTasks, HaveNoIntermediateResultThatNobodyReadsAnyMore) {
  std::vector<DeclaredTask> tasks = chain();
  tasks[0].intermediate = tasks[1].intermediate = true;
  const DeclaredGraph graph(tasks);
  PendingTasks pending(graph);
  pending.note_done(Tasks{1});
  pending.settle();
  EXPECT_EQ(pending.tasks(), (Tasks{2, 3}));  // task 0 was for task 1 only
}

TEST(PendingTasks, HaveNoTaskThatABreakdownLeavesOut) {
  const DeclaredGraph graph(chain());
  PendingTasks pending(graph);
  pending.note(Breakdown{});
  EXPECT_EQ(pending.tasks().size(), 4U);
  pending.note(Breakdown{0, 3});
  EXPECT_EQ(pending.tasks(), (Tasks{0, 2}));
}

TEST(PendingTasks, PartlyWrittenOnesComeFirstWithWhatTheyRead) {
  const DeclaredGraph graph(chain());
  PendingTasks pending(graph);
  pending.note_partly_written(partly(3));
  pending.settle();
  EXPECT_EQ(pending.to_end_first(), (Tasks{0, 1, 3}));
  pending.note_done(Tasks{0});
  pending.settle();
  EXPECT_EQ(pending.to_end_first(), (Tasks{1, 3}));
  ASSERT_EQ(pending.partly_written().size(), 1U);
  pending.note_done(Tasks{1, 3});
  pending.settle();
  EXPECT_TRUE(pending.partly_written().empty());
  EXPECT_TRUE(pending.to_end_first().empty());
}

// Task 0 reads the old value of the tile.
TEST(PendingTasks, PartlyWrittenOnesComeAfterTheReadersOfTheirOldValues) {
  Step reads_old = product(0, 2);
  reads_old.a = {.tile = test::output_of(1), .writer = 1};
  const DeclaredGraph graph({{.steps = {reads_old}}, {.steps = {product(1, 2)}}, {.steps = {product(1, 2)}}});
  PendingTasks pending(graph);
  pending.note_partly_written(partly(1));
  EXPECT_EQ(pending.to_end_first(), (Tasks{0, 1}));
}

}  // namespace tile_job_test
}  // namespace tessera::runtime
