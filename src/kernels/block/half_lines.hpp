// Some eights of lines of an operand of a product of 16-bit numbers (half_product.hpp), as a warp loads them from global
// memory straight into the fragments of its tensor cores.
//
// Lane 4 g + t has `eights` lines that lie beside each other, from g * eights on: one of each eight that the instruction
// knows, whose lines may be numbered as one likes. Of sixteen steps of k it has four, from 4 t on: real numbers fill the two
// words of an m16n8k16; complex ones, in pairs of a real and an imaginary part, those of two such instructions. So no
// number has to go through another lane, and addresses that are aligned to four elements make loads of four.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block/device_code.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_words.hpp"

namespace tessera::kernels::block {

/// Steps of k that are loaded together.
inline constexpr int steps_of_group = 16;

/// @tparam by_lines  neighbouring lines lie side by side; else neighbouring steps
/// @tparam together  elements of one load: 4, 2 or 1. What lies side by side is aligned to them, and as long
template <class E, class Machine, int eights, bool by_lines, int together>
class HalfLines {
  static constexpr int parts = E::parts, lane_steps = steps_of_group / 4;
  static constexpr int lines_together = together < eights ? together : eights;
  static constexpr int loads_of_lines = eights / lines_together;
  static constexpr bool is_apart =
      parts == 1 && (by_lines ? lines_together : together) == 1;  ///< a number in each word
  static_assert(eights == 2 || eights == 4 || eights == 8);

 public:
  /// As they come.
  static constexpr int words = is_apart ? lane_steps * eights : lane_steps * eights * parts / 2;
  using Loaded = std::uint32_t[words];

  /// @param lines_there of those from first_line on: 1 or more. The others are not looked at, and may be like any line
  TESSERA_DEVICE HalfLines(Machine machine, int lane, const HalfOperand<E>& from, index_t first_line, int lines_there)
      : machine_(machine), next_run_(by_lines ? from.next_step : from.next_line), first_step_(lane % 4 * lane_steps) {
    const int first = lane / 4 * eights;
    const E* const at = from.at;
    if constexpr (by_lines) {
      const int line = first < lines_there ? first : 0;
      at_[0] = at + (first_line + line) + first_step_ * next_run_;
      TESSERA_UNROLL
      for (int v = 0; v < loads_of_lines; ++v)
        offset_[v] = line + v * lines_together < lines_there ? v * lines_together : 0;
    } else {
      TESSERA_UNROLL
      for (int e = 0; e < eights; ++e) {
        const int line = first + e < lines_there ? first + e : 0;
        at_[e] = at + (first_line + line) * next_run_ + first_step_;
      }
    }
  }

  /// Sixteen steps of those that are next. @param group which @param steps that are there, counted from the first of them;
  /// those behind are zeros @tparam is_whole all sixteen are
  template <bool is_whole>
  TESSERA_DEVICE void load(Loaded& to, int group, int steps) const {
    const auto has = [&](int step) { return is_whole || first_step_ + step < steps; };
    if constexpr (!is_whole) {
      TESSERA_UNROLL
      for (std::uint32_t& word : to) word = 0;
    }
    if constexpr (by_lines) {
      const E* at = at_[0] + group * (steps_of_group * next_run_);
      TESSERA_UNROLL
      for (int j = 0; j < lane_steps; ++j) {
        if (has(j)) {
          TESSERA_UNROLL
          for (int v = 0; v < loads_of_lines; ++v)
            load_words<lines_together * sizeof(E)>(to, place_of(j * eights + v * lines_together),
                                                   machine_.in_global(loads_of_lines == 1 ? at : at + offset_[v]));
        }
        at += next_run_;
      }
    } else {
      TESSERA_UNROLL
      for (int e = 0; e < eights; ++e) {
        TESSERA_UNROLL
        for (int j = 0; j < lane_steps; j += together) {
          if (has(j))
            load_words<together * sizeof(E)>(to, place_of(e * lane_steps + j),
                                             machine_.in_global(at_[e] + group * steps_of_group + j));
        }
      }
    }
  }

  TESSERA_DEVICE void advance(int groups) {
    if constexpr (by_lines) {
      at_[0] += groups * (steps_of_group * next_run_);
    } else {
      TESSERA_UNROLL
      for (const E*& at : at_) at += groups * steps_of_group;
    }
  }

  /// The lane's steps 2 w and 2 w + 1 of its line `e`; of complex elements step w.
  static TESSERA_DEVICE std::uint32_t fragment(const Loaded& from, int e, int w) {
    if constexpr (parts == 2) {
      return from[by_lines ? w * eights + e : e * lane_steps + w];
    } else if constexpr (by_lines && !is_apart) {
      const std::uint32_t first = from[(2 * w * eights + e) / 2], second = from[((2 * w + 1) * eights + e) / 2];
      return e % 2 == 0 ? lower_halves(first, second) : upper_halves(first, second);
    } else if constexpr (by_lines) {
      return lower_halves(from[2 * w * eights + e], from[(2 * w + 1) * eights + e]);
    } else if constexpr (is_apart) {
      return lower_halves(from[e * lane_steps + 2 * w], from[e * lane_steps + 2 * w + 1]);
    } else {
      return from[e * (lane_steps / 2) + w];
    }
  }

 private:
  static TESSERA_DEVICE constexpr int place_of(int element) { return is_apart || parts == 2 ? element : element / 2; }

  Machine machine_;
  const E* at_[by_lines ? 1 : eights];
  int offset_[by_lines ? loads_of_lines : 1];
  const index_t next_run_;
  const int first_step_;
};

}  // namespace tessera::kernels::block
