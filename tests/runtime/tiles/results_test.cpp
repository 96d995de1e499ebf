// A result goes to host memory, or to its readers, as soon as that does no harm. After a failure it is whole or torn.
#include "runtime/tiles/results.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace results_test {

using device::EventStatus;
using device::StreamKind;
using test::DeclaredGraph;
using test::DeclaredTask;
using test::ManualJob;
using test::numbered_tile;
using test::output_of;
using test::product;
using test::product_by_output;

constexpr device::StreamId down{StreamKind::down};
constexpr device::StreamId to_peer{StreamKind::to_peer};

/// A job whose tasks are computed as soon as a test says so.
struct ComputedJob : ManualJob {
  explicit ComputedJob(const TaskGraph& of, const Options& options = {}) : ManualJob(of, options), graph(of) {
    results().begin(graph);
  }

  Results& results() { return worker().results; }
  Submission begun(TaskId task) {
    Submission submission{.task = task, .number = 1, .steps = graph.step_count(task)};
    submission.output = cache->acquire_output(0, output_of(task), graph.output(task).reads_old);
    device().finish_all(StreamKind::up);
    return submission;
  }
  void add(TaskId task) {
    const Submission submission = begun(task);
    results().add(*pool, {submission.output, task, nullptr});
  }
  bool retire() { return results().retire(*pool); }
  std::size_t write_backs() const { return devices.front().work(StreamKind::down).size(); }

  const TaskGraph& graph;
};

TEST(Results, GoHomeAtOnceWhereNobodyReadsTheOldValue) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}, {.steps = {product(1, 2)}}});
  ComputedJob job(graph);
  for (TaskId task = 0; task < 2; ++task) {
    job.add(task);
    EXPECT_TRUE(job.retire());
    EXPECT_EQ(job.write_backs(), 1U + static_cast<std::size_t>(task));
    EXPECT_EQ(job.device().work(StreamKind::down).back().host, output_of(task).address);
    EXPECT_EQ(job.announced, task);
  }
  EXPECT_EQ(job.results().writing(), 2U);
  EXPECT_FALSE(job.retire());
  EXPECT_EQ(job.results().take_finished(), 0);
  job.device().finish(down);
  EXPECT_TRUE(job.retire());
  EXPECT_EQ(job.results().take_finished(), 1);
  EXPECT_FALSE(job.pool->ended());
  job.device().finish(down);
  EXPECT_TRUE(job.retire());
  EXPECT_EQ(job.results().take_finished(), 1);
  EXPECT_EQ(job.results().take_done(), (std::vector<TaskId>{0, 1}));
  EXPECT_TRUE(job.pool->ended());
  EXPECT_EQ(job.pinned(), 0);
}

/// Task 0 reads the old value of task 1's output.
std::vector<DeclaredTask> reader_of_an_old_value() {
  DeclaredTask reader{.steps = {product(0, 2)}};
  reader.steps[0].a = {.tile = output_of(1), .writer = 1};
  return {reader, {.steps = {product(1, 2)}}};
}

TEST(Results, WaitForTheReadersOfTheOldValue) {
  const DeclaredGraph graph(reader_of_an_old_value());
  ComputedJob job(graph);
  job.add(1);
  EXPECT_FALSE(job.retire());
  EXPECT_EQ(job.write_backs(), 0U);
  job.pool->finish_task(0);
  EXPECT_TRUE(job.retire());
  EXPECT_EQ(job.write_backs(), 1U);
}

// The reader may be on the device that has been lost.
TEST(Results, AreNotWrittenAfterAFailure) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  ComputedJob job(graph);
  job.add(0);
  job.pool->fail();
  EXPECT_FALSE(job.retire());
  EXPECT_EQ(job.write_backs(), 0U);
}

/// Task 1 reads the result of task 0.
std::vector<DeclaredTask> reader_of_a_result(bool intermediate) {
  return {{.steps = {product(1, 2)}, .intermediate = intermediate}, {.steps = {product_by_output(0, 2)}}};
}
bool is_readable(const ComputedJob& job) { return job.pool->readable(Read{.tile = output_of(0), .writer = 0}, 1); }

TEST(Results, CanBeReadAtOnceWhereAllDevicesReachThem) {
  const DeclaredGraph graph(reader_of_a_result(false));
  ComputedJob job(graph, {.slots = {100, 100}});
  for (const TaskId task : {0, 1}) job.add(task);
  EXPECT_TRUE(is_readable(job));
  EXPECT_EQ(job.cache->locate(1, output_of(0)), cache::Level::l2);
  EXPECT_EQ(job.cache->locate(1, output_of(1)), cache::Level::host);  // which nobody reads
}

TEST(Results, CanBeReadWhenHostMemoryHasThemWhereSomeDevicesDoNotReachThem) {
  const DeclaredGraph graph(reader_of_a_result(false));
  ComputedJob job(graph, {.slots = {100, 100}, .connected = false});
  job.add(0);
  job.retire();
  EXPECT_FALSE(is_readable(job));
  job.device().finish(down);
  job.retire();
  EXPECT_TRUE(is_readable(job));
}

TEST(Results, OfABrokenFactorizationAreWrittenButNotRead) {
  const DeclaredGraph graph(reader_of_a_result(false));
  ComputedJob job(graph);
  job.pool->break_down({0, 3});
  job.add(0);
  EXPECT_FALSE(is_readable(job));
  job.retire();
  EXPECT_EQ(job.write_backs(), 1U);
}

TEST(Results, IntermediateOnesStayUntilTheirReaderIsDone) {
  const DeclaredGraph graph(reader_of_a_result(true));
  ComputedJob job(graph);
  job.add(0);
  EXPECT_EQ(job.announced, 0);
  EXPECT_FALSE(job.retire());
  EXPECT_TRUE(job.results().take_done().empty());
  job.add(1);
  job.retire();
  EXPECT_EQ(job.announced, 1);  // nobody waits for the intermediate one
  job.device().finish(down);
  while (job.retire()) {
  }
  EXPECT_EQ(job.results().take_done(), (std::vector<TaskId>{1, 0}));
  EXPECT_EQ(job.write_backs(), 1U);
  EXPECT_TRUE(job.pool->ended());
}

TEST(Results, IntermediateOnesGoHomeWhereNotAllHaveRoomOrNotAllReachThem) {
  DeclaredGraph large(reader_of_a_result(true));
  large.working_slots = 101;
  const DeclaredGraph small(reader_of_a_result(true));
  const auto goes_home = [](const TaskGraph& graph, const ManualJob::Options& options) {
    ComputedJob job(graph, options);
    job.add(0);
    job.retire();
    return job.write_backs() == 1;
  };
  EXPECT_TRUE(goes_home(large, {}));
  EXPECT_TRUE(goes_home(small, {.slots = {100, 100}, .connected = false}));
  EXPECT_FALSE(goes_home(small, {.slots = {100, 100}}));
}

const ManualJob::Options keeping{.slots = {100, 100}, .old_values = OldValuesPlace::peers};

TEST(Results, AreWrittenWhenACopyOfTheOldValueIsWhole) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  ComputedJob job(graph, keeping);
  Submission task = job.begun(0);
  job.results().keep_old(*job.pool, task, OldValues::When::ahead);
  ASSERT_TRUE(task.old);
  job.results().add(*job.pool, {task.output, 0, task.old});
  EXPECT_FALSE(job.retire());
  job.device().finish(to_peer);
  EXPECT_TRUE(job.retire());
  EXPECT_EQ(job.write_backs(), 1U);
}

TEST(Results, AreWrittenInSlicesWhereThatIsPossibleAndWanted) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true, .slices = device::SliceKind::columns}});
  const auto copy_of = [&](OldValuesPlace place, bool copies_slices) {
    ComputedJob job(graph, {.old_values = place});
    job.device().copies_slices = copies_slices;
    job.add(0);
    EXPECT_TRUE(job.retire());
    return job.device().work(StreamKind::down).back().name;
  };
  EXPECT_EQ(copy_of(OldValuesPlace::in_place, true), "slices");
  EXPECT_EQ(copy_of(OldValuesPlace::in_place, false), "down");
  EXPECT_EQ(copy_of(OldValuesPlace::peers, true), "down");
}

/// A task whose output lies in host memory, for a copy of its old value is made there.
class RealOutput final : public TaskGraph {
 public:
  explicit RealOutput(device::SliceKind slices = device::SliceKind::none) : slices_(slices) {
    task_count = working_slots = 1;
    slot_bytes = sizeof(values_);
    derive();
  }
  Output output(TaskId) const override {
    auto* const address = const_cast<double*>(values_.data());
    return {.tile = {reinterpret_cast<std::byte*>(address), test::manual_tile, test::manual_tile, test::manual_tile},
            .reads_old = true,
            .slices = slices_};
  }
  index_t step_count(TaskId) const override { return 1; }
  Step step(TaskId, index_t) const override { return product(1, 2); }
  index_t home(TaskId, index_t) const override { return 0; }

 private:
  device::SliceKind slices_;
  std::array<double, test::manual_tile * test::manual_tile> values_{};
};

// Slices that have not been written are the old value.
TEST(Results, NeedNoCopyWhereTheyAreWrittenInSlices) {
  const RealOutput graph(device::SliceKind::columns);
  HostCopies copies(1, 1 << 20);
  ComputedJob job(graph, {.old_values = OldValuesPlace::in_place, .host_copies = &copies});
  job.device().copies_slices = true;
  job.results().add(*job.pool, {job.cache->acquire_output(0, graph.output(0).tile, false), 0});
  EXPECT_TRUE(job.retire());
  EXPECT_EQ(copies.held_bytes(), 0U);
  job.device().finish(down, EventStatus::failed);
  bool usable = false;
  job.results().settle(usable);
  const auto torn = job.results().take_torn();
  ASSERT_EQ(torn.size(), 1U);
  EXPECT_NE(torn[0].written, nullptr);
  EXPECT_EQ(torn[0].old, nullptr);
}

TEST(Results, ForgetACopyThatHasFailed) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  ComputedJob job(graph, keeping);
  const auto copy = std::make_shared<test::ManualCopy>();
  job.results().add(*job.pool, {job.begun(0).output, 0, copy});
  EXPECT_FALSE(job.retire());
  copy->failed = true;
  EXPECT_TRUE(job.retire());  // there is no memory for another one
  EXPECT_EQ(job.write_backs(), 1U);
}

TEST(Results, WaitForMemoryForACopyOfTheOldValue) {
  const RealOutput graph, other;
  std::optional<HostCopies> copies(std::in_place, 1, 1);  // one at a time
  ComputedJob job(graph, {.old_values = OldValuesPlace::host, .host_copies = &*copies});
  auto others = copies->copy(nullptr, other.output(0).tile, sizeof(double), HostCopies::When::due, job.signal);
  cache::Replica* const output = job.cache->acquire_output(0, graph.output(0).tile, false);
  job.results().add(*job.pool, {output, 0});
  EXPECT_FALSE(job.retire());
  others.reset();
  for (std::uint64_t seen = job.signal.version(); !job.retire(); seen = job.signal.version())
    job.signal.wait(seen, std::chrono::milliseconds(1));
  EXPECT_EQ(job.write_backs(), 1U);
  EXPECT_GT(copies->held_bytes(), 0U);
  copies.reset();  // its thread may still raise the job's signal
}

TEST(Results, GoWithoutACopyWhereThereIsNoMemoryForOne) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  ComputedJob job(graph, {.slots = {100}, .old_values = OldValuesPlace::peers});  // without peers and host memory
  job.add(0);
  EXPECT_TRUE(job.retire());
  EXPECT_EQ(job.write_backs(), 1U);
}

TEST(Results, KeepNothingOfTilesThatCanBeComputedAgain) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  ComputedJob job(graph, keeping);
  job.cache->pin(0, output_of(0));
  job.device().finish_all();
  Submission task = job.begun(0);
  job.results().keep_old(*job.pool, task, OldValues::When::last_read);
  EXPECT_FALSE(task.old);
}

// A tile that a kernel has overwritten is no old value any more.
TEST(Results, TakeNoCopyOfWhatAKernelHasOverwritten) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  ComputedJob job(graph, keeping);
  Submission task = job.begun(0);
  task.launched = job.device().record({StreamKind::compute, 0});
  job.results().keep_old(*job.pool, task, OldValues::When::last_read);
  EXPECT_FALSE(task.old);
}

// Before it has an output, the task has fetched no old value.
TEST(Results, TakeNoCopyBeforeTheOldValueIsFetched) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  ComputedJob job(graph, keeping);
  job.cache->pin(0, output_of(0));
  job.device().finish_all();
  Submission task{.task = 0, .steps = 1};
  job.results().keep_old(*job.pool, task, OldValues::When::ahead);
  EXPECT_FALSE(task.old);
}

/// A task that adds its old value last, and has it on the device.
struct AddingTask {
  ComputedJob job;
  Submission task;

  explicit AddingTask(const TaskGraph& graph) : job(graph, keeping) {
    task = {.task = 0, .number = 1, .steps = 1, .adds_after = 1};
    task.output = job.cache->acquire_output(0, output_of(0), false);
    job.cache->pin(0, output_of(0));
    job.device().finish_all();
    task.launched = job.device().record({StreamKind::compute, 0});
  }
};

TEST(Results, OldValuesThatAreAddedLastAreCopiedAtAnyTime) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  AddingTask adding(graph);
  adding.job.results().keep_old(*adding.job.pool, adding.task, OldValues::When::ahead);
  EXPECT_TRUE(adding.task.old);
}

// No kernel overwrites it, but the result takes its place.
TEST(Results, OnlyTheLastKernelWaitsForTheCopyOfAnOldValueThatIsAdded) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}, .reads_old = true}});
  for (const bool ends : {false, true}) {
    AddingTask adding(graph);
    Submission& task = adding.task;
    if (ends) {
      task.next_step = 1;
      task.has_added = true;
    }
    adding.job.results().await_copy_of_old(*adding.job.pool, task, 0, {StreamKind::compute, 0});
    EXPECT_EQ(task.old != nullptr, ends);
  }
}

// The first kernel overwrites the old value, and waits for the copy.
TEST(Results, KernelsThatOverwriteTheOldValueWaitForItsCopy) {
  const DeclaredGraph graph({{.steps = {product(1, 2), product(1, 2)}, .reads_old = true}});
  const auto waits = [&](index_t step) {
    ComputedJob job(graph, keeping);
    Submission task = job.begun(0);
    job.results().await_copy_of_old(*job.pool, task, step, {StreamKind::compute, 0});
    job.device().add(0, {});
    const bool waited = !job.device().finish_kernel(0);
    EXPECT_EQ(task.old != nullptr, waited);
    EXPECT_EQ(job.device().finish(to_peer), waited);
    EXPECT_EQ(job.device().finish_kernel(0), waited);
    return waited;
  };
  EXPECT_TRUE(waits(0));
  EXPECT_FALSE(waits(1));  // which comes after the first
}

/// A job with one write-back that has begun.
struct WritingJob : ComputedJob {
  explicit WritingJob(const TaskGraph& graph) : ComputedJob(graph) {
    add(0);
    retire();
  }
  /// @return tasks that are done
  std::vector<TaskId> settle(bool usable) {
    EXPECT_EQ(results().writing(), 1U);
    results().settle(usable);
    EXPECT_EQ(results().writing(), 0U);
    return results().take_done();
  }
};

TEST(Results, WrittenBeforeTheFailureAreDone) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  WritingJob job(graph);
  job.device().finish(down);
  EXPECT_EQ(job.settle(false), (std::vector<TaskId>{0}));
  EXPECT_TRUE(job.results().take_torn().empty());
}

// The device works, and still has the result.
TEST(Results, AreWrittenAgainIfTheirCopyHasFailed) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  WritingJob job(graph);
  job.device().finish(down, EventStatus::failed);
  EXPECT_THROW(job.retire(), DeviceLost);
  job.device().recover();
  job.device().ends_at_once = true;
  EXPECT_EQ(job.settle(true), (std::vector<TaskId>{0}));
  EXPECT_EQ(job.write_backs(), 2U);
  EXPECT_TRUE(job.results().take_torn().empty());
}

TEST(Results, AreTornIfTheirCopyHasFailedWithTheDevice) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  WritingJob job(graph);
  job.device().finish(down, EventStatus::failed);
  EXPECT_TRUE(job.settle(false).empty());
  const auto torn = job.results().take_torn();
  ASSERT_EQ(torn.size(), 1U);
  EXPECT_EQ(torn[0].task, 0);
  EXPECT_EQ(job.write_backs(), 1U);
}

// It works all the same, as it says itself.
TEST(Results, AreTornIfTheDeviceRefusesToWriteThemAgain) {
  const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  WritingJob job(graph);
  job.device().finish(down, EventStatus::failed);
  job.device().refuses_copies_down = true;
  bool usable = true;
  job.results().settle(usable);
  EXPECT_TRUE(usable);
  EXPECT_EQ(job.results().take_torn().size(), 1U);
  EXPECT_TRUE(job.results().take_done().empty());
}

}  // namespace results_test
}  // namespace tessera::runtime
