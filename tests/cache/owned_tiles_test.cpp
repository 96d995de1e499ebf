// Tiles of which devices have the only copies. They stay when memory is short, are written back before their place is
// reused, or are dropped if a peer has a copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "tests/cache/tile_cache_fixture.hpp"

namespace tessera::cache {
namespace owned_tiles_test {

class OwnedTiles : public TileCacheTest {
 protected:
  // A published result without a pin.
  Replica* make_owned(int device, std::size_t number, double value) {
    Replica* const output = cache_->acquire_output(device, tile(number), false);
    if (output == nullptr) return nullptr;
    std::fill_n(reinterpret_cast<double*>(output->address), rows * cols, value);
    cache_->publish(output);
    cache_->release(output);
    return output;
  }
  double in_host_memory(std::size_t number) const { return host_[number * ld * cols]; }
  Coherence state(std::size_t number) { return cache_->directory().coherence(tile(number)); }
  bool collect_after(int device, device::StreamKind kind) {
    test::finish(opened_.device(static_cast<std::size_t>(device)), {kind});
    return cache_->collect(device);
  }
  void expect_value(const Replica* replica, double value) {
    ASSERT_NE(replica, nullptr);
    if (replica->ready) {
      ASSERT_EQ(test::wait_for(replica->ready), device::EventStatus::complete);
    }
    double first = 0;
    std::memcpy(&first, replica->address, sizeof first);
    EXPECT_EQ(first, value);
  }
};

TEST_F(OwnedTiles, StayWhenMemoryIsShort) {
  open(1, 2);
  make_owned(0, 0, 5);
  EXPECT_EQ(cache_->counters(0).pinned, 0);
  Replica* const other = cache_->pin(0, tile(1));
  expect_contents(*other);
  EXPECT_EQ(cache_->pin(0, tile(2)), nullptr);
  EXPECT_EQ(cache_->prefetch(0, tile(2), 0), Prefetch::no_memory);
  EXPECT_EQ(cache_->acquire_output(0, tile(2), false), nullptr);
  cache_->release(other);
  EXPECT_NE(cache_->pin(0, tile(2)), nullptr) << "what is clean goes";
  expect_value(cache_->pin(0, tile(0)), 5);
  cache_->check_invariants();
}

TEST_F(OwnedTiles, AreWhatTheyWereWhereTheirNextVersionIsAbandoned) {
  open(2, 2);
  make_owned(0, 0, 5);
  Replica* const next = cache_->acquire_output(1, tile(0), false);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(cache_->directory().coherence(tile(0), true).state, TileState::modified);
  cache_->abandon_output(next);
  EXPECT_EQ(cache_->directory().coherence(tile(0), true), Coherence{});
  EXPECT_EQ(state(0), (Coherence{TileState::owned, 1}));
  Replica* const copy = cache_->pin(1, tile(0));
  expect_value(copy, 5);
  EXPECT_NE(cache_->acquire_output(1, tile(0), false), nullptr) << "another task may make it";
  cache_->check_invariants();
}

TEST_F(OwnedTiles, GoHomeBeforeTheirPlaceIsUsedAgain) {
  open(1, 1);
  EXPECT_FALSE(cache_->flush_to_evict(0)) << "nothing is owned";
  make_owned(0, 0, 5);
  EXPECT_EQ(cache_->pin(0, tile(1)), nullptr);
  ASSERT_TRUE(cache_->flush_to_evict(0));
  EXPECT_FALSE(cache_->flush_to_evict(0)) << "it is on its way";
  EXPECT_EQ(cache_->pin(0, tile(1)), nullptr) << "until it is known to be there";
  EXPECT_FALSE(cache_->directory().host_has(tile(0)));
  EXPECT_TRUE(collect_after(0, device::StreamKind::down));
  EXPECT_EQ(in_host_memory(0), 5);
  EXPECT_EQ(state(0), (Coherence{TileState::exclusive, 1}));
  Replica* const other = cache_->pin(0, tile(1));
  ASSERT_NE(other, nullptr);
  expect_contents(*other);
  cache_->release(other);
  expect_value(cache_->pin(0, tile(0)), 5);
  cache_->check_invariants();
}

TEST_F(OwnedTiles, ThoseThatAreNeededLastGoHomeFirst) {
  open(1, 3);
  for (std::size_t number = 0; number < 3; ++number) make_owned(0, number, 5);
  cache_->set_next_uses(0, [&](const HostTile& asked) { return asked == tile(1) ? 9 : asked == tile(0) ? 7 : 3; });
  EXPECT_FALSE(cache_->flush_to_evict(0, 9));
  Replica* const read = cache_->pin(0, tile(1), 9);
  ASSERT_TRUE(cache_->flush_to_evict(0, 3)) << "what is read cannot make room";
  EXPECT_FALSE(cache_->flush_to_evict(0, 3));
  cache_->release(read);
  EXPECT_TRUE(collect_after(0, device::StreamKind::down));
  EXPECT_TRUE(cache_->directory().host_has(tile(0)));
  EXPECT_FALSE(cache_->directory().host_has(tile(1)));
  cache_->check_invariants();
}

TEST_F(OwnedTiles, LeaveTheTruthToAPeer) {
  open(2, 1);
  make_owned(0, 0, 5);
  Replica* const there = cache_->pin(1, tile(0));
  expect_value(there, 5);
  EXPECT_EQ(state(0), (Coherence{TileState::owned, 2}));
  cache_->release(there);
  EXPECT_TRUE(cache_->collect(1));
  EXPECT_FALSE(cache_->flush_to_evict(0)) << "no need";
  Replica* const other = cache_->pin(0, tile(1));
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(cache_->counters(0).bytes_down, 0);
  EXPECT_EQ(state(0), (Coherence{TileState::owned, 1}));
  EXPECT_EQ(cache_->pin(1, tile(2)), nullptr) << "now it is the only copy";
  expect_contents(*other);
  cache_->release(other);
  expect_value(cache_->pin(0, tile(0)), 5);
  cache_->check_invariants();
}

TEST_F(OwnedTiles, AreFlushedWhenAskedFor) {
  open(2, 4);
  EXPECT_EQ(cache_->flush(0, tile(0)), Flush::clean);
  make_owned(0, 0, 5);
  Replica* const output = cache_->acquire_output(1, tile(1), false);
  EXPECT_EQ(cache_->flush(1, tile(1)), Flush::clean) << "what is readable is in host memory";
  EXPECT_EQ(cache_->flush(1, tile(0)), Flush::later) << "another device has it";
  EXPECT_EQ(cache_->flush(0, tile(0)), Flush::begun);
  EXPECT_EQ(cache_->flush(0, tile(0)), Flush::later);
  EXPECT_TRUE(collect_after(0, device::StreamKind::down));
  EXPECT_EQ(cache_->flush(0, tile(0)), Flush::clean);
  EXPECT_EQ(in_host_memory(0), 5);
  cache_->release(output);
  cache_->check_invariants();
}

TEST_F(OwnedTiles, AreAllFlushedAtTheEnd) {
  open(2, 4);
  for (std::size_t number = 0; number < 3; ++number) make_owned(0, number, 5 + static_cast<double>(number));
  cache_->release(cache_->pin(1, tile(2)));
  test::finish(opened_.device(1), {device::StreamKind::peer});
  EXPECT_EQ(cache_->flush_all(0), 3u);
  EXPECT_EQ(cache_->flush_all(1), 1u) << "the other one writes it";
  EXPECT_TRUE(collect_after(0, device::StreamKind::down));
  EXPECT_EQ(cache_->flush_all(0), 0u);
  EXPECT_EQ(cache_->flush_all(1), 0u);
  EXPECT_EQ(cache_->counters(0).bytes_down, static_cast<std::int64_t>(3 * tile_bytes));
  EXPECT_EQ(cache_->counters(1).bytes_down, 0);
  for (std::size_t number = 0; number < 3; ++number) EXPECT_EQ(in_host_memory(number), 5 + static_cast<double>(number));
  cache_->check_invariants();
}

TEST_F(OwnedTiles, AreUpdatedInPlaceByWhoReadsThemAlone) {
  open(2, 2);
  make_owned(0, 0, 5);
  Replica* const there = cache_->pin(1, tile(0));
  expect_value(there, 5);
  Replica* const here = cache_->pin(0, tile(0));
  EXPECT_FALSE(cache_->update(here)) << "nobody knows yet that the copy has ended";
  EXPECT_TRUE(cache_->collect(1));
  EXPECT_FALSE(cache_->update(here)) << "device 1 reads it";
  cache_->release(there);
  ASSERT_TRUE(cache_->update(here));
  EXPECT_EQ(here->version, 2);
  EXPECT_EQ(cache_->directory().replica_count(1), 0u) << "what others have is old";
  EXPECT_EQ(cache_->locate(1, tile(0)), Level::host);
  EXPECT_THROW(cache_->pin(1, tile(0)), InternalError) << "and host memory, too";
  EXPECT_THROW(cache_->acquire_output(1, tile(0), true), InternalError);
  cache_->check_invariants();
  std::fill_n(reinterpret_cast<double*>(here->address), rows * cols, 6.0);
  cache_->publish(here);
  cache_->release(here);
  expect_value(cache_->pin(1, tile(0)), 6);
  cache_->check_invariants();
}

TEST_F(OwnedTiles, WaitForFetchesOfAnOlderVersion) {
  open(2, 4);
  Replica* const old = cache_->pin(1, tile(0));
  const double before = host_[0];
  make_owned(0, 0, 5);
  EXPECT_FALSE(cache_->flush_to_evict(0)) << "as far as device 1 has told, host memory is being read";
  EXPECT_EQ(cache_->flush(0, tile(0)), Flush::later);
  EXPECT_EQ(cache_->flush_all(0), 1u);
  EXPECT_EQ(cache_->counters(0).bytes_down, 0);
  expect_value(old, before);
  cache_->collect(1);
  EXPECT_EQ(cache_->flush(0, tile(0)), Flush::begun);
  cache_->release(old);
  EXPECT_TRUE(collect_after(0, device::StreamKind::down));
}

TEST_F(OwnedTiles, StayWhenTheirFlushIsRefused) {
  HostDeviceSettings refusing;
  refusing.failing_operation = FailingOperation::down;
  refusing.fail_after_ops = 0;
  open(1, 2, refusing);
  make_owned(0, 0, 5);
  try {
    cache_->flush(0, tile(0));
  } catch (const DeviceLost&) {
  }
  cache_->collect(0);
  EXPECT_FALSE(cache_->directory().host_has(tile(0)));
  EXPECT_EQ(state(0), (Coherence{TileState::owned, 1}));
  cache_->check_invariants();
}

}  // namespace owned_tiles_test
}  // namespace tessera::cache
