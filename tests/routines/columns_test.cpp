// LU and QR by block columns, and LQ by block rows, through the tile runtime. All types and shapes, on several devices,
// with plenty of memory and with as little as allowed; pivots that are zero, reflectors that do nothing; devices that
// are lost.
#include <gtest/gtest.h>

#include <complex>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "routines/lapack.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/columns_problem.hpp"
#include "tests/routines/host_runtime.hpp"
#include "tests/routines/tile_machine.hpp"

namespace tessera::routines {
namespace columns_test {

using kernels::PanelKind;
using test::ColumnsCase;
using test::ColumnsFixture;
using test::TileMachine;

constexpr index_t width = TileMachine::tile;
constexpr PanelKind all_kinds[] = {PanelKind::lu, PanelKind::qr, PanelKind::lq};

class ColumnsConformance : public test::OnTileMachine {
 protected:
  template <Scalar T>
  runtime::JobStatistics expect_right(const ColumnsCase& c, unsigned seed, index_t forced = width) {
    ColumnsFixture<T> fixture(c, seed);
    const runtime::JobStatistics statistics = fixture.run(*runtime_, forced);
    EXPECT_TRUE(fixture.check(statistics.info)) << "type " << letter(scalar_type_of<T>());
    EXPECT_EQ(statistics.restarts, 0);
    return statistics;
  }
  runtime::JobStatistics expect_right(ScalarType type, const ColumnsCase& c, unsigned seed, index_t forced = width) {
    return dispatch(type, [&]<Scalar T>(T) { return expect_right<T>(c, seed, forced); });
  }
};

TEST_P(ColumnsConformance, EveryShape) {
  if (GetParam().tiles < 20) GTEST_SKIP() << "has no memory for one column per stream";
  unsigned seed = 1;
  constexpr index_t sizes[] = {1, 2, width - 1, width, width + 1, 3 * width + 5, 7 * width + 1};
  for (const PanelKind kind : all_kinds) {
    for (const ScalarType type : test::all_types) {
      for (const index_t m : sizes) {
        for (const index_t n : sizes)
          expect_right(type, {.kind = kind, .m = m, .n = n, .padding = seed % 2 == 0 ? 0 : 5}, seed), ++seed;
      }
    }
  }
}

TEST_P(ColumnsConformance, PanelsThatAreFactoredInParts) {
  if (GetParam().devices > 2 || GetParam().tiles < 4096)
    GTEST_SKIP() << "takes too long, or has no memory for wide columns";
  unsigned seed = 500;
  for (const PanelKind kind : all_kinds) {
    for (const ScalarType type : test::all_types) {
      for (const auto& [m, n, columns] : std::vector<std::tuple<index_t, index_t, index_t>>{
               {180, 170, 150}, {150, 40, 40}, {100, 230, 100}, {200, 130, 65}})
        expect_right(type, {.kind = kind, .m = m, .n = n}, seed++, columns);
    }
  }
}

TEST_P(ColumnsConformance, TellsWhichPivotIsZero) {
  constexpr index_t n = 4 * width + 3;
  unsigned seed = 1000;
  for (const ScalarType type : test::all_types) {
    for (const index_t column : {index_t{0}, width - 1, width, 2 * width + 3, n - 1}) {
      const auto statistics = expect_right(type, {.m = n + 2, .n = n, .zero_column = column}, seed++);
      EXPECT_EQ(statistics.info, column + 1);
      EXPECT_EQ(expect_right(type, {.m = n, .n = n}, seed++).info, 0) << "the call after it";
    }
  }
}

TEST_P(ColumnsConformance, ReflectorsMayDoNothing) {
  unsigned seed = 2000;
  for (const ScalarType type : test::all_types) {
    for (const index_t column : {index_t{0}, width - 1, width, 2 * width + 3}) {
      for (const PanelKind kind : {PanelKind::qr, PanelKind::lq}) {
        const index_t m = (kind == PanelKind::qr ? 4 : 3) * width + 2, n = 7 * width + 4 - m;
        expect_right(type, {.kind = kind, .m = m, .n = n, .zero_column = column}, seed++);
        expect_right(type, {.kind = kind, .m = 3 * width, .n = 3 * width, .equal_columns = true}, seed++);
      }
    }
  }
}

TEST_P(ColumnsConformance, MovesEachColumnOnceWhereThereIsMemory) {
  if (GetParam().tiles < 4096 || GetParam().unequal || !GetParam().peers)
    GTEST_SKIP() << "moves more, or takes too long";
  for (const PanelKind kind : all_kinds) {
    constexpr index_t n = 9 * width + 3;
    const auto statistics = expect_right<double>({.kind = kind, .m = n, .n = n}, 3);
    EXPECT_EQ(statistics.bytes_up(), statistics.compulsory_up);
    index_t tails = 0;
    for (index_t first = 0; first < n; first += width)
      tails += kernels::tail_bytes(kind, ScalarType::d, std::min(width, n - first));
    EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down + tails);
  }
}

TESSERA_ON_TILE_MACHINES(ColumnsConformance);

// --- the graph ---

// Else a panel that is computed once more after a loss, with other pivots, would not fit what is at home already.
TEST(ColumnsGraph, ColumnsGoHomeInOrder) {
  runtime::Machine machine;
  machine.devices = 2;
  machine.heap_bytes = std::size_t{1} << 30;
  std::vector<double> A(400 * 300);
  std::vector<index_t> pivots(300);
  const LuCall call{ScalarType::d, 400, 300, A.data(), 400, pivots.data()};
  const auto graph = choose_plan(call, {&machine, 1}, 50).graph;
  ASSERT_EQ(graph->task_count, 6);
  for (runtime::TaskId task = 0; task < 6; ++task) {
    EXPECT_EQ(graph->of(task).write_after, task == 0 ? runtime::no_task : task - 1);
    EXPECT_EQ(graph->step_count(task), task + 1);
    EXPECT_TRUE(graph->of(task).needs_old);
  }
}

// The graph of LQ is that of QR of the adjoint.
TEST(ColumnsGraph, BlockRowsAreColumnsOfTheAdjoint) {
  runtime::Machine machine;
  machine.heap_bytes = std::size_t{1} << 30;
  std::vector<double> A(300 * 400), tau(300);
  const QrCall call{ScalarType::d, 300, 400, A.data(), 300, tau.data(), ReflectorStorage::rows};
  const auto graph = choose_plan(call, {&machine, 1}, 50).graph;
  ASSERT_EQ(graph->task_count, 6);
  const runtime::HostTile tile = graph->output(2).tile;
  EXPECT_EQ(tile.address, reinterpret_cast<std::byte*>(A.data() + 100));
  EXPECT_EQ(tile.rows, 50);
  EXPECT_EQ(tile.cols, 400);
  // Panel 1 begins on the diagonal, in column 50.
  std::vector<double> C(50 * 400), panel(50 * 400);
  const runtime::Kernel kernel =
      graph->step(2, 1).placed({reinterpret_cast<std::byte*>(C.data()), 50, nullptr},
                               {reinterpret_cast<std::byte*>(panel.data()), 50, nullptr}, {});
  const auto& update = std::get<kernels::PanelUpdate>(kernel);
  EXPECT_EQ(update.panel.A, panel.data() + 50 * 50);
  EXPECT_EQ(update.C, C.data() + 50 * 50);
  EXPECT_EQ(update.panel.m, 350);
  EXPECT_EQ(update.n, 50);
}

// --- losses ---

/// @return how often it began again
std::int64_t compute(test::HostRuntime& machine, const ColumnsCase& c, const std::string& what) {
  ColumnsFixture<double> fixture(c, 5);
  try {
    const runtime::JobStatistics statistics = fixture.run(*machine.runtime, width);
    EXPECT_TRUE(fixture.check(statistics.info)) << what;
    return statistics.restarts;
  } catch (const NoDeviceLeft&) {  // A is untouched
    EXPECT_TRUE(machine.runtime->devices().empty()) << what;
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  return 0;
}

TEST(ColumnsFaultModel, ALossAtAnyMomentLeavesFactorsAndPivotsRight) {
  constexpr FailingOperation operations[] = {FailingOperation::up, FailingOperation::down, FailingOperation::peer,
                                             FailingOperation::to_peer, FailingOperation::kernel};
  constexpr index_t n = 7 * width + 3;
  std::int64_t restarts = 0;
  for (const int devices : {1, 2, 3}) {
    for (const index_t columns : {400, 14}) {
      for (const FailingOperation operation : operations) {
        for (const std::int64_t number : {0, 1, 4, 9, 14, 19, 30}) {
          HostDeviceSettings settings;
          settings.memory_bytes = static_cast<std::size_t>(columns * (width + 4) * n) * sizeof(double);
          std::vector<HostDeviceSettings> all(static_cast<std::size_t>(devices), settings);
          all.front().failing_operation = operation;
          all.front().fail_after_ops = number;
          test::HostRuntime machine(all, Config::from_settings("TESSERA_KEEP_OLD_VALUES=peers"));
          std::ostringstream what;
          what << "operation " << number << " of kind " << static_cast<int>(operation) << ", " << devices
               << " devices, room for " << columns << " columns";
          const PanelKind kind = all_kinds[(number + devices) % 3];
          restarts += compute(machine, {.kind = kind, .m = n, .n = n}, what.str());
          compute(machine, {.kind = kind, .m = n, .n = n - 5}, what.str() + ", the call after it");
        }
      }
    }
  }
  EXPECT_GT(restarts, 20);
}

// The host moves rows of L meanwhile, which others must find as they were.
TEST(ColumnsFaultModel, ALossWhileTheHostMovesRows) {
  constexpr index_t m = 2000, n = 160, narrow = 10;
  constexpr std::int64_t never = -1;
  for (const auto& [devices, number] :
       {std::pair(2, never), std::pair(2, std::int64_t{45}), std::pair(1, std::int64_t{110})}) {
    HostDeviceSettings settings;
    settings.memory_bytes = std::size_t{64} << 20;
    std::vector<HostDeviceSettings> all(static_cast<std::size_t>(devices), settings);
    all.front().failing_operation = FailingOperation::kernel;
    all.front().fail_after_ops = number;
    test::HostRuntime machine(all, Config::from_settings("TESSERA_KEEP_OLD_VALUES=peers"));
    ColumnsFixture<std::complex<double>> fixture({.m = m, .n = n}, 5);
    const runtime::JobStatistics statistics = fixture.run(*machine.runtime, narrow);
    EXPECT_TRUE(fixture.check(statistics.info)) << devices << " devices, kernel " << number;
    EXPECT_EQ(statistics.restarts, number == never ? 0 : 1);
  }
}

// --- the schedule ---

TEST(ColumnsScheduleModel, IsNearTheBound) {
  const auto run_on = [](int devices, double memory_gb, double least_fraction) {
    test::ModelledMachine machine = test::modelled_h200(devices);
    machine.memory_bytes = static_cast<std::size_t>(memory_gb * 1e9);
    const test::ModelledRun run = test::modelled_columns(machine, LuCall{.m = 30000, .n = 30000});
    EXPECT_GT(run.fraction_of_bound(), least_fraction) << devices << " devices, " << memory_gb << " GB";
    EXPECT_EQ(run.still_pinned, 0);
    EXPECT_EQ(run.missed_wakeups, 0);
    return run;
  };
  for (const int devices : {1, 2}) {
    const test::ModelledRun run = run_on(devices, 100, devices == 1 ? 0.6 : 0.4);
    EXPECT_EQ(run.bytes_up, run.compulsory_up);
  }
  run_on(1, 4.3, 0.4);
}

}  // namespace columns_test
}  // namespace tessera::routines
