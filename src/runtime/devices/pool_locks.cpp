#include "runtime/devices/pool_locks.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

#include "core/process.hpp"
#include "pool/segment_pool.hpp"

namespace tessera::runtime {
namespace {

constexpr std::chrono::milliseconds fork_patience{500};

using Pools = std::array<pool::LockablePool*, 2>;

/// That of the own API, and that of the program's malloc; nullptr where there is none.
Pools pools_of_process() {
  static const auto preloaded =
      reinterpret_cast<pool::PreloadedPool>(dlsym(RTLD_DEFAULT, pool::name_of_preloaded_pool));
  return {pool::SegmentPool::of_process(), preloaded != nullptr ? preloaded() : nullptr};
}

/// Jobs that may use pools, and the thread that forks.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int jobs = 0;
  bool is_closed = false;
};
Gate& gate() {
  static Gate* const the_gate = new Gate;  // also used while the process ends
  return *the_gate;
}

bool is_any_locked(const Pools& pools) {
  return std::any_of(pools.begin(), pools.end(),
                     [](const pool::LockablePool* each) { return each != nullptr && each->locked_bytes() > 0; });
}

void before_fork() noexcept {
  const Pools pools = pools_of_process();
  if (!is_any_locked(pools)) return;
  std::unique_lock held(gate().mutex);
  gate().is_closed = true;
  const bool is_idle = gate().changed.wait_for(held, fork_patience, [] { return gate().jobs == 0; });
  for (pool::LockablePool* const each : pools) {
    if (is_idle && each != nullptr) each->before_fork(fork_patience);
  }
  gate().is_closed = false;
  gate().changed.notify_all();
}

void after_fork_in_parent() noexcept {
  for (pool::LockablePool* const each : pools_of_process()) {
    if (each != nullptr) each->after_fork();
  }
}

void after_fork_in_child() noexcept { new (&gate()) Gate; }

/// Once devices are open: handlers run in the opposite order of their registration, so these run before a driver's.
void register_handlers() {
  static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(registered);
}

}  // namespace

PoolLocks::Use::Use() noexcept {
  std::unique_lock held(gate().mutex);
  gate().changed.wait(held, [] { return !gate().is_closed; });
  ++gate().jobs;
}

PoolLocks::Use::~Use() {
  const std::lock_guard held(gate().mutex);
  if (--gate().jobs == 0 && gate().is_closed) gate().changed.notify_all();
}

PoolLocks::~PoolLocks() {
  for (pool::LockablePool* const each : pools_of_process()) {
    if (each != nullptr) each->forget(*this);
  }
}

void PoolLocks::note_used(std::span<const device::HostRange> ranges) noexcept {
  for (pool::LockablePool* const each : pools_of_process()) {
    for (const device::HostRange& range : ranges) {
      if (each == nullptr || !each->has(range.begin)) continue;
      register_handlers();
      each->want_locked(range.begin, *this);
    }
  }
}

bool PoolLocks::lock(std::byte* begin, std::size_t bytes) noexcept {
  const process::Pass driving(process::Work::driving);
  return driving && accelerators_.front().device->lock_pages({begin, begin + bytes});
}

bool PoolLocks::unlock(std::byte* begin, std::size_t bytes) noexcept {
  const process::Pass driving(process::Work::driving);
  return driving && accelerators_.front().device->unlock_pages({begin, begin + bytes});
}

}  // namespace tessera::runtime
