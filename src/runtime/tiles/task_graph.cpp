#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

// All steps of all tasks, once: about as much as it takes to add up their flops.
void TaskGraph::derive() {
  tasks_.assign(static_cast<std::size_t>(task_count), {});
  for (TaskId task = 0; task < task_count; ++task) {
    TaskProperties& mine = at(task);
    const Output written = output(task);
    mine.intermediate = written.intermediate;
    mine.needs_old = mine.needs_old || written.reads_old;
    const index_t steps = step_count(task);
    for (index_t l = 0; l < steps; ++l) {
      const Step step = this->step(task, l);
      mine.flops += step.flops();
      if (step.only_adds())
        mine.adding_steps += mine.adding_steps == l ? 1 : 0;
      else
        ordered = true;
      factors = factors || step.factors();
      has_panels = has_panels || step.has_panel();
      derive_from(step.a, task);
      derive_from(step.b, task);
    }
  }
}

// A result that is read is published. A tile whose old value is read is overwritten after the last such reader: others
// before it are done by then, since each overwrites its own tile after those that read it, or reads nothing else.
void TaskGraph::derive_from(const Read& read, TaskId reader) {
  if (read.writer == no_task) return;
  ordered = true;
  TaskProperties& mine = at(reader);
  TaskProperties& written = at(read.writer);
  if (read.writer == reader) {
    mine.needs_old = true;
    return;
  }
  const bool reads_result = read.result_of(reader) != no_task;
  written.published = written.published || reads_result;
  if (!reads_result || written.intermediate)
    written.write_after = std::max(written.write_after, reader);
  else if (!repeatable)
    mine.write_after = std::max(mine.write_after, read.writer);
}

// The first step that is taken sets the output, to which the others are added.
Step TaskGraph::nth_step(TaskId task, index_t n) const {
  const index_t steps = task < first_steps_last ? step_count(task) : 1;
  if (steps == 1) return step(task, n);
  Step taken = step(task, (n + 1) % steps);
  if (n == 0) taken.call().beta = 0;
  taken.apart = n == steps - 1;
  return taken;
}

std::vector<bool> dependents_of(const TaskGraph& graph, TaskId first) {
  std::vector<bool> dependents(static_cast<std::size_t>(graph.task_count), false);
  for (TaskId task = first + 1; task < graph.task_count; ++task) {
    const auto depends = [&](const Read& read) {
      const TaskId result = read.result_of(task);
      return result != no_task && (result == first || dependents[static_cast<std::size_t>(result)]);
    };
    const index_t steps = graph.step_count(task);
    for (index_t l = 0; l < steps && !dependents[static_cast<std::size_t>(task)]; ++l) {
      const Step step = graph.step(task, l);
      dependents[static_cast<std::size_t>(task)] = depends(step.a) || depends(step.b);
    }
  }
  return dependents;
}

}  // namespace tessera::runtime
