// The two-level tile cache: gives a device the address of a tile, fetching it on a miss from a peer that has it or is
// about to have it (level 2), else from host memory. When the device's heap is full it evicts the tile whose next use
// is farthest, as far as the worker has told it, and by ALRU among those of which nothing is known.
//
// Invariants: readers > 0 keeps a replica in place; no two devices fetch the same tile from host memory as long as one
// of them holds it (fetches in flight are shared: the second waits for the first one's event); the only copy of a
// tile's readable version never goes, and host memory is read only while it holds that version (tile_directory.hpp).
// Within one job every segment has the same size, so that the heap cannot fragment.
//
// A device may also keep, in free memory, what an output tile of a peer was before: no readable tile, but a slot of its
// own until drop(). Nothing is evicted for it.
//
// A result stays on its device, host memory being stale, until it is evicted, which costs a write-back first unless a
// peer holds it too, or until it is asked for. A task that reads a tile pins it; one that writes it takes a place for
// the next version (acquire_output) or, alone, the place of the readable one (update); either publishes it and lets go
// of it.
//
// One lock over directory and heaps, held for a few map lookups. Copies are submitted without it: the place of a tile
// is taken under the lock, its copy is submitted, then the others are told its event. Who wants to copy from a tile
// whose copy is being submitted waits for that, so that nobody fetches it a second time. Whether a copy has ended is
// asked by the device's worker, without the lock, too. pin() and its kin for device d are called only by the worker of
// d; the lock is what lets them look at each other's replicas. Source: BLASX, section IV-B, Alg. 2, Fig. 2 and 3.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "cache/tile_directory.hpp"
#include "device/device.hpp"
#include "device/operation_log.hpp"
#include "heap/device_heap.hpp"

namespace tessera::cache {

/// Where a tile is, as seen from a device.
enum class Level : std::uint8_t { host, l2, l1 };

struct CacheCounters {
  std::int64_t l1_hits = 0;
  std::int64_t l2_hits = 0;
  std::int64_t misses = 0;
  std::int64_t evictions = 0;
  std::int64_t bytes_up = 0;
  std::int64_t bytes_down = 0;
  std::int64_t bytes_peer = 0;
  std::int64_t bytes_kept = 0;  ///< copied from here to a peer that keeps them
  std::int64_t pinned = 0;      ///< tiles that have readers at the moment
};

/// A device and the slab that its heap cuts up.
struct CacheDevice {
  device::Device* device = nullptr;
  std::byte* slab = nullptr;
  std::size_t slab_bytes = 0;  ///< usable
};

enum class Prefetch : std::uint8_t { started, held, no_room };
enum class Flush : std::uint8_t { clean, begun, later };
enum class Keep : std::uint8_t { begun, not_here, no_room };

/// A tile as it was, in the memory of a device that does not compute it.
struct KeptTile {
  HostTile tile;
  int holder = 0;
  std::byte* address = nullptr;  ///< in the holder's memory; leading dimension is tile.rows
  device::EventPtr done;         ///< after which it is whole, and the original on the other device may be overwritten
  std::int64_t job = 0;          ///< that it belongs to
};

class TileCache {
 public:
  explicit TileCache(const std::vector<CacheDevice>& devices);

  /// Forgets every tile and starts a job whose tiles have at most `slot_bytes` bytes of `element_bytes`-sized elements.
  /// @pre no copy or kernel is in flight on any device
  void begin_job(std::size_t slot_bytes, std::size_t element_bytes);

  /// From the next job on, tiles take only so much of the device's slab.
  void set_heap_bytes(int device, std::size_t bytes);

  /// Whether every device can copy from every other one.
  bool all_connected() const { return all_connected_; }

  /// Whether copies from and to each other's memory are possible.
  bool are_connected(int device, int peer) const;

  /// What a tile of `slot_bytes` bytes takes of the heap.
  static constexpr std::size_t segment_bytes(std::size_t slot_bytes) {
    constexpr std::size_t unit = heap::FreeList::alignment;
    return (slot_bytes + unit - 1) / unit * unit;
  }

  /// Tiles of the current job that fit into the device at once.
  index_t slots(int device) const;

  /// Pins `tile` on `device`, fetching it on a miss (this device, then a peer, then the host).
  /// @param next_use when the device wants the tile again, by its worker's own count
  /// @return the replica, readers raised by one until release(); readable after its `ready` event, leading dimension
  ///         tile.rows; nullptr if the heap is full of tiles in use: try again when some work of this device has completed
  /// @throws DeviceLost, WorkRefused
  Replica* pin(int device, const HostTile& tile, index_t next_use = never);
  void release(Replica* replica);

  /// Starts to fetch a tile from host memory that will be pinned later, if no device holds it and there is a free
  /// segment beside `reserve` others, or a tile that makes room for it.
  /// @param next_use   when it will be pinned
  /// @param later_than tiles that are needed later make room
  Prefetch prefetch(int device, const HostTile& tile, index_t reserve, index_t next_use = never,
                    index_t later_than = never);
  /// Tells when each tile that the device holds will be wanted next. Forgets what was known before.
  void set_next_uses(int device, const std::function<index_t(const HostTile&)>& next_use_of);
  /// Whether anything is on its way from host memory to the device.
  bool is_fetching(int device);
  /// Whether a copy from or to a peer that the device's worker has begun is under way.
  bool is_copying_beside_peers(int device);
  /// Bytes of the copies from host memory that wait behind the one under way.
  index_t queued_bytes(int device);

  /// Space for the next version of a tile (state Modified), pinned; the old value is fetched from host memory if
  /// `fetch`. nullptr as for pin().
  /// @param needed_soon tiles that will be wanted by then are not evicted for it
  Replica* acquire_output(int device, const HostTile& tile, bool fetch, index_t needed_soon = -1);
  /// Makes the next version of a tile in its place (state Modified): what is pinned becomes the output, and replicas on
  /// other devices go. @pre the caller has pinned it @return false if others read it, or make the next version: try
  /// again later
  bool update(Replica* pinned);
  /// Makes a finished output readable by all devices (state Owned). It stays pinned until finish_output() or release().
  /// Where devices are not all connected, only after its write-back, because some will read it from host memory. Who
  /// reads the old value goes on; if nobody does, the device gives it up at once, others when they need room. @pre the
  /// kernels that wrote the output have completed
  void publish(Replica* output);
  /// Whether write_back() may begin as far as other copies from and to that place in host memory are concerned: flushes
  /// of the version before, fetches of it that nobody has waited for. Always so where a tile is written once and no
  /// more is fetched than read.
  bool may_write_back(const Replica* output);
  /// Starts the copy of an output tile to host memory. @pre the kernels that wrote it have completed; nobody will read
  /// the old value any more; it is pinned until the copy has ended
  /// @return the event after which it is there
  /// @param begun set once the copy may have touched host memory, also if this then throws
  /// @param written the copy is made in slices, and tells of them here. nullptr: in any order
  /// @pre a device that can copy it in these slices, and a tile without a tail, if `written` is there
  device::EventPtr write_back(Replica* output, index_t task, bool& begun,
                              const device::WrittenSlicesPtr& written = nullptr);
  /// Whether the device can write the tile so. Called by its worker.
  bool can_write_slices(int device, const HostTile& tile, device::SliceKind kind) const;
  /// The copy has ended: what has been published, or will be, may be read from host memory.
  void end_write_back(const Replica* output);
  /// After the write-back, or without one if nobody needs the tile any more: it leaves the device or, if it was
  /// published, is a tile like any other.
  void finish_output(Replica* output);
  /// The tile leaves the device without having been written: the version before is what there is.
  /// @pre acquire_output(); what was submitted for it has ended
  void abandon_output(Replica* output);

  /// Starts the copy of a published tile to host memory. When it has ended, collect() tells the others. @pre the device
  /// holds it
  /// @return clean if host memory has it; later if it is being written, it or an older version is on its way to a
  /// device, or it is not on this one
  /// @throws DeviceLost, WorkRefused
  Flush flush(int device, const HostTile& tile);
  /// Likewise for all that the device holds. @return tiles that host memory does not have yet: again after collect()
  std::size_t flush_all(int device);
  /// What to do when there is no room because the device holds the only copy of what nobody reads: flushes the tile of
  /// those that will be wanted last, which can then be evicted. @return whether there is one
  bool make_room(int device, index_t later_than = -1);

  /// Copies the old value of an output tile from the device into free memory of a peer, the one of `peers` that keeps
  /// fewest.
  /// @param output that the old value has been fetched into; nullptr: it is a tile that the device reads
  /// @param waits  also if the old value is still on its way
  /// @param kept   set if the copy has begun; to be given to drop()
  /// @pre the kernels that will have overwritten `output`, or come before publish(), wait for `kept.done`
  /// @throws DeviceLost, WorkRefused
  Keep keep(int device, const HostTile& tile, const Replica* output, bool waits, std::span<const int> peers,
            index_t task, KeptTile& kept);
  /// Copies it to where the tile is in host memory, and waits for the end. @return false if that failed
  /// @pre it is whole; nobody else submits to its holder, or reads or writes the tile
  bool restore(const KeptTile& kept) noexcept;
  /// Frees its memory. What has not become whole keeps it until the job ends. Does nothing in a later job.
  void drop(const KeptTile& kept) noexcept;

  /// Where a replica's tail lies on its device.
  std::byte* tail(const Replica& replica) const {
    return replica.address + tail_offset(replica.tile.rows * replica.tile.cols * element_bytes_);
  }

  /// Space for a tile's elements that belong to no tile, until the job ends.
  /// @return nullptr if the heap is full of tiles in use
  std::byte* take_scratch(int device);

  /// Lets go of the sources of peer copies into and out of `device`, and of flushed tiles, whose copies have completed.
  /// @return whether there were any
  bool collect(int device);

  /// Whether the tile is on the device and not only on its way there.
  bool has_arrived(int device, const HostTile& tile);
  Level locate(int device, const HostTile& tile) const;

  CacheCounters counters(int device) const;
  device::OperationLog& log(int device) { return at(device).log; }

  /// To look at while nobody else uses the cache.
  const TileDirectory& directory() const { return directory_; }
  void check_invariants() const;

 private:
  struct PeerCopy {
    device::EventPtr done;
    Replica* source;
  };
  struct Arrival {
    device::EventPtr done;
    index_t bytes;
    Replica* replica;  ///< nullptr if it is gone
  };
  struct PerDevice {
    CacheDevice place;
    heap::DeviceHeap heap;
    CacheCounters counters = {};
    // Lists of the device's worker, which asks without the lock what has ended.
    std::deque<PeerCopy> peer_copies = {};  // in stream order
    std::deque<PeerCopy> kept_copies = {};  // likewise; of tiles that the device reads
    std::deque<PeerCopy> write_backs = {};  // likewise; flushes
    std::deque<Arrival> arrivals = {};      // likewise; from host memory
    std::deque<Arrival> peer_arrivals = {};
    std::deque<device::EventPtr> kept_on_peers = {};  // likewise; all copies to peers that keep them
    index_t arriving_bytes = 0;                       // of those from host memory
    std::size_t scratch_count = 0;
    std::size_t kept_count = 0;     // tiles of others that it keeps
    device::OperationLog log = {};  // touched by the device's worker only
  };

  /// Lets go of the lock while it lives.
  class Submitting;

  static std::size_t count_complete(const std::deque<PeerCopy>& copies);
  void note_arrivals(int device);
  void note_arrivals_to_evict(int device, index_t slots);
  PerDevice& at(int device) { return devices_[static_cast<std::size_t>(device)]; }
  const PerDevice& at(int device) const { return devices_[static_cast<std::size_t>(device)]; }
  std::byte* allocate_slot(int device, index_t needed_soon = -1);
  void forget_arrival(const Replica& replica);
  void discard(Replica& replica, TileEvent event = TileEvent::drop);
  Replica& enter(int device, const HostTile& tile, std::byte* address, TileEvent event, Replica* source);
  // What is passed a lock holds it but while a copy is submitted.
  using Lock = std::unique_lock<std::mutex>;
  Replica& fetch(Lock& lock, int device, const HostTile& tile, std::byte* address, Replica* source, int readers);
  void flush(Lock& lock, Replica& replica);
  void copy_from_host(Lock& lock, Replica& replica, bool with_tail);
  void copy_from_peer(Lock& lock, Replica& replica, Replica& source);
  Replica* nearest_peer(int device, const HostTile& tile) const;
  device::Extent extent(const HostTile& tile) const;
  device::Block host_block(const HostTile& tile) const;
  device::Block device_block(const Replica& replica) const;
  index_t moved_bytes(const HostTile& tile, bool with_tail) const;

  mutable std::mutex mutex_;
  std::condition_variable submitted_;  ///< a copy that fills a tile, or it has failed to be
  std::vector<PerDevice> devices_;
  bool all_connected_ = true;
  TileDirectory directory_;
  std::size_t slot_bytes_ = 1;
  index_t element_bytes_ = 1;
  std::int64_t job_ = 0;  ///< counts
};

}  // namespace tessera::cache
