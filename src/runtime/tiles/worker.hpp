// The work of one device for one job, by the device's thread, the only one that submits to it. It takes tasks, submits
// their steps to the four compute streams, and writes results back. It never blocks on the device and never drains a
// stream, so that a thread can serve several workers in turns.
//
// Its parts: intake.hpp takes tasks; an order decides which step is next, where memory suffices (lane_order.hpp) or is
// short (group_order.hpp); pipeline.hpp has what is launched; results.hpp has what is computed. Source: BLASX, section
// IV-C and IV-D, Alg. 1.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"
#include "runtime/devices/signal.hpp"
#include "runtime/tiles/group_order.hpp"
#include "runtime/tiles/intake.hpp"
#include "runtime/tiles/lane_order.hpp"
#include "runtime/tiles/old_values.hpp"
#include "runtime/tiles/pipeline.hpp"
#include "runtime/tiles/results.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/workplace.hpp"

namespace tessera::runtime {

class Worker final : private DeviceTraffic::Source {
 public:
  static constexpr std::chrono::microseconds begin_patience{200};  ///< with workers of the job that have yet to wake up
  /// Slots beyond what a job's tiles take at most, so that room that is kept free for lanes and results on their way
  /// down holds nothing up.
  static constexpr std::size_t spare_slots = 32;

  using Torn = Results::Torn;
  struct Outcome {
    bool usable = true;        ///< the device can go on with the next attempt
    std::string error;         ///< why the attempt failed here; empty if it did not
    std::vector<TaskId> done;  ///< tasks whose output is in host memory, or of use no more (Output::intermediate)
    std::vector<Torn> torn;    ///< tasks whose write-back failed on the way
    std::vector<device::Operation> operations;
    std::int64_t steps = 0;
    std::int64_t stolen = 0;
    double flops = 0;
  };

  /// All references must outlive the worker. `signal` is raised when work of the device completes or others change the
  /// job. @param polls the device does not raise it
  /// @param old_values nullptr: old values are not kept while new ones are written back
  /// @param traffic of the device, where it may have several jobs
  Worker(int index, device::Device& device, kernels::TileOps& ops, cache::TileCache& cache, Signal& signal, bool polls,
         OldValues* old_values = nullptr, DeviceTraffic* traffic = nullptr)
      : place_{index, device, ops, cache, signal, old_values, traffic}, polls_(polls) {}
  ~Worker() override = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The outcome of a look at the job.
  enum class Look : std::uint8_t {
    busy,   ///< something was done
    idle,   ///< nothing will be to do before the signal is raised
    awake,  ///< likewise, but that is so soon that it is not worth sleeping
    ended
  };

  // By the device's own thread: arrive() once, look() until the job has ended, then leave().

  /// @pre the traffic has room for one more
  void arrive(TaskPool& job) noexcept;
  /// Does what can be done without waiting.
  Look look(TaskPool& job) noexcept;
  Outcome leave() noexcept;

  /// See LaneOrder::should_advance_side_by_side().
  bool should_advance_side_by_side(const TaskGraph& graph) const { return lanes_.should_advance_side_by_side(graph); }

  // The parts of these, for callers with a clock and a way to wait of their own (tests/modelled_run.hpp).
  void begin(TaskPool& job);
  /// Does what can be done without waiting. @return whether there was anything
  bool advance(TaskPool& job);
  /// @pre the job has ended
  Outcome finish();

 private:
  Backlog backlog() const override { return pipeline_.backlog(); }
  index_t queued_bytes() const override { return place_.cache.queued_bytes(place_.index); }
  void fail(TaskPool& job) noexcept;
  Look work(TaskPool& job);
  bool retire(TaskPool& job);

  const Workplace place_;
  const bool polls_;
  Results results_{place_};
  Pipeline pipeline_{place_, results_};
  Intake intake_{place_};
  LaneOrder lanes_{place_, pipeline_, results_, intake_};
  GroupOrder groups_{place_, pipeline_, results_, intake_};
  Order* order_ = &lanes_;                          // of the current job
  std::chrono::steady_clock::time_point start_by_;  // whether or not the others have arrived
  bool has_started_ = false;
  Outcome outcome_;
};

}  // namespace tessera::runtime
