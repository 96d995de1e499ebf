// Each lane its own tasks: a lane is a compute stream and the tasks that are submitted to it; on a single device the
// older a task is, the higher is the rank of the stream that its long kernels go to. A step is submitted in two parts.
// First its tiles are asked for, by up to `run_ahead` steps a task. While the tasks of a lane wait, it takes more tasks,
// which advance side by side, wave by wave: each tile that arrives then serves several products, and computing catches
// up with the link sooner. For the same reasons an output's old value is not fetched first where memory allows, but added
// after the products in a step of its own. A device without a kernel takes more tasks, too (starves()).
//
// Then, when its tiles have come, the step is launched, those of the oldest task first, and only as many as keep the
// device busy until we look again. Streams have no order among each other but a rank: what is launched when it is asked
// for runs in the order of arrival, or by rank, so that results are complete all at once, late, and go down while
// nothing is computed any more.
//
// Where no step asks, the tiles of the tasks in the station are fetched in advance as long as there is free memory;
// nothing is pinned or evicted for it, and the tasks may still be stolen.
//
// Invariant: some lane can go on. Where memory is short, a lane waits with what it has pinned, but there is room for an
// output and one step's inputs per lane (LaneRoom). Side by side tasks go only where everything fits, and none waits for
// another one that itself waits for a result: of those that can be read, the one of the lowest wave can go on. In
// ordered graphs the first task that has not been computed is always one that can go on: a step whose operand is not
// published yet, or a result that must not be written yet, waits only for earlier tasks. Intermediate results wait for
// later ones, but only where there is room for all results at once (Results). Source: BLASX, section IV-C, Alg. 1.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "runtime/order.hpp"

namespace tessera::runtime {

class LaneOrder final : public Order {
 public:
  static constexpr std::size_t tasks_per_lane = 4;  ///< at most, while tiles are still arriving
  static constexpr std::size_t left_per_lane = 2;   ///< in the station, where a starved device takes some early

  using Order::Order;

  /// Whether tasks should advance side by side here. A job does so on all its devices or on none: results must not
  /// depend on which of them computes what.
  bool should_advance_side_by_side(const TaskGraph& graph) const;

  void begin(const Job& job, std::size_t lanes) override;
  void clear() override;
  bool refill(Job& job) override { return intake_.fill(job); }
  bool submit(Job& job) override;
  bool prefetch(Job& job) override;

 private:
  using Lane = std::vector<Submission>;  // the oldest first
  using LaneNumbers = std::array<std::size_t, device::compute_streams>;

  bool adds_old_values_last() const override { return side_by_side_ || in_turn_; }
  bool must_wait_for_link(const Job& job, const Submission& submission) const override;

  bool has_older_without_output(const Submission& submission) const;
  bool fetches_in_turn(const Job& job) const;
  bool holds_all_of(const TaskGraph& graph) const;
  bool wants_another_task(Job& job, std::size_t lane) const;
  bool starves(Job& job) const;
  LaneNumbers lanes_in_order() const;
  bool ask_for_step(Job& job, Lane& lane);
  bool launch_oldest(const Job& job);
  int stream_for(std::size_t lane, const Submission& submission) const;
  bool may_launch(const Submission& submission) const;
  static bool has_come(const Submission& submission);
  bool is_here(const Job& job, const Submission& submission) const;
  double expected_seconds(const Asked& step) const;
  bool prefetch_old_values(index_t reserve, bool& any) const;
  void prefetch_station(Job& job, index_t reserve, bool& any);

  ScalarType type_ = ScalarType::d;
  std::size_t active_ = 0;     // lanes
  bool side_by_side_ = false;  // lanes may take several tasks, and old values of C are added last
  bool by_age_ = false;        // older tasks have the streams of higher rank
  bool in_turn_ = false;       // each lane takes one task after the other, and old values of C are added last, too
  std::array<Lane, device::compute_streams> lanes_;
  std::map<TaskId, index_t> prefetched_steps_;  // of tasks in the station: steps whose inputs have been asked for
};

}  // namespace tessera::runtime
