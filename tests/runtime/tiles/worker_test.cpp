// A look at a job: whether something was done, what a worker waits for, when it has ended, and what it reports.
#include "runtime/tiles/worker.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/tiles/order_job.hpp"

namespace tessera::runtime {
namespace worker_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::ManualJob;
using test::product;
using test::separate_tasks;

using Look = Worker::Look;

constexpr device::StreamId up{StreamKind::up};
constexpr device::StreamId down{StreamKind::down};

/// The only worker of a job.
struct WatchedJob : ManualJob {
  explicit WatchedJob(const TaskGraph& graph, bool polls = false, const Options& options = {})
      : ManualJob(graph, options), watched(0, device(), device(), *cache, signal, polls) {
    watched.arrive(*pool);
  }
  Look look() { return watched.look(*pool); }
  /// The first look that finds nothing to do.
  Look look_all() {
    Look last = look();
    while (last == Look::busy) last = look();
    return last;
  }

  Worker watched;
};

TEST(Worker, IsIdleWhileTheDeviceWorksAndEndsWithTheJob) {
  const DeclaredGraph graph(separate_tasks({1}));
  WatchedJob job(graph, false, {.product_s = test::long_s});
  EXPECT_EQ(job.look(), Look::busy);
  for (const device::StreamId stream : {up, up, device::StreamId{StreamKind::compute, 0}, down}) {
    EXPECT_EQ(job.look_all(), Look::idle);
    EXPECT_TRUE(job.device().finish(stream));
  }
  EXPECT_EQ(job.look_all(), Look::ended);
  const Worker::Outcome outcome = job.watched.leave();
  EXPECT_TRUE(outcome.usable);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.done, (std::vector<TaskId>{0}));
  EXPECT_EQ(outcome.steps, 1);
  EXPECT_EQ(outcome.flops, test::flops_of_product);
  EXPECT_EQ(outcome.operations.size(), 4U);
  EXPECT_EQ(job.pinned(), 0);
}

// Its device does not wake it, and nothing is left to do but to wait for the last copy.
TEST(Worker, StaysAwakeAtTheEndWhereItsDevicePolls) {
  const DeclaredGraph graph(separate_tasks({1, 1}));
  for (const bool polls : {true, false}) {
    WatchedJob job(graph, polls);
    job.look_all();
    job.device().finish_all(StreamKind::up);
    job.device().finish_kernel(0);
    EXPECT_EQ(job.look_all(), Look::idle);  // a result is on its way, the other one is not
    job.device().finish_kernel(1);
    EXPECT_EQ(job.look_all(), polls ? Look::awake : Look::idle);
  }
}

// The next job has this memory.
TEST(Worker, EndsNoSoonerThanCopiesThatItHasBegun) {
  const DeclaredGraph graph(separate_tasks({1}));
  WatchedJob job(graph);
  job.cache->prefetch(0, test::numbered_tile(900), 0);
  job.pool->pop(0);  // another worker has the task
  job.pool->finish_task(0);
  EXPECT_EQ(job.look_all(), Look::idle);
  job.device().finish_all();
  EXPECT_EQ(job.look_all(), Look::ended);
}

TEST(Worker, TellsOfWorkThatHasFailed) {
  const DeclaredGraph graph(separate_tasks({1}));
  WatchedJob job(graph);
  job.look_all();
  job.device().finish(up, device::EventStatus::failed);
  job.device().finish_all();
  EXPECT_EQ(job.look_all(), Look::ended);
  EXPECT_TRUE(job.pool->failed());
  const Worker::Outcome outcome = job.watched.leave();
  EXPECT_NE(outcome.error, "");
  EXPECT_TRUE(outcome.usable);  // as the device says
  EXPECT_TRUE(outcome.done.empty());
}

// Its result went home before the failure, and the copy of the other one has not ended.
TEST(Worker, TellsWhichTasksWereDoneBeforeAFailureElsewhere) {
  const DeclaredGraph graph(separate_tasks({1, 1}));
  WatchedJob job(graph);
  job.look_all();
  job.device().finish_all(StreamKind::up);
  job.device().finish_all(StreamKind::compute);
  job.look_all();
  job.device().finish(down);
  job.pool->fail();
  job.device().refuses_copies_down = true;
  EXPECT_EQ(job.look_all(), Look::ended);
  const Worker::Outcome outcome = job.watched.leave();
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.done, (std::vector<TaskId>{0}));
  ASSERT_EQ(outcome.torn.size(), 1U);
  EXPECT_EQ(outcome.torn[0].task, 1);
}

// Groups launch a step as soon as it has been asked for, lanes when its tiles have come.
TEST(Worker, TakesTheOrderThatTheGraphNeeds) {
  for (const bool grouped : {false, true}) {
    const DeclaredGraph graph(separate_tasks({1}), grouped ? std::vector<TaskId>{1} : std::vector<TaskId>{});
    WatchedJob job(graph, false, {.product_s = test::long_s});
    job.look_all();
    EXPECT_EQ(job.device().kernels().size(), grouped ? 1U : 0U);
  }
}

}  // namespace worker_test
}  // namespace tessera::runtime
