#include "runtime/tiles/cpu_worker.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <variant>

#include "core/process.hpp"
#include "core/reserve.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/host_panel.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::runtime {

CpuWorker::Outcome CpuWorker::run(TaskPool& job, const CpuHelp& help) const noexcept {
  Outcome outcome;
  while (!job.ended() && !process::ending()) {
    // Before a task is taken, which nobody else would do then.
    if (!try_reserve(outcome.done, 1)) break;
    const auto task = job.take_for_cpu(help);
    if (!task) break;
    try {
      compute(job.graph(), *task, job.graph().output(*task).tile, outcome);
    } catch (...) {
      outcome.error = std::current_exception();
      job.fail();
      break;
    }
    outcome.done.push_back(*task);
    tell(job.graph(), *task);
    job.begin_write_back();
    job.finish_task(*task);
  }
  return outcome;
}

CpuWorker::Outcome CpuWorker::finish(const TaskGraph& graph, std::span<const TaskId> tasks,
                                     std::span<const PartlyWritten> partly) const {
  Outcome outcome;
  std::vector<bool> left_out;
  for (const TaskId task : tasks) {
    if (!left_out.empty() && left_out[static_cast<std::size_t>(task)]) continue;
    const auto found =
        std::find_if(partly.begin(), partly.end(), [&](const PartlyWritten& p) { return p.task == task; });
    if (found == partly.end()) {
      compute(graph, task, graph.output(task).tile, outcome);
    } else {
      compute_rest(graph, *found, outcome);
    }
    tell(graph, task);
    if (outcome.breakdown.task == task) left_out = dependents_of(graph, task);
    if (try_reserve(outcome.done, 1)) outcome.done.push_back(task);
  }
  return outcome;
}

void CpuWorker::tell(device::Block block, device::Extent extent) const {
  if (tell_written_) tell_written_(block, extent);
}

void CpuWorker::tell(const TaskGraph& graph, TaskId task) const {
  const HostTile tile = graph.output(task).tile;
  const auto element = static_cast<index_t>(element_bytes(graph.type));
  tell({tile.address, tile.ld * element}, cache::extent_of(tile, element));
}

// All of it, apart, because what it takes to compute a part depends on the step. No slice depends on another one.
void CpuWorker::compute_rest(const TaskGraph& graph, const PartlyWritten& partly, Outcome& outcome) const {
  const HostTile C = graph.output(partly.task).tile;
  const auto element = static_cast<index_t>(element_bytes(graph.type));
  const device::Extent extent = cache::extent_of(C, element);
  const index_t end = partly.written->end();
  const bool by_columns = partly.written->kind() == device::SliceKind::columns;
  // Zeros where the slices have been written: nothing comes of them, and no exceptions of arithmetic.
  const auto memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(extent.column_bytes * C.cols));
  HostTile apart = C;
  apart.address = memory.get();
  apart.ld = C.rows;
  const auto copy_others = [&](const HostTile& to, const HostTile& from) {
    for (index_t j = by_columns ? end : 0; j < C.cols; ++j) {
      const index_t first = std::max(extent.first_byte(j), by_columns ? 0 : end);
      const index_t last = extent.last_byte(j);
      if (first >= last) continue;
      std::memcpy(to.address + j * to.ld * element + first, from.address + j * from.ld * element + first,
                  static_cast<std::size_t>(last - first));
    }
  };
  copy_others(apart, C);
  compute(graph, partly.task, apart, outcome);
  copy_others(C, apart);
}

void CpuWorker::compute(const TaskGraph& graph, TaskId task, const HostTile& C, Outcome& outcome) const {
  const HostTile in_place = graph.output(task).tile;
  // The times are told where there is memory for them.
  const bool records = try_reserve(outcome.operations, static_cast<std::size_t>(graph.step_count(task)));
  // The output may be an operand, too.
  const auto placed = [&](const HostTile& tile) {
    const HostTile& place = tile == in_place ? C : tile;
    return PlacedTile{place.address, place.ld, place.tail};
  };
  for (index_t l = 0; l < graph.step_count(task); ++l) {
    const Step step = graph.step(task, l);
    const double begin_s = device::now_seconds();
    int info = 0;
    std::visit(ByKind{[&](const Level3& call) { compute_(call); },
                      [&](const kernels::Addition& addition) { kernels::reference_add(addition); },
                      [&](const kernels::TileFactorization& factored) { info = factor_tile(factored, compute_); },
                      [&](const PanelFactorization& p) { factor_panel(p.panel, p.first, p.columns, compute_); },
                      [&](const kernels::PanelUpdate& update) { apply_panel(update, compute_); }},
               step.placed(placed(C), placed(step.a.tile), placed(step.b.tile)));
    if (info > 0) outcome.breakdown = {task, step.rows_before + info};
    if (!records) continue;
    outcome.operations.push_back({.stream = {device::StreamKind::compute, 0},
                                  .begin_s = begin_s,
                                  .end_s = device::now_seconds(),
                                  .flops = step.flops(),
                                  .task = task,
                                  .step = l,
                                  .kernel = step.name()});
  }
}

}  // namespace tessera::runtime
