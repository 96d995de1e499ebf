#include "runtime/batch_driver.hpp"

#include <algorithm>

#include "core/host_share.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"

namespace tessera::runtime {

BatchPlan BatchDriver::plan(const PackableBatch& batch, const std::vector<bool>& usable) const {
  const auto count = static_cast<int>(std::count(usable.begin(), usable.end(), true));
  const int processors = available_processors(local_ranks_);
  std::vector<BatchRoom> rooms(usable.size());
  for (std::size_t d = 0; d < usable.size(); ++d) {
    if (!usable[d]) continue;
    const device::DeviceInfo& info = devices_.accelerator(d).device->info();
    rooms[d].bytes = static_cast<index_t>(devices_.memory(d).room_bytes());
    rooms[d].threads = packing_threads(info, count, processors);
    rooms[d].chunk_bytes = info.profile.staging.chunk_bytes;
  }
  index_t bytes = 0, largest_bytes = 0;
  for (index_t i = 0; i < batch.size(); ++i) {
    const index_t own = batch.packed_bytes(i);
    bytes += own;
    largest_bytes = std::max(largest_bytes, own);
  }
  return plan_batch(rooms, bytes, largest_bytes, most_host_bytes_);
}

void BatchDriver::make_room(const BatchPlan& plan) noexcept { free_lanes(lane_memories_, plan, most_host_bytes_); }

void BatchDriver::run(BatchJob& job, const BatchPlan& plan, std::vector<bool>& usable, BatchRecord& record) {
  for (bool again = false; job.has_pending() && !process::ending(); again = true) {
    std::vector<std::size_t> working;
    for (std::size_t d = 0; d < usable.size(); ++d) {
      if (usable[d] && plan.shares[d].lanes > 0) working.push_back(d);
    }
    std::vector<char> provided(working.size());  // not bits: written side by side
    side_by_side(working.size(), [&](std::size_t w) {
      const index_t bytes = plan.shares[working[w]].lanes * plan.slot_bytes;
      provided[w] = devices_.provide_to(working[w], static_cast<std::size_t>(bytes)) ? 1 : 0;
    });
    std::vector<BatchDevice> devices;
    std::vector<std::size_t> numbers;
    for (std::size_t w = 0; w < working.size(); ++w) {
      const std::size_t d = working[w];
      if (provided[w] == 0) {
        usable[d] = false;
        continue;
      }
      const kernels::Accelerator& accelerator = devices_.accelerator(d);
      devices.push_back({accelerator.device.get(), accelerator.ops.get(), devices_.memory(d).slab(), &lane_memories_[d],
                         plan.shares[d]});
      numbers.push_back(d);
    }
    if (devices.empty()) return;
    if (again) record.count_restart();
    holds_memory_ = true;
    const std::vector<BatchJob::Outcome> outcomes = job.run(devices);
    bool any_failed = false;
    for (std::size_t w = 0; w < outcomes.size(); ++w) {
      const std::size_t d = numbers[w];
      record.add(d, outcomes[w]);
      if (!outcomes[w].failed) continue;
      any_failed = true;
      usable[d] = false;
      if (!devices_.accelerator(d).device->recover()) devices_.lose(d, outcomes[w].error);
    }
    if (!any_failed) return;  // what is pending now nobody has begun: there were no threads
  }
}

void BatchDriver::give_back(std::size_t d) {
  lane_memories_[d].clear();
  holds_memory_ =
      std::any_of(lane_memories_.begin(), lane_memories_.end(), [](const LaneMemory& each) { return !each.empty(); });
}

}  // namespace tessera::runtime
