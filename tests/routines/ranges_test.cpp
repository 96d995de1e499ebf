// Sums over ranges of k that devices add up apart: when, what each task does, and what moves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "runtime/tiles/tile_job.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/drawn_machine.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace ranges_test {

using runtime::no_task;
using runtime::TaskId;

constexpr index_t tile = 16;
constexpr std::size_t much_memory = std::size_t{1} << 30;

// Operands of graphs that do not run: only addresses count.
alignas(8) std::byte memory[64];

Level3 rank_update(Routine routine, index_t n, index_t k) {
  Level3 call{.routine = routine, .m = n, .n = n, .k = k, .A = memory, .lda = n, .B = memory, .ldb = n, .C = memory};
  call.ldc = n;
  call.beta = 0.5;
  return call;
}

runtime::Machine h200s(int devices) {
  return {.devices = devices, .heap_bytes = std::size_t{130} << 30, .segment_bytes = 32768};
}

index_t ranges_of(const Level3& call, const runtime::Machine& machine) {
  const ProductShape shape = shape_of(call);
  const runtime::Tiling tiling = choose_tiling(shape, machine, 0);
  return choose_ranges(shape, tiling, tiling.k, machine.tiles.task, machine);
}

TEST(Ranges, AreWhereTilesAreFewAndKIsLong) {
  EXPECT_EQ(ranges_of(rank_update(Routine::syr2k, 732, 32574), h200s(2)), 8);
  EXPECT_EQ(ranges_of(rank_update(Routine::syrk, 500, 60000), h200s(4)) % 4, 0);
  // One device gains nothing but larger tiles, and here there is one tile anyway.
  EXPECT_EQ(ranges_of(rank_update(Routine::syr2k, 732, 32574), h200s(1)), 1);
  EXPECT_EQ(ranges_of(rank_update(Routine::syrk, 3000, 20000), h200s(1)), 2);
  // Tasks enough; results as large as the operands; too little to do; no sum that can be cut; no memory.
  EXPECT_EQ(ranges_of(rank_update(Routine::syrk, 20000, 20000), h200s(2)), 1);
  EXPECT_EQ(ranges_of(rank_update(Routine::syrk, 700, 700), h200s(2)), 1);
  EXPECT_EQ(ranges_of(rank_update(Routine::syrk, 30, 9000), h200s(2)), 1);
  Level3 symm = rank_update(Routine::symm, 700, 0);
  symm.m = 60000;
  EXPECT_EQ(ranges_of(symm, h200s(2)), 1);
  runtime::Machine small = h200s(2);
  small.heap_bytes = std::size_t{200} << 20;
  EXPECT_EQ(ranges_of(rank_update(Routine::syr2k, 732, 32574), small), 1);
}

TEST(Ranges, TilesAreNotCutForTasks) {
  const auto tile_of = [](index_t n, index_t k, Op op, int devices) {
    Level3 call = rank_update(Routine::syrk, n, k);
    call.op_a = op;
    call.lda = op == Op::no_trans ? n : k;
    return choose_tiling(shape_of(call), h200s(devices), 0).m;
  };
  EXPECT_EQ(tile_of(1000, 40000, Op::no_trans, 2), 1000);
  EXPECT_EQ(tile_of(1000, 40000, Op::trans, 1), 1000);
  // Whole columns of A are quick to copy however C is cut, and tasks that end one after the other are better.
  EXPECT_LT(tile_of(3000, 20000, Op::trans, 1), 1000);
  EXPECT_GT(tile_of(3000, 20000, Op::no_trans, 1), 1000);
}

// Each product of each tile once, all of a range on one device, and each partial result added by the task of its tile.
TEST(Ranges, CoverTheSumOfEachTile) {
  for (const Routine routine : {Routine::syrk, Routine::syr2k}) {
    for (const int devices : {2, 3, 4}) {
      constexpr index_t k_tiles = 37;
      const Level3 call = rank_update(routine, 2 * tile, k_tiles * tile);
      const auto graph = make_accumulation(call, {devices, much_memory, 0}, tile);
      constexpr index_t tiles = 3;
      ASSERT_GT(graph->task_count, tiles);
      ASSERT_TRUE(graph->ordered);
      const TaskId first_last = graph->task_count - tiles;
      std::map<std::byte*, std::multiset<std::byte*>> read;  // tiles of A, by tile of C
      std::map<std::byte*, std::set<index_t>> readers;       // homes, by tile of A
      std::set<std::byte*> places;
      std::set<index_t> homes;
      for (TaskId task = 0; task < graph->task_count; ++task) {
        const runtime::Output output = graph->output(task);
        const bool is_last = task >= first_last;
        EXPECT_TRUE(places.insert(output.tile.address).second);
        EXPECT_EQ(output.intermediate, !is_last);
        EXPECT_EQ(graph->of(task).published, !is_last);
        EXPECT_EQ(output.reads_old, is_last);
        const TaskId adder = is_last ? task : graph->of(task).write_after;
        EXPECT_EQ(graph->of(task).write_after, is_last ? no_task : adder);
        ASSERT_GE(adder, first_last);
        std::byte* const C = graph->output(adder).tile.address;
        std::set<TaskId> added;
        for (index_t s = 0; s < graph->step_count(task); ++s) {
          const runtime::Step step = graph->step(task, s);
          EXPECT_GE(graph->wave(task, s), graph->wave(task, std::max<index_t>(s - 1, 0)));
          if (std::holds_alternative<kernels::Addition>(step.kernel)) {
            EXPECT_EQ(graph->of(step.a.writer).write_after, task);
            EXPECT_EQ(graph->output(step.a.writer).tile, step.a.tile);
            EXPECT_LT(step.a.writer, task);
            added.insert(step.a.writer);
            continue;
          }
          EXPECT_EQ(step.call().beta, s > 0 ? AnyScalar(1) : is_last ? call.beta : AnyScalar(0));
          read[C].insert(step.a.tile.address);
          readers[step.a.tile.address].insert(graph->home(task, devices));
        }
        EXPECT_EQ(static_cast<TaskId>(added.size()), is_last ? first_last / tiles : 0);
        if (is_last) homes.insert(graph->home(task, devices));
      }
      EXPECT_EQ(read.size(), static_cast<std::size_t>(tiles));
      for (const auto& [C, tiles_read] : read) {
        const bool on_diagonal = (C - memory) % ((2 * tile + 1) * 8) == 0;
        const index_t steps = routine == Routine::syr2k && !on_diagonal ? 2 : 1;
        EXPECT_EQ(static_cast<index_t>(tiles_read.size()), steps * k_tiles);
        for (std::byte* const A : tiles_read) EXPECT_EQ(static_cast<index_t>(tiles_read.count(A)), steps);
      }
      for (const auto& [A, devices_reading] : readers) EXPECT_EQ(devices_reading.size(), 1U);
      EXPECT_EQ(homes.size(), static_cast<std::size_t>(std::min<index_t>(devices, tiles)));
    }
  }
}

HostDeviceSettings device_of(index_t tiles) {
  HostDeviceSettings settings;
  settings.memory_bytes = static_cast<std::size_t>(tiles) * tile * tile * sizeof(double);
  return settings;
}

// Three tiles of C.
test::Level3Fixture<double> long_sum(Routine routine, index_t k_tiles) {
  return {{.routine = routine, .m = tile + 3, .n = tile + 3, .k = k_tiles * tile, .alpha = 2, .beta = 0.5}, 3};
}

std::int64_t tasks_of(const runtime::JobStatistics& job) {
  std::int64_t sum = 0;
  for (const runtime::DeviceStatistics& device : job.devices) sum += device.tasks;
  return sum;
}

// A device is lost when the results are in host memory, but partial ones are still held.
TEST(Ranges, WhoseTileIsDoneAreNotComputedAgain) {
  const Level3 call = rank_update(Routine::syrk, 2 * tile, 40 * tile);
  const auto graph = make_accumulation(call, {2, much_memory, 0}, tile);
  constexpr index_t tiles = 3;
  const index_t count = graph->task_count;
  ASSERT_GT(count, tiles);
  const auto pending_after = [&](const std::vector<TaskId>& done) {
    runtime::PendingTasks pending(*graph);
    pending.note_done(done);
    pending.settle();
    return static_cast<index_t>(pending.tasks().size());
  };
  EXPECT_EQ(pending_after({}), count);
  EXPECT_EQ(pending_after({0}), count - 1);
  // With a tile its partial results are over.
  EXPECT_EQ(pending_after({count - 1}), count - count / tiles);
  EXPECT_EQ(pending_after({count - 1, count - 2, count - 3}), 0);
}

// Partial results stay on devices that reach each other; otherwise they go by way of the host.
TEST(Ranges, MoveNothingTwiceBetweenDevicesThatReachEachOther) {
  for (const bool peers : {true, false}) {
    HostDeviceSettings settings = device_of(4000);
    settings.peers = peers;
    test::HostRuntime host({settings, settings});
    auto fixture = long_sum(Routine::syrk, 60);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(tasks_of(statistics), 2 * 3);
    if (peers) {
      EXPECT_EQ(statistics.bytes_up(), statistics.compulsory_up);
      EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down);
    } else {
      EXPECT_EQ(statistics.bytes_down(), 2 * statistics.compulsory_down);
    }
  }
}

TEST(Ranges, AreLeftWhereTheResultsOfAllWouldNotFit) {
  test::HostRuntime host({device_of(80), device_of(80)});
  auto fixture = long_sum(Routine::syrk, 60);
  EXPECT_EQ(tasks_of(run(*host.runtime, fixture.problem(), tile)), 3);
  EXPECT_TRUE(fixture.check());
}

TEST(Ranges, AreAddedByTheCpuWhenNoDeviceIsLeft) {
  int by_cpu = 0;
  for (std::int64_t operations = 1; operations < 160; operations += 6) {
    HostDeviceSettings settings = device_of(4000);
    settings.fail_after_ops = operations;
    test::HostRuntime host({settings, settings});
    auto fixture = long_sum(Routine::syr2k, 20);
    if (host.run_or_compute(fixture.problem(), tile)) by_cpu += host.host_products > 0 ? 1 : 0;
    EXPECT_TRUE(fixture.check()) << operations;
  }
  EXPECT_GT(by_cpu, 5);
}

TEST(RangesModel, TwoDevicesTakeHalfTheTime) {
  using namespace test;
  for (const auto& [n, k] : {std::pair<index_t, index_t>{500, 60000}, {732, 65000}}) {
    Level3 call = rank_update(Routine::syrk, n, k);
    call.op_a = Op::trans;
    call.lda = k;
    const ModelledRun one = modelled_run(modelled_h200(1), call, 0);
    const ModelledRun two = modelled_run(modelled_h200(2), call, 0);
    EXPECT_LT(two.seconds, 0.6 * one.seconds) << n;
    EXPECT_EQ(two.bytes_down, two.compulsory_down);
    EXPECT_EQ(two.bytes_up, two.compulsory_up);
  }
}

// Also where one is lost, none reaches another, or memory is too short for ranges.
TEST(RangesModel, EveryGraphEnds) {
  using namespace test;
  std::minstd_rand random(3);
  const auto one_of = drawing_with(random);
  for (int number = 0; number < 600; ++number) {
    constexpr index_t side = 64;
    const index_t n = one_of(side / 2, side, 2 * side);
    Level3 call = rank_update(one_of(Routine::gemm, Routine::gemmt, Routine::syrk, Routine::syr2k), n,
                              side * static_cast<index_t>(10 + random() % 60));
    call.ldb = call.k;
    ModelledMachine machine = machine_for_small_tiles(one_of(2, 3, 4));
    machine.memory_bytes = one_of(std::size_t{4} << 20, std::size_t{40} << 20, std::size_t{4} << 30);
    draw_unequal_devices(machine, random);
    machine.seed = static_cast<unsigned>(number + 1);
    if (number % 3 == 0) draw_loss(machine, random);
    ModelledRun run;
    EXPECT_NO_THROW(run = modelled_run(machine, call, side)) << number << " " << name_of(call) << " " << n;
    EXPECT_EQ(run.still_pinned, 0) << number;
  }
}

}  // namespace ranges_test
}  // namespace tessera::routines
