#include "offload/call_observer.hpp"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>

namespace tessera::offload {
namespace {

/// The release of the store, which publishes an observer, pairs with the acquire load.
std::atomic<const CallObserver*> current = nullptr;

}  // namespace

void observe_calls(const CallObserver& observer) {
  // Never destroyed: calls may end while the process does.
  static std::mutex& mutex = *new std::mutex;
  static std::list<CallObserver>& known = *new std::list<CallObserver>;
  const std::lock_guard lock(mutex);
  if (observer.function == nullptr) return current.store(nullptr, std::memory_order_release);
  auto at = std::find(known.begin(), known.end(), observer);
  if (at == known.end()) at = known.insert(known.end(), observer);
  current.store(&*at, std::memory_order_release);
}

const CallObserver* call_observer() noexcept { return current.load(std::memory_order_acquire); }

}  // namespace tessera::offload
