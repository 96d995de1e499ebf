// The bytes that a whole call moves, by the counters of its devices: with enough memory, and with little of it.
#include <gtest/gtest.h>

#include <string>

#include "calls/level3.hpp"
#include "routines/level3.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/gemm_problem.hpp"
#include "tests/routines/host_runtime.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace traffic_test {

using test::devices_with;
using test::HostRuntime;

constexpr index_t tile = test::small_tile;
constexpr std::size_t tile_bytes = test::small_tile_bytes;

class TrafficModel : public ::testing::TestWithParam<int> {};

TEST_P(TrafficModel, EveryTileCrossesAHostLinkOnceWhereMemorySuffices) {
  constexpr index_t n = 10 * tile;
  HostRuntime host(devices_with(GetParam(), 400 * tile_bytes));
  for (const double beta : {0.0, 0.5}) {
    test::GemmFixture<double> fixture({.m = n, .n = n, .k = n, .alpha = 1, .beta = beta}, 1);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.compulsory_up, (beta == 0 ? 2 : 3) * 100 * static_cast<index_t>(tile_bytes));
    EXPECT_LE(static_cast<double>(statistics.bytes_up()), 1.02 * static_cast<double>(statistics.compulsory_up));
    EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down);
    if (GetParam() == 1) {
      EXPECT_EQ(statistics.bytes_peer(), 0);
    }
  }
}

// Every device holds a quarter of what the call touches.
TEST_P(TrafficModel, TwiceAtMostWithMemoryForAQuarterOfTheOperands) {
  for (const index_t tiles : {20, 24}) {
    const index_t n = tiles * tile;
    HostRuntime host(devices_with(GetParam(), static_cast<std::size_t>(3 * tiles * tiles) * tile_bytes / 4));
    for (const double beta : {0.0, 0.5}) {
      test::GemmFixture<double> fixture({.m = n, .n = n, .k = n, .alpha = 1, .beta = beta}, 1);
      const auto statistics = run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check());
      const double ratio = static_cast<double>(statistics.bytes_up()) / static_cast<double>(statistics.compulsory_up);
      EXPECT_LE(ratio, 2) << tiles << " tiles, beta " << beta;
      RecordProperty("up_over_compulsory_" + std::to_string(tiles), std::to_string(ratio));
    }
  }
}

// All variants of a call that has to run in groups give the right result.
TEST_P(TrafficModel, GroupsComputeWhatTheCallMeans) {
  for (const index_t slots : {12, 20, 40}) {
    HostRuntime host(devices_with(GetParam(), static_cast<std::size_t>(slots) * tile_bytes));
    for (const Routine routine :
         {Routine::gemm, Routine::symm, Routine::syrk, Routine::syr2k, Routine::trmm, Routine::trsm}) {
      for (const Uplo uplo : test::all_uplos) {
        for (const Side side : test::all_sides) {
          for (const Op op : {Op::no_trans, Op::trans}) {
            test::Level3Case c;
            c.routine = routine;
            c.uplo = uplo;
            c.side = side;
            c.op_a = op;
            c.m = 7 * tile + 3;
            c.n = 6 * tile + 1;
            c.k = 5 * tile;
            c.alpha = 2;
            c.beta = 0.5;
            test::Level3Fixture<double> fixture(c, 3);
            run(*host.runtime, fixture.problem(), tile);
            EXPECT_TRUE(fixture.check()) << slots << " slots";
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, TrafficModel, ::testing::Values(1, 2, 4));

}  // namespace traffic_test
}  // namespace tessera::routines
