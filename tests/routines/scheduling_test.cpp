// Properties of the whole runtime, measured by counters and modelled time: traffic, balance, survival of failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "core/error.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/gemm_problem.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace scheduling_test {

using test::GemmCase;
using test::HostRuntime;

constexpr index_t tile = 16;
constexpr std::size_t tile_bytes = tile * tile * sizeof(double);

std::vector<HostDeviceSettings> devices_with(int count, std::size_t memory_bytes) {
  HostDeviceSettings settings;
  settings.memory_bytes = memory_bytes;
  return std::vector<HostDeviceSettings>(static_cast<std::size_t>(count), settings);
}

// Of one H200 or several: its memory, and columns that should not be shorter.
runtime::Machine machine_with(int devices) {
  return {.devices = devices, .heap_bytes = std::size_t{130} << 30, .segment_bytes = 32768};
}

// Operands of graphs that do not run: only addresses count.
alignas(8) std::byte memory[64];

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

TEST(Runtime, LeavesDevicesAloneForWhichThereIsTooLittle) {
  auto settings = devices_with(3, 400 * tile_bytes);
  for (HostDeviceSettings& device : settings) device.share_bytes = 100 * tile_bytes;
  HostRuntime host(settings);
  const auto devices_used = [&](index_t n) {
    test::GemmFixture<double> fixture({.m = n, .n = n, .k = n, .alpha = 2, .beta = 0.5}, 5);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.devices.size(), 3u);
    return std::count_if(statistics.devices.begin(), statistics.devices.end(),
                         [](const auto& device) { return device.misses + device.l1_hits + device.l2_hits > 0; });
  };
  EXPECT_EQ(devices_used(5 * tile), 1);   // 75 tiles to bring
  EXPECT_EQ(devices_used(8 * tile), 1);   // 192
  EXPECT_LE(devices_used(9 * tile), 2);   // 243
  EXPECT_GE(devices_used(11 * tile), 1);  // 363: all three may take part, or one that is quick does all
}

TEST(Runtime, TakesAnotherDeviceWhereTheOnlyOneIsLost) {
  auto settings = devices_with(2, 400 * tile_bytes);
  for (HostDeviceSettings& device : settings) device.share_bytes = 1000 * tile_bytes;
  settings[0].fail_after_ops = 20;
  HostRuntime host(settings);
  test::GemmFixture<double> fixture({.m = 5 * tile, .n = 5 * tile, .k = 5 * tile, .alpha = 2, .beta = 0}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_EQ(statistics.restarts, 1);
  EXPECT_GT(statistics.devices[1].tasks, 0);
  EXPECT_EQ(host.host_products, 0);
}

// Where the link takes longest, a task ends with the addition of its old values: one step more. So it does where one of several devices is enough.
TEST(Runtime, AddsOldValuesLastWhereTheLinkIsSlow) {
  for (const int devices : {1, 2}) {
    auto settings = devices_with(devices, 400 * tile_bytes);
    for (HostDeviceSettings& device : settings) {
      device.flops_per_s = 1e12;
      device.link_bytes_per_s = 2e8;
      device.share_bytes = 1000 * tile_bytes;
    }
    HostRuntime host(settings);
    for (const double beta : {0.0, 0.5}) {
      test::GemmFixture<double> fixture({.m = 4 * tile, .n = 5 * tile, .k = 3 * tile, .alpha = 2, .beta = beta}, 5);
      const auto statistics = run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check());
      EXPECT_EQ(statistics.devices[0].tasks, 20);
      EXPECT_EQ(statistics.devices[0].steps, 20 * (beta == 0 ? 3 : 4)) << devices << " devices, beta " << beta;
    }
  }
}

// Of three devices, one of which does not take part.
TEST(TaskPool, TellsWhenAllHaveArrivedAndWhenItEndsSoon) {
  Level3 call{.routine = Routine::gemm, .m = 2 * tile, .n = 2 * tile, .k = tile};
  call.A = call.B = call.C = memory;
  call.lda = call.ldb = call.ldc = 2 * tile;
  const auto graph = make_accumulation(call, {.devices = 3, .heap_bytes = 100 * tile_bytes}, tile);
  int announced = 0;
  runtime::TaskPool job(
      *graph, {true, false, true}, {0, 1, 2, 3}, false, [] {}, [&] { ++announced; });
  EXPECT_EQ(job.device_count(), 3U);
  EXPECT_EQ(job.usable_count(), 2U);
  job.arrive();
  EXPECT_FALSE(job.all_arrived());
  job.arrive();
  EXPECT_TRUE(job.all_arrived());
  for (int task = 0; task < 4; ++task) {
    EXPECT_FALSE(job.ends_soon());
    EXPECT_EQ(announced, 0);
    job.begin_write_back();
  }
  EXPECT_TRUE(job.ends_soon());
  EXPECT_EQ(announced, 1);
  for (runtime::TaskId task = 0; task < 4; ++task) {
    EXPECT_FALSE(job.ended());
    job.finish_task(task);
  }
  EXPECT_TRUE(job.ended());
}

// The last groups are left to devices that can start them now: as many as take part, not as many as there are.
TEST(TaskPool, DealsGroupsAheadToThoseWhoTakePart) {
  Level3 call{.routine = Routine::gemm, .m = 12 * tile, .n = 12 * tile, .k = 12 * tile};
  call.A = call.B = call.C = memory;
  call.lda = call.ldb = call.ldc = 12 * tile;
  const auto graph = make_accumulation(call, {.devices = 1, .heap_bytes = 30 * tile_bytes}, tile);
  ASSERT_TRUE(graph->grouped());
  std::vector<runtime::TaskId> pending;
  for (runtime::TaskId task = 0; task < graph->task_count; ++task) pending.push_back(task);
  const auto drawn_ahead = [&](const std::vector<bool>& usable) {
    runtime::TaskPool job(
        *graph, usable, pending, false, [] {}, [] {});
    std::size_t tasks = 0;
    for (auto group = job.draw_group(true); !group.empty(); group = job.draw_group(true)) tasks += group.size();
    return tasks;
  };
  EXPECT_EQ(drawn_ahead({true}), pending.size());
  EXPECT_EQ(drawn_ahead({true, false, false, false}), pending.size());
  EXPECT_LT(drawn_ahead({true, true, true, true}), pending.size());
}

// Devices so slow that the CPU, were it as slow as the reference, gets something to do.
TEST(CpuWorker, ComputesTilesBesideTheDevices) {
  auto settings = devices_with(2, 400 * tile_bytes);
  for (HostDeviceSettings& device : settings) device.delay_s = 2e-3;
  HostRuntime host(settings);
  test::GemmFixture<double> fixture({.m = 10 * tile, .n = 9 * tile + 3, .k = 5 * tile, .alpha = 2, .beta = 0.5}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile, {.always = true});
  EXPECT_TRUE(fixture.check());
  ASSERT_EQ(statistics.devices.size(), 3u);
  EXPECT_EQ(statistics.devices.back().device, "cpu");
  EXPECT_GT(statistics.devices.back().tasks, 0);
  EXPECT_EQ(statistics.devices.back().steps, 5 * statistics.devices.back().tasks);
  EXPECT_EQ(statistics.devices.back().bytes_up, 0);
  std::int64_t tasks = 0;
  double flops = 0;
  for (const auto& device : statistics.devices) {
    tasks += device.tasks;
    flops += device.flops;
  }
  EXPECT_EQ(tasks, 100);
  EXPECT_DOUBLE_EQ(flops, statistics.flops);
}

TEST(CpuWorker, TakesNothingUnlessItHelps) {
  HostRuntime host(devices_with(1, 400 * tile_bytes));
  test::GemmFixture<double> fixture({.m = 10 * tile, .n = 10 * tile, .k = tile, .alpha = 2, .beta = 0.5}, 5);
  const runtime::CpuHelp slow{.flops_per_s = 1e9, .devices_flops_per_s = 1e12};
  for (const runtime::CpuHelp& help : {runtime::CpuHelp{}, slow}) {
    const auto statistics = run(*host.runtime, fixture.problem(), tile, help);
    EXPECT_EQ(statistics.devices.size(), 1u);
    EXPECT_EQ(host.host_products, 0);
  }
}

TEST(CpuWorker, LeavesTasksThatWaitForEachOtherToTheDevices) {
  HostRuntime host(devices_with(1, 400 * tile_bytes));
  for (const Routine routine : {Routine::trmm, Routine::trsm}) {
    test::Level3Fixture<double> fixture({.routine = routine, .m = 5 * tile, .n = 5 * tile, .alpha = 2}, 5);
    const auto statistics = run(*host.runtime, fixture.problem(), tile, {.always = true});
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.devices.size(), 1u);
  }
}

// The caller gets the exception of the CPU's part, and the devices are ready for the next call.
TEST(CpuWorker, AnErrorOfItsEndsTheJob) {
  auto settings = devices_with(1, 400 * tile_bytes);
  settings[0].delay_s = 2e-3;  // so that it does not end before the CPU has begun
  auto opened = test::open_host_devices(1, settings, test::cpu_blas());
  runtime::Runtime failing(std::move(opened.accelerators), Config{},
                           [](const Level3&) { throw NotAvailable("no CPU BLAS"); });
  test::GemmFixture<double> fixture({.m = 10 * tile, .n = 10 * tile, .k = tile, .alpha = 2, .beta = 0}, 5);
  EXPECT_THROW(run(failing, fixture.problem(), tile, {.always = true}), NotAvailable);
  run(failing, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
}

// The operation with each of these numbers fails on one of three devices; whatever it was, the result is right or the call says no.
TEST(FailureModel, OtherDevicesFinishTheJob) {
  int survived = 0;
  for (const std::int64_t failing_operation : {0, 1, 2, 5, 11, 23, 47, 95, 150, 300}) {
    auto settings = devices_with(3, 64 * tile_bytes);
    settings[1].fail_after_ops = failing_operation;
    HostRuntime host(settings);
    test::GemmFixture<double> fixture({.m = 7 * tile, .n = 6 * tile + 1, .k = 5 * tile, .alpha = 2, .beta = 0}, 5);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check()) << "operation " << failing_operation;
    if (statistics.restarts > 0) {
      ++survived;
      EXPECT_EQ(host.runtime->devices().size(), 2u);
    }
    EXPECT_EQ(host.host_products, 0);
    // Perhaps the failure comes only now, and with beta == 0 it can always be survived.
    test::GemmFixture<double> next({.m = 3 * tile, .n = 2 * tile, .k = tile, .alpha = 2, .beta = 0}, 6);
    run(*host.runtime, next.problem(), tile);
    EXPECT_TRUE(next.check());
  }
  EXPECT_GT(survived, 4);
}

// A product in place, whose first step comes last on devices and first on the CPU.
TEST(FailureModel, OthersFinishAWideTriangularProduct) {
  int survived = 0;
  int finished_by_cpu = 0;
  for (const int devices : {1, 2}) {
    for (std::int64_t failing_operation = 0; failing_operation < 240; failing_operation += 3) {
      auto settings = devices_with(devices, 4000 * tile_bytes);
      settings.back().fail_after_ops = failing_operation;
      HostRuntime host(settings);
      test::Level3Fixture<double> fixture({.routine = Routine::trmm, .m = 4 * tile + 1, .n = 12 * tile + 3, .alpha = 2},
                                          5);
      const auto statistics = run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check()) << "operation " << failing_operation << " of " << devices << " devices";
      if (statistics.restarts > 0) ++survived;
      if (host.host_products > 0) ++finished_by_cpu;
    }
  }
  EXPECT_GT(survived, 20);
  EXPECT_GT(finished_by_cpu, 20);
}

TEST(FailureModel, TheCpuFinishesWhenNoDeviceIsLeft) {
  auto settings = devices_with(2, 64 * tile_bytes);
  settings[0].fail_after_ops = 40;
  settings[1].fail_after_ops = 25;
  HostRuntime host(settings);
  test::GemmFixture<double> fixture({.m = 7 * tile, .n = 6 * tile, .k = 5 * tile + 3, .alpha = 2, .beta = 0}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_GT(host.host_products, 0);
  EXPECT_EQ(statistics.devices.back().device, "cpu");
  EXPECT_GT(statistics.devices.back().tasks, 0);
  EXPECT_TRUE(host.runtime->devices().empty());
}

// Where old values are not kept, a failure before the write-backs is survived; one in the middle of a write-back must be reported. Long
// kernels are not launched before their tiles have come, so that a copy that fails must be seen without them.
void expect_no_silent_torn_tile(double flops_per_s, double link_bytes_per_s = 0) {
  int reported = 0;
  int survived = 0;
  for (std::int64_t failing_operation = 0; failing_operation < 60; ++failing_operation) {
    auto settings = devices_with(1, 64 * tile_bytes);
    settings[0].fail_after_ops = failing_operation;
    settings[0].flops_per_s = flops_per_s;
    settings[0].link_bytes_per_s = link_bytes_per_s;
    HostRuntime host(settings, Config::from_settings("TESSERA_KEEP_OLD_VALUES=off"));
    test::GemmFixture<double> fixture({.m = 3 * tile, .n = 3 * tile, .k = 2 * tile, .alpha = 2, .beta = 1}, 5);
    try {
      run(*host.runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check()) << "operation " << failing_operation;
      ++survived;
    } catch (const DeviceLost&) {
      ++reported;
    }
  }
  EXPECT_GT(reported, 0);
  EXPECT_GT(survived, 20);
}
TEST(FailureModel, ATornTileIsNeverKeptSilent) { expect_no_silent_torn_tile(0); }
TEST(FailureModel, ATornTileIsNeverKeptSilentWhereKernelsAreLong) {
  constexpr double step_flops = 2.0 * tile * tile * tile;
  expect_no_silent_torn_tile(step_flops / 0.0003);
}

TEST(FailureModel, ATornTileIsNeverKeptSilentWhereTheLinkIsSlow) { expect_no_silent_torn_tile(1e12, 2e8); }

// The devices that are left decide about tiles, not those that are gone.
TEST(FailureModel, ALostSmallDeviceDoesNotStandInTheWay) {
  auto settings = devices_with(2, 4000 * tile_bytes);
  settings[0].memory_bytes = 3000 * tile_bytes;  // not so weak that it is left out
  settings[0].fail_after_ops = 3;
  HostRuntime host(settings);
  for (int call = 0; call < 3; ++call) {
    test::GemmFixture<double> fixture({.m = 20 * tile, .n = 20 * tile, .k = 20 * tile, .alpha = 2, .beta = 0}, 5);
    run(*host.runtime, fixture.problem());
    EXPECT_TRUE(fixture.check()) << call;
  }
  EXPECT_EQ(host.runtime->devices().size(), 1u);
}

// The smallest memory of those that take part decides how large tiles are.
TEST(Runtime, LeavesOutADeviceThatHasNextToNoMemory) {
  auto settings = devices_with(3, 4000 * tile_bytes);
  settings[1].memory_bytes = 2048;
  HostRuntime host(settings);
  EXPECT_EQ(host.machine().devices, 2);
  EXPECT_EQ(host.machine().heap_bytes, 4000 * tile_bytes);
  test::GemmFixture<double> fixture({.m = 6 * tile, .n = 6 * tile, .k = 6 * tile, .alpha = 2, .beta = 0.5}, 5);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_EQ(statistics.devices[1].tasks, 0);
  EXPECT_EQ(statistics.devices[0].tasks + statistics.devices[2].tasks, 36);
}

TEST(Runtime, RefusesMemoryThatCannotHoldAStep) {
  HostRuntime host(devices_with(1, 2 * 256));
  test::GemmFixture<double> fixture({.m = tile, .n = tile, .k = tile, .alpha = 1, .beta = 1}, 1);
  const auto problem = fixture.problem();
  EXPECT_THROW(run(*host.runtime, problem, tile), OutOfDeviceMemory);
}

TEST(Runtime, ShrinksATileThatDoesNotFit) {
  HostRuntime host(devices_with(2, 12 * 256));
  test::GemmFixture<double> fixture({.m = 3 * tile, .n = 3 * tile, .k = 3 * tile, .alpha = 1, .beta = 1}, 1);
  const auto statistics = run(*host.runtime, fixture.problem(), tile);
  EXPECT_TRUE(fixture.check());
  EXPECT_LE(statistics.tile_m * statistics.tile_n * 8, 256);
}

TEST(Runtime, ServesCallersOnManyThreads) {
  HostRuntime host(devices_with(2, 40 * tile_bytes));
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (unsigned t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (unsigned call = 0; call < 10; ++call) {
        const GemmCase c{.m = 1 + 7 * t, .n = 60 - 3 * call, .k = 40 + t, .alpha = 1, .beta = 1};
        test::GemmFixture<double> fixture(c, 100 * t + call);
        run(*host.runtime, fixture.problem(), tile);
        if (!fixture.check()) ++wrong[t];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

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

// With A on the right a line of tiles is as tall as columns should be, so that tiles are cut the other way where there are few.
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

}  // namespace scheduling_test
}  // namespace tessera::routines
