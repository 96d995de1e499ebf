// Devices or CPU: the decision for a single call of LAPACK. Pure functions beside those for Level 3 (policy.hpp), whose
// rule, start of devices and bias it shares.
//   device_s = backlog + bias * (overhead + panels + the longer of computing and moving + a quarter of the other)
//   cpu_s    = as such calls have run here (LapackSpeed); before, as products of as much arithmetic (CpuSpeed)
// Panels go from column to column, whatever the rate of products. The volume of a call, by which TESSERA_OFFLOAD and the
// summary know its size, is that of products of as much arithmetic: half of a real call's operations.
#pragma once

#include <array>
#include <optional>

#include "calls/lapack_call.hpp"
#include "calls/routine.hpp"
#include "offload/learnt_rate.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {

/// The demand of a call: its arithmetic, its copies and its fixed costs.
struct LapackDemand {
  Routine routine = Routine::getrf;
  ScalarType type = ScalarType::d;
  index_t volume = 0;
  runtime::Demand work;
  double beside_s = 0;      ///< seconds of devices beside arithmetic and copies
  double part_of_rate = 1;  ///< the part of the rate of products that their arithmetic reaches
};

/// Cheap: small calls pay for it. @pre sizes are good
LapackDemand demand_of(const LapackCall& problem);

/// A cube of the same volume, as a product.
Level3 product_like(const LapackDemand& demand);

/// decide_early() for it.
Decision decide_early(const OffloadRule& rule, const LapackDemand& demand);

/// The whole decision. `now.cpu` and `now.bias` are those of such calls.
Decision decide(const OffloadRule& rule, const LapackDemand& demand, const Conditions& now);

/// How fast the CPU's LAPACK is, learnt by routine, type and volume (steps of 8). A class that was not seen is taken to be
/// as fast as the nearest one, within a factor of two. Thread-safe.
class LapackSpeed {
 public:
  /// Nothing if no such call, of any size, has been seen.
  std::optional<CpuEstimate> estimate(const LapackDemand& demand) const;
  void record(const LapackDemand& demand, double seconds) { rate_of(demand).record(demand.work.flops, seconds); }
  void passed_over(const LapackDemand& demand) { rate_of(demand).passed_over(); }

 private:
  static constexpr int volume_classes = 22;
  using OfType = std::array<LearntRate, volume_classes>;

  static int class_of(index_t volume);
  LearntRate& rate_of(const LapackDemand& demand) {
    return rates_[number_of(demand.routine)][static_cast<std::size_t>(demand.type)]
                 [static_cast<std::size_t>(class_of(demand.volume))];
  }

  std::array<std::array<OfType, 4>, routine_count> rates_{};
};

}  // namespace tessera::offload
