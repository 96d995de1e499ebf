// What a job wants of the devices that its graph was planned for.
#pragma once

#include <span>

#include "runtime/admission.hpp"
#include "runtime/machine.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::runtime {

/// Whether the devices still have the memory that the graph was planned for.
/// @throws OutOfDeviceMemory if that cannot hold one step of it
bool can_run(const TaskGraph& graph, const Machine& planned_for, std::span<const DeviceRoom> rooms);

/// All the memory that the job may need: nothing calls the driver for more once it has begun.
Admission::Demand demand_of(const TaskGraph& graph, const Machine& planned_for, std::span<const DeviceRoom> rooms);

}  // namespace tessera::runtime
