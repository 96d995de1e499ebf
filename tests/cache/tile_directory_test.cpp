#include "cache/tile_directory.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tessera::cache {
namespace tile_directory_test {

class TileDirectoryTest : public ::testing::Test {
 protected:
  HostTile tile(std::size_t number) { return {host_.data() + number, 8, 8, 100}; }

  std::array<std::byte, 4096> host_{};
  std::array<std::byte, 4096> memory_{};
  TileDirectory directory_{3};
};

TEST_F(TileDirectoryTest, TellsWhoHoldsATile) {
  EXPECT_EQ(directory_.find(0, tile(0)), nullptr);
  Replica& a = directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  Replica& b = directory_.insert(2, tile(0), memory_.data() + 8, TileEvent::copy);
  EXPECT_EQ(directory_.find(0, tile(0)), &a);
  EXPECT_EQ(directory_.find(1, tile(0)), nullptr);
  EXPECT_EQ(directory_.find(2, tile(0)), &b);
  EXPECT_EQ(directory_.holders(tile(0)), (std::vector<Replica*>{&a, &b}));
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::shared, 2}));
  directory_.check_invariants();
  directory_.erase(a, TileEvent::drop);
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::exclusive, 1}));
  directory_.erase(b, TileEvent::drop);
  EXPECT_EQ(directory_.coherence(tile(0)), Coherence{});
  directory_.check_invariants();
}

TEST_F(TileDirectoryTest, TilesDifferByEveryPartOfTheirIdentity) {
  directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  HostTile other = tile(0);
  other.rows = 7;
  EXPECT_EQ(directory_.find(0, other), nullptr);
  other = tile(0);
  other.cols = 7;
  EXPECT_EQ(directory_.find(0, other), nullptr);
  other = tile(0);
  other.ld = 101;
  EXPECT_EQ(directory_.find(0, other), nullptr);
}

TEST_F(TileDirectoryTest, EvictsTheLeastRecentlyUsedTileWithoutReaders) {
  Replica& a = directory_.insert(1, tile(0), memory_.data(), TileEvent::fetch);
  Replica& b = directory_.insert(1, tile(1), memory_.data() + 8, TileEvent::fetch);
  Replica& c = directory_.insert(1, tile(2), memory_.data() + 16, TileEvent::fetch);
  EXPECT_EQ(directory_.eviction_candidate(0), nullptr);
  EXPECT_EQ(directory_.eviction_candidate(1), &a);
  directory_.touch(a);
  EXPECT_EQ(directory_.eviction_candidate(1), &b);
  b.readers = 1;
  EXPECT_EQ(directory_.eviction_candidate(1), &c);  // approximate: the least recent one that can go
  c.readers = 2;
  EXPECT_EQ(directory_.eviction_candidate(1), &a);
  a.readers = 1;
  EXPECT_EQ(directory_.eviction_candidate(1), nullptr);
  b.readers = 0;
  EXPECT_EQ(directory_.eviction_candidate(1), &b);
}

TEST_F(TileDirectoryTest, NeverEvictsATileThatIsStillArriving) {
  Replica& a = directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  a.arriving = true;
  EXPECT_EQ(directory_.eviction_candidate(0), nullptr);
  a.arriving = false;
  EXPECT_EQ(directory_.eviction_candidate(0), &a);
}

TEST_F(TileDirectoryTest, RefusesWhatTheProtocolForbids) {
  Replica& a = directory_.insert(0, tile(0), memory_.data(), TileEvent::write);
  EXPECT_THROW(directory_.insert(1, tile(0), memory_.data(), TileEvent::write), InternalError);
  EXPECT_THROW(directory_.erase(a, TileEvent::drop), InternalError);
  EXPECT_THROW(directory_.erase(a, TileEvent::discard), InternalError);
  EXPECT_THROW(directory_.end_write_back(a), InternalError);
  directory_.check_invariants();
  directory_.publish(a);
  directory_.begin_write_back(a);
  EXPECT_THROW(directory_.erase(a), InternalError) << "not there yet";
  directory_.end_write_back(a);
  EXPECT_THROW(directory_.begin_write_back(a), InternalError) << "it is there";
  a.readers = 1;
  EXPECT_THROW(directory_.erase(a), InternalError);
  a.readers = 0;
  directory_.erase(a);
  directory_.check_invariants();
  directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  EXPECT_THROW(directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch), InternalError);
  directory_.check_invariants();
}

// trmm in place: others read the old value while a device writes the new one.
TEST_F(TileDirectoryTest, AnOutputIsNotTheReadableTile) {
  Replica& output = directory_.insert(0, tile(0), memory_.data(), TileEvent::write);
  EXPECT_EQ(directory_.find(0, tile(0)), nullptr);
  Replica& old = directory_.insert(0, tile(0), memory_.data() + 8, TileEvent::fetch);
  EXPECT_EQ(directory_.find(0, tile(0)), &old);
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::exclusive, 1}));
  EXPECT_EQ(directory_.coherence(tile(0), true), (Coherence{TileState::modified, 1}));
  old.readers = 1;
  directory_.check_invariants();
  directory_.publish(output);
  directory_.check_invariants();
  // The reader of the old value continues; no lookup finds it.
  EXPECT_EQ(directory_.find(0, tile(0)), &output);
  EXPECT_TRUE(old.superseded);
  EXPECT_EQ(old.version, 0);
  EXPECT_EQ(output.version, 1);
  EXPECT_EQ(directory_.eviction_candidate(0), nullptr);
  old.readers = 0;
  EXPECT_EQ(directory_.eviction_candidate(0), &old);
  directory_.erase(old);
  directory_.check_invariants();
}

// trsm: the solution is read by the tasks that come after.
TEST_F(TileDirectoryTest, APublishedOutputIsOwned) {
  Replica& output = directory_.insert(1, tile(0), memory_.data(), TileEvent::write);
  directory_.publish(output);
  EXPECT_EQ(directory_.find(1, tile(0)), &output);
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::owned, 1}));
  EXPECT_EQ(directory_.coherence(tile(0), true), Coherence{});
  EXPECT_EQ(directory_.version(tile(0)), 1);
  EXPECT_FALSE(directory_.host_has(tile(0)));
  directory_.check_invariants();
  EXPECT_THROW(directory_.insert(0, tile(0), memory_.data() + 8, TileEvent::fetch), InternalError);
  EXPECT_EQ(directory_.eviction_candidate(1), nullptr) << "the only copy";
  EXPECT_EQ(directory_.write_back_candidate(1), &output);
  Replica& other = directory_.insert(0, tile(0), memory_.data() + 8, TileEvent::copy);
  directory_.check_invariants();
  EXPECT_EQ(directory_.write_back_candidate(1), nullptr) << "it can go as it is";
  EXPECT_EQ(directory_.eviction_candidate(1), &output);
  directory_.erase(output);
  EXPECT_THROW(directory_.erase(other), InternalError);
  directory_.begin_write_back(other);
  EXPECT_EQ(directory_.write_back_candidate(0), nullptr) << "it is on its way";
  EXPECT_FALSE(directory_.host_has(tile(0)));
  directory_.end_write_back(other);
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::exclusive, 1}));
  EXPECT_EQ(directory_.eviction_candidate(0), &other);
  directory_.check_invariants();
}

// gemm: no lookup may find the result, which leaves the device once it is in host memory.
TEST_F(TileDirectoryTest, AnOutputThatIsWrittenBackUnpublishedIsFoundByNobody) {
  Replica& old = directory_.insert(1, tile(0), memory_.data(), TileEvent::fetch);
  Replica& output = directory_.insert(0, tile(0), memory_.data(), TileEvent::write);
  EXPECT_EQ(directory_.begin_write_back(output), 0);
  EXPECT_TRUE(old.superseded);
  for (const int device : {0, 1}) EXPECT_EQ(directory_.find(device, tile(0)), nullptr);
  EXPECT_TRUE(directory_.holders(tile(0)).empty());
  for (const int device : {0, 1}) {
    EXPECT_THROW(directory_.insert(device, tile(0), memory_.data() + 8, TileEvent::fetch), InternalError);
  }
  directory_.check_invariants();
  EXPECT_EQ(directory_.begin_write_back(output), TileEntry::none) << "once more, after a failure";
  directory_.cancel_write_back(output, TileEntry::none);
  directory_.begin_write_back(output);
  directory_.end_write_back(output);
  directory_.erase(output);
  EXPECT_EQ(directory_.coherence(tile(0)), Coherence{});
  EXPECT_EQ(directory_.version(tile(0)), 1);
  EXPECT_EQ(directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch).version, 1);
  directory_.check_invariants();
}

TEST_F(TileDirectoryTest, UpdatesInPlaceWhatNobodyElseReads) {
  Replica& mine = directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  Replica& other = directory_.insert(1, tile(0), memory_.data() + 8, TileEvent::copy);
  EXPECT_FALSE(directory_.can_update(mine)) << "who updates has pinned it";
  mine.readers = 1;
  EXPECT_TRUE(directory_.can_update(mine));
  other.readers = 1;
  EXPECT_FALSE(directory_.can_update(mine));
  EXPECT_THROW(directory_.update(mine), InternalError);
  other.readers = 0;
  other.submitting = true;
  EXPECT_FALSE(directory_.can_update(mine));
  other.submitting = false;
  mine.readers = 2;
  EXPECT_FALSE(directory_.can_update(mine));
  mine.readers = 1;
  directory_.update(mine);
  directory_.check_invariants();
  EXPECT_TRUE(other.superseded);
  EXPECT_EQ(mine.version, 1);
  EXPECT_EQ(directory_.coherence(tile(0), true), (Coherence{TileState::modified, 1}));
  for (const int device : {0, 1}) EXPECT_EQ(directory_.find(device, tile(0)), nullptr);
  EXPECT_TRUE(directory_.host_has(tile(0))) << "the old version, as long as the new one is being made";
  EXPECT_THROW(directory_.insert(1, tile(0), memory_.data(), TileEvent::write), InternalError);
  directory_.publish(mine);
  directory_.update(mine);  // from Owned
  directory_.check_invariants();
  EXPECT_FALSE(directory_.host_has(tile(0)));
  EXPECT_THROW(directory_.insert(1, tile(0), memory_.data(), TileEvent::fetch), InternalError);
  directory_.publish(mine);
  EXPECT_EQ(directory_.version(tile(0)), 2);
  directory_.check_invariants();
}

TEST_F(TileDirectoryTest, AWriteBackThatANewVersionOvertakesIsOfTheOldOne) {
  Replica& first = directory_.insert(0, tile(0), memory_.data(), TileEvent::write);
  directory_.publish(first);
  directory_.begin_write_back(first);
  Replica& second = directory_.insert(1, tile(0), memory_.data() + 8, TileEvent::write);
  directory_.publish(second);
  EXPECT_THROW(directory_.begin_write_back(second), InternalError) << "one after the other";
  directory_.end_write_back(first);
  EXPECT_FALSE(directory_.host_has(tile(0)));
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::owned, 1}));
  EXPECT_THROW(directory_.begin_write_back(first), InternalError) << "an old version";
  directory_.begin_write_back(second);
  directory_.end_write_back(second);
  EXPECT_TRUE(directory_.host_has(tile(0)));
  directory_.check_invariants();
}

TEST_F(TileDirectoryTest, ForgetsEverything) {
  directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  directory_.insert(1, tile(1), memory_.data(), TileEvent::write);
  directory_.clear();
  EXPECT_EQ(directory_.find(0, tile(0)), nullptr);
  EXPECT_EQ(directory_.replica_count(1), 0u);
  directory_.check_invariants();
}

}  // namespace tile_directory_test
}  // namespace tessera::cache
