// How fast the CPU BLAS of this process is, learnt from the calls that it answers. Between a reference BLAS and a tuned
// one on many cores lies a factor of some thousand, and nothing but the clock tells which one it is.
//
// The rate of a BLAS grows with the volume of a call (until all cores are busy) and with its smallest size (until the
// product is no longer bound by memory). So a cell is kept per scalar type, class of volume (steps of 8, a factor of 2
// in the side of a cube) and class of smallest size (steps of 4), and rates are taken to be monotone in both:
//   - a cell that was seen often enough answers for itself;
//   - else the fastest cell that is smaller in both is a lower bound, the slowest that is larger in both an upper one.
//     Where no larger one was seen, the upper bound is the roofline of the machine's rough figures,
//     min(processors * core rate, intensity * memory rate), or the lower bound if that is more;
//   - the estimate between two bounds is their geometric mean, since they may be orders of magnitude apart.
// Within a cell the first measurement counts in full, later ones move the estimate half of the way up or an
// eighth of the way down. So the next good call outweighs one that started the BLAS's threads or was interrupted.
// A machine that stays slower (its cores are taken by others) is believed after some calls.
//
// Cells that have not been seen can be measured. A call that the estimate leaves in doubt is preceded by products
// of its shape, cut to shorter sides, that together take a small part of its time (next_probe).
//
// Memory-bound calls need no term of their own: they have small sizes, and so cells of their own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <tuple>

#include "calls/level3.hpp"

namespace tessera::offload {

/// Seconds of a call on the CPU BLAS.
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

  /// Processors that this process may run on.
  static int available_processors(int local_ranks);

  explicit CpuSpeed(int processors) : processors_(processors) {}

  /// The CPU BLAS took so long for a call. Thread-safe. @pre its volume is at least least_volume
  /// @param alone if not, calls on devices may have slowed it down: what was measured before stands unless this is better
  void record(const Level3& call, double seconds, bool alone);

  /// A call was a trial that took longer than devices would have, by `price` times their time. It told
  /// nothing, since it was not alone. The cost of such trials in a row is bounded; then the earlier
  /// measurement is believed for another `lifetime`. Thread-safe. @pre as record()
  void tried_in_vain(const Level3& call, double price);

  /// A call went to devices because the CPU was expected to take longer. After `lifetime` of these in a row the cell
  /// counts as hardly known, so that a rate that was measured in bad times is not believed for ever. Thread-safe. @pre
  /// as record()
  void passed_over(const Level3& call);

  /// Thread-safe. @pre as record()
  CpuEstimate estimate(const Level3& call) const;

  /// Flops per second by type, class of volume and class of smallest size; 0: not seen.
  using Rates = std::array<std::array<std::array<float, 4>, 8>, 4>;
  Rates rates() const;
  /// Takes rates that another process has seen for its own, where it has none. Thread-safe.
  void adopt(const Rates& rates);
  /// No rate is negative or no number.
  static bool are_plausible(const Rates& rates);

  /// Something was measured in this type.
  bool knows(ScalarType type) const;

  /// Something was measured in the cell of this call.
  bool has_seen(const Level3& call) const;

  static constexpr int trusted_count = 2;  ///< measurements after which a cell answers for itself
  static constexpr int lifetime = 64;

 private:
  static constexpr int volume_classes = std::tuple_size_v<Rates::value_type>;
  static constexpr int size_classes = std::tuple_size_v<Rates::value_type::value_type>;

  /// One word, so that it can be atomic. Relaxed everywhere: a cell depends on nothing else, and of two measurements at
  /// the same time one may be lost.
  struct Seen {
    float flops_per_s = 0;
    std::uint8_t count = 0;
    std::uint8_t vain = 0;  ///< price of trials, in parts of a call
    std::uint16_t passed_over = 0;
  };
  using Cells = std::array<std::array<std::atomic<Seen>, size_classes>, volume_classes>;
  static_assert(std::atomic<Seen>::is_always_lock_free);

  struct Place {
    int volume = 0;
    int size = 0;
  };
  static Place place_of(const Level3& call);

  const Cells& cells_of(ScalarType type) const { return cells_[static_cast<std::size_t>(type)]; }
  const std::atomic<Seen>& cell_of(const Level3& call) const;
  std::atomic<Seen>& cell_of(const Level3& call);

  int processors_;
  std::array<Cells, 4> cells_{};
};

/// The product that is worth timing on the CPU before it is decided whether a call goes to devices, which need
/// `devices_s` for it: the largest of cells not yet seen that, timed twice, takes at most a thirty-second of either.
/// Sizes and type of a gemm, without operands.
/// @return nothing if no doubt is left or none such exists @pre speed knows the type
std::optional<Level3> next_probe(const CpuSpeed& speed, const Level3& call, double devices_s);

}  // namespace tessera::offload
