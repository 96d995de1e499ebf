// The steps that products in place take apart, so that their first lines begin with the first tiles of the triangle.
#include <gtest/gtest.h>

#include <cstddef>

#include "calls/level3.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "tests/routines/small_tiles.hpp"

namespace tessera::routines {
namespace triangular_test {

constexpr index_t tile = test::small_tile;
constexpr std::size_t tile_bytes = test::small_tile_bytes;

// The graphs do not run: of operands only addresses count.
alignas(8) std::byte memory[64];

TEST(TriangularProducts, BeginWithSomeLinesAllAtOnceWhereThereAreMany) {
  constexpr index_t rows = 4;
  const auto graph_of = [&](Routine routine, Uplo uplo, index_t lines, int devices, std::size_t memory_bytes) {
    const Level3 call{.routine = routine,
                      .uplo = uplo,
                      .m = rows * tile,
                      .n = lines * tile,
                      .A = memory,
                      .lda = rows * tile,
                      .C = memory,
                      .ldc = rows * tile};
    return make_triangular(call, {devices, memory_bytes, 0}, tile);
  };
  constexpr std::size_t plenty = std::size_t{1} << 30;
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    EXPECT_FALSE(graph_of(Routine::trmm, uplo, 5, 1, plenty)->has_steps_apart());
    EXPECT_FALSE(graph_of(Routine::trmm, uplo, 11, 2, plenty)->has_steps_apart());
    EXPECT_FALSE(graph_of(Routine::trsm, uplo, 12, 1, plenty)->has_steps_apart());
    EXPECT_FALSE(graph_of(Routine::trmm, uplo, 12, 1, 100 * tile_bytes)->has_steps_apart());
  }

  struct Case {
    Uplo uplo;
    int devices;
    index_t lines, wide_lines;
  };
  for (const Case& c : {Case{Uplo::lower, 1, 7, 3}, Case{Uplo::upper, 1, 20, 4}, Case{Uplo::lower, 2, 13, 6},
                        Case{Uplo::upper, 2, 40, 8}}) {
    const auto graph = graph_of(Routine::trmm, c.uplo, c.lines, c.devices, plenty);
    EXPECT_TRUE(graph->has_steps_apart());
    for (runtime::TaskId task = 0; task < graph->task_count; ++task) {
      const index_t steps = graph->step_count(task);
      const runtime::Step last = graph->nth_step(task, steps - 1);
      const bool wide = task < rows * c.wide_lines;
      const bool turned = wide && steps > 1;
      const index_t ascending = wide ? steps - 1 : steps;
      for (index_t nth = 1; nth < ascending; ++nth) EXPECT_GT(graph->wave(task, nth), graph->wave(task, nth - 1));
      for (index_t nth = 1; nth < steps; ++nth) EXPECT_GE(graph->wave(task, nth), graph->wave(task, nth - 1));
      // In short lines the diagonal tiles come with the last tile of B but one.
      if (wide) {
        EXPECT_EQ(graph->wave(task, steps - 1), rows - 2);
      }
      EXPECT_EQ(last.apart, turned);
      EXPECT_EQ(last.call().routine, turned || steps == 1 ? Routine::trmm : Routine::gemm);
      if (!turned) continue;
      // The tile of B that all rows need comes first, and nothing is added to what has not been set.
      constexpr std::ptrdiff_t line_bytes = rows * tile * tile * 8;
      const std::ptrdiff_t line = (graph->output(task).tile.address - memory) / line_bytes;
      const std::ptrdiff_t row = c.uplo == Uplo::lower ? 0 : rows - 1;
      EXPECT_EQ(graph->nth_step(task, 0).b.tile.address - memory, line * line_bytes + row * tile * 8);
      EXPECT_EQ(graph->wave(task, 0), 0);
      EXPECT_EQ(graph->nth_step(task, 0).call().beta, AnyScalar(0));
      for (index_t nth = 1; nth < steps - 1; ++nth) EXPECT_EQ(graph->nth_step(task, nth).call().beta, AnyScalar(1));
    }
  }

  // In long lines, where kernels take longest, diagonal tiles come when their rows do.
  const Level3 call{.routine = Routine::trmm,
                    .m = 6 * tile,
                    .n = 20 * tile,
                    .A = memory,
                    .lda = 6 * tile,
                    .C = memory,
                    .ldc = 6 * tile};
  const auto graph = make_triangular(call, {1, plenty, 0}, tile);
  for (runtime::TaskId task = 0; task < 6 * 4; ++task) {
    for (index_t nth = 0; nth < graph->step_count(task); ++nth) EXPECT_EQ(graph->wave(task, nth), nth);
  }
}

TEST(TriangularProducts, BeginWithAllLinesWhereBIsNarrow) {
  const auto graph_of = [](Routine routine, Side side, index_t along, index_t across, int devices) {
    const bool left = side == Side::left;
    const Level3 call{.routine = routine,
                      .side = side,
                      .m = (left ? along : across) * tile,
                      .n = (left ? across : along) * tile,
                      .A = memory,
                      .lda = along * tile,
                      .C = memory,
                      .ldc = (left ? along : across) * tile};
    return make_triangular(call, {devices, std::size_t{1} << 30, 0}, tile);
  };
  const auto graph = graph_of(Routine::trmm, Side::left, 16, 4, 1);
  for (runtime::TaskId task = 0; task < graph->task_count; ++task) {
    const index_t steps = graph->step_count(task);
    EXPECT_EQ(graph->nth_step(task, steps - 1).apart, steps > 1);
  }
  EXPECT_TRUE(graph_of(Routine::trmm, Side::left, 16, 4, 2)->has_steps_apart());
  EXPECT_FALSE(graph_of(Routine::trmm, Side::left, 16, 5, 1)->has_steps_apart());
  EXPECT_FALSE(graph_of(Routine::trmm, Side::right, 16, 4, 1)->has_steps_apart());
  EXPECT_FALSE(graph_of(Routine::trsm, Side::left, 16, 4, 1)->has_steps_apart());
  EXPECT_FALSE(graph_of(Routine::trmm, Side::left, 16, 4, 16)->has_steps_apart());
}

}  // namespace triangular_test
}  // namespace tessera::routines
