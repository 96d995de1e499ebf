// The worker of one device: the only thread that submits to it. Keeps the reservation station filled, puts the best
// tasks on the four compute streams step by step, starts write-backs, and lets go of tiles when the kernels that read
// them have completed. It never blocks on the device, and never drains a stream.
//
// A lane is a compute stream and the tasks that are submitted to it; on a single device the older a task is, the higher
// is the rank of the stream that its long kernels go to. A step is submitted in two parts. First its tiles are asked
// for, by up to `run_ahead` steps a task. While the tasks of a lane wait, it takes more tasks, which advance side by
// side, wave by wave: each tile that arrives then serves several products, and computing catches up with the link
// sooner. For the same reasons an output's old value is not fetched first where memory allows, but added after the
// products in a step of its own. A device without a kernel takes more tasks, too (starves()).
//
// Then, when its tiles have come, the step is launched, those of the oldest task first, and only as many as keep the
// device busy until we look again. Streams have no order among each other but a rank: what is launched when it is asked
// for runs in the order of arrival, or by rank, so that results are complete all at once, late, and go down while
// nothing is computed any more.
//
// A tile is asked for late, too: while DeviceProfile::link_queue_bytes wait behind the one that is on its way from the
// host, no further one is, so that each device fetches its share of what all need, and nobody waits for the end of a
// peer's queue. There is always a next one: between two tiles a link would wait for us, and copy threads would begin anew.
// Where no step asks, the tiles of the tasks in the station are fetched in advance as long as there is free memory;
// nothing is pinned or evicted for it, and the tasks may still be stolen.
//
// Where memory is short, a lane waits with what it has pinned; since there is room for an output and one step's inputs
// per lane, some lane can always go on. Side by side tasks go only where everything fits, and none waits for another
// one that itself waits for a result: of those that can be read, the one of the lowest wave can go on.
//
// Ordered graphs: tasks start in their order on every device, and a device holds no more outputs than it has room to
// compute, so the first unfinished task is always one that can go on: a step whose operand is not published yet, or a
// result that must not be written yet, waits only for earlier tasks.
//
// Grouped graphs (memory is short): instead of each lane its own tasks, the tasks of a group take turns over all lanes,
// in exactly the order that the forecast knows, and are launched when they are asked for. So the cache is told when
// each tile is needed next, and the prefetch may replace what is needed later than what it brings. Source: BLASX,
// section IV-C and IV-D, Alg. 1, Eq. 3.
//
// What is done for results is in worker_results.cpp.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/tile_cache.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"
#include "runtime/forecast.hpp"
#include "runtime/job.hpp"
#include "runtime/old_values.hpp"
#include "runtime/signal.hpp"
#include "runtime/statistics.hpp"

namespace tessera::runtime {

class Worker {
 public:
  /// Steps asked for and not launched, per task; launched and not completed, in a lane's stream before it takes a task,
  /// or of a group.
  static constexpr std::size_t run_ahead = 4;
  static constexpr std::size_t tasks_per_lane = 4;  ///< at most, while tiles are still arriving
  /// Launched kernels: DeviceProfile::backlog_s by the device's rough rate, but at least so many.
  static constexpr std::size_t fewest_kernels = 2;
  static constexpr std::size_t station_tasks_per_lane = 4;
  static constexpr std::chrono::microseconds begin_patience{200};  ///< with other workers that have not woken up yet
  /// Slots beyond what a job's tiles take at most, so that room that is kept free for lanes and results on their way
  /// down holds nothing up.
  static constexpr std::size_t spare_slots = 32;
  static constexpr std::size_t left_per_lane = 2;  ///< in the station, where a starved device takes some early

  struct Torn {
    TaskId task = 0;
    OldCopyPtr old = nullptr;  ///< of its output, or nullptr
  };
  struct Outcome {
    bool usable = true;        ///< the device can go on with the next attempt
    std::string error;         ///< why the attempt failed here; empty if it did not
    std::vector<TaskId> done;  ///< tasks whose output is in host memory
    std::vector<Torn> torn;    ///< tasks whose write-back failed on the way
    std::vector<device::Operation> operations;
    std::int64_t steps = 0;
    std::int64_t stolen = 0;
    double flops = 0;
  };

  /// All references must outlive the worker. `signal` is raised when work of the device completes or others change the
  /// job. @param old_values nullptr: old values are not kept while new ones are written back
  Worker(int index, device::Device& device, kernels::TileOps& ops, cache::TileCache& cache, Signal& signal, bool polls,
         OldValues* old_values = nullptr)
      : index_(index),
        device_(device),
        ops_(ops),
        cache_(cache),
        signal_(signal),
        polls_(polls),
        old_values_(old_values) {}

  /// Works on the job until it ends. @pre called by the device's own thread
  Outcome run(Job& job) noexcept;

  /// Whether tasks should advance side by side here. A job does so on all its devices or on none: results must not
  /// depend on which of them computes what.
  bool should_advance_side_by_side(const TaskGraph& graph) const;

  // The parts of run(), for who has a clock and a way to wait of their own (tests/modelled_run.hpp).
  void begin(const Job& job);
  /// Does what can be done without waiting. @return whether there was anything
  bool advance(Job& job);
  /// @pre the job has ended
  Outcome finish();

 private:
  struct Kernel {  // a submitted step
    device::EventPtr begun;
    device::EventPtr done;
    cache::Replica* x = nullptr;
    cache::Replica* y = nullptr;
    double flops = 0;
    // Set on a task's last step: then the output is complete.
    cache::Replica* output = nullptr;
    TaskId task = 0;
    std::int64_t number = 0;   // of the task, see Submission
    OldCopyPtr old = nullptr;  // of the output, likewise, or nullptr
  };
  struct Asked {  // a step whose tiles are here or on their way
    Step step;
    cache::Replica* x = nullptr;
    cache::Replica* y = nullptr;
    index_t number = 0;  // of the step
    bool adds = false;   // the output's old value; not one of the graph's steps
  };
  struct Submission {  // the task being submitted to a lane
    TaskId task = 0;
    std::int64_t number = 0;  // counts the tasks that this worker has taken
    index_t steps = 0;
    index_t next_step = 0;
    index_t wave = 0;  // of the next step
    cache::Replica* output = nullptr;
    cache::Replica* x = nullptr;          // pinned for the next step, while y has no room yet
    std::deque<Asked> asked = {};         // and not launched
    int stream = -1;                      // of the last kernel
    device::EventPtr launched = nullptr;  // completes with it
    // After so many steps one more adds the output's old value, times `beta`; 0: it was there from the start.
    index_t adds_after = 0;
    bool has_added = false;
    AnyScalar beta = 0;
    OldCopyPtr old = nullptr;  // of the output, once it is being made

    // Of grouped graphs: its group's first position and first wave, the number of tasks in it, and which of them this
    // is.
    index_t first_position = 0, first_wave = 0, turns = 1, turn = 0;

    bool adds_old() const { return adds_after > 0; }
    bool adds_next() const { return adds_old() && !has_added && next_step == adds_after; }
    bool all_asked() const { return next_step == steps && !adds_next(); }
    bool ended() const { return all_asked() && asked.empty(); }
  };
  struct Lane {
    std::vector<Submission> submissions;  // the oldest first
    std::deque<Kernel> kernels;           // of the stream of the same number, in its order
    std::byte* scratch = nullptr;         // for what steps compute apart
  };
  struct Held {  // a finished output, whose host tile other tasks may still read
    cache::Replica* output = nullptr;
    TaskId task = 0;
    OldCopyPtr old = nullptr;
    bool goes_without = false;  // there was no memory for it
  };
  struct WriteBack {
    device::EventPtr done;
    cache::Replica* output = nullptr;
    TaskId task = 0;
    OldCopyPtr old = nullptr;
  };

  bool retire(Job& job);
  bool retire_kernels(Job& job, std::vector<Held>& results);
  bool refill(Job& job);
  bool submit(Job& job);
  bool prefetch(Job& job);
  bool ask_for_step(Job& job, Lane& lane);
  bool ask(Job& job, Submission& submission);
  bool fetches_in_turn(const Job& job) const;
  bool holds_all_of(const TaskGraph& graph) const;
  bool launch_oldest(const Job& job);
  void launch(const Job& job, int stream, Submission& submission);
  int stream_for(int lane, const Submission& submission) const;
  bool may_launch(const Submission& submission) const;
  double expected_seconds(double flops) const;
  static bool has_come(const Submission& submission);
  bool is_here(const Job& job, const Submission& submission) const;
  bool comes_from_host(const Step& step) const;
  bool link_has_enough() const;
  bool must_wait_for_link(const Job& job, const Submission& submission);
  bool submit_group(Job& job);
  static bool is_readable(const Job& job, const Submission& submission);
  bool take_group(Job& job);
  bool prefetch_forecast(const Job& job);
  static index_t position_of(const Submission& s) {
    return s.first_position + (s.wave - s.first_wave) * s.turns + s.turn;
  }
  bool may_take_early(Job& job) const;
  index_t room_for_outputs(const TaskGraph& graph) const;
  index_t next_use(const HostTile& tile) const;
  bool room_will_come() const;
  index_t lookahead() const {
    return std::max<index_t>(static_cast<index_t>(group_tasks_.size()), run_ahead * device::compute_streams);
  }
  void submit_call(const Job& job, const Asked& asked, const Submission& submission, int lane);
  bool starves(Job& job) const;
  bool wants_another_task(Job& job, const Lane& lane) const;
  bool take_task(Job& job, Lane& lane);
  std::optional<StationEntry> steal(Job& job);
  void publish(Job& job, cache::Replica* output, TaskId task);
  bool keeps_old(const TaskGraph& graph, TaskId task) const;
  void keep_old(const Job& job, Submission& submission, OldValues::When when);
  void await_copy_of_old(const Job& job, Submission& submission, index_t step, device::StreamId stream);
  bool old_is_kept(const Job& job, Held& held);
  void write_back(const Held& held);
  double priority(const TaskGraph& graph, TaskId task) const;
  void settle_write_backs();
  bool repeat_write_back(const WriteBack& write_back) noexcept;

  int index_;
  device::Device& device_;
  kernels::TileOps& ops_;
  cache::TileCache& cache_;
  Signal& signal_;
  bool polls_;
  OldValues* old_values_;

  // State of the current job.
  ScalarType type_ = ScalarType::d;
  std::size_t active_lanes_ = 0;
  bool side_by_side_ = false;  // lanes may take several tasks, and old values of C are added last
  bool by_age_ = false;        // older tasks have the streams of higher rank
  bool in_turn_ = false;       // each lane takes one task after the other, and old values of C are added last, too
  std::array<Lane, device::compute_streams> lanes_;
  // Of grouped graphs.
  std::map<index_t, Submission> group_;  // the tasks that are being submitted, by the positions of their next steps
  std::vector<TaskId> group_tasks_;      // of the group that was taken last
  index_t group_begin_ = 0;              // its positions
  index_t group_end_ = 0;
  Forecast forecast_;
  index_t position_ = 0;    // of the next step in the forecast
  index_t prefetched_ = 0;  // position up to which inputs have been asked for
  std::deque<Held> held_;
  std::deque<WriteBack> write_backs_;           // in stream order
  index_t outputs_ = 0;                         // acquired and not finished
  std::int64_t taken_ = 0;                      // tasks
  bool has_taken_ = false;                      // since the priorities in the station were computed
  std::map<TaskId, index_t> prefetched_steps_;  // of tasks in the station: steps whose inputs have been asked for
  double first_kernel_s_ = 0;                   // on the clock of the events
  double completed_flops_ = 0;
  Outcome outcome_;
};

}  // namespace tessera::runtime
