// How fast the CPU of this process computes, learnt from the calls that it answers. Between a reference BLAS and a tuned
// one on many cores lies a factor of some thousand, and nothing but the clock tells which one it is.
//
// The rate of a BLAS grows with the volume of a call (until all cores are busy) and with its thickness (until the
// product is no longer bound by memory). So a cell is kept per family, scalar type, class of volume (steps of 8, a
// factor of 2 in the side of a cube) and class of thickness. A product is as thick as its smallest size, a batch or a call of
// LAPACK as its flops per byte (steps of 4). Families are products, each routine of LAPACK, and batches of each routine. Rates are
// taken to be monotone in both:
//   - a cell that was seen often enough answers for itself;
//   - else the fastest cell that is smaller in both is a lower bound, the slowest that is larger in both an upper one.
//     Where no larger one was seen, the upper bound is the roofline of the machine's rough figures,
//     min(processors * core rate, intensity * memory rate), or the lower bound if that is more;
//   - products bound a routine of LAPACK: it reaches between a quarter of their rate and all of it, but reads its operands at
//     the rate of memory at best, and of one processor at worst;
//   - the estimate between two bounds is their geometric mean, since they may be orders of magnitude apart. A batch,
//     which can be measured for little, is expected to be as slow as can be.
//
// Rates of batches are those of one thread, since the number of their threads changes with what the program is doing.
#pragma once

#include <array>
#include <optional>

#include "calls/work.hpp"
#include "offload/learnt_speed.hpp"

namespace tessera::offload {

/// Seconds of a call on the CPU.
struct CpuEstimate {
  double expected_s = 0;
  double least_s = 0;   ///< at best, by what is known
  double most_s = 0;    ///< at worst
  bool bounded = true;  ///< nothing that was seen says how bad it can be: `most_s` is a hope if this is false
};

class CpuSpeed {
 public:
  /// Calls of a smaller volume (a cube of about 100) are not measured: they take some ten microseconds, too little to
  /// tell much, and must not pay for a look at the clock.
  static constexpr index_t least_volume = index_t{1} << 20;

  /// The slowest BLAS that there is: the reference on an old processor.
  static constexpr double slowest_flops_per_s = 1e9;

  /// Processors that this process may run on.
  static int available_processors(int local_ranks);

  explicit CpuSpeed(int processors) : processors_(processors) {}

  /// The CPU took so long for a call. Thread-safe, as all functions.
  /// @param alone if not, calls on devices may have slowed it down @param threads of a batch; else 1
  void record(const Work& work, double seconds, bool alone, int threads = 1) {
    cell_of(work).record(work.flops / (seconds * threads), alone);
  }
  /// A call went to devices, since the CPU was expected to take longer; see LearntSpeed.
  void passed_over(const Work& work, double part) { cell_of(work).passed_over(part); }
  CpuEstimate estimate(const Work& work, int threads = 1) const;

  /// Something was measured in the cell of this call.
  bool has_seen(const Work& work) const { return cell_of(work).seen().count > 0; }
  /// Some product was measured in this type.
  bool knows(ScalarType type) const;

  /// The product that is worth timing on the CPU before it is decided whether a call goes to devices, which need
  /// `devices_s` for it, their start included. Sizes and type of a gemm, without operands. The first one of a type is
  /// small. Any other is the largest of cells not yet seen that, timed twice, takes at most a thirty-second of either.
  /// @return nothing if no doubt is left or none such exists @pre no batch
  std::optional<Level3> next_probe(const Work& work, double devices_s) const;

 private:
  static constexpr std::size_t volume_classes = 12, thickness_classes = 4;
  using Cells = std::array<std::array<LearntSpeed, thickness_classes>, volume_classes>;
  struct Place {
    std::size_t volume = 0;
    std::size_t thickness = 0;
  };

  static Place place_of(const Work& work);
  const Cells& cells_of(const Work& work) const {
    const std::size_t family =
        work.of == Work::Of::product ? 0 : 1 + 2 * number_of(work.routine) + (work.of == Work::Of::batch ? 1 : 0);
    return cells_[family][static_cast<std::size_t>(work.type)];
  }
  const LearntSpeed& cell_of(const Work& work) const {
    const Place place = place_of(work);
    return cells_of(work)[place.volume][place.thickness];
  }
  LearntSpeed& cell_of(const Work& work) {
    return const_cast<LearntSpeed&>(static_cast<const CpuSpeed*>(this)->cell_of(work));
  }
  CpuEstimate bounds_of(const Work& work, int threads) const;
  /// Of the operands, at the rate of memory.
  double reading_s(const Work& work) const;

  int processors_;
  std::array<std::array<Cells, 4>, 1 + 2 * routine_count> cells_{};
};

}  // namespace tessera::offload
