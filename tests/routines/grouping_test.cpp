// The cut into groups: that it covers every tile once, what its traffic model says beside a replay with the best eviction there is, and
// what it chooses.
#include "routines/grouping.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera::routines {
namespace grouping_test {

constexpr GroupForm all_forms[] = {GroupForm::rectangle, GroupForm::triangle, GroupForm::masked, GroupForm::sweep};

bool is_lower(GroupForm form) { return form == GroupForm::triangle || form == GroupForm::masked; }

TEST(Grouping, CoversEveryTileOnce) {
  for (const GroupForm form : all_forms) {
    for (index_t mt = 1; mt <= 7; ++mt) {
      const index_t nt = form == GroupForm::rectangle ? 5 : mt;
      for (index_t rows = 1; rows <= mt; ++rows) {
        for (index_t cols = 1; cols <= nt; ++cols) {
          for (const bool column_strips : {false, true}) {
            std::set<std::pair<index_t, index_t>> seen;
            for (const TileGroup& g : groups_of({form, mt, nt, 3}, {rows, cols, column_strips})) {
              for (index_t i = g.row; i < g.row + g.rows; ++i) {
                for (index_t j = g.col; j < g.col + g.cols; ++j) {
                  ASSERT_TRUE(i < mt && j < nt);
                  ASSERT_TRUE(seen.insert({i, j}).second);
                }
              }
            }
            for (index_t i = 0; i < mt; ++i) {
              for (index_t j = 0; j < (is_lower(form) ? i + 1 : nt); ++j) {
                ASSERT_TRUE(seen.contains({i, j}));
              }
            }
          }
        }
      }
    }
  }
}

TEST(Grouping, StripsTurnBack) {
  const std::vector<TileGroup> expected = {{0, 0, 2, 2}, {0, 2, 2, 1}, {2, 2, 1, 1}, {2, 0, 1, 2}};
  EXPECT_EQ(groups_of({GroupForm::rectangle, 3, 3, 1}, {2, 2, false}), expected);
}

// The tiles of A (0), B (1) that the groups of a product read, step by step.
std::vector<std::tuple<int, index_t, index_t>> reads_of(const GroupedProduct& p, const Grouping& grouping) {
  std::vector<std::tuple<int, index_t, index_t>> reads;
  for (const TileGroup& g : groups_of(p, grouping)) {
    for (index_t l = 0; l < p.kt; ++l) {
      for (index_t j = g.col; j < g.col + g.cols; ++j) {
        for (index_t i = g.row; i < g.row + g.rows; ++i) {
          if (is_lower(p.form) && i < j) continue;
          reads.emplace_back(0, i, l);
          reads.emplace_back(p.form == GroupForm::triangle ? 0 : 1, j, l);
        }
      }
    }
  }
  return reads;
}

// Fetches with `slots` for inputs, if what is read last is always evicted (Belady).
index_t fewest_fetches(const std::vector<std::tuple<int, index_t, index_t>>& reads, index_t slots) {
  std::map<std::tuple<int, index_t, index_t>, std::vector<std::size_t>> uses;
  for (std::size_t t = reads.size(); t-- > 0;) uses[reads[t]].push_back(t);
  std::map<std::size_t, std::tuple<int, index_t, index_t>> held;  // by next use
  std::size_t unused = reads.size();                              // distinct keys for tiles that are never used again
  index_t fetches = 0;
  for (std::size_t t = 0; t < reads.size(); ++t) {
    if (held.erase(t) == 0) {
      ++fetches;
      if (static_cast<index_t>(held.size()) == slots) held.erase(std::prev(held.end()));
    }
    auto& left = uses[reads[t]];
    left.pop_back();
    held[left.empty() ? unused++ : left.back()] = reads[t];
  }
  return fetches;
}

// The model leaves slots for outputs and copies under way, so the best eviction with all other slots does no worse, and not much better
// than the model says where it also knows what comes after the next group.
TEST(Grouping, ModelsWhatTheBestEvictionMoves) {
  for (const GroupForm form : {GroupForm::rectangle, GroupForm::triangle, GroupForm::masked}) {
    for (const index_t slots : {384, 192, 128, 96, 48}) {
      const GroupedProduct product{form, 16, 16, 16};
      const Grouping grouping = choose_grouping(product, slots, 1);
      const index_t model = up_tiles(product, grouping, slots);
      const index_t room = slots - grouping.rows * grouping.cols;
      const index_t fewest = fewest_fetches(reads_of(product, grouping), room);
      EXPECT_LE(fewest, model) << slots;
      EXPECT_GE(static_cast<double>(fewest), 0.8 * static_cast<double>(model)) << slots;
    }
  }
}

TEST(Grouping, NeverMovesMoreThanStripsNorThanBlocksOfC) {
  for (const index_t n : {10, 16, 20, 32}) {
    for (const index_t share : {2, 4, 8, 16}) {
      const index_t slots = std::max<index_t>(12, 3 * n * n / share);
      const GroupedProduct product{GroupForm::rectangle, n, n, n};
      const Grouping best = choose_grouping(product, slots, 1);
      EXPECT_GE(kept_tiles(best, slots), 0);
      const double up = static_cast<double>(up_tiles(product, best, slots));
      for (index_t size = 1; size <= n; ++size) {
        for (const Grouping other : {Grouping{size, 1, false}, Grouping{size, size, false}}) {
          if (kept_tiles(other, slots) < 0) continue;
          EXPECT_LE(up, 1.02 * static_cast<double>(up_tiles(product, other, slots))) << n << " " << slots;
        }
      }
      EXPECT_GE(up, static_cast<double>(2 * n * n));
    }
  }
}

// dgemm of 32768 with 4 GiB: 16^3 products of tiles of 2048, 128 slots. The bound for the link is 5 x compulsory.
TEST(Grouping, ACubeWithASixthOfItsMemory) {
  const GroupedProduct product{GroupForm::rectangle, 16, 16, 16};
  EXPECT_LE(up_tiles(product, choose_grouping(product, 128, 1), 128), 2 * 512);
}

TEST(Grouping, ReadsEveryTileOnceWhereAPanelStays) {
  const GroupedProduct product{GroupForm::rectangle, 16, 16, 16};
  EXPECT_EQ(up_tiles(product, choose_grouping(product, 384, 1), 384), 512);
  for (const GroupedProduct& flat :
       {GroupedProduct{GroupForm::rectangle, 2, 100, 10}, GroupedProduct{GroupForm::rectangle, 100, 2, 10}}) {
    const index_t up = up_tiles(flat, choose_grouping(flat, 60, 1), 60);
    EXPECT_GE(up, 1020);
    EXPECT_LE(up, 1040);  // cuts that move up to 2 % more may be taken
  }
}

TEST(Grouping, GivesEveryDeviceItsShareOfTheGroups) {
  for (const int devices : {2, 3, 4, 7, 8}) {
    const GroupedProduct product{GroupForm::rectangle, 16, 16, 16};
    const auto groups = static_cast<index_t>(groups_of(product, choose_grouping(product, 128, devices)).size());
    const index_t most = (groups + devices - 1) / devices;
    EXPECT_LE(5 * most * devices, 6 * groups) << devices;
  }
}

TEST(Grouping, FitsAnyMemoryThatHoldsAStepPerStream) {
  for (const GroupForm form : all_forms) {
    for (index_t slots = 12; slots < 200; ++slots) {
      EXPECT_GE(kept_tiles(choose_grouping({form, 11, 11, 11}, slots, 3), slots), 0) << slots;
    }
  }
  EXPECT_EQ(choose_grouping({GroupForm::rectangle, 1, 1, 500}, 12, 4), Grouping{});
}

TEST(Grouping, KeepsColumnsSideBySideWhereTasksOfOneWait) {
  const GroupedProduct product{GroupForm::sweep, 16, 16, 16, 4};
  for (const index_t slots : {192, 128, 96, 48}) EXPECT_GE(choose_grouping(product, slots, 1).cols, 4) << slots;
  EXPECT_GE(kept_tiles(choose_grouping(product, 12, 1), 12), 0);  // a wish, not a condition
}

}  // namespace grouping_test
}  // namespace tessera::routines
