// Devices or CPU: the decision for a single call of LAPACK. Pure functions beside those for Level 3 (policy.hpp), whose
// rule, start of devices and bias it shares.
//   device_s = backlog + bias * (overhead + panels + the longer of computing and moving + a quarter of the other)
//   cpu_s    = as such calls have run here (LapackSpeed); before, as products of as much arithmetic (CpuSpeed)
// Panels go from column to column, whatever the rate of products. The volume of a call, by which TESSERA_OFFLOAD and the
// summary know its size, is that of products of as much arithmetic: half of a real call's operations.
#pragma once

#include <array>
#include <optional>

#include "blas_api/learnt_rate.hpp"
#include "blas_api/policy.hpp"
#include "core/any_routine.hpp"
#include "core/dense_problem.hpp"
#include "core/lapack_call.hpp"

namespace tessera::api {

/// What a call asks for.
struct LapackDemand {
  AnyRoutine routine = LapackCallRoutine::getrf;
  ScalarType type = ScalarType::d;
  index_t volume = 0;
  runtime::Demand work;
  double beside_s = 0;      ///< what devices take beside arithmetic and copies
  double part_of_rate = 1;  ///< of the rate of products, that their arithmetic has
};

/// Cheap: small calls pay for it. @pre sizes are good
LapackDemand demand_of(const LapackCall& call);
LapackDemand demand_of(const DenseProblem& problem);

/// A cube of the same volume, as a product.
Level3 product_like(const LapackDemand& demand);

/// decide_early() for it.
Verdict decide_early(const OffloadRule& rule, const LapackDemand& demand);

/// The whole decision. `now.cpu` and `now.bias` are those of such calls.
Verdict decide(const OffloadRule& rule, const LapackDemand& demand, const Situation& now);

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
    return rates_[demand.routine.number()][static_cast<std::size_t>(demand.type)]
                 [static_cast<std::size_t>(class_of(demand.volume))];
  }

  std::array<std::array<OfType, 4>, any_routine_count> rates_{};
};

}  // namespace tessera::api
