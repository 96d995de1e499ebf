#include "device/cuda/cuda_event.hpp"

#include <utility>

#include "core/error.hpp"
#include "device/cuda/error_scope.hpp"

namespace tessera::device::cuda {

cudaEvent_t EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const cudaEvent_t event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  const CurrentContext current(context_);
  cudaEvent_t event = nullptr;
  check(ordinal_, "creating an event", cudaEventCreateWithFlags(&event, cudaEventDefault));
  return event;
}

void EventPool::give(cudaEvent_t event) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  // A handle may return to the pool while its last record is still pending. Recording it again is legal, and does not
  // affect streams that wait for the old record (cudaStreamWaitEvent captures it).
  try {
    idle_.push_back(event);
  } catch (...) {
    // Out of host memory: the handle stays unused until the process ends.
  }
}

void EventPool::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  const CurrentContext current(context_);
  for (const cudaEvent_t event : idle_) {
    if (cudaEventDestroy(event) != cudaSuccess) forget_error();
  }
  idle_.clear();
}

CudaEvent::CudaEvent(std::shared_ptr<EventPool> pool, unsigned era, std::shared_ptr<const TimeBase> base, Causes causes)
    : pool_(std::move(pool)), era_(era), base_(std::move(base)), handle_(pool_->take()), causes_(std::move(causes)) {}

CudaEvent::~CudaEvent() { pool_->give(handle_); }

EventStatus CudaEvent::status() const noexcept {
  EventStatus now = known_status();
  if (now != EventStatus::pending) return now;

  cudaError_t error = cudaSuccess;
  {
    const CurrentContext current(pool_->context());
    error = cudaEventQuery(handle_);
    // "Not ready" is not a failure, but the runtime records it as an error.
    if (error != cudaSuccess) forget_error();
  }
  if (error == cudaErrorNotReady || is_of_a_capture(error)) return EventStatus::pending;

  now = error == cudaSuccess && pool_->era() == era_ ? EventStatus::complete : EventStatus::failed;
  Causes dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  // Another thread may have been faster, and may have dropped the causes of its verdict.
  if (const EventStatus known = known_status(); known != EventStatus::pending) return known;
  if (now == EventStatus::complete) {
    for (const auto& cause : causes_) {
      const EventStatus before = cause->status();
      if (before == EventStatus::pending) return EventStatus::pending;
      if (before == EventStatus::failed) now = EventStatus::failed;
    }
  }
  dropped.swap(causes_);
  status_.store(now, std::memory_order_release);
  return now;
}

double CudaEvent::completed_at() const {
  const CurrentContext current(pool_->context());
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, base_->event, handle_) != cudaSuccess) {
    // The device was lost after the event completed. Times are for statistics only, which must not fail because of
    // that.
    forget_error();
    milliseconds = 0;
  }
  return base_->seconds + 1e-3 * static_cast<double>(milliseconds);
}

void CudaEvent::append_causes(Causes& causes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& cause : causes_) {
    if (cause->known_status() != EventStatus::complete) causes.push_back(cause);
  }
}

}  // namespace tessera::device::cuda
