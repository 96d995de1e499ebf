// `tessera stats FILE`: the contents of a TESSERA_STATS file as tables.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "text_table.hpp"
#include "told_job.hpp"

namespace tessera::tools {
namespace {

struct StatsOptions {
  std::string file;
  std::size_t last = 0;
};

std::vector<JobStatistics> read_jobs(const std::string& file) {
  std::ifstream input(file);
  if (!input) throw std::runtime_error(file + ": cannot be read");
  std::vector<JobStatistics> jobs;
  std::string line;
  for (int number = 1; std::getline(input, line); ++number) {
    if (line.empty()) continue;
    try {
      jobs.push_back(job_from_json(nlohmann::ordered_json::parse(line)));
    } catch (const nlohmann::json::exception& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  return jobs;
}

int show_stats(const StatsOptions& options) {
  std::vector<JobStatistics> jobs = read_jobs(options.file);
  if (options.last > 0 && jobs.size() > options.last) {
    jobs.erase(jobs.begin(), jobs.end() - static_cast<std::ptrdiff_t>(options.last));
  }
  if (jobs.empty()) {
    fmt::print("{}: no calls recorded\n", options.file);
    return 0;
  }
  TextTable table({"call", "m", "n", "k", "tile", "ran on", "seconds", "GFLOP/s", "up/compulsory", "down/compulsory"});
  std::map<std::string, DeviceStatistics> by_device;
  for (const JobStatistics& job : jobs) {
    const DeviceStatistics total = job.total();
    std::string where = job.devices.empty() ? "CPU BLAS" : "";
    for (const DeviceStatistics& device : job.devices) {
      where += (where.empty() ? "" : " ") + device.device;
      DeviceStatistics& sum = by_device[device.device];
      sum.device = device.device;
      sum.add(device);
    }
    const std::string tile = job.tile_m == job.tile_n && job.tile_n == job.tile_k
                                 ? fmt::to_string(job.tile_m)
                                 : fmt::format("{}x{}x{}", job.tile_m, job.tile_n, job.tile_k);
    table.add_row({job.routine, fmt::to_string(job.m), fmt::to_string(job.n), fmt::to_string(job.k),
                   job.devices.empty() ? "-" : tile, where, three_digits(job.seconds),
                   job.seconds > 0 ? three_digits(job.flops / job.seconds * 1e-9) : "-",
                   ratio_text(static_cast<double>(total.bytes_up), static_cast<double>(job.compulsory_up)),
                   ratio_text(static_cast<double>(total.bytes_down), static_cast<double>(job.compulsory_down))});
  }
  fmt::print("{}", table.text());
  if (!by_device.empty()) {
    std::vector<DeviceStatistics> devices;
    devices.reserve(by_device.size());
    for (const auto& [name, device] : by_device) devices.push_back(device);
    fmt::print("\nInput tiles were found on the device itself, on a peer, or in host memory:\n{}",
               device_table(devices));
  }
  return 0;
}

}  // namespace

Command add_stats(CLI::App& app) {
  CLI::App* stats = app.add_subcommand("stats", "show a statistics file (TESSERA_STATS) as tables");
  auto options = std::make_shared<StatsOptions>();
  stats->add_option("file", options->file, "file with one JSON object per line")->required()->type_name("FILE");
  stats->add_option("--last", options->last, "only the last N calls")->type_name("N");
  return {stats, [options] { return show_stats(*options); }};
}

}  // namespace tessera::tools
