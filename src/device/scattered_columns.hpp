// Which copies between page-locked memory and a device are quicker through the staging ring than by the copy engine. Pure arithmetic.
#pragma once

#include "device/device.hpp"
#include "device/device_profile.hpp"

namespace tessera::device {

/// Short columns, far from each other, and enough of them.
constexpr bool are_scattered(const ScatteredColumns& limits, Block host, Extent extent) {
  return extent.part == Part::full && extent.columns > 1 && extent.column_bytes < limits.column_bytes &&
         host.pitch_bytes >= limits.pitches * extent.column_bytes && extent.bytes() >= limits.least_bytes;
}

}  // namespace tessera::device
