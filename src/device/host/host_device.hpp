// A device made of threads. A private arena is its memory, and eight streams are threads that run their operations in
// order. It has events and modelled time. It runs the same runtime code as a GPU, so that scheduling, coherence,
// out-of-core work, unequal speeds and faults are tested without one.
//
// Modelled time: the device has five engines (compute, shared by the four compute streams; up; down; peer; to peer),
// each with a time line. Let an operation become ready at time r. It reserves [s, s + duration) with s = max(r, engine
// free from) and duration = amount / rate + delay. Then it does its real work. It is complete at the later of the
// reserved end and the end of the real work. r is the completion time of the operation's dependencies, not the moment
// at which its thread woke up. So the jitter of thread scheduling does not add up along a chain of operations. With
// rate 0 and delay 0 nothing is reserved.
//
// Memory: committed memory is real memory of the process, and decommitted memory goes back to the kernel. Tests set how
// much of the device's memory others hold.
//
// Failure: the submission with the number `refused_op` (copies and kernels are counted) throws WorkRefused, without
// other effects. The operation with the number `fail_after_ops` fails (copies and kernels are counted, over all
// streams, or those of one kind). A failing copy leaves half of its columns, or of its slices, written. The device is
// then lost permanently: submissions throw DeviceLost, and everything submitted before ends with failed events. A
// stream that waits for a failed event is poisoned: its later operations are skipped and its events fail, until
// recover().
//
// Invariant: every submitted operation is executed or skipped in finite time, so every recorded event ends.
// Thread-safe, except that recover() and the destructor may not run beside submissions.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>

#include "core/config.hpp"
#include "core/mutex.hpp"
#include "device/device.hpp"

namespace tessera::device {

class HostDevice : public Device {
 public:
  /// @param profile the base, in which settings other than 0 replace values
  HostDevice(int ordinal, const HostDeviceSettings& settings, const DeviceProfile& profile = host_profile());
  /// Completes submitted work, then ends the threads. @pre no other device copies from this one
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override;
  std::byte* reserve(std::size_t bytes) override;
  std::byte* reserve_addresses(std::size_t bytes) override;
  std::size_t commit(std::size_t bytes) override;
  std::size_t decommit(std::size_t keep_bytes) override;
  /// From now on others hold so much of the device's memory. Committed memory stays.
  void set_memory_of_others(std::size_t bytes) { memory_of_others_.store(bytes, std::memory_order_relaxed); }

  void copy_up(Block device_to, Block host_from, Extent extent) override;
  void copy_down(Block host_to, Block device_from, Extent extent) override;
  bool can_copy_slices(Extent extent, SliceKind kind) override;
  void copy_slices_down(Block host_to, Block device_from, Extent extent, const WrittenSlicesPtr& written) override;
  std::byte* take_memory(std::size_t bytes) override;
  void free_memory(std::byte* memory) override;
  void copy_within(StreamKind stream, Block to, Block from, Extent extent) override;
  void copy_peer(Block device_to, Device& source, Block source_from, Extent extent) override;
  void copy_to_peer(Device& target, Block target_to, Block device_from, Extent extent) override;
  bool can_access(const Device& peer) const override;

  EventPtr record(StreamId stream) override;
  void wait(StreamId stream, const EventPtr& event) override;

  std::unique_ptr<HostPinning> pin_host(std::span<const HostRange> ranges) override;
  PageLocker* page_locker() noexcept override;
  /// The stream threads call the listener after each event has completed or failed. When this returns, no call of the
  /// former listener is running. @pre not called by a listener
  bool on_completion(std::function<void()> listener) override;
  void attach_thread() override {}
  bool recover() noexcept override;

  /// Runs `work` on a stream as a kernel that takes `modelled_seconds` (plus the device's delay) on the compute engine.
  /// If `work` throws, the device is lost. Empty `work`: the kernel takes exactly its modelled time and does nothing.
  /// @throws DeviceLost
  void submit(StreamId stream, std::function<void()> work, double modelled_seconds);

  /// Whether the whole block lies in usable memory of the slab, or beside it.
  bool holds(Block block, Extent extent) const;

  const HostDeviceSettings& settings() const { return settings_; }

  /// The number of copies of one direction, or of kernels, that have begun.
  std::int64_t operations(StreamKind kind) const {
    return operations_of_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  struct Operation;
  class Stream;
  struct Listener;

  /// The time line of one engine.
  class Engine {
   public:
    /// @return the end of the reserved interval
    double reserve(double ready, double seconds);

   private:
    Mutex mutex_;
    double free_from_ TESSERA_GUARDED_BY(mutex_) = 0;
  };

  void enqueue(StreamId id, Operation operation);
  void enqueue_copy(StreamKind kind, Block to, Block from, Extent extent, const HostDevice* peer,
                    WrittenSlicesPtr written = nullptr);
  void execute(Stream& stream, Operation& operation);
  void execute_work(Stream& stream, Operation& operation);
  /// Counts the operation. @return whether it is the one that fails
  bool begin_operation(StreamKind kind);
  void notify_listener();
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  void lose() { lost_.store(true, std::memory_order_release); }

  HostDeviceSettings settings_;
  DeviceInfo info_;

  /// Maps the addresses of the slab.
  void map_arena(std::size_t bytes);

  std::byte* arena_ = nullptr;
  std::size_t arena_bytes_ = 0;  ///< bytes of reserved addresses
  /// Usable bytes from the beginning. Release pairs with the acquire in free_memory_bytes() and holds(), and publishes
  /// arena_.
  std::atomic<std::size_t> committed_bytes_{0};
  std::atomic<std::size_t> memory_of_others_{0};  ///< independent of all other data
  mutable Mutex beside_mutex_;
  std::vector<std::span<std::byte>> beside_ TESSERA_GUARDED_BY(beside_mutex_);  ///< of take_memory()

  /// Set once, with release. The acquire loads in lost() order the loss before a thread's reaction to it.
  std::atomic<bool> lost_{false};
  /// Number of the next operation, and of the next submission. They are only counters, and order nothing.
  std::atomic<std::int64_t> operations_{0};
  std::atomic<std::int64_t> submissions_{0};
  std::array<std::atomic<std::int64_t>, 5> operations_of_{};  ///< by StreamKind

  std::array<Engine, 5> engines_;  ///< by StreamKind
  std::array<std::unique_ptr<Stream>, stream_count> streams_;

  Mutex listener_mutex_;
  std::condition_variable listener_idle_;
  std::shared_ptr<Listener> listener_ TESSERA_GUARDED_BY(listener_mutex_);
};

}  // namespace tessera::device
