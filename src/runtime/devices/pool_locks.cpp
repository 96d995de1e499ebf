#include "runtime/devices/pool_locks.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

#include "core/process.hpp"
#include "core/thread.hpp"
#include "pool/segment_pool.hpp"

namespace tessera::runtime {
namespace {

constexpr std::chrono::milliseconds fork_patience{500};
/// Where jobs may wait for the fork already: less than the time after which they go on beside it.
constexpr std::chrono::milliseconds patience_of_others = process::computing_patience / 2;

/// The time in which a driver unlocks it, and half as much again.
std::chrono::milliseconds time_for(std::size_t locked_bytes) {
  return std::chrono::milliseconds(27 * (locked_bytes >> 30));
}

using Pools = std::array<pool::LockablePool*, 2>;

/// That of the own API, and that of the program's malloc; nullptr where there is none.
Pools pools_of_process() {
  static const auto preloaded =
      reinterpret_cast<pool::PreloadedPool>(dlsym(RTLD_DEFAULT, pool::name_of_preloaded_pool));
  return {pool::SegmentPool::of_process(), preloaded != nullptr ? preloaded() : nullptr};
}

/// Jobs that may use pools, and threads that fork.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int jobs = 0;
  int forks = 0;
};
Gate& gate() {
  static Gate* const the_gate = new Gate;  // also used while the process ends
  return *the_gate;
}

/// Of the devices; none while the process ends.
class Locker final : public PageLocker {
 public:
  bool lock(std::byte* begin, std::size_t bytes) noexcept override {
    const process::Pass driving(process::Work::driving);
    return driving && of_devices.load()->lock(begin, bytes);
  }
  bool unlock(std::byte* begin, std::size_t bytes) noexcept override {
    const process::Pass driving(process::Work::driving);
    return driving && of_devices.load()->unlock(begin, bytes);
  }
  std::atomic<PageLocker*> of_devices = nullptr;
};
constinit Locker the_locker;

/// Those in which the fork that the thread makes has barred locking.
constinit thread_local Pools barred = {};

void before_fork() noexcept {
  const Pools pools = pools_of_process();
  const auto has_locked = [](const pool::LockablePool* each) { return each != nullptr && each->locked_bytes() > 0; };
  if (std::none_of(pools.begin(), pools.end(), has_locked)) return;
  const WithoutCancellation stays;
  const std::chrono::milliseconds patience = process::is_forking() ? patience_of_others : fork_patience;
  std::unique_lock held(gate().mutex);
  ++gate().forks;
  if (gate().changed.wait_for(held, patience, [] { return gate().jobs == 0; })) {
    barred = pools;
    for (pool::LockablePool* const each : pools) {
      if (each != nullptr) each->before_fork(fork_patience + time_for(each->locked_bytes()));
    }
  }
  --gate().forks;
  gate().changed.notify_all();
}

void after_fork_in_parent() noexcept {
  for (pool::LockablePool*& each : barred) {
    if (each != nullptr) each->after_fork();
    each = nullptr;
  }
}

void after_fork_in_child() noexcept {
  barred = {};
  new (&gate()) Gate;
}

}  // namespace

UseOfPools::UseOfPools() noexcept {
  const WithoutCancellation stays;
  std::unique_lock held(gate().mutex);
  gate().changed.wait(held, [] { return gate().forks == 0; });
  ++gate().jobs;
}

UseOfPools::~UseOfPools() {
  const std::lock_guard held(gate().mutex);
  if (--gate().jobs == 0) gate().changed.notify_all();
}

void watch_forks_for_pools() noexcept {
  gate();
  pools_of_process();
  // The first such pass registers the handlers of process.hpp: before ours, so that ours run while jobs still go on.
  static_cast<void>(process::Pass(process::Work::driving));
  static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(registered);
}

bool lies_in_pool(device::HostRange range) noexcept {
  const Pools pools = pools_of_process();
  return std::any_of(pools.begin(), pools.end(), [&](const pool::LockablePool* each) {
    return each != nullptr && each->has_all(range.begin, range.end - 1);
  });
}

void want_locked(std::span<const device::HostRange> ranges, PageLocker& locker) noexcept {
  PageLocker* none = nullptr;
  the_locker.of_devices.compare_exchange_strong(none, &locker);
  for (pool::LockablePool* const each : pools_of_process()) {
    for (const device::HostRange& range : ranges) {
      if (each != nullptr && each->has(range.begin)) each->want_locked(range.begin, the_locker);
    }
  }
}

}  // namespace tessera::runtime
