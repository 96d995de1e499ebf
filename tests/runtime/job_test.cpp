// The loop over the attempts of a job, Runtime::run(), with jobs that compute nothing and say what became of devices.
#include "runtime/job.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/memory_limit.hpp"
#include "core/process.hpp"
#include "device/host/host_device.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "pool/segment_pool.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"

namespace tessera::runtime {
namespace job_test {

using Fate = DeviceFate::Kind;
using Needs = DeviceNeeds::Kind;

constexpr std::size_t memory_bytes = std::size_t{1} << 20;

std::unique_ptr<Runtime> runtime_of(int devices) {
  HostDeviceSettings settings;
  settings.memory_bytes = memory_bytes;
  test::OpenedDevices opened = test::open_host_devices(
      devices, std::vector<HostDeviceSettings>(static_cast<std::size_t>(devices), settings), test::cpu_blas());
  return std::make_unique<Runtime>(std::move(opened.accelerators), Config{}, [](const Level3&) {});
}

/// Each of its attempts is a function of the fates of the devices; it is over after the last one, or on the CPU.
class ScriptedJob final : public Job {
 public:
  using Attempt = std::function<bool(std::span<DeviceFate> fates)>;

  ScriptedJob(int devices, std::vector<Attempt> attempts)
      : Job({.routine = "script", .devices = {}}, names_of(devices)), script_(std::move(attempts)) {}

  bool has_more() const override { return attempts.size() < script_.size() || leaves_more; }
  DeviceNeeds needs(std::span<const DeviceCapacity> capacities) override {
    usable.clear();
    for (const DeviceCapacity& device : capacities) usable.push_back(device.bytes > 0);
    if (std::find(usable.begin(), usable.end(), true) == usable.end()) return {};
    DeviceNeeds needs{kind};
    for (const bool may : usable) needs.request.shares.push_back({may ? part_bytes : 0, memory_bytes});
    needs.request.devices = static_cast<index_t>(usable.size());
    return needs;
  }
  std::vector<std::size_t> slab_bytes(const Admission::Stay& stay) override {
    if (kind == Needs::parts && wants.empty()) return Job::slab_bytes(stay);
    std::vector<std::size_t> bytes;
    for (std::size_t d = 0; d < usable.size(); ++d)
      bytes.push_back(!usable[d] ? 0 : wants.empty() ? part_bytes : wants[d % wants.size()]);
    return bytes;
  }
  bool attempt(const Admission::Stay& /*stay*/, std::span<DeviceFate> fates) override {
    attempts.push_back(usable);
    if (writes) note_writing();
    return attempts.size() > script_.size() || script_[attempts.size() - 1](fates);
  }
  std::vector<device::Touched> touched() const override { return memory; }
  void finish_on_cpu() override {
    ++finishes;
    if (!cpu_can) throw NoDeviceLeft("the CPU cannot");
  }

  void script(std::vector<Attempt> attempts) { script_ = std::move(attempts); }

  // The needs of the job.
  Needs kind = Needs::alone;
  std::vector<device::Touched> memory;
  std::vector<std::size_t> wants;  ///< of devices in turn; empty: part_bytes of each
  std::size_t part_bytes = 4096;
  bool writes = true, cpu_can = true, leaves_more = false;
  // The record of the calls that it got.
  std::vector<bool> usable;                 ///< by device, when it was asked last
  std::vector<std::vector<bool>> attempts;  ///< on which devices
  int finishes = 0;

 private:
  static std::vector<std::string> names_of(int devices) {
    std::vector<std::string> names;
    for (int d = 0; d < devices; ++d) names.push_back("host:" + std::to_string(d));
    return names;
  }

  std::vector<Attempt> script_;
};

ScriptedJob::Attempt becomes(std::size_t device, Fate fate) {
  return [=](std::span<DeviceFate> fates) {
    fates[device] = {fate, fate == Fate::well ? "" : "scripted"};
    return true;
  };
}

using Devices = std::vector<std::vector<bool>>;

TEST(Job, GoesOnWithoutDevicesThatFailInTurnAndEndsOnTheCpu) {
  for (const Needs kind : {Needs::alone, Needs::parts}) {
    const auto runtime = runtime_of(3);
    ScriptedJob job(3, {becomes(1, Fate::erred), becomes(0, Fate::lost), becomes(2, Fate::lost)});
    job.kind = kind;
    job.leaves_more = true;
    EXPECT_TRUE(runtime->run(job));
    EXPECT_EQ(job.attempts, (Devices{{true, true, true}, {true, false, true}, {false, false, true}}));
    EXPECT_EQ(job.statistics().restarts, 3);
    EXPECT_EQ(job.finishes, 1);
    EXPECT_EQ(runtime->devices().size(), 1U) << "what has only erred works for others";
    EXPECT_GT(job.statistics().device_s, 0);
    ScriptedJob next(3, {becomes(1, Fate::well)});
    EXPECT_TRUE(runtime->run(next));
    EXPECT_EQ(next.attempts, (Devices{{false, true, false}}));
  }
}

TEST(Job, MemoryOfAPoolIsLockedOnceDevicesHaveUsedIt) {
  pool::SegmentPool::open_for_process(true);
  pool::SegmentPool& pool = *pool::SegmentPool::of_process();
  if (memory_limit() < std::size_t{16} << 30) GTEST_SKIP() << "a machine of so little memory locks none of it";
  constexpr std::size_t bytes = std::size_t{8} << 20;
  auto* const memory = static_cast<std::byte*>(pool.allocate(bytes));
  std::memset(memory, 1, bytes);
  {
    const auto runtime = runtime_of(1);
    ScriptedJob job(1, {becomes(0, Fate::well)});
    job.memory = {{{memory, static_cast<index_t>(bytes), static_cast<index_t>(bytes), 1}}};
    EXPECT_TRUE(runtime->run(job));
    for (int i = 0; i < 60000 && pool.locked_bytes() < bytes; ++i) usleep(1000);  // a minute is a hang
    EXPECT_EQ(pool.locked_bytes(), bytes);
  }
  pool.free(memory);
  pool.trim();
  EXPECT_EQ(pool.locked_bytes(), 0U);
}

TEST(Job, MemoryOfAPoolThatOnlyTheCpuHasUsedIsNotLocked) {
  pool::SegmentPool::open_for_process(true);
  pool::SegmentPool& pool = *pool::SegmentPool::of_process();
  constexpr std::size_t bytes = std::size_t{8} << 20;
  auto* const memory = static_cast<std::byte*>(pool.allocate(bytes));
  std::memset(memory, 1, bytes);
  const auto runtime = runtime_of(1);
  ScriptedJob job(1, {[](std::span<DeviceFate>) { return false; }});
  job.leaves_more = true;
  job.memory = {{{memory, static_cast<index_t>(bytes), static_cast<index_t>(bytes), 1}}};
  EXPECT_TRUE(runtime->run(job));
  EXPECT_EQ(job.finishes, 1);
  usleep(20000);
  EXPECT_EQ(pool.locked_bytes(), 0U);
  pool.free(memory);
}

TEST(Job, IsOverAtOnceWhenDevicesHaveDoneAll) {
  const auto runtime = runtime_of(2);
  ScriptedJob job(2, {becomes(0, Fate::well)});
  EXPECT_TRUE(runtime->run(job));
  EXPECT_EQ(job.attempts.size(), 1U);
  EXPECT_EQ(job.statistics().restarts, 0);
}

TEST(Job, IsTheCpusWhereDevicesAreWellButDoNoMore) {
  const auto runtime = runtime_of(1);
  for (const bool has_begun : {true, false}) {
    ScriptedJob job(1, {[=](std::span<DeviceFate>) { return has_begun; }});
    job.leaves_more = true;
    EXPECT_TRUE(runtime->run(job));
    EXPECT_EQ(job.attempts.size(), 1U);
    EXPECT_EQ(job.statistics().restarts, 0);
    EXPECT_EQ(job.finishes, 1);
  }
}

TEST(Job, GoesOnWithoutDevicesThatRefuseMemoryOrIsPlannedAgain) {
  const auto runtime = runtime_of(2);
  ScriptedJob job(2, {becomes(1, Fate::well)});
  job.wants = {2 * memory_bytes, 4096};
  EXPECT_TRUE(runtime->run(job));
  EXPECT_EQ(job.attempts, (Devices{{false, true}}));
  EXPECT_EQ(job.statistics().restarts, 0) << "no attempt has failed";

  ScriptedJob planned(2, {becomes(1, Fate::well)});
  planned.wants = job.wants;
  planned.kind = Needs::parts;
  EXPECT_FALSE(runtime->run(planned));
  EXPECT_TRUE(planned.attempts.empty());
  EXPECT_EQ(planned.finishes, 0);

  ScriptedJob outdated(2, {becomes(1, Fate::well)});
  outdated.kind = Needs::replan;
  EXPECT_FALSE(runtime->run(outdated));
  EXPECT_EQ(outdated.finishes, 0);
}

// A job that has written cannot be planned again.
TEST(Job, GoesOnWithFewerDevicesOnceItHasWritten) {
  const auto runtime = runtime_of(3);
  ScriptedJob job(3, {});
  job.kind = Needs::parts;
  job.leaves_more = true;
  ScriptedJob::Attempt asks_for_more = [&](std::span<DeviceFate> fates) {
    fates[0] = {Fate::erred, "scripted"};
    job.wants = {4096, 2 * memory_bytes, 4096};
    return true;
  };
  job.script({asks_for_more, becomes(2, Fate::well)});
  EXPECT_TRUE(runtime->run(job));
  EXPECT_EQ(job.attempts, (Devices{{true, true, true}, {false, false, true}}));
  EXPECT_EQ(job.finishes, 1);
}

TEST(Job, IsTheCpusWhereNoDeviceGivesMemory) {
  const auto runtime = runtime_of(2);
  ScriptedJob job(2, {becomes(1, Fate::well)});
  job.wants = {2 * memory_bytes};
  EXPECT_TRUE(runtime->run(job));
  EXPECT_TRUE(job.attempts.empty());
  EXPECT_EQ(job.finishes, 1);
  EXPECT_EQ(runtime->devices().size(), 2U);
}

TEST(Job, SaysSoWhereTheCpuCannotFinishIt) {
  const auto runtime = runtime_of(1);
  ScriptedJob job(1, {becomes(0, Fate::lost)});
  job.cpu_can = false;
  EXPECT_THROW(runtime->run(job), NoDeviceLeft);
}

TEST(Job, MemoryThatEndsIsALossOnceTheCallersMayHaveBeenWritten) {
  const auto throws = [](std::span<DeviceFate> fates) -> bool {
    fates[0] = {Fate::lost, "scripted"};
    throw std::bad_alloc();
  };
  for (const bool writes : {true, false}) {
    const auto runtime = runtime_of(2);
    ScriptedJob job(2, {throws});
    job.writes = writes;
    if (writes) {
      EXPECT_THROW(runtime->run(job), DeviceLost);
    } else {
      EXPECT_THROW(runtime->run(job), std::bad_alloc);
    }
    EXPECT_EQ(runtime->devices().size(), 1U) << "what a job throws hides no loss";
  }
}

// The first error of a device may be due to another job's work.
TEST(Job, ForgivesADeviceThatItShares) {
  const auto runtime = runtime_of(1);
  std::atomic<bool> other_is_there = false, other_leaves = false;
  ScriptedJob other(1, {[&](std::span<DeviceFate>) {
                      other_is_there = true;
                      while (!other_leaves) std::this_thread::yield();
                      return true;
                    }});
  other.kind = Needs::parts;
  std::thread caller([&] { runtime->run(other); });
  while (!other_is_there) std::this_thread::yield();
  ScriptedJob job(1, {becomes(0, Fate::erred), becomes(0, Fate::erred)});
  job.kind = Needs::parts;
  job.leaves_more = true;
  EXPECT_TRUE(runtime->run(job));
  other_leaves = true;
  caller.join();
  EXPECT_EQ(job.attempts, (Devices{{true}, {true}})) << "forgiven once";
  EXPECT_EQ(job.statistics().beside, 1);
  EXPECT_EQ(job.finishes, 1);
}

TEST(JobAtTheEnd, IsTheCpus) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto runtime = runtime_of(1);
        // While it is attempted, and before.
        std::thread leaver;
        ScriptedJob job(1, {[&](std::span<DeviceFate> fates) {
                          leaver = std::thread([] { process::leave_devices(); });
                          while (!process::ending()) std::this_thread::yield();
                          fates[0] = {Fate::erred, "scripted"};
                          return true;
                        }});
        job.leaves_more = true;
        bool good = runtime->run(job) && job.attempts.size() == 1 && job.finishes == 1;
        good = good && job.statistics().restarts == 0;
        leaver.join();
        ScriptedJob late(1, {becomes(0, Fate::well)});
        good = good && runtime->run(late) && late.attempts.empty() && late.finishes == 1;
        _exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace job_test
}  // namespace tessera::runtime
