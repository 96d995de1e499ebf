// How fast the CPU computes single calls of LAPACK and batches, learnt from those that it answers: by routine, type and
// size. cpu_speed.hpp has the same for single calls of Level 3, whose rates depend on more than their volume.
#pragma once

#include <array>
#include <optional>

#include "calls/work.hpp"
#include "offload/cpu_speed.hpp"
#include "offload/learnt_rate.hpp"

namespace tessera::offload {

/// LAPACK: classes of volume in steps of 8. Batches: of mean volume in steps of 8, and of flops per byte in steps of 4,
/// since the cost of a call limits small products, and the memory limits thin ones. Rates of batches are kept for one
/// thread, since the number of threads of a batch changes with what the program is doing. Thread-safe.
class RoutineSpeed {
 public:
  bool knows(const Work& work) const { return rate_of(work).is_known(); }
  /// Something was measured of such calls of this routine in this type.
  bool knows_any(const Work& work) const;
  /// A class of LAPACK that was not seen is taken to be as fast as the nearest one, within a factor of two. A batch that
  /// was not seen takes between the times of the best and of the slowest BLAS, and the latter is expected.
  /// @param threads that batches may have; 1 for LAPACK, whose threads are its own
  /// @return nothing if no such call of LAPACK, of any size, has been seen
  std::optional<CpuEstimate> estimate(const Work& work, int threads) const;
  void record(const Work& work, double seconds, int threads) { rate_of(work).record(work.flops, seconds * threads); }
  void passed_over(const Work& work) { rate_of(work).passed_over(); }

 private:
  static constexpr std::size_t volume_classes = 22;
  static constexpr std::size_t volume_classes_of_batches = 9, intensity_classes = 4;
  using OfType = std::array<LearntRate, volume_classes_of_batches * intensity_classes>;

  static std::size_t class_of(const Work& work);
  const OfType& rates_of(const Work& work) const {
    return rates_[work.of == Work::Of::batch][number_of(work.routine)][static_cast<std::size_t>(work.type)];
  }
  const LearntRate& rate_of(const Work& work) const { return rates_of(work)[class_of(work)]; }
  LearntRate& rate_of(const Work& work) {
    return rates_[work.of == Work::Of::batch][number_of(work.routine)][static_cast<std::size_t>(work.type)]
                 [class_of(work)];
  }

  std::array<std::array<std::array<OfType, 4>, routine_count>, 2> rates_{};
};

}  // namespace tessera::offload
