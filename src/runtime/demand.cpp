#include "runtime/demand.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"
#include "runtime/worker.hpp"

namespace tessera::runtime {
namespace {

void check_room(const TaskGraph& graph, const Machine& machine) {
  constexpr index_t step_tiles = 3;  // an output and the inputs of one step
  if (machine.devices == 0 || machine.slots(graph.slot_bytes()) >= step_tiles) return;
  throw OutOfDeviceMemory("the device memory of " + std::to_string(machine.heap_bytes) +
                          " bytes cannot hold three tiles of " +
                          std::to_string(cache::TileCache::segment_bytes(graph.slot_bytes())) + " bytes");
}

}  // namespace

bool can_run(const TaskGraph& graph, const Machine& planned_for, std::span<const DeviceRoom> rooms) {
  const std::vector<Machine> machines = machines_of(rooms, graph.type());
  const auto still = std::find_if(machines.begin(), machines.end(),
                                  [&](const Machine& m) { return m.heap_bytes == planned_for.heap_bytes; });
  if (still == machines.end()) return false;
  check_room(graph, *still);
  return true;
}

Admission::Demand demand_of(const TaskGraph& graph, const Machine& planned_for, std::span<const DeviceRoom> rooms) {
  const std::size_t slot = cache::TileCache::segment_bytes(graph.slot_bytes());
  const auto working = static_cast<std::size_t>(graph.working_slots()) + Worker::spare_slots;
  const std::vector<bool> members = members_of(planned_for, rooms);
  Admission::Demand demand{.shares = {}, .devices = planned_for.devices};
  for (std::size_t d = 0; d < rooms.size(); ++d) {
    const std::size_t room = members[d] ? rooms[d].bytes : 0;
    demand.shares.push_back({working < room / slot ? working * slot : room, room});
  }
  return demand;
}

}  // namespace tessera::runtime
