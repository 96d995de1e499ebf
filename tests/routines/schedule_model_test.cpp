// Schedules on a modelled machine (tests/modelled_run.hpp): what was gained in the order of tasks, steps and copies must not be lost
// unnoticed. The limits are a little below what the model gives today (docs/adr/0008-schedule.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/ceil_div.hpp"
#include "routines/grouping.hpp"
#include "routines/level3.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/square_call.hpp"

namespace tessera::routines {
namespace schedule_model_test {

using test::modelled_h200;
using test::modelled_run;
using test::ModelledMachine;
using test::ModelledRun;
using test::square_call;

constexpr Routine real_routines[] = {Routine::gemm,  Routine::gemmt, Routine::symm, Routine::syrk,
                                     Routine::syr2k, Routine::trmm,  Routine::trsm};

struct Expectation {
  Routine routine;
  int devices;
  double fraction;  ///< of the bound, at n = 16384
  double in_pages;  ///< likewise, where the copy engine is slow with halves of pages, as a GPU's is at this n
};

class ScheduleModel : public ::testing::TestWithParam<Expectation> {};

// Kernels run to their end here; who interrupts whom is judged apart (OlderTasksEndFirst).
TEST_P(ScheduleModel, ReachesMostOfTheBound) {
  ModelledMachine machine = modelled_h200(GetParam().devices);
  ModelledMachine machine_in_pages = test::modelled_h200_in_pages(GetParam().devices);
  machine.interrupts = machine_in_pages.interrupts = false;
  const ModelledRun run = modelled_run(machine, square_call(GetParam().routine, 16384));
  EXPECT_GE(run.fraction_of_bound(), GetParam().fraction);
  const ModelledRun in_pages = modelled_run(machine_in_pages, square_call(GetParam().routine, 16384));
  EXPECT_GE(in_pages.fraction_of_bound(), GetParam().in_pages);
  RecordProperty("fraction_of_bound", std::to_string(run.fraction_of_bound()));
}

TEST_P(ScheduleModel, EveryTileCrossesAHostLinkOnce) {
  const ModelledRun run = modelled_run(modelled_h200(GetParam().devices), square_call(GetParam().routine, 16384));
  EXPECT_EQ(run.bytes_up, run.compulsory_up);
  EXPECT_EQ(run.bytes_down, run.compulsory_down);
}

TEST_P(ScheduleModel, TheSameCallTakesTheSameTime) {
  const auto once = [] {
    return modelled_run(modelled_h200(GetParam().devices), square_call(GetParam().routine, 8192));
  };
  EXPECT_EQ(once().seconds, once().seconds);
}

// Old values go over the links between devices, which have little else to do: they are all kept, and hold nothing up.
TEST_P(ScheduleModel, KeepingOldValuesOnPeersCostsNextToNothing) {
  for (const index_t n : {4096, 16384}) {
    ModelledMachine machine = modelled_h200(GetParam().devices);
    const ModelledRun without = modelled_run(machine, square_call(GetParam().routine, n));
    machine.keeps_old_values = true;
    const ModelledRun with = modelled_run(machine, square_call(GetParam().routine, n));
    if (GetParam().devices == 1) {
      EXPECT_EQ(with.bytes_kept, 0);
      EXPECT_EQ(with.seconds, without.seconds);
      continue;
    }
    EXPECT_GE(with.bytes_kept, with.compulsory_down);
    EXPECT_EQ(without.bytes_kept, 0);
    EXPECT_EQ(with.bytes_up, without.bytes_up);
    EXPECT_EQ(with.still_pinned, 0);
    EXPECT_LE(with.seconds, 1.03 * without.seconds) << n;
  }
}

// A kernel that overwrites the old value on the device, or ends the task, begins when the copy is whole, and so does the
// write-back. Tasks without a kernel that adds the old value have it in the output, but for trmm.
TEST_P(ScheduleModel, OldValuesAreCopiedBeforeTheyAreOverwritten) {
  if (GetParam().devices == 1) return;
  ModelledMachine machine = modelled_h200(GetParam().devices);
  machine.keeps_old_values = true;
  machine.peer_bytes = 20e9;  // so slow that others would come first
  const ModelledRun run = modelled_run(machine, square_call(GetParam().routine, 8192));
  std::map<index_t, double> copied, first, last;
  std::map<index_t, bool> adds;
  std::size_t written = 0;
  for (const auto& operations : run.operations) {
    for (const device::Operation& operation : operations) {
      if (operation.stream.kind == device::StreamKind::to_peer) copied[operation.task] = operation.end_s;
      if (operation.stream.kind != device::StreamKind::compute) continue;
      const auto [entry, is_first] = first.emplace(operation.task, operation.begin_s);
      if (!is_first) entry->second = std::min(entry->second, operation.begin_s);
      last[operation.task] = std::max(last[operation.task], operation.begin_s);
      adds[operation.task] |= std::string(operation.kernel) == "add";
    }
  }
  for (const auto& operations : run.operations) {
    for (const device::Operation& operation : operations) {
      if (operation.stream.kind != device::StreamKind::down) continue;
      ++written;
      ASSERT_TRUE(copied.contains(operation.task));
      EXPECT_GE(operation.begin_s, copied[operation.task]);
    }
  }
  EXPECT_EQ(copied.size(), written);
  for (const auto& [task, end_s] : copied) {
    EXPECT_GE(last[task], end_s) << task;
    if (!adds[task] && GetParam().routine != Routine::trmm) {
      EXPECT_GE(first[task], end_s) << task;
    }
  }
}

// Devices fetch equal shares of the tiles that all of them need.
TEST_P(ScheduleModel, LinksFetchAboutTheSame) {
  const ModelledRun run = modelled_run(modelled_h200(GetParam().devices), square_call(GetParam().routine, 16384));
  index_t most = 0;
  for (const auto& operations : run.operations) {
    index_t up = 0;
    for (const device::Operation& operation : operations) {
      if (operation.stream.kind == device::StreamKind::up) up += operation.bytes;
    }
    most = std::max(most, up);
  }
  EXPECT_LE(static_cast<double>(most) * GetParam().devices, 1.35 * static_cast<double>(run.bytes_up));
}

INSTANTIATE_TEST_SUITE_P(
    H200, ScheduleModel,
    ::testing::Values(Expectation{Routine::gemm, 1, 0.93, 0.93}, Expectation{Routine::gemm, 2, 0.91, 0.89},
                      Expectation{Routine::gemm, 4, 0.93, 0.94}, Expectation{Routine::gemm, 8, 0.96, 0.96},
                      Expectation{Routine::symm, 1, 0.94, 0.94}, Expectation{Routine::symm, 2, 0.91, 0.91},
                      Expectation{Routine::symm, 4, 0.93, 0.93}, Expectation{Routine::syrk, 1, 0.89, 0.91},
                      Expectation{Routine::syrk, 2, 0.82, 0.75}, Expectation{Routine::syrk, 4, 0.93, 0.92},
                      Expectation{Routine::syr2k, 1, 0.94, 0.94}, Expectation{Routine::syr2k, 2, 0.92, 0.92},
                      Expectation{Routine::syr2k, 4, 0.87, 0.87}, Expectation{Routine::gemmt, 1, 0.91, 0.86},
                      Expectation{Routine::gemmt, 2, 0.88, 0.74}, Expectation{Routine::gemmt, 4, 0.94, 0.84},
                      Expectation{Routine::trmm, 1, 0.86, 0.87}, Expectation{Routine::trmm, 2, 0.81, 0.79},
                      Expectation{Routine::trmm, 4, 0.93, 0.93}, Expectation{Routine::trsm, 1, 0.87, 0.87},
                      Expectation{Routine::trsm, 2, 0.83, 0.82}, Expectation{Routine::trsm, 4, 0.97, 0.96}),
    [](const auto& info) { return name_of(info.param.routine) + std::to_string(info.param.devices); });

// The first lines of a triangular product go all at once, so that the kernels do not wait for the whole triangle.
TEST(ScheduleModelSizes, ManyLinesOfAProductInPlaceUseTheFirstTilesOfTheTriangle) {
  EXPECT_GE(modelled_run(modelled_h200(1), square_call(Routine::trmm, 20000)).fraction_of_bound(), 0.92);
  EXPECT_GE(modelled_run(modelled_h200(1), square_call(Routine::trmm, 24576)).fraction_of_bound(), 0.95);
  EXPECT_GE(modelled_run(modelled_h200(1), square_call(Routine::trmm, 32768)).fraction_of_bound(), 0.97);
}

TEST(ScheduleModelSizes, AllLinesOfANarrowProductInPlaceUseTheTriangleWhileItArrives) {
  const auto fraction_of = [](ScalarType type, index_t m, index_t n) {
    Level3 call = square_call(Routine::trmm, m);
    call.type = type;
    call.n = n;
    return modelled_run(modelled_h200(1), call).fraction_of_bound();
  };
  EXPECT_GE(fraction_of(ScalarType::d, 20000, 1000), 0.94);
  EXPECT_GE(fraction_of(ScalarType::c, 18607, 963), 0.77);
}

// Each device reads the lines of its own tiles from others, once; host memory has sent 3 and 5 GiB.
TEST(ScheduleModelSizes, DevicesReadFewLinesOfARankUpdate) {
  for (const auto& [routine, ratio] : {std::pair{Routine::syrk, 1.01}, std::pair{Routine::syr2k, 1.21}}) {
    const ModelledRun run = modelled_run(modelled_h200(4), square_call(routine, 16384));
    EXPECT_LE(static_cast<double>(run.bytes_peer), ratio * static_cast<double>(run.compulsory_up)) << name_of(routine);
  }
}

// Updates that wait for links have tiles with long columns of C and A. Where computing takes longer, tiles stay small.
TEST(ScheduleModelInPages, RankUpdatesThatWaitForLinksHaveLongColumns) {
  struct Case {
    ScalarType type;
    Routine routine;
    index_t n, k;
    int devices;
    index_t rows_of_tiles;
    double fraction;
  };
  for (const Case& c : {Case{ScalarType::d, Routine::syrk, 8192, 8192, 4, 8, 0.72},
                        Case{ScalarType::d, Routine::syr2k, 20480, 20480, 4, 4, 0.86},
                        Case{ScalarType::c, Routine::syrk, 15120, 73, 4, 4, 0.94},
                        Case{ScalarType::z, Routine::syrk, 23696, 93, 4, 12, 0.97},
                        Case{ScalarType::s, Routine::syrk, 16384, 16384, 4, 8, 0.79},
                        Case{ScalarType::d, Routine::syrk, 16384, 16384, 5, 6, 0.91},
                        Case{ScalarType::d, Routine::syrk, 16384, 16384, 6, 6, 0.93},
                        Case{ScalarType::d, Routine::syrk, 16384, 16384, 8, 6, 0.93},
                        Case{ScalarType::d, Routine::syrk, 24000, 24000, 8, 6, 0.92},
                        Case{ScalarType::d, Routine::syrk, 16384, 16384, 16, 6, 0.92}}) {
    Level3 call = square_call(c.routine, c.n);
    call.type = c.type;
    call.k = c.k;
    const ModelledRun run = modelled_run(test::modelled_h200_in_pages(c.devices), call);
    const std::string what =
        name_of(call) + ' ' + std::to_string(c.n) + 'x' + std::to_string(c.k) + " on " + std::to_string(c.devices);
    EXPECT_EQ(ceil_div(c.n, run.tiling.m), c.rows_of_tiles) << what;
    EXPECT_GE(run.fraction_of_bound(), c.fraction) << what;
  }
}

// Few long lines in turn: results of a line are written one after the other, and wait for the oldest of it.
TEST(ScheduleModelSizes, OlderTasksEndFirstWhereTheyGoInTurn) {
  Level3 call = square_call(Routine::trmm, 11789);
  call.side = Side::right;
  call.uplo = Uplo::upper;
  call.op_a = Op::trans;
  call.m = 8442;
  ModelledMachine machine = modelled_h200(1);
  machine.rates = {RatesByType(50.5e12, 60e12, 50.5e12, 60e12)};
  EXPECT_GE(modelled_run(machine, call).fraction_of_bound(), 0.74);
}

// With the rates at which copy engines move columns, what holds a product of short lines up is when its first results go down.
TEST(ScheduleModelInPages, ShortLinesOfAProductInPlaceGiveTheirFirstResultsEarly) {
  for (const auto& [n, fraction] : {std::pair<index_t, double>{15000, 0.69}, {16384, 0.87}, {17000, 0.80}})
    EXPECT_GE(modelled_run(test::modelled_h200_in_pages(1), square_call(Routine::trmm, n)).fraction_of_bound(),
              fraction)
        << n;
}

TEST(ScheduleModelInPages, WholeColumnsComeAtTheRateOfTheLink) {
  EXPECT_GE(modelled_run(test::modelled_h200_in_pages(1), square_call(Routine::gemm, 8192)).fraction_of_bound(), 0.90);
  EXPECT_GE(modelled_run(test::modelled_h200_in_pages(4), square_call(Routine::gemm, 8192)).fraction_of_bound(), 0.90);
}

// Kernels interrupt others, and the older of two tasks ends first all the same.
TEST(ScheduleModelInPages, OlderTasksEndFirst) {
  for (const auto& [routine, fraction] : {std::pair{Routine::syrk, 0.91}, std::pair{Routine::syr2k, 0.945},
                                          std::pair{Routine::trmm, 0.875}, std::pair{Routine::trsm, 0.88}}) {
    const ModelledRun run = modelled_run(test::modelled_h200_in_pages(1), square_call(routine, 16384));
    EXPECT_GE(run.fraction_of_bound(), fraction) << name_of(routine);
  }
}

// Where the link keeps kernels waiting at the start, more tasks use what it brings.
TEST(ScheduleModelInPages, StarvedDevicesTakeMoreTasks) {
  const auto fraction = [](Routine routine, index_t n) {
    return modelled_run(test::modelled_h200_in_pages(1), square_call(routine, n)).fraction_of_bound();
  };
  EXPECT_GE(fraction(Routine::gemm, 15000), 0.84);
  EXPECT_GE(fraction(Routine::gemm, 32768), 0.975);
  EXPECT_GE(fraction(Routine::syrk, 20000), 0.93);
  EXPECT_GE(fraction(Routine::trsm, 16000), 0.84);
  // Too few tasks for that: they would end together.
  EXPECT_GE(fraction(Routine::syrk, 16000), 0.825);
}

// Where the link takes longest, the job ends soon after the last tile has come: an addition is left to do, and a copy of the result.
TEST(ScheduleModelInPages, OldValuesComeLastWhereTheLinkTakesLongest) {
  for (const Routine routine : {Routine::gemm, Routine::symm, Routine::syrk, Routine::syr2k}) {
    for (const index_t n : {1024, 2048, 4096}) {
      const ModelledMachine machine = test::modelled_h200_in_pages(1);
      const ModelledRun run = modelled_run(machine, square_call(routine, n));
      double last_up = 0;
      for (const device::Operation& operation : run.operations[0]) {
        if (operation.stream.kind == device::StreamKind::up) last_up = std::max(last_up, operation.end_s);
      }
      for (const device::Operation& operation : run.operations[0]) {
        if (operation.begin_s >= last_up && operation.stream.kind == device::StreamKind::compute) {
          EXPECT_EQ(operation.flops, 0) << name_of(routine) << " " << n;
        }
      }
      if (square_call(routine, n).updates_triangle())
        continue;  // short columns, which go down more slowly than others come
      const double tile_bytes = 8 * static_cast<double>(run.tiling.m * run.tiling.n);
      const double addition = machine.kernel_overhead + 3 * tile_bytes / 4e12;
      const double copy = machine.copy_overhead + 1.1 * tile_bytes / machine.link_bytes;
      EXPECT_LE(run.seconds - last_up, addition + copy + 3 * machine.look) << name_of(routine) << " " << n;
    }
  }
}

// Devices are dealt lines of tiles, and the tiles of a line wait for each other.
TEST(ScheduleModelInPages, ThereIsWorkForAllWithAOnTheRight) {
  struct Case {
    Routine routine;
    int devices;
    index_t n;
    double fraction;
  };
  for (const Case& c :
       {Case{Routine::symm, 1, 8192, 0.73}, Case{Routine::trsm, 1, 8192, 0.66}, Case{Routine::symm, 4, 16384, 0.74},
        Case{Routine::trmm, 4, 16384, 0.71}, Case{Routine::trsm, 4, 16384, 0.71}}) {
    Level3 call = square_call(c.routine, c.n);
    call.side = Side::right;
    EXPECT_GE(modelled_run(test::modelled_h200_in_pages(c.devices), call).fraction_of_bound(), c.fraction)
        << name_of(c.routine) << " " << c.n << " on " << c.devices;
  }
}

TEST(ScheduleModelInPages, ColumnsAreCutAtPages) {
  const auto slowness = [](std::uintptr_t at, index_t bytes, index_t pitch) {
    return test::slowness_in_pages(device::StreamKind::up, {reinterpret_cast<std::byte*>(at), pitch}, {bytes, 100});
  };
  constexpr index_t kib = 1024;
  EXPECT_EQ(slowness(13, 40 * kib, 40 * kib), 1);  // one piece of memory
  EXPECT_NEAR(54.5 / slowness(0, 64 * kib, 128 * kib), 54.5, 0.1);
  EXPECT_NEAR(54.5 / slowness(0, 32 * kib, 128 * kib), 47, 0.5);
  EXPECT_NEAR(54.5 / slowness(48 * kib, 32 * kib, 128 * kib), 32, 0.1);
  EXPECT_NEAR(54.5 / slowness(52 * kib, 26 * kib, 128 * kib), 32, 0.5);
}

// Results go down while others are computed: after the last kernel little more than its own is left.
TEST(ScheduleModelSizes, ResultsDoNotPileUp) {
  for (const Routine routine : real_routines) {
    for (const index_t n : {16384, 24576}) {
      const ModelledMachine machine = modelled_h200(1);
      const ModelledRun run = modelled_run(machine, square_call(routine, n));
      double last_kernel_s = 0;
      for (const device::Operation& operation : run.operations[0]) {
        if (operation.stream.kind == device::StreamKind::compute)
          last_kernel_s = std::max(last_kernel_s, operation.end_s);
      }
      const index_t tile = (run.tiling.m + std::abs(run.tiling.skew_m)) * (run.tiling.n + std::abs(run.tiling.skew_n));
      const double tile_s = static_cast<double>(tile) * sizeof(double) / machine.link_bytes;
      EXPECT_LE(run.seconds - last_kernel_s, 2.5 * tile_s) << name_of(routine) << " " << n;
    }
  }
}

// Against one device on the same machine.
TEST(ScheduleModelSizes, MoreDevicesAreNeverSlower) {
  for (const Routine routine : real_routines) {
    for (const index_t n : {512, 1024, 2048, 4096, 8192, 16384, 32768}) {
      const double alone = modelled_run(modelled_h200(1), square_call(routine, n)).seconds;
      for (const int devices : {2, 4}) {
        const double now = modelled_run(modelled_h200(devices), square_call(routine, n)).seconds;
        EXPECT_LE(now, alone) << name_of(routine) << " " << n << " on " << devices;
      }
    }
  }
}

// dgemm of 24 GiB of matrices with 4 GB on each device.
TEST(ScheduleModelSizes, ShortMemoryCostsLittle) {
  for (const int devices : {1, 2}) {
    ModelledMachine machine = modelled_h200(devices);
    const Level3 call = square_call(Routine::gemm, 32768);
    const double enough = modelled_run(machine, call).seconds;
    machine.memory_bytes = 4'000'000'000;
    const ModelledRun run = modelled_run(machine, call);
    EXPECT_LE(run.seconds, enough / (devices == 1 ? 0.88 : 0.8)) << devices;
    EXPECT_LE(static_cast<double>(run.bytes_up), 1.7 * static_cast<double>(run.compulsory_up)) << devices;
  }
}

// The model of the cut, for a call of `tiles` cubed tile products on devices of `slots` slots.
double modelled_up(Routine routine, index_t tiles, index_t slots, int devices, bool reads_c) {
  GroupedProduct product{GroupForm::rectangle, tiles, tiles, tiles};
  const bool triangle = Level3{.routine = routine}.updates_triangle();
  if (triangle) product.form = routine == Routine::gemmt ? GroupForm::masked : GroupForm::triangle;
  if (routine == Routine::syr2k) product.kt *= 2;
  if (routine == Routine::trmm || routine == Routine::trsm) product.form = GroupForm::sweep;
  if (routine == Routine::trsm) product.fewest_cols = device::compute_streams;
  const auto grouping = choose_grouping(product, slots, devices);
  const index_t c_tiles = !reads_c ? 0 : triangle ? tiles * (tiles + 1) / 2 : tiles * tiles;
  return static_cast<double>(up_tiles(product, grouping, slots) + c_tiles);
}

class ScheduleModelOfGroups : public ::testing::TestWithParam<int> {};

// Memory for a half down to a sixteenth of three square operands. Evicting the least recently used tile moves up to four times as much.
TEST_P(ScheduleModelOfGroups, MoveAboutWhatTheModelOfTheCutSays) {
  constexpr index_t tiles = 12;
  constexpr index_t tile = 512;
  constexpr std::size_t tile_bytes = tile * tile * sizeof(double);
  for (const Routine routine : real_routines) {
    Level3 call = square_call(routine, tiles * tile);
    for (const double beta : {0.0, 0.5}) {
      if (call.is_triangular() && beta != 0) continue;
      call.beta = beta;
      for (const index_t share : {2, 4, 8, 16}) {
        const index_t slots = 3 * tiles * tiles / share;
        const double expected = modelled_up(routine, tiles, slots, GetParam(), beta != 0);
        for (const unsigned seed : {0U, 1U, 2U}) {
          ModelledMachine machine = modelled_h200(GetParam());
          machine.seed = seed;
          machine.memory_bytes = static_cast<std::size_t>(slots) * tile_bytes;
          const ModelledRun run = modelled_run(machine, call, tile);
          // Several devices mostly move less, because they share what they fetch.
          EXPECT_LE(static_cast<double>(run.bytes_up) / static_cast<double>(tile_bytes), 1.1 * expected)
              << name_of(routine) << " with 1/" << share << " of the memory, beta " << beta << ", seed " << seed;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(H200, ScheduleModelOfGroups, ::testing::Values(1, 2, 4));

// Kernels that take longer to submit than to run: what is complete goes down before the next one is submitted.
TEST(ScheduleModelSizes, ResultsDoNotWaitForSubmissions) {
  ModelledMachine machine = modelled_h200(1);
  machine.submission = 300e-6;
  const ModelledRun run = modelled_run(machine, square_call(Routine::trmm, 4096));
  std::map<index_t, double> complete;
  std::vector<device::Operation> copies;
  for (const device::Operation& operation : run.operations[0]) {
    if (operation.stream.kind == device::StreamKind::compute) complete[operation.task] = operation.end_s;
    if (operation.stream.kind == device::StreamKind::down) copies.push_back(operation);
  }
  ASSERT_GE(copies.size(), 8U);
  double free_at = 0;
  for (const device::Operation& copy : copies) {
    EXPECT_LE(copy.begin_s, std::max(free_at, complete.at(copy.task)) + 1.1 * machine.submission + machine.look)
        << copy.task;
    free_at = copy.end_s;
  }
}

// The thread that waits for the job is told once, when the last results go down.
TEST_P(ScheduleModel, SaysThatItWillEndSoon) {
  const ModelledRun run = modelled_run(modelled_h200(GetParam().devices), square_call(GetParam().routine, 8192));
  ASSERT_EQ(run.announced_s.size(), 1U);
  double last_copy = 0;
  for (const auto& operations : run.operations) {
    for (const device::Operation& operation : operations) {
      if (operation.stream.kind == device::StreamKind::down)
        last_copy = std::max(last_copy, operation.end_s);
      else
        EXPECT_LE(operation.end_s, run.announced_s[0]);
    }
  }
  EXPECT_LT(run.announced_s[0], last_copy);
}

}  // namespace schedule_model_test
}  // namespace tessera::routines
