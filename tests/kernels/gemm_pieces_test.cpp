// Products that do not fit the integers of a BLAS, in pieces that do.
#include "kernels/host/gemm_pieces.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace gemm_pieces_test {

using kernels::for_each_gemm_piece;
using test::Level3Case;
using test::Level3Fixture;

TEST(GemmPieces, AddUpToTheProduct) {
  // A limit of 8 stands for 2^31 - 1; the shapes lie below it, at it, and beyond it in each dimension.
  constexpr index_t shapes[][4] = {{8, 8, 8, 0}, {9, 5, 7, 2}, {3, 17, 4, 1}, {4, 3, 19, 0}, {5, 4, 0, 1}};
  for (const index_t limit : {index_t{1}, index_t{3}, index_t{8}}) {
    for (const auto& [m, n, k, padding] : shapes) {
      for (const AnyScalar alpha : test::factors(ScalarType::z)) {
        for (const AnyScalar beta : test::factors(ScalarType::z)) {
          const Level3Case base{.m = m, .n = n, .k = k, .alpha = alpha, .beta = beta, .padding = padding};
          test::for_each_variant(ScalarType::z, base, [&](const Level3Case& c) {
            Level3Fixture<std::complex<double>> fixture(c, 1);
            const Level3 p = fixture.problem();
            index_t volume = 0;
            for_each_gemm_piece(p, limit, [&](const Level3& piece) {
              EXPECT_TRUE(piece.m >= 1 && piece.m <= limit && piece.n >= 1 && piece.n <= limit && piece.k <= limit);
              volume += piece.m * piece.n * piece.k;
              kernels::reference_level3(piece);
            });
            EXPECT_EQ(volume, p.m * p.n * p.k);
            EXPECT_TRUE(fixture.check());
          });
        }
      }
    }
  }
}

TEST(GemmPieces, ReachBeyond32Bits) {
  // Only addresses are computed: nothing is read.
  constexpr std::intptr_t base = 4096;
  constexpr index_t limit = (index_t{1} << 31) - 1;
  const auto cut = [&](index_t m, index_t k) {
    Level3 p;
    p.type = ScalarType::z;
    p.op_b = Op::trans;
    p.m = m;
    p.n = 3;
    p.k = k;
    p.lda = p.ldc = m;
    p.ldb = 3;
    p.beta = 2;
    p.A = p.B = p.C = reinterpret_cast<std::byte*>(base);
    std::vector<Level3> pieces;
    for_each_gemm_piece(p, limit, [&](const Level3& piece) { pieces.push_back(piece); });
    return pieces;
  };
  const auto offset = [](const void* address) {
    return static_cast<index_t>(reinterpret_cast<std::intptr_t>(address) - base);
  };
  const std::vector<Level3> tall = cut(limit + 6, 2);
  ASSERT_EQ(tall.size(), 2u);
  EXPECT_EQ(tall[0].m, limit);
  EXPECT_EQ(tall[1].m, 6);
  EXPECT_EQ(tall[1].beta, AnyScalar(2));
  EXPECT_EQ(offset(tall[1].A), limit * 16);
  EXPECT_EQ(offset(tall[1].B), 0);
  EXPECT_EQ(offset(tall[1].C), limit * 16);
  const std::vector<Level3> deep = cut(2, limit + 1);
  ASSERT_EQ(deep.size(), 2u);
  EXPECT_EQ(deep[0].k, limit);
  EXPECT_EQ(deep[0].beta, AnyScalar(2));
  EXPECT_EQ(deep[1].k, 1);
  EXPECT_EQ(deep[1].beta, AnyScalar(1));
  EXPECT_EQ(offset(deep[1].A), limit * 2 * 16);
  EXPECT_EQ(offset(deep[1].B), limit * 3 * 16);
  EXPECT_EQ(offset(deep[1].C), 0);
}

}  // namespace gemm_pieces_test
}  // namespace tessera
