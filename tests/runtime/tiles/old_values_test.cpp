// Where copies of old values go: to a peer that has room for the job, else to host memory.
#include "runtime/tiles/old_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <vector>

#include "routines/level3.hpp"
#include "routines/plan.hpp"
#include "runtime/devices/machine.hpp"
#include "tests/device/backends.hpp"

namespace tessera::runtime {
namespace old_values_test {

constexpr index_t tile = 8;
constexpr std::size_t tile_bytes = tile * tile * sizeof(double);

using Begin = OldValues::Begin;
using When = OldValues::When;

/// A product of 2 x 2 tiles on devices of so many tiles each, and its first output tile on the first of them.
class OldValuesTest : public ::testing::Test {
 protected:
  void open(const std::vector<HostDeviceSettings>& settings, const std::vector<index_t>& tiles,
            OldValuesPlace place = OldValuesPlace::peers) {
    const auto devices = static_cast<int>(tiles.size());
    opened_ = test::open_host_devices(devices, settings);
    std::vector<cache::CacheDevice> places;
    for (std::size_t d = 0; d < tiles.size(); ++d) {
      const std::size_t bytes = static_cast<std::size_t>(tiles[d]) * tile_bytes;
      places.push_back({&opened_.device(d), opened_.device(d).reserve(bytes), bytes});
    }
    cache_.emplace(places);
    c_.resize(static_cast<std::size_t>(4 * tile * tile));
    std::iota(c_.begin(), c_.end(), 0.0);
    call_ = {.routine = Routine::gemm, .m = 2 * tile, .n = 2 * tile, .k = 2 * tile};
    call_.A = call_.B = call_.C = c_.data();
    call_.lda = call_.ldb = call_.ldc = 2 * tile;
    call_.beta = 1.0;
    const Machine machine{.devices = devices, .heap_bytes = 100 * tile_bytes};
    graph_ = routines::choose_plan(call_, {&machine, 1}, tile).graph;
    host_.emplace(1, std::size_t{1} << 20);
    old_.emplace(place, &*host_);
    begin(std::vector<bool>(tiles.size(), true));
  }
  void begin(const std::vector<bool>& working) {
    cache_->begin_job(graph_->slot_bytes, sizeof(double));
    output_ = cache_->acquire_output(0, graph_->output(0).tile, true);
    old_->begin_job(*cache_, *graph_, working);
  }
  OldValues::Tile old() const { return {0, graph_->output(0).tile, output_, 0}; }
  void await_arrival() { ASSERT_EQ(test::wait_for(output_->ready), device::EventStatus::complete); }
  void await(const OldCopy& copy) {
    for (std::uint64_t seen = signal_.version(); !copy.is_whole(); seen = signal_.version())
      signal_.wait(seen, std::chrono::milliseconds(1));
  }
  std::int64_t kept_bytes() const { return cache_->counters(0).bytes_kept; }

  std::vector<double> c_;
  Level3 call_;
  std::unique_ptr<TaskGraph> graph_;
  test::OpenedDevices opened_;
  std::optional<cache::TileCache> cache_;
  Signal signal_;
  std::optional<HostCopies> host_;
  std::optional<OldValues> old_;
  cache::Replica* output_ = nullptr;
};

TEST_F(OldValuesTest, GoToAPeerAndComeBack) {
  open({HostDeviceSettings{}}, {40, 40});
  ASSERT_TRUE(old_->has_peers(0));
  await_arrival();
  OldCopyPtr copy;
  ASSERT_EQ(old_->begin(old(), When::ahead, signal_, copy), Begin::begun);
  ASSERT_NE(copy->read_on_device(), nullptr);
  await(*copy);
  EXPECT_EQ(kept_bytes(), static_cast<std::int64_t>(tile_bytes));
  EXPECT_EQ(host_->held_bytes(), 0u) << "no memory of the host";
  const std::vector<double> before = c_;
  std::fill(c_.begin(), c_.end(), -1.0);
  ASSERT_TRUE(copy->restore());
  for (index_t j = 0; j < 2 * tile; ++j) {
    for (index_t i = 0; i < 2 * tile; ++i) {
      const auto at = static_cast<std::size_t>(i + j * 2 * tile);
      ASSERT_EQ(c_[at], i < tile && j < tile ? before[at] : -1.0) << i << " " << j;
    }
  }
  copy.reset();
  cache_->check_invariants();
}

TEST_F(OldValuesTest, AreCopiedWhenTheyHaveArrivedOrAreReadLast) {
  HostDeviceSettings slow;
  slow.delay_s = 0.05;
  open({slow}, {40, 40});
  OldCopyPtr copy;
  EXPECT_EQ(old_->begin(old(), When::ahead, signal_, copy), Begin::later);
  EXPECT_EQ(copy, nullptr);
  ASSERT_EQ(old_->begin(old(), When::last_read, signal_, copy), Begin::begun);
  EXPECT_FALSE(copy->is_whole());
  await(*copy);
  EXPECT_EQ(kept_bytes(), static_cast<std::int64_t>(tile_bytes));
}

void expect_in_host_memory(HostCopies& host, const OldCopyPtr& copy) {
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->read_on_device(), nullptr);
  EXPECT_GT(host.held_bytes(), 0u);
}

TEST_F(OldValuesTest, StayOnTheHostWithoutPeers) {
  HostDeviceSettings alone;
  alone.peers = false;
  struct Case {
    HostDeviceSettings settings;
    std::vector<index_t> tiles;
    OldValuesPlace place;
  };
  const Case cases[] = {{alone, {40, 40}, OldValuesPlace::peers},
                        {HostDeviceSettings{}, {40}, OldValuesPlace::peers},
                        {HostDeviceSettings{}, {40, 40}, OldValuesPlace::host},
                        // A peer that cannot hold all tiles of the job needs its memory for them.
                        {HostDeviceSettings{}, {40, 12}, OldValuesPlace::peers}};
  for (const Case& each : cases) {
    open({each.settings}, each.tiles, each.place);
    EXPECT_FALSE(old_->has_peers(0));
    OldCopyPtr copy;
    // At once, whether or not the device has the tile.
    ASSERT_EQ(old_->begin(old(), When::ahead, signal_, copy), Begin::begun);
    expect_in_host_memory(*host_, copy);
    await(*copy);
    EXPECT_EQ(kept_bytes(), 0);
    await_arrival();
  }
}

TEST_F(OldValuesTest, DoNotGoToDevicesThatTakeNoPart) {
  open({HostDeviceSettings{}}, {40, 40, 40});
  await_arrival();
  begin({true, false, true});
  await_arrival();
  std::vector<OldCopyPtr> copies(2);
  for (OldCopyPtr& copy : copies) ASSERT_EQ(old_->begin(old(), When::ahead, signal_, copy), Begin::begun);
  for (const OldCopyPtr& copy : copies) await(*copy);
  std::vector<std::byte> probe(tile_bytes);
  EXPECT_EQ(cache_->slots(1), 40);
  // All of its memory is free.
  std::vector<cache::Replica*> outputs;
  for (std::size_t t = 0; t < 40; ++t) {
    const cache::HostTile other{probe.data() + t, 1, 1, 1};
    ASSERT_NE(cache_->acquire_output(1, other, false), nullptr) << t;
  }
  begin({true, false, false});
  EXPECT_FALSE(old_->has_peers(0));
  await_arrival();
}

TEST_F(OldValuesTest, GoToTheHostWhereThePeerHasNoRoom) {
  open({HostDeviceSettings{}}, {40, 40});
  await_arrival();
  std::vector<std::byte> others(40);
  std::vector<cache::Replica*> outputs;
  for (auto& byte : others) outputs.push_back(cache_->acquire_output(1, {&byte, 1, 1, 1}, false));
  OldCopyPtr copy;
  ASSERT_EQ(old_->begin(old(), When::ahead, signal_, copy), Begin::begun);
  expect_in_host_memory(*host_, copy);
  await(*copy);
  EXPECT_EQ(kept_bytes(), 0);
  // And again to the peer when it has.
  bool begun = false;
  const auto written = cache_->write_back(outputs.front(), 0, begun);
  ASSERT_EQ(test::wait_for(written), device::EventStatus::complete);
  cache_->finish_output(outputs.front());
  OldCopyPtr next;
  ASSERT_EQ(old_->begin(old(), When::last_read, signal_, next), Begin::begun);
  EXPECT_NE(next->read_on_device(), nullptr);
  await(*next);
}

// The old value has been overwritten on the device: only the host has it.
TEST_F(OldValuesTest, ThatAreDueComeFromTheHost) {
  open({HostDeviceSettings{}}, {40, 40});
  await_arrival();
  OldCopyPtr copy;
  ASSERT_EQ(old_->begin(old(), When::due, signal_, copy), Begin::begun);
  expect_in_host_memory(*host_, copy);
  await(*copy);
}

TEST_F(OldValuesTest, AreNotWholeIfTheCopyFails) {
  HostDeviceSettings failing;
  failing.failing_operation = FailingOperation::to_peer;
  failing.fail_after_ops = 0;
  open({failing, HostDeviceSettings{}}, {40, 40});
  await_arrival();
  OldCopyPtr copy;
  ASSERT_EQ(old_->begin(old(), When::last_read, signal_, copy), Begin::begun);
  EXPECT_EQ(test::wait_for(copy->read_on_device()), device::EventStatus::failed);
  EXPECT_FALSE(copy->is_whole());
  EXPECT_TRUE(copy->has_failed());
  copy.reset();
  cache_->check_invariants();
}

}  // namespace old_values_test
}  // namespace tessera::runtime
