#include "core/addressable.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "calls/argument_complaints.hpp"

namespace tessera {
namespace addressable_test {

constexpr index_t most = std::numeric_limits<index_t>::max();

TEST(Addressable, SumsOfProblemsStayBelowTheirBound) {
  EXPECT_TRUE(may_have_more(0, most_problems));
  EXPECT_FALSE(may_have_more(1, most_problems));
  EXPECT_FALSE(may_have_more(0, most));
  EXPECT_FALSE(may_have_more(most_problems, most));
}

TEST(Addressable, MatricesEndWithinAddresses) {
  EXPECT_TRUE(is_addressable(1, 1, most, 16)) << "of one column nobody uses ld";
  EXPECT_TRUE(is_addressable(0, most, most, 8) && is_addressable(most, 0, most, 8));
  EXPECT_FALSE(is_addressable(most / 8 + 1, 1, 1, 8));
  // The last element of the last column has the highest address.
  const index_t rows = 7, cols = 5, ld = (most / 8 - rows) / (cols - 1);
  EXPECT_TRUE(is_addressable(rows, cols, ld, 8));
  EXPECT_FALSE(is_addressable(rows, cols, ld + 1, 8));
}

TEST(Addressable, StridesEndWithinAddresses) {
  EXPECT_TRUE(is_addressable_stride(most, 1, 8)) << "one matrix is not apart from any";
  EXPECT_TRUE(is_addressable_stride(most / 8, 2, 8) && is_addressable_stride(-(most / 8), 2, 8));
  EXPECT_FALSE(is_addressable_stride(most / 8 + 1, 2, 8));
  EXPECT_FALSE(is_addressable_stride(std::numeric_limits<index_t>::min(), 2, 8));
  EXPECT_TRUE(is_addressable_stride(0, most, 8));
  EXPECT_FALSE(is_addressable_stride(32, most_problems, 16));
}

TEST(Addressable, OfACallWhatItReadsAndWrites) {
  Level3 call{.m = 2, .n = 3, .k = 4, .lda = 2, .ldb = 4, .ldc = 2};
  EXPECT_TRUE(is_addressable(call));
  for (index_t Level3::*const ld : {&Level3::lda, &Level3::ldb, &Level3::ldc}) {
    Level3 large = call;
    large.*ld = most / 8;
    EXPECT_FALSE(is_addressable(large));
    large.alpha = 0;  // A and B are not checked then
    EXPECT_EQ(is_addressable(large), ld != &Level3::ldc);
    large.n = 0;
    EXPECT_TRUE(is_addressable(large));
  }
}

}  // namespace addressable_test
}  // namespace tessera
