#include "told_job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text_table.hpp"

namespace tessera::tools {
namespace {

using Json = nlohmann::ordered_json;

template <class To>
void read(const Json& from, const char* key, To& to) {
  if (const auto found = from.find(key); found != from.end()) found->get_to(to);
}

template <class Statistics>
void read_numbers(const Json& from, Statistics& to) {
  Statistics::for_each_number([&](const char* key, auto number) { read(from, key, to.*number); });
}

}  // namespace

JobStatistics job_from_json(const Json& json) {
  JobStatistics job;
  read(json, "routine", job.routine);
  read_numbers(json, job);
  for (const Json& each : json.value("devices", Json::array())) {
    DeviceStatistics& device = job.devices.emplace_back();
    read(each, "device", device.device);
    read_numbers(each, device);
  }
  return job;
}

std::string device_table(const std::vector<DeviceStatistics>& devices) {
  TextTable table({"device", "tasks", "stolen", "on device", "on peer", "from host", "up", "down", "peer", "kernels s",
                   "copies only s", "other s"});
  DeviceStatistics sum;
  sum.device = "all";
  const auto add = [&table](const DeviceStatistics& d) {
    const auto lookups = static_cast<double>(d.l1_hits + d.l2_hits + d.misses);
    table.add_row({d.device, fmt::to_string(d.tasks), fmt::to_string(d.stolen),
                   percent_text(static_cast<double>(d.l1_hits), lookups),
                   percent_text(static_cast<double>(d.l2_hits), lookups),
                   percent_text(static_cast<double>(d.misses), lookups), bytes_text(static_cast<double>(d.bytes_up)),
                   bytes_text(static_cast<double>(d.bytes_down)), bytes_text(static_cast<double>(d.bytes_peer)),
                   three_digits(d.kernel_s), three_digits(d.transfer_s), three_digits(d.other_s)});
  };
  for (const DeviceStatistics& device : devices) {
    add(device);
    sum.add(device);
  }
  if (devices.size() > 1) add(sum);
  return table.text();
}

}  // namespace tessera::tools
