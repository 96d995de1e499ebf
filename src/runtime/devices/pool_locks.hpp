// Has pools of host memory lock the pages that jobs have used, so that devices copy them at once (pool/page_locking.hpp).
// One for each runtime.
//
// Pages of a pool are unlocked where no job uses them: when nobody uses the segment, at the end of the runtime, and
// before fork, which waits for jobs, and keeps new ones from beginning, for half a second at most. If some job takes
// longer, the fork is slower, since the kernel copies locked pages at once.
#pragma once

#include <cstddef>
#include <span>

#include "device/device.hpp"
#include "kernels/backend.hpp"
#include "pool/page_locking.hpp"

namespace tessera::runtime {

class PoolLocks final : public pool::PageLocker {
 public:
  /// @param accelerators outlive this
  explicit PoolLocks(std::span<const kernels::Accelerator> accelerators) noexcept : accelerators_(accelerators) {}
  /// @pre no job runs
  ~PoolLocks();
  PoolLocks(const PoolLocks&) = delete;
  PoolLocks& operator=(const PoolLocks&) = delete;

  /// Held while devices may copy memory of a pool: nothing is unlocked that is in use. Waits for a thread that unlocks.
  class Use {
   public:
    Use() noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };

  /// A job has used the memory: pieces of pools that it lies in will be locked. Thread-safe.
  void note_used(std::span<const device::HostRange> ranges) noexcept;

 private:
  bool lock(std::byte* begin, std::size_t bytes) noexcept override;
  bool unlock(std::byte* begin, std::size_t bytes) noexcept override;

  std::span<const kernels::Accelerator> accelerators_;
};

}  // namespace tessera::runtime
