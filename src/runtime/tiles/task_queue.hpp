// A lock-free queue of the tasks that are at home on one device (Michael and Scott, as Boost.Lockfree has it). A device
// draws from its own by demand, and from others' when it is empty (BLASX, section IV-C, has one queue for all).
#pragma once

#include <boost/lockfree/queue.hpp>
#include <optional>

#include "core/error.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

class TaskQueue {
 public:
  /// Reserves nodes for `expected` tasks; more are allocated when they come.
  explicit TaskQueue(index_t expected) : queue_(0) {
    // The queue's constructor would lose the nodes that it has where memory ends.
    queue_.reserve_unsafe(static_cast<std::size_t>(expected));
  }

  /// Any thread.
  void push(TaskId task) {
    if (!queue_.push(task)) throw InternalError("task queue: out of memory");
  }
  /// Any thread.
  std::optional<TaskId> pop() {
    TaskId task = 0;
    return queue_.pop(task) ? std::optional(task) : std::nullopt;
  }

 private:
  boost::lockfree::queue<TaskId> queue_;
};

}  // namespace tessera::runtime
