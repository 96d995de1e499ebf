// What calls on the devices take over what the performance model expects of them, learnt by classes of volume (steps of 8, a factor
// of 2 in the side of a cube). The model knows rates and no latencies: small calls may take many times what it says, and only the
// clock tells how many.
//
// The first measurement of a class is not believed, since it may have loaded kernels; of the first two the smaller one counts.
// Later ones move the bias half of the way down or an eighth of the way up: who has to wait for others now and then is not slow. After
// `lifetime` calls in a row that stayed on the CPU a class is forgotten, so that it is tried again.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "core/scalar.hpp"

namespace tessera::api {

class DeviceBias {
 public:
  static constexpr int lifetime = 64;

  /// 1 as long as nothing is known. Thread-safe, as all functions.
  double of(index_t volume) const {
    const Seen seen = cell_of(volume).load(std::memory_order_relaxed);
    return seen.count >= believed ? seen.bias : 1;
  }

  /// A call took `bias` times what was expected.
  void record(index_t volume, double bias) {
    // Relaxed: of two measurements at the same time one may be lost.
    std::atomic<Seen>& cell = cells_[class_of(volume)];
    Seen seen = cell.load(std::memory_order_relaxed);
    const auto now = static_cast<float>(bias);
    if (seen.count < believed) {
      seen.bias = seen.count == 0 || now < seen.bias ? now : seen.bias;
      ++seen.count;
    } else {
      seen.bias += (now - seen.bias) / (now < seen.bias ? 2.0F : 8.0F);
    }
    seen.passed_over = 0;
    cell.store(seen, std::memory_order_relaxed);
  }

  /// A call stayed on the CPU because devices were expected to take longer.
  void passed_over(index_t volume) {
    std::atomic<Seen>& cell = cells_[class_of(volume)];
    Seen seen = cell.load(std::memory_order_relaxed);
    if (seen.count == 0) return;
    if (++seen.passed_over >= lifetime) seen = {};
    cell.store(seen, std::memory_order_relaxed);
  }

 private:
  static constexpr int believed = 2;

  struct Seen {
    float bias = 1;
    std::uint16_t count = 0;
    std::uint16_t passed_over = 0;
  };
  static_assert(std::atomic<Seen>::is_always_lock_free);

  static std::size_t class_of(index_t volume) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(volume)) / 3);
  }
  const std::atomic<Seen>& cell_of(index_t volume) const { return cells_[class_of(volume)]; }

  std::array<std::atomic<Seen>, 22> cells_{};
};

}  // namespace tessera::api
