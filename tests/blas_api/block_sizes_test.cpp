// Which block sizes LAPACK's routines are given.
#include "blas_api/lapack/block_sizes.hpp"

#include <gtest/gtest.h>

namespace tessera::lapack {
namespace block_sizes_test {

constexpr std::nullopt_t automatic = std::nullopt;

TEST(LapackBlockSizes, grow_with_the_order) {
  EXPECT_EQ(block_size("DGETRF", 2047, 64, automatic), 64);
  EXPECT_EQ(block_size("DGETRF", 2048, 64, automatic), 256);
  EXPECT_EQ(block_size("ZPOTRF", 4096, 64, automatic), 512);
  EXPECT_EQ(block_size("SPOTRF", 8000, 64, automatic), 1024);
  EXPECT_EQ(block_size("SPOTRF", 20000, 64, automatic), 2048);
  EXPECT_EQ(block_size("SPOTRF", 2147483647, 64, automatic), 2048);
  EXPECT_EQ(block_size("DTRTRI", 4096, 64, automatic), 256);
  EXPECT_EQ(block_size("DGEQRF", 4096, 32, automatic), 64);
  EXPECT_EQ(block_size("DGEQRF", 20000, 32, automatic), 128);
  EXPECT_EQ(block_size("DGETRF", 20000, 4096, automatic), 4096) << "never smaller than LAPACK's own";
}

TEST(LapackBlockSizes, go_by_the_smallest_size_that_is_told) {
  EXPECT_EQ(order_of({3000, -1, -1, -1}), 3000);
  EXPECT_EQ(order_of({3000, 2000, -1, -1}), 2000);
  EXPECT_EQ(order_of({0, 2000, -1, -1}), 0);
  EXPECT_EQ(order_of({2147483647, -1, -1, -1}), 2147483647);
  // A call with n = -1, which LAPACK refuses only after it has told of its workspace.
  EXPECT_EQ(order_of({-1, -1, -1, -1}), 0);
  EXPECT_EQ(block_size("DGETRI", order_of({-1, -1, -1, -1}), 64, automatic), 64);
}

TEST(LapackBlockSizes, follow_the_setting_within_what_suits_the_routine) {
  EXPECT_EQ(block_size("DGETRF", 100, 64, 96), 96);
  EXPECT_EQ(block_size("DGETRF", 20000, 64, 48), 48);
  EXPECT_EQ(block_size("DGETRF", 20000, 64, 100000), 100000);
  EXPECT_EQ(block_size("DTRTRI", 20000, 64, 512), 256);
  EXPECT_EQ(block_size("ZHETRD", 20000, 32, 512), 128);
  EXPECT_EQ(block_size("DGETRF", 20000, 64, 0), 64);
}

TEST(LapackBlockSizes, leave_the_others_alone) {
  // Fixed arrays inside (DORMQR: at most 64), other routines with similar names, and what is no name at all.
  for (const char* name :
       {"DORMQR", "DGEHRD", "DGBTRF", "DPBTRF", "DTREVC", "DGEQR ", "DGEQRFP", "DGETR", "", "DSYTRD_2STAGE"}) {
    EXPECT_EQ(block_size(name, 20000, 32, automatic), 32) << name;
    EXPECT_EQ(block_size(name, 20000, 32, 512), 32) << name;
  }
  EXPECT_EQ(block_size("DGETRF  ", 20000, 64, automatic), 2048) << "names are padded";
}

}  // namespace block_sizes_test
}  // namespace tessera::lapack
