// Parsing of the settings. One table lists them all. It serves to read the environment and the settings string, and to
// write the messages that list the valid values. A value is accepted whole or not at all: trailing characters after a
// number and overflow are errors.
#include "core/config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/parse_integer.hpp"

namespace tessera {
namespace {

constexpr int most_devices = 64;
/// The largest number whose cube fits into 64 bits.
constexpr index_t largest_offload_order = (index_t{1} << 21) - 1;

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

/// The decimal number at the front of `text`, and the rest of the text. Signs, "inf", "nan" and exponents are not
/// accepted.
bool parse_decimal(std::string_view text, double& value, std::string_view& rest) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value)) return false;
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return true;
}

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr Suffix byte_suffixes[] = {{"", 1},
                                    {"B", 1},
                                    {"kB", 1e3},
                                    {"MB", 1e6},
                                    {"GB", 1e9},
                                    {"TB", 1e12},
                                    {"KiB", 1024.0},
                                    {"MiB", 1024.0 * 1024},
                                    {"GiB", 1024.0 * 1024 * 1024},
                                    {"TiB", 1024.0 * 1024 * 1024 * 1024}};
constexpr Suffix flop_suffixes[] = {{"", 1},          {"FLOP/s", 1},    {"kFLOP/s", 1e3},
                                    {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}};
constexpr Suffix time_suffixes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

bool parse_scaled(std::string_view text, std::span<const Suffix> suffixes, double& value) {
  double number = 0;
  std::string_view rest;
  if (!parse_decimal(text, number, rest)) return false;
  const auto suffix =
      std::find_if(suffixes.begin(), suffixes.end(), [&](const Suffix& s) { return same_letters(s.text, rest); });
  if (suffix == suffixes.end()) return false;
  value = number * suffix->factor;
  return std::isfinite(value);
}

bool read_bytes(std::string_view text, std::size_t& value) {
  // Whole numbers without a suffix are exact. With a suffix, a double is precise enough for every size that exists.
  std::int64_t whole = 0;
  if (parse_integer(text, 0, std::numeric_limits<std::int64_t>::max(), whole)) {
    value = static_cast<std::size_t>(whole);
    return !text.starts_with('-');
  }
  double bytes = 0;
  if (!parse_scaled(text, byte_suffixes, bytes) || bytes >= 0x1p63) return false;
  value = static_cast<std::size_t>(bytes);
  return true;
}

bool read_rate(std::string_view text, double& value) {
  if (text.ends_with("/s")) text.remove_suffix(2);
  return parse_scaled(text, byte_suffixes, value);
}

bool read_switch(std::string_view text, bool& value) {
  const bool on = text == "1" || same_letters(text, "on");
  const bool off = text == "0" || same_letters(text, "off");
  if (on || off) value = on;
  return on || off;
}

/// Calls `take` with each part of `text` between separators, empty ones included. @return false as soon as one call
/// returns false
template <class Take>
bool split(std::string_view text, char separator, Take take) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (!take(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

/// The ordinals are told apart.
bool read_ordinals(std::string_view text, std::vector<int>& ordinals) {
  return split(text, ',', [&](std::string_view part) {
    int ordinal = 0;
    if (!parse_integer(part, 0, most_devices - 1, ordinal)) return false;
    if (std::find(ordinals.begin(), ordinals.end(), ordinal) != ordinals.end()) return false;
    ordinals.push_back(ordinal);
    return true;
  });
}

bool set_devices(Config& config, std::string_view text) {
  config.ordinals.clear();
  config.host_devices = 0;
  if (text == "auto" || text == "none") {
    config.devices = text == "auto" ? DeviceChoice::automatic : DeviceChoice::none;
    return true;
  }
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (name == "host") {
    config.devices = DeviceChoice::host;
    return parse_integer(rest, 1, most_devices, config.host_devices);
  }
  config.devices = DeviceChoice::plugin;
  config.backend = plugin_backend(name);
  return config.backend != nullptr && (colon == std::string_view::npos || read_ordinals(rest, config.ordinals));
}

/// RATE, or s:RATE, d:RATE, c:RATE, z:RATE, which leave the rates of the other types as they are.
bool set_speed(HostDeviceSettings& settings, std::string_view text) {
  const auto* const type = std::find_if(std::begin(scalar_types), std::end(scalar_types), [&](ScalarType of) {
    return text.size() > 1 && text[0] == letter(of) && text[1] == ':';
  });
  if (type != std::end(scalar_types)) return parse_scaled(text.substr(2), flop_suffixes, settings.flops_per_s[*type]);
  double rate = 0;
  if (!parse_scaled(text, flop_suffixes, rate)) return false;
  settings.flops_per_s = rate;
  return true;
}

/// COUNT, or up:COUNT, down:COUNT, peer:COUNT, to_peer:COUNT, kernel:COUNT.
bool set_failure(HostDeviceSettings& settings, std::string_view text) {
  constexpr std::pair<std::string_view, FailingOperation> kinds[] = {{"up:", FailingOperation::up},
                                                                     {"down:", FailingOperation::down},
                                                                     {"peer:", FailingOperation::peer},
                                                                     {"to_peer:", FailingOperation::to_peer},
                                                                     {"kernel:", FailingOperation::kernel}};
  for (const auto& [prefix, kind] : kinds) {
    if (!text.starts_with(prefix)) continue;
    settings.failing_operation = kind;
    text.remove_prefix(prefix.size());
    break;
  }
  return parse_integer(text, 0, std::numeric_limits<std::int64_t>::max(), settings.fail_after_ops);
}

/// A whole number from `least` to `most`.
template <std::int64_t least, std::int64_t most>
constexpr auto read_whole = [](std::string_view text, auto& value) { return parse_integer(text, least, most, value); };
constexpr auto read_count = read_whole<0, std::numeric_limits<std::int64_t>::max()>;

constexpr auto read_size = [](std::string_view text, std::size_t& value) {
  return read_bytes(text, value) && value > 0;
};

constexpr auto read_time = [](std::string_view text, double& value) {
  return parse_scaled(text, time_suffixes, value);
};

constexpr auto read_path = [](std::string_view text, std::string& value) {
  value = text;
  return true;
};

/// One of a few names.
template <class T>
bool read_name(std::string_view text, std::initializer_list<std::pair<std::string_view, std::type_identity_t<T>>> names,
               T& value) {
  const auto* const named =
      std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == text; });
  if (named == names.end()) return false;
  value = named->second;
  return true;
}

template <class T>
T& value_of(T& member) {
  return member;
}
template <class T>
T& value_of(std::optional<T>& member) {
  return member.emplace();
}
/// Reads a member of settings. They may have changed where it returns false.
template <auto member, auto read, class Settings>
bool set(Settings& settings, std::string_view text) {
  return read(text, value_of(settings.*member));
}

struct HostDeviceKey {
  std::string_view name;
  bool (*set)(HostDeviceSettings&, std::string_view);
};

constexpr HostDeviceKey host_device_keys[] = {
    {"memory", set<&HostDeviceSettings::memory_bytes, read_size>},
    {"link", set<&HostDeviceSettings::link_bytes_per_s, read_rate>},
    {"peer", set<&HostDeviceSettings::peer_bytes_per_s, read_rate>},
    {"speed", set_speed},
    {"delay", set<&HostDeviceSettings::delay_s, read_time>},
    {"start", set<&HostDeviceSettings::start_s, read_time>},
    {"segment", set<&HostDeviceSettings::segment_bytes, read_bytes>},
    {"share", set<&HostDeviceSettings::share_bytes, read_bytes>},
    {"peers", set<&HostDeviceSettings::peers, read_switch>},
    {"compute", set<&HostDeviceSettings::compute, read_switch>},
    {"fail", set_failure},
    {"open_fails", set<&HostDeviceSettings::refused_opens, read_count>},
    {"refuse", set<&HostDeviceSettings::refused_op, read_count>},
};

bool read_host_devices(std::string_view text, std::vector<HostDeviceSettings>& devices) {
  devices.clear();
  return split(text, ';', [&](std::string_view device) {
    HostDeviceSettings& settings = devices.emplace_back();
    // An empty entry is a device with the defaults: ";speed=1GFLOP/s" slows only the second one down.
    const bool is_good = device.empty() || split(device, ',', [&](std::string_view pair) {
                           const std::size_t equals = pair.find('=');
                           if (equals == std::string_view::npos) return false;
                           for (const HostDeviceKey& key : host_device_keys) {
                             if (key.name == pair.substr(0, equals)) return key.set(settings, pair.substr(equals + 1));
                           }
                           return false;
                         });
    return is_good && devices.size() <= most_devices;
  });
}

bool read_memory_mode(std::string_view text, MemoryMode& mode) {
  return read_name(text, {{"grow", MemoryMode::grow}, {"whole", MemoryMode::whole}}, mode);
}

bool read_resident(std::string_view text, Resident& resident) {
  return read_name(text,
                   {{"off", Resident::off},
                    {"matrices", Resident::named},
                    {"auto", Resident::automatic},
                    {"verify", Resident::verified}},
                   resident);
}

bool read_offload_rule(std::string_view text, OffloadRule& rule) {
  rule = {};
  if (read_name(text, {{"auto", Offload::automatic}, {"always", Offload::always}, {"never", Offload::never}},
                rule.when))
    return true;
  index_t order = 0;
  if (!parse_integer(text, 1, largest_offload_order, order)) return false;
  rule = {Offload::by_size, order * order * order};
  return true;
}

bool read_offload(std::string_view text, OffloadRules& rules) {
  rules = {};
  return split(text, ',', [&](std::string_view entry) {
    const std::size_t equals = entry.find('=');
    const bool named = equals != std::string_view::npos;
    OffloadRule rule;
    if (!read_offload_rule(named ? entry.substr(equals + 1) : entry, rule)) return false;
    if (!named) rules = {.general = rule, .named = {}};
    if (named) rules.named.emplace_back(entry.substr(0, equals), rule);
    return true;
  });
}

/// A switch or a file name.
bool set_summary(Config& config, std::string_view text) {
  bool on = false;
  if (!read_switch(text, on)) {
    config.summary = std::string(text);
  } else if (on) {
    config.summary = "";
  } else {
    config.summary.reset();
  }
  return true;
}

bool read_old_values_place(std::string_view text, OldValuesPlace& place) {
  bool on = false;
  if (!read_switch(text, on))
    return read_name(text, {{"peers", OldValuesPlace::peers}, {"copies", OldValuesPlace::host}}, place);
  place = on ? OldValuesPlace::in_place : OldValuesPlace::nowhere;
  return true;
}

bool read_cpu_worker_use(std::string_view text, CpuWorkerUse& use) {
  bool on = false;
  if (!read_switch(text, on)) return read_name(text, {{"auto", CpuWorkerUse::automatic}}, use);
  use = on ? CpuWorkerUse::always : CpuWorkerUse::never;
  return true;
}

bool read_warm_up(std::string_view text, WarmUp& when) {
  bool on = false;
  if (!read_switch(text, on)) return read_name(text, {{"known", WarmUp::known_programs}}, when);
  when = on ? WarmUp::first_call : WarmUp::off;
  return true;
}

bool set_share(Config& config, std::string_view text) {
  if (text == "auto") {
    config.share = Share::automatic;
    config.local_rank = find_local_rank(environment_variable);
    return true;
  }
  if (text == "off") {
    config.share = Share::off;
    config.local_rank.reset();
    return true;
  }
  const std::size_t slash = text.find('/');
  std::int64_t rank = 0;
  std::int64_t ranks = 0;
  if (slash == std::string_view::npos || !parse_integer(text.substr(slash + 1), 1, most_ranks, ranks) ||
      !parse_integer(text.substr(0, slash), 0, ranks - 1, rank)) {
    return false;
  }
  config.share = Share::given;
  config.local_rank = LocalRank{static_cast<int>(rank), static_cast<int>(ranks), "TESSERA_SHARE"};
  return true;
}

struct Setting {
  const char* name;
  const char* expected;
  bool (*set)(Config&, std::string_view);  ///< where it returns false, its changes are dropped
  void (*reset)(Config&, const Config& defaults);
};

template <auto... members>
void reset(Config& config, const Config& defaults) {
  ((config.*members = defaults.*members), ...);
}
/// A setting that is one member.
template <auto member, auto read>
constexpr Setting setting_of(const char* name, const char* expected) {
  return {name, expected, set<member, read>, reset<member>};
}

constexpr Setting settings_table[] = {
    {"TESSERA_DEVICES", "auto, none, cuda, cuda:LIST (as cuda:0,2) or host:N (N from 1 to 64)", set_devices,
     reset<&Config::devices, &Config::backend, &Config::ordinals, &Config::host_devices>},
    setting_of<&Config::host_device, read_host_devices>(
        "TESSERA_HOST_DEVICE",
        "memory=SIZE, link=RATE, peer=RATE, speed=FLOPS or TYPE:FLOPS (of s, d, c, z), delay=TIME, start=TIME, "
        "segment=SIZE, share=SIZE, peers=on|off, compute=on|off, "
        "fail=COUNT or KIND:COUNT (of up, down, peer, to_peer, kernel), refuse=COUNT, open_fails=COUNT, joined "
        "by commas, devices by semicolons (as memory=64MiB,link=2GB/s,speed=100GFLOP/s,delay=5us)"),
    setting_of<&Config::device_memory_bytes, read_size>("TESSERA_DEVICE_MEMORY",
                                                        "a size above 0 (as 64MiB, 1.5GiB or 4096)"),
    setting_of<&Config::resident, read_resident>("TESSERA_RESIDENT", "off, matrices, auto or verify"),
    setting_of<&Config::resident_bytes, read_size>("TESSERA_RESIDENT_MEMORY", "a size above 0 (as 64MiB or 1.5GiB)"),
    setting_of<&Config::watches_any_memory, read_switch>("TESSERA_RESIDENT_ANYWHERE", "0, 1, on or off"),
    setting_of<&Config::memory_mode, read_memory_mode>("TESSERA_DEVICE_MEMORY_MODE", "grow or whole"),
    setting_of<&Config::keep_old_values, read_old_values_place>("TESSERA_KEEP_OLD_VALUES", "on, copies, peers or off"),
    setting_of<&Config::copy_threads, read_whole<0, 256>>("TESSERA_COPY_THREADS", "a whole number from 0 to 256"),
    setting_of<&Config::tile, read_whole<1, 1048576>>("TESSERA_TILE", "a whole number from 1 to 1048576"),
    setting_of<&Config::offload, read_offload>(
        "TESSERA_OFFLOAD",
        "auto, always or never, or a whole number N from 1 to 2097151 (devices from m*n*k = N^3 on), for all routines "
        "or, as NAME=..., for one (trsm, or dtrsm), joined by commas (as auto,trsm=never,zherk=2000)"),
    setting_of<&Config::cpu_worker, read_cpu_worker_use>("TESSERA_CPU_WORKER", "auto, on or off"),
    {"TESSERA_SHARE", "auto, off, or RANK/RANKS counted from 0 (as 1/4)", set_share,
     [](Config& c, const Config&) { set_share(c, "auto"); }},
    setting_of<&Config::cpu_blas, read_path>("TESSERA_CPU_BLAS", "a path"),
    setting_of<&Config::plugin_file, read_path>("TESSERA_CUDA_PLUGIN", "a path"),
    setting_of<&Config::calibration, read_path>("TESSERA_CALIBRATION", "off or a path"),
    setting_of<&Config::warm_up, read_warm_up>("TESSERA_WARM_UP", "0, 1, on, off or known"),
    setting_of<&Config::verbose, read_switch>("TESSERA_VERBOSE", "0, 1, on or off"),
    setting_of<&Config::stats_file, read_path>("TESSERA_STATS", "a path"),
    setting_of<&Config::trace_file, read_path>("TESSERA_TRACE", "a path"),
    {"TESSERA_SUMMARY", "0, 1, on, off or a path", set_summary, reset<&Config::summary>},
};

std::string valid_names() {
  std::string names;
  for (const Setting& setting : settings_table) names += (names.empty() ? "" : ", ") + std::string(setting.name);
  return names;
}

constexpr std::string_view space = " \t\r\n\f\v";

/// Removes the value at the front of `settings`: up to white space, or in quotation marks. @throws InvalidArgument
std::string take_value(std::string_view name, std::string_view& settings) {
  if (!settings.starts_with('"')) {
    const std::string_view value = settings.substr(0, settings.find_first_of(space));
    settings.remove_prefix(value.size());
    return std::string(value);
  }
  std::string value;
  for (std::size_t at = 1; at < settings.size(); ++at) {
    if (settings[at] == '"') {
      settings.remove_prefix(at + 1);
      if (settings.empty() || space.find(settings.front()) != std::string_view::npos) return value;
      throw InvalidArgument(std::string(name) + ": white space must follow \"" + value + "\"");
    }
    if (settings[at] == '\\' && at + 1 < settings.size()) ++at;
    value += settings[at];
  }
  throw InvalidArgument(std::string(name) + ": a quotation mark is missing at the end of the settings");
}

/// An empty value asks for the default. @return false, and nothing has changed, if the value is wrong
bool apply(const Setting& setting, Config& config, std::string_view value, Config::IsRoutine is_routine) {
  if (value.empty()) {
    setting.reset(config, Config());
    return true;
  }
  Config changed = config;
  if (!setting.set(changed, value)) return false;
  const auto is_unknown = [&](const auto& rule) { return is_routine != nullptr && !is_routine(rule.first); };
  if (std::any_of(changed.offload.named.begin(), changed.offload.named.end(), is_unknown)) return false;
  config = std::move(changed);
  return true;
}

}  // namespace

const HostDeviceSettings& Config::host_device_settings(int index) const {
  static const HostDeviceSettings defaults;
  if (host_device.empty()) return defaults;
  const std::size_t last = host_device.size() - 1;
  return host_device[std::min(static_cast<std::size_t>(std::max(index, 0)), last)];
}

int Config::copy_threads_of(int devices, int processors, int most, int fewest) const {
  if (copy_threads) return *copy_threads;
  const int threads = std::min(processors / std::max(devices, 1), most);
  return threads < fewest ? 0 : threads;
}

DeviceShare Config::device_share(int visible) const {
  if (!local_rank || !ordinals.empty()) return {0, visible, 1};
  // Host devices are a setting of each process, so all ranks have the same ones. A user who sets a share means a share
  // of the devices that the process sees.
  if (devices == DeviceChoice::host || share == Share::given) {
    return divide_devices(local_rank->rank, local_rank->ranks, visible);
  }
  return share_of_gpus(*local_rank, visible, gpus_of_host(environment_variable, local_rank));
}

Config Config::from_environment(IsRoutine is_routine) {
  Config config;
  set_share(config, "auto");
  for (const Setting& setting : settings_table) {
    const char* const value = environment_variable(setting.name);
    if (value == nullptr || apply(setting, config, value, is_routine)) continue;
    log_line(std::string(setting.name) + "=\"" + value + "\" is not valid: expected " + setting.expected +
             "; the default is used");
  }
  return config;
}

Config Config::from_settings(std::string_view settings, IsRoutine is_routine) {
  Config config = from_environment(is_routine);
  for (;;) {
    const std::size_t begin = settings.find_first_not_of(space);
    if (begin == std::string_view::npos) return config;
    settings.remove_prefix(begin);

    const std::size_t end = std::min(settings.find_first_of(space), settings.size());
    const std::size_t equals = settings.find('=');
    if (equals >= end) {
      throw InvalidArgument("\"" + std::string(settings.substr(0, end)) + "\" is not of the form NAME=value");
    }
    const std::string_view name = settings.substr(0, equals);
    settings.remove_prefix(equals + 1);
    const std::string value = take_value(name, settings);
    const auto* const setting = std::find_if(std::begin(settings_table), std::end(settings_table),
                                             [&](const Setting& s) { return s.name == name; });
    if (setting == std::end(settings_table)) {
      throw InvalidArgument("there is no setting \"" + std::string(name) + "\"; valid names are " + valid_names());
    }
    if (!apply(*setting, config, value, is_routine)) {
      throw InvalidArgument(std::string(name) + "=\"" + value + "\" is not valid: expected " + setting->expected);
    }
  }
}

std::size_t parse_bytes(std::string_view text) {
  std::size_t bytes = 0;
  if (!read_bytes(text, bytes)) {
    throw InvalidArgument("\"" + std::string(text) + "\" is not a size (as 64MiB, 2GB, 1.5GiB or 4096)");
  }
  return bytes;
}

}  // namespace tessera
