// Tails are copied with every version of a tile but the first: to peers, to host memory, and up again. The tiles are
// copied as without tails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/cache/tile_cache_fixture.hpp"

namespace tessera::cache {
namespace tiles_with_tails_test {

constexpr std::size_t tail_words = 5;

class TilesWithTails : public TileCacheTest {
 protected:
  void SetUp() override {
    open(2, 16);
    cache_->begin_job(2 * tile_bytes, sizeof(double));
    tail_.assign(tail_words, -1);
  }
  HostTile tile_with_tail() {
    HostTile with = tile(3);
    with.tail = reinterpret_cast<std::byte*>(tail_.data());
    with.tail_bytes = tail_words * sizeof(std::int64_t);
    return with;
  }
  std::vector<std::int64_t> tail_on(const Replica& replica) {
    std::vector<std::int64_t> words(tail_words);
    std::memcpy(words.data(), cache_->tail(replica), tail_words * sizeof(std::int64_t));
    return words;
  }
  Replica* make_version(const std::vector<std::int64_t>& words) {
    Replica* const output = cache_->acquire_output(0, tile_with_tail(), true);
    EXPECT_EQ(test::wait_for(output->ready), device::EventStatus::complete);
    std::memcpy(cache_->tail(*output), words.data(), tail_words * sizeof(std::int64_t));
    return output;
  }

  std::vector<std::int64_t> tail_;
};

TEST_F(TilesWithTails, TheFirstVersionHasNone) {
  Replica* const output = cache_->acquire_output(0, tile_with_tail(), true);
  expect_contents(*output);
  EXPECT_EQ(cache_->counters(0).bytes_up, static_cast<std::int64_t>(tile_bytes));
}

TEST_F(TilesWithTails, PeersAndHostMemoryGetThem) {
  const std::vector<std::int64_t> words = {1, 2, 3, 4, 5};
  Replica* const output = make_version(words);
  cache_->publish(output);
  Replica* const copy = cache_->pin(1, tile_with_tail());
  ASSERT_NE(copy, nullptr);
  expect_contents(*copy);
  EXPECT_EQ(tail_on(*copy), words);
  EXPECT_EQ(cache_->counters(1).bytes_peer, static_cast<std::int64_t>(tile_bytes + tail_words * 8));
  EXPECT_EQ(tail_, std::vector<std::int64_t>(tail_words, -1)) << "not home yet";
  ASSERT_EQ(test::wait_for(write_back(output)), device::EventStatus::complete);
  cache_->end_write_back(output);
  EXPECT_EQ(tail_, words);
  EXPECT_EQ(cache_->counters(0).bytes_down, static_cast<std::int64_t>(tile_bytes + tail_words * 8));
}

// As after a loss of devices: the tile is read from host memory.
TEST_F(TilesWithTails, ComeUpAgainFromHostMemory) {
  tail_ = {9, 8, 7, 6, 5};
  Replica* const replica = cache_->pin(1, tile_with_tail());
  ASSERT_NE(replica, nullptr);
  expect_contents(*replica);
  EXPECT_EQ(tail_on(*replica), tail_);
}

}  // namespace tiles_with_tails_test
}  // namespace tessera::cache
