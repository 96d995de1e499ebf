// Every block of every problem of a batch is computed once, whichever grid it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/block/tile_schedule.hpp"

namespace tessera::kernels::block {
namespace {

constexpr int rows = 32, columns = 16;
using Product = BlockProduct<Element<double, 1>>;
using Blocks = std::multiset<std::pair<index_t, index_t>>;

struct Batch {
  std::vector<Product> problems;
  index_t most_m = 0, most_n = 0;
};

Batch batch_of(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<index_t> size(0, 70);
  Batch batch;
  for (std::size_t i = 0; i < count; ++i) {
    Product product;
    product.m = i == count / 2 ? 500 : size(random);
    product.n = i % 7 == 3 ? 0 : size(random);
    product.does_nothing = i % 11 == 5;
    batch.most_m = std::max(batch.most_m, product.m);
    batch.most_n = std::max(batch.most_n, product.n);
    batch.problems.push_back(product);
  }
  return batch;
}

Blocks blocks_of(const Product& product) {
  Blocks blocks;
  if (product.does_nothing) return blocks;
  for (index_t j = 0; j < product.n; j += columns) {
    for (index_t i = 0; i < product.m; i += rows) blocks.emplace(i, j);
  }
  return blocks;
}

TEST(TileSchedule, TheTruncatedGridHasEveryBlockOnce) {
  const Batch batch = batch_of(1, 40);
  const index_t of_each = pieces(batch.most_m, rows) * pieces(batch.most_n, columns);
  std::map<index_t, Blocks> found;
  for (index_t number = 0; number < of_each * static_cast<index_t>(batch.problems.size()); ++number) {
    const BlockOfProblem block = block_of_truncated_grid(number, batch.most_m, batch.most_n, rows, columns);
    const Product& product = batch.problems[static_cast<std::size_t>(block.problem)];
    if (product.does_nothing || block.first_row >= product.m || block.first_column >= product.n) continue;
    found[block.problem].emplace(block.first_row, block.first_column);
  }
  for (std::size_t i = 0; i < batch.problems.size(); ++i)
    EXPECT_EQ(found[static_cast<index_t>(i)], blocks_of(batch.problems[i])) << i;
}

TEST(TileSchedule, ThePersistentGridHasEveryBlockOnceAndNoOther) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const Batch batch = batch_of(seed, 40);
    std::vector<index_t> ends;
    index_t all = 0;
    for (const Product& product : batch.problems) ends.push_back(all += count_blocks(product, rows, columns));
    std::map<index_t, Blocks> found;
    for (index_t number = 0; number < all; ++number) {
      const index_t problem = owner_of_block(ends.data(), static_cast<index_t>(ends.size()), number);
      const index_t first = problem == 0 ? 0 : ends[static_cast<std::size_t>(problem - 1)];
      const Product& product = batch.problems[static_cast<std::size_t>(problem)];
      const BlockOfProblem block = block_at(problem, number - first, product.m, rows, columns);
      found[problem].emplace(block.first_row, block.first_column);
    }
    for (std::size_t i = 0; i < batch.problems.size(); ++i)
      EXPECT_EQ(found[static_cast<index_t>(i)], blocks_of(batch.problems[i])) << i;
  }
}

TEST(TileSchedule, FindsTheOwnerAmongProblemsWithoutBlocks) {
  const index_t ends[] = {0, 0, 3, 3, 4, 4, 9};
  const index_t owners[] = {2, 2, 2, 4, 6, 6, 6, 6, 6};
  for (index_t number = 0; number < 9; ++number) EXPECT_EQ(owner_of_block(ends, 7, number), owners[number]);
  const index_t one[] = {5};
  EXPECT_EQ(owner_of_block(one, 1, 4), 0);
}

}  // namespace
}  // namespace tessera::kernels::block
