// The history of a device: one record per copy and kernel, with times from the events around it. The job statistics and
// the trace are made of it. Belongs to the thread that feeds the device; not thread-safe.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "device/device.hpp"

namespace tessera::device {

/// A finished copy or kernel. `bytes` for copies, `flops` for kernels; `task` and `step` of its job, -1 if there is
/// none.
struct Operation {
  StreamId stream;
  double begin_s = 0;  ///< on the clock of device::now_seconds
  double end_s = 0;
  index_t bytes = 0;
  double flops = 0;
  index_t task = -1;
  index_t step = -1;
  const char* kernel = nullptr;  ///< its name, a literal; nullptr for copies
};

class OperationLog {
 public:
  void add(const Operation& operation, EventPtr begin, EventPtr end) {
    pending_[static_cast<std::size_t>(stream_number(operation.stream))].push_back(
        {operation, std::move(begin), std::move(end)});
  }

  /// Takes the times of completed operations and releases their events.
  void resolve() {
    for (auto& stream : pending_) {
      for (; !stream.empty() && stream.front().end->status() == EventStatus::complete; stream.pop_front()) {
        Operation& operation = finished_.emplace_back(stream.front().operation);
        operation.begin_s = stream.front().begin->completed_at();
        operation.end_s = stream.front().end->completed_at();
      }
    }
  }

  std::vector<Operation> take_finished() { return std::exchange(finished_, {}); }

  void clear() {
    for (auto& stream : pending_) stream.clear();
    finished_.clear();
  }

 private:
  struct Pending {
    Operation operation;
    EventPtr begin;
    EventPtr end;
  };
  std::vector<std::deque<Pending>> pending_ = std::vector<std::deque<Pending>>(stream_count);  // in stream order
  std::vector<Operation> finished_;
};

}  // namespace tessera::device
