#include "runtime/tiles/host_part.hpp"

#include <exception>
#include <thread>
#include <utility>

#include "core/at_end.hpp"
#include "core/side_by_side.hpp"

namespace tessera::runtime {

// The caller has the first piece that it takes, and so does each other thread: none takes a second one before the end.
void HostPartThreads::run(const std::function<void()>& job, const HostPart::IsHome& is_home) {
  const std::thread::id caller = std::this_thread::get_id();
  bool has_begun = false;  // of the caller alone
  side_by_side(1 + part_.threads(), [&](std::size_t) {
    if (std::this_thread::get_id() != caller) return serve(is_home);
    if (std::exchange(has_begun, true)) return;
    const AtEnd at_end([this] { end(); });
    job();
  });
}

void HostPartThreads::raise() {
  {
    const LockGuard lock(mutex_);
    ++changes_;
  }
  changed_.notify_all();
}

void HostPartThreads::end() {
  {
    const LockGuard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
}

bool HostPartThreads::has_ended() {
  const LockGuard lock(mutex_);
  return has_ended_;
}

// It returns at the end of the job and not before, so that the caller finds a piece.
void HostPartThreads::serve(const HostPart::IsHome& is_home) {
  bool goes_on = true;
  const auto did_some = [&] {
    std::optional<WrittenArea> written;
    try {
      written = part_.do_some(is_home);
    } catch (const std::exception&) {  // there is no memory: what is left waits for the end
      goes_on = false;
    }
    if (written) tell_(*written);
    return written.has_value();
  };
  for (index_t seen = 0;;) {
    while (goes_on && !has_ended() && did_some()) {
    }
    UniqueLock lock(mutex_);
    while (!has_ended_ && changes_ == seen) changed_.wait(lock.native());
    if (has_ended_) return;
    seen = changes_;
  }
}

}  // namespace tessera::runtime
