// Tile kernels of all ten routines on every kind of device: host devices with the CPU BLAS, host devices with the
// reference, CUDA GPUs. All types, variants and factors. Elements that must not be read (the opposite triangle, a unit
// diagonal, C with beta == 0, the padding) are NaN. Elements that must not be written are compared byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <deque>
#include <limits>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace level3_conformance {

using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::StreamId;
using device::StreamKind;
using test::BackendParam;
using test::Level3Case;
using test::Level3Fixture;
using test::wait_for;

constexpr index_t slab_bytes = index_t{24} << 20;

/// Runs problems in a device's memory, and copies the result and the inputs back.
class DeviceRunner {
 public:
  DeviceRunner(Device& device, kernels::TileOps& ops, index_t bytes = slab_bytes)
      : device_(device), ops_(ops), slab_bytes_(bytes), slab_(device.reserve(static_cast<std::size_t>(bytes))) {}

  /// The operands lie one after the other from `offset` on. The fixture may be read when the event has completed.
  template <Scalar T>
  EventPtr submit(Level3Fixture<T>& fixture, int compute_stream, index_t& offset) {
    Level3 call = fixture.problem();
    const bool in_place = call.B == call.C;
    std::byte* const A = put(fixture.A(), offset);
    std::byte* const B = put(fixture.B(), offset);
    std::byte* const C = put(fixture.C(), offset);
    call.A = A;
    if (call.B != nullptr) call.B = in_place ? C : B;
    call.C = C;
    const StreamId compute{StreamKind::compute, compute_stream};
    device_.wait(compute, device_.record({StreamKind::up, 0}));
    ops_.run(compute_stream, call);
    device_.wait({StreamKind::down, 0}, device_.record(compute));
    get(fixture.A(), A);
    get(fixture.B(), B);
    get(fixture.C(), C);
    return device_.record({StreamKind::down, 0});
  }

  template <Scalar T>
  void run_and_check(const Level3Case& c, unsigned seed = 1) {
    Level3Fixture<T> fixture(c, seed);
    index_t offset = 0;
    ASSERT_EQ(wait_for(submit(fixture, 0, offset)), EventStatus::complete);
    ASSERT_TRUE(fixture.check());
  }

 private:
  template <class T>
  std::byte* put(std::vector<T>& values, index_t& offset) {
    const auto bytes = static_cast<index_t>(values.size() * sizeof(T));
    std::byte* const address = slab_ + offset;
    offset = (offset + bytes + 255) / 256 * 256;
    EXPECT_LE(offset, slab_bytes_);
    device_.copy_up({address, bytes}, {reinterpret_cast<std::byte*>(values.data()), bytes}, {bytes, 1});
    return address;
  }
  template <class T>
  void get(std::vector<T>& values, std::byte* address) {
    const auto bytes = static_cast<index_t>(values.size() * sizeof(T));
    device_.copy_down({reinterpret_cast<std::byte*>(values.data()), bytes}, {address, bytes}, {bytes, 1});
  }

  Device& device_;
  kernels::TileOps& ops_;
  index_t slab_bytes_;
  std::byte* slab_;
};

class TileConformance : public ::testing::TestWithParam<std::tuple<BackendParam, Routine>> {
 protected:
  Routine routine() const { return std::get<Routine>(GetParam()); }

  /// Every variant and type, with the given factors; trmm with separate B and C, too.
  template <class Factors>
  void run_all(DeviceRunner& runner, const Level3Case& shape, const Factors& factors) {
    for (const ScalarType type : test::types_of(routine())) {
      dispatch(type, [&]<Scalar T>(T) {
        for (const auto& [alpha, beta] : factors(type)) {
          Level3Case base = shape;
          base.routine = routine();
          base.alpha = alpha;
          base.beta = beta;
          base.free_half = std::get<BackendParam>(GetParam()).kind == BackendParam::Kind::cuda;
          for (const bool apart : {false, true}) {
            if (apart && routine() != Routine::trmm) continue;
            base.apart = apart;
            test::for_each_variant(type, base, [&](const Level3Case& c) {
              if (!HasFatalFailure()) runner.run_and_check<T>(c);
            });
          }
        }
      });
    }
  }

  bool has_beta() const { return !Level3{.routine = routine()}.is_triangular(); }
};

using FactorPairs = std::vector<std::pair<AnyScalar, AnyScalar>>;

TEST_P(TileConformance, AllFactorsOnSmallTiles) {
  TESSERA_OPEN_DEVICES(opened, std::get<BackendParam>(GetParam()));
  DeviceRunner runner(opened.device(0), opened.ops(0));
  const auto all_factors = [this](ScalarType type) {
    FactorPairs pairs;
    for (const AnyScalar alpha : test::factors(type)) {
      for (const AnyScalar beta : test::factors(type)) {
        if (has_beta() || beta == AnyScalar(0)) pairs.emplace_back(alpha, beta);
      }
    }
    return pairs;
  };
  run_all(runner, {.m = 1, .n = 5, .k = 5, .padding = 0}, all_factors);
  run_all(runner, {.m = 5, .n = 1, .k = 67, .padding = 2}, all_factors);
  run_all(runner, {.m = 16, .n = 8, .k = 1, .padding = 0}, all_factors);
}

TEST_P(TileConformance, AllVariantsOnLargerTiles) {
  TESSERA_OPEN_DEVICES(opened, std::get<BackendParam>(GetParam()));
  DeviceRunner runner(opened.device(0), opened.ops(0));
  const auto some_factors = [this](ScalarType type) {
    const AnyScalar other = test::factors(type).back();
    return has_beta() ? FactorPairs{{1, 1}, {other, 0}, {other, other}} : FactorPairs{{1, 0}, {other, 0}};
  };
  run_all(runner, {.m = 64, .n = 67, .k = 5, .padding = 3}, some_factors);
  run_all(runner, {.m = 67, .n = 64, .k = 67, .padding = 0}, some_factors);
}

std::string name_of_instance(const ::testing::TestParamInfo<TileConformance::ParamType>& info) {
  return std::get<BackendParam>(info.param).name() + "_" + name_of(std::get<Routine>(info.param));
}
constexpr BackendParam with_reference{BackendParam::Kind::host, 1, false};

INSTANTIATE_TEST_SUITE_P(Host, TileConformance,
                         ::testing::Combine(::testing::Values(test::host_param(1), with_reference),
                                            ::testing::ValuesIn(test::all_routines)),
                         name_of_instance);
INSTANTIATE_TEST_SUITE_P(Cuda, TileConformance,
                         ::testing::Combine(::testing::Values(test::cuda_param(1)),
                                            ::testing::ValuesIn(test::all_routines)),
                         name_of_instance);

// The behaviour of the reference BLAS if alpha is zero: beta == 1 changes nothing, and beta == 0 reads nothing. Any
// other real beta multiplies the parts of each number; a number on the diagonal has one part. So an infinity stays in
// its part.
class TileScaling : public ::testing::TestWithParam<BackendParam> {};

template <class T>
void expect_scaled_as_reference_does(DeviceRunner& runner, Routine routine, Uplo uplo, double beta) {
  using Real = typename T::value_type;
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();
  constexpr T values[] = {{infinity, 1}, {1, -infinity}, {nan, 2}, {2, nan}, {-infinity, infinity}, {3, -4}};
  Level3Case c{.routine = routine, .uplo = uplo, .m = 7, .n = 7, .k = 4, .alpha = 0, .beta = beta, .padding = 2};
  Level3Fixture<T> fixture(c, 1);
  std::vector<T>& C = fixture.C();
  for (std::size_t at = 0; at < C.size(); ++at) C[at] = values[at % std::size(values)];
  const std::vector<T> before = C;
  index_t offset = 0;
  ASSERT_EQ(wait_for(runner.submit(fixture, 0, offset)), EventStatus::complete);
  const auto same = [](Real one, Real other) { return std::isnan(one) ? std::isnan(other) : one == other; };
  for (std::size_t at = 0; at < C.size(); ++at) {
    const std::size_t i = at % 9, j = at / 9;
    const bool is_written = i < 7 && (uplo == Uplo::lower ? i >= j : i <= j) && beta != 1;
    T expected = before[at];
    if (is_written) {
      const auto factor = static_cast<Real>(beta);
      expected = beta == 0 ? T(0) : T(factor * expected.real(), i == j ? 0 : factor * expected.imag());
    }
    EXPECT_TRUE(same(C[at].real(), expected.real()) && same(C[at].imag(), expected.imag()))
        << name_of(routine) << ", beta " << beta << ": element (" << i << ", " << j << ") was " << before[at]
        << " and is " << C[at] << ", not " << expected;
  }
}

TEST_P(TileScaling, OfHermitianMatricesKeepsInfinitiesApart) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  DeviceRunner runner(opened.device(0), opened.ops(0));
  for (const Routine routine : {Routine::herk, Routine::her2k}) {
    for (const Uplo uplo : test::all_uplos) {
      for (const double beta : {0.0, 1.0, -1.5}) {
        expect_scaled_as_reference_does<std::complex<float>>(runner, routine, uplo, beta);
        expect_scaled_as_reference_does<std::complex<double>>(runner, routine, uplo, beta);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, TileScaling, ::testing::Values(test::host_param(1), with_reference),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(Cuda, TileScaling, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });

class TileTriangles : public ::testing::TestWithParam<BackendParam> {};

/// Sizes at which a device may split the triangle or distribute right-hand sides over thread blocks, and their
/// neighbours. The oracle takes long for large sizes, so only some of their variants run.
TEST_P(TileTriangles, SolvedAcrossTheirBlocks) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  DeviceRunner runner(opened.device(0), opened.ops(0));
  struct Size {
    index_t order, columns;
    int step;  ///< one in so many variants runs in double, and a fifth of that in the other types
  };
  constexpr Size small_sizes[] = {{1, 300, 1},   {31, 17, 1},    {33, 7, 1},     {64, 16, 1},  {127, 5, 1},
                                  {40, 100, 1},  {129, 3, 1},    {255, 16, 3},   {256, 1, 1},  {257, 17, 3},
                                  {300, 33, 5},  {511, 1, 5},    {512, 2, 5},    {513, 17, 7}, {640, 1, 7},
                                  {20, 1030, 3}, {130, 1057, 7}, {256, 1030, 11}};
  constexpr Size large_sizes[] = {{1000, 17, 13}, {1500, 1, 17}};
  int variants = 0;
  const auto run = [&]<Scalar T>(T, const Size& size, int step) {
    for (const Side side : test::all_sides) {
      Level3Case base{.routine = Routine::trsm};
      base.m = side == Side::left ? size.order : size.columns;
      base.n = side == Side::left ? size.columns : size.order;
      base.alpha = test::factors(scalar_type_of<T>()).back();
      test::for_each_variant(scalar_type_of<T>(), base, [&](const Level3Case& c) {
        if (c.side == side && variants++ % step == 0 && !HasFatalFailure()) runner.run_and_check<T>(c);
      });
    }
  };
  for (const Size& size : small_sizes) {
    for (const ScalarType type : test::all_types) {
      const int step = type == ScalarType::d ? size.step : 5 * size.step;
      dispatch(type, [&]<Scalar T>(T value) { run(value, size, step); });
    }
  }
  for (const Size& size : large_sizes) run(double{}, size, size.step);
}

TEST_P(TileTriangles, SolvedWhateverTheirElements) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  DeviceRunner runner(opened.device(0), opened.ops(0));
  std::vector<test::Triangle> triangles(std::begin(test::harder_triangles), std::end(test::harder_triangles));
  // The CPU BLAS of a host device may multiply by reciprocals that overflow.
  if (GetParam().kind == BackendParam::Kind::cuda || !GetParam().cpu_blas)
    triangles.push_back(test::Triangle::subnormal);
  for (const test::Triangle triangle : triangles) {
    for (const index_t order : {5, 33, 70}) {
      for (const Side side : test::all_sides) {
        Level3Case base{.routine = Routine::trsm, .alpha = 0.5, .triangle = triangle};
        base.m = side == Side::left ? order : 17;
        base.n = side == Side::left ? 17 : order;
        for (const ScalarType type : test::all_types) {
          dispatch(type, [&]<Scalar T>(T) {
            test::for_each_variant(type, base, [&](const Level3Case& c) {
              if (c.side == side && !HasFatalFailure()) runner.run_and_check<T>(c);
            });
          });
        }
      }
    }
  }
}

// Threads of a device pass parts of a solve to each other. A missing wait shows in some round.
TEST_P(TileTriangles, GiveTheSameBitsInEveryRoundOnFourStreams) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  constexpr index_t order = 300, most_columns = 1100, rounds = 25;
  constexpr auto bytes_of = [](index_t columns) { return order * columns * static_cast<index_t>(sizeof(double)); };
  std::byte* const slab =
      device.reserve(static_cast<std::size_t>(bytes_of(order) + device::compute_streams * bytes_of(most_columns)));
  const auto result_at = [&](int stream) { return slab + bytes_of(order) + stream * bytes_of(most_columns); };
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> value(-1, 1);
  std::vector<double> A(order * order), B(order * most_columns);
  for (std::size_t e = 0; e < A.size(); ++e) A[e] = e % (order + 1) == 0 ? 2 : value(random) / order;
  for (double& element : B) element = value(random);
  const auto host = [](std::vector<double>& matrix, index_t bytes) {
    return device::Block{reinterpret_cast<std::byte*>(matrix.data()), bytes};
  };
  device.copy_up({slab, bytes_of(order)}, host(A, bytes_of(order)), {bytes_of(order), 1});
  using Results = std::array<std::vector<double>, device::compute_streams>;
  const auto solve_on_all_streams = [&](index_t columns) {
    const index_t bytes = bytes_of(columns);
    for (int stream = 0; stream < device::compute_streams; ++stream) {
      device.copy_up({result_at(stream), bytes}, host(B, bytes), {bytes, 1});
      device.wait({StreamKind::compute, stream}, device.record({StreamKind::up, 0}));
    }
    for (int stream = 0; stream < device::compute_streams; ++stream) {
      Level3 call{.routine = Routine::trsm, .m = order, .n = columns, .alpha = 0.5};
      call.uplo = stream % 2 == 0 ? Uplo::lower : Uplo::upper;
      call.op_a = stream / 2 == 0 ? Op::no_trans : Op::trans;
      call.A = slab;
      call.C = result_at(stream);
      call.lda = call.ldc = order;
      opened.ops(0).run(stream, call);
    }
    Results X;
    for (int stream = 0; stream < device::compute_streams; ++stream) {
      std::vector<double>& result = X[static_cast<std::size_t>(stream)];
      result.resize(static_cast<std::size_t>(order * columns));
      device.wait({StreamKind::down, 0}, device.record({StreamKind::compute, stream}));
      device.copy_down(host(result, bytes), {result_at(stream), bytes}, {bytes, 1});
    }
    EXPECT_EQ(test::finish(device, {StreamKind::down, 0}), EventStatus::complete);
    return X;
  };
  for (const index_t columns : {index_t{100}, most_columns}) {
    const Results first = solve_on_all_streams(columns);
    for (index_t round = 1; round < rounds; ++round) {
      ASSERT_TRUE(solve_on_all_streams(columns) == first) << columns << " columns, round " << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, TileTriangles, ::testing::Values(test::host_param(1), with_reference),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(Cuda, TileTriangles, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });

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

class TileStreams : public ::testing::TestWithParam<BackendParam> {};

TEST_P(TileStreams, FourStreamsOnEveryDeviceAtOnce) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  struct Job {
    Level3Fixture<double> fixture;
    EventPtr done;
  };
  constexpr Routine real_routines[] = {Routine::gemm,  Routine::symm, Routine::syrk,
                                       Routine::syr2k, Routine::trmm, Routine::trsm};
  constexpr index_t per_device = 28;
  std::deque<DeviceRunner> runners;
  std::deque<Job> jobs;
  for (std::size_t d = 0; d < opened.size(); ++d) {
    runners.emplace_back(opened.device(d), opened.ops(d));
    index_t offset = 0;
    for (index_t i = 0; i < per_device; ++i) {
      const Level3Case c{.routine = real_routines[jobs.size() % std::size(real_routines)],
                         .op_b = Op::trans,
                         .m = 40 + i,
                         .n = 30 + i,
                         .k = 50,
                         .alpha = 2,
                         .beta = 0.5};
      jobs.push_back({Level3Fixture<double>(c, static_cast<unsigned>(jobs.size())), nullptr});
      jobs.back().done =
          runners.back().submit(jobs.back().fixture, static_cast<int>(i) % device::compute_streams, offset);
    }
  }
  for (const Job& job : jobs) {
    ASSERT_EQ(wait_for(job.done), EventStatus::complete);
    EXPECT_TRUE(job.fixture.check());
  }
}

TEST_P(TileStreams, StepsOfOneStreamAccumulate) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  // C = sum of X_l * Y_l over eight steps that follow each other on a stream, as in a task. The numbers are small
  // integers, so the sum is exact.
  constexpr index_t n = 24;
  constexpr index_t steps = 8;
  constexpr index_t bytes = n * n * static_cast<index_t>(sizeof(double));
  std::vector<double> factors_of_steps;
  std::vector<double> C(n * n, std::numeric_limits<double>::quiet_NaN());
  std::vector<double> expected(n * n, 0.0);
  for (index_t l = 0; l < 2 * steps; ++l) {
    for (index_t e = 0; e < n * n; ++e) factors_of_steps.push_back(static_cast<double>((e * 7 + l * 5) % 11 - 5));
  }
  device.copy_up({slab, bytes}, {reinterpret_cast<std::byte*>(C.data()), bytes}, {bytes, 1});
  device.copy_up({slab + bytes, bytes}, {reinterpret_cast<std::byte*>(factors_of_steps.data()), bytes},
                 {bytes, 2 * steps});
  device.wait({StreamKind::compute, 2}, device.record({StreamKind::up, 0}));
  for (index_t l = 0; l < steps; ++l) {
    Level3 p;
    p.m = p.n = p.k = p.lda = p.ldb = p.ldc = n;
    p.A = slab + (1 + 2 * l) * bytes;
    p.B = slab + (2 + 2 * l) * bytes;
    p.C = slab;
    p.beta = l == 0 ? 0 : 1;
    opened.ops(0).run(2, p);
    const double* const x = factors_of_steps.data() + 2 * l * n * n;
    kernels::reference_gemm<double>(Op::no_trans, Op::no_trans, n, n, n, 1, x, n, x + n * n, n, 1, expected.data(), n);
  }
  device.wait({StreamKind::down, 0}, device.record({StreamKind::compute, 2}));
  device.copy_down({reinterpret_cast<std::byte*>(C.data()), bytes}, {slab, bytes}, {bytes, 1});
  ASSERT_EQ(test::finish(device, {StreamKind::down, 0}), EventStatus::complete);
  EXPECT_TRUE(C == expected);
}

INSTANTIATE_TEST_SUITE_P(Host, TileStreams,
                         ::testing::Values(test::host_param(1), test::host_param(3),
                                           BackendParam{BackendParam::Kind::host, 2, false}),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(Cuda, TileStreams, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(MultiGpu, TileStreams, ::testing::Values(test::cuda_param(2)),
                         [](const auto& info) { return info.param.name(); });

TEST(HostTileOps, TilesOutsideTheDeviceAreRefused) {
  test::OpenedDevices opened = test::open_host_devices(1);
  std::byte* const slab = opened.device(0).reserve(3 * 64 * 8);
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 8;
  p.A = slab;
  p.B = slab + 64 * 8;
  p.C = slab + 2 * 64 * 8;
  EXPECT_NO_THROW(opened.ops(0).run(0, p));
  EXPECT_THROW(opened.ops(0).run(device::compute_streams, p), InternalError);
  EXPECT_THROW(opened.ops(0).run(-1, p), InternalError);
  p.ldc = 9;
  EXPECT_THROW(opened.ops(0).run(0, p), InternalError);
  p.ldc = 8;
  double on_the_host[64] = {};
  p.B = reinterpret_cast<const std::byte*>(on_the_host);
  EXPECT_THROW(opened.ops(0).run(0, p), InternalError);
}

TEST(HostTileOps, OnlyOperandsThatAreUsedMustBeOnTheDevice) {
  test::OpenedDevices opened = test::open_host_devices(1);
  constexpr index_t n = 8;
  std::byte* const slab = opened.device(0).reserve(2 * n * n * 8);
  double on_the_host[n * n] = {};
  std::fill(std::begin(on_the_host), std::end(on_the_host), 1.0);
  for (const Routine routine : test::all_routines) {
    const ScalarType type = test::types_of(routine)[0];
    Level3 p{.routine = routine,
             .type = type,
             .m = n,
             .n = n,
             .k = n,
             .alpha = 1,
             .A = slab,
             .lda = n,
             .B = slab,
             .ldb = n,
             .C = slab + n * n * 8,
             .ldc = n};
    const bool has_b = shape_of_b(p).rows > 0;
    if (has_b) {
      EXPECT_NO_THROW(opened.ops(0).run(0, p)) << name_of(p);
      p.B = on_the_host;
      EXPECT_THROW(opened.ops(0).run(0, p), InternalError) << name_of(p);
    } else {
      p.B = nullptr;
      EXPECT_NO_THROW(opened.ops(0).run(0, p)) << name_of(p);
    }
    p.B = slab;
    p.A = on_the_host;
    EXPECT_THROW(opened.ops(0).run(0, p), InternalError) << name_of(p);
    // Without a product neither is read, and neither need exist.
    p.alpha = 0;
    p.A = p.B = nullptr;
    EXPECT_NO_THROW(opened.ops(0).run(0, p)) << name_of(p);
    p.C = on_the_host;
    EXPECT_THROW(opened.ops(0).run(0, p), InternalError) << name_of(p);
  }
  EXPECT_TRUE(opened.device(0).recover());
}

TEST(HostTileOps, WithoutComputeKernelsTakeTimeAndWriteNothing) {
  HostDeviceSettings settings;
  settings.compute = false;
  settings.flops_per_s = 1e6;
  test::OpenedDevices opened = test::open_host_devices(1, {settings});
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(64 * 8);
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 8;
  p.A = p.B = p.C = slab;
  std::vector<double> values(64, 3.0);
  device.copy_up({slab, 512}, {reinterpret_cast<std::byte*>(values.data()), 512}, {512, 1});
  const EventPtr uploaded = device.record({StreamKind::up, 0});
  device.wait({StreamKind::compute, 0}, uploaded);
  opened.ops(0).run(0, p);
  const EventPtr computed = device.record({StreamKind::compute, 0});
  device.wait({StreamKind::down, 0}, computed);
  std::vector<double> after(64);
  device.copy_down({reinterpret_cast<std::byte*>(after.data()), 512}, {slab, 512}, {512, 1});
  ASSERT_EQ(test::finish(device, {StreamKind::down, 0}), EventStatus::complete);
  EXPECT_TRUE(after == values);
  EXPECT_GE(computed->completed_at(), uploaded->completed_at() + flops_of(Level3{.m = 8, .n = 8, .k = 8}) / 1e6 - 1e-9);
}

}  // namespace level3_conformance
}  // namespace tessera
