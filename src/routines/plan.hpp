// The plan of a call: which devices take part, and the graph of its tasks on them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "core/level3.hpp"
#include "runtime/machine.hpp"
#include "runtime/runtime.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::routines {

struct Plan {
  runtime::Machine machine;  ///< with as many devices as are to work at once
  std::unique_ptr<runtime::TaskGraph> graph;
};

/// The plan for the machine on which the call is expected to end first, and clearly so if its memory is smaller than
/// another's.
/// @param tile forced tile size, 0: choose @throws OutOfDeviceMemory if the call fits none of them @pre not empty
Plan choose_plan(const Level3& call, std::span<const runtime::Machine> machines, index_t tile);

using MakeGraph = std::function<std::unique_ptr<runtime::TaskGraph>(const runtime::Machine& machine)>;
/// The same for what is no call of Level 3. @param like one that takes about as much of everything
Plan choose_plan(const Level3& like, std::span<const runtime::Machine> machines, index_t tile, const MakeGraph& make);

using ChoosePlan = std::function<Plan(std::span<const runtime::Machine> machines)>;
/// Runs what choose() plans for the machine as it is then. @throws NoDeviceLeft, OutOfDeviceMemory, DeviceLost (see
/// Runtime::run)
runtime::JobStatistics run_planned(runtime::Runtime& runtime, ScalarType type, const ChoosePlan& choose,
                                   const runtime::CpuHelp& cpu);

}  // namespace tessera::routines
