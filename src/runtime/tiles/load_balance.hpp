// When a device should take one more task, and when it should leave it to a faster one. Pure arithmetic on what the
// workers have measured.
//
// Drawing by demand alone lets a slow device start a task at the very end. A device takes a task only if it finishes it
// no later than the whole job is expected to end, or no later than any other device would. Some device always meets the
// second condition, so work never gets stuck.
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

/// The help of the CPU for a job that devices compute.
struct CpuHelp {
  double flops_per_s = 0;          ///< of the CPU BLAS while devices compute; 0: it takes no part
  double devices_flops_per_s = 0;  ///< the expected rate of the devices together, transfers included
  bool always = false;             ///< it takes what it can get, whatever the rates are
};

/// Whether the CPU should compute a task beside the devices: it must end, by a safe margin, before they end the rest.
/// The larger of the devices' expected and measured rates counts. A CPU that makes little difference takes no part,
/// since chance would decide which tasks it computes, and with them the last bits of the result.
/// @param measured_flops_per_s of the devices together, in this job; 0: not known yet
/// @param left_flops           what the devices have not computed yet, the task in question included
inline bool cpu_should_take(const CpuHelp& cpu, double measured_flops_per_s, double task_flops, double left_flops) {
  constexpr double least_share = 1.0 / 16;
  constexpr double margin = 1.25;
  constexpr double longest_s = 2;  // a task cannot be given back, whatever happens meanwhile
  if (cpu.always) return true;
  const double devices_flops_per_s = std::max(cpu.devices_flops_per_s, measured_flops_per_s);
  if (cpu.devices_flops_per_s <= 0 || cpu.flops_per_s < least_share * devices_flops_per_s) return false;
  if (task_flops > longest_s * cpu.flops_per_s) return false;
  return margin * task_flops / cpu.flops_per_s <= left_flops / (devices_flops_per_s + cpu.flops_per_s);
}

}  // namespace tessera::runtime
