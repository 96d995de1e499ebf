// The resources that devices offer to the plan of a call. Devices differ in memory, and the smallest memory of those
// that take part decides how large tiles are, so that one more device may make a call slower. There is one machine for
// every set that may be the quickest: the devices that have at least so much memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cache/tile_cache.hpp"
#include "core/scalar.hpp"
#include "device/device.hpp"

namespace tessera::runtime {

struct Machine {
  int devices = 0;
  std::size_t heap_bytes = 0;               ///< of the smallest device
  index_t segment_bytes = 0;                ///< see DeviceProfile; the largest of all devices
  index_t share_bytes = 0;                  ///< likewise
  index_t page_bytes = 2 * segment_bytes;   ///< likewise
  device::TileSizes tiles = {};             ///< of the first device
  device::ScatteredColumns scattered = {};  ///< likewise
  double flops_per_s = 0;                   ///< of a device, on the average; 0: unknown
  double link_bytes_per_s = 0;              ///< likewise
  bool has_inputs = false;                  ///< most of what the call reads is on the devices already

  /// Tiles of at most `slot_bytes` bytes that fit the smallest device at once.
  index_t slots(std::size_t slot_bytes) const {
    return static_cast<index_t>(heap_bytes / cache::TileCache::segment_bytes(slot_bytes));
  }
};

/// The resources of one device.
struct DeviceCapacity {
  std::size_t bytes = 0;  ///< of memory that a plan may count on; 0: it takes no part
  const device::DeviceInfo* info = nullptr;
};

/// The sets of devices among which a plan chooses, of those with most memory first. Devices whose memory differs by
/// little are in the same sets. Empty if none has memory.
/// @param type of the call, whose rates count
std::vector<Machine> machines_of(std::span<const DeviceCapacity> capacities, ScalarType type);

/// By device: whether it is one of this machine's.
std::vector<bool> members_of(const Machine& machine, std::span<const DeviceCapacity> capacities);

}  // namespace tessera::runtime
