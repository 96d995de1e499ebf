// The devices at which the tiles of a triangle are at home: equal work, few lines.
#include "routines/triangle_homes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace tessera::routines {
namespace triangle_homes_test {

std::vector<TileIndex> triangle_of(index_t rows, bool upper) {
  std::vector<TileIndex> tiles = square_order(rows, rows, 1, 1);
  std::erase_if(tiles, [&](const TileIndex& t) { return upper ? t.i > t.j : t.i < t.j; });
  return tiles;
}

struct Load {
  std::set<index_t> read;
  index_t work = 0;

  index_t lines() const { return static_cast<index_t>(read.size()); }
};

std::vector<Load> loads_of(const std::vector<TileIndex>& tiles, const std::vector<std::int32_t>& homes,
                           index_t devices) {
  std::vector<Load> loads(static_cast<std::size_t>(devices));
  EXPECT_EQ(homes.size(), tiles.size());
  for (std::size_t place = 0; place < tiles.size(); ++place) {
    Load& load = loads.at(static_cast<std::size_t>(homes.at(place)));
    load.read.insert({tiles[place].i, tiles[place].j});
    load.work += tiles[place].i == tiles[place].j ? 1 : 2;
  }
  return loads;
}

TEST(TriangleHomes, ShareTheWorkEvenly) {
  for (const bool upper : {false, true}) {
    for (const index_t devices : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
      for (const index_t rows : {8, 9, 12, 17, 24}) {
        const std::vector<TileIndex> tiles = triangle_of(rows, upper);
        const auto loads = loads_of(tiles, homes_of_triangle(tiles, 1, devices), devices);
        const auto [least, most] = std::minmax_element(loads.begin(), loads.end(),
                                                       [](const Load& a, const Load& b) { return a.work < b.work; });
        EXPECT_LE(most->work - least->work, 2) << rows << " rows, " << devices << " devices";
      }
    }
  }
}

// Two devices have half of the lines each, and two all lines of one half and half of the other.
TEST(TriangleHomes, FourDevicesReadTwoAndAHalfTimesTheLines) {
  for (const bool upper : {false, true}) {
    for (const index_t rows : {4, 8, 12, 16}) {
      const std::vector<TileIndex> tiles = triangle_of(rows, upper);
      index_t lines = 0;
      for (const Load& load : loads_of(tiles, homes_of_triangle(tiles, 1, 4), 4)) {
        EXPECT_EQ(load.work, rows * rows / 4);
        lines += load.lines();
      }
      EXPECT_EQ(lines, 5 * rows / 2) << rows;
    }
  }
}

TEST(TriangleHomes, ReadFewerLinesThanInTurns) {
  for (const index_t devices : {3, 4, 6, 8}) {
    for (const index_t rows : {8, 13, 24}) {
      const std::vector<TileIndex> tiles = triangle_of(rows, false);
      std::vector<std::int32_t> turns(tiles.size());
      for (std::size_t place = 0; place < turns.size(); ++place)
        turns[place] = static_cast<std::int32_t>(place % static_cast<std::size_t>(devices));
      const auto lines_of = [&](const std::vector<std::int32_t>& homes) {
        index_t all = 0;
        for (const Load& load : loads_of(tiles, homes, devices)) all += load.lines();
        return all;
      };
      EXPECT_LT(lines_of(homes_of_triangle(tiles, 1, devices)), lines_of(turns))
          << rows << " rows, " << devices << " devices";
    }
  }
}

// Lines that are fetched together count once.
TEST(TriangleHomes, CountWhatIsFetched) {
  const std::vector<TileIndex> tiles = triangle_of(11, false);
  const auto fetched_by = [&](const std::vector<std::int32_t>& homes) {
    index_t threes = 0;
    for (const Load& load : loads_of(tiles, homes, 4)) {
      std::set<index_t> fetched;
      for (const index_t line : load.read) fetched.insert(line / 3);
      threes += static_cast<index_t>(fetched.size());
    }
    return threes;
  };
  EXPECT_LT(fetched_by(homes_of_triangle(tiles, 3, 4)), fetched_by(homes_of_triangle(tiles, 1, 4)));
}

TEST(TriangleHomes, MoreDevicesThanTilesIsNoError) {
  const std::vector<TileIndex> tiles = triangle_of(2, false);
  const auto homes = homes_of_triangle(tiles, 1, 8);
  ASSERT_EQ(homes.size(), 3U);
  EXPECT_EQ(std::set<std::int32_t>(homes.begin(), homes.end()).size(), 3U);
}

}  // namespace triangle_homes_test
}  // namespace tessera::routines
