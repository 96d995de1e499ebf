// The order where memory suffices: each lane has its own tasks. A lane is a compute stream and the tasks that are
// submitted to it. On a single device long kernels of older tasks go to streams of higher rank.
//
// A step is submitted in two parts. First its tiles are asked for. While the tasks of a lane wait for tiles, the lane
// takes more tasks, which advance wave by wave: each tile that arrives serves several products. For the same reason old
// values are added last. Then, when its tiles have come, the step is launched: the oldest task's first, and only as
// many as keep the device busy. A step launched too early runs before older tasks, whose results then go down late.
// Where no step asks, tiles of the tasks in the station are fetched into free memory.
//
// Invariant: some lane can go on. There is room for an output and one step's inputs per lane (LaneSlots). Tasks advance
// side by side only where everything fits; then the readable one of the lowest wave can go on. In ordered graphs the first
// task that has not been computed can go on, because it waits for earlier tasks only. Intermediate results wait for
// later ones, but only where all results have room at once (Results). Source: BLASX, section IV-C, Alg. 1.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "runtime/tiles/order.hpp"

namespace tessera::runtime {

class LaneOrder final : public Order {
 public:
  static constexpr std::size_t tasks_per_lane = 4;  ///< at most, while tiles are still arriving
  static constexpr std::size_t left_per_lane = 2;   ///< in the station, where a starved device takes some early

  using Order::Order;

  /// Whether tasks should advance side by side here. A job does so on all its devices or on none: results must not
  /// depend on which of them computes what.
  bool should_advance_side_by_side(const TaskGraph& graph) const;

  void begin(const TaskPool& job, std::size_t lanes) override;
  void clear() override;
  bool refill(TaskPool& job) override { return intake_.fill(job); }
  bool submit(TaskPool& job) override;
  bool prefetch(TaskPool& job) override;

 private:
  using Lane = std::vector<Submission>;  // the oldest first
  using LaneNumbers = std::array<std::size_t, device::compute_streams>;

  bool adds_old_values_last() const override { return side_by_side_ || in_turn_; }
  bool must_wait_for_link(const TaskPool& job, const Submission& submission) const override;

  bool has_older_without_output(const Submission& submission) const;
  bool fetches_in_turn(const TaskPool& job) const;
  bool holds_all_of(const TaskGraph& graph) const;
  bool wants_another_task(TaskPool& job, std::size_t lane) const;
  bool starves(TaskPool& job) const;
  LaneNumbers lanes_in_order() const;
  bool ask_for_step(TaskPool& job, Lane& lane);
  bool launch_oldest(const TaskPool& job);
  int stream_for(std::size_t lane, const Submission& submission) const;
  bool may_launch(const Submission& submission) const;
  static bool has_come(const Submission& submission);
  bool is_here(const TaskPool& job, const Submission& submission) const;
  double expected_seconds(const Asked& step) const;
  bool prefetch_old_values(index_t reserve, bool& any) const;
  void prefetch_station(TaskPool& job, index_t reserve, bool& any);

  ScalarType type_ = ScalarType::d;
  std::size_t active_ = 0;     // lanes
  bool side_by_side_ = false;  // lanes may take several tasks, and old values of C are added last
  bool by_age_ = false;        // older tasks have the streams of higher rank
  bool in_turn_ = false;       // each lane takes one task after the other, and old values of C are added last, too
  std::array<Lane, device::compute_streams> lanes_;
  std::map<TaskId, index_t> prefetched_steps_;  // of tasks in the station: steps whose inputs have been asked for
};

}  // namespace tessera::runtime
