// LU and QR by block columns, left-looking. One task per block column j of A:
//   apply panels 0 .. j - 1, as soon as each is there, to all rows below their first one; then factor what lies on and
//   below the diagonal.
// So a block column is fetched once, goes from device to device as a panel, and goes down once. Where many columns are
// on devices at once, each panel finds work in all of them, and the factorization of the next one, for which all others
// wait, comes first: that is right-looking with look-ahead. Where memory is short, groups of neighbouring block columns
// advance together, panel by panel.
//
// LU: what a panel interchanges it interchanges in columns to the right. The rows of L in columns to the left, which
// are at home by then, are interchanged when all is done.
// A device that is lost leaves columns that are at home, final, and others as they were: columns go home in order, so
// that none has been made with a panel that is computed once more, whose pivots may then be others.
//
// Source: Golub and Van Loan, Matrix Computations, sections 3.2.9 and 5.2.3; D'Azevedo and Dongarra, The design and
// implementation of the parallel out-of-core ScaLAPACK LU, QR and Cholesky factorization routines, 2000, for columns
// that do not fit.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/side_by_side.hpp"
#include "routines/call_graph.hpp"
#include "routines/lapack.hpp"

namespace tessera::routines {
namespace {

using kernels::PanelKind;
using runtime::Output;
using runtime::Step;
using runtime::StepKind;
using runtime::TaskId;

/// What both are.
struct Columns {
  PanelKind kind = PanelKind::lu;
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;
  void* A = nullptr;
  index_t lda = 0;

  index_t least() const { return std::min(m, n); }
};

// An output and one step's input per lane, and outputs on their way home.
constexpr index_t slots_per_lane = 3;
/// Of a QR panel: so many columns are factored at a time. A long launch of many small kernels would hold up products.
constexpr index_t columns_at_once = 64;

/// What Level 3 has that is most like it.
Level3 like(const Columns& call) { return {.routine = Routine::trsm, .type = call.type, .m = call.m, .n = call.n}; }

std::size_t bytes_of_column(const Columns& call, index_t columns) {
  const index_t elements = call.m * columns * static_cast<index_t>(element_bytes(call.type));
  return static_cast<std::size_t>(cache::tail_offset(elements) + kernels::tail_bytes(call.kind, call.type, columns));
}

runtime::Tiling choose_columns(const Columns& call, const runtime::Machine& machine, index_t forced) {
  // Wide panels make products of a good rate, narrow ones are soon factored.
  constexpr index_t granule = 128, least = 256, wanted = 16;
  const index_t widest = call.kind == PanelKind::lu ? 768 : 512;  // T costs more with the width
  const index_t chosen = std::clamp(ceil_div(call.least(), wanted * granule) * granule, least, widest);
  index_t width = std::min({call.least(), forced > 0 ? forced : chosen, kernels::most_panel_columns});
  while (machine.slots(bytes_of_column(call, width)) < slots_per_lane * device::compute_streams) {
    if (width == 1) {
      throw OutOfDeviceMemory("a device memory of " + std::to_string(machine.heap_bytes) +
                              " bytes cannot hold one column per stream");
    }
    width = ceil_div(width, 2);
  }
  return {call.m, width, width};
}

class BlockColumns final : public CallGraph {
 public:
  BlockColumns(const Columns& call, const runtime::Machine& machine, index_t forced)
      : CallGraph(like(call), choose_columns(call, machine, forced)),
        columns_(call),
        A_(call.A, call.m, call.n, call.lda, Op::no_trans, call.type),
        panels_(ceil_div(call.least(), width())),
        tail_bytes_(cache::tail_offset(kernels::tail_bytes(call.kind, call.type, width()))) {
    const index_t count = panels_ + ceil_div(call.n - call.least(), width());
    for (index_t j = 0; j < count; ++j) order_.push_back({0, static_cast<std::int32_t>(j)});
    const index_t slots = machine.slots(slot_bytes());
    if (!fits(slots)) append_groups(count, slots);
  }

  std::string routine() const override { return letter(type()) + std::string(name_of(columns_.kind)); }
  double flops() const override {
    double sum = 0;
    for (TaskId task = 0; task < task_count(); ++task) sum += task_flops(task);
    return sum;
  }
  index_t k() const override { return columns_.least(); }
  std::size_t slot_bytes() const override { return bytes_of_column(columns_, width()); }
  index_t working_slots() const override { return task_count() + index_t{2} * device::compute_streams; }

  Output output(TaskId task) const override {
    return {.tile = tile(task), .fetch = true, .needs_old = true, .publish = is_panel(task)};
  }

  index_t step_count(TaskId task) const override {
    return is_panel(task) ? task + ceil_div(columns_of(task).size, columns_at_once()) : panels_;
  }

  Step step(TaskId task, index_t s) const override {
    const bool factors = is_panel(task) && s >= task;
    const index_t panel = factors ? task : s;
    const Span at = columns_of(panel);
    Step step{.call = {.type = type(), .m = columns_.m - at.first, .n = columns_of(task).size},
              .a = {},
              .b = {},
              .kind = factors ? StepKind::panel : StepKind::update,
              .panel = {.kind = columns_.kind, .first_row = at.first, .columns = at.size}};
    if (factors) {
      step.panel.part_first = (s - task) * columns_at_once();
      step.panel.part_columns = std::min(columns_at_once(), at.size - step.panel.part_first);
    } else {
      step.a = {.tile = tile(panel), .after = panel};
    }
    return step;
  }

  index_t wave(TaskId task, index_t nth) const override { return std::min(nth, task); }

  bool ordered() const override { return true; }
  bool has_panels() const override { return true; }
  bool factors() const override { return true; }
  TaskId write_after(TaskId task) const override { return task - 1; }
  index_t home(TaskId task, index_t devices) const override { return task % devices; }

  index_t compulsory_up_bytes() const override { return columns_.m * columns_.n * element(); }
  index_t compulsory_down_bytes() const override { return compulsory_up_bytes(); }
  std::vector<device::HostRange> host_ranges() const override { return ranges_of({&A_}); }

  /// Host memory for the tails of all panels. To be set before the job, which it outlives.
  std::size_t tails_bytes() const { return static_cast<std::size_t>(panels_ * tail_bytes_); }
  void set_tails(std::byte* tails) { tails_ = tails; }

  /// In host memory, from the first one on; whole when the job has ended.
  std::vector<kernels::Panel> panels() const {
    std::vector<kernels::Panel> all;
    for (TaskId task = 0; task < panels_; ++task) {
      const runtime::HostTile column = tile(task);
      all.push_back(step(task, task).panel_in({column.address, column.ld, column.tail}));
    }
    return all;
  }

 private:
  index_t width() const { return tiling_.n; }
  index_t element() const { return static_cast<index_t>(element_bytes(type())); }
  index_t columns_at_once() const { return columns_.kind == PanelKind::lu ? width() : routines::columns_at_once; }
  bool is_panel(TaskId task) const { return task < panels_; }

  /// FactoredPanels end with the last row or column; what is right of them begins anew.
  Span columns_of(TaskId task) const {
    const index_t least = columns_.least();
    const index_t first = is_panel(task) ? task * width() : least + (task - panels_) * width();
    return {first, std::min(width(), (is_panel(task) ? least : columns_.n) - first)};
  }

  runtime::HostTile tile(TaskId task) const {
    const Span at = columns_of(task);
    runtime::HostTile tile = A_.tile(0, at.first, columns_.m, at.size).tile;
    if (!is_panel(task)) return tile;
    tile.tail = tails_ + task * tail_bytes_;
    tile.tail_bytes = kernels::tail_bytes(columns_.kind, type(), at.size);
    return tile;
  }

  // As many as there is room for beside what steps read, and what the group before has not brought home yet.
  void append_groups(index_t count, index_t slots) {
    const index_t beside = index_t{slots_per_lane} * device::compute_streams - 1;
    const index_t of_group = std::max<index_t>(slots - beside, 1);
    for (index_t end = std::min(of_group, count); end < count; end += of_group) group_ends_.push_back(end);
    group_ends_.push_back(count);
  }

  Columns columns_;
  MatrixView A_;
  index_t panels_;
  index_t tail_bytes_;          // of the widest
  std::byte* tails_ = nullptr;  // by panel
};

Columns columns_of(const LuCall& call) { return {PanelKind::lu, call.type, call.m, call.n, call.A, call.lda}; }
Columns columns_of(const QrCall& call) { return {PanelKind::qr, call.type, call.m, call.n, call.A, call.lda}; }

Plan choose_plan(const Columns& call, std::span<const runtime::Machine> machines, index_t columns) {
  return routines::choose_plan(like(call), machines, columns, [&](const runtime::Machine& machine) {
    return std::make_unique<BlockColumns>(call, machine, columns);
  });
}

/// What a job has left: panels, whose tails lie in memory of their own.
struct Factored {
  runtime::JobStatistics statistics;
  std::vector<kernels::Panel> panels;
  std::shared_ptr<const device::HostMemory> tails;
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
    factored.tails = std::move(tails);
    return plan;
  };
  factored.statistics = run_planned(runtime, call.type, choose, cpu);
  return factored;
}

/// By row from `first` on: which of these rows its elements come from, after the interchanges of all panels that begin
/// there or later.
std::vector<index_t> sources_of_rows(const std::vector<kernels::Panel>& panels, index_t first, index_t m) {
  std::vector<index_t> sources(static_cast<std::size_t>(m - first));
  std::iota(sources.begin(), sources.end(), 0);
  index_t begin = 0;
  for (const kernels::Panel& panel : panels) {
    for (index_t i = 0; i < panel.n && begin >= first; ++i) {
      index_t* const rows = sources.data() + (begin - first);
      std::swap(rows[i], rows[kernels::pivot_tail(panel).pivots[i] - 1]);
    }
    begin += panel.n;
  }
  return sources;
}

/// Rows that move all at once, which is quicker than one interchange after the other.
template <Scalar T>
void move_rows(T* rows, index_t ld, index_t columns, const std::vector<index_t>& sources) {
  std::vector<T> moved(sources.size());
  for (index_t j = 0; j < columns; ++j) {
    T* const column = rows + j * ld;
    std::transform(sources.begin(), sources.end(), moved.begin(), [column](index_t from) { return column[from]; });
    std::copy(moved.begin(), moved.end(), column);
  }
}

/// Columns to the left of each panel, by its pivots. They are dealt to as many threads as there are processors.
void interchange_left(const std::vector<kernels::Panel>& panels, const Columns& call, int processors) {
  struct Piece {
    index_t column = 0, columns = 0;
    index_t first_row = 0;  // that panels behind it interchange
  };
  constexpr index_t most_columns = 32;
  std::vector<Piece> pieces;
  index_t first = 0;
  for (const kernels::Panel& panel : panels) {
    const index_t end = first + panel.n;
    if (end == call.least()) break;
    for (; first < end; first += most_columns) pieces.push_back({first, std::min(most_columns, end - first), end});
    first = end;
  }
  std::atomic<std::size_t> next = 0;
  const auto interchange = [&](std::size_t) {
    for (std::size_t p = next.fetch_add(1); p < pieces.size(); p = next.fetch_add(1)) {
      const Piece& piece = pieces[p];
      const std::vector<index_t> sources = sources_of_rows(panels, piece.first_row, call.m);
      dispatch(call.type, [&]<Scalar T>(T) {
        move_rows(static_cast<T*>(call.A) + piece.first_row + piece.column * call.lda, call.lda, piece.columns,
                  sources);
      });
    }
  };
  if (!pieces.empty()) side_by_side(std::min(static_cast<std::size_t>(processors), pieces.size()), interchange);
}

}  // namespace

std::unique_ptr<runtime::TaskGraph> make_lu(const LuCall& call, const runtime::Machine& machine, index_t columns) {
  return std::make_unique<BlockColumns>(columns_of(call), machine, columns);
}
std::unique_ptr<runtime::TaskGraph> make_qr(const QrCall& call, const runtime::Machine& machine, index_t columns) {
  return std::make_unique<BlockColumns>(columns_of(call), machine, columns);
}

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
  interchange_left(factored.panels, columns_of(call), runtime.processors());
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
