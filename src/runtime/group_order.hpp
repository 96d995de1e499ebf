// Grouped graphs (memory is short): instead of each lane its own tasks, the tasks of a group take turns over all lanes,
// in exactly the order that the forecast knows, and are launched when they are asked for. So the cache is told when each
// tile is needed next, and the prefetch may replace what is needed later than what it brings.
//
// Invariant: steps go by their positions in the forecast, of one group after the other, except that a step whose operand
// is still being computed lets others pass. Source: BLASX, section IV-C and IV-D, Alg. 1, Eq. 3; Belady 1966.
#pragma once

#include <map>
#include <vector>

#include "runtime/forecast.hpp"
#include "runtime/order.hpp"

namespace tessera::runtime {

class GroupOrder final : public Order {
 public:
  using Order::Order;

  void begin(const Job& job, std::size_t lanes) override;
  void clear() override;
  bool refill(Job& job) override;
  bool submit(Job& job) override;
  bool prefetch(Job& job) override;

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

  std::vector<Submission> take_tasks(Job& job);
  bool take_group(Job& job);
  void continue_forecast(const Job& job);
  bool may_take_early(Job& job) const;
  bool prefetch_output(const Job& job, index_t position, index_t end, bool& any);
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
