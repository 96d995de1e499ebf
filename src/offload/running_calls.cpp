#include "offload/running_calls.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/mutex.hpp"
#include "core/process.hpp"
#include "offload/call_time.hpp"

namespace tessera::offload {

/// Never destroyed: calls may end while the process does.
struct RunningCall::List {
  const std::uint64_t process = process::identity();
  Mutex mutex;
  RunningCall* first TESSERA_GUARDED_BY(mutex) = nullptr;
};

/// A child begins with a new list. In its parent's, the mutex may be held and the calls be made by threads that the child does not
/// have.
RunningCall::List& RunningCall::list() {
  // The release of the exchange, which publishes a list, pairs with the acquire loads.
  static constinit std::atomic<List*> current = nullptr;
  List* list = current.load(std::memory_order_acquire);
  if (list == nullptr || list->process != process::identity()) {
    auto mine = std::make_unique<List>();
    if (current.compare_exchange_strong(list, mine.get(), std::memory_order_acq_rel)) list = mine.release();
  }
  return *list;
}

RunningCall::RunningCall(std::function<std::string()> text, double begin_s, double flops, bool on_devices, bool is_part)
    : text_(std::move(text)),
      begin_s_(begin_s),
      flops_(flops),
      on_devices_(on_devices),
      is_part_(is_part),
      thread_(gettid()),
      list_(list()) {
  const LockGuard lock(list_.mutex);
  next_ = list_.first;
  if (next_ != nullptr) next_->before_ = this;
  list_.first = this;
}

RunningCall::~RunningCall() {
  if (list_.process != process::identity()) return;
  const LockGuard lock(list_.mutex);
  (before_ != nullptr ? before_->next_ : list_.first) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

std::vector<RunningCallState> running_calls() {
  std::vector<RunningCallState> states;
  const double now_s = CallTime::from_now().entered_s();
  RunningCall::List& all = RunningCall::list();
  const LockGuard lock(all.mutex);
  for (const RunningCall* call = all.first; call != nullptr; call = call->next_)
    states.push_back({call->text_(), now_s - call->begin_s_, call->flops_, call->progress_.done(), call->on_devices_,
                      call->is_part_, call->thread_});
  return states;
}

std::string to_json(const std::vector<RunningCallState>& calls) {
  std::string text = "[";
  for (const RunningCallState& call : calls) {
    if (text.size() > 1) text += ", ";
    const std::string done = call.done ? fmt::format("{:.6f}", *call.done) : "null";
    text += fmt::format(R"({{"what": "{}", "seconds": {:.6f}, "flops": {:.6g}, "done": {}, )", call.what, call.seconds,
                        call.flops, done);
    text +=
        fmt::format(R"("on_devices": {}, "is_part": {}, "thread": {}}})", call.on_devices, call.is_part, call.thread);
  }
  return text + "]";
}

}  // namespace tessera::offload
