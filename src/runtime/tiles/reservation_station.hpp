// A worker's buffer of upcoming tasks with their priorities (BLASX, section IV-C, Fig. 4). The owner takes the best task, a
// thief the worst. A task is passed over at most `patience` times: where memory is short, tasks whose tiles were evicted
// would otherwise wait for each other, and each would fetch a column of its own. Thread-safe: one mutex, held for a scan
// of a handful of entries.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/mutex.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

struct StationEntry {
  TaskId task = 0;
  double flops = 0;
  double priority = 0;  ///< Eq. 3; among equals the lower task number goes first
  bool stolen = false;
  int passed_over = 0;
};

class ReservationStation {
 public:
  static constexpr int patience = 4;

  /// Only the owner.
  void put(const StationEntry& entry) {
    const LockGuard lock(mutex_);
    entries_.push_back(entry);
  }

  /// Recomputes all priorities by `priority(task)`, without holding the lock while it computes. Only the owner.
  template <class F>
  void refresh(F&& priority) {
    std::vector<StationEntry> entries = snapshot();
    for (StationEntry& entry : entries) entry.priority = priority(entry.task);
    const LockGuard lock(mutex_);
    for (StationEntry& mine : entries_) {
      const auto found =
          std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.task == mine.task; });
      if (found != entries.end()) mine.priority = found->priority;
    }
  }

  /// The best task, if `accept` takes it; it leaves the station. Only the owner.
  template <class F>
  std::optional<StationEntry> take_best(F&& accept) {
    auto entry = take([](const StationEntry& a, const StationEntry& b) { return precedes(a, b); }, accept);
    if (entry) {
      const LockGuard lock(mutex_);
      for (StationEntry& left : entries_) ++left.passed_over;
    }
    return entry;
  }
  /// The worst task, if `accept` takes it; it leaves the station. Any thread.
  template <class F>
  std::optional<StationEntry> steal_worst(F&& accept) {
    return take([](const StationEntry& a, const StationEntry& b) { return precedes(b, a); }, accept);
  }

  /// The tasks, best first. Only the owner.
  std::vector<TaskId> ordered() const {
    std::vector<StationEntry> entries = snapshot();
    std::sort(entries.begin(), entries.end(), precedes);
    std::vector<TaskId> tasks;
    for (const StationEntry& entry : entries) tasks.push_back(entry.task);
    return tasks;
  }

  /// Any thread.
  std::size_t size() const {
    const LockGuard lock(mutex_);
    return entries_.size();
  }
  /// Any thread.
  double flops() const {
    const LockGuard lock(mutex_);
    double sum = 0;
    for (const StationEntry& entry : entries_) sum += entry.flops;
    return sum;
  }

 private:
  static bool precedes(const StationEntry& a, const StationEntry& b) {
    const bool a_waited = a.passed_over >= patience;
    const bool b_waited = b.passed_over >= patience;
    if (a_waited != b_waited) return a_waited;
    if (a_waited) return a.task < b.task;
    return a.priority != b.priority ? a.priority > b.priority : a.task < b.task;
  }
  std::vector<StationEntry> snapshot() const {
    const LockGuard lock(mutex_);
    return entries_;
  }
  template <class Before, class Accept>
  std::optional<StationEntry> take(Before before, Accept& accept) {
    const LockGuard lock(mutex_);
    const auto best = std::min_element(entries_.begin(), entries_.end(), before);
    if (best == entries_.end() || !accept(*best)) return std::nullopt;
    const StationEntry entry = *best;
    entries_.erase(best);
    return entry;
  }

  mutable Mutex mutex_;
  std::vector<StationEntry> entries_ TESSERA_GUARDED_BY(mutex_);
};

}  // namespace tessera::runtime
