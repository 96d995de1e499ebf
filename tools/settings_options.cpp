#include "settings_options.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "calls/routine.hpp"

namespace tessera::tools {

void SettingsOptions::add_to(CLI::App& app) {
  const auto add = [&app](const char* name, std::string& value, const char* help, const char* kind) {
    app.add_option(name, value, help)->type_name(kind)->group("Settings (each is a TESSERA_* variable)");
  };
  add("--devices", devices_, "auto, cuda, cuda:0,2, host:3 or none", "LIST");
  add("--tile", tile_, "tile size in elements", "N");
  add("--memory", memory_, "memory taken on each device at most, for example 512MiB", "SIZE");
  add("--memory-mode", memory_mode_, "grow: take it as calls need it; whole: at once and for good", "MODE");
  add("--resident", resident_,
      "which matrices stay on the devices: off, matrices (that the program names), auto (also those of the pool that "
      "calls use "
      "again), or verify (for tests)",
      "WHEN");
  add("--resident-memory", resident_memory_, "memory of each device for what stays there at most", "SIZE");
  add("--copy-threads", copy_threads_, "threads that carry pageable memory to and from each GPU; 0: page-lock it", "N");
  add("--keep-old-values", keep_old_values_,
      "what keeps C right if a device is lost meanwhile: on (it is written in slices), copies (of old tiles in host "
      "memory), peers (on other devices) or off",
      "WHEN");
  add("--cpu-worker", cpu_worker_, "whether the CPU computes tiles beside the devices: auto, on or off", "WHEN");
  add("--host-device", host_device_, "memory=64MiB,link=2GB/s,...; one list per device with ';'", "LIST");
  add("--offload", offload_,
      "auto, always, never or N (devices from m*n*k = N^3 on), and for single routines as auto,trsm=never,dgemm=2000",
      "WHEN");
  add("--share", share_, "part of the host among MPI ranks: auto, off or, say, 1/4 (second of four)", "PART");
  add("--cpu-blas", cpu_blas_, "file of the CPU BLAS", "FILE");
  add("--cuda-plugin", cuda_plugin_, "file of the CUDA plugin", "FILE");
  add("--calibration", calibration_, "file with measured rates of the devices, or off", "FILE");
  add("--stats", stats_, "append one JSON object per call to this file", "FILE");
  add("--trace", trace_, "write a trace for ui.perfetto.dev to this file", "FILE");
  app.add_option(
         "--warm-up", warm_up_,
         "open the devices in the background: 1 (of the first call), known (when a program is loaded whose last "
         "run used them; the default of run) or 0")
      ->expected(0, 1)
      ->default_str("1")
      ->option_text("[WHEN]")
      ->group("Settings (each is a TESSERA_* variable)");
  app.add_flag("--verbose", verbose_, "one line per call on standard error")
      ->group("Settings (each is a TESSERA_* variable)");
  app.add_option("--summary", summary_,
                 "at exit, calls by routine, size and place; on standard error or appended to a file")
      ->expected(0, 1)
      ->default_str("1")
      ->option_text("[FILE]")
      ->group("Settings (each is a TESSERA_* variable)");
}

std::vector<std::pair<std::string, std::string>> SettingsOptions::values() const {
  std::vector<std::pair<std::string, std::string>> values;
  const auto add = [&values](const char* name, const std::string& value) {
    if (!value.empty()) values.emplace_back(name, value);
  };
  // The program may change its directory before it makes its first call.
  const auto add_file = [&add](const char* name, const std::string& value) {
    if (!value.empty()) add(name, std::filesystem::absolute(value).string());
  };
  add("TESSERA_DEVICES", devices_);
  add("TESSERA_TILE", tile_);
  add("TESSERA_DEVICE_MEMORY", memory_);
  add("TESSERA_DEVICE_MEMORY_MODE", memory_mode_);
  add("TESSERA_RESIDENT", resident_);
  add("TESSERA_RESIDENT_MEMORY", resident_memory_);
  add("TESSERA_COPY_THREADS", copy_threads_);
  add("TESSERA_KEEP_OLD_VALUES", keep_old_values_);
  add("TESSERA_CPU_WORKER", cpu_worker_);
  add("TESSERA_HOST_DEVICE", host_device_);
  add("TESSERA_OFFLOAD", offload_);
  add("TESSERA_SHARE", share_);
  add("TESSERA_CPU_BLAS", cpu_blas_);  // a bare library name is searched for, so it stays as it is
  add_file("TESSERA_CUDA_PLUGIN", cuda_plugin_);
  calibration_ == "off" ? add("TESSERA_CALIBRATION", calibration_) : add_file("TESSERA_CALIBRATION", calibration_);
  add("TESSERA_WARM_UP", warm_up_);
  if (verbose_) add("TESSERA_VERBOSE", "1");
  add_file("TESSERA_STATS", stats_);
  add_file("TESSERA_TRACE", trace_);
  // A switch or a file name.
  const bool is_switch = summary_ == "1" || summary_ == "0" || summary_ == "on" || summary_ == "off";
  is_switch ? add("TESSERA_SUMMARY", summary_) : add_file("TESSERA_SUMMARY", summary_);
  return values;
}

std::string SettingsOptions::text() const {
  const auto in_marks = [](const std::string& value) {
    std::string marked = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') marked += '\\';
      marked += c;
    }
    return marked + '"';
  };
  std::string text;
  for (const auto& [name, value] : values()) {
    const bool is_plain = !value.empty() && value.find_first_of(" \t\n\v\f\r\"\\") == std::string::npos;
    if (!text.empty()) text += ' ';
    text += name + '=' + (is_plain ? value : in_marks(value));
  }
  return text;
}

Config SettingsOptions::config() const { return Config::from_settings(text(), is_routine_name); }

}  // namespace tessera::tools
