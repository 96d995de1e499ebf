// A host device with memory on both sides of its link.
#pragma once

#include <cstddef>
#include <vector>

#include "device/host/host_device.hpp"

namespace tessera::test {

/// A device with a small reserved slab and host memory of the same size.
struct HostDeviceWithMemory {
  static constexpr index_t bytes = 64 << 10;
  explicit HostDeviceWithMemory(const HostDeviceSettings& settings, int ordinal = 0)
      : device(ordinal, settings), host(static_cast<std::size_t>(bytes)), slab(device.reserve(host.size())) {}
  void copy_up() { device.copy_up({slab, bytes}, {host.data(), bytes}, {bytes, 1}); }
  void copy_down() { device.copy_down({host.data(), bytes}, {slab, bytes}, {bytes, 1}); }
  device::HostDevice device;
  std::vector<std::byte> host;
  std::byte* slab;
};

}  // namespace tessera::test
