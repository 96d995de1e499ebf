// The CPU as a worker: the tasks that it takes, those that a breakdown leaves out, and tiles that are partly written.
#include "runtime/tiles/cpu_worker.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace cpu_worker_test {

using test::DeclaredGraph;
using test::DeclaredTask;
using test::manual_tile;
using test::ManualJob;
using test::product;
using test::product_by_output;

const CpuHelp always{.always = true};

/// A CPU that only notes which tasks' products it is given.
class NotingCpu {
 public:
  CpuWorker worker{[this](const Level3& call) { products.push_back(static_cast<TaskId>(call.alpha.real()) - 1); }};
  std::vector<TaskId> products;
};

std::vector<DeclaredTask> three_tasks() {
  return std::vector<DeclaredTask>(3, {.steps = {product(1, 2), product(1, 2)}});
}

TEST(CpuWorker, TakesAllTasksThatItIsAllowedTo) {
  const DeclaredGraph graph(three_tasks());
  ManualJob job(graph, {});
  NotingCpu cpu;
  const CpuWorker::Outcome outcome = cpu.worker.run(*job.pool, always);
  EXPECT_EQ(cpu.products, (std::vector<TaskId>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(outcome.done, (std::vector<TaskId>{0, 1, 2}));
  EXPECT_EQ(outcome.operations.size(), 6U);
  EXPECT_TRUE(job.pool->ended());
  EXPECT_EQ(job.announced, 1);
  EXPECT_FALSE(outcome.error);
}

TEST(CpuWorker, TakesNoTasksThatDevicesEndSooner) {
  const DeclaredGraph graph(three_tasks());
  ManualJob job(graph, {});
  NotingCpu cpu;
  EXPECT_TRUE(cpu.worker.run(*job.pool, CpuHelp{}).done.empty());
  EXPECT_FALSE(job.pool->ended());
}

TEST(CpuWorker, TakesNothingOfAJobThatHasEnded) {
  const DeclaredGraph graph(three_tasks());
  ManualJob job(graph, {});
  job.pool->fail();
  NotingCpu cpu;
  EXPECT_TRUE(cpu.worker.run(*job.pool, always).done.empty());
  EXPECT_TRUE(cpu.products.empty());
}

TEST(CpuWorker, AnErrorEndsTheJob) {
  const DeclaredGraph graph(three_tasks());
  ManualJob job(graph, {});
  int products = 0;
  const CpuWorker worker([&](const Level3&) {
    if (++products > 2) throw NotAvailable("no more");
  });
  const CpuWorker::Outcome outcome = worker.run(*job.pool, always);
  EXPECT_EQ(outcome.done, (std::vector<TaskId>{0}));
  EXPECT_TRUE(job.pool->failed());
  EXPECT_THROW(std::rethrow_exception(outcome.error), NotAvailable);
}

TEST(CpuWorker, FinishesTheTasksThatAreLeft) {
  const DeclaredGraph graph(three_tasks());
  NotingCpu cpu;
  const std::vector<TaskId> tasks = {0, 2};
  EXPECT_EQ(cpu.worker.finish(graph, tasks).done, tasks);
  EXPECT_EQ(cpu.products, (std::vector<TaskId>{0, 0, 2, 2}));
}

/// A tile in host memory.
struct RealTile {
  std::array<double, manual_tile * manual_tile> values{};

  HostTile tile(index_t ld = manual_tile) {
    return {reinterpret_cast<std::byte*>(values.data()), manual_tile, manual_tile, ld};
  }
};

/// Task 0 factors a tile, task 1 reads it, and task 2 does not.
class Factorization final : public TaskGraph {
 public:
  explicit Factorization(double diagonal) {
    for (index_t i = 0; i < manual_tile; ++i) A.values[static_cast<std::size_t>(i * (manual_tile + 1))] = diagonal;
    task_count = 3;
    derive();
  }
  Output output(TaskId task) const override {
    return {.tile = task == 0 ? A.tile() : test::output_of(task), .reads_old = true};
  }
  index_t step_count(TaskId) const override { return 1; }
  Step step(TaskId task, index_t) const override {
    if (task == 0) return test::factorization(4 * manual_tile);
    Step step = product(task == 2 ? 1 : 0, 2);
    if (task == 1) step.a = {.tile = A.tile(), .writer = 0};
    step.call().alpha = static_cast<double>(task + 1);
    return step;
  }
  index_t home(TaskId, index_t) const override { return 0; }

 private:
  mutable RealTile A;
};

TEST(CpuWorker, LeavesOutTasksThatDependOnABreakdown) {
  for (const double diagonal : {1.0, -1.0}) {
    const Factorization graph(diagonal);
    NotingCpu cpu;
    const CpuWorker::Outcome outcome = cpu.worker.finish(graph, std::vector<TaskId>{0, 1, 2});
    const bool breaks_down = diagonal < 0;
    EXPECT_EQ(outcome.breakdown.has_happened(), breaks_down);
    EXPECT_EQ(outcome.done, breaks_down ? (std::vector<TaskId>{0, 2}) : (std::vector<TaskId>{0, 1, 2}));
    if (!breaks_down) continue;
    EXPECT_EQ(outcome.breakdown.task, 0);
    EXPECT_EQ(outcome.breakdown.info, 4 * manual_tile + 1);
  }
}

/// One product, added to a tile in host memory.
class ProductInPlace final : public TaskGraph {
 public:
  ProductInPlace() {
    C.values.fill(1);
    task_count = 1;
    derive();
  }
  Output output(TaskId) const override { return {.tile = C.tile(), .reads_old = true}; }
  index_t step_count(TaskId) const override { return 1; }
  Step step(TaskId, index_t) const override { return product(1, 2); }
  index_t home(TaskId, index_t) const override { return 0; }

  mutable RealTile C;
};

// The CPU adds 10. It sees zeros where slices have been written.
TEST(CpuWorker, ComputesTheSlicesThatAreNotWritten) {
  const CpuWorker worker([](const Level3& call) {
    auto* const C = static_cast<double*>(call.C);
    for (index_t j = 0; j < call.n; ++j) {
      for (index_t i = 0; i < call.m; ++i) C[i + j * call.ldc] = 10 + 2 * C[i + j * call.ldc];
    }
  });
  for (const auto kind : {device::SliceKind::columns, device::SliceKind::rows}) {
    const ProductInPlace graph;
    const auto written = std::make_shared<device::WrittenSlices>(kind);
    constexpr index_t slices = 3;
    written->note(kind == device::SliceKind::columns ? slices : slices * static_cast<index_t>(sizeof(double)));
    const std::vector<TaskId> tasks = {0};
    const std::vector<PartlyWritten> partly = {{0, written}};
    EXPECT_EQ(worker.finish(graph, tasks, partly).done, tasks);
    for (index_t j = 0; j < manual_tile; ++j) {
      for (index_t i = 0; i < manual_tile; ++i) {
        const bool is_written = (kind == device::SliceKind::columns ? j : i) < slices;
        EXPECT_EQ(graph.C.values[static_cast<std::size_t>(i + j * manual_tile)], is_written ? 1 : 12) << i << " " << j;
      }
    }
  }
}

TEST(CpuWorker, SeesZerosWhereSlicesAreWritten) {
  double sum = -1;
  const CpuWorker worker([&](const Level3& call) {
    const auto* const C = static_cast<const double*>(call.C);
    sum = 0;
    for (index_t j = 0; j < call.n; ++j) {
      for (index_t i = 0; i < call.m; ++i) sum += C[i + j * call.ldc];
    }
  });
  const ProductInPlace graph;
  const auto written = std::make_shared<device::WrittenSlices>(device::SliceKind::columns);
  written->note(3);
  worker.finish(graph, std::vector<TaskId>{0}, std::vector<PartlyWritten>{{0, written}});
  EXPECT_EQ(sum, manual_tile * (manual_tile - 3));
}

}  // namespace cpu_worker_test
}  // namespace tessera::runtime
