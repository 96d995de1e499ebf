#include "routines/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "routines/level3.hpp"
#include "routines/tiled_graph.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::routines {
namespace {

using runtime::Machine;

/// A call is planned again if others take memory while it is planned. The limit ends this where others take memory and
/// give it back all the time.
constexpr int most_plans = 8;

/// Where a device says nothing of its rates. Only their ratio counts, and it is much the same for all GPUs.
constexpr double likely_flops_per_s = 60e12;
constexpr double likely_link_bytes_per_s = 50e9;
/// The time that a step takes beside its operations, and a tile beside its bytes.
constexpr double step_s = 8e-6;

/// A set of devices with less memory must promise to take at most this part of the time.
constexpr double worthwhile_part = 0.9;

/// A group waits for its first tiles and ends with its results: 1.2 to 1.4 in the model of the schedule.
constexpr double slowness_of_groups = 1.35;

/// Copies of short columns, where these are not whole: with half of the segment that a copy engine likes, they take an
/// eighth longer (docs/adr/0003-tall-tiles.md).
double slowness_of_columns(const Outline& call, const Machine& machine) {
  if (call.tiling.m >= call.m) return 1;
  const auto column_bytes = static_cast<double>(call.tiling.m) * static_cast<double>(element_bytes(call.type));
  return 1 + static_cast<double>(machine.segment_bytes) / (8 * column_bytes);
}

double or_likely(double rate, double likely) { return rate > 0 ? rate : likely; }

/// How many of the machine's devices a job should have. Where there is little to bring to each, their coordination
/// takes longer than what they save.
/// @param work what the job must bring to all of them together, and take home; the larger one counts
index_t worthwhile_devices(const Work& work, const Machine& machine) {
  if (machine.share_bytes <= 0) return machine.devices;
  const auto bytes = static_cast<index_t>(std::max(work.up, work.down));
  return std::clamp<index_t>(bytes / machine.share_bytes, 1, std::max(machine.devices, 1));
}

/// A rough time of the call on the machine, good enough to compare sets of devices. Devices with next to no memory have
/// small tiles: each of these has a cost, and crosses the link again and again.
double expected_seconds(const Outline& call, const Machine& machine) {
  const runtime::Tiling& tiling = call.tiling;
  const std::size_t slot = slot_bytes(call.type, tiling);
  const auto tile_bytes = static_cast<double>(slot);
  const Level3 step{.routine = Routine::gemm, .type = call.type, .m = tiling.m, .n = tiling.n, .k = tiling.k};
  const double steps = call.work.flops / flops_of(step);
  Work work = call.work;
  // Groups as squares that fill the memory (routines/grouping.hpp), and the old values of C.
  if (!call.holds_inputs) {
    const double inputs = 2 * steps * tile_bytes / std::sqrt(machine.slots(slot));
    work.up = std::max(work.up, inputs + work.down);
  }
  const double flops_per_s = or_likely(machine.flops_per_s, likely_flops_per_s);
  const double link = or_likely(machine.link_bytes_per_s, likely_link_bytes_per_s);
  work.flops += steps * step_s * flops_per_s;
  const auto devices = static_cast<double>(worthwhile_devices(work, machine));
  const double slowness = (1 + step_s * link / tile_bytes) * slowness_of_columns(call, machine);
  for (double* const bytes : {&work.up, &work.down}) *bytes *= slowness;
  return (call.holds_inputs ? 1 : slowness_of_groups) *
         runtime::expected_seconds(work, devices * flops_per_s, {devices * link, devices * link, 0});
}

const Machine& quickest(std::span<const Machine> machines, const Planner& planner) {
  const Machine* best = &machines.front();
  if (machines.size() == 1) return *best;
  double least_s = std::numeric_limits<double>::infinity();
  for (const Machine& machine : machines) {
    try {
      const double seconds = expected_seconds(planner.outline(machine), machine);
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
  return choose_plan(machines, {[&](const Machine& machine) { return outline_of(shape_of(call), machine, tile); },
                                [&](const Machine& machine) { return make(call, machine, tile); }});
}

Plan choose_plan(std::span<const Machine> machines, const Planner& planner) {
  Plan plan{quickest(machines, planner), nullptr};
  plan.graph = planner.make(plan.machine);
  const index_t devices = worthwhile_devices(plan.graph->work, plan.machine);
  if (devices >= plan.machine.devices) return plan;
  plan.machine.devices = static_cast<int>(devices);
  plan.graph = planner.make(plan.machine);
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

std::vector<device::HostMatrix> inputs_of(const Level3& call) {
  std::vector<device::HostMatrix> inputs;
  const auto element = static_cast<index_t>(element_bytes(call.type));
  const auto add = [&](const void* matrix, const StoredShape& shape, index_t ld) {
    if (shape.rows > 0 && shape.cols > 0)
      inputs.push_back(
          {static_cast<std::byte*>(const_cast<void*>(matrix)), ld * element, shape.rows * element, shape.cols});
  };
  add(call.A, shape_of_a(call), call.lda);
  if (!call.is_triangular()) add(call.B, shape_of_b(call), call.ldb);
  return inputs;
}

std::vector<device::Touched> touched_by(const Level3& call) {
  std::vector<device::Touched> touched;
  for (const device::HostMatrix& input : inputs_of(call)) touched.push_back({input});
  const auto element = static_cast<index_t>(element_bytes(call.type));
  if (call.m > 0 && call.n > 0) {
    touched.push_back(
        {{static_cast<std::byte*>(call.C), call.ldc * element, call.m * element, call.n},
         call.updates_triangle() ? device::Touched::Use::written_in_part : device::Touched::Use::written});
  }
  return touched;
}

namespace {

/// Whether most of what the call reads besides C is on the devices.
bool has_inputs(const runtime::Runtime& runtime, const Level3& call) {
  if (!runtime.keeps_matrices()) return false;
  const std::vector<device::HostMatrix> inputs = inputs_of(call);
  const index_t bytes = std::accumulate(inputs.begin(), inputs.end(), index_t{0}, [](index_t sum, const auto& each) {
    return sum + each.column_bytes * each.columns;
  });
  return 4 * runtime.resident_bytes(inputs) >= 3 * bytes;
}

}  // namespace

runtime::JobStatistics run(runtime::Runtime& runtime, const Level3& call, index_t tile, const runtime::CpuHelp& cpu) {
  if (call.m < 1 || call.n < 1 || call.only_scales()) throw InternalError(name_of(call) + ": nothing to multiply");
  const auto choose = [&](std::span<const Machine> machines) {
    if (!has_inputs(runtime, call)) return choose_plan(call, machines, tile);
    std::vector<Machine> with_inputs(machines.begin(), machines.end());
    for (Machine& machine : with_inputs) machine.has_inputs = true;
    return choose_plan(call, with_inputs, tile);
  };
  return run_planned(runtime, call.type, choose, cpu);
}

}  // namespace tessera::routines
