#include "runtime/machine.hpp"

#include <algorithm>
#include <functional>

namespace tessera::runtime {
namespace {

Machine machine_with(std::span<const DeviceRoom> rooms, std::size_t least_bytes) {
  Machine machine;
  const auto add_rate = [&](double& mean, double rate) { mean += (rate - mean) / machine.devices; };
  for (const DeviceRoom& room : rooms) {
    if (room.bytes < least_bytes) continue;
    ++machine.devices;
    machine.heap_bytes = machine.devices == 1 ? room.bytes : std::min(machine.heap_bytes, room.bytes);
    machine.segment_bytes = std::max(machine.segment_bytes, room.segment_bytes);
    machine.share_bytes = std::max(machine.share_bytes, room.share_bytes);
    add_rate(machine.flops_per_s, room.flops_per_s);
    add_rate(machine.link_bytes_per_s, room.link_bytes_per_s);
  }
  return machine;
}

}  // namespace

std::vector<Machine> machines_of(std::span<const DeviceRoom> rooms) {
  std::vector<std::size_t> sizes;
  for (const DeviceRoom& room : rooms) {
    if (room.bytes > 0) sizes.push_back(room.bytes);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  std::vector<Machine> machines;
  for (std::size_t first = 0; first < sizes.size();) {
    std::size_t last = first;
    while (last + 1 < sizes.size() && sizes[last + 1] >= sizes[first] - sizes[first] / 8) ++last;
    machines.push_back(machine_with(rooms, sizes[last]));
    first = last + 1;
  }
  return machines;
}

}  // namespace tessera::runtime
