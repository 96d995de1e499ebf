#include "offload/cpu_speed.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/host_share.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {
namespace {

/// One core with two units for 512-bit multiply-add at 2 GHz, double precision.
constexpr double core_flops_per_s = 64e9;
/// The memory bandwidth of one core, and that of all cores of a machine of the last decade.
constexpr double core_bytes_per_s = 10e9;
constexpr double memory_bytes_per_s = 100e9;

}  // namespace

int CpuSpeed::available_processors(int local_ranks) { return tessera::available_processors(local_ranks); }

CpuSpeed::Place CpuSpeed::place_of(const Level3& call) {
  const auto digits = [](index_t number) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(number)));
  };
  const int volume = (digits(volume_of(call)) - digits(least_volume)) / 3;
  const index_t smallest = std::min({call.m, call.n, inner_size(call)});
  const int size = smallest < 32 ? 0 : smallest < 128 ? 1 : smallest < 512 ? 2 : 3;
  return {std::clamp(volume, 0, volume_classes - 1), size};
}

const std::atomic<CpuSpeed::Seen>& CpuSpeed::cell_of(const Level3& call) const {
  const Place place = place_of(call);
  return cells_of(call.type)[static_cast<std::size_t>(place.volume)][static_cast<std::size_t>(place.size)];
}
std::atomic<CpuSpeed::Seen>& CpuSpeed::cell_of(const Level3& call) {
  return const_cast<std::atomic<Seen>&>(std::as_const(*this).cell_of(call));
}

void CpuSpeed::record(const Level3& call, double seconds, bool alone) {
  if (!(seconds > 0)) return;
  const auto rate = static_cast<float>(flops_of(call) / seconds);
  std::atomic<Seen>& cell = cell_of(call);
  Seen seen = cell.load(std::memory_order_relaxed);
  const float difference = rate - seen.flops_per_s;
  if (!alone && seen.count > 0 && difference <= 0) return;
  seen.flops_per_s = seen.count == 0 ? rate : seen.flops_per_s + difference / (difference > 0 ? 2.0F : 8.0F);
  seen.count = static_cast<std::uint8_t>(std::min(seen.count + 1, trusted_count));
  seen.vain = 0;
  seen.passed_over = 0;
  cell.store(seen, std::memory_order_relaxed);
}

void CpuSpeed::tried_in_vain(const Level3& call, double price) {
  // Where both take about as long, trials cost nothing, and in the end all calls are on the CPU and count.
  constexpr double free = 0.25;
  constexpr double parts_of_call = 16, most = 2 * parts_of_call;
  std::atomic<Seen>& cell = cell_of(call);
  Seen seen = cell.load(std::memory_order_relaxed);
  const double vain = seen.vain + std::clamp((price - free) * parts_of_call, 0.0, most);
  if (vain < most) {
    seen.vain = static_cast<std::uint8_t>(vain);
  } else {
    seen = {.flops_per_s = seen.flops_per_s, .count = trusted_count};
  }
  cell.store(seen, std::memory_order_relaxed);
}

void CpuSpeed::passed_over(const Level3& call) {
  std::atomic<Seen>& cell = cell_of(call);
  Seen seen = cell.load(std::memory_order_relaxed);
  if (++seen.passed_over >= lifetime) {
    seen.passed_over = 0;
    seen.count = std::min<std::uint8_t>(seen.count, trusted_count - 1);
  }
  cell.store(seen, std::memory_order_relaxed);
}

CpuEstimate CpuSpeed::estimate(const Level3& call) const {
  const Place place = place_of(call);
  const double flops = flops_of(call);
  double lower = 0;
  double upper = std::numeric_limits<double>::infinity();
  double own = 0;
  for (int v = 0; v < volume_classes; ++v) {
    for (int s = 0; s < size_classes; ++s) {
      const Seen seen =
          cells_of(call.type)[static_cast<std::size_t>(v)][static_cast<std::size_t>(s)].load(std::memory_order_relaxed);
      if (seen.count == 0) continue;
      const auto rate = static_cast<double>(seen.flops_per_s);
      if (v == place.volume && s == place.size) {
        own = rate;
        if (seen.count >= trusted_count) return {flops / own, flops / own, flops / own};
      } else if (v <= place.volume && s <= place.size) {
        lower = std::max(lower, rate);
      } else if (v >= place.volume && s >= place.size) {
        upper = std::min(upper, rate);
      }
    }
  }
  if (std::isinf(upper)) {
    const bool single = call.type == ScalarType::s || call.type == ScalarType::c;
    const double arithmetic = processors_ * core_flops_per_s * (single ? 2 : 1);
    const double memory = std::min(processors_ * core_bytes_per_s, memory_bytes_per_s);
    const Work work = work_of(call);
    upper = std::min(arithmetic, flops / (work.up + work.down) * memory);
  }
  upper = std::max({upper, lower, own});
  if (own > 0) return {flops / own, flops / upper, flops / own};
  if (lower == 0) return {flops / upper, flops / upper, flops / upper, false};
  return {flops / std::sqrt(lower * upper), flops / upper, flops / lower};
}

CpuSpeed::Rates CpuSpeed::rates() const {
  Rates rates = {};
  for (std::size_t type = 0; type < cells_.size(); ++type) {
    for (std::size_t v = 0; v < volume_classes; ++v) {
      for (std::size_t s = 0; s < size_classes; ++s) {
        const Seen seen = cells_[type][v][s].load(std::memory_order_relaxed);
        if (seen.count > 0) rates[type][v][s] = seen.flops_per_s;
      }
    }
  }
  return rates;
}

void CpuSpeed::adopt(const Rates& rates) {
  for (std::size_t type = 0; type < cells_.size(); ++type) {
    for (std::size_t v = 0; v < volume_classes; ++v) {
      for (std::size_t s = 0; s < size_classes; ++s) {
        Seen none;
        const Seen seen{.flops_per_s = rates[type][v][s], .count = trusted_count};
        if (seen.flops_per_s > 0) cells_[type][v][s].compare_exchange_strong(none, seen, std::memory_order_relaxed);
      }
    }
  }
}

bool CpuSpeed::are_plausible(const Rates& rates) {
  for (const auto& of_type : rates) {
    for (const auto& of_volume : of_type) {
      if (!std::all_of(of_volume.begin(), of_volume.end(), [](float rate) { return std::isfinite(rate) && rate >= 0; }))
        return false;
    }
  }
  return true;
}

bool CpuSpeed::has_seen(const Level3& call) const { return cell_of(call).load(std::memory_order_relaxed).count > 0; }

bool CpuSpeed::knows(ScalarType type) const {
  for (const auto& of_volume : cells_of(type)) {
    for (const std::atomic<Seen>& cell : of_volume) {
      if (cell.load(std::memory_order_relaxed).count > 0) return true;
    }
  }
  return false;
}

std::optional<Level3> next_probe(const CpuSpeed& speed, const Level3& call, double devices_s) {
  constexpr std::array<index_t, 5> sides = {1664, 832, 416, 208, 104};  // a class of volumes each
  constexpr double largest_part = 1.0 / 64;
  const CpuEstimate whole = speed.estimate(call);
  if (whole.least_s >= devices_s || whole.most_s <= devices_s) return std::nullopt;
  for (const index_t side : sides) {
    Level3 probe;
    probe.type = call.type;
    probe.m = std::min(call.m, side);
    probe.n = std::min(call.n, side);
    probe.k = std::min(inner_size(call), side);
    const index_t volume = volume_of(probe);
    if (volume < CpuSpeed::least_volume || volume >= volume_of(call) || speed.has_seen(probe)) continue;
    const CpuEstimate estimate = speed.estimate(probe);
    if (!estimate.bounded) continue;
    if (estimate.most_s <= largest_part * std::min(devices_s, whole.expected_s)) return probe;
  }
  return std::nullopt;
}

}  // namespace tessera::offload
