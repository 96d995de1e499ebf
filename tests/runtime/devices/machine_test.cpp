// Which sets of devices a plan chooses among.
#include "runtime/devices/machine.hpp"

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace machine_test {

constexpr std::size_t gib = std::size_t{1} << 30;

device::DeviceInfo info_with(index_t segment_bytes, index_t share_bytes, RatesByType rates) {
  device::DeviceInfo info;
  info.profile.segment_bytes = segment_bytes;
  info.profile.share_bytes = share_bytes;
  info.flops_per_s = rates;
  return info;
}

TEST(Machines, AreOneForDevicesOfAboutTheSameMemory) {
  const device::DeviceInfo first = info_with(10, 7, {100, 4});
  const device::DeviceInfo second = info_with(20, 5, {200, 2});
  const DeviceCapacity capacities[] = {{100 * gib, &first}, {95 * gib, &second}};
  const auto machines = machines_of(capacities, ScalarType::d);
  ASSERT_EQ(machines.size(), 1u);
  EXPECT_EQ(machines[0].devices, 2);
  EXPECT_EQ(machines[0].heap_bytes, 95 * gib);
  EXPECT_EQ(machines[0].segment_bytes, 20);
  EXPECT_EQ(machines[0].share_bytes, 7);
  EXPECT_EQ(machines[0].flops_per_s, 3);
  EXPECT_EQ(machines_of(capacities, ScalarType::c)[0].flops_per_s, 150);
}

TEST(Machines, AreOneMoreForEveryDeviceThatHasNotablyLess) {
  const device::DeviceInfo info;
  const DeviceCapacity capacities[] = {{gib, &info}, {100 * gib, &info}, {10 * gib, &info}, {100 * gib, &info}};
  const auto machines = machines_of(capacities, ScalarType::d);
  ASSERT_EQ(machines.size(), 3u);
  EXPECT_EQ(machines[0].devices, 2);
  EXPECT_EQ(machines[0].heap_bytes, 100 * gib);
  EXPECT_EQ(machines[1].devices, 3);
  EXPECT_EQ(machines[1].heap_bytes, 10 * gib);
  EXPECT_EQ(machines[2].devices, 4);
  EXPECT_EQ(machines[2].heap_bytes, gib);
  EXPECT_EQ(members_of(machines[0], capacities), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(members_of(machines[1], capacities), (std::vector<bool>{false, true, true, true}));
}

TEST(Machines, LeaveOutDevicesWithoutMemory) {
  const device::DeviceInfo info;
  const DeviceCapacity capacities[] = {{0, &info}, {gib, &info}};
  ASSERT_EQ(machines_of(capacities, ScalarType::d).size(), 1u);
  EXPECT_EQ(machines_of(capacities, ScalarType::d)[0].devices, 1);
  EXPECT_TRUE(machines_of({capacities, 1}, ScalarType::d).empty());
}

}  // namespace machine_test
}  // namespace tessera::runtime
