// The two-level tile cache: gives a device the address of a tile. On a miss it fetches the tile from a peer that has it
// or is about to have it (level 2), else from host memory. When the device's heap is full it evicts the tile whose next
// use is farthest, by the uses that the worker has announced. Among tiles without a known use it evicts by ALRU.
//
// Invariants: readers > 0 keeps a replica in place. No two devices fetch the same tile from host memory as long as one
// of them holds it. Fetches in flight are shared: the second device waits for the first one's event. The only copy of a
// tile's readable version is never dropped, and host memory is read only while it holds that version
// (tile_directory.hpp). Within one job every segment has the same size, so the heap cannot fragment.
//
// Tiles that an earlier call has left in a device's memory are read where they lie (Device::lend). Such a replica takes
// no segment of the heap, and is not evicted. Its loan ends once the next version is complete and nobody reads it.
//
// A device may also keep the old value of a peer's output tile in free memory. It is not readable, and has a slot of
// its own until drop(). Nothing is evicted for it.
//
// A result stays on its device, with host memory stale, until it is evicted or requested. An eviction costs a
// write-back first, unless a peer holds the tile too. A task that reads a tile pins it. A task that writes it takes a
// place for the next version (acquire_output). If it is the only reader, it may take the readable version's place
// (update). Either way it then publishes and releases the tile.
//
// update(), flush(), flush_all(), flush_to_evict() and may_write_back() are for resident matrices. Their tiles are
// written more than once, or stay on their devices between calls and are written back when host memory is read. The
// jobs of single calls write each tile once and bring it home at once, so only tests call these functions.
//
// One lock covers the directory and the heaps, and is held for a few map lookups. Copies are submitted without it: a
// tile's place is taken under the lock, its copy is submitted, and then its event is published. A worker that wants to
// copy from a tile whose copy is being submitted waits for that, so that no tile is fetched twice. The device's worker
// queries without the lock whether a copy has ended. A device's worker is the owner of its replicas, and each method
// says who may call it. The lock lets owners look at each other's replicas. Source: BLASX, section IV-B, Alg. 2, Fig. 2
// and 3.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "cache/tile_directory.hpp"
#include "core/mutex.hpp"
#include "device/device.hpp"
#include "device/operation_log.hpp"
#include "heap/device_heap.hpp"

namespace tessera::cache {

/// The place of a tile as seen from a device.
enum class Level : std::uint8_t { host, l2, l1 };

struct CacheCounters {
  std::int64_t l1_hits = 0;
  std::int64_t l2_hits = 0;
  std::int64_t misses = 0;
  std::int64_t evictions = 0;
  std::int64_t bytes_up = 0;
  std::int64_t bytes_down = 0;
  std::int64_t bytes_peer = 0;
  std::int64_t bytes_kept = 0;  ///< copied from here to a peer that keeps old values
  std::int64_t pinned = 0;      ///< tiles that have readers
};

/// A device and the slab that its heap divides.
struct CacheDevice {
  device::Device* device = nullptr;
  std::byte* slab = nullptr;
  std::size_t slab_bytes = 0;  ///< usable
};

enum class Prefetch : std::uint8_t { started, held, no_memory };
enum class Flush : std::uint8_t { clean, begun, later };
enum class Keep : std::uint8_t { begun, not_here, no_memory };

/// The old value of a tile, in the memory of a device that does not compute it.
struct KeptTile {
  HostTile tile;
  int holder = 0;
  std::byte* address = nullptr;  ///< in the holder's memory; leading dimension is tile.rows
  device::EventPtr done;         ///< after which it is complete; then the original may be overwritten
  std::int64_t job = 0;          ///< the job that it belongs to
};

class TileCache {
 public:
  explicit TileCache(const std::vector<CacheDevice>& devices);

  /// Forgets every tile and starts a job whose tiles have at most `slot_bytes` bytes of `element_bytes`-sized elements.
  /// @pre no copy or kernel is in flight on any device
  /// One thread, while no worker uses the cache.
  void begin_job(std::size_t slot_bytes, std::size_t element_bytes);

  /// Whether every device can copy from every other one. Any thread.
  bool all_connected() const { return all_connected_; }

  /// Whether copies from and to each other's memory are possible. Any thread.
  bool are_connected(int device, int peer) const;

  /// The bytes of the heap that a tile of `slot_bytes` bytes takes.
  static constexpr std::size_t segment_bytes(std::size_t slot_bytes) {
    constexpr std::size_t unit = heap::FreeList::alignment;
    return (slot_bytes + unit - 1) / unit * unit;
  }

  /// Tiles of the current job that fit into the device at once. Any thread.
  index_t slots(int device) const;

  /// Pins `tile` on `device`, fetching it on a miss (this device, then a peer, then the host). A tile that the device
  /// lends is a hit.
  /// @param next_use when the device wants the tile again, by its worker's own count
  /// @return the replica, readers raised by one until release(); readable after its `ready` event, leading dimension
  ///         tile.rows; nullptr if the heap is full of tiles in use: try again when some work of this device has
  ///         completed
  /// @throws DeviceLost, WorkRefused
  /// Only the owner.
  Replica* pin(int device, const HostTile& tile, index_t next_use = never);
  /// Any thread.
  void release(Replica* replica);

  /// Starts to fetch a tile from host memory that will be pinned later. Does so if no device holds it, and if a segment
  /// is free beside `reserve` others or a tile can be evicted for it.
  /// @param next_use   when it will be pinned
  /// @param later_than tiles that are needed later are evicted
  /// Only the owner.
  Prefetch prefetch(int device, const HostTile& tile, index_t reserve, index_t next_use = never,
                    index_t later_than = never);
  /// Sets when each tile that the device holds will be used next. Replaces all earlier values. Only the owner.
  void set_next_uses(int device, const std::function<index_t(const HostTile&)>& next_use_of);
  /// Whether any copy from host memory to the device is under way. Only the owner.
  bool is_fetching(int device);
  /// Whether a copy from or to a peer that the device's worker has begun is under way. Only the owner.
  bool is_copying_beside_peers(int device);
  /// Bytes of the copies from host memory that wait behind the one under way. Only the owner.
  index_t queued_bytes(int device);

  /// Space for the next version of a tile (state Modified), pinned; the old value is fetched from host memory if
  /// `fetch`. Returns nullptr as pin() does.
  /// @param needed_soon tiles that will be used by then are not evicted for it
  /// Only the owner.
  Replica* acquire_output(int device, const HostTile& tile, bool fetch, index_t needed_soon = -1);
  /// Makes the next version of a tile in its place (state Modified): the pinned replica becomes the output, and
  /// replicas on other devices are dropped.
  /// @pre the caller has pinned it
  /// @return false if others read it or make the next version: try again later
  /// Only the owner.
  bool update(Replica* pinned);
  /// Makes a finished output readable by all devices (state Owned). It stays pinned until finish_output() or release().
  /// If not all devices are connected, the write-back must come first, because some will read it from host memory.
  /// Readers of the old value continue. Without readers the device drops it at once, and others drop it when they need
  /// memory.
  /// @pre the kernels that wrote the output have completed
  /// Only the owner.
  void publish(Replica* output);
  /// Whether other copies from and to that place in host memory allow write_back() to begin. Flushes of the version
  /// before, and fetches of it that no task has waited for, delay it. Always true if a tile is written once and every
  /// fetched tile is read. Only the owner.
  bool may_write_back(const Replica* output);
  /// Starts the copy of an output tile to host memory.
  /// @pre the kernels that wrote it have completed; no task will read the old value; it is pinned until the copy has
  /// ended
  /// @return the event after which it is in host memory
  /// @param begun set once the copy may have touched host memory, also if this function then throws
  /// @param written if set, the copy is made in slices and reports them here. nullptr: in any order
  /// @pre if `written` is set: the device can copy the tile in these slices, and the tile has no tail
  /// Only the owner.
  device::EventPtr write_back(Replica* output, index_t task, bool& begun,
                              const device::WrittenSlicesPtr& written = nullptr);
  /// Whether the device can write the tile in slices. Only the owner.
  bool can_write_slices(int device, const HostTile& tile, device::SliceKind kind) const;
  /// The copy has ended: once published, the tile may be read from host memory. Only the owner.
  void end_write_back(const Replica* output);
  /// Releases an output after its write-back, or without one if no task needs the tile. A published tile becomes a tile
  /// like any other; else it leaves the device. Only the owner.
  void finish_output(Replica* output);
  /// The tile leaves the device without having been written: the version before it stays valid.
  /// @pre acquire_output(); all work submitted for it has ended
  /// Only the owner.
  void abandon_output(Replica* output);

  /// Starts the copy of a published tile to host memory. When the copy has ended, collect() records it.
  /// @pre the device holds it
  /// @return clean if host memory has it; later if this device does not hold it or it is being written, or if it or an
  /// older version is on its way to a device
  /// @throws DeviceLost, WorkRefused
  /// Only the owner.
  Flush flush(int device, const HostTile& tile);
  /// Flushes all tiles that the device holds.
  /// @return the number of tiles that host memory does not have yet: call again after collect()
  /// Only the owner.
  std::size_t flush_all(int device);
  /// For a device that can evict nothing because it holds the only copies. Flushes the tile without readers that will
  /// be used last, which can then be evicted. @return whether there is one
  /// Only the owner.
  bool flush_to_evict(int device, index_t later_than = -1);

  /// Copies the old value of an output tile from the device into free memory of that peer of `peers` that keeps the
  /// fewest.
  /// @param output the output that the old value was fetched into; nullptr: it is a tile that the device reads
  /// @param waits  whether to copy even if the old value is still on its way
  /// @param kept   set if the copy has begun; must be passed to drop()
  /// @pre the kernels that overwrite `output`, or that come before publish(), wait for `kept.done`
  /// @throws DeviceLost, WorkRefused
  /// Only the owner.
  Keep keep(int device, const HostTile& tile, const Replica* output, bool waits, std::span<const int> peers,
            index_t task, KeptTile& kept);
  /// Copies it back to the tile's place in host memory, and waits for the end. @return false if that failed
  /// @pre it is complete; no other thread submits to its holder, or reads or writes the tile
  /// Only the owner of its holder.
  bool restore(const KeptTile& kept) noexcept;
  /// Frees its memory. If its copy has not completed, the memory stays taken until the job ends. Does nothing in a
  /// later job. Any thread.
  void drop(const KeptTile& kept) noexcept;

  /// The address of a replica's tail on its device. Any thread.
  std::byte* tail(const Replica& replica) const {
    return replica.address + tail_offset(replica.tile.rows * replica.tile.cols * element_bytes_);
  }

  /// Memory of a tile's size that belongs to no tile, until the job ends.
  /// @return nullptr if the heap is full of tiles in use
  /// Only the owner.
  std::byte* take_scratch(int device);

  /// Unpins the sources of completed copies: peer copies into `device`, copies to peers that keep old values, and
  /// flushes.
  /// @return whether there were any
  /// Only the owner.
  bool collect(int device);

  /// Whether the tile is on the device and not only on its way there. Only the owner.
  bool has_arrived(int device, const HostTile& tile);
  /// Any thread.
  Level locate(int device, const HostTile& tile) const;

  /// Any thread.
  CacheCounters counters(int device) const;
  /// Only the owner.
  device::OperationLog& log(int device) { return at(device).log; }

  /// To be read only while no other thread uses the cache.
  const TileDirectory& directory() const TESSERA_UNCHECKED { return directory_; }
  void check_invariants() const;

 private:
  struct PeerCopy {
    device::EventPtr done;
    Replica* source;
  };
  struct Arrival {
    device::EventPtr done;
    index_t bytes;
    Replica* replica;  ///< nullptr if it was discarded
  };
  struct PerDevice {
    CacheDevice place;
    heap::DeviceHeap heap;
    CacheCounters counters = {};
    // Lists of the device's worker, which queries their events without the lock.
    std::deque<PeerCopy> peer_copies = {};  // in stream order; sources of copies from peers
    std::deque<PeerCopy> kept_copies = {};  // in stream order; of tiles that the device reads
    std::deque<PeerCopy> write_backs = {};  // in stream order; flushes
    std::deque<Arrival> arrivals = {};      // in stream order; from host memory
    std::deque<Arrival> peer_arrivals = {};
    std::deque<device::EventPtr> kept_on_peers = {};  // in stream order; copies of old values to peers
    index_t arriving_bytes = 0;                       // of those from host memory
    std::size_t scratch_count = 0;
    std::size_t lent_count = 0;     // replicas in memory that is not the heap's
    std::size_t kept_count = 0;     // old values of other devices' tiles that it keeps
    device::OperationLog log = {};  // touched by the device's worker only
  };

  /// Releases the lock while it lives.
  class Submitting;

  static std::size_t count_complete(const std::deque<PeerCopy>& copies);
  void note_arrivals(int device) TESSERA_EXCLUDES(mutex_);
  void note_arrivals_to_evict(int device, index_t slots) TESSERA_EXCLUDES(mutex_);
  PerDevice& at(int device) { return devices_[static_cast<std::size_t>(device)]; }
  const PerDevice& at(int device) const { return devices_[static_cast<std::size_t>(device)]; }
  std::byte* allocate_slot(int device, index_t needed_soon = -1) TESSERA_REQUIRES(mutex_);
  void forget_arrival(const Replica& replica) TESSERA_REQUIRES(mutex_);
  void discard(Replica& replica, TileEvent event = TileEvent::drop) TESSERA_REQUIRES(mutex_);
  void end_loan(Replica& replica) TESSERA_REQUIRES(mutex_);
  void end_loans(const TileEntry& entry) TESSERA_REQUIRES(mutex_);
  Replica& enter(int device, const HostTile& tile, std::byte* address, TileEvent event, Replica* source)
      TESSERA_REQUIRES(mutex_);
  Replica* borrow(int device, const HostTile& tile) TESSERA_REQUIRES(mutex_);
  // Functions with a lock parameter release it while a copy is submitted.
  Replica& fetch(UniqueLock& lock, int device, const HostTile& tile, std::byte* address, Replica* source, int readers)
      TESSERA_REQUIRES(mutex_);
  void flush(UniqueLock& lock, Replica& replica) TESSERA_REQUIRES(mutex_);
  void copy_from_host(UniqueLock& lock, Replica& replica, bool with_tail) TESSERA_REQUIRES(mutex_);
  void copy_from_peer(UniqueLock& lock, Replica& replica, Replica& source) TESSERA_REQUIRES(mutex_);
  Replica* nearest_peer(int device, const HostTile& tile) const TESSERA_REQUIRES(mutex_);
  device::Extent extent(const HostTile& tile) const;
  device::Block host_block(const HostTile& tile) const;
  device::Block device_block(const Replica& replica) const;
  index_t moved_bytes(const HostTile& tile, bool with_tail) const;

  mutable Mutex mutex_;
  std::condition_variable submitted_;  ///< notified when the submission of a copy that fills a tile is over
  std::vector<PerDevice> devices_;
  bool all_connected_ = true;
  TileDirectory directory_ TESSERA_GUARDED_BY(mutex_);
  std::size_t slot_bytes_ = 1;
  index_t element_bytes_ = 1;
  std::int64_t job_ TESSERA_GUARDED_BY(mutex_) = 0;  ///< counts
};

}  // namespace tessera::cache
