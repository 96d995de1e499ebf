#include "runtime/devices/machine.hpp"

#include <algorithm>
#include <functional>

namespace tessera::runtime {
namespace {

Machine machine_with(std::span<const DeviceCapacity> capacities, std::size_t least_bytes, ScalarType type) {
  Machine machine;
  machine.heap_bytes = least_bytes;
  const auto add_rate = [&](double& mean, double rate) { mean += (rate - mean) / machine.devices; };
  for (const DeviceCapacity& device : capacities) {
    if (device.bytes < least_bytes) continue;
    const device::DeviceProfile& profile = device.info->profile;
    if (machine.devices == 0) {
      machine.tiles = profile.tiles;
      machine.scattered = profile.scattered;
    }
    ++machine.devices;
    machine.segment_bytes = std::max(machine.segment_bytes, profile.segment_bytes);
    machine.page_bytes = std::max(machine.page_bytes, profile.page_bytes);
    machine.share_bytes = std::max(machine.share_bytes, profile.share_bytes);
    add_rate(machine.flops_per_s, device.info->flops_per_s[type]);
    add_rate(machine.link_bytes_per_s, device.info->link_bytes_per_s);
  }
  return machine;
}

}  // namespace

std::vector<Machine> machines_of(std::span<const DeviceCapacity> capacities, ScalarType type) {
  std::vector<std::size_t> sizes;
  for (const DeviceCapacity& device : capacities) {
    if (device.bytes > 0) sizes.push_back(device.bytes);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  std::vector<Machine> machines;
  for (std::size_t first = 0; first < sizes.size();) {
    std::size_t last = first;
    while (last + 1 < sizes.size() && sizes[last + 1] >= sizes[first] - sizes[first] / 8) ++last;
    machines.push_back(machine_with(capacities, sizes[last], type));
    first = last + 1;
  }
  return machines;
}

std::vector<bool> members_of(const Machine& machine, std::span<const DeviceCapacity> capacities) {
  std::vector<bool> members;
  for (const DeviceCapacity& device : capacities)
    members.push_back(device.bytes > 0 && device.bytes >= machine.heap_bytes);
  return members;
}

}  // namespace tessera::runtime
