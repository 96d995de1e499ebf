#include "job_record.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text_table.hpp"

namespace tessera::tools {

void DeviceRecord::add(const DeviceRecord& other) {
  kernel_s += other.kernel_s;
  transfer_s += other.transfer_s;
  other_s += other.other_s;
  l1_hits += other.l1_hits;
  l2_hits += other.l2_hits;
  misses += other.misses;
  evictions += other.evictions;
  bytes_up += other.bytes_up;
  bytes_down += other.bytes_down;
  bytes_peer += other.bytes_peer;
  tasks += other.tasks;
  steps += other.steps;
  stolen += other.stolen;
  flops += other.flops;
}

DeviceRecord JobRecord::total() const {
  DeviceRecord sum;
  sum.device = "all";
  for (const DeviceRecord& device : devices) sum.add(device);
  return sum;
}

JobRecord job_from_json(const nlohmann::ordered_json& json) {
  const auto read = [](const nlohmann::ordered_json& from, const char* name, auto& to) {
    if (const auto found = from.find(name); found != from.end()) found->get_to(to);
  };
  JobRecord job;
  read(json, "routine", job.routine);
  read(json, "m", job.m);
  read(json, "n", job.n);
  read(json, "k", job.k);
  read(json, "tile_m", job.tile_m);
  read(json, "tile_n", job.tile_n);
  read(json, "tile_k", job.tile_k);
  read(json, "seconds", job.seconds);
  read(json, "flops", job.flops);
  read(json, "compulsory_up", job.compulsory_up);
  read(json, "compulsory_down", job.compulsory_down);
  read(json, "restarts", job.restarts);
  if (const auto devices = json.find("devices"); devices != json.end()) {
    for (const nlohmann::ordered_json& entry : *devices) {
      DeviceRecord device;
      read(entry, "device", device.device);
      read(entry, "kernel_s", device.kernel_s);
      read(entry, "transfer_s", device.transfer_s);
      read(entry, "other_s", device.other_s);
      read(entry, "l1_hits", device.l1_hits);
      read(entry, "l2_hits", device.l2_hits);
      read(entry, "misses", device.misses);
      read(entry, "evictions", device.evictions);
      read(entry, "bytes_up", device.bytes_up);
      read(entry, "bytes_down", device.bytes_down);
      read(entry, "bytes_peer", device.bytes_peer);
      read(entry, "tasks", device.tasks);
      read(entry, "steps", device.steps);
      read(entry, "stolen", device.stolen);
      read(entry, "flops", device.flops);
      job.devices.push_back(std::move(device));
    }
  }
  return job;
}

std::string device_table(const std::vector<DeviceRecord>& devices) {
  TextTable table({"device", "tasks", "stolen", "on device", "on peer", "from host", "up", "down", "peer", "kernels s",
                   "copies only s", "other s"});
  DeviceRecord sum;
  sum.device = "all";
  const auto add = [&table](const DeviceRecord& d) {
    const auto lookups = static_cast<double>(d.l1_hits + d.l2_hits + d.misses);
    table.add_row({d.device, fmt::to_string(d.tasks), fmt::to_string(d.stolen),
                   percent_text(static_cast<double>(d.l1_hits), lookups),
                   percent_text(static_cast<double>(d.l2_hits), lookups),
                   percent_text(static_cast<double>(d.misses), lookups), bytes_text(static_cast<double>(d.bytes_up)),
                   bytes_text(static_cast<double>(d.bytes_down)), bytes_text(static_cast<double>(d.bytes_peer)),
                   three_digits(d.kernel_s), three_digits(d.transfer_s), three_digits(d.other_s)});
  };
  for (const DeviceRecord& device : devices) {
    add(device);
    sum.add(device);
  }
  if (devices.size() > 1) add(sum);
  return table.text();
}

}  // namespace tessera::tools
