// The directory of tiles: every replica of every tile on every device, its version, the place of the current version,
// and each device's order of use.
//
// A tile has one readable version and at most one that is being written: insert() or update() begins it, publish()
// makes it the readable one. If the old value is read while a device computes the new one (trmm in place), both exist
// side by side. Replicas of a version that the next one has replaced are superseded. No lookup finds them, their
// readers may continue, and they are the first that may be evicted.
//
// Invariants: The state of the readable version agrees with its replicas and with the version that host memory holds.
// Its last copy is never dropped. A replica with readers or in transit is not offered for eviction. Host memory holds
// no version from the beginning of a write-back to its end. The directory lives for one job; nothing in it outlives the
// call, because the program may change its matrices between calls. Pure bookkeeping: moves no data, allocates no device
// memory, calls no device. Not thread-safe (the tile cache holds its lock). Source: BLASX, section IV-B, Alg. 2 (ALRU);
// Belady 1966 for eviction by next use; coherence.hpp.
#pragma once

#include <cstddef>
#include <limits>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/coherence.hpp"
#include "core/scalar.hpp"
#include "core/thread_safety.hpp"
#include "device/device.hpp"

namespace tessera::cache {

/// A block of a column-major host matrix; the identity of a tile within a job. It may have a tail: separate memory,
/// which the task that computes the tile writes. The tail is copied with every version but the first.
struct HostTile {
  std::byte* address = nullptr;
  index_t rows = 0;
  index_t cols = 0;
  index_t ld = 0;          ///< elements
  Part part = Part::full;  ///< a triangle only for square tiles
  std::byte* tail = nullptr;
  index_t tail_bytes = 0;
  bool operator==(const HostTile&) const = default;
};

/// The bytes that a copy of the tile moves.
inline device::Extent extent_of(const HostTile& tile, index_t element_bytes) {
  return {tile.rows * element_bytes, tile.cols, tile.part, element_bytes};
}

/// Bytes of a tile's elements on a device, where its tail begins.
constexpr index_t tail_offset(index_t elements_bytes) {
  constexpr index_t alignment = 256;
  return (elements_bytes + alignment - 1) / alignment * alignment;
}

struct HostTileHash {
  std::size_t operator()(const HostTile& tile) const noexcept {
    // Distinct tiles of one job mostly differ in their address; its low bits are the same for all.
    const auto address = reinterpret_cast<std::uintptr_t>(tile.address);
    return static_cast<std::size_t>((address >> 6) * 0x9E3779B97F4A7C15ULL);
  }
};

/// No further use of the tile is known.
inline constexpr index_t never = std::numeric_limits<index_t>::max();

/// Counts the values that a tile takes in a job.
using Version = std::int64_t;

struct TileEntry;

/// A version of a tile on one device.
struct Replica {
  HostTile tile;
  int device = 0;
  Version version = 0;
  TileEntry* entry = nullptr;              ///< the directory's
  bool output = false;                     ///< written here; not readable before publish()
  bool superseded = false;                 ///< the next version has taken its place
  std::byte* address = nullptr;            ///< in the device's memory; leading dimension is tile.rows
  std::shared_ptr<const void> loan;        ///< of memory that is not the heap's; nullptr: it is
  device::EventPtr ready;                  ///< after which it may be read; nullptr: at once
  device::EventPtr mirrored;               ///< of a triangle: after which the other is its mirror image; nullptr: never
  bool submitting = false;                 ///< the work that fills it is being submitted; `ready` is not set yet
  bool arriving = false;                   ///< the work that fills it is not known to have ended
  int readers = 0;                         ///< kernels and copies in flight that read it, and steps that wait to
  int outgoing = 0;                        ///< peer copies in flight from it
  index_t next_use = never;                ///< when the device's worker will use it next, by the worker's own count
  std::list<Replica*>::iterator position;  ///< in the device's order of use
};

/// The versions and replicas of one tile.
struct TileEntry {
  static constexpr Version none = -1;

  Version version = 0;                               ///< the readable one
  Coherence state;                                   ///< of it
  std::vector<std::unique_ptr<Replica>> replicas;    ///< of it, by device; nullptr where it has none
  Coherence output_state;                            ///< of the next version
  std::unique_ptr<Replica> output;                   ///< the replica being written, or nullptr
  std::vector<std::unique_ptr<Replica>> superseded;  ///< of earlier versions
  Version host = 0;                                  ///< that host memory holds; none while it is overwritten
  Version writing = none;                            ///< that is being copied to host memory
};

class TileDirectory {
 public:
  explicit TileDirectory(int devices);

  /// The device's readable replica, or nullptr.
  Replica* find(int device, const HostTile& tile) const;
  /// All readable replicas of the tile.
  std::vector<Replica*> holders(const HostTile& tile) const;
  /// nullptr if only host memory has the tile, in version 0.
  const TileEntry* entry(const HostTile& tile) const;
  /// The state of the readable version or, if `output`, of the one that is being written.
  Coherence coherence(const HostTile& tile, bool output = false) const;
  /// Number of the readable version.
  Version version(const HostTile& tile) const;
  /// Whether host memory holds the readable version.
  bool host_has(const HostTile& tile) const;

  /// Adds a replica that `device` gets by `event`: fetch, copy (readable) or write (output).
  /// @throws InternalError if the protocol forbids it: a fetch while host memory is stale, a second writer
  Replica& insert(int device, const HostTile& tile, std::byte* address, TileEvent event);
  /// Removes a replica: a superseded one, one whose version has other copies, or one that `event` may remove.
  void erase(Replica& replica, TileEvent event = TileEvent::drop);

  /// Whether the holder of its only pin may make the next version in its place. True if this version has no other
  /// reader on any device, and no device writes the next.
  bool can_update(const Replica& replica) const;
  /// Makes it the output of the next version, in place. Other replicas of this version are superseded.
  /// @pre can_update()
  void update(Replica& replica);
  /// The output is complete and becomes the readable version. Replicas of the old one are superseded.
  void publish(Replica& output);

  /// Whether host memory may be overwritten with it: no write-back is under way, and no fetch of an earlier version.
  bool may_write_back(const Replica& replica) const;
  /// Whether this copy is of a published version that host memory does not have, and may be written back.
  bool may_flush(const Replica& replica) const;
  /// Begins a write-back: host memory holds no complete version until its end. An output becomes complete by this. No
  /// lookup finds it before publish(), nor the old version.
  /// @return the version that host memory held, for cancel_write_back()
  /// @throws InternalError if another version is being written back, host memory has this one, or a later one is
  /// readable
  Version begin_write_back(Replica& replica);
  /// The copy has not begun, and will not begin.
  void cancel_write_back(const Replica& replica, Version host);
  /// Host memory holds the replica's version.
  void end_write_back(const Replica& replica);

  /// Moves it to the front of its device's order of use.
  void touch(Replica& replica);

  /// The replica to evict: one in the heap that may be dropped, without readers, arrived, and with a next use after
  /// `later_than`. Of these the one that is used last, and among equals the least recently used (ALRU if no use is
  /// known). nullptr if there is none.
  Replica* eviction_candidate(int device, index_t later_than = -1) const;
  /// The replica to write back so that it can be evicted: chosen likewise among those that are the only copy.
  Replica* write_back_candidate(int device, index_t later_than = -1) const;
  /// Calls `visit(replica)` for each of the device's replicas, most recently used first. The caller holds the locks
  /// that `visit` needs.
  template <class F>
  void for_each(int device, F&& visit) const TESSERA_UNCHECKED {
    for (Replica* replica : order_of_use_[static_cast<std::size_t>(device)]) visit(*replica);
  }

  std::size_t replica_count(int device) const { return order_of_use_[static_cast<std::size_t>(device)].size(); }
  void clear();

  /// @throws InternalError that names the violated invariant
  void check_invariants() const;

 private:
  TileEntry& make_entry(const HostTile& tile);
  void make_readable(Replica& output);
  static void supersede(TileEntry& entry);
  void check_entry(const HostTile& tile, const TileEntry& entry, std::vector<std::size_t>& counted) const;
  template <class MayGo>
  Replica* last_used(int device, index_t later_than, MayGo&& may_go) const;

  int devices_;
  std::unordered_map<HostTile, TileEntry, HostTileHash> entries_;  // replicas point to them
  std::vector<std::list<Replica*>> order_of_use_;                  // per device, most recently used first
};

}  // namespace tessera::cache
