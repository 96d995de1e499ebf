// What the plan chooses: how wide strips are, and how products with triangles are computed.
#include <gtest/gtest.h>

#include "kernels/plan/strip_choice.hpp"
#include "kernels/plan/triangular_choice.hpp"

namespace tessera::kernels::plan {
namespace {

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

TEST(ProductChoice, IsThatOfTheNextLargerSizeThatWasMeasured) {
  for (const ScalarType type : scalar_types) {
    for (std::size_t i = 1; i < chosen_orders.size(); ++i) {
      for (const index_t columns : chosen_columns) {
        const ProductChoice at = choose_product(type, chosen_orders[i], columns);
        for (const index_t order : {chosen_orders[i - 1] + 1, chosen_orders[i] - 1}) {
          const ProductChoice below = choose_product(type, order, columns);
          EXPECT_EQ(below.leaf_rows, at.leaf_rows);
          EXPECT_EQ(below.without_copy, at.without_copy);
        }
      }
    }
  }
}

TEST(ProductChoice, ExistsForAllSizes) {
  for (const ScalarType type : scalar_types) {
    const ProductChoice largest = choose_product(type, chosen_orders.back(), chosen_columns.back());
    EXPECT_EQ(choose_product(type, index_t{1} << 30, index_t{1} << 30).leaf_rows, largest.leaf_rows);
    EXPECT_EQ(choose_product(type, 1, 1).without_copy,
              choose_product(type, chosen_orders[0], chosen_columns[0]).without_copy);
  }
}

}  // namespace
}  // namespace tessera::kernels::plan
