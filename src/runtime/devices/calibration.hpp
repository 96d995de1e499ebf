// The work on idle devices as a whole: measuring what they and their links can do (the rates of the performance model),
// and loading what their kernels need before a call does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "core/error.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::runtime {

/// More memory of a device than this makes no difference to the functions below.
std::size_t most_measured_bytes(const device::DeviceProfile& profile);

/// An idle device, and memory of it that may be overwritten.
struct MeasuredDevice {
  device::Device* device = nullptr;
  kernels::TileOps* ops = nullptr;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

/// Thrown where measuring was to stop.
class Interrupted final : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// Copies and multiplies on all devices at once, each driven by a thread of its own. Blocks. @pre nobody else submits
/// to the devices
/// @param must_stop asked between measurements, of some 20 ms each, by several threads; empty: never
/// @throws DeviceLost, OutOfDeviceMemory if a device has less than a few MiB, Interrupted
Calibration calibrate(std::span<const MeasuredDevice> devices, const std::function<bool()>& must_stop = {});

/// Has each device run each kernel once. As calibrate().
void warm_up(std::span<const MeasuredDevice> devices);

}  // namespace tessera::runtime
