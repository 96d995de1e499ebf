// How fast the CPU computes calls of one class, learnt from those that it answers. Policies keep one for each class.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::offload {

/// A rate moves half of the way up or an eighth of the way down: one that was measured in bad times is soon forgotten, while
/// a machine that stays slower is believed after some calls. After `lifetime` calls in a row that went elsewhere it is
/// measured anew. Thread-safe.
class LearntRate {
 public:
  static constexpr int lifetime = 64;

  /// 0: nothing is known.
  double flops_per_s() const { return seen_.load(std::memory_order_relaxed).flops_per_s; }
  bool is_known() const { return flops_per_s() > 0; }

  /// So many operations took so long. Where either is nothing, nothing is learnt.
  void record(double flops, double seconds) {
    if (!(seconds > 0) || flops <= 0) return;
    const auto rate = static_cast<float>(flops / seconds);
    Seen seen = seen_.load(std::memory_order_relaxed);
    const float difference = rate - seen.flops_per_s;
    seen.flops_per_s = seen.flops_per_s > 0 ? seen.flops_per_s + difference / (difference > 0 ? 2.0F : 8.0F) : rate;
    seen.passed_over = 0;
    seen_.store(seen, std::memory_order_relaxed);
  }

  /// A call went elsewhere, since the CPU was expected to take longer.
  void passed_over() {
    Seen seen = seen_.load(std::memory_order_relaxed);
    if (++seen.passed_over >= lifetime) seen = {};
    seen_.store(seen, std::memory_order_relaxed);
  }

 private:
  /// One word. Relaxed everywhere: of two measurements at the same time one may be lost.
  struct Seen {
    float flops_per_s = 0;
    std::uint32_t passed_over = 0;
  };
  static_assert(std::atomic<Seen>::is_always_lock_free);

  std::atomic<Seen> seen_ = Seen{};
};

}  // namespace tessera::offload
