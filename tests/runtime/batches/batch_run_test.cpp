// Batches on host devices, as the threads of several of them compute one: shared out, beside other callers, and when
// devices fail.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/config.hpp"
#include "device/host/host_device.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"
#include "tests/lapack_systems.hpp"
#include "tests/product_batch.hpp"
#include "tests/test_plugin.hpp"

namespace tessera::runtime {
namespace batch_run_test {

std::unique_ptr<Runtime> runtime_of(const std::vector<HostDeviceSettings>& settings,
                                    std::chrono::nanoseconds idle_patience = std::chrono::seconds(5)) {
  // The readable reference, so that devices and loops give the same bits.
  test::OpenedDevices opened = test::open_host_devices(static_cast<int>(settings.size()), settings, nullptr);
  return std::make_unique<Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3, 1,
                                   idle_patience);
}

index_t tasks_of(const JobStatistics& job, const std::string& device) {
  index_t tasks = 0;
  for (const DeviceStatistics& each : job.devices) tasks += each.device == device ? each.tasks : 0;
  return tasks;
}

TEST(BatchRun, DevicesShareTheProducts) {
  HostDeviceSettings slow;
  slow.delay_s = 500e-6;  // so that all have some, as a rule: which takes what depends on the moment
  const auto runtime = runtime_of({slow, slow, slow});
  const auto job = test::compute_batch(*runtime, 1);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->routine, "dgemm_batch");
  EXPECT_EQ(job->restarts, 0);
  EXPECT_GT(job->first_kernel_at, 0);
  index_t sum = 0;
  for (const char* const device : {"host:0", "host:1", "host:2"}) {
    sum += tasks_of(*job, device);
  }
  EXPECT_EQ(sum, test::Products::count);
  EXPECT_GT(job->bytes_up(), job->bytes_down());
  for (const DeviceStatistics& device : job->devices) {
    EXPECT_EQ(device.kernel_s > 0, device.tasks > 0) << device.device;
    EXPECT_EQ(device.bytes_up > 0, device.tasks > 0) << device.device;
  }
}

TEST(BatchRun, CallersTakeTurns) {
  const auto runtime = runtime_of({{}, {}});
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < 3; ++t) {
    callers.emplace_back([&, t] {
      for (unsigned i = 0; i < 2; ++i) EXPECT_TRUE(test::compute_batch(*runtime, 10 * t + i));
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(BatchRun, MemoryIsGivenBackWhenNobodyCalls) {
  const auto runtime = runtime_of({{}, {}}, std::chrono::milliseconds(20));
  EXPECT_TRUE(test::compute_batch(*runtime, 1));
  while (runtime->committed_bytes() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(test::compute_batch(*runtime, 2));
}

TEST(BatchRun, WhatAFailedDeviceHadIsComputedByAnother) {
  for (const FailingOperation kind :
       {FailingOperation::any, FailingOperation::up, FailingOperation::kernel, FailingOperation::down}) {
    HostDeviceSettings good, failing;
    good.delay_s = failing.delay_s = 300e-6;
    failing.fail_after_ops = 2;
    failing.failing_operation = kind;
    const auto runtime = runtime_of({failing, good});
    const auto job = test::compute_batch(*runtime, 1);
    ASSERT_TRUE(job);
    EXPECT_EQ(tasks_of(*job, "cpu"), 0);
    EXPECT_EQ(tasks_of(*job, "host:0") + tasks_of(*job, "host:1"), test::Products::count);
    const auto second = test::compute_batch(*runtime, 2);
    ASSERT_TRUE(second);
    EXPECT_EQ(tasks_of(*second, "host:0") + tasks_of(*second, "host:1"), test::Products::count);
  }
}

TEST(BatchRun, TheCpuComputesWhatNoDeviceDoes) {
  HostDeviceSettings failing;
  failing.fail_after_ops = 10;
  const auto runtime = runtime_of({failing});
  const auto job = test::compute_batch(*runtime, 1);
  ASSERT_TRUE(job);
  EXPECT_GT(tasks_of(*job, "cpu"), 0);
  EXPECT_EQ(tasks_of(*job, "cpu") + tasks_of(*job, "host:0"), test::Products::count);
  EXPECT_TRUE(runtime->devices().empty());
  EXPECT_FALSE(test::compute_batch(*runtime, 2)) << "nobody is left";
}

TEST(LapackBatchRun, DevicesShareTheProblems) {
  const auto runtime = runtime_of({{}, {}});
  for (const Routine routine : test::host_lapack_routines) {
    SCOPED_TRACE(name_of(routine));
    const auto job = test::compute_lapack_batch(*runtime, routine, 1);
    ASSERT_TRUE(job);
    EXPECT_EQ(job->routine, std::string("d") + name_of(routine) + "_batch");
    EXPECT_EQ(tasks_of(*job, "host:0") + tasks_of(*job, "host:1"), test::lapack_problems_of_batch);
    EXPECT_GT(job->flops, 0);
  }
}

// Matrices are replaced by their factors: what is computed again must begin with the matrices.
TEST(LapackBatchRun, WhatAFailedDeviceHadIsComputedByAnotherOrTheCpu) {
  for (const FailingOperation kind :
       {FailingOperation::any, FailingOperation::up, FailingOperation::kernel, FailingOperation::down}) {
    for (const Routine routine : {Routine::gesv, Routine::potri, Routine::getrs}) {
      HostDeviceSettings good, failing;
      good.delay_s = failing.delay_s = 100e-6;
      failing.fail_after_ops = 2;
      failing.failing_operation = kind;
      const auto two = runtime_of({failing, good});
      ASSERT_TRUE(test::compute_lapack_batch(*two, routine, 1));
      ASSERT_TRUE(test::compute_lapack_batch(*two, routine, 2));
      const auto one = runtime_of({failing});
      ASSERT_TRUE(test::compute_lapack_batch(*one, routine, 3));
    }
  }
}

Runtime* runtime_while_loading = nullptr;
void compute_while_loading() {
  const auto job = test::compute_batch(*runtime_while_loading, 1);
  ASSERT_TRUE(job);
  EXPECT_EQ(tasks_of(*job, "cpu"), test::Products::count);
  EXPECT_EQ(job->restarts, 0);
}

// In a library's constructor the thread holds the loader's lock, which threads that are new may need.
TEST(BatchRun, ACallerWhoHoldsTheLoaderWaitsForNoThread) {
  const auto runtime = runtime_of({{}, {}});
  runtime_while_loading = runtime.get();
  ASSERT_NO_FATAL_FAILURE(test::call_while_loading(&compute_while_loading));
  const auto job = test::compute_batch(*runtime, 2);
  ASSERT_TRUE(job);
  EXPECT_EQ(tasks_of(*job, "cpu"), 0);
}

TEST(BatchRun, ADeviceWithoutRoomForAProductLeavesItToTheCpu) {
  HostDeviceSettings small;
  small.memory_bytes = 16384;  // the smaller ones of the products fit
  const auto runtime = runtime_of({small});
  const auto job = test::compute_batch(*runtime, 1);
  ASSERT_TRUE(job);
  EXPECT_GT(tasks_of(*job, "cpu"), 0);
  EXPECT_GT(tasks_of(*job, "host:0"), 0);
}

}  // namespace batch_run_test
}  // namespace tessera::runtime
