// The choices of the plan: widths of strips, and computation of products with triangles.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/plan/product_choice.hpp"
#include "kernels/plan/solve_choice.hpp"
#include "kernels/plan/strip_choice.hpp"

namespace tessera::kernels::plan {
namespace choice_test {

TEST(StripChoice, IsTheNarrowestWithAMultiprocessorForEach) {
  EXPECT_EQ(quickest_strip(1, 100, 32), 8);
  EXPECT_EQ(quickest_strip(800, 100, 32), 8);
  EXPECT_EQ(quickest_strip(801, 100, 32), 16);
  EXPECT_EQ(quickest_strip(1600, 100, 32), 16);
  EXPECT_EQ(quickest_strip(1601, 100, 32), 32);
  EXPECT_EQ(quickest_strip(100000, 100, 32), 32);
}

TEST(StripChoice, KeepsToWhatTheDeviceHasRoomFor) {
  EXPECT_EQ(quickest_strip(100000, 100, 16), 16);
  EXPECT_EQ(quickest_strip(100000, 100, 8), 8);
  EXPECT_EQ(thriftiest_strip(100000, 1024, 16), 16);
}

TEST(StripChoice, LeavesMultiprocessorsToNeighbours) {
  EXPECT_EQ(thriftiest_strip(1, 1024, 32), 16);
  EXPECT_EQ(thriftiest_strip(1024, 1024, 32), 16);
  EXPECT_EQ(thriftiest_strip(1025, 1024, 32), 32);
}

// Sizes between the measured ones, and beyond them.
TEST(ChoiceTable, HasTheChoiceOfTheNextLargerSizeThatWasMeasured) {
  ChoiceTable<std::size_t> table;
  std::size_t n = 0;
  for (auto& of_type : table) {
    for (auto& of_order : of_type) {
      for (std::size_t& choice : of_order) choice = n++;
    }
  }
  for (const ScalarType type : scalar_types) {
    const std::size_t first = static_cast<std::size_t>(type) * chosen_orders.size() * chosen_columns.size();
    for (std::size_t i = 0; i < chosen_orders.size(); ++i) {
      for (std::size_t j = 0; j < chosen_columns.size(); ++j) {
        const std::size_t expected = first + i * chosen_columns.size() + j;
        const index_t below_order = i == 0 ? 1 : chosen_orders[i - 1] + 1;
        const index_t below_columns = j == 0 ? 1 : chosen_columns[j - 1] + 1;
        EXPECT_EQ(choose(table, type, chosen_orders[i], chosen_columns[j]), expected);
        EXPECT_EQ(choose(table, type, below_order, below_columns), expected);
      }
    }
    EXPECT_EQ(choose(table, type, index_t{1} << 30, index_t{1} << 30),
              first + chosen_orders.size() * chosen_columns.size() - 1);
  }
}

TEST(Choices, AreSome) {
  for (const ScalarType type : scalar_types) {
    for (const index_t order : chosen_orders) {
      for (const index_t columns : chosen_columns) {
        const ProductChoice product = choose_product(type, order, columns);
        EXPECT_NE(std::ranges::find(chosen_leaves, product.leaf_rows), chosen_leaves.end());
        const SolveChoice solve = choose_solve(type, order, columns);
        EXPECT_NE(std::ranges::find(chain_strips, solve.chain_strip), chain_strips.end());
        if (solve.chain_rows == 0) continue;
        EXPECT_NE(std::ranges::find(chosen_chain_rows, solve.chain_rows), chosen_chain_rows.end());
        EXPECT_TRUE(fits_chain(std::min(order, solve.chain_rows), columns, solve.chain_strip));
      }
    }
  }
}

TEST(SolveChoice, FitsTheMarksOfALaunch) {
  EXPECT_TRUE(fits_chain(16 * most_chain_marks, 8, 8));
  EXPECT_FALSE(fits_chain(16 * most_chain_marks + 1, 8, 8));
  EXPECT_FALSE(fits_chain(16 * most_chain_marks, 9, 8));
  EXPECT_TRUE(fits_chain(16, most_chain_marks, 1));
  EXPECT_FALSE(fits_chain(16, most_chain_marks + 1, 1));
  EXPECT_FALSE(fits_chain(index_t{1} << 62, index_t{1} << 62, 1));
}

}  // namespace choice_test
}  // namespace tessera::kernels::plan
