// Several calls at once on one runtime: side by side on devices of their own, and together on one.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "routines/level3.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace several_calls_test {

using test::HostRuntime;

constexpr index_t tile = 16;
constexpr std::size_t tile_bytes = tile * tile * sizeof(double);

HostDeviceSettings with_memory(index_t tiles) {
  HostDeviceSettings settings;
  settings.memory_bytes = static_cast<std::size_t>(tiles) * tile_bytes;
  return settings;
}

/// A problem of some routine and shape, the same for the same seed.
std::unique_ptr<test::Level3Fixture<double>> problem(unsigned seed, index_t largest) {
  std::minstd_rand random(seed);
  constexpr Routine routines[] = {Routine::gemm, Routine::symm, Routine::syrk, Routine::trmm, Routine::trsm};
  const auto size = [&] { return 1 + static_cast<index_t>(random()) % largest; };
  test::Level3Case c;
  c.routine = routines[random() % std::size(routines)];
  c.uplo = random() % 2 == 0 ? Uplo::lower : Uplo::upper;
  c.side = random() % 2 == 0 ? Side::left : Side::right;
  c.op_a = random() % 2 == 0 ? Op::no_trans : Op::trans;
  c.m = size();
  c.n = size();
  c.k = size();
  c.alpha = 2;
  c.beta = 0.5;
  return std::make_unique<test::Level3Fixture<double>>(c, seed);
}

/// Threads that call one after the other. @return the statistics of all calls
std::vector<runtime::JobStatistics> call_from(int threads, int calls, index_t largest, HostRuntime& host) {
  std::vector<runtime::JobStatistics> all;
  std::mutex mutex;
  std::vector<std::thread> callers;
  for (int t = 0; t < threads; ++t) {
    callers.emplace_back([&, t] {
      for (int call = 0; call < calls; ++call) {
        const auto fixture = problem(static_cast<unsigned>(1 + t * calls + call), largest);
        const auto statistics = host.run_or_compute(fixture->problem(), tile);
        EXPECT_TRUE(fixture->check()) << "thread " << t << " call " << call;
        const std::lock_guard lock(mutex);
        if (statistics) all.push_back(*statistics);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  return all;
}

TEST(SeveralCalls, AreRightOnEveryNumberOfDevices) {
  for (const std::size_t devices : {1, 2, 3}) {
    for (const index_t tiles : {2000, 60, 14}) {  // some at once, one at a time, in groups
      HostRuntime host(std::vector(devices, with_memory(tiles)));
      const auto calls = call_from(6, 6, 5 * tile, host);
      EXPECT_EQ(calls.size(), 36u);
      EXPECT_EQ(host.host_products, 0) << devices << " devices of " << tiles << " tiles";
    }
  }
}

/// Calls of which none ends before all of `callers` have begun, because the devices are slow.
TEST(SeveralCalls, OfOneDeviceEachAreDealtOut) {
  HostDeviceSettings slow = with_memory(2000);
  slow.delay_s = 0.002;
  slow.share_bytes = std::size_t{1} << 30;  // none is worth two devices
  HostRuntime host({slow, slow});
  const auto calls = call_from(4, 1, 3 * tile, host);
  ASSERT_EQ(calls.size(), 4u);
  int on_device[2] = {};
  for (const runtime::JobStatistics& call : calls) {
    for (std::size_t d = 0; d < 2; ++d) on_device[d] += call.devices[d].tasks > 0 ? 1 : 0;
  }
  EXPECT_EQ(on_device[0] + on_device[1], 4) << "each on one device";
  EXPECT_EQ(on_device[0], 2);
}

// A short call does not wait for the end of a long one that has all devices.
TEST(SeveralCalls, AShortOneEndsBeforeALongOne) {
  HostDeviceSettings slow = with_memory(5000);
  slow.delay_s = 0.001;
  HostRuntime host({slow});
  test::Level3Case c;
  c.m = c.n = c.k = 12 * tile;
  test::Level3Fixture<double> large(c, 1);
  c.m = c.n = c.k = tile;
  test::Level3Fixture<double> small(c, 2);
  std::atomic<bool> large_has_ended = false;
  std::thread caller([&] {
    run(*host.runtime, large.problem(), tile);
    large_has_ended = true;
  });
  while (host.devices[0]->operations(device::StreamKind::compute) < 20) std::this_thread::yield();
  run(*host.runtime, small.problem(), tile);
  EXPECT_FALSE(large_has_ended);
  caller.join();
  EXPECT_TRUE(large.check());
  EXPECT_TRUE(small.check());
}

// Results are the same bits whatever else runs: the order in which a task is summed up does not depend on it.
TEST(SeveralCalls, GiveTheSameBitsAsAlone) {
  HostRuntime host({with_memory(3000), with_memory(3000)});
  test::Level3Case c;
  c.m = c.n = c.k = 5 * tile + 3;
  c.beta = 0.5;
  test::Level3Fixture<double> alone(c, 3);
  run(*host.runtime, alone.problem(), tile);
  std::vector<std::unique_ptr<test::Level3Fixture<double>>> together;
  for (int t = 0; t < 6; ++t) together.push_back(std::make_unique<test::Level3Fixture<double>>(c, 3));
  std::vector<std::thread> callers;
  for (auto& each : together) callers.emplace_back([&] { run(*host.runtime, each->problem(), tile); });
  for (std::thread& caller : callers) caller.join();
  const std::size_t bytes = alone.C().size() * sizeof(double);
  for (const auto& each : together) EXPECT_EQ(std::memcmp(each->C().data(), alone.C().data(), bytes), 0);
}

// A device that is lost takes no call with it, of however many.
TEST(SeveralCalls, SurviveTheLossOfADevice) {
  for (const FailingOperation kind : {FailingOperation::any, FailingOperation::kernel, FailingOperation::up,
                                      FailingOperation::down, FailingOperation::peer}) {
    for (const int after : {0, 10, 60}) {
      HostDeviceSettings failing = with_memory(2000);
      failing.fail_after_ops = after;
      failing.failing_operation = kind;
      HostRuntime host({with_memory(2000), failing});
      call_from(5, 3, 4 * tile, host);
    }
  }
}

TEST(SeveralCalls, SurviveARefusal) {
  for (const int refused : {3, 40}) {
    HostDeviceSettings refuses = with_memory(2000);
    refuses.refused_op = refused;
    HostRuntime host({refuses});
    call_from(4, 3, 4 * tile, host);
  }
}

TEST(SeveralCalls, EndOnTheCpuWhereAllDevicesAreLost) {
  HostDeviceSettings failing = with_memory(2000);
  failing.fail_after_ops = 100;
  HostRuntime host({failing, failing});
  call_from(5, 4, 4 * tile, host);
}

}  // namespace several_calls_test
}  // namespace tessera::routines
