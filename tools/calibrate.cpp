// `tessera calibrate`: measures the devices that the settings select, and stores their rates for the offload decision.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "commands.hpp"
#include "locations.hpp"
#include "offload/context.hpp"
#include "settings_options.hpp"
#include "text_table.hpp"

namespace tessera::tools {
namespace {

int calibrate(const SettingsOptions& settings) {
  Config config = settings.config();
  // The library looks for the plugin beside itself; this program lies elsewhere.
  if (config.plugin_file.empty()) {
    if (const auto found = find_library(plugin_name)) config.plugin_file = found->string();
  }
  offload::Context context(config);
  const auto [file, rates] = context.calibrate();

  TextTable table({"all together", "TFLOP/s"});
  for (const ScalarType type : scalar_types)
    table.add_row({fmt::format("{} gemm", letter(type)), three_digits(rates.flops_per_s[type] * 1e-12)});
  TextTable links({"host links, GB/s", "up", "down", "both ways"});
  const auto add = [&links](const char* name, const runtime::LinkRates& one) {
    links.add_row({name, three_digits(one.up * 1e-9), three_digits(one.down * 1e-9), three_digits(one.both * 1e-9)});
  };
  if (rates.page_locked.up > 0) add("page-locked memory", rates.page_locked);
  add("pageable memory", rates.pageable);
  fmt::print("{}\n{}\n{}", context.describe_devices(), table.text(), links.text());
  if (rates.peer_bytes_per_s > 0)
    fmt::print("\nfrom a peer: {} GB/s into each device\n", three_digits(rates.peer_bytes_per_s * 1e-9));
  fmt::print("\nkept in {}\n", file);
  return 0;
}

}  // namespace

Command add_calibrate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("calibrate", "measure the devices and keep their rates");
  auto settings = std::make_shared<SettingsOptions>();
  settings->add_to(*command);
  return {command, [settings] { return calibrate(*settings); }};
}

}  // namespace tessera::tools
