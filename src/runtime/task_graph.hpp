// What the scheduler asks of a routine. A graph describes one BLAS call as tasks, one per output tile and, where sums are
// made of intermediate results, one for each of these; steps are generated on demand, so that a graph takes little memory
// whatever the problem size. Graphs are immutable while they run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"
#include "core/level3.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::runtime {

using cache::HostTile;

using TaskId = index_t;

inline constexpr TaskId no_task = -1;

/// A tile that a step reads.
struct Operand {
  HostTile tile;           ///< address == nullptr: the step has no such operand
  TaskId after = no_task;  ///< the task whose output it is: readable once that task has published it
  index_t first_row = 0;   ///< of the stored tile; the step reads as many rows as its sizes say
};

enum class StepKind : std::uint8_t {
  level3,    ///< a call of Level 3
  cholesky,  ///< the output, of call.m rows, and of which call.uplo is stored, becomes its factor; no operands
  panel,     ///< columns of the output's panel are factored; no operands
  update,    ///< operand a, a block column that has been factored, is applied to the output
  addition   ///< operand a, of the output's shape, is added to it
};

/// A tile in memory, of a device or of the host.
struct PlacedTile {
  std::byte* address = nullptr;
  index_t ld = 0;
  std::byte* tail = nullptr;
};

/// Of steps with panels: LU or QR, and where the panel lies in its block column, and the rows that it is applied to in
/// theirs, the whole height of the matrix.
struct PanelStep {
  kernels::PanelKind kind = kernels::PanelKind::lu;
  index_t first_row = 0;
  index_t columns = 0;                       ///< of the panel
  index_t part_first = 0, part_columns = 0;  ///< those of them that a step factors
};

/// One kernel, or a few, that adds to, or finishes, the task's output tile C.
struct Step {
  Level3 call;  ///< sizes, ops and factors; addresses and leading dimensions are those of the operands' replicas
  Operand a;
  Operand b;
  bool apart = false;  ///< what the call gives is added to C, which the call cannot do itself
  StepKind kind = StepKind::level3;
  index_t rows_before = 0;  ///< cholesky: the output, of the matrix whose minors are counted
  PanelStep panel = {};

  bool factors() const { return kind == StepKind::cholesky || kind == StepKind::panel; }

  /// @param info see TileFactorization
  kernels::TileFactorization factorization(const PlacedTile& C, int* info) const {
    return {.type = call.type, .uplo = call.uplo, .n = call.m, .A = C.address, .lda = C.ld, .info = info};
  }
  /// @param column that the panel lies in, call.m rows of it
  kernels::Panel panel_in(const PlacedTile& column) const {
    return {.kind = panel.kind,
            .type = call.type,
            .m = call.m,
            .n = panel.columns,
            .A = column.address + panel.first_row * static_cast<index_t>(element_bytes(call.type)),
            .lda = column.ld,
            .tail = column.tail};
  }
  /// To call.n columns.
  kernels::PanelUpdate update_of(const PlacedTile& C, const PlacedTile& column) const {
    return {.panel = panel_in(column),
            .n = call.n,
            .C = C.address + panel.first_row * static_cast<index_t>(element_bytes(call.type)),
            .ldc = C.ld};
  }
  double flops() const;
  const char* kernel() const;
};
inline double Step::flops() const {
  switch (kind) {
    case StepKind::cholesky:
      return kernels::flops_of(factorization({}, nullptr));
    case StepKind::panel:
      return kernels::flops_of(panel_in({}), panel.part_columns);
    case StepKind::update:
      return kernels::flops_of(update_of({}, {}));
    case StepKind::addition:
      return 0;
    case StepKind::level3:
      break;
  }
  return flops_of(call);
}
inline const char* Step::kernel() const {
  switch (kind) {
    case StepKind::cholesky:
      return name_of(LapackRoutine::potrf);
    case StepKind::panel:
      return name_of(panel.kind);
    case StepKind::update:
      return panel.kind == kernels::PanelKind::lu ? "apply LU" : "apply QR";
    case StepKind::addition:
      return "add";
    case StepKind::level3:
      break;
  }
  return name_of(call.routine);
}

/// A factorization that has come to an end before its time: a minor of the matrix is not positive definite.
struct Breakdown {
  TaskId task = no_task;  ///< that has found it
  index_t info = 0;       ///< the order of the first such minor

  bool has_happened() const { return task != no_task; }
};

/// The tile that a task computes.
struct Output {
  HostTile tile;
  bool fetch = false;  ///< its old value is read by the first step
  /// The steps before this one only add to it: its old value, times the first step's beta, may as well be added after
  /// them.
  index_t adding_steps = 0;
  bool needs_old = false;  ///< the task cannot be redone once the host tile has been overwritten
  /// Of which each new value depends on no old values of this tile but those of its own slice.
  device::SliceKind slices = device::SliceKind::none;
  bool publish = false;  ///< other tasks read the result
  /// Only they do, write_after() last. Such a task is done when that one is, or when its result is in host memory, which
  /// it need not reach. @pre publish
  bool intermediate = false;
};

/// Sizes of the tiles of the three dimensions. Where a dimension has a skew, its tiles come in pairs, of which the
/// first is so much shorter and the second so much longer; or, where the skew is negative, the other way round.
struct Tiling {
  index_t m = 0, n = 0, k = 0;
  index_t skew_m = 0, skew_n = 0, skew_k = 0;
  bool operator==(const Tiling&) const = default;
};

class TaskGraph {
 public:
  virtual ~TaskGraph() = default;

  virtual std::string routine() const = 0;
  virtual ScalarType type() const = 0;
  virtual Tiling tiling() const = 0;
  virtual index_t m() const = 0;
  virtual index_t n() const = 0;
  virtual index_t k() const = 0;

  /// Tasks are numbered in the order in which they should start.
  virtual index_t task_count() const = 0;
  virtual Output output(TaskId task) const = 0;
  /// At least 1.
  virtual index_t step_count(TaskId task) const = 0;
  /// In an order in which they can be computed in place: the output is the host tile.
  virtual Step step(TaskId task, index_t l) const = 0;

  /// The step that devices take as their nth. There an output lies apart from the tile that it replaces, so that the
  /// order, and what sets or adds, may be another one, to the same end. In grouped graphs it is step().
  virtual Step nth_step(TaskId task, index_t n) const { return step(task, n); }
  /// Whether some of these are `apart`.
  virtual bool has_steps_apart() const { return false; }

  /// Steps of one wave, of whatever tasks, read the same tiles, as far as these tasks share any: tasks that advance
  /// side by side or as a group do so wave by wave. Ascends with the steps of a task, in the order in which devices
  /// take them. The last one of several may be of the wave in which it should be asked for, whatever others read then;
  /// that may be the wave of the step before.
  virtual index_t wave(TaskId, index_t nth) const { return nth; }

  /// Whether a single device that has begun, and has nothing to compute, should take more tasks than usual, which use
  /// the same tiles.
  virtual bool begins_more_when_starved() const { return true; }

  /// Whether tasks depend on each other. Then each depends only on tasks of lower numbers, and they must start in that
  /// order.
  virtual bool ordered() const { return false; }
  /// The task that must be done before this one's result may overwrite host memory, because it (or one before it) reads
  /// what is there; no_task: none. Of an intermediate result: its last reader, a task of a higher number.
  virtual TaskId write_after(TaskId) const { return no_task; }

  /// Whether some steps factor panels or apply them.
  virtual bool has_panels() const { return false; }
  /// Whether some steps factor their output.
  virtual bool factors() const { return false; }
  /// Whether the task, another one, can be done only after `factoring`, be it by tasks in between. @pre factors(), and
  /// `factoring` has such a step
  virtual bool depends_on(TaskId /*task*/, TaskId /*factoring*/) const { return false; }

  /// Which of `devices` takes the task unless it has too much to do: homes have about the same number of tasks, and
  /// tasks that share operands the same home as far as this goes with it. Of no use to grouped graphs.
  virtual index_t home(TaskId task, index_t devices) const = 0;

  /// Whether memory is too short for tasks to go their own ways. Then the tasks of a group advance together, wave by
  /// wave, so that a tile serves the whole group while it is on the device; a device takes one group after the other.
  virtual bool grouped() const { return false; }
  /// One past the last task of the group that begins with, or has, `task`. @pre grouped()
  virtual TaskId group_end(TaskId task) const { return task + 1; }

  double task_flops(TaskId task) const {
    double sum = 0;
    for (index_t l = 0; l < step_count(task); ++l) sum += step(task, l).flops();
    return sum;
  }

  /// Whether C is Hermitian: then its diagonal is real.
  virtual bool is_hermitian() const { return false; }
  /// C += factor * X, of one of C's tiles.
  kernels::Addition addition_to(const HostTile& C, AnyScalar factor, const std::byte* X, index_t ldx) const {
    return {.type = type(),
            .part = C.part,
            .hermitian = is_hermitian() && C.part != Part::full,
            .m = C.rows,
            .n = C.cols,
            .factor = factor,
            .X = X,
            .ldx = ldx,
            .C = C.address,
            .ldc = C.ld};
  }
  /// Slots of a device that hold all tiles of the job at once, beside what streams need.
  virtual index_t working_slots() const = 0;
  bool fits(index_t slots) const { return working_slots() <= slots; }

  /// Bytes of the largest tile: every device slot of the job has this size, so that the heap cannot fragment.
  virtual std::size_t slot_bytes() const = 0;
  virtual double flops() const = 0;
  virtual index_t compulsory_up_bytes() const = 0;
  virtual index_t compulsory_down_bytes() const = 0;
  /// Host memory that the job touches (for page-locking), at most one range per operand.
  virtual std::vector<device::HostRange> host_ranges() const = 0;
};

}  // namespace tessera::runtime
