// How long a job takes on a machine, from what it has to compute and to move (docs/performance.md). Pure arithmetic:
// the rates come from a calibration (calibration.hpp), from the settings of host devices, or from rough figures.
//
//   bound     T >= max( flops / P, up / BW_up, down / BW_down, (up + down) / BW_both )
//   expected  T  = max(compute, move) + min(compute, move) / 4
//
// with compulsory bytes only; compute and move are the first and the largest of the other terms. The bound needs both
// to overlap from the first byte to the last. Really, some three quarters of the shorter one overlap: the first tiles
// come before the first product, and the last results go after the last one. Measured on one H200, dgemm from
// page-locked memory: n = 4096, 8192, 16384 take 8.3, 33.0, 162 ms, which the formula gives as 7.9, 33.7, 173.
#pragma once

#include <algorithm>
#include <cstddef>

#include "calls/work.hpp"
#include "core/rates_by_type.hpp"

namespace tessera::runtime {

/// Host links of all devices together, bytes per second; 0: unlimited or unknown.
struct LinkRates {
  double up = 0;
  double down = 0;
  double both = 0;  ///< in both directions at once, bytes of both counted
  bool operator==(const LinkRates&) const = default;
};

constexpr double seconds_at(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

constexpr double move_seconds(const Work& job, const LinkRates& links) {
  return std::max(
      {seconds_at(job.up, links.up), seconds_at(job.down, links.down), seconds_at(job.up + job.down, links.both)});
}

/// @param flops_per_s of all devices together, in the type of the job
constexpr double bound_seconds(const Work& job, double flops_per_s, const LinkRates& links) {
  return std::max(seconds_at(job.flops, flops_per_s), move_seconds(job, links));
}

/// Without what it takes to begin and to end a job of any size.
constexpr double expected_seconds(const Work& job, double flops_per_s, const LinkRates& links) {
  constexpr double not_overlapped = 0.25;
  const double compute = seconds_at(job.flops, flops_per_s);
  const double move = move_seconds(job, links);
  return std::max(compute, move) + not_overlapped * std::min(compute, move);
}

/// The measured rates of a machine: all its devices together.
struct Calibration {
  int devices = 0;
  RatesByType flops_per_s;
  LinkRates page_locked;  ///< 0: not measured, where threads carry pageable memory
  LinkRates pageable;
  double peer_bytes_per_s = 0;  ///< into one device, while all devices do it; 0: no peers

  bool operator==(const Calibration&) const = default;
};

}  // namespace tessera::runtime
