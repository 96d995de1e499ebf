// Devices or CPU BLAS: the decision for a batch in host memory. Pure functions beside those for single calls
// (policy.hpp), whose rule, start of devices and bias a batch shares.
//
// A product runs as a call of its own if its volume is one that the policy weighs, or if it is
// larger than a lane of the runtime should be. So does a product that only scales C; the CPU
// computes it. All others are decided together, by the sum of their volumes:
//   device_s = backlog + bias * (overhead + the longest of packing, moving and computing + a quarter of the rest)
//   cpu_s    = as batches of such products have run here (BatchSpeed)
// Packing is what the host's threads carry, both ways; moving is what the links take; small products reach a part of
// the devices' rate. LAPACK's problems count by their arithmetic: half of a real problem's operations are its volume.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "calls/gemm_batch.hpp"
#include "calls/lapack_problems.hpp"
#include "calls/routine.hpp"
#include "offload/learnt_rate.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {

/// The demand of a batch: its problems, arithmetic and bytes.
struct BatchDemand {
  Routine routine = Routine::gemm;
  ScalarType type = ScalarType::d;
  index_t problems = 0;
  index_t forms = 0;
  index_t volume = 0;  ///< the sum
  double flops = 0;
  double up_bytes = 0;  ///< that are read
  double down_bytes = 0;
  double orders = 0;  ///< LAPACK: the sum of n

  index_t mean_volume() const { return problems > 0 ? volume / problems : 0; }
  double mean_order() const { return problems > 0 ? orders / static_cast<double>(problems) : 0; }
};

/// @pre no product is larger than is_batched() allows
BatchDemand demand_of(const GemmBatch& batch, index_t first, index_t last);
BatchDemand demand_of(const LapackProblems& batch, index_t first, index_t last);

/// Whether the product is decided with others. @pre it has an effect
bool is_batched(ScalarType type, const ProductForm& form, const Product& product);

/// Takes those out that are not. @return them, as calls of their own @throws std::bad_alloc, and nothing has changed
std::vector<Level3> take_single_calls(GemmBatch& batch);

/// LAPACK's problems by size, from small to large: those that are packed with many others, those that take lanes of
/// another size, and those that are left to the CPU.
struct BySize {
  LapackProblems small, large, too_large;
};
/// @param batch is used up @throws std::bad_alloc
BySize by_size(LapackProblems&& batch);

/// decide_early() for the sum of a batch.
Decision decide_early(const OffloadRule& rule, const BatchDemand& batch);

/// Seconds that the model expects of the batch on devices. @param packing_bytes_per_s of all threads that pack
double seconds_on_devices(const BatchDemand& batch, const Rates& rates, double packing_bytes_per_s);

/// The whole decision. `now.cpu` and `now.bias` are those of such batches.
Decision decide(const OffloadRule& rule, const BatchDemand& batch, const Conditions& now, double packing_bytes_per_s);

/// How fast batches of small products run on the CPU, learnt by routine, type, mean volume (steps of 8) and flops per
/// byte (steps of 4). The cost of a call limits small products, the memory limits thin ones. Rates are kept for one
/// thread, since the number of threads of a batch changes with what the program is doing. Thread-safe.
class BatchSpeed {
 public:
  bool knows(const BatchDemand& batch) const { return rate_of(batch).is_known(); }
  /// Something was measured of this routine in this type.
  bool knows(Routine routine, ScalarType type) const;
  /// @param threads that batches may have. Where nothing is known, between what the best and the slowest BLAS take, and
  /// the latter is expected.
  CpuEstimate estimate(const BatchDemand& batch, int threads) const;
  void record(const BatchDemand& batch, double seconds, int threads) {
    rate_of(batch).record(batch.flops, seconds * threads);
  }
  void passed_over(const BatchDemand& batch) { rate_of(batch).passed_over(); }

 private:
  static constexpr std::size_t volume_classes = 9;
  static constexpr std::size_t intensity_classes = 4;
  using OfType = std::array<std::array<LearntRate, intensity_classes>, volume_classes>;

  const LearntRate& rate_of(const BatchDemand& batch) const;
  LearntRate& rate_of(const BatchDemand& batch);

  std::array<std::array<OfType, 4>, routine_count> rates_{};
};

}  // namespace tessera::offload
