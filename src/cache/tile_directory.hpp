// Who holds which tile: every replica of every tile on every device, with its coherence state, and per device the order of use.
//
// A tile whose old value is still read while a device computes the new one (trmm in place) is two tiles to the directory: the value
// in host memory, which devices read, and the output, which one device writes. publish() turns an output into a readable tile.
//
// Invariants: a tile's coherence state and holder count agree with its replicas; a replica with readers > 0 or whose contents are
// still arriving is never offered for eviction. The directory lives for one job; nothing in it outlives the call, because the
// program may change its matrices between calls.
// Pure bookkeeping: moves no data, allocates no device memory, not thread-safe (the tile cache holds its lock).
// Source: BLASX, section IV-B, Alg. 2 (ALRU) and Fig. 3 (MESI-X); Belady 1966 for eviction by next use.
#pragma once

#include <cstddef>
#include <limits>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/coherence.hpp"
#include "core/scalar.hpp"
#include "device/device.hpp"

namespace tessera::cache {

/// A block of a column-major host matrix; the identity of a tile within a job.
struct HostTile {
  std::byte* address = nullptr;
  index_t rows = 0;
  index_t cols = 0;
  index_t ld = 0;          ///< elements
  Part part = Part::full;  ///< a triangle only of square tiles
  bool operator==(const HostTile&) const = default;
};

/// What a copy of the tile moves.
inline device::Extent extent_of(const HostTile& tile, index_t element_bytes) {
  return {tile.rows * element_bytes, tile.cols, tile.part, element_bytes};
}

struct HostTileHash {
  std::size_t operator()(const HostTile& tile) const noexcept {
    // Distinct tiles of one job mostly differ in their address; its low bits are alike for all.
    const auto address = reinterpret_cast<std::uintptr_t>(tile.address);
    return static_cast<std::size_t>((address >> 6) * 0x9E3779B97F4A7C15ULL);
  }
};

/// No known use of a tile to come.
inline constexpr index_t never = std::numeric_limits<index_t>::max();

/// A tile's copy on one device.
struct Replica {
  HostTile tile;
  int device = 0;
  bool output = false;                     ///< written here; not readable by anyone before publish()
  std::byte* address = nullptr;            ///< in the device's memory; leading dimension is tile.rows
  device::EventPtr ready;                  ///< after which it may be read; nullptr: at once
  bool submitting = false;                 ///< what fills it is being submitted, and `ready` does not tell yet
  int readers = 0;                         ///< kernels and peer copies in flight that read it, and steps that wait to
  int outgoing = 0;                        ///< peer copies in flight from it
  index_t next_use = never;                ///< when the device's worker will want it next, by the worker's own count
  std::list<Replica*>::iterator position;  ///< in the device's order of use
};

class TileDirectory {
 public:
  explicit TileDirectory(int devices);

  /// The device's readable replica, or nullptr.
  Replica* find(int device, const HostTile& tile) const;
  /// All readable replicas of the tile.
  std::vector<Replica*> holders(const HostTile& tile) const;
  /// Of the readable tile, or of the output.
  Coherence coherence(const HostTile& tile, bool output = false) const;

  /// Enters a replica that `device` gets by `event`: fetch (readable) or write (output). @throws InternalError if the protocol
  /// forbids it
  Replica& insert(int device, const HostTile& tile, std::byte* address, TileEvent event);
  /// Removes it by `event` (drop or write_back).
  void erase(Replica& replica, TileEvent event);
  /// The finished output becomes the readable tile, held by its device alone (write_back_keep). @pre nobody reads its old value
  void publish(Replica& output);
  /// Moves it to the front of its device's order of use.
  void touch(Replica& replica);

  /// Of the device's replicas that nobody reads, that have arrived and whose next use is later than `later_than`: the one that is used
  /// last, the least recently used among equals (ALRU where nothing is known). nullptr if there is none.
  Replica* eviction_candidate(int device, index_t later_than = -1) const;
  /// Calls `visit(replica)` for each of the device's replicas.
  template <class F>
  void for_each(int device, F&& visit) const {
    for (Replica* replica : order_of_use_[static_cast<std::size_t>(device)]) visit(*replica);
  }

  std::size_t replica_count(int device) const { return order_of_use_[static_cast<std::size_t>(device)].size(); }
  void clear();

  /// @throws InternalError that names the violated invariant
  void check_invariants() const;

 private:
  struct Entry {
    Coherence coherence;
    std::vector<std::unique_ptr<Replica>> replicas;  // by device; nullptr where it has none
  };

  using Entries = std::unordered_map<HostTile, Entry, HostTileHash>;

  Entry& entry_of(const HostTile& tile, bool output);

  int devices_;
  Entries entries_[2];                             // by role: readable tiles, outputs
  std::vector<std::list<Replica*>> order_of_use_;  // per device, most recently used first
};

}  // namespace tessera::cache
