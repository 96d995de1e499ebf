// `tessera info`: the devices and libraries of the machine, which of them Tessera would use, and why. Collected as JSON
// first; the text is made from it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands.hpp"
#include "core/error.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/plugin_loader.hpp"
#include "locations.hpp"
#include "machine_check.hpp"
#include "offload/context.hpp"
#include "offload/policy.hpp"
#include "preload_plan.hpp"
#include "program_reader.hpp"
#include "program_report.hpp"
#include "program_text.hpp"
#include "settings_options.hpp"
#include "tessera/tessera.h"
#include "text_table.hpp"

namespace tessera::tools {
namespace {

using nlohmann::ordered_json;

struct InfoOptions {
  SettingsOptions settings;
  bool json = false;
  bool check = false;
  std::string program;
};

ordered_json settings_in_force(const SettingsOptions& options) {
  ordered_json settings = ordered_json::object();
  for (const char* name : {"TESSERA_DEVICES",
                           "TESSERA_HOST_DEVICE",
                           "TESSERA_DEVICE_MEMORY",
                           "TESSERA_DEVICE_MEMORY_MODE",
                           "TESSERA_RESIDENT",
                           "TESSERA_RESIDENT_MEMORY",
                           "TESSERA_RESIDENT_ANYWHERE",
                           "TESSERA_TILE",
                           "TESSERA_OFFLOAD",
                           "TESSERA_SHARE",
                           "TESSERA_CPU_BLAS",
                           "TESSERA_CUDA_PLUGIN",
                           "TESSERA_CALIBRATION",
                           "TESSERA_COPY_THREADS",
                           "TESSERA_KEEP_OLD_VALUES",
                           "TESSERA_CPU_WORKER",
                           "TESSERA_WARM_UP",
                           "TESSERA_VERBOSE",
                           "TESSERA_STATS",
                           "TESSERA_TRACE",
                           "TESSERA_SUMMARY",
                           "TESSERA_LAPACK_BLOCK"}) {
    if (const char* value = std::getenv(name); value != nullptr) settings[name] = value;
  }
  for (const auto& [name, value] : options.values()) settings[name] = value;
  return settings;
}

std::string id_of(const device::DeviceInfo& info) { return fmt::format("{}:{}", info.backend, info.ordinal); }

ordered_json json_of(const RatesByType& rates) {
  ordered_json json;
  for (const ScalarType type : scalar_types) json[std::string(1, letter(type))] = rates[type];
  return json;
}

ordered_json json_of(const device::DeviceProfile& profile) {
  ordered_json json = {{"architecture", profile.architecture}, {"measured", profile.measured}};
  for (const auto& [name, number] : device::numbers_of(profile)) json["numbers"][name] = number;
  return json;
}

/// Opens the devices, because only open devices know whether they can access each other.
void describe_devices(kernels::Backend& backend, const std::vector<int>& wanted, ordered_json& to) {
  to["devices"] = ordered_json::array();
  std::vector<int> ordinals;
  for (const device::DeviceInfo& info : backend.devices()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), info.ordinal) == wanted.end()) continue;
    ordinals.push_back(info.ordinal);
    to["devices"].push_back({{"id", id_of(info)},
                             {"backend", info.backend},
                             {"ordinal", info.ordinal},
                             {"name", info.name},
                             {"memory_bytes", info.memory_bytes},
                             {"pci_bus_id", info.pci_bus_id},
                             {"flops_per_s", json_of(info.flops_per_s)},
                             {"link_bytes_per_s", info.link_bytes_per_s},
                             {"profile", json_of(info.profile)}});
  }
  for (const int ordinal : wanted) {
    if (std::find(ordinals.begin(), ordinals.end(), ordinal) == ordinals.end()) {
      throw NotAvailable(fmt::format("there is no device {}", ordinal));
    }
  }
  const kernels::Opened opened = backend.open(ordinals, 0);
  std::map<int, const device::Device*> open;  // by ordinal
  for (const auto& accelerator : opened.accelerators)
    open[accelerator.device->info().ordinal] = accelerator.device.get();
  std::map<int, std::string> refused;
  for (const auto& refusal : opened.refused) refused[refusal.ordinal] = refusal.reason;
  ordered_json peer_access = ordered_json::array();
  for (ordered_json& device : to["devices"]) {
    const int ordinal = device["ordinal"];
    ordered_json row = ordered_json::array();
    for (const int peer : ordinals)
      row.push_back(peer != ordinal && open.contains(ordinal) && open.contains(peer) &&
                    open[ordinal]->can_access(*open[peer]));
    peer_access.push_back(row);
    if (open.contains(ordinal))
      device["free_memory_bytes"] = open[ordinal]->free_memory_bytes();
    else
      device["not_used"] = refused[ordinal];
  }
  to["peer_access"] = std::move(peer_access);
}

/// The path of the plugin, or "", and the places where it may lie. The library looks for it beside itself. This program lies
/// elsewhere, so it passes the plugin's path.
std::string find_plugin(const Config& config, ordered_json& looked_for) {
  looked_for = ordered_json::array();
  if (!config.plugin_file.empty()) {
    looked_for.push_back(config.plugin_file);
    return config.plugin_file;
  }
  for (const auto& folder : library_folders()) looked_for.push_back((folder / plugin_name).string());
  looked_for.push_back(std::string(plugin_name) + " (wherever the loader finds it)");
  const auto found = find_library(plugin_name);
  return found ? found->string() : "";
}

/// The plugin and all of its devices. @return nullptr if it cannot be loaded
std::unique_ptr<kernels::Backend> describe_plugin(const Config& config, ordered_json& info) {
  ordered_json plugin = {{"looked_for", {}}, {"loaded", false}};
  ordered_json cuda_info = {{"devices", ordered_json::array()}};
  const std::string file = find_plugin(config, plugin["looked_for"]);
  if (!file.empty()) plugin["file"] = file;
  std::unique_ptr<kernels::Backend> cuda;
  try {
    cuda = kernels::open_plugin(file);
    plugin["loaded"] = true;
    describe_devices(*cuda, {}, cuda_info);
  } catch (const Error& error) {
    plugin["error"] = error.what();
  }
  info["cuda_plugin"] = plugin;
  info["cuda"] = cuda_info;
  return cuda;
}

/// The ordinals of this process's share of the visible devices.
std::vector<int> share_of(const Config& config, int visible, ordered_json& used) {
  const DeviceShare share = config.device_share(visible);
  if (config.local_rank && visible > 0) {
    const LocalRank& place = *config.local_rank;
    used["share"] = {{"rank", place.rank},
                     {"ranks", place.ranks},
                     {"launcher", place.launcher},
                     {"of", visible},
                     {"sharers", share.sharers}};
  }
  return share.ordinals();
}

/// The devices that calls run on. @param cuda of describe_plugin() @param info has what that one says
ordered_json devices_in_use(const Config& config, kernels::Backend* cuda, const ordered_json& info,
                            const std::shared_ptr<const kernels::CpuBlas>& cpu_blas) {
  const std::size_t gpus = info["cuda"]["devices"].size();
  const char* const choices[] = {"auto", "cuda", "host", "none"};
  ordered_json used = {{"choice", choices[static_cast<int>(config.devices)]}, {"devices", ordered_json::array()}};
  try {
    if (config.devices == DeviceChoice::none) return used;
    if (config.devices == DeviceChoice::host) {
      describe_devices(*kernels::make_host_backend(config, config.host_devices, cpu_blas),
                       share_of(config, config.host_devices, used), used);
      return used;
    }
    const bool is_chosen = config.devices == DeviceChoice::plugin;
    if (is_chosen && gpus == 0) throw NotAvailable(info["cuda_plugin"].value("error", "no CUDA device"));
    const std::vector<int> wanted =
        is_chosen && !config.ordinals.empty() ? config.ordinals : share_of(config, static_cast<int>(gpus), used);
    if (wanted.size() == gpus && config.ordinals.empty()) {
      used.update(info["cuda"]);  // all are open already
    } else {
      describe_devices(*cuda, wanted, used);
    }
  } catch (const Error& error) {
    used["error"] = error.what();
  }
  return used;
}

ordered_json collect(const InfoOptions& options) {
  const Config config = options.settings.config();
  ordered_json info;
  info["version"] = tessera_version();
  info["settings"] = settings_in_force(options.settings);
  info["offload"] = offload::to_text(config.offload);

  offload::Context context(config);
  std::shared_ptr<const kernels::CpuBlas> cpu_blas;
  try {
    cpu_blas = context.cpu_blas();
    info["cpu_blas"] = {{"path", cpu_blas->path()}};
  } catch (const NotAvailable& error) {
    info["cpu_blas"] = {{"error", error.what()}};
  }
  const std::unique_ptr<kernels::Backend> cuda = describe_plugin(config, info);
  const std::size_t gpus = info["cuda"]["devices"].size();
  info["auto"] = {{"devices", gpus > 0 ? "cuda" : "none"},
                  {"why", gpus > 0 ? fmt::format("{} CUDA device(s) found", gpus)
                                   : std::string("no CUDA devices, so the CPU BLAS answers every call")}};
  info["used"] = devices_in_use(config, cuda.get(), info, cpu_blas);
  return info;
}

std::string rate_text(double rate, double unit, const char* name) {
  return rate > 0 ? fmt::format("{} {}", three_digits(rate / unit), name) : "-";
}

void print_devices(const ordered_json& group) {
  TextTable table({"device", "name", "memory", "free", "host link", "single", "double precision", "PCI bus"});
  std::vector<std::string> ids = {"peer access"};
  for (const ordered_json& device : group["devices"]) {
    ids.push_back(device["id"]);
    table.add_row({device["id"], device["name"], bytes_text(device["memory_bytes"].get<double>()),
                   bytes_text(device.value("free_memory_bytes", 0.0)),
                   rate_text(device["link_bytes_per_s"].get<double>(), 1e9, "GB/s"),
                   rate_text(device["flops_per_s"]["s"].get<double>(), 1e12, "TFLOP/s"),
                   rate_text(device["flops_per_s"]["d"].get<double>(), 1e12, "TFLOP/s"),
                   device["pci_bus_id"].get<std::string>().empty() ? "-" : device["pci_bus_id"].get<std::string>()});
  }
  fmt::print("\n{}", table.text());
  for (const ordered_json& device : group["devices"]) {
    if (device.contains("not_used"))
      fmt::print("{} is not used: {}\n", device["id"].get<std::string>(), device["not_used"].get<std::string>());
  }
  if (group["devices"].size() < 2 || !group.contains("peer_access")) return;
  TextTable peers(ids);
  for (std::size_t i = 0; i < group["peer_access"].size(); ++i) {
    std::vector<std::string> row = {ids[i + 1]};
    for (std::size_t j = 0; j < group["peer_access"][i].size(); ++j) {
      row.push_back(i == j ? "." : group["peer_access"][i][j].get<bool>() ? "yes" : "no");
    }
    peers.add_row(row);
  }
  fmt::print("\n{}", peers.text());
}

void print_profiles(const ordered_json& devices) {
  for (const ordered_json& device : devices) {
    const ordered_json& profile = device["profile"];
    fmt::print("\nprofile of {}: {}{}\n", device["id"].get<std::string>(), profile["architecture"].get<std::string>(),
               profile["measured"].get<bool>() ? "" : ", not measured");
    for (const auto& [name, number] : profile["numbers"].items())
      fmt::print("  {:<38}{:.10g}\n", name, number.get<double>());
  }
}

void print_text(const ordered_json& info, bool verbose) {
  fmt::print("tessera {}\n", info["version"].get<std::string>());
  const auto line = [](const char* name, const std::string& text) { fmt::print("{:<13}{}\n", name, text); };
  std::string settings;
  for (const auto& [name, value] : info["settings"].items()) {
    settings += (settings.empty() ? "" : " ") + name + "=" + value.get<std::string>();
  }
  line("settings", settings.empty() ? "none" : settings);
  const ordered_json& cpu = info["cpu_blas"];
  line("CPU BLAS", cpu.contains("path") ? cpu["path"].get<std::string>() : "none: " + cpu["error"].get<std::string>());
  const ordered_json& plugin = info["cuda_plugin"];
  line("CUDA plugin", plugin.value("file", std::string(plugin["loaded"].get<bool>() ? plugin_name : "not found")));
  if (plugin.contains("error")) {
    line("", "not used: " + plugin["error"].get<std::string>());
    for (const ordered_json& place : plugin["looked_for"]) line("", "looked for " + place.get<std::string>());
  }
  line("auto means", info["auto"]["devices"].get<std::string>() + ": " + info["auto"]["why"].get<std::string>());
  const ordered_json& used = info["used"];
  std::string used_text;
  for (const ordered_json& device : used["devices"]) {
    if (device.contains("not_used")) continue;
    used_text += (used_text.empty() ? "" : ", ") + device["id"].get<std::string>();
  }
  if (used_text.empty()) used_text = "no devices: the CPU BLAS answers every call";
  if (used.contains("error")) used_text += " (" + used["error"].get<std::string>() + ")";
  line("calls run on", used_text);
  line("offload", info["offload"].get<std::string>());
  if (used.contains("share")) {
    const ordered_json& share = used["share"];
    const int sharers = share["sharers"].get<int>();
    line("share", fmt::format("rank {} of {} on this host ({}): {} of {} device(s){}", share["rank"].get<int>(),
                              share["ranks"].get<int>(), share["launcher"].get<std::string>(), used["devices"].size(),
                              share["of"].get<int>(), sharers > 1 ? fmt::format(", shared by {} ranks", sharers) : ""));
  }
  if (!used["devices"].empty()) print_devices(used);
  if (verbose) print_profiles(used["devices"]);
  if (used["choice"] != "auto" && used["choice"] != "cuda" && !info["cuda"]["devices"].empty()) {
    fmt::print("\nNot used by these settings:\n");
    print_devices(info["cuda"]);
  }
}

/// The calls of a program that `tessera run` would catch. Opens no device.
int report_program(const InfoOptions& options) {
  const Program program = read_program({options.program});
  const Report report = analyse(program, read_faces());
  PlanOptions plan;
  plan.devices = devices_expected(options.settings.config());
  PreloadPlan planned;
  try {
    planned = plan_preload(program, report, plan);
  } catch (const std::runtime_error& error) {
    planned.reasons.push_back(std::string(error.what()) + ".");
  }
  const ordered_json description = describe_program(program, report, planned);
  fmt::print("{}", options.json ? description.dump(2) + "\n" : program_text(description, options.program));
  return 0;
}

/// Whether the CPU BLAS and the selected devices compute correctly.
int report_check(const InfoOptions& options) {
  const Config config = options.settings.config();
  const ordered_json used = collect(options)["used"];
  std::vector<CheckedPart> parts = {cpu_part(config)};
  for (const ordered_json& device : used["devices"]) {
    if (!device.contains("not_used")) parts.push_back(device_part(config, device["id"], device["ordinal"]));
  }
  const ordered_json checked = check_machine(parts);
  fmt::print("{}", options.json ? checked.dump(2) + "\n" : check_text(checked));
  for (const ordered_json& device : used["devices"]) {
    if (device.contains("not_used"))
      fmt::print(stderr, "{} is not checked: {}\n", device["id"].get<std::string>(),
                 device["not_used"].get<std::string>());
  }
  if (used.contains("error")) fmt::print(stderr, "no device is checked: {}\n", used["error"].get<std::string>());
  return is_right(checked) && !used.contains("error") ? 0 : 1;
}

}  // namespace

Command add_info(CLI::App& app) {
  CLI::App* info = app.add_subcommand("info", "show devices, what Tessera would use, and why");
  auto options = std::make_shared<InfoOptions>();
  info->add_flag("--json", options->json, "as one JSON object");
  info->add_option(
          "--program", options->program,
          "instead, say which BLAS calls of this program or library `tessera run` can catch, and why not others")
      ->type_name("PROGRAM");
  info->add_flag("--check", options->check,
                 "instead, have the CPU BLAS and LAPACK and each device compute small problems, and say what is wrong");
  options->settings.add_to(*info);
  return {info, [options] {
            if (options->check && !options->program.empty()) throw UsageError("--check is not about a --program");
            if (options->check) return report_check(*options);
            if (!options->program.empty()) return report_program(*options);
            const ordered_json collected = collect(*options);
            if (options->json) {
              fmt::print("{}\n", collected.dump(2));
            } else {
              print_text(collected, options->settings.config().verbose);
            }
            return 0;
          }};
}

}  // namespace tessera::tools
