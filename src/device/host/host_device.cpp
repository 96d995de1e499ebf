// Streams, events and modelled time of a host device; see host_device.hpp for the rules.
#include "device/host/host_device.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"
#include "device/host/block_copy.hpp"

namespace tessera::device {

namespace {

class HostEvent final : public Event {
 public:
  EventStatus status() const noexcept override { return status_.load(std::memory_order_acquire); }
  double completed_at() const override {
    if (status() != EventStatus::complete) throw InternalError("completion time of an event that is not complete");
    return completed_at_;
  }

  /// Called once, by the stream in which the event was recorded.
  void finish(EventStatus status, double time) {
    {
      const LockGuard lock(mutex_);
      completed_at_ = time;
      status_.store(status, std::memory_order_release);
    }
    finished_.notify_all();
  }

  EventStatus wait() {
    UniqueLock lock(mutex_);
    finished_.wait(lock.native(), [&] { return status() != EventStatus::pending; });
    return status();
  }

 private:
  /// The release in finish() pairs with the acquire in status(): a thread that sees the end also sees completed_at_ and
  /// all work before it.
  std::atomic<EventStatus> status_{EventStatus::pending};
  double completed_at_ = 0;
  Mutex mutex_;
  std::condition_variable finished_;
};

/// @throws InternalError for events of another backend
std::shared_ptr<HostEvent> host_event(const EventPtr& event) {
  auto host = std::dynamic_pointer_cast<HostEvent>(event);
  if (!host) throw InternalError("a host device can only wait for events of host devices");
  return host;
}

double modelled_seconds(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

void sleep_until_seconds(double time) {
  using Clock = std::chrono::steady_clock;
  const auto since_epoch = std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(time));
  std::this_thread::sleep_until(Clock::time_point(since_epoch));
}

const char* stream_name(int number) {
  constexpr const char* names[stream_count] = {"compute0", "compute1", "compute2", "compute3",
                                               "up",       "down",     "peer",     "to peer"};
  return names[number];
}

}  // namespace

struct HostDevice::Operation {
  enum class Kind { copy, kernel, record, wait };
  Kind kind = Kind::record;
  StreamKind engine = StreamKind::compute;
  double submitted_at = 0;
  double seconds = 0;  ///< modelled duration
  // copies:
  Block to, from;
  Extent extent;
  const HostDevice* peer = nullptr;  ///< the peer that is read or written, or nullptr
  WrittenSlicesPtr written;          ///< nullptr: the copy is not in slices
  // kernels:
  std::function<void()> work;
  // record and wait:
  std::shared_ptr<HostEvent> event;
};

/// A queue of operations and the thread that runs them. The thread starts with the first operation.
class HostDevice::Stream {
 public:
  Stream(HostDevice& device, int number) : device_(device), number_(number) {}

  void push(Operation operation) {
    {
      const LockGuard lock(mutex_);
      if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
      queue_.push_back(std::move(operation));
    }
    wake_.notify_one();
  }

  /// The thread ends when the queue is empty.
  void stop() {
    {
      const LockGuard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
  }

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  void drain() {
    UniqueLock lock(mutex_);
    idle_.wait(lock.native(), [&]() TESSERA_REQUIRES(mutex_) { return queue_.empty() && !busy_; });
  }

  void clear_poison() {
    const LockGuard lock(mutex_);
    poisoned = false;
  }

  // The thread owns these while it is busy. Others may access them only while it is idle, under the mutex.
  bool poisoned = false;
  double clock = 0;  ///< completion time of the latest operation

 private:
  void run() {
    char name[16];
    std::snprintf(name, sizeof name, "tsr%d-%s", device_.info_.ordinal, stream_name(number_));
    pthread_setname_np(pthread_self(), name);
    UniqueLock lock(mutex_);
    for (;;) {
      wake_.wait(lock.native(), [&]() TESSERA_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      {
        Operation operation = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
        lock.unlock();
        device_.execute(*this, operation);
      }
      lock.lock();
      busy_ = false;
      if (queue_.empty()) idle_.notify_all();
    }
  }

  HostDevice& device_;
  const int number_;
  Mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Operation> queue_ TESSERA_GUARDED_BY(mutex_);
  bool busy_ TESSERA_GUARDED_BY(mutex_) = false;
  bool stopping_ TESSERA_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

struct HostDevice::Listener {
  std::function<void()> call;
  int in_flight = 0;  ///< guarded by listener_mutex_
};

double HostDevice::Engine::reserve(double ready, double seconds) {
  const LockGuard lock(mutex_);
  free_from_ = std::max(ready, free_from_) + seconds;
  return free_from_;
}

HostDevice::HostDevice(int ordinal, const HostDeviceSettings& settings, const DeviceProfile& profile)
    : settings_(settings) {
  info_.backend = "host";
  info_.ordinal = ordinal;
  info_.name = "host device " + std::to_string(ordinal);
  info_.memory_bytes = settings.memory_bytes;
  info_.flops_per_s = settings.flops_per_s;
  info_.link_bytes_per_s = settings.link_bytes_per_s;
  info_.profile = profile;
  if (settings.start_s > 0) info_.profile.start_up_s = settings.start_s;
  if (settings.share_bytes > 0) info_.profile.share_bytes = static_cast<index_t>(settings.share_bytes);
  if (settings.segment_bytes > 0) {
    info_.profile.segment_bytes = static_cast<index_t>(settings.segment_bytes);
    info_.profile.page_bytes = 2 * info_.profile.segment_bytes;
  }
  for (int number = 0; number < stream_count; ++number) {
    streams_[static_cast<std::size_t>(number)] = std::make_unique<Stream>(*this, number);
  }
}

HostDevice::~HostDevice() {
  // All streams are told before any is joined: a stream that drains may wait for an event of another one.
  for (auto& stream : streams_) stream->stop();
  for (auto& stream : streams_) stream->join();
  if (arena_ != nullptr) munmap(arena_, arena_bytes_);
  const LockGuard lock(beside_mutex_);
  for (const std::span<std::byte> memory : beside_) munmap(memory.data(), memory.size());
}

std::size_t HostDevice::free_memory_bytes() const {
  std::size_t taken =
      committed_bytes_.load(std::memory_order_acquire) + memory_of_others_.load(std::memory_order_relaxed);
  const LockGuard lock(beside_mutex_);
  for (const std::span<std::byte> memory : beside_) taken += memory.size();
  return settings_.memory_bytes - std::min(taken, settings_.memory_bytes);
}

namespace {

/// @return nullptr if there are no such addresses
std::byte* map_memory(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

/// Whether a block that is not empty lies in memory.
bool is_within(std::span<const std::byte> memory, Block block, Extent extent) {
  if (memory.empty() || block.address < memory.data() || block.address >= memory.data() + memory.size()) return false;
  const index_t room = static_cast<index_t>(memory.size()) - (block.address - memory.data());
  if (extent.column_bytes > room) return false;
  if (extent.columns == 1) return true;
  return block.pitch_bytes >= extent.column_bytes &&
         extent.columns - 1 <= (room - extent.column_bytes) / block.pitch_bytes;
}

}  // namespace

void HostDevice::map_arena(std::size_t bytes) {
  if (arena_ != nullptr) throw InternalError("the slab of a device is reserved once");
  if (bytes == 0) throw InvalidArgument("a slab has at least one byte");
  if (bytes > settings_.memory_bytes) {
    throw OutOfDeviceMemory(info_.name + " has " + std::to_string(settings_.memory_bytes) + " bytes, " +
                            std::to_string(bytes) + " were asked for");
  }
  arena_ = map_memory(bytes);
  if (arena_ == nullptr)
    throw OutOfDeviceMemory("no host memory for the " + std::to_string(bytes) + " bytes of " + info_.name);
  arena_bytes_ = bytes;
}

std::byte* HostDevice::take_memory(std::size_t bytes) {
  if (bytes == 0 || bytes > free_memory_bytes()) return nullptr;
  std::byte* const memory = map_memory(bytes);
  const LockGuard lock(beside_mutex_);
  if (memory != nullptr) beside_.emplace_back(memory, bytes);
  return memory;
}

void HostDevice::free_memory(std::byte* memory) {
  const LockGuard lock(beside_mutex_);
  const auto taken =
      std::find_if(beside_.begin(), beside_.end(), [&](const auto& each) { return each.data() == memory; });
  if (taken == beside_.end()) throw InternalError("memory that was not taken of " + info_.name);
  munmap(memory, taken->size());
  beside_.erase(taken);
}

std::byte* HostDevice::reserve(std::size_t bytes) {
  map_arena(bytes);
  committed_bytes_.store(bytes, std::memory_order_release);
  return arena_;
}

std::byte* HostDevice::reserve_addresses(std::size_t bytes) {
  map_arena(bytes);
  return arena_;
}

std::size_t HostDevice::commit(std::size_t bytes) {
  const std::size_t before = committed_bytes_.load(std::memory_order_relaxed);
  const std::size_t after = std::max(before, std::min({bytes, arena_bytes_, before + free_memory_bytes()}));
  committed_bytes_.store(after, std::memory_order_release);
  return after;
}

std::size_t HostDevice::decommit(std::size_t keep_bytes) {
  const std::size_t before = committed_bytes_.load(std::memory_order_relaxed);
  const std::size_t after = std::min(before, keep_bytes);
  committed_bytes_.store(after, std::memory_order_release);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first_page = (after + page - 1) / page * page;
  // If madvise fails the process keeps the pages until it ends. Nothing else depends on it.
  if (first_page < before) static_cast<void>(madvise(arena_ + first_page, before - first_page, MADV_DONTNEED));
  return after;
}

bool HostDevice::holds(Block block, Extent extent) const {
  if (extent.column_bytes < 0 || extent.columns < 0) return false;
  if (extent.column_bytes == 0 || extent.columns == 0) return true;
  const std::size_t bytes = committed_bytes_.load(std::memory_order_acquire);
  if (is_within({arena_, bytes}, block, extent)) return true;
  const LockGuard lock(beside_mutex_);
  return std::any_of(beside_.begin(), beside_.end(),
                     [&](const auto& memory) { return is_within(memory, block, extent); });
}

void HostDevice::enqueue(StreamId id, Operation operation) {
  if (lost()) throw DeviceLost(info_.name + " is lost");
  const int number = stream_number(id);
  if (number < 0 || number >= stream_count) throw InternalError("no such stream");
  if (operation.kind == Operation::Kind::copy || operation.kind == Operation::Kind::kernel) {
    if (submissions_.fetch_add(1, std::memory_order_relaxed) == settings_.refused_op)
      throw WorkRefused(info_.name + " has refused an operation");
  }
  operation.submitted_at = now_seconds();
  try {
    streams_[static_cast<std::size_t>(number)]->push(std::move(operation));
  } catch (const std::system_error& error) {
    lose();
    throw DeviceLost(info_.name + " cannot start a thread: " + error.what());
  }
}

void HostDevice::enqueue_copy(StreamKind kind, Block to, Block from, Extent extent, const HostDevice* peer,
                              WrittenSlicesPtr written) {
  if (extent.part != Part::full && extent.column_bytes != extent.columns * extent.element_bytes)
    throw InternalError("a triangle of a block that is not square");
  const double rate = peer != nullptr ? settings_.peer_bytes_per_s : settings_.link_bytes_per_s;
  Operation operation;
  operation.kind = Operation::Kind::copy;
  operation.engine = kind;
  operation.seconds = modelled_seconds(static_cast<double>(extent.bytes()), rate) + settings_.delay_s;
  operation.to = to;
  operation.from = from;
  operation.extent = extent;
  operation.peer = peer;
  operation.written = std::move(written);
  enqueue({kind, 0}, std::move(operation));
}

void HostDevice::copy_up(Block device_to, Block host_from, Extent extent) {
  if (!holds(device_to, extent)) throw InternalError("copy up to memory outside the slab of " + info_.name);
  enqueue_copy(StreamKind::up, device_to, host_from, extent, nullptr);
}

void HostDevice::copy_down(Block host_to, Block device_from, Extent extent) {
  if (!holds(device_from, extent)) throw InternalError("copy down from memory outside the slab of " + info_.name);
  enqueue_copy(StreamKind::down, host_to, device_from, extent, nullptr);
}

bool HostDevice::can_copy_slices(Extent extent, SliceKind kind) {
  return kind == SliceKind::columns || (kind == SliceKind::rows && extent.part == Part::full);
}

void HostDevice::copy_slices_down(Block host_to, Block device_from, Extent extent, const WrittenSlicesPtr& written) {
  if (!holds(device_from, extent)) throw InternalError("copy down from memory outside the slab of " + info_.name);
  enqueue_copy(StreamKind::down, host_to, device_from, extent, nullptr, written);
}

void HostDevice::copy_within(StreamKind stream, Block to, Block from, Extent extent) {
  if (!holds(to, extent) || !holds(from, extent)) throw InternalError("copy outside the slab of " + info_.name);
  // It takes no time of the link.
  submit(
      {stream}, [=] { copy_columns(to, from, extent); }, 0);
}

void HostDevice::copy_peer(Block device_to, Device& source, Block source_from, Extent extent) {
  const auto* peer = dynamic_cast<const HostDevice*>(&source);
  if (peer == nullptr) throw InternalError(info_.name + " cannot copy from a device of another backend");
  if (!holds(device_to, extent)) throw InternalError("peer copy to memory outside the slab of " + info_.name);
  if (!peer->holds(source_from, extent))
    throw InternalError("peer copy from memory outside the slab of " + peer->info_.name);
  enqueue_copy(StreamKind::peer, device_to, source_from, extent, peer);
}

void HostDevice::copy_to_peer(Device& target, Block target_to, Block device_from, Extent extent) {
  const auto* peer = dynamic_cast<const HostDevice*>(&target);
  if (peer == nullptr) throw InternalError(info_.name + " cannot copy to a device of another backend");
  if (!holds(device_from, extent)) throw InternalError("copy to a peer from memory outside the slab of " + info_.name);
  if (!peer->holds(target_to, extent)) throw InternalError("copy to a peer outside the slab of " + peer->info_.name);
  enqueue_copy(StreamKind::to_peer, target_to, device_from, extent, peer);
}

bool HostDevice::can_access(const Device& peer) const {
  const auto* other = dynamic_cast<const HostDevice*>(&peer);
  return other != nullptr && settings_.peers && other->settings_.peers;
}

void HostDevice::submit(StreamId stream, std::function<void()> work, double seconds) {
  Operation operation;
  operation.kind = Operation::Kind::kernel;
  operation.engine = StreamKind::compute;
  operation.seconds = seconds + settings_.delay_s;
  operation.work = std::move(work);
  enqueue(stream, std::move(operation));
}

EventPtr HostDevice::record(StreamId stream) {
  Operation operation;
  operation.kind = Operation::Kind::record;
  auto event = std::make_shared<HostEvent>();
  operation.event = event;
  enqueue(stream, std::move(operation));
  return event;
}

void HostDevice::wait(StreamId stream, const EventPtr& event) {
  Operation operation;
  operation.kind = Operation::Kind::wait;
  operation.event = host_event(event);
  enqueue(stream, std::move(operation));
}

void HostDevice::execute(Stream& stream, Operation& operation) {
  stream.clock = std::max(stream.clock, operation.submitted_at);
  const bool skip = stream.poisoned || lost();
  switch (operation.kind) {
    case Operation::Kind::copy:
    case Operation::Kind::kernel:
      if (!skip) execute_work(stream, operation);
      break;
    case Operation::Kind::wait:
      if (skip) break;
      if (operation.event->wait() == EventStatus::failed) {
        stream.poisoned = true;
      } else {
        stream.clock = std::max(stream.clock, operation.event->completed_at());
      }
      break;
    case Operation::Kind::record:
      operation.event->finish(skip ? EventStatus::failed : EventStatus::complete, stream.clock);
      notify_listener();
      break;
  }
}

bool HostDevice::begin_operation(StreamKind kind) {
  const std::int64_t of_all = operations_.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t of_kind = operations_of_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  if (settings_.fail_after_ops < 0) return false;
  if (settings_.failing_operation == FailingOperation::any) return of_all >= settings_.fail_after_ops;
  constexpr FailingOperation kinds[] = {FailingOperation::kernel, FailingOperation::up, FailingOperation::down,
                                        FailingOperation::peer, FailingOperation::to_peer};  // by StreamKind
  return settings_.failing_operation == kinds[static_cast<std::size_t>(kind)] && of_kind >= settings_.fail_after_ops;
}

void HostDevice::execute_work(Stream& stream, Operation& operation) {
  const bool is_copy = operation.kind == Operation::Kind::copy;
  if (begin_operation(operation.engine)) {
    if (is_copy) {
      const Extent half = half_of(operation.extent, operation.written);
      copy_columns(operation.to, operation.from, half);
      note(operation.written, half);
    }
    lose();
    return;
  }
  if (operation.peer != nullptr && operation.peer->lost()) {
    stream.poisoned = true;
    return;
  }
  const double reserved_end = operation.seconds > 0 ? engines_[static_cast<std::size_t>(operation.engine)].reserve(
                                                          stream.clock, operation.seconds)
                                                    : 0;
  if (is_copy) {
    copy_columns(operation.to, operation.from, operation.extent);
    note(operation.written, operation.extent);
  } else if (operation.work) {
    try {
      operation.work();
    } catch (...) {
      // A kernel that failed left its output undefined, and a device cannot report more than that.
      lose();
      return;
    }
  }
  // A kernel without work is only its modelled time. A delay of its thread on a busy machine is not part of the model.
  const double now = now_seconds();
  if (reserved_end > now) sleep_until_seconds(reserved_end);
  const bool only_modelled = !is_copy && !operation.work && operation.seconds > 0;
  stream.clock = only_modelled ? reserved_end : std::max(reserved_end, now);
}

std::unique_ptr<HostPinning> HostDevice::pin_host(std::span<const HostRange>) { return nullptr; }

// Its copies are those of processors, which reach all memory.
PageLocker* HostDevice::page_locker() noexcept {
  class Nothing final : public PageLocker {
    bool lock(std::byte* /*begin*/, std::size_t /*bytes*/) noexcept override { return true; }
    bool unlock(std::byte* /*begin*/, std::size_t /*bytes*/) noexcept override { return true; }
  };
  static Nothing nothing_to_do;
  return &nothing_to_do;
}

bool HostDevice::on_completion(std::function<void()> listener) {
  std::shared_ptr<Listener> next;
  if (listener) {
    next = std::make_shared<Listener>();
    next->call = std::move(listener);
  }
  UniqueLock lock(listener_mutex_);
  const std::shared_ptr<Listener> former = std::exchange(listener_, std::move(next));
  if (former) listener_idle_.wait(lock.native(), [&] { return former->in_flight == 0; });
  return true;
}

void HostDevice::notify_listener() {
  UniqueLock lock(listener_mutex_);
  const std::shared_ptr<Listener> listener = listener_;
  if (!listener) return;
  ++listener->in_flight;
  lock.unlock();
  listener->call();
  lock.lock();
  // Notifies under the mutex, so that the waiting setter cannot leave (and the device be destroyed) before the
  // notification is done.
  if (--listener->in_flight == 0) listener_idle_.notify_all();
}

bool HostDevice::recover() noexcept {
  // A stream that waits for an event of another stream gets it, or its failure, in any order of these drains.
  for (auto& stream : streams_) stream->drain();
  for (auto& stream : streams_) stream->clear_poison();
  return !lost();
}

}  // namespace tessera::device
