// Which calls of LAPACK's become problems of a device, and which are left to the LAPACK behind.
#include "calls/lapack_fortran.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/calls/fortran_call.hpp"

namespace tessera {
namespace lapack_fortran_test {

using enum Parameter;
using test::for_each_interface;
template <class Int>
using Call = test::LapackCallToSpoil<Int>;

TEST(LapackFortran, GoodCallsBecomeProblems) {
  for_each_interface([]<class Int>(Routine entry, ScalarType type, Int) {
    Call<Int> call(entry, type);
    const auto read = call.read();
    ASSERT_TRUE(read);
    const LapackCall& p = read->problem;
    EXPECT_EQ(p.type, type);
    EXPECT_EQ(p.routine, row_of(entry).computed_as);
    EXPECT_EQ(p.n, entry == Routine::geev ? 200 : 10);
    EXPECT_EQ(p.m, call.has(m) ? 20 : p.n);
    EXPECT_EQ(p.lda, entry == Routine::geev ? 400 : 20);
    EXPECT_EQ(p.A, call.address(A));
    EXPECT_EQ(read->info, has_info(entry) ? call.address(info) : nullptr);
    if (call.has(uplo)) {
      EXPECT_EQ(p.uplo, Uplo::lower);
    }
    if (call.has(tau)) {
      EXPECT_EQ(p.tau, call.address(tau));
    }
    if (call.has(values)) {
      EXPECT_EQ(p.values, call.address(values));
    }
    if (call.has(jobu)) {
      EXPECT_TRUE(p.u == VectorJob::all && p.vt == VectorJob::thin);
    }
    if (call.has(jobvr)) {
      EXPECT_TRUE(p.vectors);
    }
    if (call.has(diag)) {
      EXPECT_EQ(p.diag, Diag::unit);
    }
  });
}

TEST(LapackFortran, WhatLapackHasToComplainOfIsLeftToIt) {
  for_each_interface([]<class Int>(Routine entry, ScalarType type, Int) {
    for (const Parameter parameter : {n, m, k, nrhs, lda, ldb, ldt, ldu, ldvt, ldleft, itype}) {
      Call<Int> call(entry, type);
      if (!call.has(parameter)) continue;
      EXPECT_FALSE(call.set(parameter, -1).read()) << "parameter " << static_cast<int>(parameter);
      if (parameter == nrhs && factors(entry)) continue;  // of sysv: A is factored
      EXPECT_FALSE(call.set(parameter, 0).read()) << "parameter " << static_cast<int>(parameter);
    }
    for (const Parameter parameter :
         {jobz, jobu, jobvt, jobvl, jobvr, range, uplo, side, trans, diag, vect, direct, storev}) {
      Call<Int> call(entry, type);
      if (!call.has(parameter)) continue;
      EXPECT_FALSE(call.letter(parameter, 'X').read()) << "parameter " << static_cast<int>(parameter);
    }
    for (const Parameter parameter : {lwork, lrwork, liwork}) {
      Call<Int> call(entry, type);
      if (!call.has(parameter)) continue;
      EXPECT_FALSE(call.set(parameter, 0).read()) << "too little";
    }
    Call<Int> call(entry, type);
    const Int rows = entry == Routine::unmlq ? 5 : call.has(m) ? 20 : entry == Routine::geev ? 200 : 10;
    EXPECT_FALSE(call.set(lda, rows - 1).read()) << "columns that overlap";
  });
}

TEST(LapackFortran, LeadingDimensionsCountWhereMatricesAreAskedFor) {
  Call<std::int32_t> values_only(Routine::heevr, ScalarType::d);
  EXPECT_TRUE(values_only.set(ldu, 1).read());
  EXPECT_FALSE(values_only.letter(jobz, 'V').read());
  Call<std::int32_t> svd(Routine::gesdd, ScalarType::d);
  EXPECT_TRUE(svd.set(ldu, 1).set(ldvt, 1).read());
  EXPECT_FALSE(svd.letter(jobz, 'S').read());
  EXPECT_FALSE(svd.set(ldu, 20).set(ldvt, 9).read());
  EXPECT_TRUE(svd.set(ldvt, 10).read());
  EXPECT_TRUE(svd.letter(jobz, 'O').set(ldu, 1).read()) << "U takes the place of A";
}

TEST(LapackFortran, OverwritesTheSideThatFits) {
  Call<std::int64_t> tall(Routine::gesdd, ScalarType::z);
  auto read = tall.letter(jobz, 'O').read();
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->problem.u == VectorJob::overwrite && read->problem.vt == VectorJob::all);
  read = tall.set(n, 30).set(ldvt, 30).read();
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->problem.u == VectorJob::all && read->problem.vt == VectorJob::overwrite);
  Call<std::int64_t> both(Routine::gesvd, ScalarType::d);
  EXPECT_FALSE(both.letter(jobu, 'O').letter(jobvt, 'O').read());
}

TEST(LapackFortran, Ranges) {
  for (const Routine entry : {Routine::heevr, Routine::heevx}) {
    Call<std::int32_t> call(entry, ScalarType::s);
    auto read = call.letter(range, 'v').read();
    ASSERT_TRUE(read);
    EXPECT_EQ(read->problem.vl, -1);
    EXPECT_EQ(read->problem.vu, 2);
    call.high_s_ = -1;
    EXPECT_FALSE(call.read()) << "nothing between";
    read = call.letter(range, 'I').read();
    ASSERT_TRUE(read);
    EXPECT_EQ(read->problem.il, 1);
    EXPECT_EQ(read->problem.iu, 3);
    EXPECT_FALSE(call.set(iu, 11).read());
    EXPECT_FALSE(call.set(iu, 3).set(il, 4).read());
  }
}

TEST(LapackFortran, ReflectorsAreNoMoreThanRows) {
  Call<std::int32_t> q(Routine::ungqr, ScalarType::d);
  EXPECT_FALSE(q.set(k, 11).read());
  EXPECT_FALSE(q.set(k, 5).set(n, 21).read());
  Call<std::int32_t> wide(Routine::unglq, ScalarType::d);
  EXPECT_FALSE(wide.read()) << "more rows than columns";
  EXPECT_TRUE(wide.set(n, 20).set(lwork, 20).read());
  EXPECT_FALSE(wide.set(lwork, 19).read());
  EXPECT_FALSE(wide.set(lwork, 20).set(k, 21).read());
  Call<std::int32_t> product(Routine::unmqr, ScalarType::d);
  EXPECT_TRUE(product.set(k, 20).read());
  EXPECT_FALSE(product.letter(side, 'R').read());
  EXPECT_TRUE(product.set(k, 10).read());
  EXPECT_FALSE(product.letter(trans, 'C').read()) << "real";
  Call<std::int32_t> complex(Routine::unmqr, ScalarType::c);
  EXPECT_FALSE(complex.letter(trans, 'T').read());
  const auto read = complex.letter(trans, 'c').read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->problem.op, Op::conj_trans);
}

TEST(LapackFortran, LeftEigenvectorsAreLeftToLapack) {
  Call<std::int32_t> call(Routine::geev, ScalarType::d);
  const auto without = call.read();
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->is_for_devices);
  EXPECT_EQ(without->left, nullptr);
  const auto with = call.letter(jobvl, 'v').set(ldleft, 201).read();
  ASSERT_TRUE(with);
  EXPECT_FALSE(with->is_for_devices);
  EXPECT_EQ(with->left, call.address(left));
  EXPECT_EQ(with->ldleft, 201);
  EXPECT_FALSE(call.set(ldleft, 199).read());
  call.set(ldleft, 200).letter(jobvr, 'N');
  EXPECT_FALSE(call.set(lwork, 4 * 200 - 1).read());
  EXPECT_TRUE(call.set(lwork, 4 * 200).read());
  EXPECT_TRUE(call.letter(jobvl, 'N').set(lwork, 3 * 200).read());
}

TEST(LapackFortran, SmallGeneralEigenvalueProblemsAreLeftToLapack) {
  Call<std::int32_t> small(Routine::geev, ScalarType::d);
  const auto below = small.set(n, lapack_fortran::least_order_of_geev - 1).read();
  ASSERT_TRUE(below);
  EXPECT_FALSE(below->is_for_devices);
  const auto large = small.set(n, lapack_fortran::least_order_of_geev).read();
  ASSERT_TRUE(large);
  EXPECT_TRUE(large->is_for_devices);
}

TEST(LapackFortran, VectorsThatDoNotConvergeAreNumbered) {
  Call<std::int32_t> call(Routine::heevx, ScalarType::d);
  const auto read = call.letter(jobz, 'V').letter(range, 'I').read();
  ASSERT_TRUE(read);
  auto* const numbers = static_cast<std::int32_t*>(call.address(ifail));
  std::fill_n(numbers, 10, 77);
  hand_out<std::int32_t>(*read, 0, 3);
  EXPECT_EQ(std::vector<std::int32_t>(numbers, numbers + 4), (std::vector<std::int32_t>{0, 0, 0, 77}));
  hand_out<std::int32_t>(*read, 3, 3);
  EXPECT_EQ(std::vector<std::int32_t>(numbers, numbers + 4), (std::vector<std::int32_t>{1, 2, 3, 77}));
}

TEST(LapackFortran, HandsOutInTheCallersWidth) {
  const auto check = []<class Int>(Int) {
    Call<Int> call(Routine::heevr, ScalarType::c);
    auto read = call.letter(jobz, 'V').letter(range, 'I').read();
    ASSERT_TRUE(read);
    auto* const untouched = static_cast<Int*>(call.address(support));
    untouched[0] = 77;
    hand_out<Int>(*read, 7, 3);
    EXPECT_EQ(untouched[0], 77) << "there may be no such memory where only some vectors are asked for";
    EXPECT_EQ(*static_cast<Int*>(call.address(iwork)), 1000000);
    EXPECT_EQ(*static_cast<float*>(call.address(rwork)), 1e6F);
    read = call.letter(range, 'A').read();
    ASSERT_TRUE(read);
    hand_out<Int>(*read, 7, 3);
    EXPECT_EQ(*static_cast<Int*>(call.address(info)), 7);
    EXPECT_EQ(*static_cast<Int*>(call.address(found)), 3);
    const auto* const parts = static_cast<Int*>(call.address(support));
    EXPECT_EQ(std::vector<Int>(parts, parts + 6), (std::vector<Int>{1, 10, 1, 10, 1, 10}));
    EXPECT_EQ(*static_cast<std::complex<float>*>(call.address(work)), std::complex<float>(1e6F));
  };
  check(std::int32_t{});
  check(std::int64_t{});
}

TEST(LapackFortran, DestroyedMatricesShowIt) {
  for_each_interface([]<class Int>(Routine entry, ScalarType type, Int) {
    for (const char job : {'N', 'V', 'S', 'O'}) {
      Call<Int> call(entry, type);
      const auto read = call.letter(jobz, job).read();
      if (!read) continue;  // no such job
      const bool is_destroyed = entry == Routine::geev || entry == Routine::heevr || entry == Routine::heevx ||
                                entry == Routine::gelsd || entry == Routine::gesvd ||
                                (entry == Routine::gesdd && job != 'O') || (call.has(jobz) && job == 'N');
      hand_out<Int>(*read, 3, 0);
      const auto is_nan = [&] {
        return real_bytes(type) == 4 ? std::isnan(*static_cast<float*>(call.address(A)))
                                     : std::isnan(*static_cast<double*>(call.address(A)));
      };
      EXPECT_FALSE(is_nan()) << "it has failed";
      hand_out<Int>(*read, 0, 0);
      EXPECT_EQ(is_nan(), is_destroyed) << job;
    }
  });
}

TEST(LapackFortran, OrmbrIsAPartOfOrmqrOrOrmlq) {
  const auto read = [](char of, char which_side, std::int32_t count) {
    Call<std::int32_t> call(Routine::unmbr, ScalarType::d);
    call.letter(vect, of).letter(side, which_side).set(m, 20).set(n, 10).set(k, count).set(lda, 25).set(ldb, 30);
    const auto* const A0 = static_cast<const double*>(call.address(A));
    const auto* const B0 = static_cast<const double*>(call.address(B));
    const auto result = call.read();
    EXPECT_TRUE(result);
    const LapackCall& p = result->problem;
    return std::tuple(p.routine, p.op, p.m, p.n, p.k, static_cast<const double*>(p.A) - A0,
                      static_cast<const double*>(p.B) - B0);
  };
  using enum Routine;
  using Expected = std::tuple<Routine, Op, index_t, index_t, index_t, std::ptrdiff_t, std::ptrdiff_t>;
  EXPECT_EQ(read('Q', 'L', 8), (Expected{unmqr, Op::no_trans, 20, 10, 8, 0, 0}));
  EXPECT_EQ(read('Q', 'L', 20), (Expected{unmqr, Op::no_trans, 20, 10, 20, 0, 0}));
  EXPECT_EQ(read('Q', 'L', 21), (Expected{unmqr, Op::no_trans, 19, 10, 19, 1, 1}));
  EXPECT_EQ(read('Q', 'R', 11), (Expected{unmqr, Op::no_trans, 20, 9, 9, 1, 30}));
  EXPECT_EQ(read('P', 'L', 19), (Expected{unmlq, Op::conj_trans, 20, 10, 19, 0, 0}));
  EXPECT_EQ(read('P', 'L', 20), (Expected{unmlq, Op::conj_trans, 19, 10, 19, 25, 1}));
  EXPECT_EQ(read('P', 'R', 40), (Expected{unmlq, Op::conj_trans, 20, 9, 9, 25, 30}));
  Call<std::int32_t> one(Routine::unmbr, ScalarType::d);
  EXPECT_FALSE(one.set(m, 1).set(k, 3).read()) << "no reflector is left";
}

TEST(LapackFortran, LeadingDimensionsOfOrmbrAreThoseOfAllReflectors) {
  Call<std::int32_t> call(Routine::unmbr, ScalarType::z);
  call.set(m, 20).set(k, 30);
  EXPECT_TRUE(call.set(lda, 20).read());
  EXPECT_FALSE(call.set(lda, 19).read());
  call.letter(vect, 'P').set(k, 6);
  EXPECT_TRUE(call.set(lda, 6).read());
  EXPECT_FALSE(call.set(lda, 5).read());
}

TEST(LapackFortran, TriangularSolvesKnowAllTransposes) {
  for (const auto& [letter, op] : {std::pair{'n', Op::no_trans}, {'T', Op::trans}, {'c', Op::conj_trans}}) {
    for (const ScalarType type : scalar_types) {
      Call<std::int64_t> call(Routine::trtrs, type);
      const auto read = call.letter(trans, letter).read();
      ASSERT_TRUE(read);
      EXPECT_EQ(read->problem.op, op);
    }
  }
}

TEST(LapackFortran, SolutionsOfLeastSquaresHaveRoom) {
  for (const Routine entry : {Routine::gels, Routine::gelsd}) {
    Call<std::int32_t> wide(entry, ScalarType::d);
    EXPECT_FALSE(wide.set(n, 30).read());
    EXPECT_TRUE(wide.set(ldb, 30).read());
  }
}

TEST(LapackFortran, BlockReflectorsHaveNoInfo) {
  Call<std::int32_t> call(Routine::larfb, ScalarType::d);
  call.letter(direct, 'B').letter(storev, 'r').set(lda, 5);
  const auto read = call.read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->problem.order, ReflectorOrder::backward);
  EXPECT_EQ(read->problem.storage, ReflectorStorage::rows);
  EXPECT_EQ(read->problem.T, call.address(t_factor));
  hand_out<std::int32_t>(*read, 0, 0);
}

TEST(LapackFortran, PivotsAreAsWideAsTheCallersIntegers) {
  Call<std::int32_t> narrow(Routine::getri, ScalarType::s);
  Call<std::int64_t> wide(Routine::getri, ScalarType::s);
  EXPECT_EQ(narrow.read()->problem.ipiv_bits, 32);
  EXPECT_EQ(wide.read()->problem.ipiv_bits, 64);
}

TEST(LapackFortran, LettersHaveLengthsBehindThem) {
  EXPECT_EQ(letters_of(Routine::heevr), 3U);
  EXPECT_EQ(letters_of(Routine::gesvd), 2U);
  EXPECT_EQ(letters_of(Routine::ungqr), 0U);
  EXPECT_EQ(letters_of(Routine::trtri), 2U);
  EXPECT_EQ(letters_of(Routine::larfb), 4U);
  EXPECT_EQ(letters_of(Routine::gelsd), 0U);
}

}  // namespace lapack_fortran_test
}  // namespace tessera
