#include "runtime/tiles/order.hpp"

#include <utility>

namespace tessera::runtime {

bool Order::is_readable(const TaskPool& job, const Submission& submission) {
  if (!job.graph().ordered) return true;
  return !job.leaves_out(submission.task) &&
         job.readable(job.graph().nth_step(submission.task, submission.next_step), submission.task);
}

bool Order::drop(const TaskPool& job, const Submission& submission) {
  if (!job.leaves_out(submission.task) || !submission.asked.empty()) return false;
  const auto is_under_way = [](const device::EventPtr& event) { return event && !completed(event); };
  if (is_under_way(submission.launched)) return false;
  if (submission.output != nullptr && is_under_way(submission.output->ready)) return false;
  const OldCopyPtr& old = submission.old;
  if (old && !old->is_whole() && !old->has_failed()) return false;
  if (submission.x != nullptr) place_.cache.release(submission.x);
  if (submission.output != nullptr) place_.cache.abandon_output(submission.output);
  intake_.finished(1);
  return true;
}

bool Order::comes_from_host(const Step& step) const {
  const auto absent = [&](const Read& read) {
    return read.exists() && place_.cache.locate(place_.index, read.tile) == cache::Level::host;
  };
  return absent(step.a) || absent(step.b);
}

bool Order::ask(TaskPool& job, Submission& submission) {
  if (job.leaves_out(submission.task)) return false;
  const TaskGraph& graph = job.graph();
  const Output output = graph.output(submission.task);
  const bool begins = submission.output == nullptr;
  if (begins && output.reads_old && adds_old_values_last())
    submission.adds_after = graph.of(submission.task).adding_steps;
  const bool adds = submission.adds_next();
  const Read old{.tile = output.tile, .writer = submission.task};
  Step step = adds ? addition_step(graph.type, graph.hermitian, output.tile, old, submission.beta)
                   : graph.nth_step(submission.task, submission.next_step);
  const bool is_readable = job.readable(step, submission.task);
  const bool fetches_old = begins && output.reads_old && !submission.adds_old();
  // A block column is most of what its task fetches: it comes while the first panel is still computed.
  if (!is_readable && !(fetches_old && graph.has_panels)) return false;
  if ((fetches_old || (is_readable && comes_from_host(step))) && must_wait_for_link(job, submission)) return false;
  if (begins) submission.output = place_.cache.acquire_output(place_.index, output.tile, fetches_old, needed_soon());
  if (submission.output == nullptr) return false;
  results_.keep_old(job, submission, OldValues::When::ahead);
  if (!is_readable) return true;
  const auto pin = [&](const HostTile& tile) { return place_.cache.pin(place_.index, tile, next_use(tile)); };
  if (step.a.exists()) {
    if (submission.x == nullptr) submission.x = pin(step.a.tile);
    if (submission.x == nullptr) return false;
  }
  cache::Replica* const x = submission.x;
  cache::Replica* y = nullptr;
  if (step.b.exists()) {
    y = pin(step.b.tile);
    if (y == nullptr && graph.grouped()) {  // another step may be tried first next time
      place_.cache.release(x);
      submission.x = nullptr;
    }
    if (y == nullptr) return false;
  }
  if (submission.next_step == 0 && submission.adds_old())
    submission.beta = std::exchange(step.call().beta, AnyScalar(0));
  submission.x = nullptr;
  submission.asked.push_back({step, x, y, submission.next_step, adds});
  if (adds)
    submission.has_added = true;
  else
    ++submission.next_step;
  submission.wave = graph.wave(submission.task, submission.next_step);
  return true;
}

}  // namespace tessera::runtime
