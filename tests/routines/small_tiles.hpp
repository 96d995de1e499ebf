// Devices and machines for calls of small tiles and for their plans.
#pragma once

#include <cstddef>
#include <vector>

#include "core/config.hpp"
#include "core/scalar.hpp"
#include "runtime/devices/machine.hpp"

namespace tessera::test {

inline constexpr index_t small_tile = 16;
inline constexpr std::size_t small_tile_bytes = small_tile * small_tile * sizeof(double);

/// Settings of so many host devices with so much memory each.
inline std::vector<HostDeviceSettings> devices_with(int count, std::size_t memory_bytes) {
  HostDeviceSettings settings;
  settings.memory_bytes = memory_bytes;
  return std::vector<HostDeviceSettings>(static_cast<std::size_t>(count), settings);
}

/// One H200 or several: their memory, and the length below which columns should not be cut.
inline runtime::Machine machine_with(int devices) {
  return {.devices = devices, .heap_bytes = std::size_t{130} << 30, .segment_bytes = 32768};
}

}  // namespace tessera::test
