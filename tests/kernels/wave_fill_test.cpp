#include "kernels/cuda/wave_fill.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using kernels::cuda::wave_fill;

TEST(WaveFill, IsWholeWhereEveryWaveIs) {
  EXPECT_EQ(wave_fill(128 * 11, 128 * 12, 128, 132), 1);
  EXPECT_EQ(wave_fill(128 * 33, 128 * 8, 128, 132), 1);
}

TEST(WaveFill, CountsBlocksAtTheEdgeWhole) {
  EXPECT_EQ(wave_fill(1, 1, 128, 4), 0.25);
  EXPECT_EQ(wave_fill(129, 1, 128, 4), 0.5);
  EXPECT_EQ(wave_fill(129, 129, 128, 4), 1);
}

TEST(WaveFill, ChargesForTheLastWave) {
  EXPECT_EQ(wave_fill(128 * 5, 128, 128, 4), 5.0 / 8);
  EXPECT_EQ(wave_fill(128 * 13, 128 * 13, 128, 132), 169.0 / 264);
}

}  // namespace
}  // namespace tessera
