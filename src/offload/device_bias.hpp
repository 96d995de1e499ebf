// How much longer calls on the devices take than the performance model expects, learnt by classes of
// volume (steps of 8, a factor of 2 in the side of a cube). The model knows rates and no latencies:
// small calls may take many times what it says, and only the clock tells how many.
//
// The first measurement of a class is not believed, since it may have loaded kernels; of the first two the
// smaller one counts. Later ones move the bias half of the way down or an eighth of the way up, so that a call
// that happens to wait for others counts little. The class is forgotten, so that it is tried again, when calls
// in a row that stayed on the CPU have taken as long as one on devices. The next time they must have taken twice
// as long, and so on up to `lifetime` times. So slow first calls are soon made up for. A bias of bad times costs
// little where the CPU is nearly as quick, and trials cost little where it is much quicker.
//
// Devices may take several times as long beside calls on the CPU. A class that was seen only so is assumed to be slow
// for that reason. Otherwise many callers would share CPU and devices for ever, each side slow for the other.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "core/scalar.hpp"

namespace tessera::offload {

class DeviceBias {
 public:
  static constexpr int lifetime = 16;

  /// 1 as long as nothing is known. Thread-safe, as all functions.
  double of(index_t volume) const { return known(volume).value_or(1); }
  std::optional<double> known(index_t volume) const {
    const Seen seen = cell_of(volume).load(std::memory_order_relaxed);
    if (seen.count < believed) return std::nullopt;
    if (seen.was_alone) return seen.bias;
    return std::min(seen.bias, std::max(1.0F, seen.bias / slower_beside_cpu));
  }

  /// A call took `bias` times what was expected.
  /// @param alone if not, calls on the CPU may have slowed it down: what is known stands unless this is better
  void record(index_t volume, double bias, bool alone) {
    // Relaxed: of two measurements at the same time one may be lost.
    std::atomic<Seen>& cell = cells_[class_of(volume)];
    Seen seen = cell.load(std::memory_order_relaxed);
    const auto now = static_cast<float>(bias);
    if (!alone && seen.count >= believed && now >= seen.bias) return;
    const bool first_alone = alone && !seen.was_alone;
    seen.was_alone = seen.was_alone || alone;
    if (seen.count < believed || first_alone) {
      seen.bias = seen.count == 0 || now < seen.bias ? now : seen.bias;
      if (seen.count < believed) ++seen.count;
    } else {
      seen.bias += (now - seen.bias) / (now < seen.bias ? 2.0F : 8.0F);
    }
    seen.passed_over = 0;
    cell.store(seen, std::memory_order_relaxed);
  }

  /// A call was computed in another way, since this one was expected to take longer.
  /// @param part what that way was expected to take, of what this one was
  void passed_over(index_t volume, double part) {
    std::atomic<Seen>& cell = cells_[class_of(volume)];
    Seen seen = cell.load(std::memory_order_relaxed);
    if (seen.count == 0) return;
    seen.passed_over = static_cast<std::uint16_t>(seen.passed_over + std::clamp(part, 0.0, 1.0) * parts_of_call);
    const int patience = 1 << seen.times_forgotten;
    if (seen.passed_over >= patience * parts_of_call) {
      const int times = seen.times_forgotten + (patience < lifetime ? 1 : 0);
      seen = {};
      seen.times_forgotten = static_cast<std::uint8_t>(times & 7);
    }
    cell.store(seen, std::memory_order_relaxed);
  }

 private:
  static constexpr int believed = 2;
  static constexpr float slower_beside_cpu = 4;  ///< H200: three to four times
  static constexpr int parts_of_call = 1024;

  struct Seen {
    float bias = 1;
    std::uint8_t count = 0;      ///< `believed` stands for more, too
    bool was_alone : 1 = false;  ///< some have not been beside calls on the CPU
    std::uint8_t times_forgotten : 7 = 0;
    std::uint16_t passed_over = 0;  ///< in parts of a call on devices
  };
  static_assert(std::atomic<Seen>::is_always_lock_free);

  static std::size_t class_of(index_t volume) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(volume)) / 3);
  }
  const std::atomic<Seen>& cell_of(index_t volume) const { return cells_[class_of(volume)]; }

  std::array<std::atomic<Seen>, 22> cells_{};
};

}  // namespace tessera::offload
