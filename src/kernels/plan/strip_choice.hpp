// How wide the strips of right-hand sides are that thread blocks take (block/strip.hpp). Narrow ones end sooner, on
// more multiprocessors; wide ones take less of their time in all.
#pragma once

#include <algorithm>
#include <array>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

inline constexpr std::array<int, 3> strip_widths = {8, 16, 32};

/// That a thread block has registers for.
constexpr int widest_strip(ScalarType type) { return type == ScalarType::c ? 16 : 32; }

/// Where nothing else runs on the device: the narrowest with which every strip has a multiprocessor.
/// @param widest that the device has shared memory for
constexpr int quickest_strip(index_t columns, index_t multiprocessors, int widest) {
  for (const int width : strip_widths) {
    if (width >= widest || columns <= width * multiprocessors) return width;
  }
  return widest;
}

/// Where other kernels run beside it. @param most_narrow columns up to which time counts for more (device profile)
constexpr int thriftiest_strip(index_t columns, index_t most_narrow, int widest) {
  return std::min(columns <= most_narrow ? strip_widths[1] : strip_widths[2], widest);
}

}  // namespace tessera::kernels::plan
