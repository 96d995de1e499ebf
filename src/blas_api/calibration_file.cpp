#include "blas_api/calibration_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/error.hpp"

namespace tessera::api {
namespace {

using nlohmann::ordered_json;

constexpr int format = 1;

/// FNV-1a: a name for a file, not a safeguard; the file says itself what it belongs to.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// XDG Base Directory Specification: a relative path is to be ignored.
std::string cache_folder() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/tessera";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/tessera";
  return "";
}

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

}  // namespace

CalibrationFile::CalibrationFile(const std::string& setting, std::span<const device::DeviceInfo> devices,
                                 int copy_threads)
    : devices_(static_cast<int>(devices.size())), machine_(fmt::format("{} copy threads", copy_threads)) {
  for (const device::DeviceInfo& device : devices) {
    machine_ += fmt::format("; {}:{} {} {}", device.backend, device.ordinal, device.name, device.pci_bus_id);
    if (device.backend == "host")
      machine_ += fmt::format(" {:g} flop/s {:g} byte/s", device.flops_per_s, device.link_bytes_per_s);
  }
  if (setting == "off") return;
  path_ = setting;
  if (path_.empty()) {
    const std::string folder = cache_folder();
    if (!folder.empty()) path_ = fmt::format("{}/calibration-{:016x}.json", folder, hash_of(machine_));
  }
}

std::optional<runtime::Calibration> CalibrationFile::read() const {
  std::error_code error;
  if (path_.empty() || !std::filesystem::is_regular_file(path_, error)) return std::nullopt;
  std::ifstream file(path_);
  if (!file) return std::nullopt;
  try {
    const ordered_json json = ordered_json::parse(file);
    if (json.at("format") != format || json.at("machine") != machine_) return std::nullopt;
    runtime::Calibration rates;
    rates.devices = json.at("devices").get<int>();
    for (const ScalarType type : scalar_types)
      rates.flops_per_s[static_cast<std::size_t>(type)] =
          json.at("flops_per_s").at(std::string(1, letter(type))).get<double>();
    rates.page_locked = links_from(json.at("page_locked_bytes_per_s"));
    rates.pageable = links_from(json.at("pageable_bytes_per_s"));
    rates.peer_bytes_per_s = json.at("peer_bytes_per_s").get<double>();
    if (!is_plausible(rates) || rates.devices != devices_) return std::nullopt;
    return rates;
  } catch (const std::exception&) {  // broken, of another format, or a folder
    return std::nullopt;
  }
}

bool CalibrationFile::is_free() const {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path_.empty() || fs::exists(path_, error) || error) return false;
  // The folder is made by write(): what counts is the first one that is there.
  fs::path folder = fs::absolute(path_, error).parent_path();
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return fs::is_directory(folder, error) && access(folder.c_str(), W_OK | X_OK) == 0;
}

void CalibrationFile::write(const runtime::Calibration& rates) const {
  if (path_.empty())
    throw NotAvailable(
        "there is no place to keep the rates: neither XDG_CACHE_HOME nor HOME is set, or TESSERA_CALIBRATION=off");
  ordered_json json = {{"format", format}, {"machine", machine_}, {"devices", rates.devices}};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json["measured"] = text;
  for (const ScalarType type : scalar_types) json["flops_per_s"][std::string(1, letter(type))] = rates.flops_of(type);
  json["page_locked_bytes_per_s"] = json_of(rates.page_locked);
  json["pageable_bytes_per_s"] = json_of(rates.pageable);
  json["peer_bytes_per_s"] = rates.peer_bytes_per_s;

  // Whoever reads meanwhile gets the old file or the new one.
  static std::atomic<int> drafts = 0;
  const std::string draft = fmt::format("{}.{}.{}", path_, getpid(), drafts.fetch_add(1));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  std::ofstream file(draft);
  file << json.dump(2) << '\n';
  file.close();
  if (file) std::filesystem::rename(draft, path_, error);
  if (!file || error) {
    const std::string why = error ? error.message() : std::strerror(errno);
    std::remove(draft.c_str());
    throw NotAvailable(fmt::format("cannot write {}: {}", path_, why));
  }
}

}  // namespace tessera::api
