// The properties that only host devices have: modelled time and memory limits. Failures are in
// host_device_failure_test.cpp. Durations are compared with the model only in the direction that a slow machine cannot
// break: an operation never ends before its reserved interval.
#include "device/host/host_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "tests/device/backends.hpp"
#include "tests/device/host_device_with_memory.hpp"

namespace tessera {
namespace host_device_test {

using device::EventPtr;
using device::EventStatus;
using device::HostDevice;
using device::StreamId;
using device::StreamKind;
using namespace test::streams;  // NOLINT(google-build-using-namespace)
using test::finish;
using Fixture = test::HostDeviceWithMemory;
using test::wait_for;

TEST(HostDevice, MemoryIsWhatTheSettingsSay) {
  HostDeviceSettings settings;
  settings.memory_bytes = 1 << 20;
  HostDevice device(3, settings);
  EXPECT_EQ(device.info().backend, "host");
  EXPECT_EQ(device.info().ordinal, 3);
  EXPECT_EQ(device.info().memory_bytes, settings.memory_bytes);
  EXPECT_EQ(device.free_memory_bytes(), settings.memory_bytes);
  EXPECT_THROW(device.reserve(settings.memory_bytes + 1), OutOfDeviceMemory);
  EXPECT_THROW(device.reserve(0), InvalidArgument);
  EXPECT_NE(device.reserve(settings.memory_bytes - 4096), nullptr);
  EXPECT_EQ(device.free_memory_bytes(), 4096u);
  EXPECT_THROW(device.reserve(1), InternalError) << "once";
}

TEST(HostDevice, CommitsNoMoreThanOthersLeave) {
  HostDeviceSettings settings;
  settings.memory_bytes = 1 << 20;
  HostDevice device(0, settings);
  std::byte* const slab = device.reserve_addresses(1 << 20);
  ASSERT_NE(slab, nullptr);
  EXPECT_THROW(device.reserve(4096), InternalError) << "one slab";
  EXPECT_FALSE(device.holds({slab, 8}, {8, 1}));
  device.set_memory_of_others(1000000);
  EXPECT_EQ(device.free_memory_bytes(), 48576u);
  EXPECT_EQ(device.commit(1 << 20), 48576u);
  EXPECT_TRUE(device.holds({slab + 48568, 8}, {8, 1}));
  EXPECT_FALSE(device.holds({slab + 48569, 8}, {8, 1}));
  device.set_memory_of_others(1 << 20);
  EXPECT_EQ(device.free_memory_bytes(), 0u);
  EXPECT_EQ(device.commit(1 << 20), 48576u) << "what is ours stays ours";
  EXPECT_EQ(device.decommit(50000), 48576u);
  EXPECT_EQ(device.decommit(100), 100u);
  EXPECT_FALSE(device.holds({slab + 100, 8}, {8, 1}));
}

TEST(HostDevice, CopiesOutsideTheSlabAreRefused) {
  Fixture f({});
  Fixture other({}, 1);
  std::byte* const end = f.slab + Fixture::bytes;
  const device::Block host{f.host.data(), 8};
  EXPECT_THROW(f.device.copy_up({f.host.data(), 8}, host, {8, 1}), InternalError);
  EXPECT_THROW(f.device.copy_up({end - 7, 8}, host, {8, 1}), InternalError);
  EXPECT_THROW(f.device.copy_up({f.slab - 1, 8}, host, {8, 1}), InternalError);
  EXPECT_THROW(f.device.copy_down(host, {end - 15, 8}, {8, 2}), InternalError);
  EXPECT_THROW(f.device.copy_down(host, {f.slab, 4}, {8, 2}), InternalError) << "columns overlap";
  EXPECT_THROW(f.device.copy_down(host, {f.slab, 8}, {8, -1}), InternalError);
  EXPECT_THROW(f.device.copy_peer({f.slab, 8}, other.device, {f.slab, 8}, {8, 1}), InternalError)
      << "not the source's slab";
  EXPECT_THROW(f.device.copy_peer({other.slab, 8}, other.device, {other.slab, 8}, {8, 1}), InternalError);
  EXPECT_THROW(f.device.copy_to_peer(other.device, {f.slab, 8}, {f.slab, 8}, {8, 1}), InternalError)
      << "not the target's slab";
  EXPECT_THROW(f.device.copy_to_peer(other.device, {other.slab, 8}, {other.slab, 8}, {8, 1}), InternalError);
  EXPECT_TRUE(f.device.holds({end - 16, 8}, {8, 2}));
  EXPECT_TRUE(f.device.holds({end - 12, 8}, {4, 2})) << "no padding is needed after the last column";
  EXPECT_FALSE(f.device.holds({end - 16, 9}, {8, 2}));
  EXPECT_FALSE(f.device.holds({f.slab, 8}, {8, INT64_MAX / 8}));
  EXPECT_EQ(finish(f.device, up), EventStatus::complete) << "a refused copy does no harm";
}

TEST(HostDevice, ForeignEventsAreRefused) {
  class Foreign final : public device::Event {
    EventStatus status() const noexcept override { return EventStatus::complete; }
    double completed_at() const override { return 0; }
  };
  Fixture f({});
  EXPECT_THROW(f.device.wait(up, std::make_shared<Foreign>()), InternalError);
}

TEST(HostDevice, WaitHoldsAStreamUntilTheEventCompletes) {
  Fixture f({});
  std::atomic<bool> go{false};
  std::atomic<bool> passed{false};
  f.device.submit(
      compute(0),
      [&] {
        while (!go.load()) std::this_thread::yield();
      },
      0);
  const EventPtr held = f.device.record(compute(0));
  f.device.wait(compute(1), held);
  bool in_order = false;
  f.device.submit(
      compute(1),
      [&] {
        in_order = go.load();
        passed.store(true);
      },
      0);
  // Streams without waits continue meanwhile.
  f.copy_up();
  EXPECT_EQ(finish(f.device, up), EventStatus::complete);
  EXPECT_EQ(finish(f.device, compute(2)), EventStatus::complete);
  EXPECT_EQ(held->status(), EventStatus::pending);
  EXPECT_FALSE(passed.load());
  EXPECT_THROW(held->completed_at(), InternalError);
  go.store(true);
  EXPECT_EQ(finish(f.device, compute(1)), EventStatus::complete);
  EXPECT_TRUE(passed.load());
  EXPECT_TRUE(in_order);
}

TEST(HostDevice, CopiesOfOneEngineTakeTheModelledTimeOneAfterTheOther) {
  HostDeviceSettings settings;
  settings.link_bytes_per_s = 64e6;  // 64 KiB in about 1 ms
  settings.delay_s = 1e-3;
  Fixture f(settings);
  const double each = static_cast<double>(Fixture::bytes) / settings.link_bytes_per_s + settings.delay_s;
  const double begin = device::now_seconds();
  std::vector<EventPtr> events;
  for (int i = 0; i < 5; ++i) {
    f.copy_up();
    events.push_back(f.device.record(up));
  }
  double former = begin;
  for (const EventPtr& event : events) {
    ASSERT_EQ(wait_for(event), EventStatus::complete);
    EXPECT_GE(event->completed_at(), former + each - 1e-9);
    EXPECT_LE(event->completed_at(), device::now_seconds());
    former = event->completed_at();
  }
}

TEST(HostDevice, ComputeStreamsShareOneEngine) {
  HostDeviceSettings settings;
  settings.flops_per_s = 1e9;
  Fixture f(settings);
  constexpr double each = 2e-3;
  constexpr int rounds = 3;
  const double begin = device::now_seconds();
  std::vector<EventPtr> events;
  for (int i = 0; i < rounds; ++i) {
    for (int s = 0; s < device::compute_streams; ++s) {
      f.device.submit(
          compute(s), [] {}, each);
      events.push_back(f.device.record(compute(s)));
    }
  }
  std::vector<double> ends;
  for (const EventPtr& event : events) {
    ASSERT_EQ(wait_for(event), EventStatus::complete);
    ends.push_back(event->completed_at());
  }
  // For any order of the streams the reserved intervals do not overlap, and no kernel ends before its own. So the i-th
  // end lies at least i durations after the beginning.
  std::sort(ends.begin(), ends.end());
  for (std::size_t i = 0; i < ends.size(); ++i) EXPECT_GE(ends[i], begin + static_cast<double>(i + 1) * each - 1e-9);
}

TEST(HostDevice, KernelsWithoutWorkTakeExactlyTheirModelledTime) {
  HostDeviceSettings settings;
  settings.flops_per_s = 1e9;
  Fixture f(settings);
  // The chain starts at the end of the first kernel; all later kernels were submitted long before they could start.
  std::atomic<bool> go{false};
  f.device.submit(
      compute(0),
      [&] {
        while (!go.load()) std::this_thread::yield();
      },
      0);
  const EventPtr first = f.device.record(compute(0));
  EventPtr last;
  for (int i = 0; i < 20; ++i) {
    const StreamId stream = compute(1 + i % 3);
    f.device.wait(stream, last ? last : first);
    f.device.submit(stream, {}, 5e-4);
    last = f.device.record(stream);
  }
  go.store(true);
  ASSERT_EQ(wait_for(last), EventStatus::complete);
  // Independent of how late the threads woke up.
  EXPECT_NEAR(last->completed_at() - first->completed_at(), 20 * 5e-4, 1e-6);
}

TEST(HostDevice, ReservedTimeStartsWhenTheAwaitedEventWasComplete) {
  HostDeviceSettings settings;
  settings.link_bytes_per_s = 64e6;
  Fixture f(settings);
  f.copy_up();
  const EventPtr uploaded = f.device.record(up);
  f.device.wait(compute(0), uploaded);
  f.device.submit(
      compute(0), [] {}, 3e-3);
  const EventPtr computed = f.device.record(compute(0));
  f.device.wait(down, computed);
  f.copy_down();
  const EventPtr downloaded = f.device.record(down);
  ASSERT_EQ(wait_for(downloaded), EventStatus::complete);
  const double copy = static_cast<double>(Fixture::bytes) / settings.link_bytes_per_s;
  EXPECT_GE(computed->completed_at(), uploaded->completed_at() + 3e-3 - 1e-9);
  EXPECT_GE(downloaded->completed_at(), computed->completed_at() + copy - 1e-9);
}

TEST(HostDevice, ATriangleTakesTheTimeOfItsOwnBytes) {
  HostDeviceSettings settings;
  settings.link_bytes_per_s = 10e6;
  Fixture f(settings);
  constexpr index_t n = 50;
  const device::Block host{f.host.data(), n * 8};
  const device::Block slab{f.slab, n * 8};
  f.device.copy_up(slab, host, {n * 8, n});
  const EventPtr full = f.device.record(up);
  f.device.copy_up(slab, host, {n * 8, n, Part::upper, 8});
  const EventPtr upper = f.device.record(up);
  ASSERT_EQ(wait_for(upper), EventStatus::complete);
  constexpr double triangle_bytes = n * (n + 1) / 2 * 8;
  EXPECT_GE(upper->completed_at(), full->completed_at() + triangle_bytes / settings.link_bytes_per_s - 1e-9);
}

TEST(HostDevice, ATriangleOfABlockThatIsNotSquareIsRefused) {
  Fixture f({});
  const device::Block host{f.host.data(), 64};
  const device::Block slab{f.slab, 64};
  EXPECT_THROW(f.device.copy_up(slab, host, {64, 7, Part::lower, 8}), InternalError);
  EXPECT_THROW(f.device.copy_down(host, slab, {32, 8, Part::upper, 8}), InternalError);
  EXPECT_NO_THROW(f.device.copy_up(slab, host, {64, 8, Part::lower, 8}));
  EXPECT_EQ(finish(f.device, up), EventStatus::complete);
  EXPECT_TRUE(f.device.holds({f.slab + Fixture::bytes - 64, 8}, {8, 8, Part::lower, 1}));
  EXPECT_FALSE(f.device.holds({f.slab + Fixture::bytes - 63, 8}, {8, 8, Part::lower, 1}));
}

TEST(HostDevice, DestructionCompletesWhatWasSubmitted) {
  HostDeviceSettings settings;
  settings.delay_s = 1e-4;
  std::atomic<int> done{0};
  std::vector<EventPtr> events;
  {
    Fixture f(settings);
    EventPtr last;
    for (int i = 0; i < 40; ++i) {
      const StreamId stream = compute(i % device::compute_streams);
      if (last) f.device.wait(stream, last);
      f.device.submit(
          stream, [&] { done.fetch_add(1); }, 0);
      last = f.device.record(stream);
      events.push_back(last);
    }
  }
  EXPECT_EQ(done.load(), 40);
  for (const EventPtr& event : events) EXPECT_EQ(event->status(), EventStatus::complete);
}

TEST(HostDevice, ListenersMayBeExchangedWhileEventsComplete) {
  Fixture f({});
  std::atomic<bool> stop{false};
  // The setter destroys the listener's data right after the exchange; the sanitizers would see a call that is still
  // running.
  std::thread setter([&] {
    while (!stop.load()) {
      auto counter = std::make_unique<std::atomic<int>>(0);
      f.device.on_completion([&calls = *counter] { calls.fetch_add(1); });
      f.device.on_completion({});
    }
  });
  EventPtr last;
  for (int i = 0; i < 5000; ++i) last = f.device.record(compute(i % device::compute_streams));
  EXPECT_EQ(wait_for(last), EventStatus::complete);
  EXPECT_TRUE(f.device.recover());
  stop.store(true);
  setter.join();
}

TEST(HostDevice, SeveralThreadsMaySubmit) {
  Fixture f({});
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        f.device.submit(
            compute((t + i) % device::compute_streams), [&] { done.fetch_add(1); }, 0);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(f.device.recover());
  EXPECT_EQ(done.load(), 2000);
}

TEST(HostBackend, OpensDevicesWithTheirOwnSettings) {
  std::vector<HostDeviceSettings> settings(2);
  settings[0].memory_bytes = 1 << 20;
  settings[0].flops_per_s = 1e9;
  settings[1].memory_bytes = 2 << 20;
  settings[1].link_bytes_per_s = 3e9;
  test::OpenedDevices opened = test::open_host_devices(3, settings);
  const auto infos = opened.backend->devices();
  ASSERT_EQ(infos.size(), 3u);
  ASSERT_EQ(opened.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(infos[i].ordinal, static_cast<int>(i));
    EXPECT_EQ(infos[i].memory_bytes, settings[std::min<std::size_t>(i, 1)].memory_bytes) << "the last settings repeat";
    EXPECT_EQ(opened.device(i).info().memory_bytes, infos[i].memory_bytes);
  }
  EXPECT_EQ(infos[0].flops_per_s, 1e9);
  EXPECT_EQ(infos[2].link_bytes_per_s, 3e9);
  EXPECT_TRUE(opened.device(0).can_access(opened.device(2)));
  EXPECT_THROW(opened.backend->open({3}, 0), NotAvailable);
  EXPECT_THROW(opened.backend->open({-1}, 0), NotAvailable);
}

}  // namespace host_device_test
}  // namespace tessera
