// A step of a task: one kernel on tiles, and what it reads. All that a kernel is stands here, so that the scheduler
// knows no kinds of steps: workers place the tiles of a step, and hand the placed kernel to whatever runs it.
#pragma once

#include <cstddef>
#include <variant>

#include "cache/tile_cache.hpp"
#include "calls/level3.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::runtime {

using cache::HostTile;

using TaskId = index_t;

inline constexpr TaskId no_task = -1;

/// A tile that a step reads.
struct Read {
  HostTile tile;            ///< address == nullptr: nothing is read
  TaskId writer = no_task;  ///< the task whose output it is; no_task: no task writes it
  index_t first_row = 0;    ///< of the stored tile; the step reads as many rows as its sizes say. LQ: the first column

  bool exists() const { return tile.address != nullptr; }
  /// The values are those of tasks that run one after the other, by number: `reader` gets what a task of a lower number
  /// has written, and else what host memory held before the job.
  /// @return the task whose result is read; no_task: the old value in host memory
  TaskId result_of(TaskId reader) const { return writer < reader ? writer : no_task; }
};

/// Columns of a panel are factored.
struct PanelFactorization {
  kernels::Panel panel;
  index_t first = 0, columns = 0;
};

using Kernel =
    std::variant<Level3, kernels::Addition, kernels::TileFactorization, PanelFactorization, kernels::PanelUpdate>;

/// For std::visit(): one function for each kind of kernel.
template <class... F>
struct ByKind : F... {
  using F::operator()...;
};
template <class... F>
ByKind(F...) -> ByKind<F...>;

/// A tile in memory, of a device or of the host.
struct PlacedTile {
  std::byte* address = nullptr;
  index_t ld = 0;
  std::byte* tail = nullptr;
};

/// One kernel that changes the task's output tile C.
struct Step {
  Kernel kernel = {};  ///< sizes, ops and factors; addresses and leading dimensions are those of placed tiles
  Read a = {};
  Read b = {};
  index_t first_row = 0;    ///< of the output, on which the kernel works. LQ: the first column
  index_t rows_before = 0;  ///< the output, in the matrix whose minors count: what a breakdown is told from
  bool apart = false;       ///< the kernel cannot add to C: its result is added afterwards

  /// The kernel on these tiles. @param info where a step that may break down tells how it ended, or nullptr
  Kernel placed(const PlacedTile& C, const PlacedTile& A, const PlacedTile& B, int* info = nullptr) const;

  double flops() const;
  const char* name() const;
  /// Whether C, times the kernel's beta, only has something added to it.
  bool only_adds() const;
  /// Whether C, or columns of it, become factors: many small kernels for which all other tasks wait in the end.
  bool factors() const { return may_break_down() || std::holds_alternative<PanelFactorization>(kernel); }
  /// Whether it tells by its info that a minor is not positive definite.
  bool may_break_down() const { return std::holds_alternative<kernels::TileFactorization>(kernel); }
  /// Whether it is a chain of kernels, of which some leave most of a GPU idle.
  bool leaves_gaps() const { return std::holds_alternative<kernels::PanelUpdate>(kernel); }
  /// Whether it factors or applies a panel.
  bool has_panel() const { return leaves_gaps() || std::holds_alternative<PanelFactorization>(kernel); }

  /// @pre the kernel is one of Level 3
  const Level3& call() const { return std::get<Level3>(kernel); }
  Level3& call() { return std::get<Level3>(kernel); }
};

/// X is added to C, times the factor. @param hermitian the matrix of which C is a tile
Step addition_step(ScalarType type, bool hermitian, const HostTile& C, const Read& X, AnyScalar factor);

}  // namespace tessera::runtime
