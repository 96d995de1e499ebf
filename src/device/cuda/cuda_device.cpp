// A CudaDevice from its context to its end: streams, memory, events, failure. Its copies are in cuda_copies.cpp.
#include "device/cuda/cuda_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "device/cuda/error_scope.hpp"
#include "device/cuda/gpu_description.hpp"
#include "device/cuda/host_registration.hpp"
#include "device/cuda/topology.hpp"
#include "device/cuda/triangle_copy.hpp"

namespace tessera::device::cuda {
namespace {

/// The age at which a base is replaced. It costs an event's time about a quarter of a microsecond of precision.
constexpr double base_lifetime_s = 3;
/// The time within which record() must get a new base. If it takes longer (the GPU shares its queues), the old base
/// stays.
constexpr double base_patience_s = 200e-6;
/// A stream that is not idle after this time waits for an event that will never come (of a lost GPU).
constexpr double recover_patience_s = 60;
/// The engines of a lost GPU may still write to host memory after its error is known, and nothing reports when they
/// end. The driver stops them within milliseconds; the largest copy takes a few.
constexpr std::chrono::milliseconds engines_stop_within{20};
/// Unfinished causes per stream above which CUDA is queried about them. Below, another caller's query is awaited.
constexpr std::size_t causes_before_asking = 8;

}  // namespace

CudaDevice::CudaDevice(int ordinal, int copy_threads)
    : info_(describe_device(ordinal)),
      context_(primary_context(ordinal)),
      process_(getpid()),
      max_pitch_bytes_(attribute(ordinal, cudaDevAttrMaxPitch)),
      read_only_registration_(attribute(ordinal, cudaDevAttrHostRegisterReadOnlySupported) != 0),
      users_{ordinal},
      pool_(std::make_shared<EventPool>(ordinal, context_)) {
  const CurrentContext current(context_);
  if (can_order_streams_by_memory()) info_.copy_threads = copy_threads;
  try {
    make_streams();
    check(ordinal, "loading the kernels of the plugin", load_triangle_copy());
    // The first record on a new stream may take long. The second one counts.
    const TimeBase first(pool_);
    check(ordinal, "recording an event", cudaEventRecord(first.event, base_stream_));
    check(ordinal, "waiting for an event", cudaEventSynchronize(first.event));
    base_ = make_base(recover_patience_s);
    if (!base_) throw DeviceLost("cuda:" + std::to_string(ordinal) + ": an idle stream does not complete an event");
    next_base_at_ = base_->seconds + base_lifetime_s;
    HostRegistry::instance().add_context(context_);
  } catch (...) {
    base_.reset();
    pool_->close();
    destroy_streams();
    throw;
  }
}

CudaDevice::~CudaDevice() {
  // Nothing can be released in a forked child, on a lost device, or once CUDA shuts down (the first call reports that).
  const CurrentContext current(context_);
  const auto ends = [](cudaStream_t stream) { return cudaStreamSynchronize(stream) == cudaSuccess; };
  if (!owned_by_this_process() || lost() || !std::all_of(streams_.begin(), streams_.end(), ends) ||
      !ends(down_end_.stream())) {
    forget_error();
    for (auto& ring : staging_) static_cast<void>(ring.release());
    static_cast<void>(staging_threads_.release());
    static_cast<void>(mapped_.release());
    for (auto& memory : beside_) static_cast<void>(memory.release());
    return;
  }
  for (auto& ring : staging_) ring.reset();
  if (slab_ != nullptr && cudaFree(slab_) != cudaSuccess) forget_error();
  mapped_.reset();
  beside_.clear();
  destroy_streams();
  base_.reset();
  pool_->close();
}

bool CudaDevice::owned_by_this_process() const { return process_ == getpid(); }

void CudaDevice::make_streams() {
  int lowest = 0;
  int highest = 0;
  check(ordinal(), "reading its stream priorities", cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  // Non-blocking: the application's work on the default stream must not order ours. Copies of triangles have kernels,
  // whose few blocks must not queue behind the thousands of a matrix product. Compute streams have different
  // priorities. Tasks that share the GPU then end one after the other, and their write-backs do not all come at the
  // end.
  for (int number = 0; number < stream_count; ++number) {
    check(ordinal(), "creating a stream",
          cudaStreamCreateWithPriority(&streams_[static_cast<std::size_t>(number)], cudaStreamNonBlocking,
                                       number < compute_streams ? std::min(highest + 1 + number, lowest) : highest));
  }
  check(ordinal(), "creating a stream", cudaStreamCreateWithFlags(&base_stream_, cudaStreamNonBlocking));
  down_end_.open(ordinal(), highest);
  for (SideStream& side : sides_) side.open(ordinal(), highest);
}

void CudaDevice::destroy_streams() noexcept {
  for (cudaStream_t& stream : streams_) {
    if (stream != nullptr && cudaStreamDestroy(stream) != cudaSuccess) forget_error();
    stream = nullptr;
  }
  for (SideStream& side : sides_) side.close();
  down_end_.close();
  if (base_stream_ != nullptr && cudaStreamDestroy(base_stream_) != cudaSuccess) forget_error();
  base_stream_ = nullptr;
}

std::size_t CudaDevice::free_memory_bytes() const {
  const CurrentContext current(context_);
  std::size_t free = 0;
  std::size_t total = 0;
  check(ordinal(), "reading its free memory", cudaMemGetInfo(&free, &total));
  return free;
}

std::byte* CudaDevice::reserve(std::size_t bytes) {
  if (slab_ != nullptr || mapped_) throw InternalError("the slab of a device is reserved once");
  const CurrentContext current(context_);
  enable_peers();
  void* address = nullptr;
  const cudaError_t error = cudaMalloc(&address, bytes);
  if (error == cudaErrorMemoryAllocation) {
    forget_error();
    throw OutOfDeviceMemory("cuda:" + std::to_string(ordinal()) + ": " + std::to_string(bytes) +
                            " bytes of device memory cannot be reserved");
  }
  check(ordinal(), "reserving device memory", error);
  slab_ = static_cast<std::byte*>(address);
  return slab_;
}

std::byte* CudaDevice::reserve_addresses(std::size_t bytes) {
  if (slab_ != nullptr || mapped_) throw InternalError("the slab of a device is reserved once");
  if (bytes > info_.memory_bytes) {
    throw OutOfDeviceMemory("cuda:" + std::to_string(ordinal()) + " has " + std::to_string(info_.memory_bytes) +
                            " bytes of memory, " + std::to_string(bytes) + " were asked for");
  }
  if (!maps_memory_) return nullptr;
  const CurrentContext current(context_);
  mapped_ = MappedMemory::reserve(ordinal(), users_, bytes, info_.profile.memory_chunk_bytes);
  if (!mapped_) throw OutOfDeviceMemory("cuda:" + std::to_string(ordinal()) + ": no addresses for its memory");
  return reinterpret_cast<std::byte*>(mapped_->address());  // NOLINT(performance-no-int-to-ptr): as the driver has it
}

std::size_t CudaDevice::commit(std::size_t bytes) {
  const CurrentContext current(context_);
  const std::size_t usable = mapped_->grow(bytes);
  // A broken context has no memory, and never will.
  if (const cudaError_t asked = usable < bytes ? ask() : cudaSuccess; !survives(cudaSuccess, asked))
    lose(describe_error(ordinal(), "committing device memory", asked));
  return usable;
}

std::size_t CudaDevice::decommit(std::size_t keep_bytes) {
  const CurrentContext current(context_);
  // Addresses that are still in use must not be unmapped: that would be an error of the whole context.
  for (const cudaStream_t stream : streams_) {
    if (cudaStreamQuery(stream) == cudaSuccess) continue;
    forget_error();
    return mapped_->mapped_bytes();
  }
  return mapped_->shrink(keep_bytes);
}

// NOLINTBEGIN(performance-no-int-to-ptr): as the driver has it
std::byte* CudaDevice::take_memory(std::size_t bytes) {
  if (!maps_memory_) return nullptr;
  const CurrentContext current(context_);
  auto memory = MappedMemory::reserve(ordinal(), users_, bytes, info_.profile.memory_chunk_bytes);
  if (!memory || memory->grow(bytes) < bytes) return nullptr;
  const std::lock_guard lock(beside_mutex_);
  beside_.push_back(std::move(memory));
  return reinterpret_cast<std::byte*>(beside_.back()->address());
}

void CudaDevice::free_memory(std::byte* memory) {
  const CurrentContext current(context_);
  const std::lock_guard lock(beside_mutex_);
  std::erase_if(beside_, [&](const auto& each) { return reinterpret_cast<std::byte*>(each->address()) == memory; });
}
// NOLINTEND(performance-no-int-to-ptr)

bool CudaDevice::has_locked(const std::byte* host) const {
  const CurrentContext current(context_);
  return !HostRegistry::is_pageable(host);
}

void CudaDevice::require(cudaError_t submitted, const char* what) {
  if (submitted != cudaSuccess) fail(submitted, describe_error(ordinal(), what, submitted));
}

bool CudaDevice::can_access(const Device& peer) const {
  const auto* other = dynamic_cast<const CudaDevice*>(&peer);
  if (other == nullptr) return false;
  return other->ordinal() == ordinal() || std::find(peers_.begin(), peers_.end(), other->ordinal()) != peers_.end();
}

void CudaDevice::find_peers(std::span<CudaDevice* const> opened) {
  const RelaxedCapture relaxed;
  const auto can_read = [](int reader, int owner) {
    int possible = 0;
    if (cudaDeviceCanAccessPeer(&possible, reader, owner) == cudaSuccess) return possible != 0;
    forget_error();
    return false;
  };
  for (const CudaDevice* peer : opened) {
    if (peer == this) continue;
    // Without peer access tiles travel through host memory.
    if (can_read(ordinal(), peer->ordinal())) peers_.push_back(peer->ordinal());
    if (can_read(peer->ordinal(), ordinal())) users_.push_back(peer->ordinal());
  }
}

bool CudaDevice::can_map_memory() const {
  const CurrentContext current(context_);
  const auto trial = MappedMemory::reserve(ordinal(), users_, 1, info_.profile.memory_chunk_bytes);
  return trial && (trial->grow(1) > 0 || trial->is_short());
}

void CudaDevice::enable_peers() {
  std::erase_if(peers_, [](int peer) {
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error != cudaSuccess) forget_error();
    // The application, or an earlier context of ours, may have enabled it.
    return error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled;
  });
}

std::shared_ptr<const TimeBase> CudaDevice::make_base(double patience_s) {
  auto base = std::make_shared<TimeBase>(pool_);
  const CurrentContext current(context_);
  double before = now_seconds();
  const double deadline = before + patience_s;
  check(ordinal(), "recording an event", cudaEventRecord(base->event, base_stream_));
  for (;;) {
    const cudaError_t error = cudaEventQuery(base->event);
    const double after = now_seconds();
    if (error == cudaSuccess) {
      // It completed between the previous query and this one, which are a few microseconds apart.
      base->seconds = 0.5 * (before + after);
      return base;
    }
    forget_error();
    if (error != cudaErrorNotReady && !is_of_a_capture(error))
      fail(error, describe_error(ordinal(), "querying an event", error));
    if (after > deadline) return nullptr;
    before = after;
  }
}

EventPtr CudaDevice::record(StreamId id) {
  const unsigned era = pool_->era();
  check_usable();
  const CurrentContext current(context_);
  const std::lock_guard lock(mutex_);
  if (const double now = now_seconds(); now >= next_base_at_) {
    next_base_at_ = now + base_lifetime_s;
    if (auto base = make_base(base_patience_s)) base_ = std::move(base);
  }
  CudaEvent::Causes& causes = causes_[static_cast<std::size_t>(stream_number(id))];
  const bool ask = causes.size() > causes_before_asking;
  std::erase_if(causes, [ask](const auto& cause) {
    return (ask ? cause->status() : cause->known_status()) == EventStatus::complete;
  });
  auto event = std::make_shared<CudaEvent>(pool_, era, base_, causes);
  require(cudaEventRecord(event->handle(), end_of(id)), "recording an event");
  return event;
}

void CudaDevice::wait(StreamId id, const EventPtr& event) {
  check_usable();
  if (!event) return;
  const auto cuda_event = std::dynamic_pointer_cast<const CudaEvent>(event);
  if (!cuda_event) throw InternalError("a CUDA stream cannot wait for an event of another backend");
  if (cuda_event->known_status() == EventStatus::complete) return;

  const CurrentContext current(context_);
  const std::lock_guard lock(mutex_);
  CudaEvent::Causes added;
  cuda_event->append_causes(added);
  const bool foreign = cuda_event->pool() != pool_.get();
  const EventStatus status = foreign ? cuda_event->status() : cuda_event->known_status();
  if (status == EventStatus::complete) return;
  // An event that has failed is its own cause. Its status is read after append_causes, so that causes which status()
  // drops in between are not missed.
  if (foreign || status == EventStatus::failed) added.push_back(cuda_event);
  CudaEvent::Causes& causes = causes_[static_cast<std::size_t>(stream_number(id))];
  for (auto& cause : added) {
    if (std::find(causes.begin(), causes.end(), cause) == causes.end()) causes.push_back(std::move(cause));
  }
  if (status == EventStatus::failed) return;
  if (id.kind == StreamKind::up) up_waits_ = true;
  require(cudaStreamWaitEvent(stream(id), cuda_event->handle(), 0), "waiting for an event");
  if (end_of(id) != stream(id))
    require(cudaStreamWaitEvent(end_of(id), cuda_event->handle(), 0), "waiting for an event");
}

cudaStream_t CudaDevice::end_of(StreamId id) const {
  return id.kind == StreamKind::down && down_ends_apart_ ? down_end_.stream() : stream(id);
}

void CudaDevice::check_usable() {
  if (lost()) lose("cuda:" + std::to_string(ordinal()) + ": the device is lost");
  if (must_recover_) throw WorkRefused("cuda:" + std::to_string(ordinal()) + ": a staged copy has been abandoned");
}

bool CudaDevice::accepts_work(StreamId id) {
  check_usable();
  const std::lock_guard lock(mutex_);
  const CudaEvent::Causes& causes = causes_[static_cast<std::size_t>(stream_number(id))];
  return std::none_of(causes.begin(), causes.end(),
                      [](const auto& cause) { return cause->known_status() == EventStatus::failed; });
}

void CudaDevice::lose(const std::string& reason) {
  lost_.store(true, std::memory_order_release);
  abandon_staging();
  throw DeviceLost(reason);
}

void CudaDevice::fail(cudaError_t error, const std::string& reason) {
  const CurrentContext current(context_);
  forget_error();
  if (!survives(error, ask())) lose(reason);
  throw WorkRefused(reason);
}

cudaError_t CudaDevice::ask() const {
  const cudaError_t error = cudaStreamQuery(base_stream_);
  if (error != cudaSuccess) forget_error();
  return error;
}

std::string CudaDevice::diagnosis() const {
  const CurrentContext current(context_);
  const cudaError_t error = ask();
  if (error == cudaSuccess || error == cudaErrorNotReady) return {};
  return describe_error(error);
}

std::unique_ptr<HostPinning> CudaDevice::pin_host(std::span<const HostRange> ranges) {
  std::vector<std::uintptr_t> keys = HostRegistry::instance().acquire(context_, read_only_registration_, ranges);
  if (keys.empty()) return nullptr;
  return std::make_unique<CudaHostPinning>(std::move(keys));
}

PageLocker* CudaDevice::page_locker() noexcept { return &HostRegistry::instance(); }

std::unique_ptr<HostMemory> CudaDevice::host_memory(std::size_t bytes) {
  return std::make_unique<CudaHostMemory>(context_, bytes);
}

bool CudaDevice::on_completion(std::function<void()> /*listener*/) {
  // CUDA could call back through host functions in the streams, but each of those costs more than a poll of all events.
  return false;
}

void CudaDevice::attach_thread() {
  RelaxedCapture::begin_for_thread();
  require(cudaSetDevice(ordinal()), "becoming a thread's current device");
  bind_near(info_.pci_bus_id);
}

bool CudaDevice::recover() noexcept {
  const CurrentContext current(context_);
  const double deadline = now_seconds() + recover_patience_s;
  const auto await_idle = [&](cudaStream_t stream) {
    cudaError_t error = cudaStreamQuery(stream);
    while ((error == cudaErrorNotReady || is_of_a_capture(error)) && now_seconds() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      error = cudaStreamQuery(stream);
    }
    forget_error();
    if (error != cudaSuccess) lost_.store(true, std::memory_order_release);
  };
  for (const cudaStream_t stream : streams_) await_idle(stream);
  await_idle(down_end_.stream());
  // The two parts of a copy that failed between them have not been joined.
  for (const SideStream& side : sides_) await_idle(side.stream());
  if (lost()) {
    abandon_staging();
    std::this_thread::sleep_for(engines_stop_within);
  } else if (must_recover_) {
    // No stream waits for the rings any more, and no later copy may use them.
    const std::lock_guard lock(staging_mutex_);
    for (auto& ring : staging_) ring.reset();
    must_recover_ = false;
  }
  const std::lock_guard lock(mutex_);
  down_ends_apart_ = false;
  for (CudaEvent::Causes& causes : causes_) causes.clear();
  return !lost();
}

}  // namespace tessera::device::cuda
