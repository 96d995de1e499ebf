// Which calls of LAPACK's become problems of a device, and which are left to the LAPACK behind.
#include "calls/lapack_fortran.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera {
namespace lapack_fortran_test {

using enum Parameter;

constexpr Routine all_entries[] = {Routine::heev,  Routine::heevd, Routine::heevr, Routine::heevx, Routine::hegv,
                                   Routine::hegvd, Routine::gesdd, Routine::gesvd, Routine::geev,  Routine::gels,
                                   Routine::gelsd, Routine::ungqr, Routine::unmqr, Routine::unmlq, Routine::unmtr,
                                   Routine::unmbr, Routine::larfb, Routine::trtrs, Routine::trtri, Routine::lauum,
                                   Routine::getri, Routine::potri};

/// A call of everything good, for a test to spoil.
template <class Int>
class Call {
 public:
  Call(Routine entry, ScalarType type) : entry_(entry), type_(type) {
    const Int most = 1000000;
    for (const auto& [parameter, value] : std::map<Parameter, Int>{{itype, 1},
                                                                   {m, 20},
                                                                   {n, 10},
                                                                   {k, 5},
                                                                   {nrhs, 5},
                                                                   {lda, 20},
                                                                   {ldb, 20},
                                                                   {ldt, 5},
                                                                   {ldwork, 20},
                                                                   {ldu, 20},
                                                                   {ldvt, 20},
                                                                   {ldleft, 20},
                                                                   {il, 1},
                                                                   {iu, 3},
                                                                   {lwork, most},
                                                                   {lrwork, most},
                                                                   {liwork, most}})
      integers_[parameter] = value;
    if (entry == Routine::geev) {
      for (const Parameter size : {n, lda, ldu, ldleft}) integers_[size] *= 20;
    }
    for (const auto& [parameter, value] : std::map<Parameter, char>{{jobz, 'N'},
                                                                    {jobu, 'A'},
                                                                    {jobvt, 's'},
                                                                    {jobvl, 'N'},
                                                                    {jobvr, 'v'},
                                                                    {range, 'A'},
                                                                    {uplo, 'l'},
                                                                    {side, 'L'},
                                                                    {trans, 'N'},
                                                                    {diag, 'U'},
                                                                    {vect, 'q'},
                                                                    {direct, 'f'},
                                                                    {storev, 'C'}})
      letters_[parameter] = value;
  }

  Call& set(Parameter parameter, Int value) {
    integers_[parameter] = value;
    return *this;
  }
  Call& letter(Parameter parameter, char value) {
    letters_[parameter] = value;
    return *this;
  }
  bool has(Parameter parameter) const {
    const Parameters parameters = parameters_of(entry_, is_complex(type_));
    return std::find(parameters.begin(), parameters.end(), parameter) != parameters.end();
  }
  std::optional<FortranCall> read() {
    std::vector<void*> arguments;
    for (const Parameter parameter : parameters_of(entry_, is_complex(type_))) {
      if (parameter == none) break;
      arguments.push_back(address(parameter));
    }
    const FortranCall call = fortran_call_of<Int>(entry_, type_, arguments);
    if (call.bad_position != 0 || call.does_nothing) return std::nullopt;
    return call;
  }
  void* address(Parameter parameter) {
    if (integers_.contains(parameter)) return &integers_[parameter];
    if (letters_.contains(parameter)) return &letters_[parameter];
    if (parameter == vl) return real_bytes(type_) == 4 ? static_cast<void*>(&low_s_) : &low_;
    if (parameter == vu) return real_bytes(type_) == 4 ? static_cast<void*>(&high_s_) : &high_;
    if (parameter == none) return nullptr;
    return &memory_[static_cast<std::size_t>(parameter) * 64];
  }

  double low_ = -1, high_ = 2;
  float low_s_ = -1, high_s_ = 2;

 private:
  Routine entry_;
  ScalarType type_;
  std::map<Parameter, Int> integers_;
  std::map<Parameter, char> letters_;
  std::vector<double> memory_ = std::vector<double>(64 * 64);
};

template <class F>
void for_each_interface(F&& f) {
  for (const Routine entry : all_entries) {
    for (const ScalarType type : scalar_types) {
      SCOPED_TRACE("entry " + std::to_string(static_cast<int>(entry)) + " of type " + letter(type));
      f(entry, type, std::int32_t{});
      f(entry, type, std::int64_t{});
    }
  }
}

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

// Tessera asks for no more workspace than a query of LAPACK 3.11 returns (dgesdd of 4000, JOBZ = 'A': 48,028,000).
TEST(LapackFortran, WhatGesddAsksForIsEnough) {
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

// LAPACK 3.11: whoever brings less is told of it, and whoever brings so much is not.
TEST(LapackFortran, WorkspaceOfGesvdDependsOnItsPath) {
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

TEST(LapackFortran, QuestionsForSizesAreToldWhatIsInsistedOn) {
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
TEST(LapackFortran, SizesInSinglePrecisionAreEnough) {
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

TEST(LapackFortran, SizesAreNeverToldAsLess) {
  EXPECT_GE(static_cast<double>(rounded_up<float>((index_t{1} << 24) + 1)), (1 << 24) + 1);
  EXPECT_EQ(rounded_up<float>(index_t{1} << 24), 1 << 24);
  EXPECT_EQ(rounded_up<double>((index_t{1} << 24) + 1), (1 << 24) + 1);
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

// LAPACK 3.11 accepts LWORK from 5536 on for dgelsd of 100 x 60 with 3 right-hand sides.
TEST(LapackFortran, WorkspaceOfGelsdIsTold) {
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
