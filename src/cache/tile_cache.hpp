// The two-level tile cache: gives a device the address of a tile, fetching it on a miss from a peer that has it or is
// about to have it (level 2), else from host memory. When the device's heap is full it evicts the tile whose next use
// is farthest, as far as the worker has told it, and by ALRU among those of which nothing is known.
//
// Invariants: readers > 0 keeps a replica in place; no two devices fetch the same tile from host memory as long as one
// of them holds it (fetches in flight are shared: the second waits for the first one's event); an output tile has one
// holder. Within one job every segment has the same size, so that the heap cannot fragment.
//
// A device may also keep, in free memory, what an output tile of a peer was before: no readable tile, but a slot of its
// own until drop(). Nothing is evicted for it.
//
// One lock over directory and heaps, held for a few map lookups. Copies are submitted without it: the place of a tile is
// taken under the lock, its copy is submitted, then the others are told its event. Who wants to copy from a tile whose
// copy is being submitted waits for that, so that nobody fetches it a second time. pin() and its kin for device d are
// called only by the worker of d; the lock is what lets them look at each other's replicas. Source: BLASX, section IV-B,
// Alg. 2, Fig. 2 and 3.
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
  /// Bytes of the copies from host memory that wait behind the one under way.
  index_t queued_bytes(int device);

  /// Space for an output tile (state Modified), pinned; its old value is fetched if `fetch`. nullptr as for pin().
  /// @param needed_soon tiles that will be wanted by then are not evicted for it
  Replica* acquire_output(int device, const HostTile& tile, bool fetch, index_t needed_soon = -1);
  /// Starts the copy of an output tile to host memory. @pre the kernels that wrote it have completed
  /// @return the event after which it is there
  /// @param begun set once the copy may have touched host memory, also if this then throws
  device::EventPtr write_back(Replica* output, index_t task, bool& begun);
  /// Makes a finished output readable by all devices. It stays pinned until finish_output(). Where devices are not all
  /// connected, only after its write-back, because some will read it from host memory. The old value, if the device has
  /// fetched that too, is dropped.
  /// @pre the kernels that wrote it have completed; nobody reads the old value
  void publish(Replica* output);
  /// After the write-back: the tile leaves the device or, if it was published, is a tile like any other.
  void finish_output(Replica* output);

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

  /// Space for a tile's elements that belong to no tile, until the job ends.
  /// @return nullptr if the heap is full of tiles in use
  std::byte* take_scratch(int device);

  /// Lets go of the sources of peer copies into and out of `device` that have completed. @return whether there were any
  bool collect(int device);

  /// Whether the tile is on the device and not only on its way there.
  bool has_arrived(int device, const HostTile& tile) const;
  Level locate(int device, const HostTile& tile) const;

  CacheCounters counters(int device) const;
  device::OperationLog& log(int device) { return at(device).log; }

  void check_invariants() const;

 private:
  struct PeerCopy {
    device::EventPtr done;
    Replica* source;
  };
  struct Arrival {
    device::EventPtr done;
    index_t bytes;
  };
  struct PerDevice {
    CacheDevice place;
    heap::DeviceHeap heap;
    CacheCounters counters = {};
    std::deque<PeerCopy> peer_copies = {};  // in stream order
    std::deque<PeerCopy> kept_copies = {};  // likewise; of tiles that the device reads
    std::deque<Arrival> arrivals = {};      // in stream order
    index_t arriving_bytes = 0;             // their sum
    std::size_t scratch_count = 0;
    std::size_t kept_count = 0;     // tiles of others that it keeps
    device::OperationLog log = {};  // touched by the device's worker only
  };

  /// Lets go of the lock while it lives.
  class Submitting;

  static bool collect(std::deque<PeerCopy>& copies);
  static bool is_here(const Replica& replica);
  void forget_arrived(PerDevice& here);
  PerDevice& at(int device) { return devices_[static_cast<std::size_t>(device)]; }
  const PerDevice& at(int device) const { return devices_[static_cast<std::size_t>(device)]; }
  std::byte* allocate_slot(int device, index_t needed_soon = -1);
  void discard(Replica& replica, TileEvent event);
  // What is passed a lock holds it but while a copy is submitted.
  using Lock = std::unique_lock<std::mutex>;
  Replica& fetch(Lock& lock, int device, const HostTile& tile, std::byte* address, Replica* source);
  void copy_from_host(Lock& lock, Replica& replica);
  void copy_from_peer(Lock& lock, Replica& replica, Replica& source);
  Replica* nearest_peer(int device, const HostTile& tile) const;
  device::Extent extent(const HostTile& tile) const;
  device::Block host_block(const HostTile& tile) const;
  device::Block device_block(const Replica& replica) const;

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
