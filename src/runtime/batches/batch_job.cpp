#include "runtime/batches/batch_job.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/error.hpp"

namespace tessera::runtime {
namespace {

/// The traffic of a batch depends on what its problems share, and on how it is cut.
JobStatistics describe(const PackableBatch& batch) { return {.routine = batch.name(), .devices = {}}; }

BatchPlan plan_of(const DeviceSet& devices, const PackableBatch& batch, int processors, index_t most_on_host) {
  const std::vector<bool> usable = devices.usable();
  const auto count = static_cast<int>(std::count(usable.begin(), usable.end(), true));
  if (count == 0) throw NoDeviceLeft("no device works any more");
  devices.review();
  const std::vector<DeviceCapacity> capacities = devices.capacities();
  std::vector<PackingCapacity> offered;
  for (const DeviceCapacity& device : capacities)
    offered.push_back({static_cast<index_t>(device.bytes), packing_threads(*device.info, count, processors),
                       device.info->profile.staging.chunk_bytes});
  index_t bytes = 0, largest_bytes = 0;
  for (index_t i = 0; i < batch.size(); ++i) {
    const index_t own = batch.packed_bytes(i);
    bytes += own;
    largest_bytes = std::max(largest_bytes, own);
  }
  return plan_batch(offered, bytes, largest_bytes, most_on_host);
}

}  // namespace

void LaneMemories::prepare(const BatchPlan& plan) noexcept {
  free_lanes(by_device_, plan, most_bytes_);
  is_held_ = true;
}

void LaneMemories::give_back(std::size_t d) {
  by_device_[d].clear();
  is_held_ = std::any_of(by_device_.begin(), by_device_.end(), [](const LaneMemory& each) { return !each.empty(); });
}

BatchJob::BatchJob(DeviceSet& devices, LaneMemories& memories, const PackableBatch& batch,
                   const HostBatchCompute& compute, int processors)
    : Job(describe(batch), devices.names()),
      devices_(devices),
      memories_(memories),
      batch_(batch),
      compute_(compute),
      plan_(plan_of(devices, batch, processors, memories.most_bytes())),
      pipeline_(batch, plan_.slot_bytes) {}

DeviceNeeds BatchJob::needs(std::span<const DeviceCapacity> capacities) {
  working_.clear();
  for (std::size_t d = 0; d < capacities.size(); ++d) {
    if (capacities[d].bytes > 0 && plan_.shares[d].lanes > 0) working_.push_back(d);
  }
  return {working_.empty() ? DeviceNeeds::Kind::none : DeviceNeeds::Kind::alone};
}

std::vector<std::size_t> BatchJob::slab_bytes(const Admission::Stay& /*stay*/) {
  // Some may have been lost while others had them.
  std::erase_if(working_, [usable = devices_.usable()](std::size_t d) { return !usable[d]; });
  std::vector<std::size_t> bytes(devices_.size());
  for (const std::size_t d : working_) bytes[d] = static_cast<std::size_t>(plan_.shares[d].lanes * plan_.slot_bytes);
  return bytes;
}

bool BatchJob::attempt(const Admission::Stay& /*stay*/, std::span<DeviceFate> fates) {
  std::vector<BatchPipeline::Outcome> outcomes;
  try {
    memories_.prepare(plan_);
    std::vector<BatchDevice> devices;
    for (const std::size_t d : working_) {
      const kernels::Accelerator& accelerator = devices_.accelerator(d);
      devices.push_back({accelerator.device.get(), accelerator.ops.get(), devices_.memory(d).slab(), &memories_.of(d),
                         plan_.shares[d]});
    }
    note_writing();
    outcomes = pipeline_.run(devices);
  } catch (const std::exception&) {  // no memory to begin with; the CPU needs less
    return false;
  }
  for (std::size_t w = 0; w < outcomes.size(); ++w) {
    const std::size_t d = working_[w];
    add(d, outcomes[w]);
    if (!outcomes[w].failed) continue;
    const bool recovers = devices_.accelerator(d).device->recover();
    fates[d] = {recovers ? DeviceFate::Kind::erred : DeviceFate::Kind::lost, std::move(outcomes[w].error)};
  }
  return true;
}

void BatchJob::add(std::size_t d, const BatchPipeline::Outcome& outcome) {
  DeviceStatistics& sum = of_device(d);
  sum.tasks += outcome.problems;
  sum.steps += outcome.chunks;
  sum.bytes_up += outcome.bytes_up;
  sum.bytes_down += outcome.bytes_down;
  sum.flops += outcome.flops;
  statistics().flops += outcome.flops;
  keep_operations(d, outcome.operations);
}

void BatchJob::finish_on_cpu() {
  if (pipeline_.is_done()) return;
  note_writing();
  pipeline_.finish([&](index_t first, index_t last) {
    compute_(first, last);
    const double flops = batch_.flops(first, last);
    of_cpu().tasks += last - first;
    ++of_cpu().steps;
    of_cpu().flops += flops;
    statistics().flops += flops;
  });
}

}  // namespace tessera::runtime
