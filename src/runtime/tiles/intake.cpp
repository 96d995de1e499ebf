#include "runtime/tiles/intake.hpp"

#include <algorithm>
#include <utility>

namespace tessera::runtime {

void Intake::begin(TaskPool& job, std::size_t lanes) {
  // Groups are drawn and stolen by the group.
  if (!job.graph().grouped()) job.reserve(me(), static_cast<index_t>(lanes));
  lanes_ = lanes;
  outputs_ = 0;
  stolen_ = 0;
}

bool Intake::fill(TaskPool& job) {
  ReservationStation& station = job.station(me());
  bool any = false;
  while (station.size() < station_tasks_per_lane * lanes_) {
    const auto task = job.pop(me());
    if (!task) break;
    station.put({*task, job.graph().of(*task).flops, 0, false});
    any = true;
  }
  // Also when nothing is left to draw: what has come for the tasks that were taken since may be what others read.
  const bool changed = std::exchange(has_taken_, false) || any;
  if (changed && !job.graph().ordered) station.refresh([&](TaskId task) { return priority(job.graph(), task); });
  return any;
}

bool Intake::draw_group(TaskPool& job, bool ahead) {
  bool any = false;
  for (const TaskId task : job.draw_group(ahead)) {
    job.station(me()).put({task, job.graph().of(task).flops, 0, false});
    any = true;
  }
  return any;
}

// Eq. 3: 2 for each tile that is here, 1 for each that a peer has or is fetching.
double Intake::priority(const TaskGraph& graph, TaskId task) const {
  // Beyond this many steps a sample spread over the task tells as much.
  constexpr index_t most_steps = 32;
  const index_t steps = graph.step_count(task);
  const index_t stride = (steps + most_steps - 1) / most_steps;
  double sum = 0;
  for (index_t l = 0; l < steps; l += stride) {
    const Step step = graph.step(task, l);
    for (const Read* read : {&step.a, &step.b}) {
      if (read->exists()) sum += static_cast<double>(place_.cache.locate(place_.index, read->tile));
    }
  }
  return sum;
}

// An output more must leave room for the inputs of steps.
index_t Intake::room_for_outputs(const TaskGraph& graph) const {
  const auto lanes = static_cast<index_t>(lanes_);
  const index_t slots = place_.cache.slots(place_.index);
  return std::max<index_t>(graph.grouped() ? slots - LaneSlots::inputs * lanes : slots / LaneSlots::slots, lanes);
}

bool Intake::has_room(const TaskPool& job) const {
  const bool holds_many = job.graph().ordered || job.graph().grouped();
  return !holds_many || outputs_ < room_for_outputs(job.graph());
}

Submission Intake::taken(TaskPool& job, const StationEntry& entry) {
  job.take(me(), entry.flops, entry.stolen);
  has_taken_ = true;
  ++outputs_;
  if (entry.stolen) ++stolen_;
  return {.task = entry.task,
          .number = ++taken_,
          .steps = job.graph().step_count(entry.task),
          .wave = job.graph().wave(entry.task, 0)};
}

// Takes a task that is at home elsewhere and not about to be taken there: from the next device with tasks in its queue,
// else from the station with the most work left, the task of its lowest priority first.
std::optional<StationEntry> Intake::steal(TaskPool& job) {
  const std::size_t devices = job.device_count();
  for (std::size_t d = 1; d < devices && !job.graph().grouped(); ++d) {
    const std::size_t other = (me() + d) % devices;
    if (!job.has_spare_tasks(other)) continue;
    if (const auto task = job.pop(other)) {
      job.note_stolen(other);
      job.station(me()).put({*task, job.graph().of(*task).flops, 0, true});
      return job.station(me()).take_best([&](const StationEntry& e) { return job.should_take(me(), e.flops); });
    }
  }
  std::size_t victim = me();
  double most = 0;
  for (std::size_t other = 0; other < devices; ++other) {
    const double flops = other == me() || !job.has_spare_tasks(other) ? 0 : job.station(other).flops();
    if (flops > most) {
      most = flops;
      victim = other;
    }
  }
  if (victim == me()) return std::nullopt;
  auto entry = job.station(victim).steal_worst([&](const StationEntry& e) { return job.should_take(me(), e.flops); });
  if (!entry) return std::nullopt;
  if (!entry->stolen) job.note_stolen(victim);
  entry->stolen = true;
  return entry;
}

}  // namespace tessera::runtime
