#include "offload/routine_speed.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tessera::offload {
namespace {

constexpr double slowest_flops_per_s = 1e9;    ///< the reference on an old processor
constexpr double quickest_flops_per_s = 64e9;  ///< of a processor, on products that fit its cache
constexpr double doubt = 2;

std::size_t digits(std::uint64_t number) { return static_cast<std::size_t>(std::bit_width(number)); }

}  // namespace

std::size_t RoutineSpeed::class_of(const Work& work) {
  const std::size_t volume = digits(static_cast<std::uint64_t>(work.mean_volume())) / 3;
  if (work.of != Work::Of::batch) return std::min(volume, volume_classes - 1);
  const double bytes = std::max(work.up + work.down, 1.0);
  const std::size_t intensity = digits(static_cast<std::uint64_t>(8 * work.flops / bytes)) / 2;
  return std::min(volume, volume_classes_of_batches - 1) * intensity_classes +
         std::min(intensity, intensity_classes - 1);
}

bool RoutineSpeed::knows_any(const Work& work) const {
  const OfType& rates = rates_of(work);
  return std::any_of(rates.begin(), rates.end(), [](const LearntRate& rate) { return rate.is_known(); });
}

std::optional<CpuEstimate> RoutineSpeed::estimate(const Work& work, int threads) const {
  const auto at = [&](double rate) { return work.flops / (rate * threads); };
  if (const double rate = rate_of(work).flops_per_s(); rate > 0) return CpuEstimate{at(rate), at(rate), at(rate)};
  if (work.of == Work::Of::batch)
    return CpuEstimate{work.flops / slowest_flops_per_s, at(quickest_flops_per_s), work.flops / slowest_flops_per_s};
  const OfType& rates = rates_of(work);
  const std::size_t own = class_of(work);
  for (std::size_t distance = 1; distance < volume_classes; ++distance) {
    for (const std::size_t near : {own - distance, own + distance}) {  // the first may wrap around
      const double rate = near < volume_classes ? rates[near].flops_per_s() : 0;
      if (rate > 0) return CpuEstimate{at(rate), at(rate) / doubt, at(rate) * doubt};
    }
  }
  return std::nullopt;
}

}  // namespace tessera::offload
