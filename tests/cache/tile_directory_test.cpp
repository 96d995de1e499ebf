#include "cache/tile_directory.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tessera::cache {
namespace {

class FixedEvent final : public device::Event {
 public:
  explicit FixedEvent(device::EventStatus status) : status_(status) {}
  device::EventStatus status() const noexcept override { return status_; }
  double completed_at() const override { return 0; }
  void set(device::EventStatus status) { status_ = status; }

 private:
  device::EventStatus status_;
};

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
  Replica& b = directory_.insert(2, tile(0), memory_.data() + 8, TileEvent::fetch);
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
  const auto arriving = std::make_shared<FixedEvent>(device::EventStatus::pending);
  a.ready = arriving;
  EXPECT_EQ(directory_.eviction_candidate(0), nullptr);
  arriving->set(device::EventStatus::failed);
  EXPECT_EQ(directory_.eviction_candidate(0), nullptr);
  arriving->set(device::EventStatus::complete);
  EXPECT_EQ(directory_.eviction_candidate(0), &a);
}

TEST_F(TileDirectoryTest, RefusesWhatTheProtocolForbids) {
  Replica& a = directory_.insert(0, tile(0), memory_.data(), TileEvent::write);
  EXPECT_THROW(directory_.insert(1, tile(0), memory_.data(), TileEvent::write), InternalError);
  EXPECT_THROW(directory_.erase(a, TileEvent::drop), InternalError);
  a.readers = 1;
  EXPECT_THROW(directory_.erase(a, TileEvent::write_back), InternalError);
  a.readers = 0;
  directory_.check_invariants();
  directory_.erase(a, TileEvent::write_back);
  directory_.check_invariants();
  directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch);
  EXPECT_THROW(directory_.insert(0, tile(0), memory_.data(), TileEvent::fetch), InternalError);
}

// trmm in place: others read the old value while a device writes the new one.
TEST_F(TileDirectoryTest, AnOutputIsNotTheReadableTile) {
  Replica& output = directory_.insert(0, tile(0), memory_.data(), TileEvent::write);
  EXPECT_EQ(directory_.find(0, tile(0)), nullptr);
  Replica& old = directory_.insert(0, tile(0), memory_.data() + 8, TileEvent::fetch);
  EXPECT_EQ(directory_.find(0, tile(0)), &old);
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::exclusive, 1}));
  EXPECT_EQ(directory_.coherence(tile(0), true), (Coherence{TileState::modified, 1}));
  EXPECT_THROW(directory_.publish(output), InternalError);  // the old value is still held
  directory_.check_invariants();
}

// trsm: the solution is read by the tasks that come after.
TEST_F(TileDirectoryTest, APublishedOutputIsReadable) {
  Replica& output = directory_.insert(1, tile(0), memory_.data(), TileEvent::write);
  directory_.publish(output);
  EXPECT_EQ(directory_.find(1, tile(0)), &output);
  EXPECT_EQ(directory_.coherence(tile(0)), (Coherence{TileState::exclusive, 1}));
  EXPECT_EQ(directory_.coherence(tile(0), true), Coherence{});
  directory_.check_invariants();
  directory_.insert(0, tile(0), memory_.data() + 8, TileEvent::fetch);
  directory_.check_invariants();
  EXPECT_EQ(directory_.eviction_candidate(1), &output);
  directory_.erase(output, TileEvent::drop);
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

}  // namespace
}  // namespace tessera::cache
