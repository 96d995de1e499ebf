// A mutex and its locks, as those of the standard library, that clang can check (core/thread_safety.hpp).
#pragma once

#include <mutex>

#include "core/thread_safety.hpp"

namespace tessera {

class TESSERA_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() TESSERA_ACQUIRE() { native_.lock(); }
  void unlock() TESSERA_RELEASE() { native_.unlock(); }

 private:
  friend class UniqueLock;
  std::mutex native_;
};

/// Holds the mutex.
class TESSERA_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) TESSERA_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~LockGuard() TESSERA_RELEASE() { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Mutex& mutex_;
};

/// Holds the mutex, except between unlock() and lock() and while a condition variable waits with native().
class TESSERA_SCOPED_CAPABILITY UniqueLock {
 public:
  explicit UniqueLock(Mutex& mutex) TESSERA_ACQUIRE(mutex) : native_(mutex.native_) {}
  ~UniqueLock() TESSERA_RELEASE() {}
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;
  void lock() TESSERA_ACQUIRE() TESSERA_UNCHECKED { native_.lock(); }
  void unlock() TESSERA_RELEASE() TESSERA_UNCHECKED { native_.unlock(); }
  std::unique_lock<std::mutex>& native() { return native_; }

 private:
  std::unique_lock<std::mutex> native_;
};

}  // namespace tessera
