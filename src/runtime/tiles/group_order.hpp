// The order where memory is short: the tasks of a group take turns over all lanes, in the order that the forecast knows.
// The cache learns when each tile is needed next, and a prefetch replaces only what is needed later than its own tile.
//
// Invariant: steps go by their positions in the forecast, one group after the other. A step whose operand is still being
// computed lets others pass. Source: BLASX, section IV-C and IV-D, Alg. 1, Eq. 3; Belady 1966.
#pragma once

#include <map>
#include <vector>

#include "runtime/tiles/forecast.hpp"
#include "runtime/tiles/order.hpp"

namespace tessera::runtime {

class GroupOrder final : public Order {
 public:
  using Order::Order;

  void begin(const TaskPool& job, std::size_t lanes) override;
  void clear() override;
  bool refill(TaskPool& job) override;
  bool submit(TaskPool& job) override;
  bool prefetch(TaskPool& job) override;

 private:
  struct Turn {  // of a task in its group
    Submission submission;
    index_t first_position = 0, first_wave = 0;  // of the group
    index_t turns = 1, turn = 0;                 // the number of tasks in it, and which of them this is

    /// Of its next step.
    index_t position() const { return first_position + (submission.wave - first_wave) * turns + turn; }
  };

  index_t next_use(const HostTile& tile) const override;
  index_t needed_soon() const override;

  std::vector<Submission> take_tasks(TaskPool& job);
  bool take_group(TaskPool& job);
  void continue_forecast(const TaskPool& job);
  bool may_take_early(TaskPool& job) const;
  bool prefetch_output(const TaskPool& job, index_t position, index_t end, bool& any);
  bool room_will_come() const { return results_.writing() > 0 || !pipeline_.is_empty(); }
  index_t lookahead() const {
    return std::max<index_t>(static_cast<index_t>(tasks_.size()), run_ahead * device::compute_streams);
  }

  std::size_t active_ = 0;         // lanes
  std::map<index_t, Turn> group_;  // the tasks that are being submitted, by the positions of their next steps
  std::vector<TaskId> tasks_;      // of the group that was taken last
  index_t begin_ = 0;              // its positions
  index_t end_ = 0;
  Forecast forecast_;
  index_t position_ = 0;    // of the next step in the forecast
  index_t prefetched_ = 0;  // position up to which inputs have been asked for
};

}  // namespace tessera::runtime
