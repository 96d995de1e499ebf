// Batches of small problems on the devices of a runtime: how a batch is divided among them, the page-locked memory that
// its lanes have on the host, and one attempt after the other until what devices can do is done (batch_job.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "runtime/batch_job.hpp"
#include "runtime/device_set.hpp"
#include "runtime/job_record.hpp"

namespace tessera::runtime {

/// For who has the turn, but for holds_memory().
class BatchDriver {
 public:
  /// @param devices stay
  /// @param most_host_bytes that the lanes of all devices may take on the host
  /// @param local_ranks processes that share the host
  BatchDriver(DeviceSet& devices, index_t most_host_bytes, int local_ranks)
      : devices_(devices),
        most_host_bytes_(most_host_bytes),
        local_ranks_(local_ranks),
        lane_memories_(devices.size()) {}

  /// @param usable by device
  BatchPlan plan(const PackableBatch& batch, const std::vector<bool>& usable) const;
  /// Frees what former batches have left and this one cannot use.
  void make_room(const BatchPlan& plan) noexcept;
  /// Attempts until all is done that devices can do, or none of them is left. A device that has failed is out for this
  /// batch: usable[d] is false then.
  /// @throws std::bad_alloc before an attempt
  void run(BatchJob& job, const BatchPlan& plan, std::vector<bool>& usable, BatchRecord& record);

  /// Some device's lanes have memory on the host. Thread-safe.
  bool holds_memory() const { return holds_memory_; }
  /// Gives back that of one device: page-locked memory is given back slowly.
  void give_back(std::size_t d);

 private:
  DeviceSet& devices_;
  const index_t most_host_bytes_;
  const int local_ranks_;
  std::vector<LaneMemory> lane_memories_;  // by device
  // Relaxed is enough: written in a turn, and a look that comes too early is repeated.
  std::atomic<bool> holds_memory_ = false;
};

}  // namespace tessera::runtime
