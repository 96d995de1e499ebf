// Failures that are injected into host devices: what is lost with a device, what is poisoned, and what recovers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "device/host/host_device.hpp"
#include "tests/device/backends.hpp"
#include "tests/device/host_device_with_memory.hpp"

namespace tessera {
namespace host_device_failure_test {

using device::EventPtr;
using device::EventStatus;
using device::StreamId;
using device::StreamKind;
using namespace test::streams;  // NOLINT(google-build-using-namespace)
using test::finish;
using Fixture = test::HostDeviceWithMemory;
using test::wait_for;

TEST(HostDeviceFailure, RefusesTheOneSubmissionThatItIsToldTo) {
  HostDeviceSettings settings;
  settings.refused_op = 1;
  Fixture f(settings);
  f.copy_up();
  EXPECT_THROW(f.copy_down(), WorkRefused);
  f.copy_down();
  EXPECT_EQ(finish(f.device, down), EventStatus::complete);
  EXPECT_TRUE(f.device.recover());
}

TEST(HostDeviceFailure, TheFailingOperationLosesTheDeviceForEver) {
  HostDeviceSettings settings;
  settings.fail_after_ops = 2;
  Fixture f(settings);
  f.copy_up();
  EXPECT_EQ(finish(f.device, up), EventStatus::complete);
  f.copy_down();
  EXPECT_EQ(finish(f.device, down), EventStatus::complete);
  // The third operation fails. Another device delays it until everything is submitted.
  Fixture gate({}, 1);
  std::atomic<bool> go{false};
  gate.device.submit(
      compute(0),
      [&] {
        while (!go.load()) std::this_thread::yield();
      },
      0);
  f.device.wait(compute(0), gate.device.record(compute(0)));
  bool ran = false;
  f.device.submit(
      compute(0), [&] { ran = true; }, 0);
  const EventPtr failed = f.device.record(compute(0));
  go.store(true);
  EXPECT_FALSE(f.device.recover());
  EXPECT_FALSE(ran);
  EXPECT_EQ(failed->status(), EventStatus::failed);
  EXPECT_THROW(failed->completed_at(), InternalError);
  EXPECT_THROW(f.copy_up(), DeviceLost);
  EXPECT_THROW(f.copy_down(), DeviceLost);
  EXPECT_THROW(f.device.record(compute(3)), DeviceLost);
  EXPECT_THROW(f.device.wait(up, failed), DeviceLost);
  EXPECT_THROW(f.device.submit(
                   compute(0), [] {}, 0),
               DeviceLost);
  EXPECT_FALSE(f.device.recover()) << "for ever";
}

TEST(HostDeviceFailure, OneKindOfOperationMayBeTheFailingOne) {
  HostDeviceSettings settings;
  settings.failing_operation = FailingOperation::to_peer;
  settings.fail_after_ops = 1;
  Fixture f(settings);
  Fixture other({}, 1);
  f.copy_up();
  f.copy_down();
  f.device.copy_peer({f.slab, 8}, other.device, {other.slab, 8}, {8, 1});
  f.device.copy_to_peer(other.device, {other.slab, 8}, {f.slab, 8}, {8, 1});
  EXPECT_EQ(finish(f.device, to_peer), EventStatus::complete);
  EXPECT_TRUE(f.device.recover());
  EXPECT_EQ(f.device.operations(StreamKind::to_peer), 1);
  f.device.copy_to_peer(other.device, {other.slab, 8}, {f.slab, 8}, {8, 1});
  EXPECT_FALSE(f.device.recover());
  EXPECT_TRUE(other.device.recover());
}

TEST(HostDeviceFailure, AFailingCopyMayLeaveItsTargetHalfWritten) {
  HostDeviceSettings settings;
  settings.fail_after_ops = 0;
  Fixture f(settings);
  std::vector<std::byte> target(100, std::byte{0x55});
  f.device.copy_down({target.data(), 10}, {f.slab, 10}, {10, 10});
  EXPECT_FALSE(f.device.recover());
  EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{0}), 50);
}

TEST(HostDeviceFailure, AFailingCopyOfATriangleWritesNothingOutsideIt) {
  HostDeviceSettings settings;
  settings.fail_after_ops = 0;
  Fixture f(settings);
  std::vector<std::byte> target(64, std::byte{0x55});
  f.device.copy_down({target.data(), 8}, {f.slab, 8}, {8, 8, Part::lower, 1});
  EXPECT_FALSE(f.device.recover());
  EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{0}), 8 + 7 + 6 + 5);
}

TEST(HostDeviceFailure, AKernelThatThrowsLosesTheDevice) {
  Fixture f({});
  f.device.submit(
      compute(1), [] { throw std::runtime_error("a kernel failed"); }, 0);
  EXPECT_FALSE(f.device.recover());
  EXPECT_THROW(f.device.record(compute(0)), DeviceLost);
}

TEST(HostDeviceFailure, WorkQueuedBehindAFailureEndsFailed) {
  HostDeviceSettings settings;
  settings.fail_after_ops = 1;
  Fixture f(settings);
  // Operation 0 runs on a compute stream until operation 1, on another stream, loses the device.
  Fixture gate({}, 1);
  std::atomic<bool> submitted{false};
  std::atomic<bool> lost{false};
  gate.device.submit(
      compute(0),
      [&] {
        while (!submitted.load()) std::this_thread::yield();
      },
      0);
  const EventPtr open = gate.device.record(compute(0));
  std::atomic<bool> started{false};
  f.device.submit(
      compute(0),
      [&] {
        started.store(true);
        while (!lost.load()) std::this_thread::yield();
      },
      0);
  while (!started.load()) std::this_thread::yield();
  const EventPtr running = f.device.record(compute(0));
  f.device.wait(up, open);
  f.copy_up();
  const EventPtr loser = f.device.record(up);
  std::vector<EventPtr> behind;
  for (int s = 1; s < device::compute_streams; ++s) {
    f.device.wait(compute(s), running);
    behind.push_back(f.device.record(compute(s)));
  }
  submitted.store(true);
  EXPECT_EQ(wait_for(loser), EventStatus::failed);
  EXPECT_EQ(running->status(), EventStatus::pending);
  lost.store(true);
  EXPECT_FALSE(f.device.recover());
  EXPECT_EQ(running->status(), EventStatus::failed) << "it ended after the device was lost";
  for (const EventPtr& event : behind) EXPECT_EQ(event->status(), EventStatus::failed);
}

TEST(HostDeviceFailure, FailurePoisonsWaitersOnOtherDevicesUntilTheyRecover) {
  HostDeviceSettings bad;
  bad.fail_after_ops = 0;
  Fixture failing(bad, 0);
  Fixture good({}, 1);
  std::fill(good.host.begin(), good.host.end(), std::byte{7});

  // A compute stream of the failing device is blocked, so that its event is still pending when the good device waits
  // for it.
  Fixture gate({}, 2);
  std::atomic<bool> go{false};
  gate.device.submit(
      compute(0),
      [&] {
        while (!go.load()) std::this_thread::yield();
      },
      0);
  failing.device.wait(compute(0), gate.device.record(compute(0)));
  failing.device.submit(
      compute(0), [] {}, 0);
  const EventPtr failed = failing.device.record(compute(0));

  good.device.wait(peer, failed);
  good.device.copy_peer({good.slab, 16}, failing.device, {failing.slab, 16}, {16, 1});
  const EventPtr poisoned = good.device.record(peer);
  bool ran = false;
  good.device.wait(compute(0), poisoned);
  good.device.submit(
      compute(0), [&] { ran = true; }, 0);
  const EventPtr further = good.device.record(compute(0));
  good.copy_up();
  const EventPtr independent = good.device.record(up);
  go.store(true);

  EXPECT_EQ(wait_for(failed), EventStatus::failed);
  EXPECT_EQ(wait_for(poisoned), EventStatus::failed);
  EXPECT_EQ(wait_for(further), EventStatus::failed);
  EXPECT_EQ(wait_for(independent), EventStatus::complete) << "a stream that waited for nothing is not touched";
  // Until recovery the stream stays poisoned, but the device accepts submissions.
  EXPECT_EQ(finish(good.device, compute(0)), EventStatus::failed);
  EXPECT_FALSE(failing.device.recover());
  EXPECT_TRUE(good.device.recover());
  EXPECT_FALSE(ran);
  good.device.submit(
      compute(0), [&] { ran = true; }, 0);
  EXPECT_EQ(finish(good.device, compute(0)), EventStatus::complete);
  EXPECT_TRUE(ran);
  EXPECT_EQ(finish(good.device, peer), EventStatus::complete);
  // Memory of a lost device cannot be read.
  good.device.copy_peer({good.slab, 16}, failing.device, {failing.slab, 16}, {16, 1});
  EXPECT_EQ(finish(good.device, peer), EventStatus::failed);
  EXPECT_TRUE(good.device.recover());
  good.device.copy_to_peer(failing.device, {failing.slab, 16}, {good.slab, 16}, {16, 1});
  EXPECT_EQ(finish(good.device, to_peer), EventStatus::failed) << "nor written";
  EXPECT_TRUE(good.device.recover());
  good.copy_down();
  EXPECT_EQ(finish(good.device, down), EventStatus::complete);
  EXPECT_TRUE(good.host == std::vector<std::byte>(good.host.size(), std::byte{7}));
}

}  // namespace host_device_failure_test
}  // namespace tessera
