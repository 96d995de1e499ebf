// The sizes of tiles: enough tasks for all streams, but few of them, in the memory that there is. The order in which
// tasks visit tiles.
#include "routines/tiling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "core/error.hpp"
#include "routines/level3.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace tiling_test {

using test::machine_with;

TEST(Tiling, LeavesNoSliversAndGivesEveryStreamWork) {
  const runtime::Machine one{.devices = 1, .heap_bytes = std::size_t{100} << 30};
  for (const index_t n : {300, 1000, 2049, 4096, 5000, 8192, 10000, 16384, 32768, 100000}) {
    const auto tiling = choose_tiling({.m = n, .n = n, .k = n}, one, 0);
    const index_t count = ceil_div(n, tiling.m);
    EXPECT_EQ(tiling.m, tiling.n);
    if (count > 1) {
      EXPECT_GE(2 * (n - (count - 1) * tiling.m), tiling.m) << n;
    }
  }
  EXPECT_EQ(choose_tiling({.m = 32768, .n = 32768, .k = 32768}, one, 0), (runtime::Tiling{2048, 2048, 2048}));
}

TEST(Tiling, LongProductsHaveDeepSteps) {
  const auto depth = [](index_t n, int devices, std::size_t gib, ScalarType type = ScalarType::d) {
    return choose_tiling(shape_of({.routine = Routine::gemm, .type = type, .m = n, .n = n, .k = n}),
                         {.devices = devices, .heap_bytes = gib << 30, .segment_bytes = 32768}, 0)
        .k;
  };
  EXPECT_EQ(depth(24576, 1, 100), 2048);
  EXPECT_EQ(depth(32768, 1, 100), 4096);
  EXPECT_EQ(depth(32768, 4, 100), 2048);  // a quarter of the tasks for each
  EXPECT_EQ(depth(65536, 4, 100), 4096);
  EXPECT_EQ(depth(32768, 1, 20), 2048);  // A and B would not fit into larger slots
  EXPECT_EQ(depth(32768, 1, 100, ScalarType::z), 1024);
  // Whole columns are deep enough.
  const Level3 wide{.routine = Routine::gemm, .m = 8192, .n = 200000, .k = 8192};
  const runtime::Machine machine{.devices = 1, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
  EXPECT_EQ(choose_tiling(shape_of(wide), machine, 0).k, 1024);
}

// With the operands of a thin product on the device, steps are few, one task for each stream. A result that takes long
// on the link is cut as ever.
TEST(Tiling, ProductsWhoseInputsAreThereHaveFewSteps) {
  runtime::Machine machine{.devices = 1,
                           .heap_bytes = std::size_t{100} << 30,
                           .segment_bytes = 32768,
                           .flops_per_s = 60e12,
                           .link_bytes_per_s = 50e9};
  const Level3 thin{.routine = Routine::gemm, .m = 64, .n = 16384, .k = 16384};
  const Level3 square{.routine = Routine::gemm, .m = 8192, .n = 8192, .k = 8192};
  const runtime::Tiling of_thin = choose_tiling(shape_of(thin), machine, 0);
  const runtime::Tiling of_square = choose_tiling(shape_of(square), machine, 0);
  EXPECT_LE(of_thin.n, 1024);
  machine.has_inputs = true;
  EXPECT_EQ(choose_tiling(shape_of(thin), machine, 0), (runtime::Tiling{64, 2048, 4096}));
  EXPECT_EQ(choose_tiling(shape_of(square), machine, 0), of_square);
}

// A segment may be shorter than an element.
TEST(Tiling, SegmentsOfAnySizeAreTaken) {
  for (const ScalarType type : {ScalarType::s, ScalarType::z}) {
    Level3 call{.routine = Routine::gemm, .type = type, .m = 500, .n = 500, .k = 500};
    for (const index_t segment : {1, 8, 16, 24, 100}) {
      const runtime::Machine machine{.devices = 1, .heap_bytes = std::size_t{1} << 30, .segment_bytes = segment};
      for (const Routine routine : {Routine::gemm, Routine::syrk, Routine::trsm}) {
        call.routine = routine;
        EXPECT_GE(choose_tiling(shape_of(call), machine, 0).m, 1);
      }
    }
  }
}

// With A on the right a line of tiles is as tall as columns should be. Tiles are cut the other way where there are few.
TEST(Tiling, ThereAreTilesForAllStreamsWithAOnTheRight) {
  for (const Routine routine : {Routine::symm, Routine::trmm, Routine::trsm}) {
    for (const int devices : {1, 2, 4}) {
      const Level3 call{.routine = routine, .side = Side::right, .m = 16384, .n = 16384};
      const auto tiling = choose_tiling(shape_of(call), machine_with(devices), 0);
      EXPECT_EQ(tiling.m, 4096);
      EXPECT_EQ(tiling.n, devices == 4 ? 2048 : 4096);
      EXPECT_EQ(tiling.k, tiling.n);
    }
  }
}

// A task by itself costs as much time as two megabytes on the link.
TEST(Tiling, SmallCallsHaveFewTasks) {
  const auto tiling = [](Level3 call, index_t n) {
    call.m = call.n = n;
    if (call.has_k()) call.k = n;
    return choose_tiling(shape_of(call), machine_with(1), 0);
  };
  const Level3 gemm{.routine = Routine::gemm};
  EXPECT_EQ(tiling(gemm, 512), (runtime::Tiling{512, 256, 256}));
  EXPECT_EQ(tiling(gemm, 1024), (runtime::Tiling{1024, 256, 512}));
  EXPECT_EQ(tiling(gemm, 1500), (runtime::Tiling{1500, 384, 768}));
  EXPECT_EQ(tiling(gemm, 2048), (runtime::Tiling{2048, 256, 1024}));
  EXPECT_EQ(tiling({.routine = Routine::trmm}, 1024), (runtime::Tiling{1024, 256, 1024}));
  EXPECT_EQ(tiling({.routine = Routine::symm, .side = Side::right}, 1024), (runtime::Tiling{1024, 1024, 1024}));
  EXPECT_EQ(tiling({.routine = Routine::gemm, .op_b = Op::trans}, 1024), (runtime::Tiling{1024, 1024, 1024}));
  // Several devices would have nothing to do otherwise.
  EXPECT_EQ(choose_tiling(shape_of({.routine = Routine::gemm, .m = 2048, .n = 2048, .k = 2048}), machine_with(2), 0),
            (runtime::Tiling{2048, 128, 1024}));
  // Few columns, but much to read.
  EXPECT_EQ(choose_tiling(shape_of({.routine = Routine::gemm, .m = 4096, .n = 100, .k = 4096}), machine_with(1), 0),
            (runtime::Tiling{512, 100, 2048}));
}

// A solve takes time to submit, however few its columns are.
TEST(Tiling, TilesOfSolvesAreWide) {
  const auto tiling = [](index_t m, index_t n, int devices) {
    const Level3 call{.routine = Routine::trsm, .m = m, .n = n};
    return choose_tiling(shape_of(call), machine_with(devices), 0);
  };
  for (const auto& [m, width] : {std::pair<index_t, index_t>{1024, 512}, {2048, 512}, {4096, 1024}, {6000, 1024}}) {
    EXPECT_EQ(tiling(m, m, 1).n, width) << m;
    EXPECT_EQ(tiling(m, m, 1).m, m);
  }
  EXPECT_EQ(tiling(8192, 8192, 1).n, 1024);
  EXPECT_EQ(tiling(8192, 8192, 2).n, 512);  // each of several devices has less to submit
  EXPECT_EQ(tiling(64, 20000, 1).n, 4032);
  // With few right-hand sides, some for each stream rather than a triangle in pieces.
  EXPECT_EQ(tiling(4096, 1000, 1), (runtime::Tiling{4096, 256, 4096}));
  EXPECT_EQ(tiling(4096, 10, 1), (runtime::Tiling{4096, 10, 4096}));
}

// Two of three tasks on one device take as long as two of four.
TEST(Tiling, FewTasksAreDealtEvenly) {
  const auto tasks = [](const Level3& call, int devices) {
    runtime::Machine machine = machine_with(devices);
    machine.flops_per_s = 60e12;
    machine.link_bytes_per_s = 54e9;
    const auto tiling = choose_tiling(shape_of(call), machine, 0);
    const index_t rows = ceil_div(call.m, tiling.m), columns = ceil_div(call.n, tiling.n);
    return call.updates_triangle() ? columns * (columns + 1) / 2 : rows * columns;
  };
  const Level3 update{.routine = Routine::syr2k, .type = ScalarType::c, .n = 1379, .k = 2000};
  EXPECT_EQ(tasks(update, 1), 3);
  EXPECT_EQ(tasks(update, 2), 6);
  const Level3 product{.routine = Routine::symm, .type = ScalarType::z, .side = Side::right, .m = 627, .n = 5190};
  EXPECT_EQ(tasks(product, 2), 4);
}

TEST(Tiling, ForcedSizesAreTaken) {
  const runtime::Machine machine{.devices = 2, .heap_bytes = 1 << 20};
  EXPECT_EQ(choose_tiling({.m = 100, .n = 50, .k = 9}, machine, 16), (runtime::Tiling{16, 16, 9}));
  EXPECT_EQ(choose_tiling({.m = 17, .n = 17, .k = 17}, machine, 16), (runtime::Tiling{16, 16, 16}));
}

TEST(Tiling, FitsTheMemoryOrRefuses) {
  for (const std::size_t heap : {12 * 256, 50000, 1 << 20, 1 << 28}) {
    const runtime::Machine machine{.devices = 1, .heap_bytes = heap};
    for (const ScalarType type : {ScalarType::s, ScalarType::z}) {
      for (const index_t forced : {0, 64}) {
        const auto tiling = choose_tiling({.type = type, .m = 5000, .n = 3000, .k = 10}, machine, forced);
        EXPECT_LE(12 * slot_bytes(type, tiling), heap);
      }
    }
  }
  EXPECT_THROW(choose_tiling({.m = 100, .n = 100, .k = 100}, {.devices = 1, .heap_bytes = 11 * 256}, 0),
               OutOfDeviceMemory);
}

void expect_permutation(const std::vector<TileIndex>& order, index_t mt, index_t nt) {
  ASSERT_EQ(static_cast<index_t>(order.size()), mt * nt);
  std::set<std::pair<index_t, index_t>> seen;
  for (const TileIndex& tile : order) {
    ASSERT_TRUE(tile.i >= 0 && tile.i < mt && tile.j >= 0 && tile.j < nt);
    ASSERT_TRUE(seen.insert({tile.i, tile.j}).second);
  }
}

TEST(TileOrder, VisitsEveryTileOnce) {
  for (index_t mt = 1; mt <= 9; ++mt) {
    for (index_t nt = 1; nt <= 9; ++nt) {
      for (const index_t tile_m : {1, 3}) expect_permutation(square_order(mt, nt, tile_m, 1), mt, nt);
    }
  }
}

TEST(TileOrder, GrowsSquares) {
  const auto order = square_order(20, 30, 64, 64);
  for (index_t side = 1; side <= 20; ++side) {
    index_t largest = 0;
    for (index_t t = 0; t < side * side; ++t) {
      const TileIndex tile = order[static_cast<std::size_t>(t)];
      largest = std::max<index_t>({largest, tile.i, tile.j});
    }
    EXPECT_EQ(largest, side - 1);
  }
}

TEST(TileOrder, GrowsSquaresOfElementsFromTallTiles) {
  const auto order = square_order(4, 16, 4096, 1024);
  for (index_t side = 1; side <= 4; ++side) {
    for (index_t t = 0; t < 4 * side * side; ++t) {
      EXPECT_LT(order[static_cast<std::size_t>(t)].i, side);
      EXPECT_LT(order[static_cast<std::size_t>(t)].j, 4 * side);
    }
  }
}

TEST(TileOrder, ANewRowAndANewColumnTakeTurns) {
  const std::vector<TileIndex> expected = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}, {1, 2}, {2, 1}, {2, 2}};
  EXPECT_EQ(square_order(3, 3, 8, 8), expected);
}

}  // namespace tiling_test
}  // namespace tessera::routines
