// What the scheduler asks of a routine. A graph describes one BLAS call as tasks, one per output tile; steps are generated on
// demand, so a graph is a few words whatever the problem size. Graphs are immutable while they run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"
#include "core/scalar.hpp"
#include "device/device.hpp"

namespace tessera::runtime {

using cache::HostTile;

/// A tile as a product reads it.
struct Operand {
  HostTile tile;
  Op op = Op::no_trans;
};

/// One tile product C_ij += alpha * op(X) * op(Y).
struct Step {
  AnyScalar alpha = 1;
  Operand x;
  Operand y;
};

using TaskId = index_t;

/// Sizes of the tiles of the three dimensions.
struct Tiling {
  index_t m = 0, n = 0, k = 0;
  bool operator==(const Tiling&) const = default;
};

/// What the machine offers to a tiling and an order.
struct Machine {
  int devices = 0;
  std::size_t heap_bytes = 0;  ///< of the smallest device
  index_t segment_bytes = 0;   ///< see DeviceInfo::segment_bytes; the largest of all devices

  /// Tiles of at most `slot_bytes` bytes that fit the smallest device at once.
  index_t slots(std::size_t slot_bytes) const {
    return static_cast<index_t>(heap_bytes / cache::TileCache::segment_bytes(slot_bytes));
  }
};

class TaskGraph {
 public:
  virtual ~TaskGraph() = default;

  virtual std::string routine() const = 0;
  virtual ScalarType type() const = 0;
  virtual Tiling tiling() const = 0;
  virtual index_t m() const = 0;
  virtual index_t n() const = 0;
  virtual index_t k() const = 0;

  /// Tasks are numbered in the order in which they should start.
  virtual index_t task_count() const = 0;
  virtual HostTile output(TaskId task) const = 0;
  /// Factor of the output's old value in the first step; 0: the old value is neither fetched nor read.
  virtual AnyScalar beta() const = 0;
  /// At least 1.
  virtual index_t step_count(TaskId task) const = 0;
  virtual Step step(TaskId task, index_t l) const = 0;
  virtual double task_flops(TaskId task) const = 0;

  /// Bytes of the largest tile: every device slot of the job has this size, so that the heap cannot fragment.
  virtual std::size_t slot_bytes() const = 0;
  virtual double flops() const = 0;
  virtual index_t compulsory_up_bytes() const = 0;
  virtual index_t compulsory_down_bytes() const = 0;
  /// Host memory that the job touches (for page-locking), at most one range per operand.
  virtual std::vector<device::HostRange> host_ranges() const = 0;
};

}  // namespace tessera::runtime
