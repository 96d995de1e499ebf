// Cholesky: A = L L^H, left-looking, by tiles:
//
//   for tiles (i, j) of the triangle                task: L_ij, in place of A_ij
//     for l < j                                       reads the results L_il, L_jl
//       A_ij = A_ij - L_il L_jl^H
//     i == j: L_jj = the factor of A_jj
//     i > j:  L_ij = A_ij L_jj^-H                     reads the result L_jj
//
// So a tile is fetched once and goes down once, final, and all sums but their last terms go on while the diagonal is
// factored. The upper triangle is the mirror image: U = L^H, and tile (i, j) of L stands for the tile (j, i) of U.
//
// Tasks go by strips of rows. In square blocks on the diagonal the most products are made of the fewest tiles, so that
// devices have work while the first tiles come. In whole columns, the first tiles would be solved with one tile only.
// All tasks wait for the diagonal: (j, j), (j + 1, j), (j + 1, j + 1), ... So the next tile on it begins before the
// rest of its column.
//
// Where memory is short, groups of tiles advance together, as in grouping.hpp: strips of columns, cut into blocks of
// rows of which the first has the diagonal and depends on no other one of its strip. Source: Golub and Van Loan, Matrix
// Computations, section 4.2.9; Kurzak, Buttari, Dongarra, Solving Systems of Linear Equations on the CELL Processor
// Using Cholesky Factorization, 2008, for the left-looking order by tiles.
#include <algorithm>
#include <limits>
#include <memory>

#include "core/error.hpp"
#include "routines/lapack.hpp"
#include "routines/tiled_graph.hpp"

namespace tessera::routines {
namespace {

using runtime::Output;
using runtime::Step;
using runtime::TaskId;

// Rows of tiles whose tasks begin together: many enough not to wait for each other, and few, so that the first ones
// have their tiles soon.
constexpr index_t strip_rows = 6;

// Blocks of the first strip of columns: devices share them, and some go on while the diagonal of one is factored.
constexpr index_t blocks_per_device = 4;

/// Slots for all tiles of a triangle of so many rows of tiles, and for their old values.
index_t slots_for_all(index_t length) { return 2 * triangle_elements(length) + index_t{2} * device::compute_streams; }

Outline outline_of(const CholeskyCall& call, const runtime::Machine& machine, index_t forced) {
  // With so many rows of tiles, the time in which all wait for the diagonal is short beside the rest. Smaller tiles
  // than half of the largest cost more on the link than they save.
  constexpr index_t wanted_rows = 20, granule = 128;
  const index_t chosen = std::clamp(ceil_div(call.n, wanted_rows * granule) * granule,
                                    ceil_div(machine.tiles.largest, 2), machine.tiles.largest);
  const index_t tile = halved_to_fit(std::min(call.n, forced > 0 ? forced : chosen), machine, [&](index_t size) {
    return slot_bytes(call.type, {size, size, size});
  });
  const runtime::Tiling tiling{tile, tile, tile};
  const double bytes = static_cast<double>(triangle_elements(call.n)) * static_cast<double>(element_bytes(call.type));
  const double flops = kernels::flops_of(kernels::TileFactorization{.type = call.type, .n = call.n});
  const bool fits = slots_for_all(ceil_div(call.n, tile)) <= machine.slots(slot_bytes(call.type, tiling));
  return {call.type, call.n, tiling, {flops, bytes, bytes}, fits};
}

/// Tiles that groups of r x c read, but for old values: each group the rows of L beside it, and, where it does not have
/// the diagonal, those of its columns.
index_t tiles_read(index_t length, index_t r, index_t c) {
  index_t sum = 0;
  for (index_t col = 0; col < length; col += c) {
    const index_t width = std::min(c, length - col);
    sum += col * (length - col);
    const index_t others = ceil_div(length - col, r) - 1;
    sum += others * (col * width + triangle_elements(width));
  }
  return sum;
}

/// Of those that fit, the ones that read least. The first block of a strip has its diagonal, so that none is flatter.
Grouping choose_blocks(index_t length, index_t slots, index_t devices) {
  const index_t most_rows = ceil_div(length, blocks_per_device * devices);
  Grouping best;
  index_t least = std::numeric_limits<index_t>::max();
  for (index_t c = 1; c <= most_rows; ++c) {
    for (index_t r = c; r <= most_rows; ++r) {
      if (kept_tiles({r, c}, slots) < 0) break;
      const index_t read = tiles_read(length, r, c);
      if (read >= least) continue;
      least = read;
      best = {r, c};
    }
  }
  return best;
}

class Cholesky final : public TiledGraph {
 public:
  Cholesky(const CholeskyCall& call, const Outline& outline, const runtime::Machine& machine)
      : TiledGraph(name_of(Routine::potrf, call.type), outline, call.n, call.n),
        uplo_(call.uplo),
        A_(call.A, n, n, call.lda, Op::no_trans, type) {
    hermitian = is_complex(type);
    task_count = triangle_elements(length());
    working_slots = slots_for_all(length());
    touched.push_back({A_.host(), Use::written_in_part});
    if (outline.holds_inputs)
      append_ahead();
    else
      append_groups(choose_blocks(length(), machine.slots(slot_bytes), machine.devices));
    derive();
  }

  Output output(TaskId task) const override {
    const TileIndex t = index_of(task);
    const auto beside_diagonal = lower() ? device::SliceKind::rows : device::SliceKind::columns;
    return {.tile = tile(t.i, t.j).tile,
            .reads_old = true,
            .slices = t.i == t.j ? device::SliceKind::none : beside_diagonal};
  }

  index_t step_count(TaskId task) const override { return index_of(task).j + 1; }

  Step step(TaskId task, index_t s) const override {
    const TileIndex t = index_of(task);
    if (s < t.j) return update_step(t, s);
    return t.i == t.j ? factor_step(t.j) : solve_step(t);
  }

  // The last step comes with the product before it: it waits for the diagonal, and others for its result.
  index_t wave(TaskId task, index_t nth) const override {
    return std::min<index_t>(nth, std::max(index_of(task).j - 1, 0));
  }

  // By rows, from which a task reads one, and all read the one of their column. Lower rows are longer: forth and back.
  index_t home(TaskId task, index_t devices) const override {
    const index_t turn = index_of(task).i % (2 * devices);
    return std::min(turn, 2 * devices - 1 - turn);
  }

 private:
  bool lower() const { return uplo_ == Uplo::lower; }
  index_t length() const { return mt(); }

  // Strip by strip, column by column, and each tile on the diagonal as soon as the one beside it is there.
  void append_ahead() {
    for (index_t row = 0; row < length(); row += strip_rows) {
      const index_t end = std::min(row + strip_rows, length());
      for (index_t j = 0; j < end; ++j) {
        for (index_t i = std::max(row, j); i < end; ++i) {
          append(i, j);
          if (i == j + 1) append(i, i);
        }
      }
    }
  }

  void append_groups(const Grouping& blocks) {
    for (index_t col = 0; col < length(); col += blocks.cols) {
      for (index_t row = col; row < length(); row += blocks.rows) {
        for (index_t j = col; j < std::min(col + blocks.cols, length()); ++j) {
          for (index_t i = std::max(row, j); i < std::min(row + blocks.rows, length()); ++i) append(i, j);
        }
        end_group();
      }
    }
  }

  /// Tile (i, j) of L, as it is stored.
  Block tile(index_t i, index_t j) const {
    if (i == j) return {{.tile = A_.diagonal_tile(rows(i), uplo_), .writer = task_of(i, i)}};
    Block tile = lower() ? A_.tile(rows(i), rows(j)) : A_.tile(rows(j), rows(i));
    tile.writer = task_of(i, j);
    return tile;
  }

  /// Subtracts L_il L_jl^H, which is U_lj^H U_li.
  Step update_step(const TileIndex& t, index_t l) const {
    const Block L_i = tile(t.i, l);
    if (t.i != t.j) {
      const Block L_j = transposed(tile(t.j, l), hermitian);
      return lower() ? product_step(-1, L_i, L_j) : product_step(-1, L_j, L_i);
    }
    Level3 call = tile_call(hermitian ? Routine::herk : Routine::syrk, rows(t.i).size, rows(t.i).size, rows(l).size);
    call.uplo = uplo_;
    if (!lower()) call.op_a = transposed(Op::no_trans, hermitian);
    call.alpha = -1;
    call.beta = 1;
    return {.kernel = call, .a = L_i};
  }

  Step factor_step(index_t j) const {
    const Span at = rows(j);
    return {.kernel = kernels::TileFactorization{.type = type, .uplo = uplo_, .n = at.size}, .rows_before = at.first};
  }

  Step solve_step(const TileIndex& t) const {
    const Block L_ij = tile(t.i, t.j);
    Level3 call = tile_call(Routine::trsm, L_ij.rows, L_ij.cols, 0);
    call.side = lower() ? Side::right : Side::left;
    call.uplo = uplo_;
    call.op_a = transposed(Op::no_trans, hermitian);
    return {.kernel = call, .a = tile(t.j, t.j)};
  }

  const Uplo uplo_;
  const MatrixView A_;
};

}  // namespace

Plan choose_plan(const CholeskyCall& call, std::span<const runtime::Machine> machines, index_t tile) {
  const auto outline = [&](const runtime::Machine& machine) { return outline_of(call, machine, tile); };
  const auto make = [&](const runtime::Machine& machine) {
    return std::make_unique<Cholesky>(call, outline(machine), machine);
  };
  return choose_plan(machines, {outline, make});
}

runtime::JobStatistics cholesky(runtime::Runtime& runtime, const CholeskyCall& call, index_t tile,
                                const runtime::CpuHelp& cpu) {
  if (call.n < 1) throw InternalError("potrf: nothing to factor");
  return run_planned(
      runtime, call.type, [&](auto machines) { return choose_plan(call, machines, tile); }, cpu);
}

}  // namespace tessera::routines
