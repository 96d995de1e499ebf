// The reads of a device to come, in order: the steps of the group that it works on and of the one after it. In wave w,
// task number t of a group of G tasks has position w G + t. A tile's next use is the next position at which it is read,
// and `never` if none is known. Owned and used by one worker. Source: Belady 1966.
#pragma once

#include <unordered_map>
#include <vector>

#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

class Forecast {
 public:
  struct Place {
    TaskId task = no_task;  ///< no_task: nothing is done here
    index_t step = 0;
  };

  void clear() {
    places_.clear();
    uses_.clear();
  }
  /// The wave in which the first of the tasks starts: a group's waves count from there. @pre there are tasks
  static index_t first_wave(const TaskGraph& graph, const std::vector<TaskId>& tasks);
  /// Adds the group that follows, its tasks in the order of their turns.
  void append(const TaskGraph& graph, const std::vector<TaskId>& tasks);

  /// One past the last position.
  index_t end() const { return static_cast<index_t>(places_.size()); }
  /// @pre 0 <= position < end()
  Place at(index_t position) const { return places_[static_cast<std::size_t>(position)]; }
  /// The first position after `position` at which the tile is read, or cache::never.
  index_t next_use(const HostTile& tile, index_t position) const;

 private:
  std::vector<Place> places_;                                                     // by position
  std::unordered_map<HostTile, std::vector<index_t>, cache::HostTileHash> uses_;  // positions, ascending
};

}  // namespace tessera::runtime
