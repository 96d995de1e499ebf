// The common part of the rooms of a worker (worker.hpp): its device, and what all devices of a job share.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cache/tile_cache.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"
#include "runtime/devices/device_traffic.hpp"
#include "runtime/devices/signal.hpp"
#include "runtime/tiles/old_values.hpp"

namespace tessera::runtime {

/// All that is referred to outlives the worker.
struct Workplace {
  int index;  ///< of the device in the job
  device::Device& device;
  kernels::TileOps& ops;
  cache::TileCache& cache;
  Signal& signal;          ///< of the worker: raised when work of the device completes or others change the job
  OldValues* old_values;   ///< nullptr: they are not kept while new ones are written back
  DeviceTraffic* traffic;  ///< of all jobs on the device; nullptr: there is one only

  /// The rough time of so many operations on the device; 0: not known.
  double expected_seconds(ScalarType type, double flops) const {
    const double rate = device.info().flops_per_s[type];
    return rate > 0 ? flops / rate : 0;
  }
  /// Whether so much waits for the link from the host that nothing more should be asked for.
  bool link_has_enough() const {
    const index_t queued = traffic != nullptr ? traffic->queued_bytes() : cache.queued_bytes(index);
    return queued >= device.info().profile.link_queue_bytes;
  }
};

/// The slots that a lane needs to go on: an output and one step's inputs. As many lanes are worked on as there is room
/// for, so that one of them can always go on.
struct LaneSlots {
  static constexpr index_t inputs = 2, slots = 1 + inputs;

  static std::size_t lanes_in(index_t slots_of_device) {
    return static_cast<std::size_t>(std::clamp<index_t>(slots_of_device / slots, 1, device::compute_streams));
  }
};

/// @return whether it has @throws DeviceLost if what it tells of has failed
bool completed(const device::EventPtr& event);

}  // namespace tessera::runtime
