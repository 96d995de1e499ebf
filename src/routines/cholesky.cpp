// Cholesky: A = L L^H, left-looking. One task per tile of the triangle; tile (i, j) of L is
//   L_jj = the factor of A_jj - sum_l L_jl L_jl^H,    L_ij = (A_ij - sum_l L_il L_jl^H) L_jj^-H,    l < j
// so that a tile is fetched once and goes down once, final, and all sums but their last terms go on while the diagonal
// is factored. The upper triangle is the mirror image: U = L^H, and tile (i, j) of L stands for the tile (j, i) of U.
//
// Tasks go by strips of rows. In square blocks on the diagonal the most products are made of the fewest tiles, so that
// devices have work while the first tiles come; whole columns would come first and be solved with one tile only. What
// all wait for is the diagonal: (j, j), (j + 1, j), (j + 1, j + 1), ... The next tile on it begins before the rest of
// its column.
//
// Where memory is short, groups of tiles advance together, as in grouping.hpp: strips of columns, cut into blocks of
// rows of which the first has the diagonal and depends on no other one of its strip. Source: Golub and Van Loan, Matrix
// Computations, section 4.2.9; Kurzak, Buttari, Dongarra, Solving Systems of Linear Equations on the CELL Processor
// Using Cholesky Factorization, 2008, for the left-looking order by tiles.
#include <algorithm>
#include <limits>
#include <memory>

#include "core/error.hpp"
#include "routines/call_graph.hpp"
#include "routines/lapack.hpp"

namespace tessera::routines {
namespace {

using runtime::no_task;
using runtime::Output;
using runtime::Step;
using runtime::TaskId;

constexpr index_t tiles_per_lane = 3;  // an output and one step's inputs
// Rows of tiles whose tasks begin together: many enough not to wait for each other, and few, so that the first ones
// have their tiles soon.
constexpr index_t strip_rows = 6;

// Of the first strip of columns: what goes on while the diagonal of a block is factored, and what devices share.
constexpr index_t blocks_per_device = 4;

/// What Level 3 has that is most like it.
Level3 like(const CholeskyCall& call) {
  return {.routine = is_complex(call.type) ? Routine::herk : Routine::syrk,
          .type = call.type,
          .uplo = call.uplo,
          .m = call.n,
          .n = call.n,
          .k = call.n};
}

runtime::Tiling choose_tiling(const CholeskyCall& call, const runtime::Machine& machine, index_t forced) {
  // From so many rows of tiles on, what all wait for while the diagonal is factored is short beside the rest. Smaller
  // tiles than half of the largest cost more on the link than they save.
  constexpr index_t wanted_rows = 20, granule = 128;
  const index_t chosen = std::clamp(ceil_div(call.n, wanted_rows * granule) * granule,
                                    ceil_div(machine.tiles.largest, 2), machine.tiles.largest);
  index_t tile = std::min(call.n, forced > 0 ? forced : chosen);
  const auto fits = [&] {
    return machine.slots(slot_bytes(call.type, {tile, tile, tile})) >= tiles_per_lane * device::compute_streams;
  };
  while (!fits()) {
    if (tile == 1) {
      throw OutOfDeviceMemory("a device memory of " + std::to_string(machine.heap_bytes) +
                              " bytes cannot hold one tile per stream");
    }
    tile = ceil_div(tile, 2);
  }
  return {tile, tile, tile};
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

struct Blocks {
  index_t rows = 1, cols = 1;
};

/// Of those that fit, the ones that read least. The first block of a strip has its diagonal, so that none is flatter.
Blocks choose_blocks(index_t length, index_t slots, index_t devices) {
  const index_t most_rows = ceil_div(length, blocks_per_device * devices);
  Blocks best;
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

class Cholesky final : public CallGraph {
 public:
  Cholesky(const CholeskyCall& call, const runtime::Machine& machine, index_t tile)
      : CallGraph(like(call), choose_tiling(call, machine, tile)),
        A_(call.A, call.n, call.n, call.lda, Op::no_trans, call.type),
        adjoint_(is_complex(call.type) ? Op::conj_trans : Op::trans) {
    order_.reserve(static_cast<std::size_t>(triangle_elements(length())));
    tasks_.resize(order_.capacity(), no_task);
    const index_t slots = machine.slots(slot_bytes());
    if (fits(slots))
      append_ahead();
    else
      append_groups(choose_blocks(length(), slots, machine.devices));
  }

  std::string routine() const override { return letter(type()) + std::string(name_of(LapackRoutine::potrf)); }
  double flops() const override {
    const auto n = static_cast<double>(call_.n);
    return (is_complex(type()) ? 4 : 1) * real_flops_of(LapackRoutine::potrf, n, n, 0);
  }
  bool is_hermitian() const override { return is_complex(type()); }
  index_t working_slots() const override {
    return 2 * triangle_elements(length()) + index_t{2} * device::compute_streams;
  }

  Output output(TaskId task) const override {
    const TileIndex t = index_of(task);
    const auto beside_diagonal = lower() ? device::SliceKind::rows : device::SliceKind::columns;
    return {.tile = tile(t.i, t.j),
            .fetch = true,
            .adding_steps = t.j,
            .needs_old = true,
            .slices = t.i == t.j ? device::SliceKind::none : beside_diagonal,
            .publish = true};
  }

  index_t step_count(TaskId task) const override { return index_of(task).j + 1; }

  Step step(TaskId task, index_t s) const override {
    const TileIndex t = index_of(task);
    if (s < t.j) return product_step(t, s);
    return t.i == t.j ? factor_step(t.j) : solve_step(t);
  }

  // The last step comes with the product before it: it waits for the diagonal, and others for its result.
  index_t wave(TaskId task, index_t nth) const override {
    return std::min<index_t>(nth, std::max(index_of(task).j - 1, 0));
  }

  bool ordered() const override { return true; }
  bool factors() const override { return true; }
  bool depends_on(TaskId task, TaskId factoring) const override {
    return task != factoring && index_of(task).j >= index_of(factoring).j;
  }

  // By rows, from which a task reads one, and all read the one of their column. Lower rows are longer: forth and back.
  index_t home(TaskId task, index_t devices) const override {
    const index_t turn = index_of(task).i % (2 * devices);
    return std::min(turn, 2 * devices - 1 - turn);
  }

  index_t compulsory_up_bytes() const override { return A_.triangle_bytes(); }
  index_t compulsory_down_bytes() const override { return A_.triangle_bytes(); }
  std::vector<device::HostRange> host_ranges() const override { return ranges_of({&A_}); }

 private:
  bool lower() const { return call_.uplo == Uplo::lower; }
  index_t length() const { return mt(); }
  TaskId& task_of(index_t i, index_t j) { return tasks_[static_cast<std::size_t>(triangle_elements(i) + j)]; }
  TaskId task_of(index_t i, index_t j) const { return tasks_[static_cast<std::size_t>(triangle_elements(i) + j)]; }

  void append(index_t i, index_t j) {
    if (task_of(i, j) != no_task) return;
    task_of(i, j) = static_cast<TaskId>(order_.size());
    order_.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)});
  }

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

  void append_groups(const Blocks& blocks) {
    for (index_t col = 0; col < length(); col += blocks.cols) {
      for (index_t row = col; row < length(); row += blocks.rows) {
        for (index_t j = col; j < std::min(col + blocks.cols, length()); ++j) {
          for (index_t i = std::max(row, j); i < std::min(row + blocks.rows, length()); ++i) append(i, j);
        }
        group_ends_.push_back(static_cast<TaskId>(order_.size()));
      }
    }
  }

  /// Of L, as it is stored.
  runtime::HostTile tile(index_t i, index_t j) const {
    const Span down = rows(i), across = rows(j);
    if (i == j) return A_.diagonal_tile(down.first, down.size, call_.uplo);
    return lower() ? A_.tile(down.first, across.first, down.size, across.size).tile
                   : A_.tile(across.first, down.first, across.size, down.size).tile;
  }
  runtime::Operand result(index_t i, index_t j) const { return {.tile = tile(i, j), .after = task_of(i, j)}; }

  /// A call whose C is the tile (i, j).
  Level3 call_on(Routine routine, const TileIndex& t, index_t k) const {
    const index_t down = rows(t.i).size, across = rows(t.j).size;
    Level3 call = lower() ? tile_call(routine, down, across, k) : tile_call(routine, across, down, k);
    call.uplo = call_.uplo;
    return call;
  }

  /// Subtracts L_il L_jl^H, which is U_lj^H U_li.
  Step product_step(const TileIndex& t, index_t l) const {
    const bool on_diagonal = t.i == t.j;
    Step step{.call = call_on(on_diagonal ? call_.routine : Routine::gemm, t, rows(l).size),
              .a = result(lower() ? t.i : t.j, l),
              .b = {}};
    if (!on_diagonal) step.b = result(lower() ? t.j : t.i, l);
    if (!lower())
      step.call.op_a = adjoint_;
    else if (!on_diagonal)
      step.call.op_b = adjoint_;
    step.call.alpha = -1;
    step.call.beta = 1;
    return step;
  }

  Step factor_step(index_t j) const {
    const TileIndex t{static_cast<std::int32_t>(j), static_cast<std::int32_t>(j)};
    return {.call = call_on(call_.routine, t, 0),
            .a = {},
            .b = {},
            .kind = runtime::StepKind::cholesky,
            .rows_before = rows(j).first};
  }

  Step solve_step(const TileIndex& t) const {
    Step step{.call = call_on(Routine::trsm, t, 0), .a = result(t.j, t.j), .b = {}};
    step.call.side = lower() ? Side::right : Side::left;
    step.call.op_a = adjoint_;
    return step;
  }

  MatrixView A_;
  Op adjoint_;
  std::vector<TaskId> tasks_;  // by tile, row by row
};

}  // namespace

std::unique_ptr<runtime::TaskGraph> make_cholesky(const CholeskyCall& call, const runtime::Machine& machine,
                                                  index_t tile) {
  return std::make_unique<Cholesky>(call, machine, tile);
}

Plan choose_plan(const CholeskyCall& call, std::span<const runtime::Machine> machines, index_t tile) {
  return choose_plan(like(call), machines, tile,
                     [&](const runtime::Machine& machine) { return make_cholesky(call, machine, tile); });
}

runtime::JobStatistics cholesky(runtime::Runtime& runtime, const CholeskyCall& call, index_t tile,
                                const runtime::CpuHelp& cpu) {
  if (call.n < 1) throw InternalError("potrf: nothing to factor");
  return run_planned(
      runtime, call.type, [&](auto machines) { return choose_plan(call, machines, tile); }, cpu);
}

}  // namespace tessera::routines
