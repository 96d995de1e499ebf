// A step is asked for when its tiles can come: its operands are computed, the link has time, and there is room.
#include "runtime/tiles/order.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace order_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::DeclaredTask;
using test::manual_tile;
using test::ManualJob;
using test::numbered_tile;
using test::output_of;
using test::panel_update;
using test::product;
using test::product_by_output;

/// An order that decides nothing: a test says what the derived orders would say.
class PlainOrder final : public Order {
 public:
  using Order::ask;
  using Order::drop;
  using Order::is_readable;
  using Order::Order;

  void begin(const TaskPool&, std::size_t) override {}
  void clear() override {}
  bool refill(TaskPool&) override { return false; }
  bool submit(TaskPool&) override { return false; }
  bool prefetch(TaskPool&) override { return false; }

  bool adds_last = false;
  index_t use = cache::never;
  index_t soon = -1;

 private:
  bool adds_old_values_last() const override { return adds_last; }
  index_t next_use(const HostTile&) const override { return use; }
  index_t needed_soon() const override { return soon; }
};

struct AskingJob : ManualJob {
  explicit AskingJob(const TaskGraph& of, const Options& options = {}) : ManualJob(of, options), graph(of) {
    begin(&test::ManualWorker::lanes);
  }
  Submission taken(TaskId task) const {
    return {.task = task, .steps = graph.step_count(task), .wave = graph.wave(task, 0)};
  }
  bool ask(Submission& submission) { return order.ask(*pool, submission); }
  std::vector<const void*> fetched() { return device().fetched(); }
  /// From now on the link has enough to do.
  void fill_link() { device().said().profile.link_queue_bytes = 0; }
  /// The tile is on that device.
  void bring(const HostTile& tile, int d = 0) {
    cache->release(cache->pin(d, tile));
    devices[static_cast<std::size_t>(d)].finish_all();
  }

  const TaskGraph& graph;
  PlainOrder order{worker().place, worker().pipeline, worker().results, worker().intake};
};

std::vector<const void*> addresses(const std::vector<HostTile>& tiles) {
  std::vector<const void*> all;
  for (const HostTile& tile : tiles) all.push_back(tile.address);
  return all;
}

TEST(Order, AsksForOneStepAfterTheOther) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(3, 4)}, .first_wave = 5, .reads_old = true}});
  AskingJob job(graph);
  Submission task = job.taken(0);
  ASSERT_TRUE(job.ask(task));
  EXPECT_EQ(job.fetched(), addresses({output_of(0), numbered_tile(1), numbered_tile(2)}));
  EXPECT_EQ(job.pinned(), 3);
  EXPECT_EQ(task.next_step, 1);
  EXPECT_EQ(task.wave, 6);
  ASSERT_TRUE(job.ask(task));
  EXPECT_EQ(job.fetched().size(), 5U);
  ASSERT_EQ(task.asked.size(), 2U);
  EXPECT_EQ(task.asked[1].number, 1);
  EXPECT_EQ(task.asked[1].x->tile, numbered_tile(3));
  EXPECT_EQ(task.asked[1].y->tile, numbered_tile(4));
  EXPECT_TRUE(task.all_asked());
}

TEST(Order, FetchesNoOldValueThatNobodyReads) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  AskingJob job(graph);
  Submission task = job.taken(0);
  ASSERT_TRUE(job.ask(task));
  EXPECT_EQ(job.fetched(), addresses({numbered_tile(1), numbered_tile(2)}));
}

TEST(Order, WaitsForTheLinkOnlyWithTilesOfTheHost) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {product(1, 3)}}, {.steps = {product(1, 4)}}});
  AskingJob job(graph, {.slots = {100, 100}});
  job.bring(numbered_tile(1));
  job.bring(numbered_tile(2));
  job.bring(numbered_tile(3), 1);
  job.fill_link();
  const auto asks = [&](TaskId task) {
    Submission submission = job.taken(task);
    const bool asked = job.ask(submission);
    EXPECT_EQ(submission.output != nullptr, asked);
    return asked;
  };
  EXPECT_TRUE(asks(0));   // both tiles are here
  EXPECT_TRUE(asks(1));   // a peer has the second one
  EXPECT_FALSE(asks(2));  // only the host has it
}

TEST(Order, WaitsForTheLinkWithAnOldValue) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(1, 2)}, .reads_old = true}});
  AskingJob job(graph);
  job.bring(numbered_tile(1));
  job.bring(numbered_tile(2));
  Submission task = job.taken(0);
  const index_t queue = std::exchange(job.device().said().profile.link_queue_bytes, 0);
  EXPECT_FALSE(job.ask(task));
  job.device().said().profile.link_queue_bytes = queue;
  ASSERT_TRUE(job.ask(task));
  job.fill_link();
  EXPECT_TRUE(job.ask(task));  // the old value has been asked for
}

TEST(Order, AsksForNothingBeforeTheOperandsAreComputed) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {product_by_output(0, 2)}, .reads_old = true}});
  AskingJob job(graph);
  Submission task = job.taken(1);
  EXPECT_FALSE(job.ask(task));
  EXPECT_EQ(job.pinned(), 0);
  EXPECT_TRUE(job.fetched().empty());
  Submission writer = job.taken(0);
  ASSERT_TRUE(job.ask(writer));
  job.worker().results.add(*job.pool, {writer.output, 0});
  EXPECT_TRUE(job.ask(task));
}

// A block column is most of what its task fetches.
TEST(Order, ABlockColumnComesBeforeItsPanelIsComputed) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {panel_update(0)}, .reads_old = true}});
  ASSERT_TRUE(graph.has_panels);
  AskingJob job(graph);
  Submission task = job.taken(1);
  EXPECT_TRUE(job.ask(task));
  EXPECT_EQ(job.fetched(), addresses({output_of(1)}));
  EXPECT_EQ(task.next_step, 0);
  EXPECT_TRUE(task.asked.empty());
  EXPECT_FALSE(job.ask(task));
}

// With room for an output and one operand.
TEST(Order, WithoutRoomItKeepsWhatItHasUnlessOthersMayGoFirst) {
  const std::vector<DeclaredTask> tasks = {{.steps = {product(1, 2)}}};
  const DeclaredGraph free(tasks);
  const DeclaredGraph grouped(tasks, {1});
  for (const DeclaredGraph* graph : {&free, &grouped}) {
    AskingJob job(*graph, {.slots = {2}});
    Submission task = job.taken(0);
    EXPECT_FALSE(job.ask(task));
    EXPECT_NE(task.output, nullptr);
    EXPECT_EQ(task.x == nullptr, graph->grouped());
    EXPECT_EQ(job.pinned(), graph->grouped() ? 1 : 2);
    EXPECT_EQ(task.next_step, 0);
  }
}

TEST(Order, GoesOnWhenThereIsRoomAgain) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  AskingJob job(graph, {.slots = {3}});
  cache::Replica* const other = job.cache->pin(0, numbered_tile(9));
  job.device().finish_all();
  Submission task = job.taken(0);
  EXPECT_FALSE(job.ask(task));
  EXPECT_FALSE(job.ask(task));
  EXPECT_EQ(job.pinned(), 3);
  job.cache->release(other);
  ASSERT_TRUE(job.ask(task));
  EXPECT_EQ(task.asked[0].x->tile, numbered_tile(1));
  EXPECT_EQ(job.pinned(), 3);
}

const std::vector<DeclaredTask> two_products = {{.steps = {product(1, 2), product(3, 4)}, .reads_old = true}};

TEST(Order, AddsTheOldValueAfterTheProducts) {
  const DeclaredGraph graph(two_products);
  AskingJob job(graph);
  job.order.adds_last = true;
  Submission task = job.taken(0);
  for (int step = 0; step < 2; ++step) {
    EXPECT_FALSE(task.all_asked());
    ASSERT_TRUE(job.ask(task));
  }
  EXPECT_EQ(task.asked[0].step.call().beta, AnyScalar(0));
  EXPECT_EQ(task.asked[1].step.call().beta, AnyScalar(1));
  EXPECT_EQ(job.fetched().size(), 4U);
  EXPECT_FALSE(task.all_asked());
  job.fill_link();
  EXPECT_FALSE(job.ask(task));  // it comes from the host
  job.bring(output_of(0));
  ASSERT_TRUE(job.ask(task));
  EXPECT_TRUE(task.all_asked());
  const Asked& last = task.asked.back();
  EXPECT_TRUE(last.adds);
  ASSERT_TRUE(std::holds_alternative<kernels::Addition>(last.step.kernel));
  EXPECT_EQ(std::get<kernels::Addition>(last.step.kernel).factor, AnyScalar(0.5));
  EXPECT_EQ(last.x->tile, output_of(0));
  EXPECT_NE(last.x, task.output);
}

TEST(Order, FetchesTheOldValueFirstWhereItIsNotAddedLast) {
  const DeclaredGraph graph(two_products);
  AskingJob job(graph);
  Submission task = job.taken(0);
  ASSERT_TRUE(job.ask(task));
  EXPECT_EQ(job.fetched().front(), output_of(0).address);
  EXPECT_EQ(task.asked[0].step.call().beta, AnyScalar(0.5));
  ASSERT_TRUE(job.ask(task));
  EXPECT_TRUE(task.all_asked());
}

// The third step replaces its output, which has to be whole.
TEST(Order, AddsTheOldValueBeforeTheFirstStepThatDoesMoreThanAdd) {
  Step triangular = product(5, 0);
  triangular.call().routine = Routine::trmm;
  const DeclaredGraph graph({{.steps = {product(1, 2), product(3, 4), triangular}, .reads_old = true}});
  AskingJob job(graph);
  job.order.adds_last = true;
  Submission task = job.taken(0);
  while (!task.all_asked()) ASSERT_TRUE(job.ask(task));
  std::vector<bool> adds;
  for (const Asked& asked : task.asked) adds.push_back(asked.adds);
  EXPECT_EQ(adds, (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(task.asked.back().number, 2);
}

TEST(Order, TellsTheCacheWhenTilesAreWantedAgain) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  AskingJob job(graph);
  job.order.use = 17;
  Submission task = job.taken(0);
  ASSERT_TRUE(job.ask(task));
  EXPECT_EQ(task.asked[0].x->next_use, 17);
  EXPECT_EQ(task.asked[0].y->next_use, 17);
}

TEST(Order, TilesThatAreNeededSoonMakeNoRoomForAnOutput) {
  const DeclaredGraph graph({{.steps = {product(0, 0)}}});
  for (const index_t soon : {-1, 4, 5}) {
    AskingJob job(graph, {.slots = {1}});
    job.cache->release(job.cache->pin(0, numbered_tile(9), 5));
    job.device().finish_all();
    job.order.soon = soon;
    Submission task = job.taken(0);
    EXPECT_EQ(job.ask(task), soon < 5) << soon;
  }
}

TEST(Order, OnlyATaskWhoseOperandsAreComputedCanGoOn) {
  const std::vector<DeclaredTask> tasks = {{.steps = {product(1, 2)}},
                                           {.steps = {product(1, 2), product_by_output(0, 2)}}};
  const DeclaredGraph graph(tasks);
  AskingJob job(graph);
  Submission task = job.taken(1);
  EXPECT_TRUE(PlainOrder::is_readable(*job.pool, task));
  task.next_step = 1;
  EXPECT_FALSE(PlainOrder::is_readable(*job.pool, task));
  job.pool->publish(0);
  EXPECT_TRUE(PlainOrder::is_readable(*job.pool, task));
  task.next_step = 0;
  job.pool->break_down({0, 1});
  EXPECT_FALSE(PlainOrder::is_readable(*job.pool, task));
}

/// Task 1 depends on task 0, which has broken down.
struct BrokenJob : AskingJob {
  explicit BrokenJob(const TaskGraph& of) : AskingJob(of) { pool->publish(0); }
  void break_down() {
    const index_t before = worker().intake.outputs();
    pool->break_down({0, 1});
    EXPECT_EQ(worker().intake.outputs(), before);
  }
  bool drop(const Submission& submission) { return order.drop(*pool, submission); }
};

class Dropped : public ::testing::Test {
 protected:
  const DeclaredGraph graph{
      {{.steps = {product(1, 2)}}, {.steps = {product(1, 2), product_by_output(0, 2)}, .reads_old = true}}};
  BrokenJob job{graph};
  Submission task = job.taken(1);
};

TEST_F(Dropped, IsOnlyATaskThatIsLeftOut) {
  EXPECT_FALSE(job.drop(task));
  job.break_down();
  EXPECT_FALSE(job.ask(task));
  EXPECT_FALSE(job.drop(job.taken(0)));
  EXPECT_TRUE(job.drop(task));
  EXPECT_EQ(job.worker().intake.outputs(), -1);  // one less than it has taken
}

TEST_F(Dropped, WhenItsKernelsAndItsOldValueHaveEnded) {
  ASSERT_TRUE(job.ask(task));
  job.device().finish_all();
  job.break_down();
  EXPECT_FALSE(job.drop(task));  // a step has been asked for
  job.worker().pipeline.launch(*job.pool, 0, task);
  EXPECT_FALSE(job.drop(task));
  job.device().finish_all();
  job.retire();
  EXPECT_EQ(job.pinned(), 1);
  EXPECT_TRUE(job.drop(task));
  EXPECT_EQ(job.pinned(), 0);
}

TEST_F(Dropped, WhenItsOldValueHasCome) {
  task.output = job.cache->acquire_output(0, output_of(1), true);
  task.x = job.cache->pin(0, numbered_tile(1));
  job.break_down();
  EXPECT_FALSE(job.drop(task));
  job.device().finish_all();
  EXPECT_TRUE(job.drop(task));
  EXPECT_EQ(job.pinned(), 0);
}

TEST_F(Dropped, WhenTheCopyOfItsOldValueHasEnded) {
  job.break_down();
  const auto copy = std::make_shared<test::ManualCopy>();
  task.old = copy;
  EXPECT_FALSE(job.drop(task));
  copy->whole = true;
  EXPECT_TRUE(job.drop(task));
  copy->whole = false;
  copy->failed = true;
  EXPECT_TRUE(job.drop(task));
}

}  // namespace order_test
}  // namespace tessera::runtime
