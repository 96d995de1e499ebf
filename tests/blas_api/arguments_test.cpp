// First bad argument, exhaustively: every combination of good and bad values against a table of positions written down from
// the reference's documentation.
#include "blas_api/arguments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tessera::api {
namespace {

struct Case {
  char transa, transb;
  index_t m, n, k, lda, ldb, ldc;
};

/// As the reference writes it: NROWA, NROWB, and one IF after another.
int reference_info(const Case& c) {
  const auto upper = [](char x) { return x >= 'a' && x <= 'z' ? static_cast<char>(x - 32) : x; };
  const char ta = upper(c.transa), tb = upper(c.transb);
  const index_t nrowa = ta == 'N' ? c.m : c.k;
  const index_t nrowb = tb == 'N' ? c.k : c.n;
  if (ta != 'N' && ta != 'C' && ta != 'T') return 1;
  if (tb != 'N' && tb != 'C' && tb != 'T') return 2;
  if (c.m < 0) return 3;
  if (c.n < 0) return 4;
  if (c.k < 0) return 5;
  if (c.lda < std::max<index_t>(1, nrowa)) return 8;
  if (c.ldb < std::max<index_t>(1, nrowb)) return 10;
  if (c.ldc < std::max<index_t>(1, c.m)) return 13;
  return 0;
}

TEST(GemmArguments, EveryCombinationInTheOrderOfTheReference) {
  const std::vector<index_t> sizes = {-1, 0, 1, 3, 4};
  const std::vector<index_t> leading = {-1, 0, 1, 2, 3, 4, 5};
  std::vector<int> seen(14, 0);
  for (const char ta : {'N', 'n', 'T', 't', 'C', 'c', 'R', ' ', '\0'})
    for (const char tb : {'N', 't', 'c', 'X'})
      for (const index_t m : sizes)
        for (const index_t n : sizes)
          for (const index_t k : sizes)
            for (const index_t lda : leading)
              for (const index_t ldb : leading)
                for (const index_t ldc : leading) {
                  const Case c = {ta, tb, m, n, k, lda, ldb, ldc};
                  const Arguments arguments = {op_from_letter(ta), op_from_letter(tb), m, n, k, lda, ldb, ldc};
                  const int expected = reference_info(c);
                  ++seen[static_cast<std::size_t>(expected)];
                  ASSERT_EQ(first_bad_argument(gemm_signature, arguments), expected)
                      << ta << tb << " m " << m << " n " << n << " k " << k << " ld " << lda << " " << ldb << " "
                      << ldc;
                }
  for (const int position : {0, 1, 2, 3, 4, 5, 8, 10, 13})
    EXPECT_GT(seen[static_cast<std::size_t>(position)], 0) << position;
}

TEST(GemmArguments, RowMajorLeadingDimensionsSpanRows) {
  Arguments a = {Op::no_trans, Op::no_trans, 2, 3, 4, 4, 3, 3, Layout::row_major};
  EXPECT_EQ(first_bad_argument(gemm_signature, a), 0);
  for (auto [member, position] : {std::pair{&Arguments::lda, 8}, {&Arguments::ldb, 10}, {&Arguments::ldc, 13}}) {
    Arguments bad = a;
    bad.*member -= 1;
    EXPECT_EQ(first_bad_argument(gemm_signature, bad), position);
  }
  a.op_a = Op::trans;
  a.op_b = Op::conj_trans;
  a.lda = 2;
  a.ldb = 4;
  EXPECT_EQ(first_bad_argument(gemm_signature, a), 0);
}

TEST(GemmArguments, EnumeratorsAndLetters) {
  EXPECT_EQ(op_from_cblas(111), Op::no_trans);
  EXPECT_EQ(op_from_cblas(112), Op::trans);
  EXPECT_EQ(op_from_cblas(113), Op::conj_trans);
  EXPECT_FALSE(op_from_cblas(110) || op_from_cblas(114) || op_from_cblas(0) || op_from_cblas('N'));
  EXPECT_EQ(layout_from_cblas(101), Layout::row_major);
  EXPECT_EQ(layout_from_cblas(102), Layout::col_major);
  EXPECT_FALSE(layout_from_cblas(100) || layout_from_cblas(103));
  EXPECT_EQ(op_from_letter('c'), Op::conj_trans);
  EXPECT_FALSE(op_from_letter('R'));
}

}  // namespace
}  // namespace tessera::api
