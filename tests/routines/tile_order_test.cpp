#include "routines/tiling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace tessera::routines {
namespace tile_order_test {

void expect_permutation(const std::vector<TileIndex>& order, index_t mt, index_t nt) {
  ASSERT_EQ(static_cast<index_t>(order.size()), mt * nt);
  std::set<std::pair<index_t, index_t>> seen;
  for (const TileIndex& tile : order) {
    ASSERT_TRUE(tile.i >= 0 && tile.i < mt && tile.j >= 0 && tile.j < nt);
    ASSERT_TRUE(seen.insert({tile.i, tile.j}).second);
  }
}

TEST(TileOrder, VisitsEveryTileOnce) {
  for (index_t mt = 1; mt <= 9; ++mt) {
    for (index_t nt = 1; nt <= 9; ++nt) {
      for (const index_t tile_m : {1, 3}) expect_permutation(square_order(mt, nt, tile_m, 1), mt, nt);
    }
  }
}

TEST(TileOrder, GrowsSquares) {
  const auto order = square_order(20, 30, 64, 64);
  for (index_t side = 1; side <= 20; ++side) {
    index_t largest = 0;
    for (index_t t = 0; t < side * side; ++t) {
      const TileIndex tile = order[static_cast<std::size_t>(t)];
      largest = std::max<index_t>({largest, tile.i, tile.j});
    }
    EXPECT_EQ(largest, side - 1);
  }
}

TEST(TileOrder, GrowsSquaresOfElementsFromTallTiles) {
  const auto order = square_order(4, 16, 4096, 1024);
  for (index_t side = 1; side <= 4; ++side) {
    for (index_t t = 0; t < 4 * side * side; ++t) {
      EXPECT_LT(order[static_cast<std::size_t>(t)].i, side);
      EXPECT_LT(order[static_cast<std::size_t>(t)].j, 4 * side);
    }
  }
}

TEST(TileOrder, ANewRowAndANewColumnTakeTurns) {
  const std::vector<TileIndex> expected = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}, {1, 2}, {2, 1}, {2, 2}};
  EXPECT_EQ(square_order(3, 3, 8, 8), expected);
}

}  // namespace tile_order_test
}  // namespace tessera::routines
