#include "offload/calibration_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "offload/kept_file.hpp"

namespace tessera::offload {
namespace {

using nlohmann::ordered_json;

constexpr int format = 2;

ordered_json json_of(const runtime::LinkRates& links) {
  return {{"up", links.up}, {"down", links.down}, {"both", links.both}};
}

runtime::LinkRates links_from(const ordered_json& json) {
  return {json.at("up").get<double>(), json.at("down").get<double>(), json.at("both").get<double>()};
}

/// A rate of 0 would count as unlimited.
bool is_plausible(const runtime::Calibration& rates) {
  const auto known = [](double rate) { return std::isfinite(rate) && rate > 0; };
  const auto unknown_or_known = [&](double rate) { return rate == 0 || known(rate); };
  return std::all_of(rates.flops_per_s.begin(), rates.flops_per_s.end(), known) && known(rates.pageable.up) &&
         known(rates.pageable.down) && known(rates.pageable.both) && unknown_or_known(rates.page_locked.up) &&
         unknown_or_known(rates.page_locked.down) && unknown_or_known(rates.page_locked.both) &&
         unknown_or_known(rates.peer_bytes_per_s);
}

ordered_json json_of(const runtime::Calibration& rates) {
  ordered_json json = {{"devices", rates.devices}};
  for (const ScalarType type : scalar_types)
    json["flops_per_s"][std::string(1, letter(type))] = rates.flops_per_s[type];
  json["page_locked_bytes_per_s"] = json_of(rates.page_locked);
  json["pageable_bytes_per_s"] = json_of(rates.pageable);
  json["peer_bytes_per_s"] = rates.peer_bytes_per_s;
  return json;
}

runtime::Calibration rates_from(const ordered_json& json) {
  runtime::Calibration rates;
  rates.devices = json.at("devices").get<int>();
  for (const ScalarType type : scalar_types)
    rates.flops_per_s[type] = json.at("flops_per_s").at(std::string(1, letter(type))).get<double>();
  rates.page_locked = links_from(json.at("page_locked_bytes_per_s"));
  rates.pageable = links_from(json.at("pageable_bytes_per_s"));
  rates.peer_bytes_per_s = json.at("peer_bytes_per_s").get<double>();
  return rates;
}

/// Nothing if there is no such file or it is no JSON.
std::optional<ordered_json> parse(const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path);
  ordered_json json = ordered_json::parse(file, nullptr, false);
  if (!file || json.is_discarded()) return std::nullopt;
  return json;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

CalibrationFile::CalibrationFile(const std::string& setting, std::span<const device::DeviceInfo> devices,
                                 int copy_threads, const std::string& driver)
    : devices_(static_cast<int>(devices.size())), named_(!setting.empty()) {
  std::vector<std::string> names;
  for (const device::DeviceInfo& device : devices) {
    // CUDA may number GPUs otherwise than the kernel lists them.
    names.push_back(device.backend == "host" ? fmt::format("host:{} {:g} flop/s {:g} byte/s", device.ordinal,
                                                           fmt::join(device.flops_per_s, " "), device.link_bytes_per_s)
                                             : fmt::format("{} {}", device.name, device.pci_bus_id));
  }
  std::sort(names.begin(), names.end());
  devices_in_words_ = fmt::format("{}", fmt::join(names, "; "));
  machine_ = fmt::format("{} copy threads; driver {}; {}", copy_threads, driver, devices_in_words_);
  if (is_off(setting)) return;
  path_ = setting;
  if (path_.empty()) {
    const std::string folder = cache_folder();
    if (!folder.empty()) path_ = fmt::format("{}/calibration-{:016x}.json", folder, hash_of(machine_));
  }
}

std::optional<MachineRecord> CalibrationFile::read() const {
  const std::optional<ordered_json> json = parse(path_);
  if (!json) return std::nullopt;
  try {
    if (json->at("format") != format || json->at("machine") != machine_) return std::nullopt;
    MachineRecord record;
    record.start_up_s = json->at("start_up_s").get<double>();
    if (!std::isfinite(record.start_up_s) || record.start_up_s < 0) return std::nullopt;
    if (json->contains("rates")) {
      record.rates = rates_from(json->at("rates"));
      if (!is_plausible(*record.rates) || record.rates->devices != devices_) return std::nullopt;
    }
    return record;
  } catch (const std::exception&) {  // of another format
    return std::nullopt;
  }
}

std::string CalibrationFile::obstacle() const {
  namespace fs = std::filesystem;
  if (path_.empty()) return "there is no place for it";
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path_, error);
  if (fs::exists(there)) {
    if (!fs::is_regular_file(there)) return "it is no regular file";
    if (!named_ || read()) return "";
    const std::optional<ordered_json> json = parse(path_);
    if (!json || !json->is_object() || !json->contains("machine")) return "it is no calibration file";
    // Of another driver, or of an older format, it is of no use to anybody.
    if (!json->contains("devices_in_words") || (*json)["devices_in_words"] == devices_in_words_) return "";
    return "it belongs to other devices";
  }
  // The folder is made by write(): what counts is the first one that is there.
  fs::path folder = fs::absolute(path_, error).parent_path();
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  if (fs::is_directory(folder, error) && access(folder.c_str(), W_OK | X_OK) == 0) return "";
  return "its folder cannot be written";
}

void CalibrationFile::write(const MachineRecord& record) const {
  if (path_.empty())
    throw NotAvailable(
        "there is no place to keep the rates: neither XDG_CACHE_HOME nor HOME is set, or TESSERA_CALIBRATION=off");
  ordered_json json = {{"format", format},
                       {"machine", machine_},
                       {"devices_in_words", devices_in_words_},
                       {"written", utc_now()},
                       {"start_up_s", record.start_up_s}};
  if (record.rates) json["rates"] = json_of(*record.rates);

  write_whole(path_, json.dump(2) + '\n');
}

}  // namespace tessera::offload
