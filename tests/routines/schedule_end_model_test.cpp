// Schedules come to an end on any modelled machine, whatever waits for what, and nobody who could go on sleeps.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "routines/level3.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/drawn_machine.hpp"
#include "tests/routines/square_call.hpp"

namespace tessera::routines {
namespace schedule_end_model_test {

using test::draw_loss;
using test::draw_unequal_devices;
using test::drawing_with;
using test::machine_for_small_tiles;
using test::modelled_h200;
using test::modelled_run;
using test::ModelledMachine;
using test::ModelledRun;
using test::square_call;

// Every routine, type, side, triangle and transpose ends, whatever the machine: with little memory, slow links, no time for looks.
TEST(ScheduleEnds, EveryGraphEnds) {
  for (const Routine routine : level3_routines) {
    for (const index_t n : {1, 300, 1500, 4000}) {
      for (const int devices : {1, 3}) {
        for (const std::size_t memory : {std::size_t{40} << 20, std::size_t{400} << 20, std::size_t{4} << 30}) {
          for (int variant = 0; variant < 8; ++variant) {
            Level3 call = square_call(routine, n);
            call.type = exists(call.routine, ScalarType::d) ? ScalarType::d : ScalarType::z;
            call.side = variant % 2 == 0 ? Side::left : Side::right;
            call.uplo = variant / 2 % 2 == 0 ? Uplo::lower : Uplo::upper;
            if (variant / 4 == 1 && (call.has_k() || call.is_triangular()))
              call.op_a = call.is_hermitian() ? Op::conj_trans : Op::trans;
            ModelledMachine machine = modelled_h200(devices);
            machine.memory_bytes = memory;
            const ModelledRun run = modelled_run(machine, call, n > 2000 ? 0 : 128);
            EXPECT_GT(run.seconds, 0);
            EXPECT_EQ(run.still_pinned, 0) << name_of(call) << " " << n << " on " << devices;
            EXPECT_GE(run.bytes_up, run.compulsory_up);
          }
        }
      }
    }
  }
}

// A thief's late line holds up its early one, which waits for the owner, which waits for the late line: tasks must not wait for one that waits.
TEST(ScheduleEnds, LinesOnUnequalDevicesWithoutPeersDoNotWaitForEachOther) {
  for (const Routine routine : {Routine::trsm, Routine::trmm}) {
    for (const index_t lines : {11, 15}) {
      for (const index_t length : {12, 20, 29}) {
        for (unsigned seed = 0; seed < 6; ++seed) {
          constexpr index_t tile = 64;
          Level3 call{.routine = routine, .m = length * tile, .n = lines * tile};
          call.alpha = 1.1;
          ModelledMachine machine = machine_for_small_tiles(2);
          machine.speeds = {1, 0.2};
          machine.connected = false;
          machine.seed = seed;
          machine.memory_bytes = std::size_t{400} << 20;
          machine.flops = 1e10;
          machine.link_bytes = 1e9;
          EXPECT_NO_THROW(static_cast<void>(modelled_run(machine, call, tile)))
              << name_of(routine) << " " << lines << " " << length << " " << seed;
        }
      }
    }
  }
}

// Where memory is short a fast device that steals takes no more than it has room for.
TEST(ScheduleEnds, GroupsOnUnequalDevicesEnd) {
  for (const Routine routine : {Routine::gemm, Routine::symm, Routine::syrk, Routine::syr2k}) {
    for (const index_t tiles : {20, 26}) {
      for (const index_t slots : {64, 96}) {
        for (const double slow : {0.5, 0.2, 0.1, 0.02}) {
          for (const int devices : {2, 3, 4}) {
            constexpr index_t tile = 64;
            ModelledMachine machine = machine_for_small_tiles(devices);
            machine.speeds = std::vector<double>(static_cast<std::size_t>(devices), slow);
            machine.speeds[0] = 1;
            machine.connected = false;
            machine.memory_bytes = static_cast<std::size_t>(slots * tile * tile) * sizeof(double);
            machine.flops = 1e11;
            machine.link_bytes = 1e10;
            EXPECT_NO_THROW(static_cast<void>(modelled_run(machine, square_call(routine, tiles * tile), tile)))
                << name_of(routine) << " " << tiles << " " << slots << " " << slow << " " << devices;
          }
        }
      }
    }
  }
}

// A worker sleeps until its device or the job wakes it, and after some milliseconds it looks in any case; that it found something to do then
// was a wake-up that somebody forgot. Tasks wait for each other in these graphs, and none is left to a faster device.
TEST(WakeUpModel, WhoeverHasSomethingToDoIsWoken) {
  std::minstd_rand random(1);
  const auto one_of = drawing_with(random);
  for (int run = 0; run < 200; ++run) {
    constexpr index_t tile = 64;
    Level3 call;
    call.routine = one_of(Routine::trsm, Routine::trmm);
    call.m = tile * static_cast<index_t>(1 + random() % 20);
    call.n = tile * static_cast<index_t>(1 + random() % 20);
    call.side = one_of(Side::left, Side::right);
    call.uplo = one_of(Uplo::lower, Uplo::upper);
    call.alpha = 1.1;
    ModelledMachine machine = machine_for_small_tiles(one_of(1, 2, 3, 4));
    machine.memory_bytes = std::size_t{4} << 30;
    machine.flops = one_of(1e9, 1e10, 1e11, 1e12, 1e13);
    machine.link_bytes = one_of(1e9, 1e10, 5e10);
    for (int d = 0; d < machine.devices; ++d) machine.speeds.push_back(one_of(1.0, 1.0, 5.0, 0.2));
    // That a peer begins to fetch a tile, which is nearer then, is something that nobody tells of; products would use it.
    machine.connected = call.routine == Routine::trsm && one_of(true, false);
    machine.seed = static_cast<unsigned>(run + 1);
    EXPECT_EQ(modelled_run(machine, call, tile).missed_wakeups, 0)
        << run << " " << name_of(call) << " " << call.m << " x " << call.n << " on " << machine.devices;
  }
}

// Devices that differ, that copy from each other or not, that look in any order, and of which one may be lost: nothing waits for ever, and
// all that is to be done is done once.
TEST(ScheduleEnds, EveryGraphEndsOnUnequalDevices) {
  std::minstd_rand random(1);
  const auto one_of = drawing_with(random);
  for (int run = 0; run < 1000; ++run) {
    Level3 call;
    call.routine = run % 3 != 0 ? Routine::trsm : one_of(Routine::gemm, Routine::symm, Routine::syr2k, Routine::trmm);
    constexpr index_t tile = 64;
    call.m = tile * static_cast<index_t>(1 + random() % 30);
    // Triangular products begin in another way from six lines per device on.
    call.n = tile * static_cast<index_t>(1 + random() % (call.routine == Routine::trmm ? 40 : 12));
    call.side = one_of(Side::left, Side::right);
    if (call.side == Side::right) std::swap(call.m, call.n);
    if (call.updates_triangle()) call.m = call.n;
    if (call.has_k()) call.k = tile * static_cast<index_t>(1 + random() % 10);
    call.uplo = one_of(Uplo::lower, Uplo::upper);
    call.alpha = 1.1;
    call.beta = call.is_triangular() ? 0 : 0.3;
    ModelledMachine machine = machine_for_small_tiles(one_of(2, 3, 4));
    machine.memory_bytes = one_of(std::size_t{3} << 20, std::size_t{40} << 20, std::size_t{4} << 30);
    draw_unequal_devices(machine, random);
    machine.seed = static_cast<unsigned>(run + 1);
    if (run % 4 == 0) draw_loss(machine, random);
    EXPECT_NO_THROW(static_cast<void>(modelled_run(machine, call, tile)))
        << run << " " << name_of(call) << " " << call.m << " x " << call.n;
  }
}

// On a busy machine a worker may be stopped between any two looks, and kernels of one task that are in several streams complete between them.
TEST(ScheduleEnds, EveryGraphEndsWithASlowWorker) {
  std::minstd_rand random(2);
  const auto one_of = drawing_with(random);
  for (int run = 0; run < 600; ++run) {
    constexpr index_t tile = 64;
    Level3 call;
    call.routine = one_of(Routine::gemm, Routine::gemmt, Routine::symm, Routine::syrk, Routine::syr2k, Routine::trmm,
                          Routine::trsm);
    call.m = tile * static_cast<index_t>(2 + random() % 8);
    call.n = tile * static_cast<index_t>(2 + random() % 12);
    call.side = one_of(Side::left, Side::right);
    if (call.updates_triangle()) call.m = call.n;
    if (call.has_k()) call.k = tile * static_cast<index_t>(1 + random() % 8);
    call.uplo = one_of(Uplo::lower, Uplo::upper);
    call.alpha = 1.1;
    call.beta = call.is_triangular() ? 0 : 0.3;
    ModelledMachine machine = machine_for_small_tiles(1);
    machine.memory_bytes = std::size_t{4} << 30;
    machine.flops = one_of(1e9, 2e9, 1e10);  // kernels of 50 microseconds to half a millisecond
    machine.link_bytes = one_of(1e9, 1e10, 5e10);
    machine.poll = one_of(1e-6, 3e-5, 3e-4);
    const ModelledRun ended = modelled_run(machine, call, tile);
    EXPECT_EQ(ended.bytes_down, ended.compulsory_down)
        << run << " " << name_of(call) << " " << call.m << " x " << call.n;
  }
}

}  // namespace schedule_end_model_test
}  // namespace tessera::routines
