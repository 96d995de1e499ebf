#include "offload/cpu_speed.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/host_share.hpp"

namespace tessera::offload {
namespace {

/// One core with two units for 512-bit multiply-add at 2 GHz, double precision.
constexpr double core_flops_per_s = 64e9;
/// The memory bandwidth of one core, and that of all cores of a machine of the last decade.
constexpr double core_bytes_per_s = 10e9;
constexpr double memory_bytes_per_s = 100e9;
/// A LAPACK may be so many times as quick or slow as its routine's part of the rate of products says.
constexpr double doubt_of_part = 2;

/// The call itself, or a cube of its volume.
Work as_product(const Work& work) {
  if (work.of == Work::Of::product) return work;
  const auto side = std::max<index_t>(static_cast<index_t>(std::cbrt(static_cast<double>(work.volume))), 1);
  return work_of(Level3{.type = work.type, .m = side, .n = side, .k = side});
}

int digits(index_t number) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(number))); }

index_t smallest_size(const Level3& call) { return std::min({call.m, call.n, inner_size(call)}); }

}  // namespace

int CpuSpeed::available_processors(int local_ranks) { return tessera::available_processors(local_ranks); }

CpuSpeed::Place CpuSpeed::place_of(const Work& work) {
  const auto place = [](int volume, int thickness) {
    return Place{static_cast<std::size_t>(std::clamp<int>(volume, 0, volume_classes - 1)),
                 static_cast<std::size_t>(std::clamp<int>(thickness, 0, thickness_classes - 1))};
  };
  const int volume = digits(work.mean_volume());
  const int flops_per_byte = digits(static_cast<index_t>(8 * work.flops / std::max(work.up + work.down, 1.0)));
  switch (work.of) {
    case Work::Of::product:
      return place((volume - digits(least_volume)) / 3, (digits(smallest_size(work.product)) - 4) / 2);
    case Work::Of::lapack:
      return place((volume - digits(least_volume)) / 3, flops_per_byte / 2);
    case Work::Of::batch:
      break;
  }
  return place(volume / 3, flops_per_byte / 2);
}

double CpuSpeed::reading_s(const Work& work) const {
  return work.up / std::min(processors_ * core_bytes_per_s, memory_bytes_per_s);
}

// The bounds that hold where no cell of the family was seen.
CpuEstimate CpuSpeed::bounds_of(const Work& work, int threads) const {
  if (work.of == Work::Of::lapack) {
    const CpuEstimate products = estimate(as_product(work));
    // Solves of few right-hand sides read more than they compute, and do so on one processor at worst.
    return {0, std::max(products.least_s / std::min(doubt_of_part * work.part_of_cpu, 1.0), reading_s(work)),
            std::max(doubt_of_part / work.part_of_cpu * products.most_s, work.up / core_bytes_per_s), products.bounded};
  }
  const bool single = work.type == ScalarType::s || work.type == ScalarType::c;
  const int processors = work.of == Work::Of::batch ? threads : processors_;
  const double arithmetic = processors * core_flops_per_s * (single ? 2 : 1);
  const double memory = std::min(processors * core_bytes_per_s, memory_bytes_per_s);
  const double least_s = std::max(work.flops / arithmetic, (work.up + work.down) / memory);
  if (work.of == Work::Of::batch) return {0, least_s, std::max(work.flops / slowest_flops_per_s, least_s)};
  return {0, least_s, least_s, false};
}

CpuEstimate CpuSpeed::estimate(const Work& work, int threads) const {
  const Place place = place_of(work);
  const Cells& cells = cells_of(work);
  const auto at = [&](float rate) { return work.flops / (static_cast<double>(rate) * threads); };
  const LearntSpeed::Seen own = cells[place.volume][place.thickness].seen();
  if (own.is_believed()) return {at(own.speed), at(own.speed), at(own.speed)};
  float slowest_larger = 0, fastest_smaller = own.speed;
  for (std::size_t v = 0; v < volume_classes; ++v) {
    for (std::size_t t = 0; t < thickness_classes; ++t) {
      const LearntSpeed::Seen seen = cells[v][t].seen();
      if (seen.count == 0 || (v == place.volume && t == place.thickness)) continue;
      if (v <= place.volume && t <= place.thickness) fastest_smaller = std::max(fastest_smaller, seen.speed);
      if (v >= place.volume && t >= place.thickness && (slowest_larger == 0 || seen.speed < slowest_larger))
        slowest_larger = seen.speed;
    }
  }
  CpuEstimate bounds = bounds_of(work, threads);
  if (slowest_larger > 0) bounds.least_s = at(slowest_larger);
  if (fastest_smaller > 0) {
    bounds.least_s = std::min(bounds.least_s, at(fastest_smaller));
    bounds.most_s = at(own.count > 0 ? own.speed : fastest_smaller);
    bounds.bounded = true;
  }
  if (work.of == Work::Of::lapack) bounds.least_s = std::max(bounds.least_s, reading_s(work));
  bounds.most_s = bounds.bounded ? std::max(bounds.most_s, bounds.least_s) : bounds.least_s;
  const bool expects_most = own.count > 0 || work.of == Work::Of::batch;
  bounds.expected_s = expects_most ? bounds.most_s : std::sqrt(bounds.least_s * bounds.most_s);
  return bounds;
}

bool CpuSpeed::knows(ScalarType type) const {
  const Cells& cells = cells_of({.type = type});
  return std::any_of(cells.begin(), cells.end(), [](const auto& of_volume) {
    return std::any_of(of_volume.begin(), of_volume.end(),
                       [](const LearntSpeed& cell) { return cell.seen().count > 0; });
  });
}

std::optional<Level3> CpuSpeed::next_probe(const Work& work, double devices_s) const {
  constexpr index_t sides[] = {1664, 832, 416, 208, 104};  // a class of volumes each
  constexpr double largest_part = 1.0 / 64;
  constexpr double short_s = 0.05;  ///< a call that takes no longer on any BLAS is not worth a probe
  if (work.of != Work::Of::product && has_seen(work)) return std::nullopt;
  const Work whole = as_product(work);
  const auto probe_of = [&](index_t side) {
    return Level3{.type = work.type,
                  .m = std::min(whole.product.m, side),
                  .n = std::min(whole.product.n, side),
                  .k = std::min(inner_size(whole.product), side)};
  };
  if (!knows(work.type)) {
    if (whole.flops / slowest_flops_per_s <= std::max(devices_s, short_s)) return std::nullopt;
    return Level3{.type = work.type, .m = 104, .n = 104, .k = 104};
  }
  const CpuEstimate expected = estimate(whole);
  if (expected.least_s >= devices_s || expected.most_s <= devices_s) return std::nullopt;
  for (const index_t side : sides) {
    const Level3 probe = probe_of(side);
    const Work of_probe = work_of(probe);
    if (of_probe.volume < least_volume || of_probe.volume >= whole.volume || has_seen(of_probe)) continue;
    const CpuEstimate estimated = estimate(of_probe);
    if (estimated.bounded && estimated.most_s <= largest_part * std::min(devices_s, expected.expected_s)) return probe;
  }
  return std::nullopt;
}

}  // namespace tessera::offload
