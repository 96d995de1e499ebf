// Which devices take part in a call, judged on a modelled machine (tests/modelled_run.hpp).
#include "routines/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/square_call.hpp"

namespace tessera::routines {
namespace plan_test {

using test::square_call;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t gib = std::size_t{1} << 30;
constexpr Routine routines_of_all_kinds[] = {Routine::gemm,  Routine::gemmt, Routine::symm, Routine::syrk,
                                             Routine::syr2k, Routine::trmm,  Routine::trsm};

test::ModelledMachine machine_with(const std::vector<std::size_t>& memories) {
  test::ModelledMachine machine = test::modelled_h200(static_cast<int>(memories.size()));
  machine.host_both = 160e9;  // one host, however many devices
  machine.memories = memories;
  return machine;
}

double seconds_on(const std::vector<std::size_t>& memories, const Level3& call) {
  return test::modelled_run(machine_with(memories), call).seconds;
}

/// Of potrf, getrf and geqrf.
std::array<double, 3> factorization_seconds_on(const std::vector<std::size_t>& memories, index_t n) {
  const test::ModelledMachine machine = machine_with(memories);
  return {test::modelled_run(machine, CholeskyCall{.n = n}).seconds,
          test::modelled_columns(machine, LuCall{.m = n, .n = n}).seconds,
          test::modelled_columns(machine, QrCall{.m = n, .n = n}).seconds};
}

TEST(PlanModel, ADeviceWithNextToNoMemoryCostsNothing) {
  for (const Routine routine : routines_of_all_kinds) {
    for (const index_t n : {4096, 16384}) {
      const Level3 call = square_call(routine, n);
      const double alone = seconds_on({110 * gib, 110 * gib, 110 * gib}, call);
      EXPECT_LE(seconds_on({110 * gib, 110 * gib, 110 * gib, 20 * mib}, call), 1.05 * alone) << name_of(call) << n;
      EXPECT_LE(seconds_on({20 * mib, 110 * gib, 110 * gib, 110 * gib}, call), 1.05 * alone) << name_of(call) << n;
    }
  }
}

TEST(PlanModel, ADeviceWithLittleMemoryIsNeverInTheWay) {
  for (const Routine routine : routines_of_all_kinds) {
    for (const index_t n : {1024, 2048, 4096, 8192, 12000, 16384, 20000}) {
      const Level3 call = square_call(routine, n);
      EXPECT_LE(seconds_on({110 * gib, gib}, call), 1.001 * seconds_on({110 * gib}, call)) << name_of(call) << n;
    }
  }
}

// They are compared by their own work and tiles.
TEST(PlanModel, FactorizationsLeaveOutDevicesWithLittleMemory) {
  for (const index_t n : {4096, 8192, 16384}) {
    const auto alone = factorization_seconds_on({110 * gib}, n);
    const auto two = factorization_seconds_on({110 * gib, 110 * gib}, n);
    const auto beside_nothing = factorization_seconds_on({110 * gib, 110 * gib, 20 * mib}, n);
    const auto beside_little = factorization_seconds_on({110 * gib, gib / 2}, n);
    for (std::size_t routine = 0; routine < alone.size(); ++routine) {
      EXPECT_LE(beside_nothing[routine], 1.001 * two[routine]) << routine << ", " << n;
      EXPECT_LE(beside_little[routine], 1.001 * alone[routine]) << routine << ", " << n;
    }
  }
}

// Where the memory suffices for the call, or nearly so, each device counts.
TEST(PlanModel, ADeviceWithEnoughMemoryTakesPart) {
  const Level3 call = square_call(Routine::gemm, 16384);
  const double both = seconds_on({110 * gib, 110 * gib}, call);
  EXPECT_LE(seconds_on({110 * gib, 10 * gib}, call), 1.05 * both);
  EXPECT_LE(seconds_on({110 * gib, 4 * gib}, call), 0.75 * seconds_on({110 * gib}, call));
}

TEST(PlanModel, NoDeviceIsLeftOutWhereAllHaveLittle) {
  const device::DeviceInfo info;
  const runtime::DeviceCapacity capacities[] = {{64 * mib, &info}, {64 * mib, &info}, {60 * mib, &info}, {2048, &info}};
  const Plan plan = choose_plan(square_call(Routine::gemm, 4096), runtime::machines_of(capacities, ScalarType::d), 0);
  EXPECT_EQ(plan.machine.devices, 3);
}

// Little to bring, much to take home: the results alone keep a link busy for long.
TEST(PlanModel, ResultsAreWorthDevices) {
  test::ModelledMachine machine = test::modelled_h200(2);
  const Level3 update{.routine = Routine::syrk, .type = ScalarType::c, .m = 29096, .n = 29096, .k = 36};
  const double two = test::modelled_run(machine, update).seconds;
  machine = test::modelled_h200(1);
  EXPECT_LE(two, 0.6 * test::modelled_run(machine, update).seconds);
}

TEST(Plan, OfACallThatFitsNoDeviceIsRefused) {
  const device::DeviceInfo info;
  const runtime::DeviceCapacity capacities[] = {{512, &info}, {2048, &info}};
  EXPECT_THROW(choose_plan(square_call(Routine::gemm, 64), runtime::machines_of(capacities, ScalarType::d), 0),
               OutOfDeviceMemory);
}

}  // namespace plan_test
}  // namespace tessera::routines
