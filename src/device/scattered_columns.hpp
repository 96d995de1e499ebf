// The copies between page-locked memory and a device that are faster through the staging ring than by the copy engine.
// Pure arithmetic.
#pragma once

#include "device/device.hpp"
#include "device/device_profile.hpp"

namespace tessera::device {

/// Whether columns are short, far from each other, and numerous enough.
constexpr bool are_scattered(const ScatteredColumns& limits, Block host, Extent extent) {
  return extent.part == Part::full && extent.columns > 1 && extent.column_bytes < limits.column_bytes &&
         host.pitch_bytes >= limits.pitches * extent.column_bytes && extent.bytes() >= limits.least_bytes;
}

}  // namespace tessera::device
