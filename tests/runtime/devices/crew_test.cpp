// The threads of devices: which of them a job has, in which order they look at several jobs, and what they do for a
// device that is lost.
#include "runtime/devices/crew.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace crew_test {

using device::StreamKind;
using test::DeclaredGraph;
using test::DeclaredTask;
using test::ManualDevice;
using test::output_of;
using test::product;

/// A device whose work ends at once. Its first copy to host memory may fail, and the device with it.
class InstantDevice final : public ManualDevice {
 public:
  explicit InstantDevice(int ordinal) : ManualDevice(ordinal, true) { ends_at_once = true; }

  std::function<void()> attach = [] {};
  std::atomic<bool>* next_copy_fails = nullptr;  ///< of all devices
  std::thread::id thread;
  std::vector<std::thread::id> copied_by;

  void attach_thread() override {
    thread = std::this_thread::get_id();
    attach();
  }
  void copy_down(device::Block host, device::Block from, device::Extent extent) override {
    copied_by.push_back(std::this_thread::get_id());
    ManualDevice::copy_down(host, from, extent);
    if (next_copy_fails == nullptr || !next_copy_fails->exchange(false)) return;
    is_lost_ = true;
    fail({StreamKind::down});
  }
  bool recover() noexcept override { return ManualDevice::recover() && !is_lost_; }

 private:
  bool is_lost_ = false;
};

/// The kernels of a device, which owns itself.
class KernelsOf final : public kernels::TileOps {
 public:
  explicit KernelsOf(ManualDevice& device) : to_(device) {}
  void run(int stream, const Level3& call) override { to_.run(stream, call); }
  void add(int stream, const kernels::Addition& addition) override { to_.add(stream, addition); }
  void mirror(int stream, const kernels::Mirroring& tile) override { to_.mirror(stream, tile); }
  void factor(int stream, const kernels::TileFactorization& tile) override { to_.factor(stream, tile); }
  void factor_panel(int stream, const kernels::Panel& panel, index_t first, index_t columns) override {
    to_.factor_panel(stream, panel, first, columns);
  }
  void apply_panel(int stream, const kernels::PanelUpdate& update) override { to_.apply_panel(stream, update); }
  void run_batch(int stream, const kernels::Level3Batch& batch, double flops) override {
    to_.run_batch(stream, batch, flops);
  }
  void run_lapack_batch(int stream, const kernels::LapackBatch& batch, const kernels::Workspace& workspace,
                        double flops) override {
    to_.run_lapack_batch(stream, batch, workspace, flops);
  }

 private:
  ManualDevice& to_;
};

/// Devices and their threads.
class CrewOf {
 public:
  explicit CrewOf(int devices) {
    for (int d = 0; d < devices; ++d) {
      auto device = std::make_unique<InstantDevice>(d);
      devices_.push_back(device.get());
      auto ops = std::make_unique<KernelsOf>(*device);
      accelerators_.push_back({std::move(device), std::move(ops)});
    }
  }
  /// @pre devices are as the test wants them
  Crew& start(
      std::chrono::nanoseconds patience = std::chrono::hours(1), std::function<void()> when_idle = [] {}) {
    constexpr std::size_t most_jobs = 2;
    return crew_.emplace(accelerators_, most_jobs, patience, std::move(when_idle));
  }

  InstantDevice& device(std::size_t d) { return *devices_[d]; }
  std::size_t size() const { return devices_.size(); }

 private:
  std::vector<InstantDevice*> devices_;
  std::vector<kernels::Accelerator> accelerators_;
  std::optional<Crew> crew_;
};

/// An attempt to run all tasks of a graph.
struct AttemptOf {
  /// @param slots of each device
  AttemptOf(CrewOf& devices, const TaskGraph& of, std::vector<bool> working, std::vector<index_t> slots) : graph(of) {
    std::vector<cache::CacheDevice> places;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const std::size_t bytes = static_cast<std::size_t>(slots[d]) * graph.slot_bytes;
      places.push_back({&devices.device(d), devices.device(d).reserve(bytes), bytes});
    }
    made.working = std::move(working);
    made.cache = std::make_unique<cache::TileCache>(places);
    made.cache->begin_job(graph.slot_bytes, sizeof(double));
  }
  void keep_old_values() {
    made.old_values.emplace(OldValuesPlace::peers, nullptr);
    made.old_values->begin_job(*made.cache, graph, made.working);
  }
  /// @param meanwhile on the calling thread
  void run(
      Crew& crew, const std::function<void()>& meanwhile = [] {}) {
    crew.employ(made);
    std::vector<TaskId> tasks(static_cast<std::size_t>(graph.task_count));
    std::iota(tasks.begin(), tasks.end(), TaskId{0});
    TaskPool pool(
        graph, made.working, tasks, false, [&] { crew.raise_all(made); }, [&] { crew.announce_end(made); });
    const auto cpu = [&] {
      meanwhile();
      return CpuWorker::Outcome{};
    };
    crew.run(pool, cpu, made);
    failed = pool.failed();
  }
  std::vector<TaskId> done() const {
    std::vector<TaskId> all;
    for (const Worker::Outcome& outcome : made.outcomes)
      all.insert(all.end(), outcome.done.begin(), outcome.done.end());
    std::sort(all.begin(), all.end());
    return all;
  }

  const TaskGraph& graph;
  Attempt made;
  bool failed = false;
};

std::vector<DeclaredTask> tasks_at(const std::vector<index_t>& homes) {
  std::vector<DeclaredTask> tasks;
  for (const index_t home : homes) tasks.push_back({.steps = {product(1, 2)}, .home = home});
  return tasks;
}

TEST(Crew, RunsAJobOnItsDevicesAndTheCallersPartOnTheCaller) {
  const DeclaredGraph graph(tasks_at({0, 1, 0, 1, 0, 1}));
  CrewOf devices(3);
  Crew& crew = devices.start();
  AttemptOf attempt(devices, graph, {true, false, true}, {100, 100, 100});
  std::thread::id caller;
  attempt.run(crew, [&] { caller = std::this_thread::get_id(); });
  EXPECT_EQ(caller, std::this_thread::get_id());
  EXPECT_EQ(attempt.done(), (std::vector<TaskId>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(attempt.made.ends_soon);
  EXPECT_EQ(attempt.made.workers[1], nullptr);
  EXPECT_TRUE(devices.device(1).kernels().empty());
  for (const std::size_t d : {0, 2}) {
    for (const std::thread::id by : devices.device(d).copied_by) EXPECT_EQ(by, devices.device(d).thread);
  }
}

TEST(Crew, RunsOneJobAfterTheOther) {
  const DeclaredGraph graph(tasks_at({0, 0}));
  CrewOf devices(1);
  Crew& crew = devices.start();
  for (int job = 0; job < 3; ++job) {
    AttemptOf attempt(devices, graph, {true}, {100});
    crew.alert({true});
    attempt.run(crew);
    EXPECT_EQ(attempt.done(), (std::vector<TaskId>{0, 1}));
  }
  EXPECT_EQ(devices.device(0).kernels().size(), 6U);
}

TEST(Crew, LosesADeviceOnce) {
  CrewOf devices(2);
  Crew& crew = devices.start();
  EXPECT_EQ(crew.usable(), (std::vector<bool>{true, true}));
  EXPECT_TRUE(crew.lose(1));
  EXPECT_FALSE(crew.lose(1));
  EXPECT_EQ(crew.usable(), (std::vector<bool>{true, false}));
}

TEST(Crew, AThreadThatCannotUseItsDeviceFailsTheJob) {
  const DeclaredGraph graph(tasks_at({0, 1}));
  CrewOf devices(2);
  devices.device(1).attach = [] { throw DeviceLost("gone"); };
  AttemptOf attempt(devices, graph, {true, true}, {100, 100});
  attempt.run(devices.start());
  EXPECT_TRUE(attempt.failed);
  EXPECT_FALSE(attempt.made.outcomes[1].usable);
  EXPECT_EQ(attempt.made.outcomes[1].error, "gone");
  EXPECT_TRUE(attempt.made.outcomes[0].usable);
  EXPECT_TRUE(devices.device(1).kernels().empty());
}

// Results must not depend on the device that computes them.
TEST(Crew, TasksAdvanceSideBySideOnlyWhereAllDevicesOfTheJobAgree) {
  DeclaredGraph graph(tasks_at({0}));
  graph.working_slots = 50;
  CrewOf devices(2);
  Crew& crew = devices.start();
  const auto side_by_side = [&](std::vector<bool> working, std::vector<index_t> slots) {
    AttemptOf attempt(devices, graph, std::move(working), std::move(slots));
    crew.employ(attempt.made);
    return Crew::should_advance_side_by_side(graph, attempt.made);
  };
  EXPECT_TRUE(side_by_side({true, true}, {100, 100}));
  EXPECT_FALSE(side_by_side({true, true}, {100, 40}));
  EXPECT_TRUE(side_by_side({true, false}, {100, 40}));
}

TEST(Crew, LooksWhetherMemoryCanBeGivenBackWhereThereIsSome) {
  std::promise<void> idle;
  std::atomic<int> calls = 0;
  const DeclaredGraph graph(tasks_at({0}));
  CrewOf devices(1);
  Crew& crew = devices.start(std::chrono::nanoseconds(1), [&] {
    if (calls++ == 0) idle.set_value();
  });
  AttemptOf(devices, graph, {true}, {100}).run(crew);
  EXPECT_EQ(calls, 0);
  crew.note_memory(true);
  AttemptOf(devices, graph, {true}, {100}).run(crew);  // its thread sees that now
  idle.get_future().wait();
}

/// The jobs, A or B, of all kernels of the device, which begins when both have come.
std::string kernels_of_two_jobs(index_t tasks) {
  const DeclaredGraph a(tasks_at(std::vector<index_t>(static_cast<std::size_t>(tasks), 0)));
  std::vector<DeclaredTask> others = tasks_at(std::vector<index_t>(static_cast<std::size_t>(tasks), 0));
  for (DeclaredTask& task : others) task.steps[0].call().m = 1;
  const DeclaredGraph b(others);
  CrewOf devices(1);
  std::promise<void> both_have_come;
  devices.device(0).attach = [come = both_have_come.get_future().share()] { come.wait(); };
  Crew& crew = devices.start();
  AttemptOf first(devices, a, {true}, {100}), second(devices, b, {true}, {100});
  std::promise<void> first_has_come;
  std::thread other([&] { first.run(crew, [&] { first_has_come.set_value(); }); });
  first_has_come.get_future().wait();
  second.run(crew, [&] { both_have_come.set_value(); });
  other.join();
  EXPECT_EQ(first.done().size(), static_cast<std::size_t>(tasks));
  EXPECT_EQ(second.done().size(), static_cast<std::size_t>(tasks));
  std::string jobs;
  for (const auto& kernel : devices.device(0).kernels()) jobs += kernel.call.m == 1 ? 'B' : 'A';
  return jobs;
}

TEST(Crew, TheOldestJobGoesFirstButNotAlways) {
  const std::string jobs = kernels_of_two_jobs(12);
  int older = 0, younger = 0;  // looks that begin with it, of those in which both launch a kernel
  for (std::size_t kernel = 0; kernel < jobs.size(); kernel += 2) {
    ASSERT_NE(jobs[kernel], jobs[kernel + 1]) << jobs;
    (jobs[kernel] == 'A' ? older : younger) += 1;
  }
  EXPECT_EQ(jobs.front(), 'A');
  EXPECT_GT(older, 2 * younger) << jobs;
  EXPECT_GT(younger, 0) << jobs;
}

/// Two devices, of which the one that computes the task is lost while it writes the result.
struct TornJob {
  explicit TornJob(bool keeps_old_values) {
    for (std::size_t d = 0; d < 2; ++d) devices.device(d).next_copy_fails = &next_copy_fails;
    if (keeps_old_values) attempt.keep_old_values();
    attempt.run(devices.start());
    EXPECT_TRUE(attempt.failed);
    EXPECT_NE(attempt.made.outcomes[0].usable, attempt.made.outcomes[1].usable);
    if (attempt.made.outcomes[0].usable) std::swap(lost, other);
  }

  const DeclaredGraph graph{{{.steps = {product(1, 2)}, .reads_old = true}}};
  std::atomic<bool> next_copy_fails = true;
  CrewOf devices{2};
  AttemptOf attempt{devices, graph, {true, true}, {100, 100}};
  std::size_t lost = 0, other = 1;
};

TEST(Crew, ATornTileComesBackFromItsKeeperByTheThreadOfThat) {
  TornJob job(true);
  EXPECT_TRUE(job.attempt.made.outcomes[job.lost].torn.empty());
  const InstantDevice& keeper = job.devices.device(job.other);
  const auto copies = keeper.work(StreamKind::down);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].host, output_of(0).address);
  EXPECT_EQ(keeper.copied_by[0], keeper.thread);
}

TEST(Crew, ATileThatNobodyKeepsStaysTorn) {
  const TornJob job(false);
  ASSERT_EQ(job.attempt.made.outcomes[job.lost].torn.size(), 1U);
  EXPECT_EQ(job.attempt.made.outcomes[job.lost].torn[0].task, 0);
}

}  // namespace crew_test
}  // namespace tessera::runtime
