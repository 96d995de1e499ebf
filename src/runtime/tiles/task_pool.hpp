// The tasks of a job in one attempt, and how far each is: the ready ones, the stations, and what each device has taken
// on. Owned by the attempt and shared by its workers, who call it `job`, since they know no more of the job. If a
// device fails the attempt ends, and the next one has a pool of the tasks that are left. Thread-safe once it is made.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tiles/load_balance.hpp"
#include "runtime/tiles/reservation_station.hpp"
#include "runtime/tiles/task_graph.hpp"
#include "runtime/tiles/task_queue.hpp"

namespace tessera::runtime {

class TaskPool {
 public:
  /// @param usable which devices take part. @param pending tasks to do, in order. @param side_by_side see
  /// Worker::should_advance_side_by_side. @param raise wakes all workers. @param announce_end called once ends_soon().
  TaskPool(const TaskGraph& graph, const std::vector<bool>& usable, const std::vector<TaskId>& pending,
           bool side_by_side, std::function<void()> raise, std::function<void()> announce_end)
      : graph_(graph),
        side_by_side_(side_by_side),
        stations_(usable.size()),
        loads_(usable.size()),
        unwritten_(static_cast<index_t>(pending.size())),
        unfinished_(static_cast<index_t>(pending.size())),
        raise_(std::move(raise)),
        announce_end_(std::move(announce_end)) {
    if (graph.ordered) {
      progress_ = std::deque<Progress>(static_cast<std::size_t>(graph.task_count));
      for (Progress& task : progress_) task.done = task.published = true;
    }
    std::vector<std::size_t> homes;
    for (std::size_t d = 0; d < usable.size(); ++d) {
      queues_.emplace_back(static_cast<index_t>(pending.size() / usable.size() + 1));
      loads_[d].absent = !usable[d];
      if (usable[d]) homes.push_back(d);
    }
    usable_count_ = homes.size();
    double flops = 0;
    if (graph.grouped()) pending_ = pending;
    TaskId group_end = 0;
    index_t queued = 0;
    for (const TaskId task : pending) {
      if (graph.ordered) at(task).done = at(task).published = false;
      if (!graph.grouped()) {
        const index_t home = graph.home(task, static_cast<index_t>(homes.size()));
        const std::size_t device = homes[static_cast<std::size_t>(home)];
        queues_[device].push(task);
        loads_[device].spare.fetch_add(1, std::memory_order_relaxed);
      } else if (task >= group_end) {
        queues_[0].push(task);
        ++queued;
      }
      if (graph.grouped()) group_end = graph.group_end(task);
      flops += graph.of(task).flops;
    }
    queued_.store(queued, std::memory_order_relaxed);
    unassigned_flops_.store(flops, std::memory_order_relaxed);
  }

  const TaskGraph& graph() const { return graph_; }
  bool side_by_side() const { return side_by_side_; }
  /// The next task that is at home on a device. @pre not graph().grouped()
  std::optional<TaskId> pop(std::size_t home) {
    auto task = queues_[home].pop();
    while (task && leaves_out(*task)) task = queues_[home].pop();
    return task;
  }
  /// The tasks to do of the next group, in order; empty if there is none. @pre graph().grouped()
  /// @param ahead for later: the last groups are left to devices that can start them now
  std::vector<TaskId> draw_group(bool ahead) {
    // An estimate: whoever draws meanwhile leaves one group less, which stealing makes good.
    if (ahead && queued_.load(std::memory_order_relaxed) < static_cast<index_t>(usable_count_)) return {};
    const auto first = queues_[0].pop();
    if (!first) return {};
    queued_.fetch_sub(1, std::memory_order_relaxed);
    const auto begin = std::lower_bound(pending_.begin(), pending_.end(), *first);
    return {begin, std::lower_bound(begin, pending_.end(), graph_.group_end(*first))};
  }
  ReservationStation& station(std::size_t device) { return stations_[device]; }
  std::size_t device_count() const { return stations_.size(); }
  /// Of those, the ones that take part.
  std::size_t usable_count() const { return usable_count_; }

  /// A worker is ready to begin. Each calls it once.
  void arrive() { arrived_.fetch_add(1, std::memory_order_relaxed); }
  bool all_arrived() const { return arrived_.load(std::memory_order_relaxed) == usable_count_; }

  /// True when nothing is left to do or nothing more can be done.
  bool ended() const { return unfinished_.load(std::memory_order_acquire) == 0 || failed(); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // pairs with fail()
  /// Whether all results are in host memory or on their way there, but for those that need not go.
  bool ends_soon() const { return unwritten_.load(std::memory_order_relaxed) == 0; }
  /// A task's result goes to host memory from now on, or is there, or need not go.
  void begin_write_back() {
    if (unwritten_.fetch_sub(1, std::memory_order_relaxed) == 1) announce_end_();
  }
  /// @pre begin_write_back() was called for it
  void finish_task(TaskId task) {
    // Pairs with may_overwrite(). A task that has been left out counts no more.
    if (graph_.ordered && at(task).done.exchange(true, std::memory_order_acq_rel)) return;
    // Pairs with ended(): a thread that sees zero sees everything that was done before.
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1 || graph_.ordered) raise_();
  }

  /// Whether its result is in host memory. @pre graph().ordered; it is no intermediate one, and factors without a
  /// breakdown
  bool is_done(TaskId task) const { return at(task).done.load(std::memory_order_acquire); }

  /// The task's output can be pinned by other tasks.
  void publish(TaskId task) {
    at(task).published.store(true, std::memory_order_release);  // pairs with readable()
    raise_();
  }
  bool readable(const Read& read, TaskId reader) const {
    const TaskId result = read.result_of(reader);
    return result == no_task || at(result).published.load(std::memory_order_acquire);
  }
  bool readable(const Step& step, TaskId reader) const { return readable(step.a, reader) && readable(step.b, reader); }
  /// Whether the task's result may go to host memory.
  bool may_overwrite(TaskId task) const {
    const TaskId reader = graph_.of(task).write_after;
    return reader == no_task || at(reader).done.load(std::memory_order_acquire);
  }
  void fail() {
    failed_.store(true, std::memory_order_release);  // pairs with failed()
    raise_();
  }

  /// The task has been factored in vain: it is still written back, as LAPACK leaves its tile behind, and what depends
  /// on it is left out. Where tiles are factored beside each other, the first to break down is the one that counts.
  /// @pre its result is not published
  void break_down(const Breakdown& breakdown) {
    if (has_broken_.exchange(true, std::memory_order_relaxed)) return;
    info_ = breakdown.info;
    left_out_ = dependents_of(graph_, breakdown.task);
    broken_.store(breakdown.task, std::memory_order_release);  // pairs with breakdown()
    // Hardly any of these is still done: one that is complete beside a tile before it that is factored again.
    index_t left_out = 0;
    for (TaskId task = 0; task < graph_.task_count; ++task)
      left_out += leaves_out(task) && !at(task).done.exchange(true, std::memory_order_acq_rel) ? 1 : 0;
    if (left_out == 0) return;
    if (unwritten_.fetch_sub(left_out, std::memory_order_relaxed) == left_out) announce_end_();
    unfinished_.fetch_sub(left_out, std::memory_order_acq_rel);  // not to zero: the broken task is not finished
    raise_();
  }
  Breakdown breakdown() const {
    const TaskId task =
        broken_.load(std::memory_order_acquire);  // pairs with break_down(); info_ does not change any more
    return task == no_task ? Breakdown{} : Breakdown{task, info_};
  }
  /// Whether the task cannot be done any more.
  bool leaves_out(TaskId task) const {
    return broken_.load(std::memory_order_acquire) != no_task &&  // pairs with break_down()
           left_out_[static_cast<std::size_t>(task)];
  }

  /// The device is about to take so many of the tasks that are at home there, and others take only those beyond: where
  /// tasks are few, the quickest would otherwise take them all. This ends when something has been computed: from then
  /// on the device may leave tasks to faster ones. @pre not graph().grouped()
  void reserve(std::size_t device, index_t tasks) {
    Load& load = loads_[device];
    load.reserved.store(tasks, std::memory_order_relaxed);
    load.spare.fetch_sub(tasks, std::memory_order_relaxed);
    load.reserves.store(true, std::memory_order_relaxed);
  }
  /// Whether others may take what is at home there.
  bool has_spare_tasks(std::size_t device) const {
    const Load& load = loads_[device];
    return has_computed_.load(std::memory_order_relaxed) || !load.reserves.load(std::memory_order_relaxed) ||
           load.spare.load(std::memory_order_relaxed) > 0;
  }
  /// Somebody else has taken a task that is at home there.
  void note_stolen(std::size_t home) { loads_[home].spare.fetch_sub(1, std::memory_order_relaxed); }
  /// @param stolen it is not at home there
  void take(std::size_t device, double flops, bool stolen = false) {
    Load& load = loads_[device];
    if (!stolen && load.reserved.fetch_sub(1, std::memory_order_relaxed) <= 0)
      load.spare.fetch_sub(1, std::memory_order_relaxed);
    // In this order, so that whoever looks meanwhile sees no less than is left.
    load.committed_flops.fetch_add(flops, std::memory_order_relaxed);
    unassigned_flops_.fetch_sub(flops, std::memory_order_relaxed);
  }
  void complete(std::size_t device, double flops, double measured_flops_per_s) {
    loads_[device].committed_flops.fetch_sub(flops, std::memory_order_relaxed);
    loads_[device].flops_per_s.store(measured_flops_per_s, std::memory_order_relaxed);
    if (!has_computed_.exchange(true, std::memory_order_relaxed)) raise_();
  }

  /// Of the work that devices have not computed yet. Tasks that the CPU has taken count as done. Thread-safe.
  double flops_left() const {
    double left = unassigned_flops_.load(std::memory_order_relaxed);
    for (const Load& load : loads_) left += load.committed_flops.load(std::memory_order_relaxed);
    return left;
  }

  /// A task that the CPU should compute now, if there is one: what no device has begun. Tasks that depend on each
  /// other, and groups, are the devices' alone.
  std::optional<TaskId> take_for_cpu(const CpuHelp& help) {
    if (graph_.ordered || graph_.grouped()) return std::nullopt;
    const double left = flops_left();
    double measured = 0;
    for (const Load& load : loads_) measured += load.flops_per_s.load(std::memory_order_relaxed);
    const auto take = [&](double flops) { return cpu_should_take(help, measured, flops, left); };
    const auto taken = [&](double flops) { unassigned_flops_.fetch_sub(flops, std::memory_order_relaxed); };
    // Tasks differ little, those at edges and on diagonals are smaller.
    if (!take(graph_.work.flops / static_cast<double>(graph_.task_count))) return std::nullopt;
    for (std::size_t d = 0; d < queues_.size(); ++d) {
      if (const auto task = queues_[d].pop()) {
        note_stolen(d);
        taken(graph_.of(*task).flops);
        return task;
      }
    }
    for (std::size_t d = 0; d < stations_.size(); ++d) {
      if (const auto entry = stations_[d].steal_worst([&](const StationEntry& e) { return take(e.flops); })) {
        if (!entry->stolen) note_stolen(d);
        taken(entry->flops);
        return entry->task;
      }
    }
    return std::nullopt;
  }

  /// Whether `device` should take a task now. A device that has not computed yet counts as fast as the fastest.
  bool should_take(std::size_t device, double task_flops) const {
    if (graph_.ordered) return true;  // a device that leaves a task to others might wait for it
    std::vector<DeviceLoad> loads(loads_.size());
    double fastest = 0;
    for (std::size_t d = 0; d < loads.size(); ++d) {
      // An estimate: relaxed loads that may belong to different moments are good enough.
      loads[d] = {loads_[d].committed_flops.load(std::memory_order_relaxed),
                  loads_[d].flops_per_s.load(std::memory_order_relaxed)};
      fastest = std::max(fastest, loads[d].flops_per_s);
    }
    for (std::size_t d = 0; d < loads.size(); ++d) {
      if (loads_[d].absent) {
        loads[d].flops_per_s = 0;
      } else if (loads[d].flops_per_s <= 0) {
        loads[d].flops_per_s = fastest > 0 ? fastest : 1;
      }
    }
    return runtime::should_take(loads, device, task_flops, unassigned_flops_.load(std::memory_order_relaxed));
  }

 private:
  struct Load {
    std::atomic<double> committed_flops{0};
    std::atomic<double> flops_per_s{0};
    std::atomic<bool> reserves{false};
    std::atomic<index_t> reserved{0};  // tasks, not taken yet
    std::atomic<index_t> spare{0};     // tasks at home here that nobody has taken, less those reserved
    bool absent = false;
  };

  struct Progress {  // of a task of an ordered graph
    std::atomic<bool> done{false};
    std::atomic<bool> published{false};
  };
  Progress& at(TaskId task) { return progress_[static_cast<std::size_t>(task)]; }
  const Progress& at(TaskId task) const { return progress_[static_cast<std::size_t>(task)]; }

  const TaskGraph& graph_;
  bool side_by_side_;
  std::size_t usable_count_ = 0;
  std::atomic<std::size_t> arrived_{0};  // a hint: nothing is read because of it
  std::deque<TaskQueue> queues_;         // by home; of grouped graphs the first task of each group, all in the first
  std::atomic<index_t> queued_{0};       // groups in it
  std::vector<TaskId> pending_;          // ascending; of grouped graphs only
  std::deque<ReservationStation> stations_;
  std::deque<Load> loads_;
  std::atomic<bool> has_computed_{false};  // some device, something
  std::deque<Progress> progress_;          // by task, of ordered graphs only
  std::atomic<double> unassigned_flops_{0};
  std::atomic<index_t> unwritten_;  // a hint: nothing is read because of it
  std::atomic<index_t> unfinished_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> has_broken_{false};  // the thread that sets it writes the next three
  std::atomic<TaskId> broken_{no_task};
  index_t info_ = 0;            // written before broken_, as is left_out_
  std::vector<bool> left_out_;  // by task
  std::function<void()> raise_;
  std::function<void()> announce_end_;
};

}  // namespace tessera::runtime
