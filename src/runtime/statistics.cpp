#include "runtime/statistics.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera::runtime {
namespace {

using Json = nlohmann::ordered_json;

template <class Statistics>
void write_numbers(Json& json, const Statistics& from) {
  Statistics::for_each_number([&](const char* key, auto member) { json[key] = from.*member; });
}

}  // namespace

void DeviceStatistics::add(const DeviceStatistics& part) {
  for_each_number([&](const char*, auto member) { this->*member += part.*member; });
}

void JobStatistics::add(const JobStatistics& part) {
  compulsory_up += part.compulsory_up;
  compulsory_down += part.compulsory_down;
  fresh_bytes += part.fresh_bytes;
  resident_bytes += part.resident_bytes;
  stayed_bytes += part.stayed_bytes;
  restarts += part.restarts;
  beside = std::max(beside, part.beside);
  if (first_kernel_at <= 0) first_kernel_at = part.first_kernel_at;
  if (!start_up) start_up = part.start_up;
  for (const DeviceStatistics& device : part.devices) {
    const auto same = std::find_if(devices.begin(), devices.end(),
                                   [&](const DeviceStatistics& known) { return known.device == device.device; });
    same == devices.end() ? devices.push_back(device) : same->add(device);
  }
}

DeviceStatistics JobStatistics::total() const {
  DeviceStatistics sum{.device = "all"};
  for (const DeviceStatistics& device : devices) sum.add(device);
  return sum;
}

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
  Json json = {{"routine", job.routine}};
  write_numbers(json, job);
  if (job.start_up) {
    json["start_up"] = {{"load_s", job.start_up->load_s},
                        {"open_s", job.start_up->open_s},
                        {"reserve_s", job.start_up->reserve_s},
                        {"first_kernel_s", job.start_up->first_kernel_s}};
  }
  auto& devices = json["devices"] = Json::array();
  for (const DeviceStatistics& device : job.devices)
    write_numbers(devices.emplace_back(Json{{"device", device.device}}), device);
  return json.dump();
}

}  // namespace tessera::runtime
