// Has pools of host memory lock the pages that jobs have used, so that devices copy them at once (pool/page_locking.hpp).
//
// Pages are unlocked where no job uses them: when nobody uses the segment, and before a fork. The fork waits for jobs,
// and keeps new ones from beginning, for half a second at most. If some job takes longer, pages stay locked, and the
// fork takes longer, since the kernel copies locked pages at once. All runtimes of the process share this: pages stay
// locked when a runtime ends.
#pragma once

#include <span>

#include "core/page_locker.hpp"
#include "device/device.hpp"

namespace tessera::runtime {

/// Held while devices may copy memory of a pool. Waits for a fork that unlocks.
class UseOfPools {
 public:
  UseOfPools() noexcept;
  ~UseOfPools();
  UseOfPools(const UseOfPools&) = delete;
  UseOfPools& operator=(const UseOfPools&) = delete;
};

/// To be called once devices are open, when a runtime is made: handlers of fork run in the opposite order of their
/// registration, so ours run before those of a driver.
void watch_forks_for_pools() noexcept;

/// Whether the range lies in one piece of a pool: memory of this process alone, which no file is behind. Thread-safe.
bool lies_in_pool(device::HostRange range) noexcept;

/// Devices have used the memory: pieces of pools that it lies in will be locked. Thread-safe.
/// @param locker of these devices; that of the first call stays
void want_locked(std::span<const device::HostRange> ranges, PageLocker& locker) noexcept;

}  // namespace tessera::runtime
