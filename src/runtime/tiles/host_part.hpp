// The part of a job that the host does: it goes on with results that are in host memory, while devices compute others.
//
// A graph may have such a part (TaskGraph::host_part). It changes results, so it begins only where devices read them
// from each other and never from host memory. If a device fails, it is undone before the rest is computed elsewhere,
// and waits for the end then.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <optional>

#include "core/mutex.hpp"
#include "runtime/devices/fresh_pages.hpp"
#include "runtime/tiles/step.hpp"

namespace tessera::runtime {

class HostPart {
 public:
  /// Whether the result of a task is in host memory.
  using IsHome = std::function<bool(TaskId)>;

  virtual ~HostPart() = default;

  /// Threads that it is worth; 0: it is not begun beside devices.
  virtual std::size_t threads() const = 0;
  /// Does a piece that may be done now. Several threads call this at once.
  /// @return what it has written; nothing: more results have to come first
  /// @throws std::bad_alloc before it has written anything
  virtual std::optional<WrittenArea> do_some(const IsHome& is_home) = 0;
  /// Results in host memory become what the tasks have made. All of the part is to be done anew.
  /// @pre no thread is in do_some()
  virtual void undo() noexcept = 0;
};

/// Threads that do the host's part while a job runs.
class HostPartThreads {
 public:
  /// @param part outlives this @param tell told of all that has been written; must not throw
  HostPartThreads(HostPart& part, std::function<void(const WrittenArea&)> tell) : part_(part), tell_(std::move(tell)) {}

  /// Runs the job on the calling thread, and the part on others until it returns or throws.
  void run(const std::function<void()>& job, const HostPart::IsHome& is_home);
  /// A result has come to host memory. Any thread, while run() lasts and before.
  void raise();

 private:
  void serve(const HostPart::IsHome& is_home);
  bool has_ended();
  void end();

  HostPart& part_;
  const std::function<void(const WrittenArea&)> tell_;
  Mutex mutex_;
  std::condition_variable changed_;
  index_t changes_ TESSERA_GUARDED_BY(mutex_) = 0;
  bool has_ended_ TESSERA_GUARDED_BY(mutex_) = false;
};

}  // namespace tessera::runtime
