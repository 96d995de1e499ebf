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

/// The plan for the machine on which the call is expected to end first, and clearly so if its memory is smaller than
/// another's.
/// @param tile forced tile size, 0: choose @throws OutOfDeviceMemory if the call fits none of them @pre not empty
Plan choose_plan(const Level3& call, std::span<const runtime::Machine> machines, index_t tile);

}  // namespace tessera::routines
