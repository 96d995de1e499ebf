// The traffic that jobs on one device see of each other.
#include "runtime/devices/device_traffic.hpp"

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace device_traffic_test {

class Source final : public DeviceTraffic::Source {
 public:
  Source(std::size_t kernels, double seconds, index_t bytes) : backlog_{kernels, seconds}, bytes_(bytes) {}
  Backlog backlog() const override { return backlog_; }
  index_t queued_bytes() const override { return bytes_; }

 private:
  Backlog backlog_;
  index_t bytes_;
};

TEST(DeviceTraffic, IsThatOfAllJobsThatAreThere) {
  DeviceTraffic traffic;
  traffic.reserve(2);
  const Source one(2, 0.5, 100), other(3, 0.25, 10);
  EXPECT_EQ(traffic.queued_bytes(), 0);
  traffic.enter(one);
  traffic.enter(other);
  EXPECT_EQ(traffic.backlog().kernels, 5u);
  EXPECT_EQ(traffic.backlog().seconds, 0.75);
  EXPECT_EQ(traffic.queued_bytes(), 110);
  traffic.leave(one);
  EXPECT_EQ(traffic.backlog().kernels, 3u);
  EXPECT_EQ(traffic.queued_bytes(), 10);
}

}  // namespace device_traffic_test
}  // namespace tessera::runtime
