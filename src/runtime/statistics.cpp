#include "runtime/statistics.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tessera::runtime {
namespace {

std::int64_t sum_of(const std::vector<DeviceStatistics>& devices, std::int64_t DeviceStatistics::*field) {
  return std::accumulate(devices.begin(), devices.end(), std::int64_t{0},
                         [field](std::int64_t sum, const DeviceStatistics& device) { return sum + device.*field; });
}

nlohmann::ordered_json json_of(const DeviceStatistics& d) {
  return {{"device", d.device},         {"kernel_s", d.kernel_s},
          {"transfer_s", d.transfer_s}, {"other_s", d.other_s},
          {"l1_hits", d.l1_hits},       {"l2_hits", d.l2_hits},
          {"misses", d.misses},         {"evictions", d.evictions},
          {"bytes_up", d.bytes_up},     {"bytes_down", d.bytes_down},
          {"bytes_peer", d.bytes_peer}, {"bytes_kept", d.bytes_kept},
          {"tasks", d.tasks},           {"steps", d.steps},
          {"stolen", d.stolen},         {"flops", d.flops}};
}

}  // namespace

std::int64_t JobStatistics::bytes_up() const { return sum_of(devices, &DeviceStatistics::bytes_up); }
std::int64_t JobStatistics::bytes_down() const { return sum_of(devices, &DeviceStatistics::bytes_down); }
std::int64_t JobStatistics::bytes_peer() const { return sum_of(devices, &DeviceStatistics::bytes_peer); }
std::int64_t JobStatistics::bytes_kept() const { return sum_of(devices, &DeviceStatistics::bytes_kept); }

bool JobStatistics::has_cpu_part() const {
  return std::any_of(devices.begin(), devices.end(),
                     [](const DeviceStatistics& device) { return device.device == cpu_device && device.flops > 0; });
}

double covered_seconds(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_s < b.begin_s; });
  double covered = 0;
  double end = 0;
  bool any = false;
  for (const Interval& interval : intervals) {
    const double begin = any ? std::max(end, interval.begin_s) : interval.begin_s;
    if (interval.end_s > begin) covered += interval.end_s - begin;
    end = any ? std::max(end, interval.end_s) : interval.end_s;
    any = true;
  }
  return covered;
}

std::string to_json(const JobStatistics& job) {
  nlohmann::ordered_json json = {{"routine", job.routine},
                                 {"m", job.m},
                                 {"n", job.n},
                                 {"k", job.k},
                                 {"tile_m", job.tile_m},
                                 {"tile_n", job.tile_n},
                                 {"tile_k", job.tile_k},
                                 {"seconds", job.seconds},
                                 {"start_s", job.start_s},
                                 {"device_s", job.device_s},
                                 {"flops", job.flops},
                                 {"compulsory_up", job.compulsory_up},
                                 {"compulsory_down", job.compulsory_down},
                                 {"restarts", job.restarts}};
  if (job.start_up) {
    json["start_up"] = {{"load_s", job.start_up->load_s},
                        {"open_s", job.start_up->open_s},
                        {"reserve_s", job.start_up->reserve_s},
                        {"first_kernel_s", job.start_up->first_kernel_s}};
  }
  auto& devices = json["devices"] = nlohmann::ordered_json::array();
  for (const DeviceStatistics& device : job.devices) devices.push_back(json_of(device));
  return json.dump();
}

}  // namespace tessera::runtime
