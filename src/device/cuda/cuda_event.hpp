// Events of CUDA streams, their pool, and the conversion of GPU times to the host's steady clock.
//
// Time: the difference of two GPU events is a float in milliseconds. Its precision falls with the distance (60 ns at 1
// s, 60 us at 1000 s), and GPU and host clocks drift apart. A TimeBase is an event whose host time is known to a few
// microseconds. The device replaces its base every few seconds, and each event keeps the base that was current when it
// was recorded.
//
// Failure: an event has failed if CUDA says so. It has also failed if its stream had to wait for a failed event of
// another device (a "cause"). Its work may then have read data that the lost device never wrote.
//
// Lifetime: events keep the pool alive, not the device. A closed pool (its device is gone) destroys no more handles.
// The last reference may be dropped while the process exits, when CUDA must not be called.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda/cuda_context.hpp"
#include "device/device.hpp"

namespace tessera::device::cuda {

/// Timing-enabled event handles of one device. Thread-safe.
class EventPool {
 public:
  EventPool(int ordinal, CUcontext context) : ordinal_(ordinal), context_(context) {}
  ~EventPool() = default;
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  int ordinal() const { return ordinal_; }
  CUcontext context() const { return context_; }

  /// @throws DeviceLost
  cudaEvent_t take();
  void give(cudaEvent_t event) noexcept;
  /// Ends the era: a completed event no longer implies that the copies before it are complete. Existing events that are
  /// not yet known to be complete fail.
  void distrust() noexcept { ++era_; }
  /// The number of the current era. Events of one era are trusted until the next distrust().
  unsigned era() const noexcept { return era_; }
  /// Destroys the handles in the pool. Handles that return later are left to the end of the process.
  void close() noexcept;

 private:
  const int ordinal_;
  const CUcontext context_;
  std::atomic<unsigned> era_ = 0;
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
  bool closed_ = false;
};

/// A completed event and its time on the host's steady clock. Immutable once `seconds` is set.
struct TimeBase {
  explicit TimeBase(std::shared_ptr<EventPool> from) : pool(std::move(from)), event(pool->take()) {}
  ~TimeBase() { pool->give(event); }
  TimeBase(const TimeBase&) = delete;
  TimeBase& operator=(const TimeBase&) = delete;

  std::shared_ptr<EventPool> pool;
  cudaEvent_t event;
  double seconds = 0;
};

class CudaEvent final : public Event {
 public:
  using Causes = std::vector<std::shared_ptr<const CudaEvent>>;

  /// Takes a handle from the pool; the caller records it.
  /// @param era the pool's era, read before the stream was found to be trustworthy
  /// @throws DeviceLost
  CudaEvent(std::shared_ptr<EventPool> pool, unsigned era, std::shared_ptr<const TimeBase> base, Causes causes);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  EventStatus status() const noexcept override;
  /// Never throws: if the device has been lost since, returns the time of the base.
  double completed_at() const override;

  /// The last result of status(), without a query of CUDA.
  EventStatus known_status() const noexcept { return status_.load(std::memory_order_acquire); }
  cudaEvent_t handle() const { return handle_; }
  const EventPool* pool() const { return pool_.get(); }
  /// Appends the causes that are not known to be complete.
  void append_causes(Causes& causes) const;

 private:
  const std::shared_ptr<EventPool> pool_;
  const unsigned era_;
  const std::shared_ptr<const TimeBase> base_;
  const cudaEvent_t handle_;
  // Release in status() pairs with acquire in known_status(): a thread that sees `complete` also sees the stream's
  // writes to host memory. The store follows CUDA's own answer.
  mutable std::atomic<EventStatus> status_{EventStatus::pending};
  mutable std::mutex mutex_;  // guards causes_
  mutable Causes causes_;     // events of other devices; dropped once status() is final, so that chains stay short
};

}  // namespace tessera::device::cuda
