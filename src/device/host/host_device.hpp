// A device made of threads: a private arena as its memory, eight streams as threads that run their operations in order,
// events, and modelled time. It runs the same runtime code as a GPU, so that scheduling, coherence, out-of-core work,
// unequal speeds and faults are tested without one (DESIGN section 8).
//
// Modelled time: the device has five engines (compute, shared by the four compute streams; up; down; peer; to peer),
// each with a time line. An operation that becomes ready at time r reserves [s, s + duration) with s = max(r, engine free from) and
// duration = amount / rate + delay, does its real work, and is complete at the later of the reserved end and the end of
// the real work. r is the completion time of what the operation waited for, not the moment at which its thread woke up,
// so that the jitter of thread scheduling does not add up along a chain of operations. With rate 0 and delay 0 nothing
// is reserved.
//
// Memory: committed memory is memory that the process has; what is given back the kernel takes. Tests say how much of
// the device's memory others have taken.
//
// Failure: the submission with the number `refused_op` (copies and kernels are counted) throws WorkRefused, and nothing
// else happens. The operation with the number `fail_after_ops` (copies and kernels are counted, over all streams, or
// those of one kind) fails; a failing copy leaves half of its columns written, or of its slices. The device is then lost for
// ever: submissions throw DeviceLost and everything submitted before ends with failed events. A stream that waits for a
// failed event is poisoned: its later operations are skipped and its events fail, until recover().
//
// Invariant: every submitted operation is executed or skipped in finite time, so every recorded event ends.
// Thread-safe, except that recover() and the destructor may not run beside submissions.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "core/config.hpp"
#include "device/device.hpp"

namespace tessera::device {

class HostDevice : public Device {
 public:
  /// @param profile in which what the settings say (not 0) is replaced
  HostDevice(int ordinal, const HostDeviceSettings& settings, const DeviceProfile& profile = host_profile());
  /// Completes what was submitted, then ends the threads. @pre nobody else copies from this device
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override;
  std::byte* reserve(std::size_t bytes) override;
  std::byte* reserve_addresses(std::size_t bytes) override;
  std::size_t commit(std::size_t bytes) override;
  std::size_t decommit(std::size_t keep_bytes) override;
  /// From now on others hold so much of the device's memory. What is committed stays.
  void set_memory_of_others(std::size_t bytes) { memory_of_others_.store(bytes, std::memory_order_relaxed); }

  void copy_up(Block device_to, Block host_from, Extent extent) override;
  void copy_down(Block host_to, Block device_from, Extent extent) override;
  bool can_copy_slices(Extent extent, SliceKind kind) override;
  void copy_slices_down(Block host_to, Block device_from, Extent extent, const WrittenSlicesPtr& written) override;
  void copy_peer(Block device_to, Device& source, Block source_from, Extent extent) override;
  void copy_to_peer(Device& target, Block target_to, Block device_from, Extent extent) override;
  bool can_access(const Device& peer) const override;

  EventPtr record(StreamId stream) override;
  void wait(StreamId stream, const EventPtr& event) override;

  std::unique_ptr<HostPinning> pin_host(std::span<const HostRange> ranges) override;
  /// The listener is called by the stream threads after each event has completed or failed. When this returns, no call
  /// of the former listener is in flight. @pre not called by a listener
  bool on_completion(std::function<void()> listener) override;
  void attach_thread() override {}
  bool recover() noexcept override;

  /// Runs `work` on a stream as a kernel that takes `modelled_seconds` (plus the device's delay) on the compute engine.
  /// If `work` throws, the device is lost. Empty `work`: the kernel takes exactly its modelled time and does nothing.
  /// @throws DeviceLost
  void submit(StreamId stream, std::function<void()> work, double modelled_seconds);

  /// Whether the whole block lies in usable memory of the slab.
  bool holds(Block block, Extent extent) const;

  const HostDeviceSettings& settings() const { return settings_; }

  /// Copies of one direction, or kernels, that have begun.
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
    std::mutex mutex_;
    double free_from_ = 0;
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

  /// Takes addresses for the slab.
  void map_arena(std::size_t bytes);

  std::byte* arena_ = nullptr;
  std::size_t arena_bytes_ = 0;  ///< addresses
  /// Usable bytes from the beginning; release pairs with the acquire in free_memory_bytes() and holds(), which
  /// publishes arena_.
  std::atomic<std::size_t> committed_bytes_{0};
  std::atomic<std::size_t> memory_of_others_{0};  ///< a number by itself

  /// Set once, with release; the acquire loads in lost() order a loss before whatever a thread does because of it.
  std::atomic<bool> lost_{false};
  /// Number of the next operation, and of the next submission of one; only counters, order nothing.
  std::atomic<std::int64_t> operations_{0};
  std::atomic<std::int64_t> submissions_{0};
  std::array<std::atomic<std::int64_t>, 5> operations_of_{};  ///< by StreamKind

  std::array<Engine, 5> engines_;  ///< by StreamKind
  std::array<std::unique_ptr<Stream>, stream_count> streams_;

  std::mutex listener_mutex_;
  std::condition_variable listener_idle_;
  std::shared_ptr<Listener> listener_;
};

}  // namespace tessera::device
