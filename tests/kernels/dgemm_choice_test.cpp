#include "kernels/plan/dgemm_choice.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace tessera {
namespace dgemm_choice_test {

using kernels::plan::is_for_dgemm_kernel;
using kernels::plan::wave_fill;

TEST(WaveFill, IsWholeWhereEveryWaveIs) {
  EXPECT_EQ(wave_fill(128 * 11, 128 * 12, 128, 132), 1);
  EXPECT_EQ(wave_fill(128 * 33, 128 * 8, 128, 132), 1);
}

TEST(WaveFill, CountsElements) {
  EXPECT_EQ(wave_fill(64, 64, 128, 1), 0.25);
  EXPECT_EQ(wave_fill(128, 64, 128, 4), 0.125);
  EXPECT_EQ(wave_fill(192, 128, 128, 2), 0.75);
}

TEST(WaveFill, ChargesForTheLastWave) {
  EXPECT_EQ(wave_fill(128 * 5, 128, 128, 4), 5.0 / 8);
  EXPECT_EQ(wave_fill(128 * 13, 128 * 13, 128, 132), 169.0 / 264);
}

alignas(16) double memory[4];

const device::DeviceProfile hopper = device::gpu_profile(9, 0);

Level3 large_product() {
  return {
      .m = 4096, .n = 2048, .k = 2048, .A = memory, .lda = 4096, .B = memory, .ldb = 2048, .C = memory, .ldc = 4096};
}

TEST(DgemmChoice, TakesLargeProducts) {
  EXPECT_TRUE(is_for_dgemm_kernel(large_product(), 132, hopper.dgemm));
  const std::vector<std::function<void(Level3&)>> also = {
      [](Level3& c) { c.op_a = c.op_b = Op::conj_trans; },
      [](Level3& c) { c.C = memory + 1, c.ldc = 4097; },  // threads write it, not the copy engine
      [](Level3& c) { c.beta = 0.5, c.alpha = -1; },
      [](Level3& c) { c.m = 4095, c.n = 2047, c.k = 2047; },
      [](Level3& c) { c.m = 1408, c.n = 1536, c.k = 1024; },
  };
  for (std::size_t i = 0; i < also.size(); ++i) {
    Level3 call = large_product();
    also[i](call);
    EXPECT_TRUE(is_for_dgemm_kernel(call, 132, hopper.dgemm)) << i;
  }
}

TEST(DgemmChoice, LeavesTheOthersToCublas) {
  const std::vector<std::function<void(Level3&)>> others = {
      [](Level3& c) { c.type = ScalarType::s; },
      [](Level3& c) { c.type = ScalarType::z; },
      [](Level3& c) { c.routine = Routine::symm; },
      [](Level3& c) { c.alpha = 0; },
      [](Level3& c) { c.k = 1023; },
      [](Level3& c) { c.m = 1024, c.n = 1024; },  // 64 blocks
      [](Level3& c) { c.m = 0; },
      [](Level3& c) { c.n = 0; },
      [](Level3& c) { c.m = 1, c.n = 16000; },  // 125 blocks, each with one row
      [](Level3& c) { c.m = 8192, c.n = 192; },
      [](Level3& c) { c.A = memory + 1; },
      [](Level3& c) { c.B = memory + 1; },
      [](Level3& c) { c.lda = 4097; },
      [](Level3& c) { c.ldb = 2049; },
      [](Level3& c) { c.m = (index_t{1} << 30) + 1; },
      [](Level3& c) { c.n = (index_t{1} << 30) + 1; },
      [](Level3& c) { c.k = (index_t{1} << 30) + 1; },
      [](Level3& c) { c.m = c.n = index_t{1} << 23; },  // 2^32 blocks
      [](Level3& c) { c.lda = (index_t{1} << 36) + 2; },
      [](Level3& c) { c.ldb = (index_t{1} << 36) + 2; },
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    Level3 call = large_product();
    others[i](call);
    EXPECT_FALSE(is_for_dgemm_kernel(call, 132, hopper.dgemm)) << i;
  }
}

}  // namespace dgemm_choice_test
}  // namespace tessera
