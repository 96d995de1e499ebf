// The tile kernels of host devices: what they refuse, and the time that they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/kernels/device_runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace host_tile_ops_test {

using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::StreamKind;

TEST(HostTileOps, TilesOutsideTheDeviceAreRefused) {
  test::OpenedDevices opened = test::open_host_devices(1);
  std::byte* const slab = opened.device(0).reserve(3 * 64 * 8);
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 8;
  p.A = slab;
  p.B = slab + 64 * 8;
  p.C = slab + 2 * 64 * 8;
  EXPECT_NO_THROW(opened.ops(0).run(0, p));
  EXPECT_THROW(opened.ops(0).run(device::compute_streams, p), InternalError);
  EXPECT_THROW(opened.ops(0).run(-1, p), InternalError);
  p.ldc = 9;
  EXPECT_THROW(opened.ops(0).run(0, p), InternalError);
  p.ldc = 8;
  double on_the_host[64] = {};
  p.B = reinterpret_cast<const std::byte*>(on_the_host);
  EXPECT_THROW(opened.ops(0).run(0, p), InternalError);
}

TEST(HostTileOps, OnlyOperandsThatAreUsedMustBeOnTheDevice) {
  test::OpenedDevices opened = test::open_host_devices(1);
  constexpr index_t n = 8;
  std::byte* const slab = opened.device(0).reserve(2 * n * n * 8);
  double on_the_host[n * n] = {};
  std::fill(std::begin(on_the_host), std::end(on_the_host), 1.0);
  for (const Routine routine : test::all_routines) {
    const ScalarType type = test::types_of(routine)[0];
    Level3 p{.routine = routine,
             .type = type,
             .m = n,
             .n = n,
             .k = n,
             .alpha = 1,
             .A = slab,
             .lda = n,
             .B = slab,
             .ldb = n,
             .C = slab + n * n * 8,
             .ldc = n};
    const bool has_b = shape_of_b(p).rows > 0;
    if (has_b) {
      EXPECT_NO_THROW(opened.ops(0).run(0, p)) << name_of(p);
      p.B = on_the_host;
      EXPECT_THROW(opened.ops(0).run(0, p), InternalError) << name_of(p);
    } else {
      p.B = nullptr;
      EXPECT_NO_THROW(opened.ops(0).run(0, p)) << name_of(p);
    }
    p.B = slab;
    p.A = on_the_host;
    EXPECT_THROW(opened.ops(0).run(0, p), InternalError) << name_of(p);
    // Without a product neither is read, and neither need exist.
    p.alpha = 0;
    p.A = p.B = nullptr;
    EXPECT_NO_THROW(opened.ops(0).run(0, p)) << name_of(p);
    p.C = on_the_host;
    EXPECT_THROW(opened.ops(0).run(0, p), InternalError) << name_of(p);
  }
  EXPECT_TRUE(opened.device(0).recover());
}

TEST(HostTileOps, WithoutComputeKernelsTakeTimeAndWriteNothing) {
  HostDeviceSettings settings;
  settings.compute = false;
  settings.flops_per_s = 1e6;
  test::OpenedDevices opened = test::open_host_devices(1, {settings});
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(64 * 8);
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 8;
  p.A = p.B = p.C = slab;
  std::vector<double> values(64, 3.0);
  device.copy_up({slab, 512}, {reinterpret_cast<std::byte*>(values.data()), 512}, {512, 1});
  const EventPtr uploaded = device.record({StreamKind::up, 0});
  device.wait({StreamKind::compute, 0}, uploaded);
  opened.ops(0).run(0, p);
  const EventPtr computed = device.record({StreamKind::compute, 0});
  device.wait({StreamKind::down, 0}, computed);
  std::vector<double> after(64);
  device.copy_down({reinterpret_cast<std::byte*>(after.data()), 512}, {slab, 512}, {512, 1});
  ASSERT_EQ(test::finish(device, {StreamKind::down, 0}), EventStatus::complete);
  EXPECT_TRUE(after == values);
  EXPECT_GE(computed->completed_at(), uploaded->completed_at() + flops_of(Level3{.m = 8, .n = 8, .k = 8}) / 1e6 - 1e-9);
}

}  // namespace host_tile_ops_test
}  // namespace tessera
