// A host device with memory on both sides of its link.
#pragma once

#include <cstddef>
#include <vector>

#include "device/host/host_device.hpp"

namespace tessera::test {

/// The streams of a device, by short names.
namespace streams {
inline constexpr device::StreamId up{device::StreamKind::up, 0};
inline constexpr device::StreamId down{device::StreamKind::down, 0};
inline constexpr device::StreamId peer{device::StreamKind::peer, 0};
inline constexpr device::StreamId to_peer{device::StreamKind::to_peer, 0};
constexpr device::StreamId compute(int index) { return {device::StreamKind::compute, index}; }
}  // namespace streams

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
