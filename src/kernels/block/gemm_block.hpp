// A block of C of a product (block_product.hpp) as the threads of one block compute it.
//
// Sixteen steps of k of both operands at a time lie in shared memory, some of them on their way while others are used.
// They are copied 16 bytes at a time where addresses and layouts allow it, and else element by element, whatever their
// layout and leading dimension; what lies beyond the matrices is zero.
//
// A warp has a rectangle of the block. Its thread 4 g + q has rows g + 8 t and columns 8 u + 2 q and 8 u + 2 q + 1, as
// the accumulators of the tensor cores' instruction lie. Sums run there in double precision, and as fused multiply-adds
// in single; complex products are four real ones. All steps of all terms are summed in order, so that a result depends
// neither on the block that it is in nor on its neighbours.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/block/block_product.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::block {

/// Blocks of C of block_rows x block_columns, by warps_down x warps_across warps.
template <class Real, int parts_of_element, int block_rows, int block_columns, int warps_down, int warps_across,
          int steps_ahead>
struct GemmShape {
  using R = Real;
  using E = Element<Real, parts_of_element>;
  static constexpr int parts = parts_of_element;
  static constexpr int rows = block_rows, columns = block_columns;
  static constexpr int across = warps_across;
  static constexpr int warps = warps_down * warps_across;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_of_warp = rows / warps_down, columns_of_warp = columns / warps_across;
  static constexpr int depth = plan::steps_of_stage;
  static constexpr int stages = steps_ahead;
  using Place = plan::StagePlace<sizeof(Real), parts_of_element>;
  static_assert(rows_of_warp % 16 == 0 && columns_of_warp % 8 == 0 && stages >= 2);
};

template <class Real, int parts, plan::ProductBlocks blocks>
using ShapeOfBlocks =
    GemmShape<Real, parts, blocks.rows, blocks.columns, blocks.warps_down, blocks.warps_across, blocks.stages>;

/// A variable, which device code may use.
template <class Place, int length>
inline constexpr int next_line = Place::distance(length);

/// Shared memory of a thread block.
template <class Shape>
struct GemmMemory {
  using E = typename Shape::E;
  struct Stage {
    alignas(16) E left[Shape::Place::elements(Shape::rows)];
    alignas(16) E right[Shape::Place::elements(Shape::columns)];
  } stages[Shape::stages];
};

/// Machine: as in strip.hpp.
template <class Shape, class Machine, Operands operands = Operands::any>
class GemmBlock {
  using R = typename Shape::R;
  using E = typename Shape::E;
  using Operand = ProductOperand<E>;
  using Place = typename Shape::Place;
  static constexpr int parts = Shape::parts;
  static constexpr int depth = Shape::depth;
  static constexpr int row_tiles = Shape::rows_of_warp / 8, column_tiles = Shape::columns_of_warp / 8;
  static constexpr bool by_tensor_cores = sizeof(R) == sizeof(double);
  static constexpr bool is_plain = operands == Operands::plain;
  static constexpr int words_of_sums = row_tiles * column_tiles * 2 * static_cast<int>(sizeof(E) / 4);
  /// Where there are registers for it, C comes while the sums are made.
  static constexpr bool loads_early = words_of_sums <= 32;

 public:
  TESSERA_DEVICE GemmBlock(const BlockProduct<E>& product, GemmMemory<Shape>& memory, index_t first_row,
                           index_t first_column, Machine machine)
      : product_(product),
        memory_(memory),
        machine_(machine),
        first_row_(first_row),
        first_column_(first_column),
        group_(machine.lane() / 4),
        member_(machine.lane() % 4),
        row_of_warp_(machine.warp() / Shape::across * Shape::rows_of_warp),
        column_of_warp_(machine.warp() % Shape::across * Shape::columns_of_warp) {}

  TESSERA_DEVICE void run() {
    if (product_.does_nothing || is_outside()) return;
    rows_ = at_most(product_.m - first_row_, Shape::rows);
    columns_ = at_most(product_.n - first_column_, Shape::columns);
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u) sums_[p][t][u][0] = sums_[p][t][u][1] = 0;
      }
    }
    stages_of_term_ = (product_.k + depth - 1) / depth;
    stages_ = product_.terms * stages_of_term_;
    Copier<Shape::rows> left{};
    Copier<Shape::columns> right{};
    Reader reader{};
    if constexpr (is_plain) {
      begin(left, product_.term[0].left, first_row_, 0);
      begin(right, product_.term[0].right, first_column_, 0);
      begin(reader, 0);
    }
    for (int ahead = 0; ahead < Shape::stages - 1; ++ahead) ask_for(ahead, ahead, left, right);
    Before<loads_early ? row_tiles : 1> before;
    if constexpr (loads_early) load(update(), before, 0);
    // A warp that has nothing of the matrix copies all the same.
    const bool has_part = row_of_warp_ < rows_ && column_of_warp_ < columns_;
    int place = 0, place_ahead = Shape::stages - 1;
    TESSERA_NO_UNROLL
    for (index_t at = 0; at < stages_; ++at) {
      machine_.template await_batches<Shape::stages - 2>();
      meet();  // what all have asked for has come, and nobody uses the stage before any more
      ask_for(place_ahead, at + Shape::stages - 1, left, right);
      if (!is_plain && begins_term(at)) begin(reader, at);
      if (has_part) add_stage(reader, memory_.stages[place], at);
      place = place + 1 < Shape::stages ? place + 1 : 0;
      place_ahead = place_ahead + 1 < Shape::stages ? place_ahead + 1 : 0;
    }
    if constexpr (loads_early) {
      store(update(), before, 0);
    } else {
      store();
    }
  }

 private:
  using Term = typename BlockProduct<E>::Term;
  using Stage = typename GemmMemory<Shape>::Stage;

  TESSERA_DEVICE void meet() {
    if constexpr (Shape::warps == 1) {
      machine_.sync_warp();
    } else {
      machine_.meet();
    }
  }

  static TESSERA_DEVICE int at_most(index_t left, int most) { return left < most ? static_cast<int>(left) : most; }

  /// Nothing of the block is updated.
  TESSERA_DEVICE bool is_outside() const {
    if (first_row_ >= product_.m || first_column_ >= product_.n) return true;
    const index_t last_row = first_row_ + Shape::rows - 1, last_column = first_column_ + Shape::columns - 1;
    return (product_.updated == Region::lower && last_row < first_column_) ||
           (product_.updated == Region::upper && first_row_ > last_column);
  }

  TESSERA_DEVICE static bool is_in(Region region, index_t i, index_t j) {
    return region == Region::full || (region == Region::lower ? i >= j : i <= j);
  }

  TESSERA_DEVICE bool is_second(index_t stage) const { return !is_plain && stage >= stages_of_term_; }
  TESSERA_DEVICE bool begins_term(index_t stage) const { return stage == 0 || stage == stages_of_term_; }
  TESSERA_DEVICE index_t step_of(index_t stage) const {
    return (is_second(stage) ? stage - stages_of_term_ : stage) * depth;
  }
  TESSERA_DEVICE const Term& term_of(index_t stage) const { return product_.term[is_second(stage) ? 1 : 0]; }

  TESSERA_DEVICE static bool rows_lie_together(const Operand& operand) { return operand.row == 1 || operand.row == -1; }
  /// In shared memory: its steps lie side by side, else its rows.
  TESSERA_DEVICE static bool lies_by_steps(const Operand& operand) {
    if constexpr (Place::is_fixed) return Place::is_by_steps;
    return !rows_lie_together(operand) && (is_plain || operand.stored == Region::full);
  }
  template <int rows>
  TESSERA_DEVICE static int row_in_stage(const Operand& operand) {
    return lies_by_steps(operand) ? next_line<Place, depth> : 1;
  }
  template <int rows>
  TESSERA_DEVICE static int step_in_stage(const Operand& operand) {
    return lies_by_steps(operand) ? 1 : next_line<Place, rows>;
  }

  /// What of an operand a thread copies in each stage: lines of elements that lie side by side in global memory.
  /// Neighbouring threads have neighbouring ones.
  template <int rows>
  struct Copier {
    enum class Part : unsigned char { stored, mirrored, across_diagonal };  // of a triangle
    const E* at;        ///< the thread's first element of the next stage
    index_t next_line;  ///< elements to the next line
    index_t next_stage;
    int next;                       ///< elements to the next one of a line: 1 or -1
    int to, to_next, to_next_line;  ///< where they go in a stage
    int place, line;                ///< in the line, and the line, of the first element
    bool along_steps;               ///< lines are rows, else steps
    bool in_several;                ///< 16 bytes at a time
    Part part;
  };

  TESSERA_DEVICE void ask_for(int place, index_t stage, Copier<Shape::rows>& left, Copier<Shape::columns>& right) {
    if (stage < stages_) {
      const auto& term = term_of(stage);
      const bool begins = begins_term(stage);
      copy(left, memory_.stages[place].left, term.left, first_row_, rows_, step_of(stage), begins);
      copy(right, memory_.stages[place].right, term.right, first_column_, columns_, step_of(stage), begins);
    }
    machine_.end_of_batch();
  }

  template <int rows>
  TESSERA_DEVICE void copy(Copier<rows>& copier, E* to, const Operand& from, index_t first_row, int rows_there,
                           index_t first_step, bool begins) {
    const int steps_there = at_most(product_.k - first_step, depth);
    if constexpr (!is_plain) {
      if (from.stored != Region::full) {
        const auto part = part_of<rows>(from, first_row, first_step);
        begins = begins || part != copier.part;
        copier.part = part;
        if (part == Copier<rows>::Part::across_diagonal) {
          copy_across_diagonal<rows>(to, from, first_row, rows_there, first_step, steps_there);
          return;
        }
      } else {
        copier.part = Copier<rows>::Part::stored;
      }
    }
    if (!is_plain && begins) begin(copier, from, first_row, first_step);
    if (copier.along_steps) {
      if (copier.in_several)
        copy_lines<depth, rows, several>(copier, to, steps_there, rows_there);
      else
        copy_lines<depth, rows, 1>(copier, to, steps_there, rows_there);
    } else {
      if (copier.in_several)
        copy_lines<rows, depth, several>(copier, to, rows_there, steps_there);
      else
        copy_lines<rows, depth, 1>(copier, to, rows_there, steps_there);
    }
    copier.at += copier.next_stage;
  }

  /// Rows and steps that the diagonal does not cross are those of a matrix, or of its transpose.
  template <int rows>
  TESSERA_DEVICE static typename Copier<rows>::Part part_of(const Operand& from, index_t first_row,
                                                            index_t first_step) {
    using Part = typename Copier<rows>::Part;
    const bool is_below = first_row >= first_step + depth - 1, is_above = first_step >= first_row + rows - 1;
    if (!is_below && !is_above) return Part::across_diagonal;
    return is_below == (from.stored == Region::lower) ? Part::stored : Part::mirrored;
  }

  /// Elements that a thread copies at a time.
  static constexpr int several = 16 / static_cast<int>(sizeof(E));

  template <int rows>
  TESSERA_DEVICE void begin(Copier<rows>& copier, const Operand& from, index_t first_row, index_t first_step) {
    const bool is_mirrored = copier.part == Copier<rows>::Part::mirrored;
    const index_t row = is_mirrored ? from.step : from.row, step = is_mirrored ? from.row : from.step;
    const int to_row = row_in_stage<rows>(from), to_step = step_in_stage<rows>(from);
    copier.along_steps = row != 1 && row != -1;
    copier.next = static_cast<int>(copier.along_steps ? step : row);
    copier.next_line = copier.along_steps ? row : step;
    copier.to_next = copier.along_steps ? to_step : to_row;
    copier.to_next_line = copier.along_steps ? to_row : to_step;
    copier.next_stage = depth * step;
    copier.at = from.at + first_row * row + first_step * step;
    const auto bits =
        reinterpret_cast<std::uintptr_t>(copier.at) | static_cast<std::uintptr_t>(copier.next_line) * sizeof(E);
    copier.in_several = several > 1 && copier.next == 1 && copier.to_next == 1 && bits % 16 == 0;
    const int thread = machine_.warp() * 32 + machine_.lane();
    const int at_a_time = copier.in_several ? several : 1;
    const int copies = (copier.along_steps ? depth : rows) / at_a_time;
    const int at_once = copies < Shape::threads ? copies : Shape::threads;
    copier.place = thread % at_once * at_a_time;
    copier.line = thread / at_once;
    copier.at += copier.place * copier.next + copier.line * copier.next_line;
    copier.to = copier.place * copier.to_next + copier.line * copier.to_next_line;
  }

  /// `lines` of `run` elements. @param run_there, lines_there the others are behind the end of the matrix
  template <int run, int lines, int at_a_time, int rows>
  TESSERA_DEVICE void copy_lines(const Copier<rows>& copier, E* to, int run_there, int lines_there) {
    constexpr int copies = run / at_a_time;
    constexpr int copies_at_once = copies < Shape::threads ? copies : Shape::threads;
    constexpr int lines_at_once = Shape::threads / copies_at_once;
    if (lines_at_once > lines && copier.line >= lines) return;
    const int next = at_a_time > 1 ? 1 : copier.next, to_next = at_a_time > 1 ? 1 : copier.to_next;
    const int in_line = run_there - copier.place, in_lines = lines_there - copier.line;
    const E* from = copier.at;
    to += copier.to;
    TESSERA_UNROLL
    for (int l = 0; l < lines; l += lines_at_once) {
      TESSERA_UNROLL
      for (int c = 0; c < run; c += copies_at_once * at_a_time) {
        const int left = l < in_lines ? in_line - c : 0;
        machine_.template copy_async<at_a_time>(to + c * to_next, from + c * next,
                                                left < 0           ? 0
                                                : left < at_a_time ? left
                                                                   : at_a_time);
      }
      from += lines_at_once * copier.next_line;
      to += lines_at_once * copier.to_next_line;
    }
  }

  template <int rows>
  TESSERA_DEVICE void copy_across_diagonal(E* to, const Operand& from, index_t first_row, int rows_there,
                                           index_t first_step, int steps_there) {
    const int thread = machine_.warp() * 32 + machine_.lane();
    TESSERA_NO_UNROLL
    for (int at = thread; at < rows * depth; at += Shape::threads) {
      const int row = at % rows, step = at / rows;
      const index_t i = first_row + row, k = first_step + step;
      const bool is_stored = is_in(from.stored, i, k);
      const index_t offset = is_stored ? i * from.row + k * from.step : k * from.row + i * from.step;
      const bool is_there = row < rows_there && step < steps_there;
      machine_.template copy_async<1>(to + (row * row_in_stage<rows>(from) + step * step_in_stage<rows>(from)),
                                      is_there ? from.at + offset : from.at, is_there ? 1 : 0);
    }
  }

  /// An element of an operand from what is stored of it.
  TESSERA_DEVICE static E seen(E value, const Operand& operand, index_t i, index_t k) {
    if constexpr (parts == 2) {
      bool conjugates = operand.conjugate;
      if (!is_plain && operand.hermitian) {
        if (i == k) value.part[E::im] = 0;
        if (!is_in(operand.stored, i, k)) conjugates = !conjugates;
      }
      if (conjugates) value.part[E::im] = -value.part[E::im];
    }
    return value;
  }

  /// Rows of the left operand are those of C, rows of the right one its columns.
  TESSERA_DEVICE E left_element(const Term& term, E stored, index_t first_step, int step, int row) const {
    const E value = seen(stored, term.left, first_row_ + row, first_step + step);
    if constexpr (parts == 2 && !is_plain) {
      if (product_.has_factors) return product(term.factor, value);
    }
    return value;
  }
  TESSERA_DEVICE E right_element(const Term& term, E stored, index_t first_step, int step, int column) const {
    return seen(stored, term.right, first_column_ + column, first_step + step);
  }

  /// Where a thread finds in a stage what it multiplies: its first row and step, and from there on.
  struct Reader {
    int left, left_row, left_step;
    int right, right_row, right_step;
  };
  TESSERA_DEVICE void begin(Reader& reader, index_t stage) const {
    const Term& term = term_of(stage);
    reader.left_row = row_in_stage<Shape::rows>(term.left);
    reader.left_step = step_in_stage<Shape::rows>(term.left);
    reader.right_row = row_in_stage<Shape::columns>(term.right);
    reader.right_step = step_in_stage<Shape::columns>(term.right);
    const int step = by_tensor_cores ? member_ : 0;
    reader.left = (row_of_warp_ + group_) * reader.left_row + step * reader.left_step;
    reader.right = first_right() * reader.right_row + step * reader.right_step;
  }
  /// The first row of the right operand that a thread reads.
  TESSERA_DEVICE int first_right() const { return column_of_warp_ + (by_tensor_cores ? group_ : 2 * member_); }

  TESSERA_DEVICE void add_stage(const Reader& reader, const Stage& stage, index_t at) {
    if constexpr (by_tensor_cores) {
      add_by_tensor_cores(reader, stage, at);
    } else if constexpr (Place::is_fixed) {
      add_by_fma_of_four_steps(stage);
    } else {
      add_by_fma(reader, stage, at);
    }
  }

  TESSERA_DEVICE void add_by_tensor_cores(const Reader& reader, const Stage& stage, index_t at) {
    const Term& term = term_of(at);
    const index_t first_step = step_of(at);
    R right[column_tiles][parts][4];
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        const E stored = stage.right[reader.right + 8 * u * reader.right_row + 4 * s * reader.right_step];
        const E value = right_element(term, stored, first_step, 4 * s + member_, first_right() + 8 * u);
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) right[u][p][s] = value.part[p];
      }
    }
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; t += 2) {
      if (row_of_warp_ + 8 * t >= rows_) break;
      R left[parts][2][4];
      TESSERA_UNROLL
      for (int s = 0; s < 4; ++s) {
        TESSERA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int row = 8 * (t + half);
          const E stored = stage.left[reader.left + row * reader.left_row + 4 * s * reader.left_step];
          const E value = left_element(term, stored, first_step, 4 * s + member_, row_of_warp_ + group_ + row);
          TESSERA_UNROLL
          for (int p = 0; p < parts; ++p) left[p][half][s] = value.part[p];
        }
      }
      constexpr int re = E::re, im = E::im;
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        machine_.multiply(sums_[re][t][u], sums_[re][t + 1][u], left[re], right[u][re]);
        if constexpr (parts == 2) {
          machine_.multiply(sums_[im][t][u], sums_[im][t + 1][u], left[re], right[u][im]);
          machine_.multiply(sums_[im][t][u], sums_[im][t + 1][u], left[im], right[u][re]);
        }
      }
      if constexpr (parts == 2) {
        // The product of two imaginary parts is minus a real one.
        TESSERA_UNROLL
        for (int half = 0; half < 2; ++half) {
          TESSERA_UNROLL
          for (int s = 0; s < 4; ++s) left[im][half][s] = -left[im][half][s];
        }
        TESSERA_UNROLL
        for (int u = 0; u < column_tiles; ++u)
          machine_.multiply(sums_[re][t][u], sums_[re][t + 1][u], left[im], right[u][im]);
      }
    }
  }

  TESSERA_DEVICE void add_by_fma(const Reader& reader, const Stage& stage, index_t at) {
    const Term& term = term_of(at);
    const index_t first_step = step_of(at);
    TESSERA_UNROLL
    for (int step = 0; step < depth; ++step) {
      E right[column_tiles][2];
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int row = 8 * u + c;
          const E stored = stage.right[reader.right + row * reader.right_row + step * reader.right_step];
          right[u][c] = right_element(term, stored, first_step, step, first_right() + row);
        }
      }
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        const E stored = stage.left[reader.left + 8 * t * reader.left_row + step * reader.left_step];
        add_products(t, left_element(term, stored, first_step, step, row_of_warp_ + group_ + 8 * t), right);
      }
    }
  }
  TESSERA_DEVICE void add_products(int t, const E& left, const E (&right)[column_tiles][2]) {
    TESSERA_UNROLL
    for (int u = 0; u < column_tiles; ++u) {
      TESSERA_UNROLL
      for (int c = 0; c < 2; ++c) set_sum(t, u, c, fused(left, right[u][c], sum(t, u, c)));
    }
  }

  /// Of real elements whose steps lie side by side: four of them come in one load.
  struct alignas(4 * sizeof(E)) FourSteps {
    E element[4];
  };
  TESSERA_DEVICE static FourSteps four_steps(const E* from) {
    FourSteps four;
    memcpy(&four, __builtin_assume_aligned(from, sizeof four), sizeof four);
    return four;
  }
  TESSERA_DEVICE void add_by_fma_of_four_steps(const Stage& stage) {
    constexpr int distance = next_line<Place, depth>;
    const E* const right_rows = stage.right + (column_of_warp_ + 2 * member_) * distance;
    const E* const left_rows = stage.left + (row_of_warp_ + group_) * distance;
    TESSERA_UNROLL
    for (int step = 0; step < depth; step += 4) {
      FourSteps right[column_tiles][2];
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) right[u][c] = four_steps(right_rows + (8 * u + c) * distance + step);
      }
      TESSERA_UNROLL
      for (int t = 0; t < row_tiles; ++t) {
        const FourSteps left = four_steps(left_rows + 8 * t * distance + step);
        TESSERA_UNROLL
        for (int s = 0; s < 4; ++s) {
          E of_step[column_tiles][2];
          TESSERA_UNROLL
          for (int u = 0; u < column_tiles; ++u) {
            TESSERA_UNROLL
            for (int c = 0; c < 2; ++c) of_step[u][c] = right[u][c].element[s];
          }
          add_products(t, left.element[s], of_step);
        }
      }
    }
  }

  TESSERA_DEVICE E sum(int t, int u, int c) const {
    E value;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) value.part[p] = sums_[p][t][u][c];
    return value;
  }
  TESSERA_DEVICE void set_sum(int t, int u, int c, const E& value) {
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) sums_[p][t][u][c] = value.part[p];
  }

  /// Elements of C of a thread, in the layout of the sums.
  template <int tiles>
  struct Before {
    E element[tiles][column_tiles][2] = {};
  };

  /// What becomes of sums. In registers: after each element that is stored the compiler would load it again.
  struct Update {
    E alpha, beta;
    bool takes_alpha, reads_c, alpha_is_real, beta_is_real, is_real;
    Region updated;
    E* C;  ///< the thread's first element
    index_t row, column;
  };
  TESSERA_DEVICE Update update() const {
    Update update{product_.alpha,         product_.beta,          product_.terms > 0 && !product_.has_factors,
                  product_.reads_c,       product_.alpha_is_real, product_.beta_is_real,
                  product_.real_diagonal, product_.updated,       nullptr,
                  product_.row,           product_.column};
    update.C = product_.C + (first_row_ + row_of_warp_ + group_) * update.row +
               (first_column_ + column_of_warp_ + 2 * member_) * update.column;
    return update;
  }

  /// f(row tile, column tile, column, element of C) for the thread's elements that are updated, of so many row tiles.
  template <int tiles, class F>
  TESSERA_DEVICE void for_each_updated(const Update& update, int first_tile, F f) const {
    const bool is_whole = update.updated == Region::full, is_lower = update.updated == Region::lower;
    // Of the block's corner from the diagonal, as far as it matters.
    const index_t down = first_row_ - first_column_;
    const index_t at_least = down < -Shape::rows ? -Shape::rows : down;
    const int below = static_cast<int>(at_least > Shape::columns ? Shape::columns : at_least);
    const index_t next_tile = 8 * update.row, next_column_tile = 8 * update.column;
    E* at = update.C + first_tile * next_tile;
    TESSERA_UNROLL
    for (int t = 0; t < tiles; ++t) {
      const int row = row_of_warp_ + 8 * (first_tile + t) + group_;
      E* of_row = at;
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int column = column_of_warp_ + 8 * u + 2 * member_ + c;
          const int from_diagonal = below + row - column;
          const bool is_updated =
              row < rows_ && column < columns_ && (is_whole || (is_lower ? from_diagonal >= 0 : from_diagonal <= 0));
          if (is_updated) f(t, u, c, of_row[c * update.column]);
        }
        of_row += next_column_tile;
      }
      at += next_tile;
    }
  }

  template <int tiles>
  TESSERA_DEVICE void load(const Update& update, Before<tiles>& before, int first_tile) const {
    if (!update.reads_c) return;
    for_each_updated<tiles>(update, first_tile,
                            [&](int t, int u, int c, const E& element) { before.element[t][u][c] = element; });
  }

  /// Results are computed whether they are stored or not: branches would put them one behind the other.
  template <int tiles>
  TESSERA_DEVICE void store(const Update& update, const Before<tiles>& before, int first_tile) {
    for_each_result<tiles>(first_tile, [&](int t, int u, int c, E& value) {
      if (update.takes_alpha) value = scaled(update.alpha, update.alpha_is_real, value);
      if (update.reads_c) {
        const E was = before.element[t][u][c];
        const E kept =
            scaled(update.beta, update.beta_is_real, is_real(update, first_tile + t, u, c) ? real_part(was) : was);
        TESSERA_UNROLL
        for (int p = 0; p < parts; ++p) value.part[p] += kept.part[p];
      }
      if (is_real(update, first_tile + t, u, c)) value = real_part(value);
    });
    for_each_updated<tiles>(update, first_tile,
                            [&](int t, int u, int c, E& element) { element = sum(first_tile + t, u, c); });
  }

  template <int tiles, class F>
  TESSERA_DEVICE void for_each_result(int first_tile, F f) {
    TESSERA_UNROLL
    for (int t = 0; t < tiles; ++t) {
      TESSERA_UNROLL
      for (int u = 0; u < column_tiles; ++u) {
        TESSERA_UNROLL
        for (int c = 0; c < 2; ++c) {
          E value = sum(first_tile + t, u, c);
          f(t, u, c, value);
          set_sum(first_tile + t, u, c, value);
        }
      }
    }
  }

  TESSERA_DEVICE bool is_real(const Update& update, int t, int u, int c) const {
    if constexpr (parts == 1) return false;
    return update.is_real &&
           first_row_ + row_of_warp_ + 8 * t + group_ == first_column_ + column_of_warp_ + 8 * u + 2 * member_ + c;
  }

  /// Loads that follow each other without a store between are on their way together.
  TESSERA_DEVICE void store() {
    constexpr int tiles = words_of_sums <= 64 ? row_tiles : row_tiles / 2;
    const Update update = this->update();
    TESSERA_UNROLL
    for (int t = 0; t < row_tiles; t += tiles) {
      Before<tiles> before;
      load(update, before, t);
      store(update, before, t);
    }
  }

  TESSERA_DEVICE static E scaled(const E& factor, bool is_real, const E& value) {
    if constexpr (parts == 2) {
      if (is_real) return product(value, factor.part[E::re]);
    }
    return product(factor, value);
  }

  const BlockProduct<E>& product_;
  GemmMemory<Shape>& memory_;
  Machine machine_;
  const index_t first_row_, first_column_;
  const int group_;   ///< row of a thread in a tile of eight
  const int member_;  ///< its place among the four threads of that row
  const int row_of_warp_, column_of_warp_;
  int rows_ = 0, columns_ = 0;  ///< of the block, as far as the matrix has them
  index_t stages_ = 0, stages_of_term_ = 0;
  R sums_[parts][row_tiles][column_tiles][2];
};

}  // namespace tessera::kernels::block
