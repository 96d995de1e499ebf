#include "runtime/cpu_worker.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/process.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/host_panel.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/room.hpp"

namespace tessera::runtime {

CpuWorker::Outcome CpuWorker::run(Job& job, const CpuHelp& help) const noexcept {
  Outcome outcome;
  while (!job.ended() && !process::ending()) {
    // Before a task is taken, which nobody else would do then.
    if (!has_room(outcome.done, 1)) break;
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
    job.begin_write_back();
    job.finish_task(*task);
  }
  return outcome;
}

CpuWorker::Outcome CpuWorker::finish(const TaskGraph& graph, std::span<const TaskId> tasks,
                                     std::span<const PartlyWritten> partly) const {
  Outcome outcome;
  for (const TaskId task : tasks) {
    if (outcome.breakdown.has_happened() && graph.depends_on(task, outcome.breakdown.task)) continue;
    const auto found =
        std::find_if(partly.begin(), partly.end(), [&](const PartlyWritten& p) { return p.task == task; });
    if (found == partly.end()) {
      compute(graph, task, graph.output(task).tile, outcome);
    } else {
      compute_rest(graph, *found, outcome);
    }
    if (has_room(outcome.done, 1)) outcome.done.push_back(task);
  }
  return outcome;
}

// All of it, apart, because what it takes to compute a part depends on the step. No slice depends on another one.
void CpuWorker::compute_rest(const TaskGraph& graph, const PartlyWritten& partly, Outcome& outcome) const {
  const HostTile C = graph.output(partly.task).tile;
  const auto element = static_cast<index_t>(element_bytes(graph.type()));
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
  const auto element = static_cast<index_t>(element_bytes(graph.type()));
  // The times are told where there is memory for them.
  const bool records = has_room(outcome.operations, static_cast<std::size_t>(graph.step_count(task)));
  for (index_t l = 0; l < graph.step_count(task); ++l) {
    const Step step = graph.step(task, l);
    Level3 call = step.call;
    // The output may be an operand, too. One that is not there stays a null pointer.
    const auto place_of = [&](const HostTile& tile) { return tile == in_place ? C : tile; };
    const HostTile a = place_of(step.a.tile);
    const HostTile b = place_of(step.b.tile);
    call.A = a.address + step.a.first_row * element;
    call.lda = a.ld;
    call.B = b.address + step.b.first_row * element;
    call.ldb = b.ld;
    call.C = C.address;
    call.ldc = C.ld;
    const double begin_s = device::now_seconds();
    const PlacedTile output{C.address, C.ld, C.tail};
    switch (step.kind) {
      case StepKind::cholesky:
        if (const int info = kernels::factor_tile(step.factorization(output, nullptr), compute_); info > 0)
          outcome.breakdown = {task, step.rows_before + info};
        break;
      case StepKind::panel:
        kernels::factor_panel(step.panel_in(output), step.panel.part_first, step.panel.part_columns, compute_);
        break;
      case StepKind::update:
        kernels::apply_panel(step.update_of(output, {a.address, a.ld, a.tail}), compute_);
        break;
      case StepKind::addition:
        kernels::reference_add(graph.addition_to(C, 1, a.address, a.ld));
        break;
      case StepKind::level3:
        compute_(call);
        break;
    }
    if (!records) continue;
    outcome.operations.push_back({.stream = {device::StreamKind::compute, 0},
                                  .begin_s = begin_s,
                                  .end_s = device::now_seconds(),
                                  .flops = step.flops(),
                                  .task = task,
                                  .step = l,
                                  .kernel = step.kernel()});
  }
}

}  // namespace tessera::runtime
