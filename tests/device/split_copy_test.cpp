#include "device/split_copy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace tessera::device {
namespace split_copy_test {

/// A copy engine that, like a GPU's, refuses blocks whose host side crosses an edge, and pitches that are too large.
struct Engine {
  const std::byte* edge = nullptr;
  index_t max_pitch = 1 << 30;
  const std::byte* broken = nullptr;  ///< a byte that can never be copied
  int calls = 0;

  bool operator()(Block to, Block from, Extent extent) {
    ++calls;
    if (extent.columns > 1 && (to.pitch_bytes > max_pitch || from.pitch_bytes > max_pitch)) return false;
    const std::byte* const last = from.address + (extent.columns - 1) * from.pitch_bytes + extent.column_bytes - 1;
    if (edge != nullptr && from.address < edge && last >= edge) return false;
    if (broken != nullptr && from.address <= broken && last >= broken) return false;
    for (index_t j = 0; j < extent.columns; ++j) {
      std::memcpy(to.address + j * to.pitch_bytes, from.address + j * from.pitch_bytes,
                  static_cast<std::size_t>(extent.column_bytes));
    }
    return true;
  }
};

constexpr index_t column_bytes = 23;
constexpr index_t columns = 9;
constexpr index_t from_pitch = 31;
constexpr index_t to_pitch = 29;

class SplitCopy : public ::testing::Test {
 protected:
  SplitCopy() {
    for (std::size_t i = 0; i < from_.size(); ++i) from_[i] = static_cast<std::byte>(i * 7 + 1);
    for (index_t j = 0; j < columns; ++j) {
      for (index_t i = 0; i < column_bytes; ++i) {
        expected_[static_cast<std::size_t>(j * to_pitch + i)] = from_[static_cast<std::size_t>(j * from_pitch + i)];
      }
    }
  }

  bool copy(Engine& engine) {
    return copy_in_pieces(engine, {to_.data(), to_pitch}, {from_.data(), from_pitch}, {column_bytes, columns});
  }

  std::vector<std::byte> from_ = std::vector<std::byte>(from_pitch * columns);
  std::vector<std::byte> to_ = std::vector<std::byte>(to_pitch * columns);
  std::vector<std::byte> expected_ = std::vector<std::byte>(to_pitch * columns);
};

TEST_F(SplitCopy, OnePieceWhereItIsAccepted) {
  Engine engine;
  EXPECT_TRUE(copy(engine));
  EXPECT_EQ(engine.calls, 1);
  EXPECT_EQ(to_, expected_);
}

TEST_F(SplitCopy, AnEdgeAnywhereIsCopiedAround) {
  for (std::size_t edge = 0; edge <= from_.size(); ++edge) {
    SCOPED_TRACE(edge);
    std::fill(to_.begin(), to_.end(), std::byte{0});
    Engine engine;
    engine.edge = from_.data() + edge;
    EXPECT_TRUE(copy(engine));
    EXPECT_EQ(to_, expected_);
    EXPECT_LE(engine.calls, 1 + 2 * (4 + 5)) << "two calls for each halving of 9 columns and of 23 bytes";
  }
}

TEST_F(SplitCopy, TooLargePitchesGoColumnByColumn) {
  Engine engine;
  engine.max_pitch = to_pitch;
  EXPECT_TRUE(copy(engine));
  EXPECT_EQ(to_, expected_);
}

TEST_F(SplitCopy, ARefusedByteIsReported) {
  Engine engine;
  engine.broken = from_.data() + 4 * from_pitch + 11;
  EXPECT_FALSE(copy(engine));
  engine.broken = from_.data() + column_bytes;  // between two columns; only contiguous pieces reach it
  EXPECT_TRUE(copy(engine));
  EXPECT_EQ(to_, expected_);
}

TEST_F(SplitCopy, EmptyBlocksAskForNothing) {
  Engine engine;
  EXPECT_TRUE(copy_in_pieces(engine, {to_.data(), to_pitch}, {from_.data(), from_pitch}, {0, columns}));
  EXPECT_TRUE(copy_in_pieces(engine, {to_.data(), to_pitch}, {from_.data(), from_pitch}, {column_bytes, 0}));
  EXPECT_EQ(engine.calls, 0);
}

}  // namespace split_copy_test
}  // namespace tessera::device
