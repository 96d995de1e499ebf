// Decides in which order a worker asks for the steps of its tasks, fetches ahead and launches. How a step's tiles are
// asked for is the same in all orders.
//
// A tile is asked for late, so that devices share the fetches and none waits for the end of a peer's queue. But a next
// one always waits (DeviceProfile::link_queue_bytes), or the link idles between two tiles.
#pragma once

#include <cstddef>

#include "runtime/tiles/intake.hpp"
#include "runtime/tiles/pipeline.hpp"
#include "runtime/tiles/results.hpp"
#include "runtime/tiles/submission.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/workplace.hpp"

namespace tessera::runtime {

/// Owned and used by one worker.
class Order {
 public:
  /// Steps asked for and not launched, per task; launched and not completed, in a lane's stream before it takes a task,
  /// or of a group.
  static constexpr std::size_t run_ahead = 4;

  Order(const Workplace& place, Pipeline& pipeline, Results& results, Intake& intake)
      : place_(place), pipeline_(pipeline), results_(results), intake_(intake) {}
  virtual ~Order() = default;
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  /// @param lanes that are worked on
  virtual void begin(const TaskPool& job, std::size_t lanes) = 0;
  /// Forgets the tasks.
  virtual void clear() = 0;

  /// Each does what can be done without waiting. @return whether there was anything
  virtual bool refill(TaskPool& job) = 0;    ///< the station
  virtual bool submit(TaskPool& job) = 0;    ///< asks for, or launches, one step for each lane at most
  virtual bool prefetch(TaskPool& job) = 0;  ///< tiles that will be asked for

 protected:
  /// Pins the tiles of the task's next step, which brings them here.
  /// @return false if that cannot be yet: no room for one of its tiles, an operand that is not computed yet, or a link
  /// that has enough to do
  bool ask(TaskPool& job, Submission& submission);
  /// Whether the operands of the next step have been computed, and it is still to be.
  static bool is_readable(const TaskPool& job, const Submission& submission);

  /// Lets go of a task that the job leaves out, when nothing that has been submitted for it is left. It might block
  /// others, which are not left out. @return whether it has
  bool drop(const TaskPool& job, const Submission& submission);

  /// Whether old values of outputs are not fetched first but added after the products, where the task allows it.
  virtual bool adds_old_values_last() const { return false; }
  virtual bool must_wait_for_link(const TaskPool& /*job*/, const Submission& /*submission*/) const {
    return place_.link_has_enough();
  }
  /// next_use(): when the tile that is being asked for will be wanted again. needed_soon(): tiles that will be wanted
  /// by then make no room for an output.
  virtual index_t next_use(const HostTile& /*tile*/) const { return cache::never; }
  virtual index_t needed_soon() const { return -1; }

  const Workplace& place_;
  Pipeline& pipeline_;
  Results& results_;
  Intake& intake_;

 private:
  bool comes_from_host(const Step& step) const;
};

}  // namespace tessera::runtime
