// How fast calls of one class are computed, on the CPU or on devices, learnt from those that were.
//
// One measurement is not believed, since it may have loaded kernels or started threads; of the first two the faster one
// counts. Later ones move the speed half of the way up or an eighth of the way down, so that a call that was interrupted
// counts little, and a side that stays slower is believed after a dozen calls.
//
// Calls on the other side slow this one down. A measurement beside them counts if it is better than what is known.
// A speed that was only seen so is doubted; the first measurement without them that is faster takes its place.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/scalar.hpp"

namespace tessera::offload {

/// One word, so that it can be atomic. Relaxed everywhere: it depends on nothing else, and of two measurements at the
/// same time one may be lost. Thread-safe.
class LearntSpeed {
 public:
  static constexpr int longest_patience = 8;

  struct Seen {
    float speed = 0;
    std::uint8_t count = 0;  ///< `believed` stands for more, too
    bool was_alone : 1 = false;
    std::uint8_t times_forgotten : 7 = 0;
    std::uint16_t passed_over = 0;  ///< in parts of a call
    bool is_believed() const { return count >= believed; }
  };
  Seen seen() const { return seen_.load(std::memory_order_relaxed); }

  /// @param alone no call on the other side was at work meanwhile
  void record(double speed, bool alone) {
    if (!(speed > 0) || !std::isfinite(speed)) return;
    Seen seen = this->seen();
    const auto now = static_cast<float>(speed);
    if (!seen.is_believed() || (alone && !seen.was_alone)) {
      seen.speed = std::max(seen.speed, now);
      seen.count = static_cast<std::uint8_t>(std::min(seen.count + 1, believed));
    } else if (alone || now > seen.speed) {
      seen.speed += (now - seen.speed) / (now > seen.speed ? 2.0F : 8.0F);
    } else {
      return;
    }
    seen.was_alone = seen.was_alone || alone;
    seen.passed_over = 0;
    seen_.store(seen, std::memory_order_relaxed);
  }

  /// A call was computed in another way, since this one was expected to take longer. When such calls in a row have
  /// taken as long as one in this way, the speed is forgotten, and so tried again. The next time they must have taken
  /// twice as long, and so on up to `longest_patience`. So slow first calls are soon made up for.
  /// @param part the time expected of that way, over that of this one
  void passed_over(double part) {
    Seen seen = this->seen();
    if (seen.count == 0 || !(part > 0)) return;
    seen.passed_over = static_cast<std::uint16_t>(seen.passed_over + std::clamp(part, 0.0, 1.0) * parts_of_call);
    const int patience = 1 << seen.times_forgotten;
    if (seen.passed_over >= patience * parts_of_call) {
      const int times = seen.times_forgotten + (patience < longest_patience ? 1 : 0);
      seen = {};
      seen.times_forgotten = static_cast<std::uint8_t>(times & 7);
    }
    seen_.store(seen, std::memory_order_relaxed);
  }

 private:
  static constexpr int believed = 2;
  static constexpr int parts_of_call = 1024;
  static_assert(std::atomic<Seen>::is_always_lock_free);

  std::atomic<Seen> seen_ = Seen{};
};

/// How much longer calls on devices take than the performance model expects, by classes of volume (steps of 8, a factor
/// of 2 in the side of a cube). The model knows rates and no latencies: small calls may take many times what it says.
class DeviceBias {
 public:
  /// 1 as long as nothing is known. Thread-safe, as all functions.
  double of(index_t volume) const {
    const LearntSpeed::Seen seen = class_of(volume).seen();
    if (!seen.is_believed()) return 1;
    const float bias = 1 / seen.speed;
    // Otherwise many callers would share CPU and devices for ever, each side slow for the other.
    return seen.was_alone ? bias : std::min(bias, std::max(1.0F, bias / slower_beside_cpu));
  }
  bool knows(index_t volume) const { return class_of(volume).seen().is_believed(); }
  /// A call took `bias` times what was expected.
  void record(index_t volume, double bias, bool alone) { class_of(volume).record(1 / bias, alone); }
  void passed_over(index_t volume, double part) { class_of(volume).passed_over(part); }

 private:
  static constexpr float slower_beside_cpu = 4;  ///< H200: three to four times

  LearntSpeed& class_of(index_t volume) {
    return classes_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(volume)) / 3)];
  }
  const LearntSpeed& class_of(index_t volume) const { return const_cast<DeviceBias*>(this)->class_of(volume); }

  std::array<LearntSpeed, 22> classes_{};
};

}  // namespace tessera::offload
