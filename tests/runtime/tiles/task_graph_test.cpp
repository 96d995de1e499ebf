// The properties that follow from the accesses that tasks declare.
#include "runtime/tiles/task_graph.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace task_graph_test {

using test::DeclaredGraph;
using test::DeclaredTask;
using test::factorization;
using test::manual_tile;
using test::output_of;
using test::panel_update;
using test::product;
using test::product_by_output;

Step triangular_product() {
  Step step = product(1, 0);
  step.call().routine = Routine::trmm;
  return step;
}
/// Reads the tile that `writer` writes, before or after it does.
Step read_of(TaskId writer) { return product_by_output(writer, 2); }

TEST(TaskGraph, SumsThatReadNoResultsAreFree) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(3, 4)}, .reads_old = true}, {.steps = {product(1, 2)}}});
  EXPECT_FALSE(graph.ordered);
  EXPECT_FALSE(graph.factors);
  EXPECT_FALSE(graph.has_panels);
  EXPECT_EQ(graph.of(0).flops, 2 * test::flops_of_product);
  EXPECT_EQ(graph.of(0).adding_steps, 2);
  EXPECT_TRUE(graph.of(0).needs_old);
  EXPECT_FALSE(graph.of(1).needs_old);
  for (TaskId task = 0; task < 2; ++task) {
    EXPECT_FALSE(graph.of(task).published);
    EXPECT_EQ(graph.of(task).write_after, no_task);
  }
}

// The fourth step adds again, but to the result of the third.
TEST(TaskGraph, OldValuesCanBeAddedAfterTheFirstStepsThatOnlyAdd) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(1, 2), triangular_product(), product(1, 2)}}});
  EXPECT_EQ(graph.of(0).adding_steps, 2);
  EXPECT_TRUE(graph.ordered);
}

TEST(TaskGraph, AResultThatIsReadIsPublished) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {read_of(0)}}});
  EXPECT_TRUE(graph.ordered);
  EXPECT_TRUE(graph.of(0).published);
  EXPECT_FALSE(graph.of(1).published);
  EXPECT_EQ(graph.of(0).write_after, no_task);
}

TEST(TaskGraph, ATileIsOverwrittenAfterTheLastReaderOfItsOldValue) {
  const DeclaredGraph graph({{.steps = {read_of(3)}},
                             {.steps = {product(1, 2), read_of(3)}},
                             {.steps = {product(1, 2)}},
                             {.steps = {product(1, 2)}}});
  EXPECT_TRUE(graph.ordered);
  EXPECT_EQ(graph.of(3).write_after, 1);
  EXPECT_FALSE(graph.of(3).published);
}

TEST(TaskGraph, ATaskThatReadsItsOwnTileNeedsTheOldValue) {
  const DeclaredGraph graph({{.steps = {read_of(0)}}});
  EXPECT_TRUE(graph.of(0).needs_old);
  EXPECT_FALSE(graph.of(0).published);
}

TEST(TaskGraph, AnIntermediateResultIsHeldForItsLastReader) {
  const DeclaredGraph graph(
      {{.steps = {product(1, 2)}, .intermediate = true}, {.steps = {read_of(0)}}, {.steps = {read_of(0)}}});
  EXPECT_TRUE(graph.of(0).intermediate);
  EXPECT_EQ(graph.of(0).write_after, 2);
}

TEST(TaskGraph, ResultsThatCannotBeRepeatedGoHomeAfterThoseThatTheyAreMadeOf) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {read_of(0)}}}, {}, false);
  EXPECT_EQ(graph.of(1).write_after, 0);
  EXPECT_EQ(graph.of(0).write_after, no_task);
}

TEST(TaskGraph, TellsOfFactorizationsAndPanels) {
  const DeclaredGraph factors({{.steps = {factorization(0)}}});
  EXPECT_TRUE(factors.factors);
  EXPECT_TRUE(factors.ordered);
  EXPECT_FALSE(factors.has_panels);
  const DeclaredGraph panels({{.steps = {product(1, 2)}}, {.steps = {panel_update(0)}}});
  EXPECT_TRUE(panels.has_panels);
  EXPECT_FALSE(panels.factors);
}

TEST(TaskGraph, TheFirstStepMayBeTakenLastAndApart) {
  DeclaredGraph graph({{.steps = {triangular_product(), product(3, 4), product(5, 6)}, .reads_old = true},
                       {.steps = {product(1, 2), product(3, 4)}, .reads_old = true}});
  graph.first_steps_last = 1;
  EXPECT_TRUE(graph.has_steps_apart());
  const auto a = [&](TaskId task, index_t n) { return graph.nth_step(task, n).a.tile; };
  EXPECT_EQ(a(0, 0), test::numbered_tile(3));
  EXPECT_EQ(a(0, 1), test::numbered_tile(5));
  EXPECT_EQ(a(0, 2), test::numbered_tile(1));
  EXPECT_EQ(graph.nth_step(0, 0).call().beta, AnyScalar(0));  // it sets what others add to
  EXPECT_EQ(graph.nth_step(0, 1).call().beta, AnyScalar(1));
  EXPECT_FALSE(graph.nth_step(0, 1).apart);
  EXPECT_TRUE(graph.nth_step(0, 2).apart);
  EXPECT_EQ(a(1, 0), test::numbered_tile(1));
  EXPECT_FALSE(graph.nth_step(1, 1).apart);
}

TEST(TaskGraph, KnowsTheGroupOfATask) {
  const std::vector<DeclaredTask> tasks(5, {.steps = {product(1, 2)}});
  const DeclaredGraph graph(tasks, {2, 5});
  EXPECT_TRUE(graph.grouped());
  EXPECT_FALSE(DeclaredGraph(tasks).grouped());
  const std::vector<TaskId> ends = {2, 2, 5, 5, 5};
  for (TaskId task = 0; task < 5; ++task) EXPECT_EQ(graph.group_end(task), ends[static_cast<std::size_t>(task)]);
}

// Task 2 reads the tile of task 3 as it was before. Task 4 reads a result that is made of task 0's.
TEST(TaskGraph, DependentsReadResultsBeItByTasksInBetween) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}},
                             {.steps = {product(1, 2), read_of(0)}},
                             {.steps = {read_of(3)}},
                             {.steps = {product(1, 2)}},
                             {.steps = {read_of(1)}}});
  EXPECT_EQ(dependents_of(graph, 0), (std::vector<bool>{false, true, false, false, true}));
  EXPECT_EQ(dependents_of(graph, 3), std::vector<bool>(5, false));
}

}  // namespace task_graph_test
}  // namespace tessera::runtime
