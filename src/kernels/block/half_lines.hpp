// Several eights of lines of an operand of a product of 16-bit numbers (half_product.hpp). A warp loads them from
// global memory straight into the fragments of its tensor cores.
//
// Lane 4 g + t has `eights` neighbouring lines, from g * eights on: one line of each of the instruction's eights. Any
// numbering of the instruction's lines is correct. Of sixteen steps of k a lane has the four from 4 t on. Real numbers
// fill the two words of one m16n8k16. Complex numbers, in pairs of a real and an imaginary part, fill those of two such
// instructions. No number has to pass through another lane, and data aligned to four elements is read by loads of four.
//
// Where numbers are aligned to 16 bits only, every other line or step begins in the middle of a word. A lane then loads
// the aligned words that contain its numbers, and shifts them. A neighbour's number in such a word is not used, but it
// must be part of the matrix. A word that reaches beyond the first or last number of the matrix may touch memory that
// the caller has not allocated. The numbers of such a word are loaded one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block/device_code.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_words.hpp"

namespace tessera::kernels::block {

/// Steps of k that are loaded together.
inline constexpr int steps_of_group = 16;

/// @tparam Index     the distance between any two elements of a matrix
/// @tparam by_lines  lines are contiguous, in one run per step; else steps are contiguous, in one run per line
/// @tparam together  elements of one load: 4, 2 or 1. Runs are aligned to them, and their lengths are multiples of them
template <class E, class Machine, class Index, int eights, bool by_lines, int together>
class HalfLines {
  static constexpr int parts = E::parts, lane_steps = steps_of_group / 4;
  static constexpr int lines_together = together < eights ? together : eights;
  static constexpr int loads_of_lines = eights / lines_together;
  static_assert(eights == 2 || eights == 4 || eights == 8);

 public:
  /// Words as they are loaded: real numbers in pairs.
  static constexpr int words = lane_steps * eights * parts / 2;
  using Loaded = std::uint32_t[words];
  /// Whether runs are not aligned to words.
  static constexpr bool straddles = parts == 1 && together == 1;

  /// @param matrix, from, lines, steps of the operand
  /// @param lines_there how many of the lines from first_line on exist, at least 1. The results of other lines are not
  /// used: they may repeat an existing line
  TESSERA_DEVICE HalfLines(Machine machine, int lane, const E* matrix, const HalfOperand<E>& from, Index lines,
                           Index steps, Index first_line, int lines_there)
      : machine_(machine),
        next_run_(static_cast<Index>(by_lines ? from.next_step : from.next_line)),
        first_step_(lane % 4 * lane_steps) {
    const int first = lane / 4 * eights;
    if constexpr (by_lines) {
      const int line = first < lines_there ? first : 0;
      at_[0] = matrix + (first_line + line + first_step_ * next_run_);
      TESSERA_UNROLL
      for (int v = 0; v < loads_of_lines; ++v)
        offset_[v] = line + v * lines_together < lines_there ? v * lines_together : 0;
      if constexpr (straddles) find_words(matrix, lines < eights, lines_there - line);
    } else {
      const int last = lines_there - 1;
      TESSERA_UNROLL
      for (int e = 0; e < eights; ++e) {
        const int line = first + e < last ? first + e : last;
        at_[e] = matrix + ((first_line + line) * next_run_ + first_step_);
        if (straddles && first_line + line == lines - 1) last_lines_ |= 1U << e;
      }
      if constexpr (straddles) find_words(matrix, lines == 1 || steps < lane_steps, eights);
    }
  }

  /// Whether load() must never be called with is_whole: words of a short run reach beyond the runs next to it.
  TESSERA_DEVICE bool is_short() const { return straddles && is_short_; }

  /// Loads sixteen steps of one of the next groups.
  /// @param group its number
  /// @param steps that exist, counted from the first one of the group; the ones behind become zeros
  /// @tparam is_whole all sixteen exist and, where `straddles`, one more behind them
  template <bool is_whole>
  TESSERA_DEVICE void load(Loaded& to, int group, int steps) const {
    if constexpr (!is_whole) {
      TESSERA_UNROLL
      for (std::uint32_t& word : to) word = 0;
    }
    if constexpr (straddles && by_lines)
      load_straddling_lines<is_whole>(to, group, steps);
    else if constexpr (straddles)
      load_straddling_steps<is_whole>(to, group, steps);
    else if constexpr (by_lines)
      load_lines<is_whole>(to, group, steps);
    else
      load_steps<is_whole>(to, group, steps);
  }

  TESSERA_DEVICE void advance(int groups) {
    begins_ = false;
    if constexpr (by_lines) {
      at_[0] += groups * (steps_of_group * next_run_);
    } else {
      TESSERA_UNROLL
      for (const E*& at : at_) at += groups * steps_of_group;
    }
  }

  /// The lane's steps 2 w and 2 w + 1 of its line `e`; for complex elements its step w.
  static TESSERA_DEVICE std::uint32_t fragment(const Loaded& from, int e, int w) {
    if constexpr (parts == 2) {
      return from[by_lines ? w * eights + e : e * lane_steps + w];
    } else if constexpr (by_lines) {
      const std::uint32_t first = from[(2 * w * eights + e) / 2], second = from[((2 * w + 1) * eights + e) / 2];
      return e % 2 == 0 ? lower_halves(first, second) : upper_halves(first, second);
    } else {
      return from[e * (lane_steps / 2) + w];
    }
  }

 private:
  static TESSERA_DEVICE constexpr int place_of(int element) { return parts == 2 ? element : element / 2; }
  template <bool is_whole>
  TESSERA_DEVICE bool has(int step, int steps) const {
    return is_whole || first_step_ + step < steps;
  }

  template <bool is_whole>
  TESSERA_DEVICE void load_lines(Loaded& to, int group, int steps) const {
    const E* at = at_[0] + group * (steps_of_group * next_run_);
    TESSERA_UNROLL
    for (int j = 0; j < lane_steps; ++j) {
      if (has<is_whole>(j, steps)) {
        TESSERA_UNROLL
        for (int v = 0; v < loads_of_lines; ++v)
          load_words<lines_together * sizeof(E)>(to, place_of(j * eights + v * lines_together),
                                                 machine_.in_global(loads_of_lines == 1 ? at : at + offset_[v]));
      }
      at += next_run_;
    }
  }
  template <bool is_whole>
  TESSERA_DEVICE void load_steps(Loaded& to, int group, int steps) const {
    TESSERA_UNROLL
    for (int e = 0; e < eights; ++e) {
      TESSERA_UNROLL
      for (int j = 0; j < lane_steps; j += together) {
        if (has<is_whole>(j, steps))
          load_words<together * sizeof(E)>(to, place_of(e * lane_steps + j),
                                           machine_.in_global(at_[e] + group * steps_of_group + j));
      }
    }
  }

  // -- Runs that are not aligned to words --

  TESSERA_DEVICE void find_words(const E* matrix, bool is_short, int lines_left) {
    is_short_ = is_short;
    lines_left_ = lines_left;
    begins_ = at_[0] == matrix && PlaceInWords(matrix).bits != 0;
    if constexpr (by_lines) {
      bits_[0] = PlaceInWords(at_[0]).bits;
      bits_[1] = PlaceInWords(at_[0] + next_run_).bits;
    } else {
      TESSERA_UNROLL
      for (int e = 0; e < eights; ++e) bits_[e] = PlaceInWords(at_[e]).bits;
    }
  }

  /// Lines of the last step may be at the end of the matrix: they are loaded one by one.
  template <bool is_whole>
  TESSERA_DEVICE void load_straddling_lines(Loaded& to, int group, int steps) const {
    const E* at = at_[0] + group * (steps_of_group * next_run_);
    TESSERA_UNROLL
    for (int j = 0; j < lane_steps; ++j) {
      const int place = place_of(j * eights);
      const bool is_first = j == 0 && group == 0 && begins_;
      if (is_first || (!is_whole && (is_short_ || first_step_ + j + 1 >= steps)))
        load_numbers<eights>(to, place, at, has<is_whole>(j, steps) ? lines_left_ : 0);
      else
        load_run<eights>(to, place, at, bits_[j % 2]);
      at += next_run_;
    }
  }
  /// The last line may be at the end of the matrix. In other lines the words of the last steps stay within the matrix.
  template <bool is_whole>
  TESSERA_DEVICE void load_straddling_steps(Loaded& to, int group, int steps) const {
    TESSERA_UNROLL
    for (int e = 0; e < eights; ++e) {
      const E* const at = at_[e] + group * steps_of_group;
      const bool is_first = e == 0 && group == 0 && begins_;
      if (is_first || (!is_whole && (is_short_ || (last_lines_ >> e & 1U) != 0)))
        load_numbers<lane_steps>(to, place_of(e * lane_steps), at, is_whole ? lane_steps : steps - first_step_);
      else if (has<is_whole>(0, steps))
        load_run<lane_steps>(to, place_of(e * lane_steps), at, bits_[e]);
    }
    if constexpr (!is_whole) {
      TESSERA_UNROLL
      for (int w = 0; w < lane_steps / 2; ++w) {
        const std::uint32_t there = has<false>(2 * w + 1, steps) ? 0xffffffffU : has<false>(2 * w, steps) ? 0xffffU : 0;
        TESSERA_UNROLL
        for (int e = 0; e < eights; ++e) to[e * (lane_steps / 2) + w] &= there;
      }
    }
  }

  /// @param bits `from` lies so many bits behind the beginning of a word
  template <int length>
  TESSERA_DEVICE void load_run(Loaded& to, int place, const E* from, unsigned bits) const {
    const char* const at = reinterpret_cast<const char*>(machine_.in_global(from)) - bits / 8;
    std::uint32_t word = loaded<std::uint32_t>(at);
    TESSERA_UNROLL
    for (int i = 0; i < length / 2; ++i) {
      std::uint32_t next = 0;
      if (i + 1 < length / 2 || bits != 0) next = loaded<std::uint32_t>(at + 4 * (i + 1));
      to[place + i] = word_behind(word, next, bits);
      word = next;
    }
  }
  template <int length>
  TESSERA_DEVICE void load_numbers(Loaded& to, int place, const E* from, int there) const {
    TESSERA_UNROLL
    for (int i = 0; i < length; ++i) {
      std::uint32_t number = 0;
      if (i < there) number = loaded<std::uint16_t>(machine_.in_global(from + i));
      to[place + i / 2] = i % 2 == 0 ? number : to[place + i / 2] | number << 16;
    }
  }

  Machine machine_;
  const E* at_[by_lines ? 1 : eights];
  int offset_[by_lines ? loads_of_lines : 1];
  const Index next_run_;
  const int first_step_;
  // Where `straddles`:
  unsigned bits_[by_lines ? 2 : eights];  ///< PlaceInWords::bits of even and odd steps, or of each line
  unsigned last_lines_ = 0;               ///< a bit for each of the lane's lines that is the operand's last
  int lines_left_ = 0;                    ///< lines from the lane's first one on
  bool begins_ = false;                   ///< the lane's first number is the operand's first, in the middle of a word
  bool is_short_ = false;
};

}  // namespace tessera::kernels::block
