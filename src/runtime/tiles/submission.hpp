// A task that a worker has taken, while its steps are asked for and launched.
#pragma once

#include <cstdint>
#include <deque>

#include "cache/tile_cache.hpp"
#include "core/scalar.hpp"
#include "device/device.hpp"
#include "runtime/tiles/old_copy.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

/// A step whose tiles are here or on their way. They are pinned until its kernel has completed.
struct Asked {
  Step step;
  cache::Replica* x = nullptr;  ///< nullptr: the step has no such operand
  cache::Replica* y = nullptr;
  index_t number = 0;  ///< of the step
  bool adds = false;   ///< the output's old value; not one of the graph's steps
};

struct Submission {
  TaskId task = 0;
  std::int64_t number = 0;  ///< counts the tasks that this worker has taken
  index_t steps = 0;
  index_t next_step = 0;
  index_t wave = 0;  ///< of the next step
  cache::Replica* output = nullptr;
  cache::Replica* x = nullptr;          ///< pinned for the next step, while y has no room yet
  std::deque<Asked> asked = {};         ///< and not launched
  int stream = -1;                      ///< of the last kernel
  device::EventPtr launched = nullptr;  ///< completes with it
  /// After so many steps one more adds the output's old value, times `beta`; 0: it was there from the start.
  index_t adds_after = 0;
  bool has_added = false;
  AnyScalar beta = 0;
  OldCopyPtr old = nullptr;  ///< of the output, once it is being made

  bool adds_old() const { return adds_after > 0; }
  bool adds_next() const { return adds_old() && !has_added && next_step == adds_after; }
  bool all_asked() const { return next_step == steps && !adds_next(); }
  bool ended() const { return all_asked() && asked.empty(); }
};

/// A finished output, whose host tile other tasks may still read.
struct Result {
  cache::Replica* output = nullptr;
  TaskId task = 0;
  OldCopyPtr old = nullptr;   ///< of the output, likewise, or nullptr
  bool goes_without = false;  ///< there was no memory for it
};

}  // namespace tessera::runtime
