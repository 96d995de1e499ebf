// How the stored columns of operands are cut into tiles: long pieces for the copy engine, and whole columns and pages.
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "calls/level3.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace column_cuts_test {

using test::machine_with;

// Wherever a dimension runs down the stored columns of an operand, its tiles are long enough for the copy engine.
TEST(Tiling, TilesAreTallWhereCopiesAskForIt) {
  for (const int devices : {1, 2, 4}) {
    const runtime::Machine machine{.devices = devices, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
    for (const index_t n : {16384, 20000, 32768}) {
      const auto plain = choose_tiling({.m = n, .n = n, .k = n}, machine, 0);
      EXPECT_GE(plain.m, 3072);
      EXPECT_GE(plain.k, 3072);
      EXPECT_LE(plain.n, 2048);
      EXPECT_GE(ceil_div(n, plain.m) * ceil_div(n, plain.n), 16 * devices);
      const auto trans_b =
          choose_tiling({.m = n, .n = n, .k = n, .n_is_strided = true, .k_is_strided = false}, machine, 0);
      EXPECT_LE(trans_b.k, 2048);
      EXPECT_GE(ceil_div(n, trans_b.m) * ceil_div(n, trans_b.n), 8 * devices);
    }
  }
  // A matrix of few rows is taken as it is.
  const runtime::Machine machine{.devices = 2, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
  EXPECT_EQ(choose_tiling({.m = 100, .n = 100000, .k = 5000}, machine, 0).m, 100);
}

TEST(Tiling, OperandsOfRankUpdatesHaveTallerTilesWhereThereIsRoom) {
  const runtime::Machine machine{.devices = 1, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
  ProductShape shape{.m = 8192, .n = 8192, .k = 8192, .m_runs_down_a = true, .tie = Tie::mn};
  const auto rows = [&](index_t tile, const runtime::Machine& on) {
    return choose_panels(shape, {tile, tile, 2048}, on).rows;
  };
  EXPECT_EQ(rows(1024, machine), 4096);
  EXPECT_EQ(rows(1408, machine), 3 * 1408);
  EXPECT_EQ(rows(2048, machine), 4096);
  EXPECT_EQ(rows(3328, machine), 3328);  // long enough
  EXPECT_EQ(slot_bytes(ScalarType::d, {1024, 1024, 2048}, {4096, 2048}), std::size_t{4096 * 2048 * 8});
  // Each tile of C and of its old values would take a slot of 64 MiB.
  EXPECT_EQ(rows(1024, {.devices = 1, .heap_bytes = std::size_t{4} << 30, .segment_bytes = 32768}), 1024);
  EXPECT_EQ(rows(1024, {.devices = 1, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 0}), 1024);
  shape.m = 1500;  // two tiles, no more
  EXPECT_EQ(rows(1024, machine), 2048);
  shape.m_runs_down_a = false;
  EXPECT_EQ(rows(1024, machine), 1024);
}

TEST(Tiling, StepsOfGemmReadPartsOfTallerTilesOfB) {
  const runtime::Machine machine{.devices = 1, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
  Level3 call{.routine = Routine::gemm, .m = 16384, .n = 16384, .k = 16384};
  const auto tiling = choose_tiling(shape_of(call), machine, 0);
  EXPECT_EQ(tiling.k, 2048);
  EXPECT_EQ(choose_panels(shape_of(call), tiling, machine), (Panels{tiling.m, 4096}));
  call.op_a = Op::trans;  // then its columns, too, are cut by k
  EXPECT_EQ(choose_tiling(shape_of(call), machine, 0).k, 4096);
  EXPECT_EQ(choose_panels(shape_of(call), {4096, 2048, 4096}, machine), (Panels{4096, 4096}));
  call.op_b = Op::trans;
  EXPECT_EQ(choose_tiling(shape_of(call), machine, 0).k, 4096);
}

TEST(Tiling, DgemmDoesNotCutColumnsOfUpToTwoSegments) {
  const runtime::Machine machine{.devices = 1, .heap_bytes = std::size_t{100} << 30, .segment_bytes = 32768};
  const auto square = [](index_t n) { return Level3{.routine = Routine::gemm, .m = n, .n = n, .k = n}; };
  for (const index_t n : {5000, 6144, 8192}) {
    const auto shape = shape_of(square(n));
    const auto tiling = choose_tiling(shape, machine, 0);
    EXPECT_EQ(tiling.m, n);
    EXPECT_GE(ceil_div(n, tiling.n), 8);                        // two tasks per stream
    EXPECT_GE(choose_panels(shape, tiling, machine).depth, n);  // B's too
    EXPECT_LE(tiling.m * tiling.k, 5 * 4096 * 2048 / 4);        // blocks of A do not grow
  }
  EXPECT_EQ(choose_tiling(shape_of(square(16384)), machine, 0).m, 4096);
  // Both operands' columns have to be short: else kernels may take longest, and they want deep steps.
  Level3 call = square(16384);
  call.k = 8192;
  EXPECT_EQ(choose_tiling(shape_of(call), machine, 0), (runtime::Tiling{4096, 2048, 2048, 1024}));
  std::swap(call.m, call.k);
  EXPECT_EQ(choose_tiling(shape_of(call), machine, 0), (runtime::Tiling{4096, 1024, 2048, 1024}));
  for (const ScalarType type : {ScalarType::s, ScalarType::c, ScalarType::z}) {
    call = square((index_t{65536} / static_cast<index_t>(element_bytes(type))));
    call.type = type;
    EXPECT_LT(choose_tiling(shape_of(call), machine, 0).m, call.m);
  }
  call = square(8192);
  call.op_a = Op::trans;  // a block of A would be two whole columns squared
  EXPECT_EQ(choose_tiling(shape_of(call), machine, 0).m, 4096);
}

// Less memory costs whole columns first, then B's long ones; columns of 32 KiB stay.
TEST(Tiling, DgemmCutsColumnsWhereMemoryIsShort) {
  const auto shape = shape_of({.routine = Routine::gemm, .m = 8192, .n = 8192, .k = 8192});
  for (const int devices : {1, 2, 4}) {
    for (const std::size_t gib : {12, 16, 24, 40, 80}) {
      const runtime::Machine machine{.devices = devices, .heap_bytes = gib << 30, .segment_bytes = 32768};
      const auto tiling = choose_tiling(shape, machine, 0);
      EXPECT_GE(tiling.m, 4096) << devices << " devices with " << gib << " GiB";
      EXPECT_GE(choose_panels(shape, tiling, machine).depth, gib < 24 && devices > 1 ? 2048 : 4096)
          << devices << " devices with " << gib << " GiB";
    }
  }
  const runtime::Machine little{.devices = 1, .heap_bytes = std::size_t{12} << 30, .segment_bytes = 32768};
  EXPECT_EQ(choose_tiling(shape, little, 0), (runtime::Tiling{4096, 512, 2048, 1024}));
}

// Columns of whole pages, two segments each, are not cut in the middle of pages where there is room for tiles of different sizes.
TEST(Tiling, PagesAreCutUnevenly) {
  const runtime::Machine machine = machine_with(1);
  const auto tiling = [](const Level3& call, const runtime::Machine& on) {
    return choose_tiling(shape_of(call), on, 0);
  };
  const index_t n = 16384;
  const Level3 left{.routine = Routine::trmm, .m = n, .n = n};
  EXPECT_EQ(tiling(left, machine), (runtime::Tiling{4096, 2048, 4096, 1024, 0, 1024}));
  Level3 other_way = left;  // sweeps begin with the longer one of a pair
  other_way.uplo = Uplo::upper;
  EXPECT_EQ(tiling(other_way, machine), (runtime::Tiling{4096, 2048, 4096, -1024, 0, -1024}));
  EXPECT_EQ(slot_bytes(ScalarType::d, tiling(other_way, machine)), std::size_t{5120 * 5120 * 8});
  other_way.routine = Routine::trsm;
  EXPECT_EQ(tiling(other_way, machine).skew_k, 1024);
  other_way.op_a = Op::trans;
  EXPECT_EQ(tiling(other_way, machine).skew_k, -1024);
  other_way.type = ScalarType::s;
  EXPECT_EQ(tiling(other_way, machine).skew_k, 0);
  EXPECT_EQ(slot_bytes(ScalarType::d, tiling(left, machine)), std::size_t{5120 * 5120 * 8});
  Level3 right = left;
  right.side = Side::right;
  EXPECT_EQ(tiling(right, machine), (runtime::Tiling{4096, 4096, 4096, 1024}));
  Level3 syrk{.routine = Routine::syrk, .m = n, .n = n, .k = n};
  EXPECT_EQ(tiling(syrk, machine), (runtime::Tiling{4096, 4096, 2048, 1024, 1024, 0}));
  syrk.op_a = Op::trans;
  EXPECT_EQ(tiling(syrk, machine), (runtime::Tiling{4096, 4096, 4096, 1024, 1024, 1024}));
  syrk.m = syrk.n = 2 * n;  // enough tasks: shorter tiles, as elsewhere
  EXPECT_EQ(tiling(syrk, machine).skew_m, 0);
  Level3 gemm{.routine = Routine::gemm, .op_b = Op::trans, .m = n, .n = n, .k = n};
  EXPECT_EQ(tiling(gemm, machine), (runtime::Tiling{4096, 4096, 2048, 1024, 0, 0}));
  gemm.type = ScalarType::z;
  EXPECT_EQ(tiling(gemm, machine), (runtime::Tiling{2048, 2048, 2048, 512, 0, 0}));

  for (const index_t other : {16000, 12288, 4096, 20480}) {
    EXPECT_EQ(tiling({.routine = Routine::trmm, .m = other, .n = n}, machine).skew_m, 0) << other;
  }
  // Several devices wait for each other's tiles.
  const runtime::Machine two = machine_with(2);
  EXPECT_EQ(tiling(left, two), (runtime::Tiling{4096, 1024, 4096}));
  EXPECT_EQ(tiling(right, two), (runtime::Tiling{4096, 4096, 4096}));
  // Without room for pairs, rank updates have tiles like those of other sizes.
  syrk = {.routine = Routine::syrk, .m = n, .n = n, .k = n};
  runtime::Machine small = machine;
  small.heap_bytes = std::size_t{9} << 30;
  EXPECT_EQ(tiling(syrk, small), (runtime::Tiling{3328, 3328, 2048}));
  // Tiles are in slots for the largest one, and the memory is enough for those of one size.
  const Level3 large{.routine = Routine::trmm, .m = 40960, .n = 40960};
  EXPECT_EQ(tiling(large, machine), (runtime::Tiling{4096, 2048, 4096}));
  EXPECT_EQ(choose_tiling(shape_of(left), machine, 4096).skew_m, 0);
}

// Streams without work cost nothing where the link takes longest, copies of short columns that lie far from each other do.
TEST(Tiling, LeavesColumnsWholeEnoughWhereTheLinkTakesLongest) {
  const auto tiling_of = [](Routine routine, ScalarType type, index_t m, index_t n, bool knows_rates) {
    Level3 call{.routine = routine, .type = type, .side = Side::right, .m = m, .n = n};
    const runtime::Machine machine{.devices = 1,
                                   .heap_bytes = std::size_t{1} << 36,
                                   .segment_bytes = 32768,
                                   .flops_per_s = knows_rates ? 60e12 : 0,
                                   .link_bytes_per_s = knows_rates ? 50e9 : 0};
    return choose_tiling(shape_of(call), machine, 0);
  };
  for (const Routine routine : {Routine::symm, Routine::trmm, Routine::trsm}) {
    EXPECT_LT(tiling_of(routine, ScalarType::c, 146, 8630, false).n, 1100);
    EXPECT_GT(tiling_of(routine, ScalarType::c, 146, 8630, true).n, 2000);
    // Much to compute, or columns that are near each other.
    EXPECT_EQ(tiling_of(routine, ScalarType::d, 8192, 8192, true),
              tiling_of(routine, ScalarType::d, 8192, 8192, false));
    EXPECT_EQ(tiling_of(routine, ScalarType::d, 2048, 2048, true),
              tiling_of(routine, ScalarType::d, 2048, 2048, false));
  }
}

// Rows of A that are all of its columns come at the rate of the link, halves of them do not.
TEST(Tiling, CutsNoColumnsWhereThereIsNextToNothingToCompute) {
  const auto rows_of_tiles = [](index_t m, int devices) {
    const Level3 call{.routine = Routine::gemm, .m = m, .n = 512, .k = 200000};
    const runtime::Machine machine{.devices = devices,
                                   .heap_bytes = std::size_t{1} << 36,
                                   .segment_bytes = 32768,
                                   .flops_per_s = 60e12,
                                   .link_bytes_per_s = 50e9};
    return choose_tiling(shape_of(call), machine, 0).m;
  };
  EXPECT_EQ(rows_of_tiles(512, 1), 512);
  EXPECT_EQ(rows_of_tiles(512, 2), 512);    // which have ranges of k each
  EXPECT_LT(rows_of_tiles(1200, 2), 1200);  // each of them must have some
}

}  // namespace column_cuts_test
}  // namespace tessera::routines
