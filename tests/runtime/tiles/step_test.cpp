// A kernel on placed tiles, whatever its kind, and the properties of steps that the scheduler asks for.
#include "runtime/tiles/step.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <variant>

namespace tessera::runtime {
namespace step_test {

constexpr index_t n = 8;
constexpr auto element = static_cast<index_t>(sizeof(double));

std::array<std::byte, 6 * 1024> memory;
const PlacedTile C{memory.data(), 10, memory.data() + 1024};
const PlacedTile A{memory.data() + 2048, 11, memory.data() + 3072};
const PlacedTile B{memory.data() + 4096, 12};

Step of(const Kernel& kernel) {
  return {.kernel = kernel, .a = {.tile = {}, .first_row = 2}, .b = {.tile = {}, .first_row = 3}, .first_row = 4};
}
Step level3(Routine routine) { return of(Level3{.routine = routine, .m = n, .n = n, .k = n}); }
const kernels::Panel lu{.kind = kernels::PanelKind::lu, .m = n, .n = n};
const kernels::Panel qr{.kind = kernels::PanelKind::qr, .m = n, .n = n};

// Operands may begin in the middle of a tile, the output of Level 3 does not.
TEST(Step, PlacesOperandsOfLevel3FromTheirFirstRowOn) {
  const auto call = std::get<Level3>(level3(Routine::gemm).placed(C, A, B));
  EXPECT_EQ(call.A, A.address + 2 * element);
  EXPECT_EQ(call.lda, 11);
  EXPECT_EQ(call.B, B.address + 3 * element);
  EXPECT_EQ(call.ldb, 12);
  EXPECT_EQ(call.C, C.address);
  EXPECT_EQ(call.ldc, 10);
}

TEST(Step, PlacesAdditionsAndFactorizations) {
  const auto addition = std::get<kernels::Addition>(of(kernels::Addition{.m = n, .n = n}).placed(C, A, B));
  EXPECT_EQ(addition.X, A.address);
  EXPECT_EQ(addition.ldx, 11);
  EXPECT_EQ(addition.C, C.address);
  EXPECT_EQ(addition.ldc, 10);
  int info = 0;
  const auto tile = std::get<kernels::TileFactorization>(of(kernels::TileFactorization{.n = n}).placed(C, A, B, &info));
  EXPECT_EQ(tile.A, C.address);
  EXPECT_EQ(tile.lda, 10);
  EXPECT_EQ(tile.info, &info);
}

TEST(Step, PlacesPanelsWithTheirTails) {
  const auto factored = std::get<PanelFactorization>(of(PanelFactorization{.panel = lu}).placed(C, A, B)).panel;
  EXPECT_EQ(factored.A, C.address + 4 * element);
  EXPECT_EQ(factored.lda, 10);
  EXPECT_EQ(factored.tail, C.tail);
  const auto update = std::get<kernels::PanelUpdate>(of(kernels::PanelUpdate{.panel = lu, .n = n}).placed(C, A, B));
  EXPECT_EQ(update.panel.A, A.address + 2 * element);
  EXPECT_EQ(update.panel.lda, 11);
  EXPECT_EQ(update.panel.tail, A.tail);
  EXPECT_EQ(update.C, C.address + 4 * element);
  EXPECT_EQ(update.ldc, 10);
}

TEST(Step, OnlySumsOnlyAdd) {
  EXPECT_TRUE(level3(Routine::gemm).only_adds());
  EXPECT_TRUE(level3(Routine::symm).only_adds());
  EXPECT_TRUE(of(kernels::Addition{}).only_adds());
  EXPECT_FALSE(level3(Routine::trmm).only_adds());
  EXPECT_FALSE(level3(Routine::trsm).only_adds());
  EXPECT_FALSE(of(kernels::TileFactorization{}).only_adds());
  EXPECT_FALSE(of(kernels::PanelUpdate{.panel = lu}).only_adds());
}

TEST(Step, TellsOfFactorizationsAndPanels) {
  struct Case {
    Step step;
    bool factors, may_break_down, leaves_gaps, has_panel;
    std::string name;
  };
  const Case cases[] = {{level3(Routine::gemm), false, false, false, false, "gemm"},
                        {of(kernels::Addition{}), false, false, false, false, "add"},
                        {of(kernels::TileFactorization{}), true, true, false, false, "potrf"},
                        {of(PanelFactorization{.panel = lu}), true, false, false, true, name_of(lu.kind)},
                        {of(kernels::PanelUpdate{.panel = lu}), false, false, true, true, "apply LU"},
                        {of(kernels::PanelUpdate{.panel = qr}), false, false, true, true, "apply QR"}};
  for (const Case& each : cases) {
    EXPECT_EQ(each.step.name(), each.name);
    EXPECT_EQ(each.step.factors(), each.factors) << each.name;
    EXPECT_EQ(each.step.may_break_down(), each.may_break_down) << each.name;
    EXPECT_EQ(each.step.leaves_gaps(), each.leaves_gaps) << each.name;
    EXPECT_EQ(each.step.has_panel(), each.has_panel) << each.name;
  }
}

TEST(Step, CountsOperationsOfProductsButNotOfAdditions) {
  EXPECT_EQ(level3(Routine::gemm).flops(), 2.0 * n * n * n);
  EXPECT_EQ(of(kernels::Addition{.m = n, .n = n}).flops(), 0);
  EXPECT_GT(of(PanelFactorization{.panel = lu, .columns = n}).flops(), 0);
}

// Tasks run one after the other, by number.
TEST(Step, AReadGetsResultsOfEarlierTasks) {
  const Read read{.tile = {memory.data(), n, n, n}, .writer = 5};
  EXPECT_EQ(read.result_of(6), 5);
  EXPECT_EQ(read.result_of(5), no_task);
  EXPECT_EQ(read.result_of(4), no_task);
  EXPECT_EQ(Read{}.result_of(4), no_task);
  EXPECT_TRUE(read.exists());
  EXPECT_FALSE(Read{}.exists());
}

// Only the diagonal of a Hermitian matrix is real, and only tiles on it are triangles.
TEST(Step, AdditionsKnowTheTile) {
  cache::HostTile tile{memory.data(), n, n - 1, n};
  const Read X{.tile = {memory.data(), n, n, n}};
  const auto addition = [&](bool hermitian) {
    const Step step = addition_step(ScalarType::z, hermitian, tile, X, 3);
    EXPECT_EQ(step.a.tile, X.tile);
    return std::get<kernels::Addition>(step.kernel);
  };
  const auto full = addition(true);
  EXPECT_EQ(full.type, ScalarType::z);
  EXPECT_EQ(full.m, n);
  EXPECT_EQ(full.n, n - 1);
  EXPECT_EQ(full.factor, AnyScalar(3));
  EXPECT_FALSE(full.hermitian);
  tile.part = Part::lower;
  EXPECT_EQ(addition(true).part, Part::lower);
  EXPECT_TRUE(addition(true).hermitian);
  EXPECT_FALSE(addition(false).hermitian);
}

}  // namespace step_test
}  // namespace tessera::runtime
