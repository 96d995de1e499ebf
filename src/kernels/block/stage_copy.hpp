// Copies of an operand of a product (block_product.hpp) to shared memory, by the threads of a block: some of its rows,
// sixteen steps of k at a time.
//
// A line is a run of elements that are contiguous in global memory: steps of one row, or rows of one step. Neighbouring
// threads copy neighbouring places of a line. They copy 16 bytes at a time where addresses and layouts allow it, and
// single elements otherwise. Beyond the last step the stage holds zeros. Beyond the last row it holds anything, since
// those rows reach no result.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::block {

template <int power_of_two>
inline constexpr int shift_of = std::countr_zero(static_cast<unsigned>(power_of_two));

/// A constant that device code may use.
template <class Place, int length>
inline constexpr int line_distance = Place::distance(length);

/// Where a stage holds the elements of an operand with so many rows.
template <class Place, int rows, int depth>
struct StageLayout {
  /// Whether steps are contiguous; else rows are. A triangle and its mirror image have the same layout.
  template <class E>
  static TESSERA_DEVICE bool is_by_steps(const ProductOperand<E>& operand) {
    if constexpr (Place::is_fixed) return Place::is_by_steps;
    return operand.stored == Region::full && operand.row != 1 && operand.row != -1;
  }
  static TESSERA_DEVICE int next_row(bool by_steps) { return by_steps ? line_distance<Place, depth> : 1; }
  static TESSERA_DEVICE int next_step(bool by_steps) { return by_steps ? 1 : line_distance<Place, rows>; }
};

/// @tparam Shape that of the block (gemm_block.hpp)
/// @tparam is_plain whether the operand is stored as a whole
template <class Shape, class Machine, int rows, bool is_plain>
class StageCopy {
  using E = typename Shape::E;
  using Operand = ProductOperand<E>;
  static constexpr int depth = Shape::depth, threads = Shape::threads;
  using Layout = StageLayout<typename Shape::Place, rows, depth>;
  /// Elements that a thread copies at a time.
  static constexpr int several = 16 / static_cast<int>(sizeof(E));
  static_assert(rows <= threads && depth <= threads, "a line is copied by the threads at once");

 public:
  /// @param rows_there rows that the matrix has from the first one on
  TESSERA_DEVICE StageCopy(Machine machine, index_t first_row, int rows_there)
      : machine_(machine), first_row_(first_row), rows_there_(rows_there) {}

  /// Starts the copy of the next stage.
  /// @param begins whether it is the first stage of `from`
  /// @param first_step, steps_there its first step, and how many steps exist from there on
  TESSERA_DEVICE void copy(E* to, const Operand& from, bool begins, index_t first_step, int steps_there) {
    if constexpr (!is_plain) {
      const Part part = part_of(from, first_step);
      begins = begins || part != part_;
      part_ = part;
      if (part == Part::across_diagonal) {
        if (begins) by_steps_ = Layout::is_by_steps(from);
        copy_across_diagonal(to, from, first_step, steps_there);
        return;
      }
    }
    if (begins) begin(from, first_step);
    if (lines_are_rows_) {
      in_several_ ? copy_lines_of<several, Line::row>(to, steps_there) : copy_lines_of<1, Line::row>(to, steps_there);
      at_ += is_reversed_ ? -depth : depth;
    } else {
      in_several_ ? copy_lines_of<several, Line::step>(to, steps_there) : copy_lines_of<1, Line::step>(to, steps_there);
      at_ += depth * next_line_;
    }
  }

  /// Whether steps are contiguous in the stage whose copy was started last; else rows are.
  TESSERA_DEVICE bool by_steps() const { return by_steps_; }

 private:
  enum class Part : unsigned char { stored, mirrored, across_diagonal };  // of a triangle
  enum class Line : unsigned char { row, step };
  /// Small blocks seldom have all of their rows.
  static constexpr bool is_often_whole = rows >= 64;

  TESSERA_DEVICE static int at_most(int left, int most) { return left < most ? (left > 0 ? left : 0) : most; }

  /// Prepares for the stage that begins with this step, and for the following ones.
  TESSERA_DEVICE void begin(const Operand& from, index_t first_step) {
    const bool is_mirrored = !is_plain && part_ == Part::mirrored;
    const index_t row = is_mirrored ? from.step : from.row, step = is_mirrored ? from.row : from.step;
    by_steps_ = Layout::is_by_steps(from);
    lines_are_rows_ = row != 1 && row != -1;
    is_reversed_ = (lines_are_rows_ ? step : row) < 0;
    next_line_ = lines_are_rows_ ? row : step;
    at_ = from.at + first_row_ * row + first_step * step;
    const auto bits = reinterpret_cast<std::uintptr_t>(at_) | static_cast<std::uintptr_t>(next_line_) * sizeof(E);
    in_several_ = several > 1 && by_steps_ == lines_are_rows_ && !is_reversed_ && bits % 16 == 0;
    // Lengths of lines and numbers of threads are powers of two.
    const int of_line = lines_are_rows_ ? shift_of<depth> : shift_of<rows>;
    const int shift = in_several_ ? of_line - shift_of<several> : of_line;
    int place = thread() & ((1 << shift) - 1);
    if (in_several_) place *= several;
    const int line = thread() >> shift;
    at_ += (is_reversed_ ? -place : place) + line * next_line_;
    const int place_distance = lines_are_rows_ ? next_step() : next_row();
    to_ = place * place_distance + line * (lines_are_rows_ ? next_row() : next_step());
  }

  TESSERA_DEVICE int thread() const { return machine_.warp() * 32 + machine_.lane(); }
  TESSERA_DEVICE int next_row() const { return Layout::next_row(by_steps_); }
  TESSERA_DEVICE int next_step() const { return Layout::next_step(by_steps_); }

  template <int at_a_time, Line line>
  TESSERA_DEVICE void copy_lines_of(E* to, int steps_there) {
    constexpr int count = line == Line::row ? rows : depth, length = line == Line::row ? depth : rows;
    constexpr int at_once = threads * at_a_time / length;
    if (is_often_whole && rows_there_ == rows && steps_there == depth) {
      if (at_once <= count || thread() < rows * depth / at_a_time)
        copy_all_lines<at_a_time, count, at_once>(to, line == Line::row ? next_row() : next_step());
    } else if (line == Line::row) {
      copy_rows<at_a_time, at_once>(to, steps_there);
    } else {
      copy_steps<at_a_time, at_once>(to, steps_there);
    }
  }

  template <int at_a_time, int lines, int at_once>
  TESSERA_DEVICE void copy_all_lines(E* to, int to_next) {
    const E* from = at_;
    const index_t next = at_once * next_line_;
    to += to_;
    TESSERA_UNROLL
    for (int line = 0; line < lines; line += at_once) {
      machine_.template copy_async<at_a_time>(to, from, at_a_time);
      from += next;
      to += at_once * to_next;
    }
  }

  /// Copies lines that are rows. The loop is unrolled for at most four lines, since a block often has few.
  template <int at_a_time, int at_once>
  TESSERA_DEVICE void copy_rows(E* to, int steps_there) {
    constexpr unsigned copies = depth / at_a_time;
    constexpr int turns = rows > at_once ? rows / at_once : 1, together = turns < 4 ? turns : 4;
    const auto here = static_cast<unsigned>(machine_.made_anew(thread()));
    const int count = at_most(steps_there - static_cast<int>(here % copies) * at_a_time, at_a_time);
    const E* from = at_;
    const index_t next = at_once * next_line_;
    to += to_;
    TESSERA_NO_UNROLL
    for (int line = static_cast<int>(here / copies); line < rows_there_; line += together * at_once) {
      TESSERA_UNROLL
      for (int turn = 0; turn < together; ++turn) {
        if (line + turn * at_once < rows_there_) machine_.template copy_async<at_a_time>(to, from, count);
        from += next;
        to += at_once * next_row();
      }
    }
  }

  /// Copies lines that are steps.
  template <int at_a_time, int at_once>
  TESSERA_DEVICE void copy_steps(E* to, int steps_there) {
    constexpr unsigned copies = rows / at_a_time;
    const auto here = static_cast<unsigned>(machine_.made_anew(thread()));
    const int count = at_most(rows_there_ - static_cast<int>(here % copies) * at_a_time, at_a_time);
    const auto first_line = static_cast<int>(here / copies);
    if (count == 0 || (at_once > depth && first_line >= depth)) return;
    const E* from = at_;
    const index_t next = at_once * next_line_;
    to += to_;
    TESSERA_UNROLL
    for (int line = 0; line < depth; line += at_once) {
      machine_.template copy_async<at_a_time>(to, from, line + first_line < steps_there ? count : 0);
      from += next;
      to += at_once * next_step();
    }
  }

  /// The part of a triangular operand to which the stage belongs. A stage that the diagonal does not cross is a plain
  /// part of the matrix, or of its transpose.
  TESSERA_DEVICE Part part_of(const Operand& from, index_t first_step) const {
    if (from.stored == Region::full) return Part::stored;
    const bool is_below = first_row_ >= first_step + depth - 1, is_above = first_step >= first_row_ + rows - 1;
    if (!is_below && !is_above) return Part::across_diagonal;
    return is_below == (from.stored == Region::lower) ? Part::stored : Part::mirrored;
  }

  TESSERA_DEVICE void copy_across_diagonal(E* to, const Operand& from, index_t first_step, int steps_there) {
    const bool by_steps = Layout::is_by_steps(from);
    const int to_row = Layout::next_row(by_steps), to_step = Layout::next_step(by_steps);
    TESSERA_NO_UNROLL
    for (int at = machine_.warp() * 32 + machine_.lane(); at < rows * depth; at += threads) {
      const int row = at % rows, step = at / rows;
      const index_t i = first_row_ + row, k = first_step + step;
      const bool is_stored = is_in(from.stored, i, k);
      const index_t offset = is_stored ? i * from.row + k * from.step : k * from.row + i * from.step;
      const bool is_there = row < rows_there_ && step < steps_there;
      machine_.template copy_async<1>(to + (row * to_row + step * to_step), is_there ? from.at + offset : from.at,
                                      is_there ? 1 : 0);
    }
  }

  Machine machine_;
  const index_t first_row_;
  const int rows_there_;
  const E* at_ = nullptr;  ///< the thread's first element of the next stage
  index_t next_line_ = 0;  ///< elements to the next line
  int to_ = 0;             ///< its place in a stage
  bool by_steps_ = false, lines_are_rows_ = false, is_reversed_ = false, in_several_ = false;
  Part part_ = Part::stored;
};

}  // namespace tessera::kernels::block
