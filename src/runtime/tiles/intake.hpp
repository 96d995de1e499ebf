// How a worker comes by tasks: from the job's queues to its reservation station, from there when they are wanted, and
// where nothing is left from others.
//
// Invariant: in ordered and grouped graphs the device holds no more outputs than leaves room for the inputs of steps; in
// an ordered graph tasks begin in their order. Owned and used by one worker, but for the station, which others may steal
// from. Source: BLASX, section IV-C, Alg. 1, Eq. 3.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/tiles/submission.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/workplace.hpp"

namespace tessera::runtime {

class Intake {
 public:
  static constexpr std::size_t station_tasks_per_lane = 4;

  explicit Intake(const Workplace& place) : place_(place) {}

  /// @param lanes that each take a task at once
  void begin(TaskPool& job, std::size_t lanes);

  /// Fills the station with tasks that are at home here, and looks at what each would find on the device.
  /// @return whether there were any
  bool fill(TaskPool& job);
  /// Puts the next group into the station. @param ahead see TaskPool::draw_group() @return whether there was one
  bool draw_group(TaskPool& job, bool ahead);

  /// The station's best task. Where it is empty, refill() is called; if that brings nothing, somebody else's.
  template <class Refill>
  std::optional<Submission> take(TaskPool& job, bool may_steal, Refill&& refill) {
    if (!has_room(job)) return std::nullopt;
    ReservationStation& station = job.station(me());
    auto entry = station.take_best([&](const StationEntry& e) { return job.should_take(me(), e.flops); });
    if (!entry && station.size() == 0 && !refill() && may_steal) entry = steal(job);
    if (!entry) return std::nullopt;
    return taken(job, *entry);
  }

  /// Outputs that may be held at once.
  index_t room_for_outputs(const TaskGraph& graph) const;
  /// Taken and not finished.
  index_t outputs() const { return outputs_; }
  void finished(index_t outputs) { outputs_ -= outputs; }

  std::int64_t stolen() const { return stolen_; }

 private:
  std::size_t me() const { return static_cast<std::size_t>(place_.index); }
  bool has_room(const TaskPool& job) const;
  Submission taken(TaskPool& job, const StationEntry& entry);
  std::optional<StationEntry> steal(TaskPool& job);
  double priority(const TaskGraph& graph, TaskId task) const;

  const Workplace& place_;
  std::size_t lanes_ = 1;
  index_t outputs_ = 0;
  std::int64_t taken_ = 0;  // tasks
  bool has_taken_ = false;  // since the priorities in the station were computed
  std::int64_t stolen_ = 0;
};

}  // namespace tessera::runtime
