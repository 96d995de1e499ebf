// Threads bound near a PCI device: on machines where the device's place is unknown, and where it is known.
#include "device/cuda/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace tessera::device::cuda {
namespace topology_test {

cpu_set_t processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

TEST(Topology, LeavesThreadsAloneWhereThePlaceIsUnknown) {
  const cpu_set_t before = processors();
  EXPECT_FALSE(bind_near(""));
  EXPECT_FALSE(bind_near("ffff:ff:1f.7"));
  EXPECT_FALSE(bind_near("nonsense"));
  const cpu_set_t after = processors();
  EXPECT_NE(CPU_EQUAL(&before, &after), 0);
}

TEST(Topology, BindsToProcessorsThatTheProcessHas) {
  std::vector<std::string> addresses;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/bus/pci/devices", error)) {
    addresses.push_back(entry.path().filename());
  }
  const cpu_set_t before = processors();
  bool bound = false;
  for (const std::string& address : addresses) {
    // A thread of its own, since binding is permanent.
    std::thread([&] {
      if (!bind_near(address)) return;
      bound = true;
      const cpu_set_t after = processors();
      cpu_set_t both;
      CPU_AND(&both, &before, &after);
      EXPECT_NE(CPU_EQUAL(&both, &after), 0) << address;
      EXPECT_GT(CPU_COUNT(&after), 0) << address;
    }).join();
  }
  if (!bound) GTEST_SKIP() << "hwloc shows no PCI device of this machine";
}

}  // namespace topology_test
}  // namespace tessera::device::cuda
