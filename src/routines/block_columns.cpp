// LU and QR by block columns, and LQ by block rows, left-looking:
//
//   for block columns j of A                            task: A_j
//     for panels l < j                                    reads the result A_l
//       A_j = A_j with panel l applied to the rows from its first one on
//     A_j has rows on and below the diagonal: factor them
//
// So a block column is fetched once, goes from device to device as a panel, and goes down once. Where many columns are
// on devices at once, each panel finds work in all of them, and the factorization of the next one, for which all others
// wait, comes first: that is right-looking with look-ahead. Where memory is short, groups of neighbouring block columns
// advance together, panel by panel.
//
// LU: the row interchanges of a panel apply to the columns to the right of it, too. The rows of L in columns to the
// left, which are at home by then, are the host's part (left_rows.hpp). If a device is lost, the columns at home are as
// tasks have made them, and the others are as they were. No column at home depends on a panel that is computed once
// more, whose pivots may then be others (GraphProperties::repeatable).
//
// LQ: the graph is that of QR of A^H, whose block columns are block rows of A.
//
// Source: Golub and Van Loan, Matrix Computations, sections 3.2.9 and 5.2.3; D'Azevedo and Dongarra, The design and
// implementation of the parallel out-of-core ScaLAPACK LU, QR and Cholesky factorization routines, 2000, for columns
// that do not fit.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "routines/lapack.hpp"
#include "routines/left_rows.hpp"
#include "routines/tiled_graph.hpp"

namespace tessera::routines {
namespace {

using kernels::PanelKind;
using runtime::Output;
using runtime::Step;
using runtime::TaskId;

/// A call of any kind: it factors the m x n matrix A, or A^H for LQ, by block columns.
struct Columns {
  PanelKind kind = PanelKind::lu;
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;  ///< of A^H for LQ
  void* A = nullptr;
  index_t lda = 0;

  index_t least() const { return std::min(m, n); }
};

std::size_t bytes_of_column(const Columns& call, index_t columns) {
  const index_t elements = call.m * columns * static_cast<index_t>(element_bytes(call.type));
  return static_cast<std::size_t>(cache::tail_offset(elements) + kernels::tail_bytes(call.kind, call.type, columns));
}

/// Panels end at the smaller of m and n. Columns to the right of them are cut from there on.
index_t columns_of_width(const Columns& call, index_t width) {
  return ceil_div(call.least(), width) + ceil_div(call.n - call.least(), width);
}
/// Slots for all block columns at once, and for what streams hold.
index_t slots_for_all(const Columns& call, index_t width) {
  return columns_of_width(call, width) + index_t{2} * device::compute_streams;
}

Outline outline_of(const Columns& call, const runtime::Machine& machine, index_t forced) {
  // Wide panels make products of a good rate, narrow ones are soon factored. Of QR
  // one device alone takes wide ones, since no other device waits for its panels.
  const bool is_wide = call.kind != PanelKind::lu && machine.devices == 1;
  const index_t granule = 128, least = 256, wanted = is_wide ? 6 : 16;
  const index_t widest = call.kind == PanelKind::lu || is_wide ? 768 : 512;
  const index_t chosen = std::clamp(ceil_div(call.least(), wanted * granule) * granule, least, widest);
  const index_t width =
      halved_to_fit(std::min({call.least(), forced > 0 ? forced : chosen, kernels::most_panel_columns}), machine,
                    [&](index_t columns) { return bytes_of_column(call, columns); });
  const double flops = (is_complex(call.type) ? 4 : 1) * (call.kind == PanelKind::lu ? 1 : 2) *
                       real_flops_of(Routine::getrf, static_cast<double>(call.m), static_cast<double>(call.n), 0);
  const double bytes = static_cast<double>(call.m * call.n) * static_cast<double>(element_bytes(call.type));
  const bool fits = slots_for_all(call, width) <= machine.slots(bytes_of_column(call, width));
  return {call.type, call.m, {call.m, width, width}, {flops, bytes, bytes}, fits};
}

class BlockColumns final : public TiledGraph {
 public:
  BlockColumns(const Columns& call, const Outline& outline, const runtime::Machine& machine)
      : TiledGraph(name_of(call.kind), outline, call.n, call.least()),
        kind_(call.kind),
        A_(call.A, m, n, call.lda, is_in_rows(kind_) ? Op::conj_trans : Op::no_trans, type),
        panels_(ceil_div(k, width())),
        tail_bytes_(cache::tail_offset(kernels::tail_bytes(kind_, type, width()))) {
    repeatable = false;
    task_count = columns_of_width(call, width());
    slot_bytes = bytes_of_column(call, width());
    working_slots = slots_for_all(call, width());
    touched.push_back({A_.host(), Use::written});
    if (!outline.holds_inputs) append_groups(machine.slots(slot_bytes));
    derive();
  }

  Output output(TaskId task) const override { return {.tile = tile(task), .reads_old = true}; }

  index_t step_count(TaskId task) const override {
    return is_panel(task) ? task + ceil_div(columns_of(task).size, columns_at_once()) : panels_;
  }

  Step step(TaskId task, index_t s) const override {
    const bool factors = is_panel(task) && s >= task;
    const index_t panel = factors ? task : s;
    const Span at = columns_of(panel);
    const kernels::Panel shape{.kind = kind_, .type = type, .m = m - at.first, .n = at.size};
    if (!factors) {
      return {.kernel = kernels::PanelUpdate{.panel = shape, .n = columns_of(task).size},
              .a = {.tile = tile(panel), .writer = panel, .first_row = at.first},
              .first_row = at.first};
    }
    const index_t first = (s - task) * columns_at_once();
    return {.kernel = runtime::PanelFactorization{shape, first, std::min(columns_at_once(), at.size - first)},
            .first_row = at.first};
  }

  index_t wave(TaskId task, index_t nth) const override { return std::min(nth, task); }

  index_t home(TaskId task, index_t devices) const override { return task % devices; }

  /// Host memory for the tails of all panels. To be set before the job, which it outlives.
  std::size_t tails_bytes() const { return static_cast<std::size_t>(panels_ * tail_bytes_); }
  void set_tails(std::byte* tails) { tails_ = tails; }

  runtime::HostPart* host_part() const override { return host_part_; }
  /// It outlives the job.
  void set_host_part(runtime::HostPart* part) { host_part_ = part; }

  /// The panels in host memory, in their order. They are complete when the job has ended.
  std::vector<kernels::Panel> panels() const {
    std::vector<kernels::Panel> all;
    for (TaskId task = 0; task < panels_; ++task) {
      const runtime::HostTile column = tile(task);
      const runtime::Kernel placed = step(task, task).placed({column.address, column.ld, column.tail}, {}, {});
      all.push_back(std::get<runtime::PanelFactorization>(placed).panel);
    }
    return all;
  }

 private:
  index_t width() const { return tiling.n; }
  index_t columns_at_once() const { return kind_ == PanelKind::lu ? width() : kernels::columns_of_part; }
  bool is_panel(TaskId task) const { return task < panels_; }

  Span columns_of(TaskId task) const {
    const index_t first = is_panel(task) ? task * width() : k + (task - panels_) * width();
    return {first, std::min(width(), (is_panel(task) ? k : n) - first)};
  }

  runtime::HostTile tile(TaskId task) const {
    const Span at = columns_of(task);
    runtime::HostTile tile = A_.tile({0, m}, at).tile;
    if (!is_panel(task)) return tile;
    tile.tail = tails_ + task * tail_bytes_;
    tile.tail_bytes = kernels::tail_bytes(kind_, type, at.size);
    return tile;
  }

  // A group gets all the room beside what steps read, and beside what the group before has not brought home yet.
  void append_groups(index_t slots) {
    const index_t beside = tiles_per_lane * device::compute_streams - 1;
    const index_t of_group = std::max<index_t>(slots - beside, 1);
    for (index_t end = std::min(of_group, task_count); end < task_count; end += of_group) group_ends.push_back(end);
    group_ends.push_back(task_count);
  }

  const PanelKind kind_;
  const MatrixView A_;
  const index_t panels_;
  const index_t tail_bytes_;    // of the widest
  std::byte* tails_ = nullptr;  // by panel
  runtime::HostPart* host_part_ = nullptr;
};

Columns columns_of(const LuCall& call) { return {PanelKind::lu, call.type, call.m, call.n, call.A, call.lda}; }
Columns columns_of(const QrCall& call) {
  if (call.storage == ReflectorStorage::columns) return {PanelKind::qr, call.type, call.m, call.n, call.A, call.lda};
  return {PanelKind::lq, call.type, call.n, call.m, call.A, call.lda};
}

Plan choose_plan(const Columns& call, std::span<const runtime::Machine> machines, index_t columns) {
  const auto outline = [&](const runtime::Machine& machine) { return outline_of(call, machine, columns); };
  const auto make = [&](const runtime::Machine& machine) {
    return std::make_unique<BlockColumns>(call, outline(machine), machine);
  };
  return routines::choose_plan(machines, {outline, make});
}

/// The result of a job: its statistics, and the panels, whose tails lie in memory of their own.
struct Factored {
  runtime::JobStatistics statistics;
  std::vector<kernels::Panel> panels;
  std::shared_ptr<const device::HostMemory> tails;
  std::unique_ptr<LeftRows> left_rows;  ///< of LU
};

Factored run(runtime::Runtime& runtime, const Columns& call, index_t columns, const runtime::CpuHelp& cpu) {
  if (call.least() < 1) throw InternalError("a factorization of nothing");
  Factored factored;
  const auto choose = [&](std::span<const runtime::Machine> machines) {
    Plan plan = choose_plan(call, machines, columns);
    auto& graph = static_cast<BlockColumns&>(*plan.graph);
    std::shared_ptr<device::HostMemory> tails = runtime.host_memory(graph.tails_bytes());
    graph.set_tails(tails->data());
    factored.panels = graph.panels();
    if (call.kind == PanelKind::lu) {
      factored.left_rows = std::make_unique<LeftRows>(factored.panels, runtime.processors());
      graph.set_host_part(factored.left_rows.get());
    }
    factored.tails = std::move(tails);
    return plan;
  };
  factored.statistics = run_planned(runtime, call.type, choose, cpu);
  return factored;
}

}  // namespace

Plan choose_plan(const LuCall& call, std::span<const runtime::Machine> machines, index_t columns) {
  return choose_plan(columns_of(call), machines, columns);
}
Plan choose_plan(const QrCall& call, std::span<const runtime::Machine> machines, index_t columns) {
  return choose_plan(columns_of(call), machines, columns);
}

runtime::JobStatistics lu(runtime::Runtime& runtime, const LuCall& call, index_t columns, const runtime::CpuHelp& cpu) {
  Factored factored = run(runtime, columns_of(call), columns, cpu);
  index_t first = 0;
  for (const kernels::Panel& panel : factored.panels) {
    const kernels::PivotTail tail = kernels::pivot_tail(panel);
    std::transform(tail.pivots, tail.pivots + panel.n, call.ipiv + first,
                   [first](std::int32_t row) { return row + first; });
    if (index_t& info = factored.statistics.info; info == 0 && *tail.info > 0) info = *tail.info + first;
    first += panel.n;
  }
  factored.left_rows->finish();
  return std::move(factored.statistics);
}

runtime::JobStatistics qr(runtime::Runtime& runtime, const QrCall& call, index_t columns, const runtime::CpuHelp& cpu) {
  Factored factored = run(runtime, columns_of(call), columns, cpu);
  auto* tau = static_cast<std::byte*>(call.tau);
  for (const kernels::Panel& panel : factored.panels) {
    const index_t bytes = panel.n * static_cast<index_t>(element_bytes(panel.type));
    std::copy_n(kernels::tau_of(panel), bytes, tau);
    tau += bytes;
  }
  return std::move(factored.statistics);
}

}  // namespace tessera::routines
