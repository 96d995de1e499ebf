// The time that no implementation on these devices can beat (docs/bench.md):
//   T >= max( flops / sum P, up / BW_up, down / BW_down, (up + down) / BW_both )
// with compulsory bytes only.
#pragma once

#include <algorithm>

namespace tessera::tools {

/// Of all devices together; a rate of 0 is unlimited.
struct MachineRates {
  double flops_per_s = 0;
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
  double both_bytes_per_s = 0;
};

inline double bound_seconds(const MachineRates& rates, double flops, double bytes_up, double bytes_down) {
  const auto time = [](double work, double rate) { return rate > 0 ? work / rate : 0.0; };
  return std::max({time(flops, rates.flops_per_s), time(bytes_up, rates.up_bytes_per_s),
                   time(bytes_down, rates.down_bytes_per_s), time(bytes_up + bytes_down, rates.both_bytes_per_s)});
}

}  // namespace tessera::tools
