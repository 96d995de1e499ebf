// The tile cache on host devices: levels, sharing of fetches, eviction, write-back, and all of it from several threads.
#include "cache/tile_cache.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "tests/cache/tile_cache_fixture.hpp"
#include "tests/device/backends.hpp"
#include "tests/modelled_run.hpp"

namespace tessera::cache {
namespace tile_cache_test {

TEST_F(TileCacheTest, CountsAMissThenHits) {
  open(1, 8);
  Replica* first = cache_->pin(0, tile(3));
  ASSERT_NE(first, nullptr);
  expect_contents(*first);
  EXPECT_EQ(cache_->pin(0, tile(3)), first);
  EXPECT_EQ(first->readers, 2);
  const CacheCounters counters = cache_->counters(0);
  EXPECT_EQ(counters.misses, 1);
  EXPECT_EQ(counters.l1_hits, 1);
  EXPECT_EQ(counters.bytes_up, static_cast<std::int64_t>(tile_bytes));
  EXPECT_EQ(counters.pinned, 1);
  cache_->release(first);
  EXPECT_EQ(cache_->counters(0).pinned, 1);
  cache_->release(first);
  EXPECT_EQ(cache_->counters(0).pinned, 0);
  EXPECT_THROW(cache_->release(first), InternalError);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, TakesATileFromAPeerRatherThanFromTheHost) {
  open(3, 8);
  EXPECT_EQ(cache_->locate(1, tile(0)), Level::host);
  Replica* there = cache_->pin(0, tile(0));
  EXPECT_EQ(cache_->locate(1, tile(0)), Level::l2);
  Replica* here = cache_->pin(1, tile(0));
  EXPECT_EQ(cache_->locate(1, tile(0)), Level::l1);
  ASSERT_TRUE(there != nullptr && here != nullptr);
  expect_contents(*here);
  EXPECT_EQ(cache_->counters(1).l2_hits, 1);
  EXPECT_EQ(cache_->counters(1).bytes_up, 0);
  EXPECT_EQ(cache_->counters(1).bytes_peer, static_cast<std::int64_t>(tile_bytes));
  EXPECT_EQ(there->readers, 2);  // its pin and the copy out of it
  // The third device copies from the holder without outgoing copies.
  Replica* third = cache_->pin(2, tile(0));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(here->outgoing, 1);
  expect_contents(*third);
  EXPECT_TRUE(cache_->collect(1));
  EXPECT_TRUE(cache_->collect(2));
  EXPECT_EQ(there->readers, 1);
  EXPECT_EQ(there->outgoing, 0);
  EXPECT_EQ(here->outgoing, 0);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, SharesAFetchThatIsStillInFlight) {
  HostDeviceSettings slow;
  slow.delay_s = 0.05;
  opened_ = test::open_host_devices(2, {slow, HostDeviceSettings{}});
  std::vector<CacheDevice> places;
  for (auto& accelerator : opened_.accelerators) {
    places.push_back({accelerator.device.get(), accelerator.device->reserve(8 * tile_bytes), 8 * tile_bytes});
  }
  cache_.emplace(places);
  cache_->begin_job(tile_bytes, sizeof(double));
  host_.assign(ld * cols, 1.5);
  Replica* there = cache_->pin(0, tile(0));
  Replica* here = cache_->pin(1, tile(0));
  ASSERT_TRUE(there != nullptr && here != nullptr);
  expect_contents(*here);
  EXPECT_EQ(there->ready->status(), device::EventStatus::complete);  // the copy waited for it
  EXPECT_EQ(cache_->counters(0).misses + cache_->counters(1).misses, 1);
}

TEST_F(TileCacheTest, EvictsOnlyWhatNobodyReads) {
  open(1, 3);
  std::vector<Replica*> pinned;
  for (std::size_t t = 0; t < 3; ++t) pinned.push_back(cache_->pin(0, tile(t)));
  EXPECT_EQ(cache_->pin(0, tile(3)), nullptr);
  for (Replica* replica : pinned) expect_contents(*replica);
  cache_->release(pinned[1]);
  Replica* next = cache_->pin(0, tile(3));
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(cache_->counters(0).evictions, 1);
  EXPECT_EQ(cache_->locate(0, tile(1)), Level::host);
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::l1);
  expect_contents(*next);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, ScratchIsNobodysTileUntilTheJobEnds) {
  open(1, 2);
  cache_->release(cache_->pin(0, tile(0)));
  test::finish(opened_.device(0), {device::StreamKind::up});
  const std::byte* const first = cache_->take_scratch(0);
  const std::byte* const second = cache_->take_scratch(0);  // the tile makes room for it
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_GE(static_cast<std::size_t>(std::abs(first - second)), tile_bytes);
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::host);
  EXPECT_EQ(cache_->pin(0, tile(1)), nullptr);
  EXPECT_EQ(cache_->take_scratch(0), nullptr);
  cache_->check_invariants();
  cache_->begin_job(tile_bytes, sizeof(double));
  EXPECT_NE(cache_->pin(0, tile(1)), nullptr);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, DoesNotEvictTheSourceOfAPeerCopy) {
  open(2, 1);
  Replica* there = cache_->pin(0, tile(0));
  ASSERT_NE(cache_->pin(1, tile(0)), nullptr);
  ASSERT_EQ(test::wait_for(there->ready), device::EventStatus::complete);
  cache_->release(there);
  EXPECT_EQ(cache_->pin(0, tile(1)), nullptr);  // until device 1 collects, tile 0 has a reader
  test::finish(opened_.device(1), {device::StreamKind::peer});
  EXPECT_TRUE(cache_->collect(1));
  EXPECT_NE(cache_->pin(0, tile(1)), nullptr);
}

TEST_F(TileCacheTest, WritesAnOutputBackWithoutTouchingThePadding) {
  open(1, 4);
  Replica* output = cache_->acquire_output(0, tile(2), true);
  ASSERT_NE(output, nullptr);
  expect_contents(*output);
  std::vector<double> result(rows * cols);
  for (std::size_t e = 0; e < result.size(); ++e) result[e] = -1.0 - static_cast<double>(e);
  std::memcpy(output->address, result.data(), tile_bytes);
  std::vector<double> expected = host_;
  for (index_t j = 0; j < cols; ++j) {
    for (index_t i = 0; i < rows; ++i) {
      expected[static_cast<std::size_t>(2 * ld * cols + j * ld + i)] = result[static_cast<std::size_t>(j * rows + i)];
    }
  }
  ASSERT_EQ(test::wait_for(write_back(output)), device::EventStatus::complete);
  cache_->finish_output(output);
  EXPECT_EQ(host_, expected);
  EXPECT_EQ(cache_->counters(0).bytes_down, static_cast<std::int64_t>(tile_bytes));
  EXPECT_EQ(cache_->locate(0, tile(2)), Level::host);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, APublishedOutputStaysUntilItIsWrittenBack) {
  open(2, 1);
  Replica* output = cache_->acquire_output(0, tile(1), false);
  ASSERT_NE(output, nullptr);
  std::vector<double> result(rows * cols, 2.5);
  std::memcpy(output->address, result.data(), tile_bytes);
  cache_->publish(output);
  EXPECT_EQ(cache_->locate(1, tile(1)), Level::l2);
  Replica* reader = cache_->pin(1, tile(1));
  ASSERT_NE(reader, nullptr);
  ASSERT_EQ(test::wait_for(reader->ready), device::EventStatus::complete);
  EXPECT_EQ(std::memcmp(reader->address, result.data(), tile_bytes), 0);
  EXPECT_TRUE(cache_->collect(1));
  EXPECT_EQ(cache_->pin(0, tile(0)), nullptr);  // the only slot holds a result that is not in host memory yet
  ASSERT_EQ(test::wait_for(write_back(output)), device::EventStatus::complete);
  cache_->finish_output(output);
  EXPECT_NE(cache_->pin(0, tile(0)), nullptr);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, AResultTakesThePlaceOfTheOldValueWhenItIsPublished) {
  open(2, 4);
  Replica* output = cache_->acquire_output(0, tile(1), false);
  Replica* old = cache_->pin(0, tile(1));
  ASSERT_NE(old, output);
  expect_contents(*old);
  std::vector<double> result(rows * cols, 2.5);
  std::memcpy(output->address, result.data(), tile_bytes);
  cache_->publish(output);
  expect_contents(*old);  // its reader continues
  EXPECT_EQ(cache_->pin(0, tile(1)), output);
  cache_->check_invariants();
  cache_->release(old);
  Replica* reader = cache_->pin(1, tile(1));
  ASSERT_EQ(test::wait_for(reader->ready), device::EventStatus::complete);
  EXPECT_EQ(std::memcmp(reader->address, result.data(), tile_bytes), 0);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, KnowsWhatHasArrived) {
  open(2, 4);
  EXPECT_FALSE(cache_->has_arrived(0, tile(1)));
  Replica* replica = cache_->pin(0, tile(1));
  ASSERT_EQ(test::wait_for(replica->ready), device::EventStatus::complete);
  EXPECT_TRUE(cache_->has_arrived(0, tile(1)));
  EXPECT_FALSE(cache_->has_arrived(1, tile(1)));
}

TEST_F(TileCacheTest, PrefetchFetchesWhatOnlyAnUnreachableDeviceHas) {
  HostDeviceSettings settings;
  settings.peers = false;
  open(2, 4, settings);
  EXPECT_EQ(cache_->prefetch(0, tile(0), 2), Prefetch::started);
  EXPECT_EQ(cache_->prefetch(1, tile(0), 2), Prefetch::started);
  EXPECT_EQ(cache_->prefetch(1, tile(0), 2), Prefetch::held);
  EXPECT_EQ(cache_->counters(1).misses, 1);
}

// The task for which it is prefetched may have been done by another device meanwhile.
TEST_F(TileCacheTest, PrefetchLeavesATileAloneThatIsBeingReplaced) {
  open(2, 4);
  Replica* output = cache_->acquire_output(0, tile(0), false);
  std::memset(output->address, 0, tile_bytes);
  const auto done = write_back(output);  // nobody has to read it: it is not published
  EXPECT_EQ(cache_->prefetch(1, tile(0), 2), Prefetch::held);
  ASSERT_EQ(test::wait_for(done), device::EventStatus::complete);
  EXPECT_EQ(cache_->prefetch(1, tile(0), 2), Prefetch::held);
  cache_->finish_output(output);
  EXPECT_EQ(cache_->prefetch(1, tile(0), 2), Prefetch::started);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, PrefetchTakesOnlyFreeMemoryAndTilesThatNobodyHolds) {
  open(2, 4);
  EXPECT_EQ(cache_->prefetch(0, tile(0), 2), Prefetch::started);
  EXPECT_EQ(cache_->prefetch(0, tile(0), 2), Prefetch::held);  // on its way
  EXPECT_EQ(cache_->prefetch(1, tile(0), 2), Prefetch::held);  // a peer has it
  EXPECT_EQ(cache_->prefetch(0, tile(1), 2), Prefetch::started);
  EXPECT_EQ(cache_->prefetch(0, tile(2), 2), Prefetch::no_memory);  // two segments are left
  EXPECT_EQ(cache_->counters(0).misses, 2);
  Replica* pinned = cache_->pin(0, tile(1));
  ASSERT_NE(pinned, nullptr);
  EXPECT_EQ(cache_->counters(0).l1_hits, 1);
  expect_contents(*pinned);
  EXPECT_FALSE(cache_->is_fetching(0));  // copies up run in order
  cache_->check_invariants();
}

// On a modelled device, whose copies end when the test decides.
TEST_F(TileCacheTest, CountsWhatWaitsBehindTheCopyUnderWay) {
  open(1, 8);  // for the host tiles
  const test::ModelledMachine machine = test::modelled_h200(1);
  test::VirtualClock clock;
  test::HostTraffic traffic;
  test::ModelledDevice device(0, machine, clock, traffic);
  TileCache cache({{&device, device.reserve(8 * tile_bytes), 8 * tile_bytes}});
  cache.begin_job(tile_bytes, sizeof(double));
  EXPECT_FALSE(cache.is_fetching(0));
  EXPECT_EQ(cache.queued_bytes(0), 0);
  for (index_t left = 0; left < 3; ++left) {
    EXPECT_EQ(cache.prefetch(0, tile(static_cast<std::size_t>(left)), 0), Prefetch::started);
    EXPECT_TRUE(cache.is_fetching(0));
    EXPECT_EQ(cache.queued_bytes(0), left * static_cast<index_t>(tile_bytes));
  }
  for (index_t left = 2; left >= 0; --left) {
    EXPECT_TRUE(cache.is_fetching(0));
    EXPECT_EQ(cache.queued_bytes(0), left * static_cast<index_t>(tile_bytes));
    clock.set(device.next_end());
    device.settle();
  }
  EXPECT_FALSE(cache.is_fetching(0));
  EXPECT_EQ(cache.queued_bytes(0), 0);
}

TEST_F(TileCacheTest, EvictsWhatIsNeededLast) {
  open(1, 4);
  for (const auto& [number, next_use] : {std::pair<std::size_t, index_t>{0, 30}, {1, 50}, {2, 10}, {3, 40}}) {
    Replica* replica = cache_->pin(0, tile(number), next_use);
    ASSERT_NE(replica, nullptr);
    expect_contents(*replica);
    if (number != 1) cache_->release(replica);  // the farthest is in use
  }
  ASSERT_NE(cache_->pin(0, tile(4), 20), nullptr);
  EXPECT_EQ(cache_->locate(0, tile(3)), Level::host);
  ASSERT_NE(cache_->pin(0, tile(5), 20), nullptr);
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::host);
  EXPECT_EQ(cache_->locate(0, tile(1)), Level::l1);
  EXPECT_EQ(cache_->locate(0, tile(2)), Level::l1);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, EvictsTheLeastRecentlyUsedOfWhatIsNeededNoMore) {
  open(1, 3);
  for (std::size_t t = 0; t < 3; ++t) {
    Replica* replica = cache_->pin(0, tile(t), t == 0 ? 5 : never);
    expect_contents(*replica);
    cache_->release(replica);
  }
  cache_->release(cache_->pin(0, tile(1)));
  cache_->pin(0, tile(3));
  EXPECT_EQ(cache_->locate(0, tile(2)), Level::host);
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::l1);
  EXPECT_EQ(cache_->locate(0, tile(1)), Level::l1);
}

TEST_F(TileCacheTest, PrefetchReplacesOnlyWhatIsNeededLater) {
  open(1, 3);
  for (std::size_t t = 0; t < 3; ++t) {
    Replica* replica = cache_->pin(0, tile(t), 10 * static_cast<index_t>(t + 1));
    expect_contents(*replica);
    cache_->release(replica);
  }
  EXPECT_EQ(cache_->prefetch(0, tile(3), 0, 30, 30), Prefetch::no_memory);
  EXPECT_EQ(cache_->prefetch(0, tile(3), 0), Prefetch::no_memory);
  EXPECT_EQ(cache_->prefetch(0, tile(3), 0, 25, 25), Prefetch::started);
  EXPECT_EQ(cache_->locate(0, tile(2)), Level::host);
  EXPECT_EQ(cache_->counters(0).evictions, 1);
  // The tile is needed at 25. It is not evicted for a tile that is needed then, but for one that is needed sooner, once
  // it has arrived.
  test::finish(opened_.device(0), {device::StreamKind::up});
  EXPECT_EQ(cache_->prefetch(0, tile(2), 0, 25, 25), Prefetch::no_memory);
  EXPECT_EQ(cache_->prefetch(0, tile(2), 0, 15, 15), Prefetch::started);
  EXPECT_EQ(cache_->locate(0, tile(3)), Level::host);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, AnOutputSparesWhatIsNeededSoon) {
  open(1, 2);
  for (std::size_t t = 0; t < 2; ++t) {
    Replica* replica = cache_->pin(0, tile(t), t == 0 ? 3 : 7);
    expect_contents(*replica);
    cache_->release(replica);
  }
  EXPECT_EQ(cache_->acquire_output(0, tile(5), false, 7), nullptr);
  EXPECT_NE(cache_->acquire_output(0, tile(5), false, 6), nullptr);
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::l1);
  EXPECT_NE(cache_->acquire_output(0, tile(6), false), nullptr);
  cache_->check_invariants();
}

TEST_F(TileCacheTest, LearnsNextUsesAnew) {
  open(1, 2);
  for (std::size_t t = 0; t < 2; ++t) {
    Replica* replica = cache_->pin(0, tile(t), t == 0 ? 3 : 7);
    expect_contents(*replica);
    cache_->release(replica);
  }
  cache_->set_next_uses(0, [&](const HostTile& asked) { return asked == tile(1) ? 1 : never; });
  cache_->pin(0, tile(2));
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::host);
  EXPECT_EQ(cache_->locate(0, tile(1)), Level::l1);
}

TEST_F(TileCacheTest, TrustsNothingOfAnEarlierJob) {
  open(1, 4);
  cache_->release(cache_->pin(0, tile(0)));
  test::finish(opened_.device(0), {device::StreamKind::up});
  host_[0] = 777;
  cache_->begin_job(tile_bytes, sizeof(double));
  EXPECT_EQ(cache_->locate(0, tile(0)), Level::host);
  Replica* again = cache_->pin(0, tile(0));
  ASSERT_NE(again, nullptr);
  expect_contents(*again);
  EXPECT_EQ(cache_->counters(0).misses, 1);
}

TEST_F(TileCacheTest, ForgetsATileWhoseFetchCouldNotBeSubmitted) {
  HostDeviceSettings broken;
  broken.fail_after_ops = 0;
  opened_ = test::open_host_devices(1, {broken});
  std::byte* slab = opened_.device(0).reserve(8 * tile_bytes);
  cache_.emplace(std::vector<CacheDevice>{{&opened_.device(0), slab, 8 * tile_bytes}});
  cache_->begin_job(tile_bytes, sizeof(double));
  host_.assign(ld * cols * 2, 0);
  // The copy fails on the device's own thread, during its submission or later.
  try {
    Replica* failing = cache_->pin(0, tile(0));
    ASSERT_NE(failing, nullptr);
    EXPECT_EQ(test::wait_for(failing->ready), device::EventStatus::failed);
  } catch (const DeviceLost&) {
    EXPECT_EQ(cache_->locate(0, tile(0)), Level::host);
  }
  EXPECT_THROW(cache_->pin(0, tile(1)), DeviceLost);
  EXPECT_EQ(cache_->locate(0, tile(1)), Level::host);
  cache_->check_invariants();
}

// Each device's thread pins, checks and releases random tiles of a few, with too little memory for all of them.
TEST_F(TileCacheTest, StaysCoherentUnderConcurrentUse) {
  constexpr int devices = 3;
  open(devices, 6);
  std::vector<std::thread> threads;
  std::vector<int> wrong(devices, 0);
  for (int d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      std::mt19937 random(static_cast<unsigned>(d));
      for (int round = 0; round < 400; ++round) {
        cache_->collect(d);
        Replica* replica = cache_->pin(d, tile(random() % 12));
        if (replica == nullptr) continue;  // all in use by peers at this moment
        while (replica->ready->status() == device::EventStatus::pending) std::this_thread::yield();
        for (index_t j = 0; j < cols; ++j) {
          const auto* source = replica->tile.address + j * ld * 8;
          if (std::memcmp(replica->address + j * rows * 8, source, rows * 8) != 0) ++wrong[static_cast<std::size_t>(d)];
        }
        cache_->release(replica);
        if (round % 50 == 0) cache_->check_invariants();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int d = 0; d < devices; ++d) {
    test::finish(opened_.device(static_cast<std::size_t>(d)), {device::StreamKind::peer});
    cache_->collect(d);
  }
  EXPECT_EQ(wrong, std::vector<int>(devices, 0));
  cache_->check_invariants();
  std::int64_t evictions = 0;
  for (int d = 0; d < devices; ++d) evictions += cache_->counters(d).evictions;
  EXPECT_GT(evictions, 0);
}

}  // namespace tile_cache_test
}  // namespace tessera::cache
