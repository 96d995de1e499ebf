// The job of a batch of small problems: how it is divided among the devices, one pass through the pipeline
// (batch_pipeline.hpp) for each attempt, and the memory of the lanes on the host. It has all devices alone, since
// threads of its own drive them.
//
// Invariant: the CPU computes the problems that are left when devices do no more; nothing is computed twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/batches/batch_pipeline.hpp"
#include "runtime/devices/device_set.hpp"
#include "runtime/job.hpp"

namespace tessera::runtime {

/// The page-locked memory of all lanes, kept from batch to batch. For the job that has all devices alone, but for
/// is_held().
class LaneMemories {
 public:
  /// @param most_bytes that all of it together may take
  LaneMemories(std::size_t devices, index_t most_bytes) : most_bytes_(most_bytes), by_device_(devices) {}

  index_t most_bytes() const { return most_bytes_; }
  /// Makes way for the lanes of the plan: frees memory of former batches that this one cannot use.
  void prepare(const BatchPlan& plan) noexcept;
  LaneMemory& of(std::size_t d) { return by_device_[d]; }
  /// Some device's lanes have memory. Thread-safe.
  bool is_held() const { return is_held_; }
  /// Gives back the memory of one device. Page-locked memory is given back slowly.
  void give_back(std::size_t d);

 private:
  const index_t most_bytes_;
  std::vector<LaneMemory> by_device_;
  // Relaxed is enough: only the holder of all devices writes it, and a reader that looks too early looks again.
  std::atomic<bool> is_held_ = false;
};

/// Tasks are problems, and steps chunks.
class BatchJob final : public Job {
 public:
  /// @param devices, memories, batch, compute outlive it @param processors that pack
  /// @throws NoDeviceLeft if no device works, std::bad_alloc
  BatchJob(DeviceSet& devices, LaneMemories& memories, const PackableBatch& batch, const HostBatchCompute& compute,
           int processors);

  bool has_more() const override { return pipeline_.has_pending(); }
  DeviceNeeds needs(std::span<const DeviceCapacity> capacities) override;
  bool touches_more() const override { return true; }
  std::vector<std::size_t> slab_bytes(const Admission::Stay& stay) override;
  bool attempt(const Admission::Stay& stay, std::span<DeviceFate> fates) override;
  void finish_on_cpu() override;

 private:
  void add(std::size_t d, const BatchPipeline::Outcome& outcome);

  DeviceSet& devices_;
  LaneMemories& memories_;
  const PackableBatch& batch_;
  const HostBatchCompute& compute_;
  const BatchPlan plan_;
  BatchPipeline pipeline_;
  std::vector<std::size_t> working_;  ///< in the attempt
};

}  // namespace tessera::runtime
