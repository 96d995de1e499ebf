// A block of C of a product of 16-bit numbers (half_product.hpp) as the threads of one block compute it, by the tensor
// cores' m16n8k16 with sums in single.
//
// Blocks of any size are made of that one shape, on both sides: threads share the copies of a stage as suits global memory
// (half_stage.hpp), and warps have rectangles of the block, in sixteens of columns by eights of rows. The instruction's
// rows are columns of C, so that a thread has two elements of C that lie side by side: thread 4 g + t of a warp has rows
// 2 t and 2 t + 1 of each eight, in columns g and g + 8 of each sixteen. Complex products are four real ones of planes.
// Sums go to shared memory some columns at a time, from where threads update C as suits global memory again.
//
// All steps are summed in order, sixteen at a time, so that a result depends neither on the block that it is in nor on its
// neighbours. Source: Abdelfattah, Tomov, Dongarra, "Matrix multiplication on batches of small matrices in half and
// half-complex precisions", section 5.
#pragma once

#include <cstdint>

#include "kernels/block/device_code.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_stage.hpp"
#include "kernels/plan/half_blocks.hpp"

namespace tessera::kernels::block {

template <class Stored, plan::HalfBlocks blocks>
struct HalfShape {
  using E = Stored;
  static constexpr int rows = blocks.rows, columns = blocks.columns, depth = blocks.depth;
  static constexpr int across = blocks.warps_across, warps = blocks.warps_down * blocks.warps_across;
  static constexpr int threads = 32 * warps, stages = blocks.stages;
  static constexpr int rows_of_warp = rows / blocks.warps_down, columns_of_warp = columns / blocks.warps_across;
  static_assert(rows_of_warp % 16 == 0 && columns_of_warp % 16 == 0 && depth % 16 == 0 && stages >= 2);
};

/// Shared memory of a thread block.
template <class Shape>
struct HalfMemory {
  using E = typename Shape::E;
  static constexpr int parts = E::parts;
  struct Stage {
    alignas(16) typename E::R left[parts][Shape::rows * Shape::depth];
    alignas(16) typename E::R right[parts][Shape::columns * Shape::depth];
  };
  /// Sums of sixteen columns of each warp; columns lie so far apart that the eight of a store are in different banks.
  static constexpr int columns_at_once = 16 * Shape::across, next_column = Shape::rows + 8;
  using Sums = float[parts][columns_at_once][next_column];
  union {
    Stage stages[Shape::stages];
    alignas(16) Sums sums;
  };
};

/// Machine: as in strip.hpp, and
///   load_matrices<transposed>(words, at)   the 8 x 8 numbers of four matrices, lane i telling where a run of eight lies
///   multiply_halves<R>(sums, a, b)         m16n8k16 or, of half as many words, m16n8k8
///   single(number), rounded<R>(single)     conversions
///   prefetch(address)                      of what will be loaded
template <class Shape, class Machine>
class HalfBlock {
  using E = typename Shape::E;
  using R = typename E::R;
  using Memory = HalfMemory<Shape>;
  using Stage = typename Memory::Stage;
  static constexpr int parts = E::parts, depth = Shape::depth;
  static constexpr int row_tiles = Shape::rows_of_warp / 16, column_tiles = Shape::columns_of_warp / 16;
  static constexpr int re = 0, im = parts - 1;

 public:
  /// @pre the product has something of the block, and something to do
  TESSERA_DEVICE HalfBlock(const HalfProduct<E>& product, Memory& memory, index_t first_row, index_t first_column,
                           Machine machine)
      : product_(product),
        memory_(memory),
        machine_(machine),
        first_row_(first_row),
        first_column_(first_column),
        row_of_warp_(machine.warp() / Shape::across * Shape::rows_of_warp),
        column_of_warp_(machine.warp() % Shape::across * Shape::columns_of_warp),
        rows_(at_most(product.m - first_row, Shape::rows)),
        columns_(at_most(product.n - first_column, Shape::columns)) {}

  TESSERA_DEVICE void run() {
    if (product_.reads_c) ask_for_c();
    clear();
    add_all();
    meet();  // the stages are not used any more
    update();
  }

 private:
  static TESSERA_DEVICE int at_most(index_t left, int most) { return left < most ? static_cast<int>(left) : most; }

  TESSERA_DEVICE void meet() {
    if constexpr (Shape::warps == 1)
      machine_.sync_warp();
    else
      machine_.meet();
  }
  TESSERA_DEVICE int thread() const { return machine_.warp() * 32 + machine_.lane(); }
  TESSERA_DEVICE E* c_at(int row, int column) const {
    return machine_.in_global(product_.C) + (first_row_ + row) + (first_column_ + column) * product_.ldc;
  }

  TESSERA_DEVICE void ask_for_c() {
    constexpr int together = 64 / static_cast<int>(sizeof(E)), of_column = (Shape::rows + together - 1) / together;
    for (int piece = thread(); piece < of_column * columns_; piece += Shape::threads) {
      const int row = piece % of_column * together;
      if (row < rows_) machine_.prefetch(c_at(row, piece / of_column));
    }
  }

  TESSERA_DEVICE void clear() {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int t = 0; t < 2 * row_tiles; ++t) {
          TESSERA_UNROLL
          for (float& sum : sums_[p][u][t]) sum = 0;
        }
      }
    }
  }

  TESSERA_DEVICE void add_all() {
    if (product_.k == 0) return;
    HalfStageCopy<Shape, Machine, Shape::rows> left(machine_, product_.left, first_row_, rows_);
    HalfStageCopy<Shape, Machine, Shape::columns> right(machine_, product_.right, first_column_, columns_);
    constexpr int ahead = Shape::stages - 1;
    const auto stages = static_cast<std::uint32_t>((product_.k + depth - 1) / depth);
    int place = 0, place_ahead = 0;
    // The first turns only ask for what comes.
    TESSERA_NO_UNROLL
    for (std::uint32_t turn = 0; turn < stages + ahead; ++turn) {
      if (turn >= ahead) {
        machine_.template await_batches<Shape::stages - 2>();
        meet();  // what all have asked for has come, and nobody uses the stage before any more
      }
      Stage& coming = memory_.stages[place_ahead];
      if (turn < stages) {
        const index_t first = static_cast<index_t>(turn) * depth;
        const int steps = at_most(product_.k - first, depth);
        left.fetch(coming.left, first, steps);
        right.fetch(coming.right, first, steps);
      }
      machine_.end_of_batch();
      if (turn >= ahead) {
        const Stage& stage = memory_.stages[place];
        const bool right_by_lines = product_.right.lines_are_adjacent;
        if (product_.left.lines_are_adjacent)
          right_by_lines ? add_stage<true, true>(stage) : add_stage<true, false>(stage);
        else
          right_by_lines ? add_stage<false, true>(stage) : add_stage<false, false>(stage);
        place = place + 1 < Shape::stages ? place + 1 : 0;
      }
      if (turn < stages) {
        left.deposit(coming.left);
        right.deposit(coming.right);
      }
      place_ahead = place_ahead + 1 < Shape::stages ? place_ahead + 1 : 0;
    }
  }

  /// Sixteen lines by sixteen steps: matrices of eight by eight, (lines, steps) first and second, lines first.
  /// @param lane the thread's
  template <bool by_lines, int lines>
  TESSERA_DEVICE void load_fragment(std::uint32_t (&words)[4], const R* plane, int first_line, int first_step,
                                    int lane) {
    const int matrix = lane / 8, run = lane % 8;
    const int in_lines = 8 * (matrix & 1), in_steps = 8 * (matrix >> 1);
    if constexpr (by_lines)
      machine_.template load_matrices<true>(
          words, plane + HalfRuns<lines>::offset(first_step + in_steps + run, first_line + in_lines));
    else
      machine_.template load_matrices<false>(
          words, plane + HalfRuns<depth>::offset(first_line + in_lines + run, first_step + in_steps));
  }

  /// What a small matrix does not have of a warp's rectangle is passed over, by all of the warp.
  TESSERA_DEVICE bool has_rows(int t) const { return row_of_warp_ + 16 * t < rows_; }
  TESSERA_DEVICE bool has_columns(int u) const { return column_of_warp_ + 16 * u < columns_; }

  template <bool left_by_lines, bool right_by_lines>
  TESSERA_DEVICE void add_stage(const Stage& stage) {
    const int lane = machine_.made_anew(machine_.lane());  // else all offsets are kept in registers
    TESSERA_UNROLL
    for (int step = 0; step < depth; step += 16) {
      std::uint32_t left[row_tiles][parts][4];
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        if (!has_rows(t)) break;
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p)
          load_fragment<left_by_lines, Shape::rows>(left[t][p], stage.left[p], row_of_warp_ + 16 * t, step, lane);
      }
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        if (!has_columns(u)) break;
        std::uint32_t right[parts][4];
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p)
          load_fragment<right_by_lines, Shape::columns>(right[p], stage.right[p], column_of_warp_ + 16 * u, step, lane);
        multiply(u, right, left);
      }
    }
  }

  TESSERA_DEVICE void multiply(int u, const std::uint32_t (&right)[parts][4],
                               const std::uint32_t (&left)[row_tiles][parts][4]) {
    std::uint32_t negative[4];  // imaginary parts: the product of two of them is minus a real one
    TESSERA_UNROLL
    for (int i = 0; i < 4; ++i) negative[i] = right[im][i] ^ both_signs;
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; ++t) {
      if (!has_rows(t)) break;
      TESSERA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t real[2] = {left[t][re][half], left[t][re][half + 2]};
        auto& sums_of_real = sums_[re][u][2 * t + half];
        machine_.template multiply_halves<R>(sums_of_real, right[re], real);
        if constexpr (parts == 2) {
          const std::uint32_t imaginary[2] = {left[t][im][half], left[t][im][half + 2]};
          auto& sums_of_imaginary = sums_[im][u][2 * t + half];
          machine_.template multiply_halves<R>(sums_of_imaginary, right[im], real);
          machine_.template multiply_halves<R>(sums_of_imaginary, right[re], imaginary);
          machine_.template multiply_halves<R>(sums_of_real, negative, imaginary);
        }
      }
    }
  }

  // -- C --

  TESSERA_DEVICE void update() {
    const auto bits =
        reinterpret_cast<std::uintptr_t>(c_at(0, 0)) | static_cast<std::uintptr_t>(product_.ldc) * sizeof(E);
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      if (u > 0) {
        // The first warp across has the most columns.
        if (16 * u >= columns_) break;
        meet();
      }
      leave_sums(u);
      meet();
      if (bits % 16 == 0)
        update_columns<16 / static_cast<int>(sizeof(E))>(u);
      else if (parts == 1 && bits % 4 == 0)
        update_columns<parts == 1 ? 2 : 1>(u);
      else
        update_columns<1>(u);
    }
  }

  TESSERA_DEVICE void leave_sums(int u) {
    const int column = machine_.warp() % Shape::across * 16 + machine_.lane() / 4;
    const int row = row_of_warp_ + machine_.lane() % 4 * 2;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < 2 * row_tiles; ++t) {
        TESSERA_UNROLL
        for (int half = 0; half < 2; ++half) {
          struct alignas(8) Two {
            float value[2];
          };
          stored(&memory_.sums[p][column + 8 * half][row + 8 * t],
                 Two{{sums_[p][u][t][2 * half], sums_[p][u][t][2 * half + 1]}});
        }
      }
    }
  }

  /// Elements of C that are loaded and stored together.
  template <int count>
  struct alignas(count * sizeof(E)) Several {
    E element[count];
  };

  template <int count>
  TESSERA_DEVICE void update_columns(int u) {
    constexpr int of_column = Shape::rows / count, units = of_column * Memory::columns_at_once;
    constexpr int turns = (units + Shape::threads - 1) / Shape::threads, together = turns < 4 ? turns : 4;
    TESSERA_NO_UNROLL
    for (int first = thread(); first < units; first += together * Shape::threads) {
      Several<count> before[together];  // on their way together
      TESSERA_UNROLL
      for (int i = 0; i < together; ++i) {
        const Place at = place_of<count>(u, first + i * Shape::threads);
        if (product_.reads_c) load(before[i], at);
      }
      TESSERA_UNROLL
      for (int i = 0; i < together; ++i) {
        const Place at = place_of<count>(u, first + i * Shape::threads);
        if (at.count > 0) store(before[i], at);
      }
    }
  }

  struct Place {
    int row, column;  ///< in the block
    int column_of_sums;
    int count;  ///< elements that C has there; 0: none
  };
  template <int count>
  TESSERA_DEVICE Place place_of(int u, int unit) const {
    constexpr int of_column = Shape::rows / count;
    const int column_of_sums = unit / of_column, row = unit % of_column * count;
    const int column = column_of_sums / 16 * Shape::columns_of_warp + 16 * u + column_of_sums % 16;
    const int left = column_of_sums < Memory::columns_at_once && column < columns_ ? rows_ - row : 0;
    return {row, column, column_of_sums, left < 0 ? 0 : left < count ? left : count};
  }

  template <int count>
  TESSERA_DEVICE void load(Several<count>& before, const Place& at) const {
    const E* const from = c_at(at.row, at.column);
    if (at.count == count) {
      before = loaded<Several<count>>(from);
    } else {
      TESSERA_UNROLL
      for (int i = 0; i < count; ++i) {
        if (i < at.count) before.element[i] = loaded<E>(from + i);
      }
    }
  }

  template <int count>
  TESSERA_DEVICE void store(const Several<count>& before, const Place& at) const {
    Several<count> result;
    TESSERA_UNROLL
    for (int i = 0; i < count; ++i) {
      SingleElement<parts> sum, of_c;
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) {
        sum.part[p] = memory_.sums[p][at.column_of_sums][at.row + i];
        of_c.part[p] = product_.reads_c ? machine_.single(before.element[i].part[p]) : 0.0F;
      }
      const SingleElement<parts> value = updated(product_, sum, of_c);
      TESSERA_UNROLL
      for (int p = 0; p < parts; ++p) result.element[i].part[p] = machine_.template rounded<R>(value.part[p]);
    }
    E* const to = c_at(at.row, at.column);
    if (at.count == count) {
      stored(to, result);
    } else {
      TESSERA_UNROLL
      for (int i = 0; i < count; ++i) {
        if (i < at.count) stored(to + i, result.element[i]);
      }
    }
  }

  const HalfProduct<E>& product_;
  Memory& memory_;
  Machine machine_;
  const index_t first_row_, first_column_;
  const int row_of_warp_, column_of_warp_;
  const int rows_, columns_;  ///< of the block, as far as the matrix has them
  float sums_[parts][column_tiles][2 * row_tiles][4];
};

}  // namespace tessera::kernels::block
