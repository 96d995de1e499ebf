// The least workspace that LAPACK insists on, and the sizes that a query is told.
#include "calls/lapack_workspace.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "calls/lapack_fortran.hpp"
#include "tests/calls/fortran_call.hpp"

namespace tessera {
namespace lapack_workspace_test {

using enum Parameter;
using test::for_each_interface;
template <class Int>
using Call = test::LapackCallToSpoil<Int>;

// Tessera asks for no more workspace than a query of LAPACK 3.11 returns (dgesdd of 4000, JOBZ = 'A': 48,028,000).
TEST(LapackWorkspace, WhatGesddAsksForIsEnough) {
  Call<std::int64_t> square(Routine::gesdd, ScalarType::d);
  square.set(m, 4000).set(n, 4000).set(lda, 4000).set(ldu, 4000).set(ldvt, 4000).letter(jobz, 'A');
  EXPECT_TRUE(square.set(lwork, 48028000).read());
  EXPECT_FALSE(square.set(lwork, 48027999).read());
  EXPECT_TRUE(square.letter(jobz, 'N').set(lwork, 40000).read());
  EXPECT_FALSE(square.set(lwork, 39999).read());
  Call<std::int64_t> tall(Routine::gesdd, ScalarType::d);
  tall.set(m, 220).set(n, 120).set(lda, 220).set(ldu, 220).set(ldvt, 120).letter(jobz, 'S');
  const std::int64_t bidiagonal = 3 * 120 * 120 + 4 * 120;
  EXPECT_TRUE(tall.set(lwork, bidiagonal + 120 * 120 + 3 * 120).read());
  EXPECT_FALSE(tall.set(lwork, bidiagonal + 120 * 120 + 3 * 120 - 1).read());
  EXPECT_TRUE(tall.set(m, 219).set(lwork, bidiagonal + 3 * 120).read());
  // INT(100 * 11 / 6) is 183: dgesdd of LAPACK 3.11 asks for 40700 there, and for 30700 at 182.
  tall.set(m, 183).set(n, 100);
  EXPECT_FALSE(tall.set(lwork, 40699).read());
  EXPECT_TRUE(tall.set(lwork, 40700).read());
  EXPECT_TRUE(tall.set(m, 182).set(lwork, 30700).read());
}

// LAPACK 3.11: whoever brings less is told of it, and whoever brings so much is not.
TEST(LapackWorkspace, WorkspaceOfGesvdDependsOnItsPath) {
  const auto least = [](ScalarType type, char u, char vt, std::int32_t rows, std::int32_t cols) {
    Call<std::int32_t> call(Routine::gesvd, type);
    call.letter(jobu, u).letter(jobvt, vt).set(m, rows).set(n, cols).set(lda, rows).set(ldu, rows).set(ldvt, cols);
    std::int32_t size = 1;
    while (!call.set(lwork, size).read()) ++size;
    return size;
  };
  EXPECT_EQ(least(ScalarType::d, 'N', 'A', 100, 10), 5 * 10) << "QR, whose Q is not needed";
  EXPECT_EQ(least(ScalarType::d, 'S', 'N', 100, 10), 3 * 10 + 100);
  EXPECT_EQ(least(ScalarType::d, 'A', 'N', 10, 100), 5 * 10);
  EXPECT_EQ(least(ScalarType::d, 'N', 'N', 16, 10), 5 * 10);
  EXPECT_EQ(least(ScalarType::d, 'N', 'N', 15, 10), 5 * 10);
  EXPECT_EQ(least(ScalarType::z, 'N', 'N', 16, 10), 3 * 10);
  EXPECT_EQ(least(ScalarType::z, 'N', 'N', 15, 10), 2 * 10 + 15);
}

TEST(LapackWorkspace, QuestionsForSizesAreToldWhatIsInsistedOn) {
  for_each_interface([]<class Int>(Routine entry, ScalarType type, Int) {
    for (const Parameter parameter : {lwork, lrwork, liwork}) {
      Call<Int> call(entry, type);
      if (!call.has(parameter)) continue;
      EXPECT_FALSE(call.read()->asks_for_sizes);
      const auto read = call.set(parameter, -1).read();
      ASSERT_TRUE(read);
      EXPECT_TRUE(read->asks_for_sizes);
      const auto least = lapack_fortran::least_workspace(entry, read->problem);
      if (entry == Routine::unmbr) continue;  // asked of all of it
      EXPECT_EQ(read->lwork, least.work);
    }
  });
}

// LAPACK 3.11 answers 16837400 to ssyevd, and complains of it then.
TEST(LapackWorkspace, SizesInSinglePrecisionAreEnough) {
  Call<std::int64_t> real(Routine::heevd, ScalarType::s);
  const auto asks = real.set(n, 2900).set(lda, 2900).letter(jobz, 'V').set(lwork, -1).read();
  ASSERT_TRUE(asks);
  float& told = *static_cast<float*>(real.address(work));
  told = 16837400;
  raise_sizes(*asks);
  EXPECT_EQ(told, 16837402.0F) << "the smallest number that is not below 16837401";
  EXPECT_TRUE(real.set(lwork, static_cast<std::int64_t>(told)).read());
  told = 20000000;
  raise_sizes(*asks);
  EXPECT_EQ(told, 20000000) << "more than enough";

  Call<std::int64_t> complex(Routine::hegvd, ScalarType::c);
  const auto asks_complex = complex.set(n, 2900).set(lda, 2900).set(ldb, 2900).letter(jobz, 'V').set(lrwork, -1).read();
  ASSERT_TRUE(asks_complex);
  float& told_real = *static_cast<float*>(complex.address(rwork));
  told_real = 16834500;
  raise_sizes(*asks_complex);
  EXPECT_EQ(told_real, 16834502.0F);

  Call<std::int64_t> wide(Routine::heevd, ScalarType::d);
  const auto asks_wide = wide.set(lwork, -1).read();
  ASSERT_TRUE(asks_wide);
  raise_sizes(*asks_wide);
  EXPECT_EQ(*static_cast<double*>(wide.address(work)), 0) << "what double precision tells is exact";
}

TEST(LapackWorkspace, SizesAreNeverToldAsLess) {
  EXPECT_GE(static_cast<double>(rounded_up<float>((index_t{1} << 24) + 1)), (1 << 24) + 1);
  EXPECT_EQ(rounded_up<float>(index_t{1} << 24), 1 << 24);
  EXPECT_EQ(rounded_up<double>((index_t{1} << 24) + 1), (1 << 24) + 1);
}

// LAPACK 3.11 accepts LWORK from 5536 on for dgelsd of 100 x 60 with 3 right-hand sides.
TEST(LapackWorkspace, WorkspaceOfGelsdIsTold) {
  Call<std::int32_t> call(Routine::gelsd, ScalarType::d);
  call.set(m, 100).set(n, 60).set(nrhs, 3).set(lda, 100).set(ldb, 100);
  constexpr std::int32_t solve = 9 * 60 + 2 * 60 * 25 + 8 * 60 * 2 + 60 * 3 + 26 * 26;
  EXPECT_FALSE(call.set(lwork, 3 * 60 + solve - 1).read());
  const auto read = call.set(lwork, 3 * 60 + solve).read();
  ASSERT_TRUE(read);
  hand_out<std::int32_t>(*read, 0, 60);
  EXPECT_EQ(*static_cast<std::int32_t*>(call.address(found)), 60);
  EXPECT_EQ(*static_cast<std::int32_t*>(call.address(iwork)), 3 * 60 * 2 + 11 * 60);
}

}  // namespace lapack_workspace_test
}  // namespace tessera
