// How tasks are shared on a modelled machine: by the devices' speeds, and at home where there are few of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "routines/level3.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/drawn_machine.hpp"
#include "tests/routines/square_call.hpp"

namespace tessera::routines {
namespace load_balance_model_test {

using test::machine_for_small_tiles;
using test::modelled_run;
using test::ModelledMachine;
using test::ModelledRun;
using test::square_call;

// Three devices at 1 : 1 : 0.4, judged by the time that each was given to compute.
TEST(LoadBalanceModel, UnequalDevicesEndTogether) {
  constexpr index_t tiles = 16;
  constexpr index_t tile = 8;
  for (const unsigned seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
    ModelledMachine machine = machine_for_small_tiles(3);
    machine.speeds = {1, 1, 0.4};
    machine.flops = flops_of(Level3{.m = tile, .n = tile, .k = tile}) / 0.001;  // a millisecond a step on the fast ones
    machine.seed = seed;
    const ModelledRun run = modelled_run(machine, square_call(Routine::gemm, tiles * tile), tile);
    double sum = 0, speed_sum = 0, latest = 0;
    std::string shares;
    for (std::size_t d = 0; d < 3; ++d) {
      double flops = 0;
      for (const device::Operation& operation : run.operations[d]) flops += operation.flops;
      EXPECT_GT(flops, 0) << "device " << d;
      sum += flops;
      speed_sum += machine.speeds[d] * machine.flops;
      latest = std::max(latest, flops / (machine.speeds[d] * machine.flops));
      shares += " " + std::to_string(flops);
    }
    const double ideal = sum / speed_sum;
    EXPECT_LE(latest, 1.10 * ideal) << "seed " << seed << ", flops" << shares;
    RecordProperty("latest_over_ideal_" + std::to_string(seed), std::to_string(latest / ideal));
  }
}

// Two lines are at home on each of two devices, whose four lanes take them at once, whoever asks first.
TEST(LoadBalanceModel, FewTasksStayWhereTheyAreAtHome) {
  const Level3 call{.routine = Routine::trmm, .side = Side::right, .m = 16510, .n = 1119, .lda = 1119, .ldc = 16510};
  for (const unsigned seed : {0, 1, 2, 3}) {
    ModelledMachine machine = test::modelled_h200(2);
    machine.seed = seed;
    const ModelledRun run = modelled_run(machine, call);
    EXPECT_EQ(run.done.size(), 4U);
    EXPECT_EQ(run.stolen, (std::vector<std::int64_t>{0, 0})) << seed;
  }
}

// Half of the tasks are at home on each of two devices. Of few tasks all are in the stations or under way when the fast device has computed
// its own, of many most are still in the queue of the slow one: they are taken from either.
TEST(LoadBalanceModel, AFastDeviceComputesWhatIsAtHomeOnASlowOne) {
  constexpr index_t tile = 8;
  for (const index_t tiles : {6, 16}) {
    for (const bool connected : {true, false}) {
      ModelledMachine machine = machine_for_small_tiles(2);
      machine.speeds = {1, 0.02};
      machine.connected = connected;
      machine.flops = flops_of(Level3{.m = tile, .n = tile, .k = tile}) / 0.001;
      machine.link_bytes = 1e5;  // so slow that each lane takes one task after the other
      const ModelledRun run = modelled_run(machine, square_call(Routine::gemm, tiles * tile), tile);
      std::array<std::int64_t, 2> tasks{};
      for (std::size_t d = 0; d < 2; ++d) {
        for (const device::Operation& operation : run.operations[d]) {
          tasks[d] += operation.stream.kind == device::StreamKind::down;
        }
      }
      const index_t at_home = tiles * tiles / 2;
      EXPECT_EQ(tasks[0] + tasks[1], 2 * at_home);
      EXPECT_LE(tasks[1], at_home / 3) << tiles << " tiles, connected: " << connected;
      EXPECT_EQ(run.stolen[0], tasks[0] - at_home);
      EXPECT_EQ(run.stolen[1], 0);
    }
  }
}

}  // namespace load_balance_model_test
}  // namespace tessera::routines
