// Problems that a device may solve whole, of the C API and its C++ veneer: results on devices and on the CPU, checks of arguments in
// the caller's order, sizes of 0, failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "calls/lapack_results.hpp"
#include "calls/nonfinite_problem.hpp"
#include "tessera/lapack.hpp"
#include "tests/dense_fixture.hpp"

namespace tessera {
namespace c_api_dense_test {

constexpr const char* on_devices = "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16";
constexpr const char* on_cpu = "TESSERA_OFFLOAD=never";

/// Through the veneer. @return info
template <Scalar T>
std::int64_t run(const Context& c, const LapackCall& p) {
  using Real = decltype(std::abs(T{}));
  T *const A = static_cast<T*>(p.A), *const B = static_cast<T*>(p.B), *const U = static_cast<T*>(p.U);
  T *const VT = static_cast<T*>(p.VT), *const tau = static_cast<T*>(p.tau);
  auto* const values = static_cast<Real*>(p.values);
  const tessera_vectors vectors = p.vectors ? TESSERA_VECTORS : TESSERA_NO_VECTORS;
  const tessera_uplo uplo = p.uplo == Uplo::lower ? TESSERA_LOWER : TESSERA_UPPER;
  const tessera_side side = p.side == Side::left ? TESSERA_LEFT : TESSERA_RIGHT;
  const tessera_diag diag = p.diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT;
  const auto trans = static_cast<tessera_transpose>(static_cast<int>(p.op) + TESSERA_NO_TRANS);
  switch (p.routine) {
    case Routine::sytrf:
      return sytrf(c, TESSERA_COL_MAJOR, uplo, p.n, A, p.lda, static_cast<std::int64_t*>(p.ipiv));
    case Routine::sytrs:
      return sytrs<T>(c, TESSERA_COL_MAJOR, uplo, p.n, p.k, A, p.lda, static_cast<const std::int64_t*>(p.ipiv), B,
                      p.ldb);
    case Routine::sysv:
      return sysv(c, TESSERA_COL_MAJOR, uplo, p.n, p.k, A, p.lda, static_cast<std::int64_t*>(p.ipiv), B, p.ldb);
    case Routine::hetrf:
      return hetrf(c, TESSERA_COL_MAJOR, uplo, p.n, A, p.lda, static_cast<std::int64_t*>(p.ipiv));
    case Routine::hetrs:
      return hetrs<T>(c, TESSERA_COL_MAJOR, uplo, p.n, p.k, A, p.lda, static_cast<const std::int64_t*>(p.ipiv), B,
                      p.ldb);
    case Routine::hesv:
      return hesv(c, TESSERA_COL_MAJOR, uplo, p.n, p.k, A, p.lda, static_cast<std::int64_t*>(p.ipiv), B, p.ldb);
    case Routine::heevd:
      return heevd(c, TESSERA_COL_MAJOR, vectors, uplo, p.n, A, p.lda, values);
    case Routine::hegvd:
      return hegvd(c, TESSERA_COL_MAJOR, p.itype, vectors, uplo, p.n, A, p.lda, B, p.ldb, values);
    case Routine::gesdd: {
      const tessera_vectors of_both = p.u == VectorJob::none   ? TESSERA_NO_VECTORS
                                      : p.u == VectorJob::thin ? TESSERA_VECTORS
                                                               : TESSERA_ALL_VECTORS;
      return gesdd(c, TESSERA_COL_MAJOR, of_both, p.m, p.n, A, p.lda, values, U, p.ldu, VT, p.ldvt);
    }
    case Routine::geev:
      if constexpr (std::is_same_v<T, Real>)
        return geev(c, TESSERA_COL_MAJOR, vectors, p.n, A, p.lda, values, static_cast<T*>(p.imaginary), U, p.ldu);
      else
        return geev(c, TESSERA_COL_MAJOR, vectors, p.n, A, p.lda, static_cast<T*>(p.values), U, p.ldu);
    case Routine::gels:
      return gels(c, TESSERA_COL_MAJOR, trans, p.m, p.n, p.k, A, p.lda, B, p.ldb);
    case Routine::gelsd:
      return gelsd(c, TESSERA_COL_MAJOR, p.m, p.n, p.k, A, p.lda, B, p.ldb, values, static_cast<Real>(p.rcond),
                   p.found);
    case Routine::ungqr:
      return ungqr(c, TESSERA_COL_MAJOR, p.m, p.n, p.k, A, p.lda, tau);
    case Routine::unglq:
      return unglq(c, TESSERA_COL_MAJOR, p.m, p.n, p.k, A, p.lda, tau);
    case Routine::unmqr:
      return unmqr<T>(c, TESSERA_COL_MAJOR, side, trans, p.m, p.n, p.k, A, p.lda, tau, B, p.ldb);
    case Routine::trtrs:
      return trtrs<T>(c, TESSERA_COL_MAJOR, uplo, trans, diag, p.n, p.k, A, p.lda, B, p.ldb);
    case Routine::trtri:
      return trtri(c, TESSERA_COL_MAJOR, uplo, diag, p.n, A, p.lda);
    case Routine::potri:
      return potri(c, TESSERA_COL_MAJOR, uplo, p.n, A, p.lda);
    default:
      return getri(c, TESSERA_COL_MAJOR, p.n, A, p.lda, static_cast<const std::int64_t*>(p.ipiv));
  }
}

constexpr LapackCall forms[] = {
    {.routine = Routine::heevd, .vectors = true, .n = 40},
    {.routine = Routine::heevd, .uplo = Uplo::upper, .n = 40},
    {.routine = Routine::hegvd, .vectors = true, .uplo = Uplo::upper, .itype = 2, .n = 40},
    {.routine = Routine::gesdd, .m = 50, .n = 40},
    {.routine = Routine::gesdd, .u = VectorJob::thin, .vt = VectorJob::thin, .m = 40, .n = 50},
    {.routine = Routine::gesdd, .u = VectorJob::all, .vt = VectorJob::all, .m = 50, .n = 40},
    {.routine = Routine::geev, .vectors = true, .n = 130},
    {.routine = Routine::geev, .n = 130},
    {.routine = Routine::gels, .m = 50, .n = 40, .k = 3},
    {.routine = Routine::gels, .op = Op::conj_trans, .m = 50, .n = 40, .k = 3},
    {.routine = Routine::gelsd, .m = 40, .n = 50, .k = 3, .rcond = 1e-4},
    {.routine = Routine::ungqr, .m = 50, .n = 40, .k = 30},
    {.routine = Routine::unglq, .m = 40, .n = 50, .k = 30},
    {.routine = Routine::unmqr, .side = Side::right, .op = Op::conj_trans, .m = 50, .n = 40, .k = 30},
    {.routine = Routine::trtrs, .uplo = Uplo::upper, .diag = Diag::unit, .op = Op::trans, .n = 40, .k = 20},
    {.routine = Routine::trtri, .uplo = Uplo::upper, .diag = Diag::unit, .n = 40},
    {.routine = Routine::potri, .n = 40},
    {.routine = Routine::getri, .n = 40},
    {.routine = Routine::sytrf, .n = 40},
    {.routine = Routine::sytrs, .uplo = Uplo::upper, .n = 40, .k = 3},
    {.routine = Routine::sysv, .uplo = Uplo::upper, .n = 40, .k = 3},
    {.routine = Routine::hetrf, .uplo = Uplo::upper, .n = 40},
    {.routine = Routine::hetrs, .n = 40, .k = 3},
    {.routine = Routine::hesv, .n = 40, .k = 3}};

template <class T>
class DenseApi : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(DenseApi, Types);

TYPED_TEST(DenseApi, SolvesOnDevicesAndOnTheCpu) {
  for (const char* settings : {on_devices, on_cpu}) {
    const Context context(settings);
    for (const LapackCall& form : forms) {
      if (!exists(form.routine, scalar_type_of<TypeParam>())) continue;
      test::DenseFixture<TypeParam> fixture(form, 5);
      const std::int64_t info = run<TypeParam>(context, fixture.problem());
      if (destroys_a(fixture.problem())) fixture.take_a_back();
      EXPECT_TRUE(fixture.unless_library_is_wrong(fixture.check(info))) << settings;
      const bool may_go = settings == std::string(on_devices) && !is(form.routine, cpu_only);
      EXPECT_EQ(context.last_job_stats().devices > 0, may_go) << fixture.problem();
    }
  }
}

TYPED_TEST(DenseApi, TellsZerosAndLeavesInputs) {
  for (const char* settings : {on_devices, on_cpu}) {
    const Context context(settings);
    for (const Routine routine : {Routine::trtrs, Routine::trtri, Routine::potri, Routine::getri}) {
      test::DenseFixture<TypeParam> fixture({.routine = routine, .n = 40, .k = 3}, 5);
      fixture.at(LapackSlot::A, 16, 16) = 0;
      fixture.begin_anew();
      EXPECT_EQ(run<TypeParam>(context, fixture.problem()), 17);
      EXPECT_TRUE(fixture.inputs_are_intact());
    }
  }
}

// As LAPACK does.
TYPED_TEST(DenseApi, TellsPivotsOfZeroAndKeepsNan) {
  using Real = decltype(std::abs(TypeParam{}));
  for (const char* settings : {on_devices, on_cpu}) {
    const Context context(settings);
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      const LapackCall form{.routine = Routine::sysv, .uplo = uplo, .n = 40, .k = 3};
      test::DenseFixture<TypeParam> singular(form, 5);
      for (index_t j = 0; j < form.n; ++j) {
        for (index_t i = 0; i < form.n; ++i) {
          if (i != j && (i > j) == (uplo == Uplo::lower)) singular.at(LapackSlot::A, i, j) = 0;
        }
        singular.at(LapackSlot::A, j, j) = TypeParam(j == 16 || j == 30 ? 0 : 1);
      }
      const TypeParam b = singular.at(LapackSlot::B, 7, 2);
      EXPECT_EQ(run<TypeParam>(context, singular.problem()), uplo == Uplo::lower ? 17 : 31) << settings;
      EXPECT_EQ(singular.at(LapackSlot::B, 7, 2), b) << "no solution";
      EXPECT_EQ(singular.at(LapackSlot::A, 16, 16), TypeParam(0));

      test::DenseFixture<TypeParam> odd(form, 5);
      odd.at(LapackSlot::A, 20, 20) = TypeParam(std::numeric_limits<Real>::quiet_NaN());
      const std::int64_t info = run<TypeParam>(context, odd.problem());
      const auto is_nan = [&](LapackSlot slot, index_t j) { return std::isnan(std::abs(odd.at(slot, 0, j))); };
      EXPECT_TRUE(info > 0 || (is_nan(LapackSlot::B, 0) && is_nan(LapackSlot::B, 2))) << settings;

      test::DenseFixture<TypeParam> right(form, 5);
      right.at(LapackSlot::B, 20, 1) = TypeParam(std::numeric_limits<Real>::quiet_NaN());
      EXPECT_EQ(run<TypeParam>(context, right.problem()), 0);
      EXPECT_TRUE(std::isnan(std::abs(right.at(LapackSlot::B, 0, 1))));
      EXPECT_FALSE(std::isnan(std::abs(right.at(LapackSlot::B, 0, 2))));
    }
  }
}

// SciPy's tests compare the bits, for matrices of a few columns.
TYPED_TEST(DenseApi, LeastSquaresLeaveTheFactorsOfQr) {
  const Context context(on_devices);
  for (const auto& [m, n] : {std::pair<index_t, index_t>{3, 2}, {12, 7}, {7, 12}}) {
    test::DenseFixture<TypeParam> fixture({.routine = Routine::gels, .m = m, .n = n, .k = 1}, 5);
    std::vector<TypeParam> factors(static_cast<std::size_t>(m * n)), tau(static_cast<std::size_t>(std::min(m, n)));
    const auto for_each = [&](const auto& use) {
      for (index_t i = 0; i < m * n; ++i) use(factors[i], fixture.at(LapackSlot::A, i % m, i / m));
    };
    for_each([](TypeParam& kept, TypeParam given) { kept = given; });
    const auto factor = m >= n ? geqrf<TypeParam> : gelqf<TypeParam>;
    EXPECT_EQ(factor(context, TESSERA_COL_MAJOR, m, n, factors.data(), m, tau.data()), 0);
    EXPECT_EQ(run<TypeParam>(context, fixture.problem()), 0);
    for_each([](TypeParam of_qr, TypeParam left) { EXPECT_EQ(of_qr, left); });
  }
}

TEST(DenseApiNumbers, ThatNeedCareAreLapacks) {
  const Context context(on_devices);
  test::DenseFixture<double> zero({.routine = Routine::gels, .m = 50, .n = 40, .k = 3}, 5);
  for (index_t i = 0; i < 50; ++i) zero.at(LapackSlot::A, i, 7) = 0;
  zero.begin_anew();
  EXPECT_TRUE(zero.unless_library_is_wrong(zero.check(run<double>(context, zero.problem()))));
  // LAPACK makes B zero.
  test::DenseFixture<double> all_zero({.routine = Routine::gelsd, .m = 50, .n = 40, .k = 3}, 5);
  for (index_t j = 0; j < 40; ++j) {
    for (index_t i = 0; i < 50; ++i) all_zero.at(LapackSlot::A, i, j) = 0;
  }
  EXPECT_EQ(run<double>(context, all_zero.problem()), 0);
  EXPECT_EQ(*all_zero.problem().found, 0);
  EXPECT_EQ(all_zero.at(LapackSlot::B, 49, 2), 0);
}

/// Those whose routine iterates.
template <class Check>
void for_each_iterating_form(const Check& check) {
  for (const LapackCall& form : forms) {
    if (iterates(form.routine)) check(form);
  }
  check(LapackCall{.routine = Routine::geev, .vectors = true, .n = 3});
  check(LapackCall{.routine = Routine::gesdd, .u = VectorJob::all, .vt = VectorJob::all, .m = 3, .n = 3});
}

TYPED_TEST(DenseApi, AnswersMatricesThatAreNotFinite) {
  using Real = decltype(std::abs(TypeParam{}));
  for (const char* settings : {on_devices, on_cpu}) {
    const Context context(settings);
    for (const Real number : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
      for_each_iterating_form([&](const LapackCall& form) {
        test::DenseFixture<TypeParam> fixture(form, 5);
        fixture.at(LapackSlot::A, 2, 2) = TypeParam(number);
        fixture.begin_with_ones();
        const std::int64_t info = run<TypeParam>(context, fixture.problem());
        const bool tells_nan = form.routine == Routine::gesdd || form.routine == Routine::geev;
        // Of Hermitian matrices, vectors of large ones come from divide and conquer.
        const bool divides =
            (form.routine == Routine::heevd || form.routine == Routine::hegvd) && form.vectors && form.n > 25;
        if (tells_nan && std::isnan(number)) {
          EXPECT_EQ(info, -4) << fixture.problem();
        } else if (divides) {
          EXPECT_EQ(info, 0) << fixture.problem();
        } else {
          EXPECT_TRUE(info > 0 && info <= form.n) << fixture.problem();
        }
        EXPECT_TRUE(fixture.results_are_nan(0)) << settings;
      });
    }
  }
}

// LAPACK scales them, and values scale with them.
TYPED_TEST(DenseApi, ComputesHugeAndTinyNumbers) {
  using Real = decltype(std::abs(TypeParam{}));
  const Real huge = sizeof(Real) == sizeof(float) ? Real(1e35) : Real(1e300);
  for (const char* settings : {on_devices, on_cpu}) {
    const Context context(settings);
    for_each_iterating_form([&](const LapackCall& form) {
      test::DenseFixture<TypeParam> plain(form, 5);
      ASSERT_EQ(run<TypeParam>(context, plain.problem()), 0);
      const auto* const expected = static_cast<const Real*>(plain.problem().values);
      const index_t count = finds_singular_values(form.routine) ? std::min(form.m, form.n) : form.n;
      double largest = 0;
      for (index_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
      for (const Real scale : {huge, 1 / huge}) {
        test::DenseFixture<TypeParam> fixture(form, 5);
        const LapackOperand A = *LapackOperands(fixture.problem()).begin();
        for (index_t j = 0; j < A.cols; ++j) {
          for (index_t i = 0; i < A.rows; ++i) {
            TypeParam& element = fixture.at(LapackSlot::A, i, j);
            // LAPACK's scaling mixes the parts of a Hermitian diagonal.
            if (A.read_part != Part::full && i == j) element = TypeParam(std::real(element));
            element *= scale;
          }
        }
        fixture.begin_with_ones();
        EXPECT_EQ(run<TypeParam>(context, fixture.problem()), 0) << fixture.problem();
        // Eigenvalues of general matrices come in any order.
        if (form.routine == Routine::geev) continue;
        const auto* const values = static_cast<const Real*>(fixture.problem().values);
        const double tolerance = largest * 1e3 * static_cast<double>(std::numeric_limits<Real>::epsilon());
        for (index_t i = 0; i < count; ++i)
          EXPECT_NEAR(static_cast<double>(values[i] / scale), static_cast<double>(expected[i]), tolerance)
              << fixture.problem() << " at " << i;
      }
    });
  }
}

TEST(DenseApiTelling, SaysWhatWasAskedFor) {
  testing::internal::CaptureStderr();
  {
    const Context context(std::string(on_devices) + " TESSERA_VERBOSE=1");
    for (const LapackCall& form : forms) {
      if (!exists(form.routine, ScalarType::d)) continue;
      test::DenseFixture<double> fixture(form, 5);
      run<double>(context, fixture.problem());
    }
    test::DenseFixture<std::complex<double>> hermitian({.routine = Routine::hesv, .n = 9, .k = 2}, 5);
    run<std::complex<double>>(context, hermitian.problem());
    test::DenseFixture<std::complex<float>> fixture({.routine = Routine::trtrs, .op = Op::conj_trans, .n = 9, .k = 2},
                                                    5);
    run<std::complex<float>>(context, fixture.problem());
  }
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* const call :
       {"dsyevd VL n=40 on ", "dsygvd VU n=40 on ", "dgesdd SS m=40 n=50 on ", "dgeev V n=130 on ",
        "dgels N m=50 n=40 nrhs=3 on ", "dgels T m=50 n=40 nrhs=3 on ", "dgelsd m=40 n=50 nrhs=3 on ",
        "dorgqr m=50 n=40 k=30 on ", "dorglq m=40 n=50 k=30 on ", "dormqr RT m=50 n=40 k=30 on ",
        "dtrtrs UTU n=40 nrhs=20 on ", "dtrtri UU n=40 on ", "dpotri L n=40 on ", "dgetri n=40 on ",
        "ctrtrs LCN n=9 nrhs=2 on ", "dsytrf L n=40 on ", "dsysv U n=40 nrhs=3 on ",
        "zhesv L n=9 nrhs=2 on the CPU's LAPACK (no GPU's library solves it"})
    EXPECT_THAT(told, testing::HasSubstr(call));
}

TEST(DenseApiArguments, AreCheckedInTheirOrder) {
  const Context context(on_devices);
  tessera_context ctx = context.handle();
  double A[4] = {4, 1, 1, 3}, B[4] = {1, 2, 3, 4}, w[2], v[4], tau[2];
  std::int64_t ipiv[2] = {1, 2}, rank = 7, info = 99;
  const auto wrong_uplo = static_cast<tessera_uplo>(7);
  const auto wrong_vectors = static_cast<tessera_vectors>(3);
  constexpr std::int64_t huge = std::int64_t{1} << 31, most = std::numeric_limits<std::int64_t>::max();
  struct Wrong {
    int position;
    std::function<tessera_status()> call;
  };
  const Wrong all[] = {
      {1,
       [&] { return tessera_dsyevd(nullptr, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, 2, A, 2, w, &info); }},
      {3, [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, wrong_vectors, wrong_uplo, 2, A, 2, w, &info); }},
      {3,
       [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_ALL_VECTORS, TESSERA_LOWER, 2, A, 2, w, &info); }},
      {4, [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, wrong_uplo, -1, A, 2, w, &info); }},
      {5,
       [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, huge, A, huge, w, &info); }},
      {6,
       [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, 2, nullptr, 1, w, &info); }},
      {7,
       [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, 2, A, 1, nullptr, &info); }},
      {8,
       [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, 2, A, 2, nullptr, &info); }},
      {9, [&] { return tessera_dsyevd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, 2, A, 2, w, nullptr); }},
      {3,
       [&] {
         return tessera_dsygvd(ctx, TESSERA_COL_MAJOR, 4, TESSERA_VECTORS, TESSERA_LOWER, 2, A, 2, B, 2, w, &info);
       }},
      {10,
       [&] {
         return tessera_dsygvd(ctx, TESSERA_COL_MAJOR, 1, TESSERA_VECTORS, TESSERA_LOWER, 2, A, 2, B, 1, w, &info);
       }},
      {9,
       [&] { return tessera_dgesdd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, 2, 2, A, 2, w, nullptr, 2, v, 2, &info); }},
      {12, [&] { return tessera_dgesdd(ctx, TESSERA_COL_MAJOR, TESSERA_VECTORS, 2, 2, A, 2, w, v, 2, v, 1, &info); }},
      {8,
       [&] {
         return tessera_dgeev(ctx, TESSERA_COL_MAJOR, TESSERA_NO_VECTORS, 2, A, 2, w, nullptr, nullptr, 1, &info);
       }},
      {3, [&] { return tessera_zgels(ctx, TESSERA_COL_MAJOR, TESSERA_TRANS, 1, 1, 1, A, 1, B, 1, &info); }},
      {10, [&] { return tessera_dgels(ctx, TESSERA_COL_MAJOR, TESSERA_TRANS, 1, 2, 1, A, 1, B, 1, &info); }},
      {12, [&] { return tessera_dgelsd(ctx, TESSERA_COL_MAJOR, 2, 2, 1, A, 2, B, 2, w, -1, nullptr, nullptr); }},
      {4, [&] { return tessera_dorgqr(ctx, TESSERA_COL_MAJOR, 1, 2, 1, A, 2, tau, &info); }},
      {5, [&] { return tessera_dorgqr(ctx, TESSERA_COL_MAJOR, 2, 2, 3, A, 2, tau, &info); }},
      {4, [&] { return tessera_dorglq(ctx, TESSERA_COL_MAJOR, 2, 1, 1, A, 2, tau, &info); }},
      {5, [&] { return tessera_dorglq(ctx, TESSERA_COL_MAJOR, 1, 2, 2, A, 1, tau, &info); }},
      {7, [&] { return tessera_dorglq(ctx, TESSERA_COL_MAJOR, 2, 2, 1, A, 1, tau, &info); }},
      {7,
       [&] {
         return tessera_dormqr(ctx, TESSERA_COL_MAJOR, TESSERA_RIGHT, TESSERA_TRANS, 3, 2, 3, A, 3, tau, B, 3, &info);
       }},
      {10,
       [&] {
         return tessera_dormqr(ctx, TESSERA_COL_MAJOR, TESSERA_LEFT, TESSERA_TRANS, 2, 2, 2, A, 2, nullptr, B, 2,
                               &info);
       }},
      {11,
       [&] {
         return tessera_dtrtrs(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, TESSERA_TRANS, TESSERA_UNIT, 2, 2, A, 2, B, 1,
                               &info);
       }},
      {6, [&] { return tessera_dgetri(ctx, TESSERA_COL_MAJOR, 2, A, 2, nullptr, &info); }},
      {5, [&] { return tessera_dgetri(ctx, TESSERA_COL_MAJOR, 2, A, most, nullptr, &info); }},
      {3, [&] { return tessera_dsytrf(ctx, TESSERA_COL_MAJOR, wrong_uplo, -1, A, 2, ipiv, &info); }},
      {4, [&] { return tessera_dsytrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, huge, A, huge, ipiv, &info); }},
      {6, [&] { return tessera_zhetrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, A, 1, nullptr, &info); }},
      {7, [&] { return tessera_dsytrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, A, 2, nullptr, &info); }},
      {8, [&] { return tessera_dsytrf(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, A, 2, ipiv, nullptr); }},
      {5, [&] { return tessera_dsytrs(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, -1, A, 2, ipiv, B, 2, &info); }},
      {8, [&] { return tessera_zhetrs(ctx, TESSERA_COL_MAJOR, TESSERA_LOWER, 2, 1, A, 2, nullptr, B, 1, nullptr); }},
      {10, [&] { return tessera_dsysv(ctx, TESSERA_COL_MAJOR, TESSERA_UPPER, 2, 1, A, 2, ipiv, B, 1, &info); }},
      {11, [&] { return tessera_zhesv(ctx, TESSERA_COL_MAJOR, TESSERA_UPPER, 2, 1, A, 2, ipiv, B, 2, nullptr); }},
  };
  for (const Wrong& wrong : all) {
    EXPECT_EQ(wrong.call(), TESSERA_INVALID_ARGUMENT) << wrong.position;
    EXPECT_EQ(tessera_last_error_position(), wrong.position) << tessera_last_error();
  }
  EXPECT_THAT(A, testing::ElementsAre(4, 1, 1, 3));
  EXPECT_EQ(info, 99);
  EXPECT_EQ(rank, 7);
  EXPECT_EQ(tessera_dgetri(ctx, TESSERA_COL_MAJOR, 2, A, 2, ipiv, &info), TESSERA_SUCCESS);
}

TEST(DenseApiArguments, SizesMayBeZero) {
  const Context context(on_devices);
  double B[3] = {1, 2, 3};
  std::int64_t info = 99, rank = 99;
  EXPECT_EQ(tessera_dsyevd(context.handle(), TESSERA_COL_MAJOR, TESSERA_VECTORS, TESSERA_LOWER, 0, nullptr, 1, nullptr,
                           &info),
            TESSERA_SUCCESS);
  EXPECT_EQ(info, 0);
  EXPECT_EQ(tessera_dgelsd(context.handle(), TESSERA_COL_MAJOR, 0, 3, 1, nullptr, 1, B, 3, nullptr, -1, &rank, &info),
            TESSERA_SUCCESS);
  EXPECT_EQ(rank, 0);
  // As LAPACK has it.
  EXPECT_EQ(tessera_dgels(context.handle(), TESSERA_COL_MAJOR, TESSERA_NO_TRANS, 0, 3, 1, nullptr, 1, B, 3, &info),
            TESSERA_SUCCESS);
  EXPECT_THAT(B, testing::ElementsAre(0, 0, 0));
}

TEST(DenseApiErrors, NoLapackCountsSoFar) {
  const Context context(on_cpu);
  double A = 3;
  std::int64_t info = 99;
  constexpr std::int64_t huge = std::int64_t{1} << 32;
  const tessera_status status =
      tessera_dpotri(context.handle(), TESSERA_COL_MAJOR, TESSERA_LOWER, 1, &A, huge + 1, &info);
  // A LAPACK of 64 bits can.
  EXPECT_EQ(status, test::cpu_blas()->integer_bits() == 32 ? TESSERA_NOT_AVAILABLE : TESSERA_SUCCESS);
}

TEST(DenseApiErrors, LeaveAsTheyWereWhatDevicesCannotHold) {
  const Context context(std::string(on_devices) + " TESSERA_HOST_DEVICE=memory=512");
  for (const LapackCall& form : {LapackCall{.routine = Routine::heevd, .vectors = true, .n = 60},
                                 LapackCall{.routine = Routine::gels, .m = 60, .n = 50, .k = 3}}) {
    test::DenseFixture<double> fixture(form, 5);
    try {
      run<double>(context, fixture.problem());
      ADD_FAILURE() << "it has no room";
    } catch (const StatusError& error) {
      EXPECT_EQ(error.status(), TESSERA_OUT_OF_DEVICE_MEMORY);
    }
    EXPECT_TRUE(fixture.inputs_are_intact());
  }
}

}  // namespace c_api_dense_test
}  // namespace tessera
