// A mirror: blocks that are found again, others in their place, and memory that is free again.
#include "residence/mirror.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace tessera::residence {
namespace {

class FakeEvent final : public device::Event {
 public:
  device::EventStatus status() const noexcept override { return now; }
  double completed_at() const override { return 0; }
  device::EventStatus now = device::EventStatus::pending;
};

/// A mirror over addresses that nobody reads.
class MirrorTest : public testing::Test {
 protected:
  static constexpr std::size_t bytes = 1 << 20;

  std::byte* slab() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40U); }
  /// All events so far are over.
  void end_uses() {
    for (const auto& event : events_) event->now = device::EventStatus::complete;
    events_.clear();
  }

  bool knows_uses_ = true;
  bool holds_uses_ = false;  ///< uses of blocks that are given up go on
  std::vector<std::shared_ptr<FakeEvent>> events_;
  std::size_t taken_ = 0;           ///< bytes of the device that have been taken
  std::size_t most_taken_ = bytes;  ///< that there are
  std::vector<std::byte*> given_back_;
  Mirror mirror_{{.uses_end = [this]() -> std::optional<Mirror::Events> {
                    if (!knows_uses_) return std::nullopt;
                    if (!holds_uses_) return Mirror::Events();
                    events_.push_back(std::make_shared<FakeEvent>());
                    return Mirror::Events{events_.back()};
                  },
                  .take = [this](std::size_t wanted) -> std::byte* {
                    if (taken_ + wanted > most_taken_) return nullptr;
                    taken_ += wanted;
                    return slab() + 2 * (taken_ - wanted);  // with gaps between
                  },
                  .free = [this](std::byte* memory) { given_back_.push_back(memory); },
                  .most_bytes = bytes}};
};

TEST_F(MirrorTest, FindsWhatWasMade) {
  const Rectangle block{64, 3, 256, 5};
  EXPECT_TRUE(mirror_.find(1, block).empty());
  std::byte* const at = mirror_.make(1, block);
  ASSERT_NE(at, nullptr);
  const auto pieces = mirror_.find(1, block);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].part, block);
  EXPECT_EQ(pieces[0].on_device.address, at);
  EXPECT_EQ(pieces[0].on_device.pitch_bytes, 256);
  EXPECT_TRUE(mirror_.find(2, block).empty());
  EXPECT_TRUE(mirror_.find(1, {64, 3, 256, 6}).empty());
}

TEST_F(MirrorTest, PartsOfABlock) {
  std::byte* const at = mirror_.make(1, {64, 3, 256, 5});
  const auto pieces = mirror_.find(1, {128, 4, 64, 2});
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].on_device.address, at + 256 + 64);
  EXPECT_EQ(pieces[0].on_device.pitch_bytes, 256);
}

TEST_F(MirrorTest, SeveralBlocksMakeARectangle) {
  for (const index_t row : {0, 256}) {
    for (const index_t column : {0, 8, 16}) ASSERT_NE(mirror_.make(1, {row, column, 256, 8}), nullptr);
  }
  const Rectangle wanted{128, 4, 256, 16};
  const auto pieces = mirror_.find(1, wanted);
  EXPECT_EQ(pieces.size(), 6U);
  index_t sum = 0;
  for (const auto& piece : pieces) sum += piece.part.bytes();
  EXPECT_EQ(sum, wanted.bytes());
  mirror_.drop(1, {300, 9, 1, 1});
  EXPECT_TRUE(mirror_.find(1, wanted).empty());
  EXPECT_FALSE(mirror_.find(1, {128, 4, 128, 16}).empty());
}

TEST_F(MirrorTest, ANewBlockTakesThePlaceOfOthers) {
  mirror_.make(1, {0, 0, 256, 8});
  mirror_.make(2, {0, 0, 256, 8});
  mirror_.make(1, {128, 4, 256, 8});
  EXPECT_TRUE(mirror_.find(1, {0, 0, 128, 4}).empty());
  EXPECT_FALSE(mirror_.find(2, {0, 0, 256, 8}).empty());
  mirror_.check_invariants();
}

TEST_F(MirrorTest, TheBlockUsedLongestAgoGoesFirst) {
  const auto block = [](index_t column) { return Rectangle{0, column, bytes / 4, 1}; };
  for (const index_t column : {0, 1, 2, 3}) mirror_.make(1, block(column));
  EXPECT_FALSE(mirror_.find(1, block(0)).empty());
  mirror_.make(1, block(4));
  EXPECT_TRUE(mirror_.find(1, block(1)).empty());
  for (const index_t column : {0, 2, 3, 4}) EXPECT_FALSE(mirror_.find(1, block(column)).empty()) << column;
}

TEST_F(MirrorTest, MemoryInUseIsNotGivenAnew) {
  holds_uses_ = true;
  ASSERT_NE(mirror_.make(1, {0, 0, bytes, 1}), nullptr);
  EXPECT_EQ(mirror_.make(1, {0, 1, bytes, 1}), nullptr);
  EXPECT_EQ(mirror_.resident_bytes(), 0U);
  EXPECT_EQ(mirror_.make(1, {0, 1, 256, 1}), nullptr);
  mirror_.check_invariants();
  end_uses();
  EXPECT_NE(mirror_.make(1, {0, 1, bytes, 1}), nullptr);
  mirror_.check_invariants();
}

TEST_F(MirrorTest, NothingIsGivenAnewWhileNobodyKnowsOfUses) {
  ASSERT_NE(mirror_.make(1, {0, 0, bytes, 1}), nullptr);
  knows_uses_ = false;
  EXPECT_EQ(mirror_.make(1, {0, 1, bytes, 1}), nullptr);
  EXPECT_EQ(mirror_.make(1, {0, 1, 256, 1}), nullptr);
  mirror_.check_invariants();
  knows_uses_ = true;
  EXPECT_NE(mirror_.make(1, {0, 1, bytes, 1}), nullptr);
  mirror_.check_invariants();
}

TEST_F(MirrorTest, NoMoreIsGivenUpThanIsNeeded) {
  holds_uses_ = true;
  const auto block = [](index_t column) { return Rectangle{0, column, bytes / 8, 1}; };
  for (index_t column = 0; column < 8; ++column) mirror_.make(1, block(column));
  EXPECT_EQ(mirror_.make(1, block(8)), nullptr);
  EXPECT_EQ(mirror_.make(1, block(8)), nullptr);
  EXPECT_EQ(mirror_.resident_bytes(), 7 * bytes / 8);
  end_uses();
  EXPECT_NE(mirror_.make(1, block(8)), nullptr);
  EXPECT_EQ(mirror_.resident_bytes(), bytes);
}

TEST_F(MirrorTest, WhatIsLargerThanTheMemoryDropsNothingElse) {
  mirror_.make(1, {0, 0, 256, 8});
  mirror_.make(1, {0, 8, 256, 8});
  EXPECT_EQ(mirror_.make(1, {0, 0, bytes, 2}), nullptr);
  EXPECT_TRUE(mirror_.find(1, {0, 0, 256, 8}).empty());
  EXPECT_FALSE(mirror_.find(1, {0, 8, 256, 8}).empty());
}

TEST_F(MirrorTest, MemoryIsTakenAsItIsNeeded) {
  EXPECT_EQ(mirror_.taken_bytes(), 0U);
  ASSERT_NE(mirror_.make(1, {0, 0, 256, 8}), nullptr);
  EXPECT_EQ(mirror_.taken_bytes(), bytes / 8);
  ASSERT_NE(mirror_.make(1, {0, 8, bytes / 2, 1}), nullptr);
  EXPECT_EQ(mirror_.taken_bytes(), bytes / 8 + bytes / 2);
  mirror_.give_back();
  EXPECT_EQ(mirror_.taken_bytes(), 0U);
  EXPECT_EQ(given_back_.size(), 2U);
  EXPECT_TRUE(mirror_.find(1, {0, 0, 256, 8}).empty());
  mirror_.check_invariants();
}

TEST_F(MirrorTest, ADeviceWithoutMemoryKeepsWhatItHas) {
  most_taken_ = bytes / 4;
  const auto block = [](index_t column) { return Rectangle{0, column, bytes / 8, 1}; };
  for (const index_t column : {0, 1, 2}) EXPECT_NE(mirror_.make(1, block(column)), nullptr);
  EXPECT_TRUE(mirror_.find(1, block(0)).empty());
  for (const index_t column : {1, 2}) EXPECT_FALSE(mirror_.find(1, block(column)).empty());
}

TEST_F(MirrorTest, SmallSegmentsMakeRoomForALargeBlock) {
  most_taken_ = 4 * bytes;
  for (index_t column = 0; column < 8; ++column) ASSERT_NE(mirror_.make(1, {0, column, bytes / 8, 1}), nullptr);
  EXPECT_EQ(mirror_.taken_bytes(), bytes);
  ASSERT_NE(mirror_.make(2, {0, 0, bytes / 2, 1}), nullptr);
  EXPECT_EQ(mirror_.taken_bytes(), bytes);
  EXPECT_EQ(given_back_.size(), 4U);
  for (index_t column = 0; column < 8; ++column)
    EXPECT_EQ(mirror_.find(1, {0, column, bytes / 8, 1}).empty(), column < 4) << column;
  mirror_.check_invariants();
}

// Beside a model that remembers for each byte of small matrices which block it is in.
TEST_F(MirrorTest, AgreesWithAModelOfBytes) {
  constexpr index_t size = 24;
  std::mt19937 random(7);
  const auto draw = [&](index_t most) { return static_cast<index_t>(random() % static_cast<unsigned>(most)); };
  struct Cell {
    std::byte* address = nullptr;
  };
  std::map<MatrixId, std::vector<Cell>> model;
  const auto cell = [&](MatrixId matrix, index_t row, index_t column) -> Cell& {
    auto& cells = model[matrix];
    if (cells.empty()) cells.resize(size * size);
    return cells[static_cast<std::size_t>(column * size + row)];
  };
  for (int step = 0; step < 4000; ++step) {
    const MatrixId matrix = 1 + static_cast<MatrixId>(draw(2));
    Rectangle drawn{draw(size), draw(size), 0, 0};
    drawn.column_bytes = 1 + draw(size - drawn.first_byte);
    drawn.columns = 1 + draw(size - drawn.first_column);
    // A block goes whole.
    const auto forget = [&](MatrixId of, const Rectangle& rectangle) {
      std::set<std::byte*> gone;
      for (index_t c = rectangle.first_column; c < rectangle.end_column(); ++c) {
        for (index_t r = rectangle.first_byte; r < rectangle.end_byte(); ++r) gone.insert(cell(of, r, c).address);
      }
      for (Cell& each : model[of]) {
        if (gone.count(each.address) > 0) each.address = nullptr;
      }
    };
    const index_t what = draw(4);
    if (what == 0) {
      forget(matrix, drawn);
      mirror_.drop(matrix, drawn);
    } else if (what == 1) {
      forget(matrix, drawn);
      std::byte* const at = mirror_.make(matrix, drawn);
      ASSERT_NE(at, nullptr);
      for (index_t c = drawn.first_column; c < drawn.end_column(); ++c) {
        for (index_t r = drawn.first_byte; r < drawn.end_byte(); ++r) cell(matrix, r, c).address = at;
      }
    } else {
      bool is_here = true;
      for (index_t c = drawn.first_column; c < drawn.end_column(); ++c) {
        for (index_t r = drawn.first_byte; r < drawn.end_byte(); ++r)
          is_here = is_here && cell(matrix, r, c).address != nullptr;
      }
      const auto pieces = mirror_.find(matrix, drawn);
      EXPECT_EQ(!pieces.empty(), is_here);
      for (const auto& piece : pieces) {
        const std::byte* const block = cell(matrix, piece.part.first_byte, piece.part.first_column).address;
        EXPECT_GE(piece.on_device.address, block);
      }
    }
    if (step % 100 == 0) mirror_.check_invariants();
  }
}

TEST(Rectangles, TheDifferenceIsTheRest) {
  std::mt19937 random(1);
  const auto draw = [&] {
    const auto at = [&](unsigned least, unsigned most) {
      return static_cast<index_t>(least + random() % (most - least));
    };
    return Rectangle{at(0, 6), at(0, 6), at(1, 6), at(1, 6)};
  };
  const auto has = [](const Rectangle& r, index_t byte, index_t column) {
    return byte >= r.first_byte && byte < r.end_byte() && column >= r.first_column && column < r.end_column();
  };
  for (int time = 0; time < 500; ++time) {
    const Rectangle a = draw(), b = draw();
    const std::vector<Rectangle> rest = difference(a, b);
    for (index_t byte = 0; byte < 12; ++byte) {
      for (index_t column = 0; column < 12; ++column) {
        const auto times = std::count_if(rest.begin(), rest.end(), [&](const auto& r) { return has(r, byte, column); });
        EXPECT_EQ(times, has(a, byte, column) && !has(b, byte, column) ? 1 : 0);
      }
    }
  }
}

TEST_F(MirrorTest, LendsBlocksThatAreComplete) {
  const Rectangle block{64, 3, 256, 5};
  EXPECT_FALSE(mirror_.lend(1, block));
  std::byte* const at = mirror_.make(1, block);
  const auto filled = std::make_shared<FakeEvent>();
  mirror_.note_filling(1, block, filled);
  EXPECT_FALSE(mirror_.lend(1, block));
  EXPECT_FALSE(mirror_.is_lent(1, block));
  filled->now = device::EventStatus::complete;
  const auto lent = mirror_.lend(1, block);
  ASSERT_TRUE(lent);
  EXPECT_EQ(lent->address, at);
  EXPECT_TRUE(mirror_.is_lent(1, {100, 4, 1, 1}));
  EXPECT_FALSE(mirror_.is_lent(1, {0, 0, 64, 8}));
  EXPECT_FALSE(mirror_.lend(1, {64, 3, 256, 4})) << "a part";
  EXPECT_FALSE(mirror_.lend(2, block));
  // The rest of an only copy has other columns, or begins elsewhere.
  mirror_.make(2, {0, 0, 256, 8}, true);
  mirror_.drop(2, {0, 6, 256, 2});
  mirror_.drop(2, {128, 0, 128, 6});
  EXPECT_FALSE(mirror_.find(2, {0, 0, 128, 6}).empty());
  EXPECT_FALSE(mirror_.lend(2, {0, 0, 128, 6}));
  mirror_.drop(2, {0, 0, 128, 2});
  EXPECT_FALSE(mirror_.lend(2, {0, 2, 128, 4}));
}

TEST_F(MirrorTest, MemoryOnLoanIsNotGivenAnew) {
  const auto block = [](index_t column) { return Rectangle{0, column, bytes / 2, 1}; };
  std::byte* const first = mirror_.make(1, block(0));
  auto lent = mirror_.lend(1, block(0));
  ASSERT_TRUE(lent);
  mirror_.make(1, block(1));
  EXPECT_NE(mirror_.make(1, block(2)), first) << "the second one goes";
  EXPECT_TRUE(mirror_.find(1, block(1)).empty());
  mirror_.drop(1, block(0));
  EXPECT_TRUE(mirror_.find(1, block(0)).empty());
  for (int time = 0; time < 2; ++time) {
    EXPECT_NE(mirror_.make(1, block(3)), first);
    mirror_.check_invariants();
  }
  auto copy = lent->loan;
  lent.reset();
  EXPECT_NE(mirror_.make(1, block(3)), first);
  copy.reset();
  mirror_.make(1, block(4));
  mirror_.make(1, block(5));
  EXPECT_FALSE(mirror_.find(1, block(4)).empty());
  EXPECT_FALSE(mirror_.find(1, block(5)).empty());
  mirror_.check_invariants();
}

TEST_F(MirrorTest, OthersAreGivenUpBesideMemoryOnLoan) {
  const auto block = [](index_t column) { return Rectangle{0, column, bytes / 4, 1}; };
  for (index_t column = 0; column < 4; ++column) mirror_.make(1, block(column));
  const auto lent = mirror_.lend(1, block(0));
  mirror_.drop(1, block(0));
  for (index_t column = 4; column < 12; ++column) EXPECT_NE(mirror_.make(1, block(column)), nullptr) << column;
  EXPECT_EQ(mirror_.resident_bytes(), 3 * bytes / 4);
  mirror_.check_invariants();
}

TEST_F(MirrorTest, OnlyCopiesStayWhenMemoryIsShort) {
  constexpr index_t quarter = bytes / 4;
  std::byte* const kept = mirror_.make(1, {0, 0, quarter, 1}, true);
  ASSERT_NE(kept, nullptr);
  for (index_t column = 0; column < 20; ++column) ASSERT_NE(mirror_.make(2, {0, column, quarter, 1}), nullptr);
  const auto pieces = mirror_.only_copies(1, {0, 0, quarter, 1});
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].on_device.address, kept);
  EXPECT_TRUE(mirror_.only_copies(2, {0, 0, quarter, 20}).empty());
  EXPECT_EQ(mirror_.make(2, {0, 30, 3 * quarter + 256, 1}), nullptr) << "in place of the only copy";
  given_back_.clear();
  mirror_.give_back();
  EXPECT_TRUE(given_back_.empty());
  mirror_.note_in_host_memory(1);
  EXPECT_TRUE(mirror_.only_copies(1, {0, 0, quarter, 1}).empty());
  EXPECT_FALSE(mirror_.find(1, {0, 0, quarter, 1}).empty());
  mirror_.give_back();
  EXPECT_FALSE(given_back_.empty());
}

TEST_F(MirrorTest, WhatIsLeftOfAnOnlyCopyStays) {
  std::byte* const at = mirror_.make(1, {0, 0, 1024, 8}, true);
  holds_uses_ = true;
  mirror_.drop(1, {256, 2, 512, 4});
  EXPECT_TRUE(mirror_.find(1, {256, 2, 1, 1}).empty());
  const auto left = mirror_.find(1, {768, 2, 256, 4});
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].on_device.address, at + 2 * 1024 + 768);
  EXPECT_EQ(left[0].on_device.pitch_bytes, 1024);
  index_t sum = 0;
  for (const auto& piece : mirror_.only_copies(1, {0, 0, 1024, 8})) sum += piece.part.bytes();
  EXPECT_EQ(sum, 1024 * 8 - 512 * 4);
  mirror_.check_invariants();
  // Its memory is free once nothing is left.
  mirror_.drop(1);
  ASSERT_NE(mirror_.make(2, {0, 0, 256, 1}), nullptr);
  mirror_.check_invariants();
  end_uses();
  ASSERT_NE(mirror_.make(2, {0, 1, 256, 1}), nullptr);
  mirror_.check_invariants();
  EXPECT_EQ(mirror_.resident_bytes(), 512U);
}

TEST_F(MirrorTest, ARestOfAnOnlyCopyTakesAllOfItsMemory) {
  ASSERT_NE(mirror_.make(1, {0, 0, bytes / 8, 5}, true), nullptr);
  EXPECT_TRUE(mirror_.is_crowded());
  mirror_.drop(1, {0, 1, bytes / 8, 4});
  EXPECT_TRUE(mirror_.is_crowded());
  mirror_.note_in_host_memory(1);
  EXPECT_FALSE(mirror_.is_crowded());
}

TEST_F(MirrorTest, APlaceThatIsGivenUpIsFreeAgain) {
  std::byte* const at = mirror_.place(bytes);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(mirror_.place(256), nullptr);
  mirror_.give_up(at);
  ASSERT_NE(mirror_.make(1, {0, 0, 256, 1}), nullptr);
  mirror_.check_invariants();
}

TEST_F(MirrorTest, OnlyCopiesAreTold) {
  ASSERT_NE(mirror_.make(1, {0, 0, 256, 1}), nullptr);
  ASSERT_NE(mirror_.make(2, {0, 0, 256, 1}, true), nullptr);
  ASSERT_NE(mirror_.make(2, {0, 1, 256, 1}, true), nullptr);
  mirror_.drop_copies();
  EXPECT_TRUE(mirror_.find(1, {0, 0, 256, 1}).empty());
  EXPECT_FALSE(mirror_.has_only_copies(1));
  EXPECT_TRUE(mirror_.has_only_copies(2));
  mirror_.clear();
  EXPECT_FALSE(mirror_.has_only_copies(2));
  EXPECT_EQ(mirror_.resident_bytes(), 0U);
}

}  // namespace
}  // namespace tessera::residence
