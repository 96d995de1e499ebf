// The width of the strips of right-hand sides for thread blocks (block/strip.hpp). Narrow strips end sooner, on more
// multiprocessors. Wide strips use less of the multiprocessors' time in all.
#pragma once

#include <algorithm>
#include <array>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

inline constexpr std::array<int, 3> strip_widths = {8, 16, 32};

/// The widest strip for which a thread block has registers.
constexpr int widest_strip(ScalarType type) { return type == ScalarType::c ? 16 : 32; }

/// If nothing else runs on the device: the narrowest strips for which every strip has a multiprocessor.
/// @param widest the widest strips for which the device has shared memory
constexpr int quickest_strip(index_t columns, index_t multiprocessors, int widest) {
  for (const int width : strip_widths) {
    if (width >= widest || columns <= width * multiprocessors) return width;
  }
  return widest;
}

/// If other kernels run at the same time.
/// @param most_narrow columns up to which latency counts more than total time (device profile)
constexpr int thriftiest_strip(index_t columns, index_t most_narrow, int widest) {
  return std::min(columns <= most_narrow ? strip_widths[1] : strip_widths[2], widest);
}

}  // namespace tessera::kernels::plan
