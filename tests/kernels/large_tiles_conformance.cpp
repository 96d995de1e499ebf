// Products that fill a GPU, checked by their products with a vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/kernels/device_runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace large_tiles_conformance {

using device::EventStatus;
using test::BackendParam;
using test::DeviceRunner;
using test::Level3Case;
using test::Level3Fixture;
using test::wait_for;

/// Whether the result of gemm, gemmt or trsm from the left is right, checked by its product with a vector. That takes
/// n^2 operations; inner products in wider precision would take n^3. Any wrong element shows (Freivalds, Probabilistic
/// machines can use less running time, 1977).
/// @param call with the addresses after it has been computed
/// @param before C before the call
::testing::AssertionResult is_right_by_vector(const Level3& call, const std::vector<double>& before) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> size(0.5, 1);
  std::vector<double> x(static_cast<std::size_t>(call.n));
  for (double& element : x) element = random() % 2 == 0 ? size(random) : -size(random);
  const auto element = [](const void* matrix, index_t ld, Op op, index_t i, index_t j) {
    return static_cast<const double*>(matrix)[op == Op::no_trans ? i + j * ld : j + i * ld];
  };
  const bool is_triangle = call.routine == Routine::gemmt, is_upper = is_triangle && call.uplo == Uplo::upper;
  /// Row i of C times x, as far as the row is computed.
  const auto row_times_x = [&](const void* C, index_t i) {
    long double sum = 0;
    for (index_t j = is_upper ? i : 0; j < (is_triangle && !is_upper ? i + 1 : call.n); ++j)
      sum += element(C, call.ldc, Op::no_trans, i, j) * x[static_cast<std::size_t>(j)];
    return sum;
  };
  std::vector<double> product(static_cast<std::size_t>(call.m));  // A times (B x), or A times (X x)
  if (call.routine == Routine::trsm) {
    for (index_t i = 0; i < call.m; ++i)
      product[static_cast<std::size_t>(i)] = static_cast<double>(row_times_x(call.C, i));
    Level3 trmm = call;
    trmm.routine = Routine::trmm;
    trmm.n = 1;
    trmm.alpha = 1;
    trmm.B = trmm.C = product.data();
    trmm.ldb = trmm.ldc = call.m;
    kernels::oracle_level3(trmm);
  } else {
    std::vector<long double> Bx(static_cast<std::size_t>(call.k));
    const auto add_column = [&](index_t j) {
      for (index_t l = 0; l < call.k; ++l)
        Bx[static_cast<std::size_t>(l)] += element(call.B, call.ldb, call.op_b, l, j) * x[static_cast<std::size_t>(j)];
    };
    for (index_t j = 0; !is_triangle && j < call.n; ++j) add_column(j);
    for (index_t row = 0; row < call.m; ++row) {
      const index_t i = is_upper ? call.m - 1 - row : row;
      if (is_triangle) add_column(i);
      long double sum = 0;
      for (index_t l = 0; l < call.k; ++l)
        sum += element(call.A, call.lda, call.op_a, i, l) * Bx[static_cast<std::size_t>(l)];
      product[static_cast<std::size_t>(i)] = static_cast<double>(sum);
    }
  }
  const double alpha = call.alpha.real(), beta = call.beta.real();
  const index_t terms = call.has_k() ? call.k : call.m;
  // Operands are of order one. A sum of so many terms of either sign has the size of the root of that number. It has as
  // many roundings of that size, which add up by their root. The errors of a row's elements add up likewise.
  const double tolerance = std::max(std::abs(alpha), 1.0) * static_cast<double>(terms) *
                           std::sqrt(static_cast<double>(call.n)) * std::numeric_limits<double>::epsilon() / 2;
  for (index_t i = 0; i < call.m; ++i) {
    const double now = product[static_cast<std::size_t>(i)];
    const bool solves = call.routine == Routine::trsm;
    const long double old = solves || beta != 0 ? row_times_x(before.data(), i) : 0;
    const long double error = solves ? now - alpha * old : row_times_x(call.C, i) - alpha * now - beta * old;
    if (!(std::abs(error) <= tolerance)) return ::testing::AssertionFailure() << "row " << i << " is off by " << error;
  }
  return ::testing::AssertionSuccess();
}

TEST(ProductsWithVectors, ShowASingleWrongElement) {
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    for (const Op op : {Op::no_trans, Op::trans}) {
      for (const Routine routine : {Routine::gemm, Routine::gemmt, Routine::trsm}) {
        for (const double beta : {0.0, 0.5}) {
          Level3Fixture<double> fixture({.routine = routine,
                                         .uplo = uplo,
                                         .op_a = op,
                                         .op_b = op,
                                         .m = 20,
                                         .n = 20,
                                         .k = 30,
                                         .alpha = 2,
                                         .beta = beta},
                                        1);
          const std::vector<double> before = fixture.C();
          kernels::reference_level3(fixture.problem());
          EXPECT_TRUE(is_right_by_vector(fixture.problem(), before)) << fixture.parameters();
          for (const index_t i : {0, 11, 19}) {
            double& element = fixture.C()[static_cast<std::size_t>(i + i * fixture.problem().ldc)];
            const double right = element;
            element += 1e-11;
            EXPECT_FALSE(is_right_by_vector(fixture.problem(), before)) << fixture.parameters();
            element = std::numeric_limits<double>::quiet_NaN();
            EXPECT_FALSE(is_right_by_vector(fixture.problem(), before)) << fixture.parameters();
            element = right;
          }
        }
      }
    }
  }
}

// Products that fill a GPU.
class LargeTiles : public ::testing::TestWithParam<BackendParam> {};

TEST_P(LargeTiles, ProductsAgreeWithAProductByAVector) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  DeviceRunner runner(opened.device(0), opened.ops(0), index_t{80} << 20);
  const auto compare = [&](const Level3Case& c) {
    Level3Fixture<double> fixture(c, 1);
    const std::vector<double> A = fixture.A(), B = fixture.B(), C = fixture.C();
    index_t offset = 0;
    ASSERT_EQ(wait_for(runner.submit(fixture, 0, offset)), EventStatus::complete);
    EXPECT_TRUE(is_right_by_vector(fixture.problem(), C)) << c;
    for (std::size_t at = 0; at < C.size(); ++at) {
      const bool is_padding = static_cast<index_t>(at) % fixture.problem().ldc >= c.m;
      ASSERT_TRUE(!is_padding || std::isnan(fixture.C()[at])) << "padding was written";
    }
    const auto bytes_of = [](const auto& matrix) { return std::as_bytes(std::span(matrix)); };
    EXPECT_TRUE(std::ranges::equal(bytes_of(fixture.A()), bytes_of(A))) << "A was written";
    EXPECT_TRUE(std::ranges::equal(bytes_of(fixture.B()), bytes_of(B))) << "B was written";
  };
  for (const Op op_a : {Op::no_trans, Op::trans}) {
    for (const Op op_b : {Op::no_trans, Op::conj_trans}) {
      compare({.op_a = op_a, .op_b = op_b, .m = 1400, .n = 1298, .k = 2062, .alpha = 2, .beta = 0, .padding = 2});
      compare({.op_a = op_a, .op_b = op_b, .m = 1399, .n = 1301, .k = 2055, .alpha = 1, .beta = 0.5, .padding = 1});
      for (const double beta : {0.0, -1.0})
        compare(
            {.op_a = op_a, .op_b = op_b, .m = 1408, .n = 1536, .k = 1040, .alpha = -0.5, .beta = beta, .padding = 16});
    }
  }
  // Columns that are not aligned for wide loads: of all matrices, and of C alone.
  compare({.m = 1400, .n = 1298, .k = 2062, .alpha = 1, .beta = 1, .padding = 1});
  compare({.op_a = Op::trans, .m = 1408, .n = 1536, .k = 2055, .alpha = 1, .beta = 1, .padding = 1});
  // Triangles, which are computed as squares.
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    for (const double beta : {0.0, 0.5})
      compare({.routine = Routine::gemmt,
               .uplo = uplo,
               .m = 1408,
               .n = 1408,
               .k = 2064,
               .alpha = 2,
               .beta = beta,
               .padding = 16});
  }
  // Products whose B and C are parts of one matrix.
  for (const Op op_a : {Op::no_trans, Op::trans})
    compare({.routine = Routine::trsm, .op_a = op_a, .m = 2048, .n = 2048, .alpha = 0.5, .padding = 2});
}

INSTANTIATE_TEST_SUITE_P(Cuda, LargeTiles, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });

}  // namespace large_tiles_conformance
}  // namespace tessera
