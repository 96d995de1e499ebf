// A rectangle of C of a product of 16-bit numbers (half_product.hpp), computed by a warp with the tensor cores'
// m16n8k16 and sums in single precision. The warps of a thread block have neighbouring rectangles. They share nothing
// but the cache: operands are loaded from global memory straight into fragments (half_lines.hpp), and sums are stored
// to C from registers.
//
// The instruction's rows are columns of C, so that a lane has neighbouring rows of C. With eights_down eights of rows,
// lane 4 g + t has the rows from 2 * eights_down * t on, in the columns from eights_across * g on.
//
// A complex element is two consecutive numbers along the steps. Let (b, c) = (re, im) be a right element. The real part
// of its product with a left element is the dot product of the left pair with (b, -c); the imaginary part is the one
// with (c, b). So one word of the right operand is turned into two, and no separate planes of parts are needed.
//
// Steps are summed in groups of sixteen, in order. Within a group of complex steps the same two instructions always add
// in the same order. A result therefore depends neither on its block nor on its neighbours. Source: Abdelfattah, Tomov,
// Dongarra, "Matrix multiplication on batches of small matrices in half and half-complex precisions", section 5
// (double-sided blocking over one instruction's shape).
#pragma once

#include <cstdint>

#include "kernels/block/device_code.hpp"
#include "kernels/block/half_lines.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_words.hpp"
#include "kernels/plan/half_blocks.hpp"

namespace tessera::kernels::block {

template <class Stored, plan::HalfBlocks blocks>
struct HalfShape {
  using E = Stored;
  static constexpr int rows = blocks.rows, columns = blocks.columns, groups = blocks.depth / steps_of_group;
  static constexpr int across = blocks.warps_across, warps = blocks.warps_down * blocks.warps_across;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_of_warp = rows / blocks.warps_down, columns_of_warp = columns / blocks.warps_across;
  static constexpr bool c_ahead = blocks.c_ahead;
  static_assert(rows_of_warp % 16 == 0 && columns_of_warp % 16 == 0 && blocks.depth % steps_of_group == 0);
};

/// @tparam Machine that of a warp; as in strip.hpp, and
///   multiply_halves<R>(sums, a, b)  m16n8k16; m16n8k8 if the operands have half as many words
///   single(number)                  converts to single precision
///   rounded<R>(single)              converts back
///   prefetch(address)               fetches the line into the L2 cache
/// @tparam Index    the distance between any two elements of a matrix
/// @tparam together elements_together(), or less
template <class Shape, class Machine, class Index, bool left_by_lines, bool right_by_lines, int together>
class HalfBlock {
  using E = typename Shape::E;
  using R = typename E::R;
  static constexpr int parts = E::parts, groups = Shape::groups;
  static constexpr int eights_down = Shape::rows_of_warp / 8, eights_across = Shape::columns_of_warp / 8;
  /// Rows of C per lane.
  static constexpr int rows = 2 * eights_down;
  using Left = HalfLines<E, Machine, Index, eights_down, left_by_lines, together>;
  using Right = HalfLines<E, Machine, Index, eights_across, right_by_lines, together>;

 public:
  /// @param product all of the product but the addresses
  /// @param matrices the addresses
  /// @pre C has the first row and column of the rectangle, and the product has something to do
  TESSERA_DEVICE HalfBlock(const HalfProduct<E>& product, const HalfMatrices<E>& matrices, Index first_row,
                           Index first_column, Machine machine)
      : product_(product),
        matrices_(matrices),
        machine_(machine),
        first_row_(first_row),
        first_column_(first_column),
        rows_there_(at_most(static_cast<Index>(product.m) - first_row, Shape::rows_of_warp)),
        columns_there_(at_most(static_cast<Index>(product.n) - first_column, Shape::columns_of_warp)),
        // made_anew() keeps the compiler from computing subexpressions that several kinds of loads share ahead of all
        // of them.
        lane_(machine.made_anew(machine.lane())),
        row_(lane_ % 4 * rows),
        column_(lane_ / 4 * eights_across) {}

  TESSERA_DEVICE void run() {
    // Most rectangles are whole and need no test for each element of C.
    const bool whole = is_whole();
    OfC before;
    if (product_.reads_c) {
      if constexpr (!Shape::c_ahead)
        ask_for_c();
      else if (whole)
        load_c<true>(before, 0);
      else
        load_c<false>(before, 0);
    }
    if (product_.k > 0) add_all();
    if (whole)
      update_all<true>(before);
    else
      update_all<false>(before);
  }

 private:
  static TESSERA_DEVICE int at_most(Index left, int most) { return left < most ? static_cast<int>(left) : most; }

  TESSERA_DEVICE void add_all() {
    const auto m = static_cast<Index>(product_.m), n = static_cast<Index>(product_.n);
    const auto k = static_cast<Index>(product_.k);
    Left left(machine_, lane_, matrices_.left, product_.left, m, k, first_row_, rows_there_);
    Right right(machine_, lane_, matrices_.right, product_.right, n, k, first_column_, columns_there_);
    // Complex products are slower by single groups: rearranging their words takes as long as a load.
    if constexpr (groups == 1 && parts == 1)
      add_by_groups(left, right, k);
    else
      add_in_turns(left, right, k);
  }

  /// Whether all of the next sixteen steps exist, so that loads need no test. @param steps that are left
  static TESSERA_DEVICE bool are_whole(const Left& left, const Right& right, Index steps) {
    constexpr int least = steps_of_group + (Left::straddles || Right::straddles ? 1 : 0);
    return steps >= least && !left.is_short() && !right.is_short();
  }

  /// Adds one group of steps after the other. Groups that are not whole are handled apart.
  TESSERA_DEVICE void add_by_groups(Left& left, Right& right, Index steps) {
    typename Left::Loaded of_left;
    typename Right::Loaded of_right;
    TESSERA_NO_UNROLL
    for (; are_whole(left, right, steps); steps -= steps_of_group) {
      left.template load<true>(of_left, 0, steps_of_group);
      right.template load<true>(of_right, 0, steps_of_group);
      left.advance(1);
      right.advance(1);
      multiply(of_left, of_right);
    }
    TESSERA_NO_UNROLL
    for (; steps > 0; steps -= steps_of_group) {
      left.template load<false>(of_left, 0, at_most(steps, steps_of_group));
      right.template load<false>(of_right, 0, at_most(steps, steps_of_group));
      left.advance(1);
      right.advance(1);
      multiply(of_left, of_right);
    }
  }

  /// Multiplies a group of steps while the other `groups` - 1 groups are loaded.
  /// @param steps that remain to be multiplied, the first group of the round included
  TESSERA_DEVICE void add_in_turns(Left& left, Right& right, Index steps) {
    typename Left::Loaded of_left[groups];
    typename Right::Loaded of_right[groups];
    const auto load = [&](int group) {
      const Index there = steps - group * steps_of_group;
      const int to = group % groups;
      if (are_whole(left, right, there)) {
        left.template load<true>(of_left[to], group, steps_of_group);
        right.template load<true>(of_right[to], group, steps_of_group);
      } else if (groups == 1 || there > 0) {  // with groups == 1 the caller asks for existing groups only
        left.template load<false>(of_left[to], group, at_most(there, steps_of_group));
        right.template load<false>(of_right[to], group, at_most(there, steps_of_group));
      }
    };
    TESSERA_UNROLL
    for (int group = 0; group < groups - 1; ++group) load(group);
    TESSERA_NO_UNROLL
    for (;;) {
      TESSERA_UNROLL
      for (int group = 0; group < groups; ++group) {
        load(group + groups - 1);
        multiply(of_left[group], of_right[group]);
        if (steps <= (group + 1) * steps_of_group) return;
      }
      steps -= groups * steps_of_group;
      left.advance(groups);
      right.advance(groups);
    }
  }

  TESSERA_DEVICE void multiply(const typename Left::Loaded& of_left, const typename Right::Loaded& of_right) {
    const bool conjugate_left = parts == 2 && product_.left.conjugate, conjugate_right = product_.right.conjugate;
    const std::uint32_t of_real = conjugate_left != conjugate_right ? 0 : upper_sign;
    const std::uint32_t of_imaginary = (conjugate_left ? upper_sign : 0) | (conjugate_right ? lower_sign : 0);
    TESSERA_UNROLL
    for (int slot = 0; slot < parts; ++slot) {
      std::uint32_t left[eights_down][2];
      TESSERA_UNROLL
      for (int t = 0; t < eights_down; ++t) {
        left[t][0] = Left::fragment(of_left, t, 2 * slot);
        left[t][1] = Left::fragment(of_left, t, 2 * slot + 1);
      }
      TESSERA_UNROLL
      for (int u = 0; u < eights_across / 2; ++u) {
        std::uint32_t right[parts][4];
        TESSERA_UNROLL
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t word = Right::fragment(of_right, 2 * u + i % 2, 2 * slot + i / 2);
          right[0][i] = parts == 2 ? word ^ of_real : word;
          if constexpr (parts == 2) right[1][i] = halves_exchanged(word) ^ of_imaginary;
        }
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) {
          TESSERA_UNROLL
          for (int t = 0; t < eights_down; ++t) machine_.template multiply_halves<R>(sums_[p][u][t], right[p], left[t]);
        }
      }
    }
  }

  // -- C --

  static constexpr int words_of_column = rows * parts / 2;
  /// Columns of C that a lane loads at once: registers do not suffice for all of them beside the sums.
  static constexpr int columns_at_once = Shape::c_ahead ? eights_across : 2;
  using OfC = std::uint32_t[columns_at_once][words_of_column];
  enum class Beta : unsigned char { zero, one, any };

  /// Whether real elements of C are not aligned to words. Operands: half_lines.hpp.
  static constexpr bool c_straddles = parts == 1 && together == 1;
  /// Elements of a load or store where the rectangle is whole: at most 16 bytes.
  static constexpr int most_together = parts == 1 && together == 4 && rows % 8 == 0 ? 8 : together;
  TESSERA_DEVICE bool is_whole() const {
    const auto place = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(matrices_.C)) / sizeof(E);
    const auto distance = static_cast<unsigned>(product_.ldc);
    return rows_there_ == Shape::rows_of_warp && columns_there_ == Shape::columns_of_warp &&
           (most_together == together || (place | distance) % most_together == 0);
  }

  TESSERA_DEVICE E* c_at(int e) const {
    return matrices_.C + ((first_row_ + row_) + (first_column_ + column_ + e) * static_cast<Index>(product_.ldc));
  }
  template <bool whole = false>
  TESSERA_DEVICE bool has_column(int e) const {
    return whole || column_ + e < columns_there_;
  }
  template <bool whole = false>
  TESSERA_DEVICE bool has_row(int i) const {
    return whole || row_ + i < rows_there_;
  }

  TESSERA_DEVICE void ask_for_c() const {
    const E* at = c_at(0);
    const auto next_column = static_cast<Index>(product_.ldc);
    TESSERA_UNROLL
    for (int e = 0; e < eights_across; ++e, at += next_column) {
      if (has_column(e) && has_row(0)) machine_.prefetch(at);
    }
  }

  /// @param first the first of the lane's columns
  template <bool whole>
  TESSERA_DEVICE void load_c(OfC& to, int first) const {
    const E* at = c_at(first);
    const auto next_column = static_cast<Index>(product_.ldc);
    TESSERA_UNROLL
    for (int e = 0; e < columns_at_once; ++e, at += next_column) {
      if (!has_column<whole>(first + e)) continue;
      if constexpr (c_straddles) {
        load_straddling<whole>(to[e], at);
      } else {
        constexpr int count = whole ? most_together : together;
        TESSERA_UNROLL
        for (int i = 0; i < rows; i += count) {
          if (has_row<whole>(i)) load_words<count * sizeof(E)>(to[e], i * parts / 2, machine_.in_global(at + i));
        }
      }
    }
  }
  using OfColumn = std::uint32_t[words_of_column];
  template <bool whole>
  TESSERA_DEVICE void store_column(const OfColumn& from, E* at) const {
    if constexpr (c_straddles) {
      store_straddling<whole>(from, at);
    } else {
      constexpr int count = whole ? most_together : together;
      TESSERA_UNROLL
      for (int i = 0; i < rows; i += count) {
        if (has_row<whole>(i)) store_words<count * sizeof(E)>(machine_.in_global(at + i), from, i * parts / 2);
      }
    }
  }

  /// Halves of words that the lane's rows cover. @param bits the first one begins so many bits into its word
  template <bool whole>
  TESSERA_DEVICE int halves_there(unsigned bits) const {
    const int there = whole ? rows : at_most(rows_there_ - row_, rows);
    return there + static_cast<int>(bits / 16);
  }
  // Neighbouring rows belong to other lanes. Only a word that is the lane's alone is one load or store.
  template <bool whole>
  TESSERA_DEVICE void load_straddling(OfColumn& to, const E* from) const {
    const PlaceInWords at(machine_.in_global(from));
    const int there = halves_there<whole>(at.bits);
    std::uint32_t word = 0;
    TESSERA_UNROLL
    for (int i = 0; i <= words_of_column; ++i) {
      std::uint32_t next = 0;
      if (i == 0 && at.bits != 0) {
        if (whole || there > 1) next = std::uint32_t{loaded<std::uint16_t>(at.word + 2)} << 16;
      } else if (i < words_of_column && (whole || 2 * i + 1 < there)) {
        next = loaded<std::uint32_t>(at.word + 4 * i);
      } else if (2 * i < there) {
        next = loaded<std::uint16_t>(at.word + 4 * i);
      }
      if (i > 0) to[i - 1] = word_behind(word, next, at.bits);
      word = next;
    }
  }
  template <bool whole>
  TESSERA_DEVICE void store_straddling(const OfColumn& from, E* to) const {
    const PlaceInWords at(machine_.in_global(to));
    const int there = halves_there<whole>(at.bits);
    TESSERA_UNROLL
    for (int i = 0; i <= words_of_column; ++i) {
      const std::uint32_t before = i > 0 ? from[i - 1] : 0, own = i < words_of_column ? from[i] : 0;
      const std::uint32_t word = at.bits == 0 ? own : word_behind(before, own, 16);
      if (i == 0 && at.bits != 0) {
        if (whole || there > 1) stored(at.word + 2, static_cast<std::uint16_t>(word >> 16));
      } else if (i < words_of_column && (whole || 2 * i + 1 < there)) {
        stored(at.word + 4 * i, word);
      } else if (2 * i < there) {
        stored(at.word + 4 * i, static_cast<std::uint16_t>(word));
      }
    }
  }

  /// Factors of the sums and of C, by parts.
  struct Factors {
    float alpha[parts], beta[parts];
  };

  template <bool whole>
  TESSERA_DEVICE void update_all(OfC& before) const {
    TESSERA_UNROLL
    for (int e = 0; e < eights_across; e += columns_at_once) {
      if (product_.reads_c && !Shape::c_ahead) load_c<whole>(before, e);
      if (!product_.reads_c)
        update<Beta::zero, whole>(before, e);
      else if (parts == 2 && product_.beta_is_one)
        update<Beta::one, whole>(before, e);
      else
        update<Beta::any, whole>(before, e);
    }
  }
  template <Beta kind, bool whole>
  TESSERA_DEVICE void update(const OfC& before, int first) const {
    Factors factors;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      // Without steps all sums are 0, and alpha may hold anything.
      factors.alpha[p] = product_.k > 0 ? product_.alpha.part[p] : 0.0F;
      factors.beta[p] = product_.beta.part[p];
    }
    E* at = c_at(first);
    const auto next_column = static_cast<Index>(product_.ldc);
    TESSERA_UNROLL
    for (int e = 0; e < columns_at_once; ++e, at += next_column) {
      OfColumn result;
      TESSERA_UNROLL
      for (int i = 0; i < rows; ++i) {
        if constexpr (parts == 2) {
          result[i] = updated_pair<kind>(factors, sum<0>(first + e, i), sum<1>(first + e, i), before[e][i]);
        } else if (i % 2 == 0) {
          result[i / 2] = updated_two<kind>(factors, sum<0>(first + e, i), sum<0>(first + e, i + 1), before[e][i / 2]);
        }
      }
      if (has_column<whole>(first + e)) store_column<whole>(result, at);
    }
  }

  template <int p>
  TESSERA_DEVICE float sum(int e, int i) const {
    return sums_[p][e / 2][i % eights_down][e % 2 * 2 + i / eights_down];
  }
  static TESSERA_DEVICE R lower(std::uint32_t word) { return R{static_cast<std::uint16_t>(word)}; }
  static TESSERA_DEVICE R upper(std::uint32_t word) { return R{static_cast<std::uint16_t>(word >> 16)}; }
  TESSERA_DEVICE std::uint32_t both_rounded(float first, float second) const {
    return machine_.template rounded<R>(first).bits |
           static_cast<std::uint32_t>(machine_.template rounded<R>(second).bits) << 16;
  }

  /// Updates two real elements.
  template <Beta kind>
  TESSERA_DEVICE std::uint32_t updated_two(const Factors& by, float first, float second, std::uint32_t before) const {
    first *= by.alpha[0];
    second *= by.alpha[0];
    if constexpr (kind != Beta::zero) {
      first += by.beta[0] * machine_.single(lower(before));
      second += by.beta[0] * machine_.single(upper(before));
    }
    return both_rounded(first, second);
  }
  /// Updates a complex element.
  template <Beta kind>
  TESSERA_DEVICE std::uint32_t updated_pair(const Factors& by, float real, float imaginary,
                                            std::uint32_t before) const {
    constexpr int im_part = parts - 1;
    float re = by.alpha[0] * real - by.alpha[im_part] * imaginary;
    float im = by.alpha[0] * imaginary + by.alpha[im_part] * real;
    if constexpr (kind != Beta::zero) {
      const float re_of_c = machine_.single(lower(before)), im_of_c = machine_.single(upper(before));
      if constexpr (kind == Beta::one) {
        re += re_of_c;
        im += im_of_c;
      } else {
        re += by.beta[0] * re_of_c;
        re -= by.beta[im_part] * im_of_c;
        im += by.beta[0] * im_of_c;
        im += by.beta[im_part] * re_of_c;
      }
    }
    return both_rounded(re, im);
  }

  const HalfProduct<E>& product_;
  const HalfMatrices<E> matrices_;
  Machine machine_;
  const Index first_row_, first_column_;
  const int rows_there_, columns_there_;  ///< rows and columns of the rectangle that C has
  const int lane_;
  const int row_, column_;  ///< the lane's first row and column in the rectangle
  float sums_[parts][eights_across / 2][eights_down][4] = {};
};

}  // namespace tessera::kernels::block
