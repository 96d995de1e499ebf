// Old values of one job's C, kept while new ones go to host memory. A device that is lost meanwhile leaves a tile half
// old and half new: the copy restores it, and its task is done again elsewhere.
//
// A copy lies on another device of the job that has room for all of the job's tiles, and is made there before the tile
// is overwritten on its own device. It takes a free slot, one that a task would have taken there: no tile is evicted for
// it. Otherwise it lies in host memory (HostCopies).
//
// Invariant: where a task needs the old value, its write-back begins after a copy is whole, if there was memory for one.
// Thread-safe, except for the destructor and begin_job().
#pragma once

#include <cstddef>
#include <vector>

#include "cache/tile_cache.hpp"
#include "core/config.hpp"
#include "runtime/devices/host_copies.hpp"
#include "runtime/devices/signal.hpp"
#include "runtime/tiles/old_copy.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

class OldValues {
 public:
  enum class When {
    ahead,      ///< the task has begun
    last_read,  ///< the kernel is about to be launched that overwrites the old value on the device, or ends the task
    due         ///< the result is ready: who finds no room waits
  };
  enum class Begin {
    begun,
    later,  ///< to be tried again; where it is due, the signal is raised when there is room
    never   ///< there is no memory
  };
  struct Tile {
    int device = 0;  ///< that computes it
    HostTile tile;
    const cache::Replica* output = nullptr;  ///< that the old value is fetched into; nullptr: it is a tile that is read
    TaskId task = 0;
  };

  /// @param host where copies lie that no peer keeps; outlives all of them; nullptr: there are none
  OldValues(OldValuesPlace place, HostCopies* host)
      : in_place_(place == OldValuesPlace::in_place), on_peers_(place == OldValuesPlace::peers), host_(host) {}

  /// Finds out which devices keep tiles for each other in the job that the cache has begun.
  /// @param cache outlives all copies of the job. @param working the devices that take part
  void begin_job(cache::TileCache& cache, const TaskGraph& graph, const std::vector<bool>& working);
  /// Whether results are to be written in slices, of which no copies are needed, where that can be.
  bool in_place() const { return in_place_; }
  /// Whether the device's tiles go to others.
  bool has_peers(int device) const { return !peers_of(device).empty(); }

  /// Begins to copy the old value of a tile, if that can be now. @pre begin_job(); called by the device's worker
  /// @param changed of that worker: raised when a copy becomes whole that no event of the device tells of
  /// @param copy    set if it has begun
  /// @throws DeviceLost, WorkRefused, std::bad_alloc
  Begin begin(const Tile& old, When when, Signal& changed, OldCopyPtr& copy);

  /// No tile of the job in host memory is read any more when this returns. Copies that are not whole stay so.
  void stop_copying() noexcept;

 private:
  const std::vector<int>& peers_of(int device) const { return peers_[static_cast<std::size_t>(device)]; }
  cache::Keep begin_on_peer(const Tile& old, When when, OldCopyPtr& copy);

  const bool in_place_;
  const bool on_peers_;
  HostCopies* const host_;
  // Of the job.
  cache::TileCache* cache_ = nullptr;
  index_t element_bytes_ = 0;
  std::vector<std::vector<int>> peers_;  ///< by device
};

}  // namespace tessera::runtime
