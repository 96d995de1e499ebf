// Old values of output tiles in the memory of peers.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/cache/tile_cache_fixture.hpp"

namespace tessera::cache {
namespace kept_tiles_test {

class KeptTiles : public TileCacheTest {};

// The old value of an output, and that of a tile that is read, in the slab of a peer.
TEST_F(KeptTiles, KeepsOldValuesOnAPeer) {
  open(3, 3);
  constexpr int peers[] = {1, 2};
  const std::vector<double> before = host_;
  Replica* const output = cache_->acquire_output(0, tile(0), true);
  Replica* const read = cache_->pin(0, tile(1));
  KeptTile of_output, of_read;
  ASSERT_EQ(cache_->keep(0, tile(0), output, true, peers, 7, of_output), Keep::begun);
  ASSERT_EQ(cache_->keep(0, tile(1), nullptr, true, peers, 8, of_read), Keep::begun);
  EXPECT_EQ(of_output.holder, 1);
  EXPECT_EQ(of_read.holder, 2) << "the one that keeps fewer";
  for (const KeptTile* kept : {&of_output, &of_read})
    ASSERT_EQ(test::wait_for(kept->done), device::EventStatus::complete);
  EXPECT_EQ(cache_->counters(0).bytes_kept, static_cast<std::int64_t>(2 * tile_bytes));
  EXPECT_EQ(cache_->counters(1).bytes_kept, 0);
  EXPECT_EQ(cache_->locate(1, tile(1)), Level::l2) << "what is kept is no tile that can be read there";
  EXPECT_EQ(read->readers, 2) << "until the copy is known to have ended";
  EXPECT_TRUE(cache_->collect(0));
  EXPECT_EQ(read->readers, 1);
  cache_->check_invariants();

  std::fill(host_.begin(), host_.begin() + 2 * ld * cols, -1.0);
  EXPECT_TRUE(cache_->restore(of_output));
  EXPECT_TRUE(cache_->restore(of_read));
  for (std::size_t e = 0; e < host_.size(); ++e) {
    const bool inside = e / ld < 2 * cols && e % ld < rows;
    ASSERT_EQ(host_[e], inside || e >= 2 * ld * cols ? before[e] : -1.0) << e;
  }
  cache_->drop(of_output);
  cache_->drop(of_read);
  cache_->check_invariants();
}

TEST_F(KeptTiles, EvictsNothingForAnOldValue) {
  open(2, 3);
  constexpr int peers[] = {1};
  for (std::size_t t = 1; t < 3; ++t) cache_->release(cache_->pin(1, tile(t)));
  Replica* const output = cache_->acquire_output(0, tile(0), true);
  KeptTile first, second;
  ASSERT_EQ(cache_->keep(0, tile(0), output, true, peers, 0, first), Keep::begun);
  EXPECT_EQ(cache_->keep(0, tile(0), output, true, peers, 0, second), Keep::no_memory);
  EXPECT_EQ(cache_->keep(0, tile(0), output, true, {}, 0, second), Keep::no_memory);
  EXPECT_EQ(cache_->locate(1, tile(1)), Level::l1);
  EXPECT_EQ(cache_->locate(1, tile(2)), Level::l1);
  ASSERT_EQ(test::wait_for(first.done), device::EventStatus::complete);
  cache_->drop(first);
  EXPECT_EQ(cache_->keep(0, tile(0), output, true, peers, 0, second), Keep::begun) << "there is room again";
  test::finish(opened_.device(0), {device::StreamKind::to_peer});
  // In a later job its memory belongs to another tile.
  cache_->begin_job(tile_bytes, sizeof(double));
  cache_->drop(second);
  cache_->check_invariants();
}

// The next owner of this memory must not receive a copy that an earlier job began.
TEST_F(KeptTiles, TellsOfCopiesFromAndToPeersThatAreUnderWay) {
  HostDeviceSettings slow;
  slow.delay_s = 0.05;
  open(2, 4, slow);
  constexpr int peers[] = {1};
  cache_->release(cache_->pin(0, tile(0)));
  EXPECT_FALSE(cache_->is_copying_beside_peers(0));
  Replica* const copy = cache_->pin(1, tile(0));
  EXPECT_TRUE(cache_->is_copying_beside_peers(1));
  KeptTile kept;
  ASSERT_EQ(cache_->keep(0, tile(0), nullptr, true, peers, 0, kept), Keep::begun);
  EXPECT_TRUE(cache_->is_copying_beside_peers(0));
  ASSERT_EQ(test::wait_for(copy->ready), device::EventStatus::complete);
  ASSERT_EQ(test::wait_for(kept.done), device::EventStatus::complete);
  EXPECT_FALSE(cache_->is_copying_beside_peers(0));
  EXPECT_FALSE(cache_->is_copying_beside_peers(1));
}

TEST_F(KeptTiles, ReadsAnOldValueThatIsOnItsWayOnlyIfToldTo) {
  HostDeviceSettings slow;
  slow.delay_s = 0.05;
  open(2, 4, slow);
  constexpr int peers[] = {1};
  KeptTile kept;
  EXPECT_EQ(cache_->keep(0, tile(0), nullptr, true, peers, 0, kept), Keep::not_here);
  Replica* const read = cache_->pin(0, tile(0));
  ASSERT_EQ(cache_->keep(0, tile(0), nullptr, false, peers, 0, kept), Keep::not_here);
  ASSERT_EQ(cache_->keep(0, tile(0), nullptr, true, peers, 0, kept), Keep::begun);
  cache_->release(read);
  ASSERT_EQ(test::wait_for(kept.done), device::EventStatus::complete);
  std::fill(host_.begin(), host_.begin() + ld * cols, -1.0);
  EXPECT_TRUE(cache_->restore(kept));
  EXPECT_EQ(host_[1], 1.0);
}

// A triangle goes there as a whole block; the elements outside the triangle in host memory are never written.
TEST_F(KeptTiles, RestoresNoMoreThanTheTriangle) {
  open(2, 4);
  constexpr int peers[] = {1};
  const HostTile lower{reinterpret_cast<std::byte*>(host_.data()), cols, cols, ld, Part::lower};
  const std::vector<double> before = host_;
  Replica* const output = cache_->acquire_output(0, lower, true);
  KeptTile kept;
  ASSERT_EQ(cache_->keep(0, lower, output, true, peers, 0, kept), Keep::begun);
  ASSERT_EQ(test::wait_for(kept.done), device::EventStatus::complete);
  std::fill(host_.begin(), host_.end(), -1.0);
  ASSERT_TRUE(cache_->restore(kept));
  for (std::size_t e = 0; e < host_.size(); ++e) {
    const std::size_t i = e % ld, j = e / ld;
    ASSERT_EQ(host_[e], j < cols && i < cols && i >= j ? before[e] : -1.0) << e;
  }
}

// A tile that is read and then replaced by the result: its copies are forgotten with it.
TEST_F(KeptTiles, PublishesOverAnOldValueThatIsKept) {
  open(2, 4);
  constexpr int peers[] = {1};
  Replica* const old = cache_->pin(0, tile(0));
  KeptTile kept;
  ASSERT_EQ(cache_->keep(0, tile(0), nullptr, true, peers, 0, kept), Keep::begun);
  ASSERT_EQ(test::wait_for(kept.done), device::EventStatus::complete);
  Replica* const output = cache_->acquire_output(0, tile(0), false);
  cache_->release(old);
  cache_->publish(output);
  EXPECT_FALSE(cache_->collect(0));
  cache_->check_invariants();
  cache_->drop(kept);
  cache_->check_invariants();
}

TEST_F(KeptTiles, RestoresAfterARefusalAndNotFromALostDevice) {
  HostDeviceSettings refusing;
  refusing.refused_op = 0;  // the copy that restores the tile, on the holder
  HostDeviceSettings lost;
  lost.failing_operation = FailingOperation::down;
  lost.fail_after_ops = 0;
  opened_ = test::open_host_devices(3, {HostDeviceSettings{}, refusing, lost});
  std::vector<CacheDevice> places;
  for (auto& accelerator : opened_.accelerators)
    places.push_back({accelerator.device.get(), accelerator.device->reserve(4 * tile_bytes), 4 * tile_bytes});
  cache_.emplace(places);
  cache_->begin_job(tile_bytes, sizeof(double));
  host_.assign(static_cast<std::size_t>(ld * cols), 5);
  Replica* const read = cache_->pin(0, tile(0));
  for (const int holder : {1, 2}) {
    KeptTile kept;
    ASSERT_EQ(cache_->keep(0, tile(0), nullptr, true, std::span(&holder, 1), 0, kept), Keep::begun);
    ASSERT_EQ(test::wait_for(kept.done), device::EventStatus::complete);
    std::fill(host_.begin(), host_.end(), -1.0);
    EXPECT_EQ(cache_->restore(kept), holder == 1);
    if (holder == 1) {
      EXPECT_EQ(host_[0], 5.0);
    }
  }
  cache_->release(read);
}

}  // namespace kept_tiles_test
}  // namespace tessera::cache
