// Locks pages of host memory, so that devices copy them at once.
#pragma once

#include <cstddef>

namespace tessera {

/// Lives as long as the process. Thread-safe; nothing throws.
class PageLocker {
 public:
  /// Locks whole pages, for all devices of its kind. @return false: they are as before
  virtual bool lock(std::byte* begin, std::size_t bytes) noexcept = 0;
  /// @pre lock() has locked just these, and no device copies them
  /// @return false: they may still be locked, so these addresses must never be anything else
  virtual bool unlock(std::byte* begin, std::size_t bytes) noexcept = 0;

 protected:
  ~PageLocker() = default;
};

}  // namespace tessera
