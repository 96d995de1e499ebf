#include "runtime/cpu_worker.hpp"

#include "core/process.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/host_panel.hpp"
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
      compute(job.graph(), *task, outcome);
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

CpuWorker::Outcome CpuWorker::finish(const TaskGraph& graph, std::span<const TaskId> tasks) const {
  Outcome outcome;
  for (const TaskId task : tasks) {
    if (outcome.breakdown.has_happened() && graph.depends_on(task, outcome.breakdown.task)) continue;
    compute(graph, task, outcome);
    if (has_room(outcome.done, 1)) outcome.done.push_back(task);
  }
  return outcome;
}

void CpuWorker::compute(const TaskGraph& graph, TaskId task, Outcome& outcome) const {
  const HostTile C = graph.output(task).tile;
  const auto element = static_cast<index_t>(element_bytes(graph.type()));
  // The times are told where there is memory for them.
  const bool records = has_room(outcome.operations, static_cast<std::size_t>(graph.step_count(task)));
  for (index_t l = 0; l < graph.step_count(task); ++l) {
    const Step step = graph.step(task, l);
    Level3 call = step.call;
    // An operand that is not there stays a null pointer.
    call.A = step.a.tile.address + step.a.first_row * element;
    call.lda = step.a.tile.ld;
    call.B = step.b.tile.address + step.b.first_row * element;
    call.ldb = step.b.tile.ld;
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
        kernels::apply_panel(step.update_of(output, {step.a.tile.address, step.a.tile.ld, step.a.tile.tail}), compute_);
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
