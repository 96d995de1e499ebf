// The interface between a pool and the devices that have its pages locked.
//
// Devices copy page-locked memory at the full rate of the link, without a detour. Locking takes about 25 ms for each
// GiB, unlocking 18. So a pool locks in the background what calls have used, and keeps it locked when it is freed, for
// the next piece of that size. The pool of libtessera_memory.so has no driver: libtessera.so brings it one.
#pragma once

#include <chrono>
#include <cstddef>

#include "core/page_locker.hpp"

namespace tessera::pool {

/// A pool whose pieces can be page-locked. Thread-safe; nothing throws.
class LockablePool {
 public:
  virtual bool has(const void* address) const noexcept = 0;
  /// Whether all bytes from the first to the last one are in one piece.
  virtual bool has_all(const void* first, const void* last) const noexcept = 0;
  virtual std::size_t locked_bytes() const noexcept = 0;
  /// Devices have used the piece at this address: its pages will be locked soon, as far as the pool's limit allows.
  /// @param locker the first one stays the pool's. It is called without the pool's mutex.
  /// @pre the calling thread may start another one
  virtual void want_locked(const void* address, PageLocker& locker) noexcept = 0;
  /// Nothing is locked until as many calls of after_fork(). Unlocks the pieces of the program, since the kernel copies
  /// locked pages at once. @param patience to wait for that @pre no device copies memory of the pool
  virtual void before_fork(std::chrono::milliseconds patience) noexcept = 0;
  /// In the parent. A program that forks may do so again: nothing is locked for a while.
  virtual void after_fork() noexcept = 0;

 protected:
  ~LockablePool() = default;
};

/// libtessera_memory.so exports a function of this name and type. The number changes with the classes above and with
/// PageLocker. The function returns nullptr where there is no pool.
inline constexpr const char* name_of_preloaded_pool = "tessera_memory_pool_2";
using PreloadedPool = LockablePool* (*)();

}  // namespace tessera::pool
