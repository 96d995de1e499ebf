// The plan of a call: which devices take part, and the graph of its tasks on them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "calls/level3.hpp"
#include "runtime/devices/machine.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::routines {

struct Plan {
  runtime::Machine machine;  ///< with as many devices as are to work at once
  std::unique_ptr<runtime::TaskGraph> graph;
};

/// The plan for the machine on which the call is expected to end first, and clearly so if its memory is smaller than
/// another's.
/// @param tile forced tile size, 0: choose @throws OutOfDeviceMemory if the call fits none of them @pre not empty
Plan choose_plan(const Level3& call, std::span<const runtime::Machine> machines, index_t tile);

/// The facts about a call on a machine by which machines are compared. They need no graph.
struct Outline {
  ScalarType type = ScalarType::d;
  index_t m = 0;
  runtime::Tiling tiling = {};
  Work work = {};
  bool holds_inputs = true;  ///< a device has room for all inputs, so that each comes once
};
/// How a call of any kind is planned. Both @throw OutOfDeviceMemory if it does not fit.
struct Planner {
  std::function<Outline(const runtime::Machine& machine)> outline;
  std::function<std::unique_ptr<runtime::TaskGraph>(const runtime::Machine& machine)> make;
};
Plan choose_plan(std::span<const runtime::Machine> machines, const Planner& planner);

using ChoosePlan = std::function<Plan(std::span<const runtime::Machine> machines)>;
/// Runs what choose() plans for the machine as it is then. @throws NoDeviceLeft, OutOfDeviceMemory, DeviceLost (see
/// Runtime::run)
runtime::JobStatistics run_planned(runtime::Runtime& runtime, ScalarType type, const ChoosePlan& choose,
                                   const runtime::CpuHelp& cpu);

}  // namespace tessera::routines
