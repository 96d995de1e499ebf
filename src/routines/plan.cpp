#include "routines/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::routines {
namespace {

using runtime::Machine;

/// Memory that others take while a call is planned makes another plan. Who takes and gives back all the time is not
/// waited for.
constexpr int most_plans = 8;

/// Where a device says nothing of its rates. Only their ratio counts, and it is much the same for all GPUs.
constexpr double likely_flops_per_s = 60e12;
constexpr double likely_link_bytes_per_s = 50e9;
/// What a step costs beside its operations, and a tile beside its bytes.
constexpr double step_s = 8e-6;

/// A set of devices with less memory must promise to take at most this part of the time.
constexpr double worthwhile_part = 0.9;

/// A group waits for its first tiles and ends with its results: 1.2 to 1.4 in the model of the schedule.
constexpr double slowness_of_groups = 1.35;

/// Copies of short columns, where these are not whole: with half of the segment that a copy engine likes, they take an
/// eighth longer (docs/adr/0003-tall-tiles.md).
double slowness_of_columns(const ProductShape& shape, const runtime::Tiling& tiling, const Machine& machine) {
  if (tiling.m >= shape.m) return 1;
  const auto column_bytes = static_cast<double>(tiling.m) * static_cast<double>(element_bytes(shape.type));
  return 1 + static_cast<double>(machine.segment_bytes) / (8 * column_bytes);
}

double or_likely(double rate, double likely) { return rate > 0 ? rate : likely; }

/// How many of the machine's devices a job should have: where there is little to bring to each, what they tell each
/// other takes longer than what they save.
/// @param up_bytes, down_bytes that the job must bring to all of them together, and take home; the larger one counts
index_t worthwhile_devices(index_t up_bytes, index_t down_bytes, const Machine& machine) {
  if (machine.share_bytes <= 0) return machine.devices;
  return std::clamp<index_t>(std::max(up_bytes, down_bytes) / machine.share_bytes, 1, std::max(machine.devices, 1));
}

/// What the call takes on the machine, roughly: enough to compare sets of devices, of which some have next to no memory
/// and so small tiles, each of which costs something, and which cross the link again and again.
/// @throws OutOfDeviceMemory if even the smallest tiles do not fit
double expected_seconds(const Level3& call, const Machine& machine, index_t tile) {
  const ProductShape shape = shape_of(call);
  const runtime::Tiling tiling = choose_tiling(shape, machine, tile);
  const auto tile_bytes = static_cast<double>(slot_bytes(call.type, tiling));
  const Level3 step{.routine = Routine::gemm, .type = call.type, .m = tiling.m, .n = tiling.n, .k = tiling.k};
  const double steps = flops_of(call) / flops_of(step);
  runtime::Demand demand = shape.demand;
  // Groups as squares that fill the memory (routines/grouping.hpp), and the old values of C.
  const bool grouped = !holds_operands(shape, tiling, machine);
  if (grouped) {
    const double inputs = 2 * steps * tile_bytes / std::sqrt(slots_of(shape, tiling, machine));
    demand.up = std::max(demand.up, inputs + demand.down);
  }
  const double flops_per_s = or_likely(machine.flops_per_s, likely_flops_per_s);
  const double link = or_likely(machine.link_bytes_per_s, likely_link_bytes_per_s);
  demand.flops += steps * step_s * flops_per_s;
  const auto devices = static_cast<double>(
      worthwhile_devices(static_cast<index_t>(demand.up), static_cast<index_t>(demand.down), machine));
  const double slowness = (1 + step_s * link / tile_bytes) * slowness_of_columns(shape, tiling, machine);
  for (double* const bytes : {&demand.up, &demand.down}) *bytes *= slowness;
  return (grouped ? slowness_of_groups : 1) *
         runtime::expected_seconds(demand, devices * flops_per_s, {devices * link, devices * link, 0});
}

/// @pre not empty
const Machine& quickest(const Level3& call, std::span<const Machine> machines, index_t tile) {
  const Machine* best = &machines.front();
  if (machines.size() == 1) return *best;
  double least_s = std::numeric_limits<double>::infinity();
  for (const Machine& machine : machines) {
    try {
      const double seconds = expected_seconds(call, machine, tile);
      if (seconds > worthwhile_part * least_s) continue;
      least_s = seconds;
      best = &machine;
    } catch (const OutOfDeviceMemory&) {  // those with more may do
      break;
    }
  }
  return *best;
}

}  // namespace

Plan choose_plan(const Level3& call, std::span<const Machine> machines, index_t tile) {
  const auto make = call.is_triangular() ? make_triangular : make_accumulation;
  return choose_plan(call, machines, tile, [&](const Machine& machine) { return make(call, machine, tile); });
}

Plan choose_plan(const Level3& like, std::span<const Machine> machines, index_t tile, const MakeGraph& make) {
  Plan plan{quickest(like, machines, tile), nullptr};
  plan.graph = make(plan.machine);
  const index_t devices =
      worthwhile_devices(plan.graph->compulsory_up_bytes(), plan.graph->compulsory_down_bytes(), plan.machine);
  if (devices >= plan.machine.devices) return plan;
  plan.machine.devices = static_cast<int>(devices);
  plan.graph = make(plan.machine);
  return plan;
}

runtime::JobStatistics run_planned(runtime::Runtime& runtime, ScalarType type, const ChoosePlan& choose,
                                   const runtime::CpuHelp& cpu) {
  for (int attempt = 0; attempt < most_plans; ++attempt) {
    // Later plans count on what the devices could give for the earlier ones.
    const std::vector<Machine> machines = runtime.machines(type, attempt == 0);
    if (machines.empty() && !runtime.devices().empty()) throw OutOfDeviceMemory("the devices have no memory left");
    if (machines.empty()) throw NoDeviceLeft("no device works any more");
    const Plan plan = choose(machines);
    if (auto statistics = runtime.run(*plan.graph, plan.machine, cpu)) return *std::move(statistics);
  }
  throw OutOfDeviceMemory("the devices could not give the memory of " + std::to_string(most_plans) +
                          " plans, each for less than the one before");
}

}  // namespace tessera::routines
