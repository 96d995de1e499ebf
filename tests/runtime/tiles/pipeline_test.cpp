// Steps that have been asked for become kernels. A kernel waits for its tiles, which are let go when it has completed.
#include "runtime/tiles/pipeline.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace pipeline_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::factorization;
using test::manual_tile;
using test::ManualJob;
using test::numbered_tile;
using test::output_of;
using test::product;

constexpr device::StreamId up{StreamKind::up};

/// A job whose only worker has begun, and tasks whose steps have been asked for.
struct LaunchedJob : ManualJob {
  explicit LaunchedJob(const TaskGraph& of, const Options& options = {}) : ManualJob(of, options), graph(of) {
    begin(&test::ManualWorker::lanes);
  }

  Pipeline& pipeline() { return worker().pipeline; }
  /// The task with its output, and all of its steps with their tiles.
  Submission asked(TaskId task, std::int64_t number = 1) {
    Submission submission{.task = task, .number = number, .steps = graph.step_count(task)};
    submission.output = cache->acquire_output(0, output_of(task), graph.output(task).reads_old);
    for (; submission.next_step < submission.steps; ++submission.next_step) {
      const Step step = graph.nth_step(task, submission.next_step);
      cache::Replica* const x = step.a.exists() ? cache->pin(0, step.a.tile) : nullptr;
      cache::Replica* const y = step.b.exists() ? cache->pin(0, step.b.tile) : nullptr;
      submission.asked.push_back({step, x, y, submission.next_step});
    }
    return submission;
  }
  void launch(int stream, Submission& submission) { pipeline().launch(*pool, stream, submission); }
  std::vector<Result> retired() {
    std::vector<Result> results;
    pipeline().retire(*pool, results);
    return results;
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto& kernel : device().kernels()) all.push_back(kernel.name);
    return all;
  }

  const TaskGraph& graph;
};

TEST(Pipeline, AKernelWaitsForTheTilesOfItsStep) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  LaunchedJob job(graph);
  Submission task = job.asked(0);
  job.launch(0, task);
  for (int tile = 0; tile < 3; ++tile) {
    EXPECT_FALSE(job.device().finish_kernel(0)) << tile;
    EXPECT_TRUE(job.device().finish(up));
  }
  EXPECT_TRUE(job.device().finish_kernel(0));
}

// A task's later steps do not wait for the old value again, but for the step before, whatever its stream.
TEST(Pipeline, StepsOfATaskAreInTheirOrder) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(1, 2), product(1, 2)}}});
  LaunchedJob job(graph);
  Submission task = job.asked(0);
  job.device().finish_all();
  for (const int stream : {0, 3, 3}) job.launch(stream, task);
  EXPECT_FALSE(job.device().finish_kernel(3));
  EXPECT_TRUE(job.device().finish_kernel(0));
  EXPECT_TRUE(job.device().finish_kernel(3));
  EXPECT_TRUE(job.device().finish_kernel(3));
}

TEST(Pipeline, TilesAreLetGoWhenTheKernelHasCompleted) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(3, 4)}}});
  LaunchedJob job(graph);
  Submission task = job.asked(0);
  job.device().finish_all();
  job.launch(0, task);
  job.launch(0, task);
  EXPECT_TRUE(job.retired().empty());
  EXPECT_EQ(job.pinned(), 5);
  job.device().finish_kernel(0);
  EXPECT_TRUE(job.retired().empty());
  EXPECT_EQ(job.pinned(), 3);
  EXPECT_EQ(job.pipeline().kernels_in(0), 1U);
  job.device().finish_kernel(0);
  EXPECT_EQ(job.retired().size(), 1U);
  EXPECT_EQ(job.pinned(), 1);  // the output
  EXPECT_TRUE(job.pipeline().is_empty());
  EXPECT_EQ(job.pipeline().steps(), 2);
  EXPECT_EQ(job.pipeline().flops(), 2 * test::flops_of_product);
}

TEST(Pipeline, OnlyTheLastStepOfATaskEndsIt) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(3, 4)}}, {.steps = {product(1, 2)}}});
  LaunchedJob job(graph);
  Submission first = job.asked(0, 1), second = job.asked(1, 2);
  job.device().finish_all();
  job.launch(0, first);
  job.launch(1, second);
  job.launch(0, first);
  job.device().finish_kernel(0);
  job.device().finish_kernel(1);
  const auto results = job.retired();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].task, 1);
  EXPECT_EQ(results[0].output, second.output);
  job.device().finish_kernel(0);
  ASSERT_EQ(job.retired().size(), 1U);
}

TEST(Pipeline, FailedWorkIsALostDevice) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  LaunchedJob job(graph);
  Submission task = job.asked(0);
  job.launch(0, task);
  job.device().finish(up, device::EventStatus::failed);
  job.device().finish_all();
  EXPECT_THROW(job.retired(), DeviceLost);
}

// Two kernels at least, and as many as keep the device busy for two milliseconds.
TEST(Pipeline, HasEnoughWhenTheDeviceIsBusyForAWhile) {
  const auto launched_until_enough = [](double product_s) {
    const DeclaredGraph graph({{.steps = std::vector<Step>(20, product(1, 2))}});
    LaunchedJob job(graph, {.product_s = product_s});
    Submission task = job.asked(0);
    int kernels = 0;
    for (; kernels < 20 && !job.pipeline().has_enough(); ++kernels) job.launch(0, task);
    // When the first one has completed, one more is wanted.
    job.device().finish_all();
    job.retired();
    EXPECT_FALSE(job.pipeline().has_enough());
    return kernels;
  };
  EXPECT_EQ(launched_until_enough(10e-3), 2);
  EXPECT_EQ(launched_until_enough(0.5001e-3), 4);
  EXPECT_EQ(launched_until_enough(0), 20);  // nobody knows how long they take
}

TEST(Pipeline, WhatOtherJobsHaveLaunchedCountsAsWell) {
  class Busy final : public DeviceTraffic::Source {
   public:
    Backlog backlog() const override { return {.kernels = 2, .seconds = 1}; }
    index_t queued_bytes() const override { return 0; }
  };
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  LaunchedJob job(graph);
  EXPECT_FALSE(job.pipeline().has_enough());
  const Busy other;
  DeviceTraffic traffic;
  traffic.enter(other);
  const Workplace shared{0, job.device(), job.device(), *job.cache, job.signal, nullptr, &traffic};
  Results results(shared);
  EXPECT_TRUE(Pipeline(shared, results).has_enough());
}

TEST(Pipeline, TellsWhoseKernelsAreWhere) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(1, 2)}}, {.steps = {product(1, 2)}}});
  LaunchedJob job(graph);
  Submission first = job.asked(0, 7), second = job.asked(1, 8);
  job.launch(0, first);
  job.launch(1, first);
  job.launch(1, second);
  EXPECT_EQ(job.pipeline().kernels_of(7), 2U);
  EXPECT_EQ(job.pipeline().kernels_of(8), 1U);
  EXPECT_TRUE(job.pipeline().has_older_kernel(1, 8));
  EXPECT_FALSE(job.pipeline().has_older_kernel(1, 7));
  EXPECT_FALSE(job.pipeline().has_older_kernel(2, 8));
  EXPECT_FALSE(job.pipeline().has_computed());
  job.device().finish_all();
  job.retired();
  EXPECT_TRUE(job.pipeline().has_computed());
}

Step symmetric_product(Side side) {
  Step step = product(1, 2);
  step.call().routine = Routine::symm;
  step.call().side = side;
  step.call().n = manual_tile / 2;
  step.call().k = 0;
  step.a.tile.part = Part::lower;
  return step;
}

// The other triangle is completed once; a second product waits for that where it goes to another stream.
TEST(Pipeline, ASymmetricTileIsCompletedOnce) {
  const DeclaredGraph graph({{.steps = {symmetric_product(Side::left)}}, {.steps = {symmetric_product(Side::right)}}});
  LaunchedJob job(graph);
  Submission first = job.asked(0, 1), second = job.asked(1, 2);
  const cache::Replica* const symmetric = first.asked.front().x;
  const cache::Replica* const other = first.asked.front().y;
  job.device().finish_all();
  job.launch(0, first);
  job.launch(1, second);
  EXPECT_EQ(job.names(), (std::vector<std::string>{"mirror", "gemm", "gemm"}));
  const auto kernels = job.device().kernels();
  EXPECT_EQ(kernels[0].mirroring.stored, Part::lower);
  EXPECT_EQ(kernels[0].mirroring.A, symmetric->address);
  EXPECT_EQ(kernels[1].call.k, manual_tile);
  EXPECT_EQ(kernels[2].call.k, manual_tile / 2);
  EXPECT_EQ(kernels[1].call.A, symmetric->address);
  EXPECT_EQ(kernels[1].call.B, other->address);
  EXPECT_EQ(kernels[2].call.A, other->address);
  EXPECT_EQ(kernels[2].call.B, symmetric->address);
  EXPECT_FALSE(job.device().finish_kernel(1));
  EXPECT_TRUE(job.device().finish_kernel(0));  // the mirror image
  EXPECT_TRUE(job.device().finish_kernel(1));
}

/// One task that takes its first step, a triangular product, last.
class FirstStepLast final : public TaskGraph {
 public:
  FirstStepLast() {
    task_count = first_steps_last = 1;
    slot_bytes = manual_tile * manual_tile * sizeof(double);
    working_slots = 10;
    derive();
  }
  Output output(TaskId) const override { return {.tile = output_of(0)}; }
  index_t step_count(TaskId) const override { return 2; }
  Step step(TaskId, index_t l) const override {
    Step step = product(l == 0 ? 1 : 3, l == 0 ? 2 : 4);
    if (l == 0) step.call().routine = Routine::trmm;
    return step;
  }
  index_t home(TaskId, index_t) const override { return 0; }
};

TEST(Pipeline, AStepThatCannotAddIsComputedApartAndAdded) {
  const FirstStepLast graph;
  LaunchedJob job(graph);
  Submission task = job.asked(0);
  job.launch(2, task);
  job.launch(2, task);
  EXPECT_EQ(job.names(), (std::vector<std::string>{"gemm", "trmm", "add"}));
  const auto kernels = job.device().kernels();
  EXPECT_EQ(kernels[0].call.C, task.output->address);
  EXPECT_NE(kernels[1].call.C, task.output->address);
  EXPECT_NE(kernels[1].call.C, nullptr);
}

TEST(Pipeline, WithoutRoomForStepsApartNothingBegins) {
  const FirstStepLast graph;
  EXPECT_THROW(LaunchedJob(graph, {.slots = {3}}), InternalError);
}

// The second tile on the diagonal, whose third minor is not positive definite.
TEST(Pipeline, AFactorizationTellsOfItsBreakdown) {
  DeclaredGraph graph(
      {{.steps = {factorization(0)}, .reads_old = true}, {.steps = {factorization(manual_tile)}, .reads_old = true}});
  graph.n = 2 * manual_tile;
  LaunchedJob job(graph);
  for (const auto& [task, info] : {std::pair<TaskId, int>{0, 0}, {1, 3}}) {
    EXPECT_FALSE(job.pool->breakdown().has_happened());
    job.device().info_of_factorizations = info;
    Submission submission = job.asked(task);
    job.launch(0, submission);
    job.device().finish_all();
    job.retired();
  }
  EXPECT_EQ(job.pool->breakdown().task, 1);
  EXPECT_EQ(job.pool->breakdown().info, manual_tile + 3);
}

// The one that comes later must not hide that the first has broken down.
TEST(Pipeline, FactorizationsUnderWayTellOfThemselves) {
  DeclaredGraph graph(
      {{.steps = {factorization(0)}, .reads_old = true}, {.steps = {factorization(manual_tile)}, .reads_old = true}});
  graph.n = 2 * manual_tile;
  LaunchedJob job(graph);
  for (const auto& [task, info] : {std::pair<TaskId, int>{0, 2}, {1, 0}}) {
    job.device().info_of_factorizations = info;
    Submission submission = job.asked(task);
    job.launch(static_cast<int>(task), submission);
  }
  job.device().finish_all();
  job.retired();
  EXPECT_EQ(job.pool->breakdown().task, 0);
  EXPECT_EQ(job.pool->breakdown().info, 2);
}

// Two steps that each take one unit of time, and a pause of one before the second. The other device's rate is given.
TEST(Pipeline, MeasuresTheRateFromTheFirstKernelOn) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(1, 2)}}});
  constexpr double rate = 2 * test::flops_of_product / 3;
  for (const double factor : {0.99, 1.01}) {
    LaunchedJob job(graph, {.slots = {100, 100}});
    Submission task = job.asked(0);
    job.device().finish_all();
    job.pool->take(0, graph.of(0).flops);
    for (int step = 0; step < 2; ++step) job.launch(0, task);
    job.device().finish_all();
    job.retired();
    job.pool->complete(1, 0, factor * rate);
    // One more task would end there sooner where the other device is faster.
    EXPECT_EQ(job.pool->should_take(0, test::flops_of_product), factor < 1) << factor;
  }
}

}  // namespace pipeline_test
}  // namespace tessera::runtime
