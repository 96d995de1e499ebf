// Which sets of devices a plan chooses among.
#include "runtime/machine.hpp"

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

TEST(Machines, AreOneForDevicesOfAboutTheSameMemory) {
  const DeviceRoom rooms[] = {{.bytes = 100 * gib, .segment_bytes = 10, .share_bytes = 7, .flops_per_s = 4},
                              {.bytes = 95 * gib, .segment_bytes = 20, .share_bytes = 5, .flops_per_s = 2}};
  const auto machines = machines_of(rooms);
  ASSERT_EQ(machines.size(), 1u);
  EXPECT_EQ(machines[0].devices, 2);
  EXPECT_EQ(machines[0].heap_bytes, 95 * gib);
  EXPECT_EQ(machines[0].segment_bytes, 20);
  EXPECT_EQ(machines[0].share_bytes, 7);
  EXPECT_EQ(machines[0].flops_per_s, 3);
}

TEST(Machines, AreOneMoreForEveryDeviceThatHasNotablyLess) {
  const DeviceRoom rooms[] = {{.bytes = gib}, {.bytes = 100 * gib}, {.bytes = 10 * gib}, {.bytes = 100 * gib}};
  const auto machines = machines_of(rooms);
  ASSERT_EQ(machines.size(), 3u);
  EXPECT_EQ(machines[0].devices, 2);
  EXPECT_EQ(machines[0].heap_bytes, 100 * gib);
  EXPECT_EQ(machines[1].devices, 3);
  EXPECT_EQ(machines[1].heap_bytes, 10 * gib);
  EXPECT_EQ(machines[2].devices, 4);
  EXPECT_EQ(machines[2].heap_bytes, gib);
}

TEST(Machines, LeaveOutDevicesWithoutMemory) {
  const DeviceRoom rooms[] = {{.bytes = 0}, {.bytes = gib}};
  ASSERT_EQ(machines_of(rooms).size(), 1u);
  EXPECT_EQ(machines_of(rooms)[0].devices, 1);
  EXPECT_TRUE(machines_of({rooms, 1}).empty());
}

}  // namespace
}  // namespace tessera::runtime
