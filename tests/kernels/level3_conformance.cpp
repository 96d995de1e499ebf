// Tile kernels of all ten routines on every kind of device: host devices with the CPU BLAS, host devices with the
// reference, CUDA GPUs. All types, variants and factors. Elements that must not be read (the opposite triangle, a unit
// diagonal, C with beta == 0, the padding) are NaN. Elements that must not be written are compared byte for byte.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/kernels/device_runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace level3_conformance {

using device::Device;
using device::EventStatus;
using device::StreamKind;
using test::BackendParam;
using test::DeviceRunner;
using test::Level3Case;
using test::Level3Fixture;
using test::wait_for;
using test::with_reference;

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

}  // namespace level3_conformance
}  // namespace tessera
