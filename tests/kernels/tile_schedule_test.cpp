// Every block of every problem of a batch is computed once, in either kind of grid.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/block/tile_schedule.hpp"

namespace tessera::kernels::block {
namespace tile_schedule_test {

constexpr int rows = 32, columns = 16;
using Product = BlockProduct<Element<double, 1>>;
using Numbering = BlocksOfProduct<rows, columns>;
using Blocks = std::multiset<std::pair<index_t, index_t>>;

std::vector<Product> problems(unsigned seed, std::size_t count, Region updated = Region::full) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<index_t> size(0, 70);
  std::vector<Product> all;
  for (std::size_t i = 0; i < count; ++i) {
    Product product;
    product.m = i == count / 2 ? 500 : size(random);
    product.n = i % 7 == 3 ? 0 : size(random);
    product.k = size(random);
    product.terms = i % 5 == 1 ? 0 : 1;
    product.does_nothing = i % 11 == 5;
    product.updated = updated;
    if (updated != Region::full) product.n = product.m;
    all.push_back(product);
  }
  return all;
}

bool is_updated(const Product& product, index_t i, index_t j) {
  return product.updated == Region::full || (product.updated == Region::lower ? i >= j : i <= j);
}

/// The blocks with an element that is updated.
Blocks blocks_of(const Product& product) {
  Blocks blocks;
  if (product.does_nothing) return blocks;
  for (index_t j = 0; j < product.n; j += columns) {
    for (index_t i = 0; i < product.m; i += rows) {
      const index_t last_row = std::min(i + rows, product.m) - 1, last_column = std::min(j + columns, product.n) - 1;
      if (is_updated(product, last_row, j) || is_updated(product, i, last_column)) blocks.emplace(i, j);
    }
  }
  return blocks;
}

Blocks numbered(const Product& product, const BlockRange& range) {
  const Numbering blocks(product);
  Blocks found;
  for (index_t i = range.first; i < range.end; i += range.step) {
    const auto place = blocks.at(i);
    found.emplace(place.first_row, place.first_column);
  }
  return found;
}

TEST(TileSchedule, NumbersTheBlocksThatAreUpdated) {
  for (const Region updated : {Region::full, Region::lower, Region::upper}) {
    for (const Product& product : problems(1, 60, updated)) {
      const index_t count = Numbering(product).count();
      EXPECT_EQ(numbered(product, {0, count, 1}), blocks_of(product));
      Blocks found;
      Numbering::Place place;
      for (index_t i = 0; i < count + 3; ++i) {
        if (Numbering::find(product, i, place)) found.emplace(place.first_row, place.first_column);
      }
      EXPECT_EQ(found, blocks_of(product));
    }
  }
}

/// Sums costs as the kernel does.
struct Sums {
  explicit Sums(const std::vector<Product>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Numbering blocks(all[i]);
      const bool begins = i % SummedCosts::problems_of_chunk == 0;
      if (begins) chunks.push_back(0);
      chunks.back() += cost_of_problem(blocks.count(), blocks.cost());
      ends.push_back(chunks.back());
    }
    costs = {ends.data(), chunks.data()};
  }
  std::vector<index_t> ends, chunks;
  SummedCosts costs;
};

TEST(TileSchedule, SharesHaveEveryBlockOnce) {
  for (const std::size_t count : {1u, 40u, 2500u}) {
    for (const index_t shares : {1, 7, 1000}) {
      const std::vector<Product> all = problems(static_cast<unsigned>(count), count);
      const Sums sums(all);
      std::vector<Blocks> found(count);
      for (index_t number = 0; number < shares; ++number) {
        for (ShareOfWork share(sums.costs, static_cast<index_t>(count), number, shares); !share.is_done();) {
          const auto problem = static_cast<std::size_t>(share.problem());
          const Numbering blocks(all[problem]);
          found[problem].merge(numbered(all[problem], share.take(blocks.count(), blocks.cost())));
        }
      }
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(found[i], blocks_of(all[i])) << i;
    }
  }
}

// Except for the last block, which may begin at a share's end.
TEST(TileSchedule, SharesAreEven) {
  const std::vector<Product> all = problems(3, 300);
  const Sums sums(all);
  constexpr index_t shares = 20;
  const index_t total = std::accumulate(sums.chunks.begin(), sums.chunks.end(), index_t{0});
  index_t most_of_block = 0;
  for (const Product& product : all) most_of_block = std::max(most_of_block, Numbering(product).cost());
  for (index_t number = 0; number < shares; ++number) {
    index_t cost = 0;
    for (ShareOfWork share(sums.costs, 300, number, shares); !share.is_done();) {
      const Numbering blocks(all[static_cast<std::size_t>(share.problem())]);
      const BlockRange range = share.take(blocks.count(), blocks.cost());
      cost += (range.end - range.first) * blocks.cost();
    }
    EXPECT_LE(cost, total / shares + 1 + most_of_block);
  }
}

// No single share walks past all of them.
TEST(TileSchedule, ProblemsWithoutBlocksAreSharedOut) {
  const std::vector<Product> none(3000);
  const Sums costs(none);
  for (index_t number = 0; number < 30; ++number) {
    int passed = 0;
    for (ShareOfWork share(costs.costs, 3000, number, 30); !share.is_done(); ++passed) share.take(0, 1);
    EXPECT_EQ(passed, 100);
  }
}

TEST(TileSchedule, ABatchWithoutWorkHasNoBlocks) {
  std::vector<Product> all(5);
  const Sums sums(all);
  for (index_t number = 0; number < 7; ++number) {
    for (ShareOfWork share(sums.costs, 5, number, 7); !share.is_done();) {
      const BlockRange range = share.take(0, Numbering(all[0]).cost());
      EXPECT_EQ(range.first, range.end);
    }
  }
}

}  // namespace tile_schedule_test
}  // namespace tessera::kernels::block
