// The plan of a call: which devices take part, and the graph of its tasks on them.
#pragma once

#include <memory>
#include <span>

#include "core/level3.hpp"
#include "runtime/machine.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::routines {

struct Plan {
  runtime::Machine machine;  ///< with as many devices as are to work at once
  std::unique_ptr<runtime::TaskGraph> graph;
};

/// How many of the machine's devices a job should have: where there is little to bring to each, what they tell each
/// other takes longer than what they save.
/// @param up_bytes that the job must bring to all of them together
index_t worthwhile_devices(index_t up_bytes, const runtime::Machine& machine);

/// What the call takes on the machine, roughly: enough to compare sets of devices, of which some have next to no memory
/// and so small tiles, each of which costs something, and which cross the link again and again.
/// @throws OutOfDeviceMemory if even the smallest tiles do not fit
double expected_seconds(const Level3& call, const runtime::Machine& machine, index_t tile);

/// The machine on which the call is expected to end first, and clearly so if its memory is smaller than another's.
/// @pre not empty
const runtime::Machine& quickest(const Level3& call, std::span<const runtime::Machine> machines, index_t tile);

/// The plan for that machine.
/// @param tile forced tile size, 0: choose @throws OutOfDeviceMemory if the call fits none of them @pre not empty
Plan choose_plan(const Level3& call, std::span<const runtime::Machine> machines, index_t tile);

}  // namespace tessera::routines
