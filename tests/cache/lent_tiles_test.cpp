// Tiles that a device lends: they are read where they lie, take no segment of the heap, and are not evicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/host/host_device.hpp"
#include "tests/cache/tile_cache_fixture.hpp"

namespace tessera::cache {
namespace lent_tiles_test {

/// Has some tiles in memory beside its slab.
class LendingDevice final : public device::HostDevice {
 public:
  explicit LendingDevice(int ordinal) : HostDevice(ordinal, HostDeviceSettings{}) {}

  std::optional<device::LentBlock> lend(device::Block host, device::Extent extent) override {
    const auto found = lent_.find(host.address);
    if (found == lent_.end() || extent.part != Part::full) return std::nullopt;
    return device::LentBlock{reinterpret_cast<std::byte*>(found->second.get()), found->second};
  }
  void add(const HostTile& tile, double value) {
    auto* const memory = reinterpret_cast<double*>(take_memory(tile_bytes));
    std::fill_n(memory, rows * cols, value);
    lent_[tile.address] = std::shared_ptr<double>(memory, [](double* /*memory*/) {});  // the device frees it
  }
  long loans(const HostTile& tile) const { return lent_.at(tile.address).use_count() - 1; }

 private:
  std::map<const std::byte*, std::shared_ptr<double>> lent_;
};

class LentTiles : public TileCacheTest {
 protected:
  void open(int count, index_t slots) {
    std::vector<CacheDevice> places;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      devices_.push_back(std::make_unique<LendingDevice>(ordinal));
      const std::size_t bytes = static_cast<std::size_t>(slots) * tile_bytes;
      places.push_back({devices_.back().get(), devices_.back()->reserve(bytes), bytes});
    }
    cache_.emplace(places);
    cache_->begin_job(tile_bytes, sizeof(double));
    host_.resize(static_cast<std::size_t>(ld * cols) * tile_count);
  }
  ~LentTiles() override { devices_.clear(); }

  static double value(const Replica* replica) { return *reinterpret_cast<const double*>(replica->address); }

  std::vector<std::unique_ptr<LendingDevice>> devices_;
};

TEST_F(LentTiles, TakeNoMemoryOfTheJob) {
  open(1, 1);
  for (std::size_t number = 0; number < 3; ++number) devices_[0]->add(tile(number), 5 + static_cast<double>(number));
  for (std::size_t number = 0; number < 3; ++number) {
    const Replica* const lent = cache_->pin(0, tile(number));
    ASSERT_NE(lent, nullptr);
    EXPECT_EQ(lent->ready, nullptr);
    EXPECT_EQ(value(lent), 5 + static_cast<double>(number));
    EXPECT_EQ(cache_->pin(0, tile(number)), lent);
    EXPECT_TRUE(cache_->has_arrived(0, tile(number)));
  }
  cache_->check_invariants();
  Replica* const fetched = cache_->pin(0, tile(3));
  ASSERT_NE(fetched, nullptr);
  expect_contents(*fetched);
  const CacheCounters counters = cache_->counters(0);
  EXPECT_EQ(counters.l1_hits, 6);
  EXPECT_EQ(counters.misses, 1);
  EXPECT_EQ(counters.bytes_up, static_cast<std::int64_t>(tile_bytes));
  cache_->check_invariants();
}

TEST_F(LentTiles, AreNotFetchedAhead) {
  open(1, 1);
  devices_[0]->add(tile(0), 5);
  EXPECT_EQ(cache_->prefetch(0, tile(0), 0), Prefetch::held);
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::l1);
  EXPECT_FALSE(cache_->is_fetching(0));
  EXPECT_EQ(cache_->prefetch(0, tile(1), 0), Prefetch::started);
  cache_->check_invariants();
}

TEST_F(LentTiles, MakeNoRoomForOthers) {
  open(1, 1);
  devices_[0]->add(tile(0), 5);
  Replica* const lent = cache_->pin(0, tile(0));
  cache_->release(lent);
  Replica* const fetched = cache_->pin(0, tile(1));
  ASSERT_NE(fetched, nullptr);
  EXPECT_EQ(cache_->pin(0, tile(2)), nullptr) << "the only segment is in use";
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::l1);
  EXPECT_EQ(devices_[0]->loans(tile(0)), 1);
  EXPECT_EQ(cache_->counters(0).evictions, 0);
}

TEST_F(LentTiles, AreOnLoanUntilNobodyReadsThemAnyMore) {
  open(1, 2);
  devices_[0]->add(tile(0), 5);
  Replica* const old = cache_->pin(0, tile(0));
  Replica* const output = cache_->acquire_output(0, tile(0), true);
  ASSERT_NE(output, nullptr);
  EXPECT_NE(output->address, old->address) << "nobody writes what is lent";
  ASSERT_EQ(test::wait_for(output->ready), device::EventStatus::complete);
  std::fill_n(reinterpret_cast<double*>(output->address), rows * cols, 6.0);
  cache_->publish(output);
  EXPECT_EQ(value(old), 5) << "it is still read";
  EXPECT_EQ(devices_[0]->loans(tile(0)), 1);
  EXPECT_EQ(value(cache_->pin(0, tile(0))), 6) << "host memory is stale, and so is what may be lent";
  cache_->check_invariants();
  cache_->release(old);
  EXPECT_EQ(devices_[0]->loans(tile(0)), 0);
  cache_->check_invariants();
  cache_->begin_job(tile_bytes, sizeof(double));
  EXPECT_EQ(value(cache_->pin(0, tile(0))), 5);
  cache_->check_invariants();
}

TEST_F(LentTiles, PeersCopyThem) {
  open(2, 2);
  devices_[0]->add(tile(0), 5);
  ASSERT_NE(cache_->pin(0, tile(0)), nullptr);
  const Replica* const copy = cache_->pin(1, tile(0));
  ASSERT_NE(copy, nullptr);
  ASSERT_EQ(test::wait_for(copy->ready), device::EventStatus::complete);
  EXPECT_EQ(value(copy), 5);
  EXPECT_EQ(cache_->counters(1).l2_hits, 1);
  devices_[1]->add(tile(1), 7);
  ASSERT_NE(cache_->pin(0, tile(1)), nullptr);
  EXPECT_EQ(value(cache_->pin(1, tile(1))), 7) << "what is at home is not copied";
  EXPECT_EQ(cache_->counters(1).l1_hits, 1);
  cache_->check_invariants();
}

TEST_F(LentTiles, WithATailAreFetched) {
  open(1, 2);
  std::vector<double> pivots(4);
  HostTile with_tail = tile(0);
  with_tail.tail = reinterpret_cast<std::byte*>(pivots.data());
  with_tail.tail_bytes = static_cast<index_t>(sizeof(double));
  devices_[0]->add(with_tail, 5);
  cache_->begin_job(2 * tile_bytes, sizeof(double));
  const Replica* const fetched = cache_->pin(0, with_tail);
  ASSERT_NE(fetched, nullptr);
  EXPECT_EQ(cache_->counters(0).misses, 1);
  ASSERT_EQ(test::wait_for(fetched->ready), device::EventStatus::complete);
}

}  // namespace lent_tiles_test
}  // namespace tessera::cache
