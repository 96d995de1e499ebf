// Problems that one device solves whole, on every backend: all routines, types, jobs and triangles, sizes from 1 on, and
// what no device may answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/dense_solvers.hpp"
#include "routines/lapack.hpp"
#include "runtime/runtime.hpp"
#include "tests/dense_fixture.hpp"
#include "tests/device/backends.hpp"

namespace tessera::routines {
namespace dense_conformance {

constexpr index_t orders[] = {1, 2, 3, 31, 64, 101};
constexpr Uplo both_triangles[] = {Uplo::lower, Uplo::upper};
constexpr std::pair<index_t, index_t> shapes[] = {{1, 1}, {3, 1}, {1, 3}, {31, 31}, {90, 40}, {40, 90}, {101, 64}};

class DenseConformance : public ::testing::TestWithParam<test::BackendParam> {
 protected:
  static std::unique_ptr<runtime::Runtime> runtime_over(test::OpenedDevices& opened) {
    return std::make_unique<runtime::Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
  }

  /// A wrong result of a host device may be the fault of the CPU's LAPACK.
  template <Scalar T>
  static testing::AssertionResult judge(const test::DenseFixture<T>& fixture, const testing::AssertionResult& result) {
    const bool by_library = GetParam().kind == test::BackendParam::Kind::host;
    return by_library ? fixture.unless_library_is_wrong(result) : result;
  }

  /// In all types.
  static void expect_right(runtime::Runtime& runtime, const LapackCall& form,
                           std::optional<kernels::SvdAlgorithm> algorithm = std::nullopt) {
    for (const ScalarType type : scalar_types) {
      if (!exists(form.routine, type)) continue;
      dispatch(type, [&]<Scalar T>(T) {
        test::DenseFixture<T> fixture(form, static_cast<unsigned>(form.m + form.n + 7));
        if (is(form.routine, cpu_only) && GetParam().kind != test::BackendParam::Kind::host) {
          EXPECT_THROW(solve_dense(runtime, fixture.problem()), NotAvailable);
          EXPECT_TRUE(fixture.inputs_are_intact());
          return;
        }
        try {
          const runtime::JobStatistics job = solve_dense(runtime, fixture.problem(), algorithm);
          EXPECT_TRUE(judge(fixture, fixture.check(job.info)));
          if (job.info == 0) {
            EXPECT_GE(job.bytes_up(), traffic_of(fixture.problem()).up);
            const double kernel_s =
                std::accumulate(job.devices.begin(), job.devices.end(), 0.0,
                                [](double sum, const auto& device) { return sum + device.kernel_s; });
            EXPECT_GT(kernel_s, 0) << "by whichever device was chosen";
          }
          EXPECT_EQ(job.restarts, 0);
        } catch (const Error& error) {
          EXPECT_TRUE(judge(fixture, testing::AssertionFailure() << fixture.problem() << ": " << error.what()));
        }
      });
    }
  }
};

TEST_P(DenseConformance, EigenvaluesOfHermitianMatrices) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    for (const Uplo uplo : both_triangles) {
      for (const bool vectors : {false, true})
        expect_right(*runtime, {.routine = Routine::heevd, .vectors = vectors, .uplo = uplo, .n = n});
    }
  }
}

TEST_P(DenseConformance, SomeEigenvalues) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    for (const Uplo uplo : both_triangles) {
      for (const bool vectors : {false, true}) {
        LapackCall form{.routine = Routine::heevr, .vectors = vectors, .uplo = uplo, .n = n};
        expect_right(*runtime, form);
        form.range = EigenRange::indices;
        form.il = (n + 2) / 3;
        form.iu = (n + 1) / 2;
        expect_right(*runtime, form);
        form.range = EigenRange::values;
        form.vl = -1.25;
        form.vu = 2.5;
        expect_right(*runtime, form);
        form.vl = 1000;  // none
        form.vu = 2000;
        expect_right(*runtime, form);
      }
    }
  }
}

TEST_P(DenseConformance, GeneralizedEigenvalues) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    for (const Uplo uplo : both_triangles) {
      for (const int itype : {1, 2, 3}) {
        for (const bool vectors : {false, true})
          expect_right(*runtime, {.routine = Routine::hegvd, .vectors = vectors, .uplo = uplo, .itype = itype, .n = n});
      }
    }
  }
}

TEST_P(DenseConformance, SingularValues) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  using enum VectorJob;
  constexpr std::pair<VectorJob, VectorJob> jobs[] = {{none, none}, {thin, thin},      {all, all},       {none, thin},
                                                      {all, none},  {overwrite, all},  {all, overwrite}, {thin, all},
                                                      {thin, none}, {overwrite, none}, {none, overwrite}};
  for (const auto& [m, n] : shapes) {
    for (const auto& [u, vt] : jobs)
      expect_right(*runtime, {.routine = Routine::gesvd, .u = u, .vt = vt, .m = m, .n = n});
    expect_right(*runtime, {.routine = Routine::gesdd, .u = thin, .vt = thin, .m = m, .n = n});
  }
}

TEST_P(DenseConformance, SingularValuesByThePolarAlgorithm) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  constexpr auto polar = kernels::SvdAlgorithm::polar;
  using enum VectorJob;
  LapackCall form{.routine = Routine::gesdd, .m = 40, .n = 40};
  if (GetParam().kind == test::BackendParam::Kind::host) {
    test::DenseFixture<double> fixture(form, 5);
    EXPECT_THROW(solve_dense(*runtime, fixture.problem(), polar), NotAvailable);
    return;
  }
  for (const auto& [m, n] : {std::pair<index_t, index_t>{64, 64}, {90, 40}, {40, 90}}) {
    form.m = m;
    form.n = n;
    for (const auto& [u, vt] : {std::pair{none, none},
                                {thin, thin},
                                {all, all},
                                {thin, none},
                                {none, thin},
                                {overwrite, all},
                                {all, overwrite}}) {
      form.u = u;
      form.vt = vt;
      expect_right(*runtime, form, polar);
    }
  }
  // Of a singular matrix it tells that it has moved it.
  form.u = form.vt = thin;
  test::DenseFixture<double> fixture(form, 5);
  for (index_t i = 0; i < form.m; ++i) fixture.at(LapackSlot::A, i, 7) = fixture.at(LapackSlot::A, i, 8) = 0;
  fixture.begin_anew();
  const runtime::JobStatistics job = solve_dense(*runtime, fixture.problem(), polar);
  EXPECT_TRUE(fixture.check(job.info));
}

TEST_P(DenseConformance, QOfQrAndLq) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const auto& [m, n, k] : std::vector<std::array<index_t, 3>>{
           {1, 1, 1}, {3, 2, 1}, {31, 31, 31}, {100, 40, 40}, {100, 90, 33}, {130, 130, 100}}) {
    expect_right(*runtime, {.routine = Routine::ungqr, .m = m, .n = n, .k = k});
    expect_right(*runtime, {.routine = Routine::unglq, .m = n, .n = m, .k = k});
  }
  for (const Side side : {Side::left, Side::right}) {
    for (const Op op : {Op::no_trans, Op::conj_trans}) {
      for (const auto& [m, n, k] : std::vector<std::array<index_t, 3>>{
               {1, 1, 1}, {3, 4, 2}, {31, 31, 31}, {100, 40, 40}, {40, 100, 40}, {100, 90, 33}})
        expect_right(*runtime, {.routine = Routine::unmqr, .side = side, .op = op, .m = m, .n = n, .k = k});
    }
  }
}

TEST_P(DenseConformance, EigenvaluesOfGeneralMatrices) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    for (const bool vectors : {false, true})
      expect_right(*runtime, {.routine = Routine::geev, .vectors = vectors, .n = n});
  }
}

TEST_P(DenseConformance, Inverses) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    for (const Uplo uplo : both_triangles) {
      for (const Diag diag : {Diag::non_unit, Diag::unit})
        expect_right(*runtime, {.routine = Routine::trtri, .uplo = uplo, .diag = diag, .n = n});
      expect_right(*runtime, {.routine = Routine::potri, .uplo = uplo, .n = n});
    }
  }
}

TEST_P(DenseConformance, ProductsWithReflectors) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  using Sizes = std::vector<std::array<index_t, 3>>;
  for (const Side side : {Side::left, Side::right}) {
    for (const Op op : {Op::no_trans, Op::conj_trans}) {
      for (const auto& [m, n, k] : Sizes{{1, 1, 1}, {3, 4, 2}, {31, 31, 31}, {100, 40, 33}, {40, 100, 40}}) {
        expect_right(*runtime, {.routine = Routine::unmlq, .side = side, .op = op, .m = m, .n = n, .k = k});
        for (const auto storage : {ReflectorStorage::columns, ReflectorStorage::rows}) {
          for (const auto order : {ReflectorOrder::forward, ReflectorOrder::backward}) {
            expect_right(*runtime, {.routine = Routine::larfb,
                                    .side = side,
                                    .op = op,
                                    .storage = storage,
                                    .order = order,
                                    .m = m,
                                    .n = n,
                                    .k = k});
          }
        }
      }
      for (const Uplo uplo : both_triangles) {
        for (const auto& [m, n] : {std::pair<index_t, index_t>{2, 2}, {3, 5}, {31, 31}, {100, 40}, {40, 100}})
          expect_right(*runtime, {.routine = Routine::unmtr, .uplo = uplo, .side = side, .op = op, .m = m, .n = n});
      }
    }
  }
}

TEST_P(DenseConformance, LeastSquares) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const auto& [m, n] : shapes) {
    for (const index_t k : {1, 2, 33}) {
      for (const Op op : {Op::no_trans, Op::conj_trans})
        expect_right(*runtime, {.routine = Routine::gels, .op = op, .m = m, .n = n, .k = k});
      // Of full rank to working precision, or not.
      for (const double rcond : {1e-4, -1.0})
        expect_right(*runtime, {.routine = Routine::gelsd, .m = m, .n = n, .k = k, .rcond = rcond});
    }
  }
}

TEST_P(DenseConformance, LeastSquaresByThePolarAlgorithm) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  if (GetParam().kind == test::BackendParam::Kind::host) GTEST_SKIP() << "LAPACK has no such algorithm";
  const auto runtime = runtime_over(opened);
  for (const auto& [m, n] : {std::pair<index_t, index_t>{64, 64}, {90, 40}, {40, 90}}) {
    expect_right(*runtime, {.routine = Routine::gelsd, .m = m, .n = n, .k = 5, .rcond = 1e-4},
                 kernels::SvdAlgorithm::polar);
  }
}

TEST_P(DenseConformance, LeastSquaresLeaveTheFactorsOfQrAndLq) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  if (GetParam().kind == test::BackendParam::Kind::host) GTEST_SKIP() << "the CPU's LAPACK has other panels";
  const auto runtime = runtime_over(opened);
  for (const auto& [m, n] : shapes) {
    const ReflectorStorage storage = m < n ? ReflectorStorage::rows : ReflectorStorage::columns;
    for (const ScalarType type : scalar_types) {
      dispatch(type, [&, m = m, n = n]<Scalar T>(T) {
        test::DenseFixture<T> fixture({.routine = Routine::gels, .m = m, .n = n, .k = 2}, 9);
        const auto elements = [&, m = m, n = n] {
          std::vector<T> A;
          for (index_t j = 0; j < n; ++j) {
            for (index_t i = 0; i < m; ++i) A.push_back(fixture.at(LapackSlot::A, i, j));
          }
          return A;
        };
        std::vector<T> factored = elements(), tau(static_cast<std::size_t>(std::min(m, n)));
        qr(*runtime, {type, m, n, factored.data(), m, tau.data(), storage});
        ASSERT_EQ(solve_dense(*runtime, fixture.problem()).info, 0);
        EXPECT_TRUE(elements() == factored) << fixture.problem();
      });
    }
  }
}

TEST_P(DenseConformance, WhatLeastSquaresLeaveToLapack) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const Routine routine : {Routine::gels, Routine::gelsd}) {
    for (const auto& [m, n] : {std::pair<index_t, index_t>{60, 40}, {40, 60}}) {
      const auto expect_left = [&, m = m, n = n](const char* what, auto spoil) {
        test::DenseFixture<std::complex<double>> fixture({.routine = routine, .m = m, .n = n, .k = 3, .rcond = 1e-4},
                                                         5);
        spoil(fixture);
        fixture.begin_anew();
        EXPECT_THROW(solve_dense(*runtime, fixture.problem()), UnsuitableNumbers) << fixture.problem() << what;
        EXPECT_TRUE(fixture.inputs_are_intact());
      };
      const double nan = std::numeric_limits<double>::quiet_NaN();
      expect_left("NaN in A", [&](auto& fixture) { fixture.at(LapackSlot::A, 11, 23) = nan; });
      expect_left("NaN in B", [&](auto& fixture) { fixture.at(LapackSlot::B, 11, 2) = nan; });
      expect_left("large", [&](auto& fixture) { fixture.at(LapackSlot::A, 11, 23) = 1e300; });
      const auto set_all = [m = m, n = n](auto& fixture, double number) {
        for (index_t j = 0; j < n; ++j) {
          for (index_t i = 0; i < m; ++i) fixture.at(LapackSlot::A, i, j) = number;
        }
      };
      expect_left("tiny", [&](auto& fixture) { set_all(fixture, 1e-300); });
      expect_left("zero", [&](auto& fixture) { set_all(fixture, 0); });
      if (routine == Routine::gelsd) continue;
      expect_left("a zero in R or L", [&, m = m, n = n](auto& fixture) {
        for (index_t i = 0; i < std::max(m, n); ++i) fixture.at(LapackSlot::A, m > n ? i : 7, m > n ? 7 : i) = 0;
      });
    }
  }
}

TEST_P(DenseConformance, TrianglesAndLu) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    expect_right(*runtime, {.routine = Routine::getri, .n = n});
    for (const Uplo uplo : both_triangles) {
      expect_right(*runtime, {.routine = Routine::lauum, .uplo = uplo, .n = n});
      for (const Diag diag : {Diag::non_unit, Diag::unit}) {
        for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
          for (const index_t k : {1, 40})
            expect_right(*runtime, {.routine = Routine::trtrs, .uplo = uplo, .diag = diag, .op = op, .n = n, .k = k});
        }
      }
    }
  }
}

TEST_P(DenseConformance, PivotsMayBeNarrowButAreRows) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  test::DenseFixture<double> fixture({.routine = Routine::getri, .n = 40}, 3);
  auto* const wide = static_cast<std::int64_t*>(fixture.problem().ipiv);
  std::vector<std::int32_t> narrow(wide, wide + 40);
  LapackCall problem = fixture.problem();
  problem.ipiv = narrow.data();
  problem.ipiv_bits = 32;
  EXPECT_TRUE(judge(fixture, fixture.check(solve_dense(*runtime, problem).info)));
  test::DenseFixture<double> other({.routine = Routine::getri, .n = 40}, 3);
  static_cast<std::int64_t*>(other.problem().ipiv)[7] = 41;
  other.begin_anew();
  EXPECT_THROW(solve_dense(*runtime, other.problem()), UnsuitableNumbers);
  EXPECT_TRUE(other.inputs_are_intact());
}

TEST_P(DenseConformance, ZerosOnDiagonalsAndIndefiniteMinorsAreTold) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const Routine routine : {Routine::trtrs, Routine::trtri, Routine::potri, Routine::getri, Routine::hegvd}) {
    test::DenseFixture<double> fixture({.routine = routine, .vectors = true, .n = 40, .k = 5}, 3);
    const bool is_minor = routine == Routine::hegvd;
    fixture.at(is_minor ? LapackSlot::B : LapackSlot::A, 16, 16) = is_minor ? -1 : 0;
    fixture.begin_anew();
    const runtime::JobStatistics job = solve_dense(*runtime, fixture.problem());
    EXPECT_EQ(job.info, is_minor ? 57 : 17);
    EXPECT_TRUE(judge(fixture, fixture.check(job.info)));
    EXPECT_TRUE(fixture.inputs_are_intact());
  }
}

constexpr Routine that_pivot_diagonally[] = {Routine::sytrf, Routine::sytrs, Routine::sysv,
                                             Routine::hetrf, Routine::hetrs, Routine::hesv};

TEST_P(DenseConformance, IndefiniteMatrices) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const index_t n : orders) {
    for (const Uplo uplo : both_triangles) {
      for (const Routine routine : that_pivot_diagonally) {
        for (const int bits : {32, 64}) {
          for (const index_t k : {1, 40}) {
            if (k == 1 || solves(routine))
              expect_right(*runtime, {.routine = routine, .uplo = uplo, .n = n, .k = k, .ipiv_bits = bits});
          }
        }
      }
    }
  }
  expect_right(*runtime, {.routine = Routine::sysv, .n = 40, .k = 0});  // factors alone
}

// A diagonal of zeros asks for blocks of two. LAPACK alone tells of a pivot that is zero, and of numbers that are not finite.
TEST_P(DenseConformance, IndefiniteMatricesThatAreSpecial) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  using T = std::complex<double>;
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const Uplo uplo : both_triangles) {
    for (const Routine routine : {Routine::sytrf, Routine::sysv}) {
      const LapackCall form{.routine = routine, .uplo = uplo, .n = 40, .k = 5};
      test::DenseFixture<T> hollow(form, 5);
      for (index_t i = 0; i < form.n; ++i) hollow.at(LapackSlot::A, i, i) = 0;
      hollow.begin_anew();
      EXPECT_TRUE(hollow.check(solve_dense(*runtime, hollow.problem()).info));

      const auto expect_left = [&](const char* what, auto spoil) {
        test::DenseFixture<T> fixture(form, 5);
        spoil(fixture);
        fixture.begin_anew();
        EXPECT_THROW(solve_dense(*runtime, fixture.problem()), UnsuitableNumbers) << fixture.problem() << ' ' << what;
        EXPECT_TRUE(fixture.inputs_are_intact());
      };
      const auto clear = [&](auto& fixture, index_t line) {  // so that its pivot is zero
        for (index_t i = 0; i < form.n; ++i) {
          const bool in_row = (i < line) == (uplo == Uplo::lower);
          fixture.at(LapackSlot::A, in_row ? line : i, in_row ? i : line) = 0;
        }
      };
      for (const index_t line : {0, 17, 39}) expect_left("zero pivot", [&](auto& fixture) { clear(fixture, line); });
      expect_left("NaN", [&](auto& fixture) {
        fixture.at(LapackSlot::A, uplo == Uplo::lower ? 23 : 11, uplo == Uplo::lower ? 11 : 23) = nan;
      });
      expect_left("NaN on the diagonal", [&](auto& fixture) { fixture.at(LapackSlot::A, 7, 7) = T(1, nan); });
      expect_left("infinity", [&](auto& fixture) { fixture.at(LapackSlot::A, 7, 7) = infinity; });
      if (solves(routine)) expect_left("NaN in B", [&](auto& fixture) { fixture.at(LapackSlot::B, 7, 3) = nan; });
    }
  }
}

TEST_P(DenseConformance, PivotsOfBlocksAreRowsTwice) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const std::pair<index_t, std::int64_t>& wrong :
       {std::pair<index_t, std::int64_t>{7, 0}, {7, 41}, {7, -39}, {39, -40}, {0, -41}}) {
    test::DenseFixture<double> fixture({.routine = Routine::sytrs, .n = 40, .k = 3}, 3);
    static_cast<std::int64_t*>(fixture.problem().ipiv)[wrong.first] = wrong.second;
    fixture.begin_anew();
    EXPECT_THROW(solve_dense(*runtime, fixture.problem()), UnsuitableNumbers) << wrong.second;
    EXPECT_TRUE(fixture.inputs_are_intact());
  }
}

constexpr LapackCall that_iterate[] = {
    {.routine = Routine::heevd, .vectors = true, .n = 40},
    {.routine = Routine::heevr, .vectors = true, .uplo = Uplo::upper, .n = 40},
    {.routine = Routine::hegvd, .vectors = true, .n = 40},
    {.routine = Routine::gesdd, .u = VectorJob::overwrite, .vt = VectorJob::all, .m = 60, .n = 40},
    {.routine = Routine::geev, .vectors = true, .n = 40}};

TEST_P(DenseConformance, NumbersThatNeedCareAreLeftToLapack) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const LapackCall& form : that_iterate) {
    for (const ScalarType type : {ScalarType::s, ScalarType::z}) {
      dispatch(type, [&]<Scalar T>(T) {
        using Real = decltype(std::abs(T{}));
        for (const Real number : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity(),
                                  std::numeric_limits<Real>::max() / 4}) {
          test::DenseFixture<T> fixture(form, 5);
          const bool is_upper = form.routine == Routine::heevr;
          fixture.at(LapackSlot::A, is_upper ? 11 : 23, is_upper ? 23 : 11) = T(number);
          fixture.begin_anew();
          EXPECT_THROW(solve_dense(*runtime, fixture.problem()), UnsuitableNumbers) << fixture.problem() << number;
          EXPECT_TRUE(fixture.inputs_are_intact());
        }
      });
    }
  }
}

TEST_P(DenseConformance, ZerosAreNumbers) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const LapackCall& form : that_iterate) {
    test::DenseFixture<double> fixture(form, 5);
    for (index_t j = 0; j < form.n; ++j) {
      for (index_t i = 0; i < std::max(form.m, form.n); ++i) fixture.at(LapackSlot::A, i, j) = 0;
    }
    fixture.begin_anew();
    const runtime::JobStatistics job = solve_dense(*runtime, fixture.problem());
    EXPECT_EQ(job.info, 0);
    const auto* const values = static_cast<const double*>(fixture.problem().values);
    for (index_t i = 0; i < form.n; ++i) EXPECT_EQ(values[i], 0);
  }
}

TESSERA_INSTANTIATE_BACKENDS(DenseConformance);

}  // namespace dense_conformance
}  // namespace tessera::routines
