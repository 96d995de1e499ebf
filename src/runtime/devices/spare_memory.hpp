// Page-locked host memory that calls have used and the next one may use again: locking pages takes longer than what lies
// in them. One piece is kept, the largest, until nobody has called for a while. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/mutex.hpp"
#include "device/device.hpp"

namespace tessera::runtime {

class SpareMemory {
 public:
  /// At least so many bytes; back here when the last owner lets go of it. @pre the device outlives it
  /// @throws std::bad_alloc
  std::shared_ptr<device::HostMemory> take(std::size_t bytes, device::Device& device) {
    std::unique_ptr<device::HostMemory> memory = exchange(nullptr);
    if (!memory || memory->bytes() < bytes) {
      memory.reset();
      memory = device.host_memory(bytes);
    }
    // A piece that cannot be handed over is freed.
    return {memory.release(),
            [this](device::HostMemory* used) { give_back(std::unique_ptr<device::HostMemory>(used)); }};
  }
  void free() { exchange(nullptr); }
  bool holds_any() const {
    const LockGuard lock(mutex_);
    return spare_ != nullptr;
  }

 private:
  std::unique_ptr<device::HostMemory> exchange(std::unique_ptr<device::HostMemory> memory) {
    const LockGuard lock(mutex_);
    return std::exchange(spare_, std::move(memory));
  }
  void give_back(std::unique_ptr<device::HostMemory> used) {
    {
      const LockGuard lock(mutex_);
      if (!spare_ || spare_->bytes() < used->bytes()) std::swap(spare_, used);
    }  // the other one is freed without the lock
  }

  mutable Mutex mutex_;
  std::unique_ptr<device::HostMemory> spare_ TESSERA_GUARDED_BY(mutex_);
};

}  // namespace tessera::runtime
