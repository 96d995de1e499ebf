// When a device should take one more task, and when it should leave it to a faster one.
//
// Drawing by demand alone lets a slow device start a task at the very end and keep everybody waiting. A device therefore takes a
// task only if that does not make the job end later than it would anyway: if it finishes the task no later than the whole job is
// expected to end, or no later than any other device would finish the same task. Some device always meets the second condition, so work never
// gets stuck. Pure arithmetic; the workers supply what they have measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace tessera::runtime {

struct DeviceLoad {
  double committed_flops = 0;  ///< taken and not yet computed
  double flops_per_s = 0;      ///< measured in this job; 0: not known yet
};

/// @param loads            of all devices that work on the job
/// @param unassigned_flops of all tasks that no device has taken, the one in question included
inline bool should_take(std::span<const DeviceLoad> loads, std::size_t device, double task_flops,
                        double unassigned_flops) {
  const DeviceLoad& mine = loads[device];
  if (mine.flops_per_s <= 0) return true;
  const double my_end = (mine.committed_flops + task_flops) / mine.flops_per_s;
  double all_flops = unassigned_flops;
  double all_flops_per_s = 0;
  double best_other_end = std::numeric_limits<double>::infinity();
  for (std::size_t other = 0; other < loads.size(); ++other) {
    all_flops += loads[other].committed_flops;
    all_flops_per_s += loads[other].flops_per_s;
    if (other == device || loads[other].flops_per_s <= 0) continue;
    best_other_end = std::min(best_other_end, (loads[other].committed_flops + task_flops) / loads[other].flops_per_s);
  }
  return my_end <= std::max(all_flops / all_flops_per_s, best_other_end);
}

}  // namespace tessera::runtime
