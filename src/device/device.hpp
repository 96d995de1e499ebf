// A device holds a slab of memory, whole or as far as needed. It copies 2-D blocks up / down / from a peer on streams,
// and orders streams by events. The runtime, the cache and the heap know devices only through this interface. Host
// devices and CUDA GPUs implement it and pass the same conformance suite (tests/device/conformance.hpp).
//
// Streams: `compute_streams` compute streams and one each for copies up, down, from a peer and to a peer. Work on one
// stream runs in order of submission; only events order different streams. Every call that takes a stream only submits
// and returns.
// Events: record() marks the work submitted to a stream so far; wait() makes a stream (of any device of the same
// backend) wait for it.
// Memory: a slab is one range of addresses. Either all of it is memory from the start (reserve). Or memory is committed
// to it from its beginning on, and decommitted from its end (reserve_addresses, commit, decommit); this happens only
// between jobs.
// Failure: a submission that a device refuses throws WorkRefused, and the device can continue. A submission on a failed
// device throws DeviceLost. Its submitted work completes with EventStatus::failed, and so does work on other devices
// that waits for it. recover() then reports whether the device is still good.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "core/page_locker.hpp"
#include "core/rates_by_type.hpp"
#include "core/scalar.hpp"
#include "device/device_profile.hpp"
#include "device/host_memory.hpp"
#include "device/slices.hpp"

namespace tessera::device {

inline constexpr int compute_streams = 4;

enum class StreamKind : std::uint8_t { compute, up, down, peer, to_peer };

struct StreamId {
  StreamKind kind = StreamKind::compute;
  int index = 0;  ///< 0 .. compute_streams-1 for compute, 0 otherwise
};
inline constexpr int stream_count = compute_streams + 4;
/// Dense number of a stream: compute 0..3, up 4, down 5, peer 6, to_peer 7.
constexpr int stream_number(StreamId id) {
  return id.kind == StreamKind::compute ? id.index : compute_streams + static_cast<int>(id.kind) - 1;
}

enum class EventStatus : std::uint8_t { pending, complete, failed };

/// A point in a stream. All its waiters share it; it may outlive its device. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  /// Never blocks. A status of complete or failed is final.
  virtual EventStatus status() const noexcept = 0;
  /// Seconds on std::chrono::steady_clock at which the work before the event was done. @pre status() == complete
  virtual double completed_at() const = 0;
};
using EventPtr = std::shared_ptr<Event>;

struct DeviceInfo {
  std::string backend;  ///< "host" or "cuda"
  int ordinal = 0;      ///< within its backend
  std::string name;
  std::size_t memory_bytes = 0;
  std::string pci_bus_id;       ///< "0000:1b:00.0"; empty for host devices
  RatesByType flops_per_s;      ///< matrix rates, rough figures; 0: unknown
  double link_bytes_per_s = 0;  ///< host link, a rough figure; 0: unknown
  /// Host threads that carry pageable and scattered memory to and from the open device; 0: that memory is better
  /// page-locked.
  int copy_threads = 0;
  DeviceProfile profile = {};  ///< of its architecture
};

/// A column-major 2-D block as copy engines see it: `columns` runs of `column_bytes`, `pitch_bytes` apart.
struct Block {
  std::byte* address = nullptr;
  index_t pitch_bytes = 0;
};
/// The part of a block that a copy moves: all of it or, of a square block of `element_bytes`-sized elements, one
/// triangle with its diagonal. Elements outside the triangle are neither read nor written, on either side.
struct Extent {
  index_t column_bytes = 0;
  index_t columns = 0;
  Part part = Part::full;
  index_t element_bytes = 1;

  /// Bytes [first, last) of column j that are moved.
  index_t first_byte(index_t j) const { return part == Part::lower ? j * element_bytes : 0; }
  index_t last_byte(index_t j) const { return part == Part::upper ? (j + 1) * element_bytes : column_bytes; }
  index_t bytes() const {
    return part == Part::full ? column_bytes * columns : columns * (columns + 1) / 2 * element_bytes;
  }
};

/// A range of host memory that a job will read or write.
struct HostRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

/// A matrix in host memory: columns of `column_bytes`, `pitch_bytes` apart.
struct HostMatrix {
  std::byte* address = nullptr;
  index_t pitch_bytes = 0;
  index_t column_bytes = 0;
  index_t columns = 0;

  /// From the first to past the last byte, what lies between columns included.
  HostRange range() const { return {address, address + (columns - 1) * pitch_bytes + column_bytes}; }
};

/// A matrix that a job reads or writes.
struct Touched {
  enum class Use : std::uint8_t { read, written_in_part, written };
  HostMatrix matrix;
  Use use = Use::read;
};

/// A block in a device's memory that others may read in place.
struct LentBlock {
  std::byte* address = nullptr;      ///< columns are dense
  std::shared_ptr<const void> loan;  ///< the block stays as it is while this lives
};

/// Keeps host ranges page-locked for its lifetime. It undoes only its own locks.
class HostPinning {
 public:
  virtual ~HostPinning() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  /// Bytes that reserve() or commit() could take now (CUDA: free device memory).
  virtual std::size_t free_memory_bytes() const = 0;

  /// Takes the slab, all of it at once. @return its address, at least 256-byte aligned. @throws OutOfDeviceMemory
  /// @pre the device has no slab
  virtual std::byte* reserve(std::size_t bytes) = 0;
  /// Reserves the addresses of a slab without any memory.
  /// @return as reserve(); nullptr if the device supports only reserve()
  /// @throws OutOfDeviceMemory if the device never has so much
  /// @pre the device has no slab
  virtual std::byte* reserve_addresses(std::size_t /*bytes*/) { return nullptr; }
  /// Makes at least the first `bytes` of the reserved addresses usable by this device and, for copies, by its peers.
  /// May take milliseconds, and more memory than requested.
  /// @return bytes that are usable now: fewer than requested if memory is short
  /// @throws DeviceLost
  virtual std::size_t commit(std::size_t /*bytes*/) { return 0; }
  /// Releases committed memory beyond the first `keep_bytes`, or most of it. @return bytes that are usable now
  /// @pre no running work uses that memory
  virtual std::size_t decommit(std::size_t /*keep_bytes*/) { return 0; }
  /// Takes memory beside the slab, for copies within the device and to and from peers. Thread-safe, as free_memory()
  /// is.
  /// @return its address; nullptr if there is not so much, or the device has no such memory
  virtual std::byte* take_memory(std::size_t /*bytes*/) { return nullptr; }
  /// Frees memory of take_memory(). The device frees all others at its end. @pre no running work uses it
  virtual void free_memory(std::byte* /*memory*/) {}
  /// Whether somebody has page-locked this address of host memory for devices of this kind. Thread-safe.
  virtual bool has_locked(const std::byte* /*host*/) const { return false; }

  /// Host -> device on the up stream. Host memory may be pageable. It must stay valid until the next event on the
  /// stream completes.
  virtual void copy_up(Block device_to, Block host_from, Extent extent) = 0;
  /// Device -> host on the down stream. Copies that write the same host memory must be ordered by events.
  virtual void copy_down(Block host_to, Block device_from, Extent extent) = 0;
  /// Whether copy_slices_down() can copy such a block. Called by the thread that submits.
  virtual bool can_copy_slices(Extent /*extent*/, SliceKind /*kind*/) { return false; }
  /// copy_down() slice by slice. Each slice is written whole or not at all, even if the device fails. @pre
  /// can_copy_slices()
  /// @param written of that kind; receives slices until the copy has ended, or the device has recovered
  virtual void copy_slices_down(Block /*host_to*/, Block /*device_from*/, Extent /*extent*/,
                                const WrittenSlicesPtr& /*written*/) {
    throw InternalError("a device that cannot copy slices was asked to");
  }
  /// A block of host memory that lies in this device's memory, too. All its streams and its peers may read it at once.
  /// Called by the thread that submits.
  /// @return nothing if it does not lie there, or not in one piece
  virtual std::optional<LentBlock> lend(Block /*host*/, Extent /*extent*/) { return std::nullopt; }
  /// From place to place in this device's memory, on the up or the down stream. The places do not overlap.
  virtual void copy_within(StreamKind /*stream*/, Block /*to*/, Block /*from*/, Extent /*extent*/) {
    throw InternalError("a device that cannot copy within its memory was asked to");
  }
  /// Memory of `source` -> this device on this device's peer stream. @pre can_access(source)
  virtual void copy_peer(Block device_to, Device& source, Block source_from, Extent extent) = 0;
  /// This device's memory -> memory of `target` on this device's to_peer stream. @pre can_access(target)
  virtual void copy_to_peer(Device& target, Block target_to, Block device_from, Extent extent) = 0;
  /// Whether copies from and to the memory of `peer` are possible.
  virtual bool can_access(const Device& peer) const = 0;

  virtual EventPtr record(StreamId stream) = 0;
  virtual void wait(StreamId stream, const EventPtr& event) = 0;

  /// Page-locks the ranges if that helps and is possible; nullptr if there was nothing to lock. Never throws for memory
  /// that cannot be locked: copies of it are only slower.
  virtual std::unique_ptr<HostPinning> pin_host(std::span<const HostRange> ranges) = 0;

  /// Locks memory of the process, which all devices of this kind then copy without staging. nullptr: it has none. Any
  /// thread may call this.
  virtual PageLocker* page_locker() noexcept { return nullptr; }

  /// Host memory that this device copies without staging: page-locked if possible. It must be destroyed before the
  /// device, when no copy uses it. Any thread may call this. @throws std::bad_alloc
  virtual std::unique_ptr<HostMemory> host_memory(std::size_t bytes) { return std::make_unique<HostMemory>(bytes); }

  /// Calls `listener` after work of this device completes (from any thread, without locks held; it must return
  /// quickly).
  /// @return false if the device has no such notification, and its events must be polled An empty function removes the
  /// listener.
  virtual bool on_completion(std::function<void()> listener) = 0;

  /// Called once by the thread that will submit copies, record and wait. CUDA: makes the device the thread's current
  /// one, and binds the thread to the processors near it. All other calls may come from any thread, and leave its
  /// current device as it was. Submissions may come from any thread, too, while that thread makes none.
  virtual void attach_thread() = 0;

  /// Waits until all streams are idle or failed, and clears failures that other devices caused.
  /// @return true if this device can continue
  virtual bool recover() noexcept = 0;

  /// The text of a failure that the device does not recover from; empty: there is none. Any thread.
  virtual std::string diagnosis() const { return {}; }
};

/// Seconds on the clock that events use.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tessera::device
