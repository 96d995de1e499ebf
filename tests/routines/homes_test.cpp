// The devices at which tasks are at home: as many tasks at each as can be, and sums that begin apart or together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace homes_test {

constexpr index_t tile = test::small_tile;

// The graphs do not run: of operands only addresses count.
alignas(8) std::byte memory[64];

TEST(Homes, AreEven) {
  for (const Routine routine :
       {Routine::gemm, Routine::symm, Routine::syrk, Routine::syr2k, Routine::trmm, Routine::trsm}) {
    for (const int devices : {1, 2, 3, 4, 6, 8}) {
      Level3 call;
      call.routine = routine;
      call.m = call.n = 24 * tile;
      if (call.has_k()) call.k = call.n;
      call.A = call.B = call.C = memory;
      call.lda = call.ldb = call.ldc = call.n;
      const runtime::Machine machine{devices, std::size_t{1} << 30, 0};
      const auto graph = (call.is_triangular() ? make_triangular : make_accumulation)(call, machine, tile);
      std::vector<index_t> counts(static_cast<std::size_t>(devices), 0);
      for (runtime::TaskId task = 0; task < graph->task_count; ++task) {
        const index_t home = graph->home(task, devices);
        ASSERT_GE(home, 0);
        ASSERT_LT(home, devices);
        ++counts[static_cast<std::size_t>(home)];
      }
      const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
      EXPECT_LE(*most - *least, 1) << name_of(routine) << devices;
    }
  }
}

// Lines whose tiles need each other's inputs are dealt tile by tile where there are too few to be dealt evenly.
TEST(Homes, FewLinesAreDealtByTheTile) {
  constexpr index_t length = 2;
  for (const Side side : {Side::left, Side::right}) {
    for (const auto& [lines, devices] : {std::pair{1, 2}, {3, 2}, {1, 4}, {2, 4}, {3, 4}, {4, 8}}) {
      const index_t along = length * tile, across = lines * tile;
      const Level3 call{.routine = Routine::trmm,
                        .side = side,
                        .m = side == Side::left ? along : across,
                        .n = side == Side::left ? across : along,
                        .A = memory,
                        .lda = along,
                        .C = memory,
                        .ldc = along};
      const auto graph = make_triangular(call, {devices, std::size_t{1} << 30, 0}, tile);
      ASSERT_EQ(graph->task_count, lines * length);
      std::vector<index_t> counts(static_cast<std::size_t>(devices));
      for (runtime::TaskId task = 0; task < graph->task_count; ++task)
        ++counts[static_cast<std::size_t>(graph->home(task, devices))];
      const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
      EXPECT_LE(*most - *least, 1) << lines << " lines, " << devices << " devices";
    }
  }
}

// A grid of devices would leave half of them without a tile.
TEST(Homes, OneRowOfTilesIsDealtToAll) {
  for (const bool row : {true, false}) {
    const Level3 call{.routine = Routine::gemm,
                      .m = (row ? 1 : 8) * tile,
                      .n = (row ? 8 : 1) * tile,
                      .k = tile,
                      .A = memory,
                      .lda = 8 * tile,
                      .B = memory,
                      .ldb = tile,
                      .C = memory,
                      .ldc = 8 * tile};
    const auto graph = make_accumulation(call, {4, std::size_t{1} << 30, 0}, tile);
    std::set<index_t> homes;
    for (runtime::TaskId task = 0; task < graph->task_count; ++task) homes.insert(graph->home(task, 4));
    EXPECT_EQ(homes.size(), 4U);
  }
}

// Places along k where the tasks of each home begin their sums.
std::set<std::pair<index_t, std::ptrdiff_t>> begins_of_gemm(index_t row_tiles, int devices) {
  const Level3 call{.routine = Routine::gemm,
                    .m = row_tiles * tile,
                    .n = 24 * tile,
                    .k = 24 * tile,
                    .A = memory,
                    .lda = row_tiles * tile,
                    .B = memory,
                    .ldb = 24 * tile,
                    .C = memory,
                    .ldc = row_tiles * tile};
  const auto graph = make_accumulation(call, {devices, std::size_t{1} << 30, 0}, tile);
  std::set<std::pair<index_t, std::ptrdiff_t>> begins;
  for (runtime::TaskId task = 0; task < graph->task_count; ++task) {
    const std::ptrdiff_t b = graph->step(task, 0).b.tile.address - memory;
    begins.insert({graph->home(task, devices), b % (call.ldb * 8)});
  }
  return begins;
}

TEST(Homes, BeginTogetherWhereTheyCanShareAWaveElseApart) {
  for (const int devices : {2, 3, 4, 6, 8}) {
    const auto together = begins_of_gemm(devices, devices);
    EXPECT_EQ(together.size(), static_cast<std::size_t>(devices));  // one for each home
    for (const auto& [home, place] : together) EXPECT_EQ(place, 0);
    const auto apart = begins_of_gemm(devices - 1, devices);
    EXPECT_EQ(apart.size(), static_cast<std::size_t>(devices));
    std::set<std::ptrdiff_t> places;
    for (const auto& [home, place] : apart) places.insert(place);
    EXPECT_EQ(places.size(), static_cast<std::size_t>(devices));  // of which no two are the same
  }
}

}  // namespace homes_test
}  // namespace tessera::routines
