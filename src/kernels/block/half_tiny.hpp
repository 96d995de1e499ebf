// Tiny products of 16-bit numbers, with at most 4, 8 or 16 rows and columns. A part of a warp computes a whole product,
// and nothing goes through shared memory.
//
// By tensor cores: two instructions, m16n8k16 or for small problems m16n8k8, multiply sixteen left lines by sixteen
// right ones. The lines belong to one problem, or to two or four problems beside each other. Products of lines of
// different problems are not used. An element of C is a product of two lines of its own problem, so a neighbour's
// infinities do not reach it. The instruction's rows, columns and steps are numbered to suit loads. Lane 4 g + t has
// lines 2 g and 2 g + 1 of both operands, in four steps from 4 t on or two from 2 t on. If lines are contiguous a pair
// of lines is one load; if steps are, the lane's steps are one load.
//
// By lanes: each lane has a column of C, and adds up by fused multiply-adds.
//
// Source: Abdelfattah, Tomov, Dongarra, "Matrix multiplication on batches of small matrices in half and half-complex
// precisions", section 8: the packing of problems. The paper uses a thread per element.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/block/device_code.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_words.hpp"

namespace tessera::kernels::block {

/// @tparam Machine that of one warp, as in half_block.hpp
/// @tparam places  lines that a problem has room for: 4, 8 or 16
template <class Stored, int places, class Machine>
class TinyByTensorCores {
  using E = Stored;
  using R = typename E::R;
  static constexpr int parts = E::parts, re = 0, im = parts - 1;
  /// Steps of a lane, and of an instruction.
  static constexpr int lane_steps = places == 16 ? 4 : 2, steps = 4 * lane_steps;
  /// Numbers of two lines in these steps: [part][line][first or second pair of steps].
  using Fragment = std::uint32_t[parts][2][lane_steps / 2];

 public:
  static constexpr int problems = 16 / places;
  /// The number, in the warp, of the problem whose lines the lane has.
  static TESSERA_DEVICE int problem_of(int lane) { return lane / 4 * 2 / places; }
  static TESSERA_DEVICE bool is_first_of_problem(int lane) { return lane % (2 * places) == 0; }

  /// @param product the lane's problem, no larger than `places`. k = 0 and does_nothing: the lane has no problem
  TESSERA_DEVICE TinyByTensorCores(const HalfProduct<E>& product, Machine machine)
      : product_(product),
        machine_(machine),
        line_(machine.lane() / 4 * 2 % places),
        first_step_(machine.lane() % 4 * lane_steps),
        column_(machine.lane() % 4 * 4 % places),
        has_c_(machine.lane() % 4 * 4 / places == problem_of(machine.lane()) && !product.does_nothing) {}

  /// @pre all of the warp calls it
  TESSERA_DEVICE void run() {
    E before[4][2];
    if (has_c_ && product_.reads_c) load_c(before);
    const auto m = static_cast<int>(product_.m), n = static_cast<int>(product_.n);
    TESSERA_NO_UNROLL
    for (index_t step = 0; machine_.any(step < product_.k); step += steps) {
      Fragment left, right;
      load(left, product_.left, m, step);
      load(right, product_.right, n, step);
      multiply(left, right);
    }
    if (has_c_) store_c(before);
  }

 private:
  TESSERA_DEVICE void load(Fragment& to, const HalfOperand<E>& operand, int lines, index_t step) {
    const index_t first = step + first_step_;
    const index_t left = product_.k - first;
    const int there = left < 0 ? 0 : left < lane_steps ? static_cast<int>(left) : lane_steps;
    // Where nothing is to be loaded the matrix need not exist.
    const index_t offset = there > 0 ? line_ * operand.next_line + first * operand.next_step : 0;
    const E* const from = machine_.in_global(operand.at) + offset;
    E element[2][lane_steps] = {};
    if (operand.lines_are_adjacent)
      load_steps(element, from, operand.next_step, lines - line_, there);
    else
      load_lines(element, from, operand.next_line, lines - line_, there);
    const std::uint32_t signs = operand.conjugate ? both_signs : 0;
    TESSERA_UNROLL
    for (int line = 0; line < 2; ++line) {
      TESSERA_UNROLL
      for (int two = 0; two < lane_steps / 2; ++two) {
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) {
          const std::uint32_t both = static_cast<std::uint32_t>(element[line][2 * two].part[p].bits) |
                                     static_cast<std::uint32_t>(element[line][2 * two + 1].part[p].bits) << 16;
          to[p][line][two] = parts == 2 && p == im ? both ^ signs : both;
        }
      }
    }
  }

  template <int count>
  struct alignas(count * sizeof(E)) Several {
    E element[count];
  };
  template <int count>
  static TESSERA_DEVICE bool are_aligned(const E* from, index_t distance) {
    return (reinterpret_cast<std::uintptr_t>(from) | static_cast<std::uintptr_t>(distance) * sizeof(E)) %
               (count * sizeof(E)) ==
           0;
  }

  // All of a warp takes the same branch, so that its loads overlap.

  /// Loads two contiguous lines in each step. @param there steps that exist
  TESSERA_DEVICE void load_steps(E (&element)[2][lane_steps], const E* from, index_t next_step, int lines, int there) {
    const bool has_single = lines == 1 || (there > 0 && !are_aligned<2>(from, next_step));
    if (!machine_.any(has_single)) {
      TESSERA_UNROLL
      for (int s = 0; s < lane_steps; ++s) {
        if (lines < 2 || s >= there) continue;
        const auto pair = loaded<Several<2>>(from + s * next_step);
        element[0][s] = pair.element[0];
        element[1][s] = pair.element[1];
      }
    } else {
      TESSERA_UNROLL
      for (int s = 0; s < lane_steps; ++s) {
        if (lines > 0 && s < there) element[0][s] = loaded<E>(from + s * next_step);
        if (lines > 1 && s < there) element[1][s] = loaded<E>(from + s * next_step + 1);
      }
    }
  }
  /// Loads contiguous steps in each line.
  TESSERA_DEVICE void load_lines(E (&element)[2][lane_steps], const E* from, index_t next_line, int lines, int there) {
    const bool has_single = there > 0 && (there < lane_steps || !are_aligned<lane_steps>(from, next_line));
    const bool by_runs = !machine_.any(has_single);
    TESSERA_UNROLL
    for (int line = 0; line < 2; ++line) {
      if (by_runs) {
        if (line >= lines || there == 0) continue;
        const auto run = loaded<Several<lane_steps>>(from + line * next_line);
        TESSERA_UNROLL
        for (int s = 0; s < lane_steps; ++s) element[line][s] = run.element[s];
      } else {
        TESSERA_UNROLL
        for (int s = 0; s < lane_steps; ++s) {
          if (line < lines && s < there) element[line][s] = loaded<E>(from + line * next_line + s);
        }
      }
    }
  }

  /// One line of a fragment.
  using Line = std::uint32_t[lane_steps / 2];

  TESSERA_DEVICE void multiply(const Fragment& left, const Fragment& right) {
    TESSERA_UNROLL
    for (int q = 0; q < 2; ++q) {
      product(sums_[re][q], left[re], right[re][q]);
      if constexpr (parts == 2) {
        Line negative;
        TESSERA_UNROLL
        for (int i = 0; i < lane_steps / 2; ++i) negative[i] = right[im][q][i] ^ both_signs;
        product(sums_[im][q], left[re], right[im][q]);
        product(sums_[im][q], left[im], right[re][q]);
        product(sums_[re][q], left[im], negative);
      }
    }
  }
  TESSERA_DEVICE void product(float (&sums)[4], const std::uint32_t (&left)[2][lane_steps / 2],
                              const std::uint32_t (&right)[lane_steps / 2]) {
    std::uint32_t a[lane_steps];
    TESSERA_UNROLL
    for (int i = 0; i < lane_steps; ++i) a[i] = left[i % 2][i / 2];
    machine_.template multiply_halves<R>(sums, a, right);
  }

  /// Calls f(column of four, row of two) where C has an element.
  template <class F>
  TESSERA_DEVICE void for_each_element(F f) const {
    TESSERA_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (column_ + j >= product_.n) break;
      TESSERA_UNROLL
      for (int h = 0; h < 2; ++h) {
        if (line_ + h < product_.m) f(j, h);
      }
    }
  }
  TESSERA_DEVICE E* c_at(int j) const { return machine_.in_global(product_.C) + line_ + (column_ + j) * product_.ldc; }
  TESSERA_DEVICE bool c_is_in_pairs() const { return line_ + 1 < product_.m && are_aligned<2>(c_at(0), product_.ldc); }

  TESSERA_DEVICE void load_c(E (&before)[4][2]) const {
    if (c_is_in_pairs()) {
      TESSERA_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (column_ + j >= product_.n) break;
        const auto pair = loaded<Several<2>>(c_at(j));
        before[j][0] = pair.element[0];
        before[j][1] = pair.element[1];
      }
    } else {
      for_each_element([&](int j, int h) { before[j][h] = loaded<E>(c_at(j) + h); });
    }
  }

  TESSERA_DEVICE void store_c(const E (&before)[4][2]) const {
    E result[4][2];
    TESSERA_UNROLL
    for (int j = 0; j < 4; ++j) {
      TESSERA_UNROLL
      for (int h = 0; h < 2; ++h) {
        // The columns are 2 (2 t + i) + q.
        SingleElement<parts> sum, of_c;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) {
          sum.part[p] = sums_[p][j % 2][2 * h + j / 2];
          of_c.part[p] = product_.reads_c ? machine_.single(before[j][h].part[p]) : 0.0F;
        }
        const SingleElement<parts> value = updated(product_, sum, of_c);
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) result[j][h].part[p] = machine_.template rounded<R>(value.part[p]);
      }
    }
    if (c_is_in_pairs()) {
      TESSERA_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (column_ + j >= product_.n) break;
        stored(c_at(j), Several<2>{{result[j][0], result[j][1]}});
      }
    } else {
      for_each_element([&](int j, int h) { stored(c_at(j) + h, result[j][h]); });
    }
  }

  const HalfProduct<E>& product_;
  Machine machine_;
  const int line_;        ///< the first of the lane's two lines, in its problem
  const int first_step_;  ///< the first of its four steps
  const int column_;      ///< the first of its four columns of C
  const bool has_c_;
  float sums_[parts][2][4] = {};
};

/// @tparam places rows and columns that a problem has room for; as many lanes share it
template <class Stored, int places, class Machine>
class TinyByLanes {
  using E = Stored;
  using R = typename E::R;
  static constexpr int parts = E::parts;
  using S = SingleElement<parts>;

 public:
  static constexpr int problems = 32 / places;
  static TESSERA_DEVICE int problem_of(int lane) { return lane / places; }
  static TESSERA_DEVICE bool is_first_of_problem(int lane) { return lane % places == 0; }

  /// @param product the lane's problem, no larger than `places`. does_nothing: the lane has no problem
  TESSERA_DEVICE TinyByLanes(const HalfProduct<E>& product, Machine machine)
      : product_(product), machine_(machine), column_(machine.lane() % places) {}

  /// Lanes are independent of each other.
  TESSERA_DEVICE void run() {
    if (product_.does_nothing || column_ >= product_.n) return;
    const auto rows = static_cast<int>(product_.m);
    E before[places];
    E* const c = machine_.in_global(product_.C) + column_ * product_.ldc;
    if (product_.reads_c) load_run(before, c, rows);
    S sums[places] = {};
    const E* left = machine_.in_global(product_.left.at);
    const E* right =
        product_.k > 0 ? machine_.in_global(product_.right.at) + column_ * product_.right.next_line : nullptr;
    TESSERA_NO_UNROLL
    for (index_t step = 0; step < product_.k; ++step) {
      E lines[places];
      if (product_.left.lines_are_adjacent)
        load_run(lines, left, rows);
      else
        load_apart(lines, left, product_.left.next_line, rows);
      const S of_right = seen(loaded<E>(right), product_.right.conjugate);
      TESSERA_UNROLL
      for (int i = 0; i < places; ++i) add(sums[i], seen(lines[i], product_.left.conjugate), of_right);
      left += product_.left.next_step;
      right += product_.right.next_step;
    }
    E result[places];
    TESSERA_UNROLL
    for (int i = 0; i < places; ++i) {
      const S value = updated(product_, sums[i], product_.reads_c ? seen(before[i], false) : S{});
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) result[i].part[p] = machine_.template rounded<R>(value.part[p]);
    }
    store_run(c, result, rows);
  }

 private:
  struct alignas(places * sizeof(E) < 16 ? places * sizeof(E) : 16) Run {
    E element[places];
  };
  static TESSERA_DEVICE bool is_run(const E* at, int rows) {
    return rows == places && reinterpret_cast<std::uintptr_t>(at) % alignof(Run) == 0;
  }
  static TESSERA_DEVICE void load_run(E (&to)[places], const E* from, int rows) {
    if (is_run(from, rows)) {
      const Run run = loaded<Run>(from);
      TESSERA_UNROLL
      for (int i = 0; i < places; ++i) to[i] = run.element[i];
    } else {
      load_apart(to, from, 1, rows);
    }
  }
  static TESSERA_DEVICE void load_apart(E (&to)[places], const E* from, index_t distance, int rows) {
    TESSERA_UNROLL
    for (int i = 0; i < places; ++i) {
      to[i] = E{};
      if (i < rows) to[i] = loaded<E>(from + i * distance);
    }
  }
  static TESSERA_DEVICE void store_run(E* to, const E (&from)[places], int rows) {
    if (is_run(to, rows)) {
      Run run;
      TESSERA_UNROLL
      for (int i = 0; i < places; ++i) run.element[i] = from[i];
      stored(to, run);
    } else {
      TESSERA_UNROLL
      for (int i = 0; i < places; ++i) {
        if (i < rows) stored(to + i, from[i]);
      }
    }
  }

  TESSERA_DEVICE S seen(const E& element, bool conjugate) const {
    S value;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) value.part[p] = machine_.single(element.part[p]);
    if (parts == 2 && conjugate) value.part[parts - 1] = -value.part[parts - 1];
    return value;
  }
  static TESSERA_DEVICE void add(S& sum, const S& a, const S& b) {
    using std::fma;
    sum.part[0] = fma(a.part[0], b.part[0], sum.part[0]);
    if constexpr (parts == 2) {
      sum.part[1] = fma(a.part[0], b.part[1], sum.part[1]);
      sum.part[1] = fma(a.part[1], b.part[0], sum.part[1]);
      sum.part[0] = fma(-a.part[1], b.part[1], sum.part[0]);
    }
  }

  const HalfProduct<E>& product_;
  Machine machine_;
  const int column_;
};

}  // namespace tessera::kernels::block
