// The numbers that all parts of a worker share: lanes that have room, a link that has enough, times by rough rates.
#include "runtime/tiles/workplace.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "core/error.hpp"
#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::runtime {
namespace workplace_test {

using device::EventStatus;
using device::StreamKind;
using test::DeclaredGraph;
using test::ManualJob;
using test::numbered_tile;
using test::product;

constexpr device::StreamId up{StreamKind::up};

const DeclaredGraph& some_graph() {
  static const DeclaredGraph graph({{.steps = {product(1, 2)}}});
  return graph;
}

TEST(LaneSlots, ALaneNeedsAnOutputAndTheInputsOfAStep) {
  EXPECT_EQ(LaneSlots::lanes_in(1), 1U);  // one, whatever there is
  EXPECT_EQ(LaneSlots::lanes_in(5), 1U);
  EXPECT_EQ(LaneSlots::lanes_in(6), 2U);
  EXPECT_EQ(LaneSlots::lanes_in(11), 3U);
  EXPECT_EQ(LaneSlots::lanes_in(1000), static_cast<std::size_t>(device::compute_streams));
}

// The tile under way does not count, those behind it do.
TEST(Workplace, ALinkHasEnoughWhenAsMuchWaitsAsItsQueueTakes) {
  ManualJob job(some_graph(), {});
  job.device().said().profile.link_queue_bytes = 2 * static_cast<index_t>(some_graph().slot_bytes);
  for (index_t tiles = 0; tiles < 4; ++tiles) {
    EXPECT_EQ(job.worker().place.link_has_enough(), tiles == 3) << tiles;
    job.cache->pin(0, numbered_tile(tiles + 1));
  }
  job.device().finish(up);
  job.device().finish(up);
  EXPECT_FALSE(job.worker().place.link_has_enough());
}

TEST(Workplace, ALinkThatOtherJobsKeepBusyHasEnough) {
  class Busy final : public DeviceTraffic::Source {
   public:
    Backlog backlog() const override { return {}; }
    index_t queued_bytes() const override { return 100; }
  };
  ManualJob job(some_graph(), {});
  job.device().said().profile.link_queue_bytes = 100;
  const Busy other;
  DeviceTraffic traffic;
  const Workplace shared{0, job.device(), job.device(), *job.cache, job.signal, nullptr, &traffic};
  EXPECT_FALSE(shared.link_has_enough());
  traffic.enter(other);
  EXPECT_TRUE(shared.link_has_enough());
}

TEST(Workplace, TimesAreKnownWhereTheDeviceTellsItsRate) {
  ManualJob job(some_graph(), {});
  const Workplace& place = job.worker().place;
  EXPECT_EQ(place.expected_seconds(ScalarType::d, 100), 0);
  job.device().said().flops_per_s = RatesByType(50.0, 25.0);
  EXPECT_EQ(place.expected_seconds(ScalarType::s, 100), 2);
  EXPECT_EQ(place.expected_seconds(ScalarType::d, 100), 4);
}

TEST(Workplace, WorkThatHasFailedIsALostDevice) {
  const auto event = std::make_shared<test::ManualEvent>();
  EXPECT_FALSE(completed(event));
  event->end(EventStatus::complete, 1);
  EXPECT_TRUE(completed(event));
  event->end(EventStatus::failed, 1);
  EXPECT_THROW(completed(event), DeviceLost);
}

}  // namespace workplace_test
}  // namespace tessera::runtime
