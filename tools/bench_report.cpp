#include "bench_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tessera/tessera.h"

namespace tessera::tools {

using json = nlohmann::ordered_json;

namespace {

/// One result, as a JSON object and as cells of the table.
struct ResultDescription {
  ResultDescription(const BenchOptions& of, const Level3& the_call, const Measured& its, std::vector<std::string>& to)
      : options(of), call(the_call), measured(its), cells(to), job(own.middle_job()) {}

  void add_own() {
    for (const auto& [name, value] : dimensions(call)) result[name] = value;
    result["lda"] = call.lda;
    if (kept_b(call).rows > 0) result["ldb"] = call.ldb;
    result["ldc"] = call.ldc;
    result["flops"] = flops;
    result["tessera"] = describe_series(own);
    for (const Outcome& run : own.runs) result["tessera"]["jobs"].push_back(run.job);
    if (options.several) cells.push_back(name_of(call) + ' ' + variant(call));
    cells.push_back(size_text(call));
    cells.push_back(three_digits(flops / own_s * 1e-12));
  }

  /// The quickest block size of cublasXt counts.
  void add_contestants(const std::vector<std::unique_ptr<Contestant>>& contestants) {
    double best_block_s = 0;
    for (std::size_t c = 1; c < contestants.size(); ++c) {
      const std::string& name = contestants[c]->name();
      const Series& series = measured.series[c];
      if (!name.starts_with("cublasXt ")) {
        result["cpu"] = describe_series(series);
        continue;
      }
      const std::string block = name.substr(name.find(' ') + 1);
      result["cublasxt"]["block_sizes"][block] = describe_series(series);
      if (best_block_s > 0 && series.median_s() >= best_block_s) continue;
      best_block_s = series.median_s();
      result["cublasxt"]["best_block_size"] = std::stoi(block);
    }
    if (best_block_s > 0) {
      result["cublasxt"]["median_s"] = best_block_s;
      result["cublasxt"]["tflops"] = flops / best_block_s * 1e-12;
      add_ratio("cublasxt", best_block_s);
    }
    if (result.contains("cpu")) add_ratio("cpu", result["cpu"]["median_s"].get<double>());
  }

  void add_bounds(const BenchMachine::Rates& machine) {
    if (machine.known && !job.devices.empty()) {
      const double bound_s = runtime::bound_seconds({flops, up, down}, machine.flops_per_s, machine.links);
      result["bound_s"] = bound_s;
      result["fraction_of_bound"] = bound_s / own_s;
      cells.push_back(percent_text(bound_s, own_s));
    } else {
      cells.push_back("-");
    }
    if (!options.in_core) return;
    const double kernels_s = median(measured.in_core_s);
    const double bound_s = std::max(kernels_s, runtime::bound_seconds({0, up, down}, 0, machine.links));
    result["in_core"] = {{"median_s", kernels_s},
                         {"tflops", flops / kernels_s * 1e-12},
                         {"bound_s", bound_s},
                         {"fraction_of_bound", bound_s / own_s}};
    cells.push_back(three_digits(flops / kernels_s * 1e-12));
    cells.push_back(percent_text(bound_s, own_s));
  }

  void add_traffic() {
    const DeviceStatistics total = job.total();
    result["bytes"] = {{"up", total.bytes_up},
                       {"down", total.bytes_down},
                       {"peer", total.bytes_peer},
                       {"compulsory_up", job.compulsory_up},
                       {"compulsory_down", job.compulsory_down}};
    cells.push_back(ratio_text(static_cast<double>(total.bytes_up), up));
    cells.push_back(ratio_text(static_cast<double>(total.bytes_down), down));
    cells.push_back(ratio_text(static_cast<double>(total.bytes_peer), up));
    cells.push_back(job.devices.empty() ? "-" : fmt::to_string(job.tile_m));
  }

  json describe_series(const Series& one) const {
    json entry;
    entry["median_s"] = one.median_s();
    entry["tflops"] = flops / one.median_s() * 1e-12;
    for (const Outcome& run : one.runs) entry["seconds"].push_back(run.seconds);
    if (options.check) {
      entry["correct"] = one.worst_error <= 1;
      entry["worst_error_over_bound"] = std::isfinite(one.worst_error) ? json(one.worst_error) : json("not finite");
    }
    return entry;
  }
  void add_ratio(const char* contestant, double seconds) {
    result[contestant]["ratio"] = seconds / own_s;
    cells.push_back(three_digits(flops / seconds * 1e-12));
    cells.push_back(ratio_text(seconds, own_s));
  }

  const BenchOptions& options;
  const Level3& call;
  const Measured& measured;
  std::vector<std::string>& cells;
  const Series& own = measured.series[0];
  const JobStatistics job;
  const double flops = flops_of(call), own_s = own.median_s();
  const double up = static_cast<double>(job.compulsory_up), down = static_cast<double>(job.compulsory_down);
  json result;
};

}  // namespace

BenchReport::BenchReport(const BenchOptions& options, const std::vector<Level3>& cases, const Measurement& measurement)
    : options_(options),
      cases_(cases),
      measurement_(measurement),
      machine_(measurement.machine()),
      rows_(cases.size()) {
  for (const Level3& one : cases_) documents_.push_back(describe_case(one));
}

void BenchReport::add(std::size_t number, const Level3& call, const Measured& measured) {
  documents_[number]["results"].push_back(describe(call, measured, rows_[number].emplace_back()));
  for (const Series& each : measured.series) worst_error_ = std::max(worst_error_, each.worst_error);
  where_.clear();
  for (const DeviceStatistics& device : measured.series[0].middle_job().devices) {
    where_ += (where_.empty() ? "" : " ") + device.device;
  }
  documents_[number]["devices"] = where_;
  if (json_to_regular_file()) save();
}

bool BenchReport::finish() const {
  print(json_to_stdout() ? stderr : stdout);
  if (json_to_stdout()) {
    fmt::print("{}\n", document().dump(2));
  } else if (!options_.json_file.empty() && !json_to_regular_file()) {
    save();
  }
  return worst_error_ <= 1;
}

json BenchReport::describe_case(const Level3& one) const {
  json document;
  document["tessera_version"] = tessera_version();
  document["routine"] = name_of(one);
  const std::string letters = variant(one);
  std::size_t next = 0;
  const auto add_letter = [&](const char* name, bool has) {
    if (has) document[name] = std::string(1, letters[next++]);
  };
  add_letter("side", has_side(one));
  add_letter("uplo", has_uplo(one));
  add_letter("transa", has_op_a(one));
  add_letter("transb", has_op_b(one));
  add_letter("diag", has_diag(one));
  document["alpha"] = one.alpha.real();
  if (has_beta(one)) document["beta"] = one.beta.real();
  document["host_memory"] = measurement_.pinned() ? "pinned" : "pageable";
  document["repeats"] = options_.repeats;
  document["settings"] = options_.settings.text();
  document["rates"] = machine_.rates.at(one.type).description;
  document["results"] = json::array();
  return document;
}

json BenchReport::describe(const Level3& call, const Measured& measured, std::vector<std::string>& cells) const {
  ResultDescription described(options_, call, measured, cells);
  described.add_own();
  described.add_contestants(measurement_.contestants());
  described.add_bounds(machine_.rates.at(call.type));
  described.add_traffic();
  return described.result;
}

// The text to write: one case's document, or one document with all cases.
json BenchReport::document() const {
  if (!options_.several) return documents_[0];
  return {{"tessera_version", tessera_version()}, {"runs", documents_}};
}

// A pipe or terminal gets one document, at the end.
bool BenchReport::json_to_regular_file() const {
  if (options_.json_file.empty() || json_to_stdout()) return false;
  return !std::filesystem::exists(options_.json_file) || std::filesystem::is_regular_file(options_.json_file);
}

// A reader finds a complete document at any moment: a regular file is replaced by renaming.
void BenchReport::save() const {
  namespace fs = std::filesystem;
  const fs::path target =
      json_to_regular_file() ? fs::weakly_canonical(options_.json_file) : fs::path(options_.json_file);
  const fs::path written = json_to_regular_file() ? fs::path(target.string() + ".part") : target;
  std::ofstream file(written);
  file << document().dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error(options_.json_file + ": cannot be written");
  if (written != target) fs::rename(written, target);
}

TextTable BenchReport::table() const {
  std::vector<std::string> header;
  if (options_.several) header.emplace_back("routine");
  std::string size_names;
  for (const auto& [name, value] : dimensions(cases_[0])) size_names += (size_names.empty() ? "" : "=") + name;
  header.insert(header.end(), {options_.several ? "size" : size_names, "Tessera TFLOP/s"});
  if (options_.wants("cublasxt")) header.insert(header.end(), {"cublasXt", "ratio"});
  if (options_.wants("cpu")) header.insert(header.end(), {"CPU BLAS", "ratio"});
  header.emplace_back("of bound");
  if (options_.in_core) header.insert(header.end(), {"in-core", "of bound with it"});
  header.insert(header.end(), {"up/compulsory", "down/compulsory", "peer/compulsory up", "tile"});
  TextTable table(header);
  for (const auto& rows_of_case : rows_) {
    for (const std::vector<std::string>& row : rows_of_case) table.add_row(row);
  }
  return table;
}

void BenchReport::print(std::FILE* out) const {
  const std::string what =
      options_.several ? fmt::format("{} routine(s)", cases_.size()) : name_of(cases_[0]) + ' ' + variant(cases_[0]);
  fmt::print(out, "{}, {} host memory, median of {} run(s) after a warm-up, on {}\n", what,
             measurement_.pinned() ? "page-locked" : "pageable", options_.repeats,
             where_.empty() ? "the CPU BLAS: no devices" : where_);
  const auto gigabytes = [](double rate) { return rate > 0 ? three_digits(rate * 1e-9) : std::string("unlimited"); };
  for (const auto& [type, machine] : machine_.rates) {
    if (!machine.known) continue;
    fmt::print(out, "rates ({}){}: {} TFLOP/s in-core; host links in GB/s: up {}, down {}, both ways {}\n",
               machine.description["source"].get<std::string>(),
               machine_.rates.size() > 1 ? fmt::format(" of {}", letter(type)) : "",
               three_digits(machine.flops_per_s * 1e-12), gigabytes(machine.links.up), gigabytes(machine.links.down),
               gigabytes(machine.links.both));
  }
  fmt::print(out, "\n{}", table().text());
  if (options_.check) {
    fmt::print(out, "\ncheck: {} entries after every run, worst error {} of its bound: {}\n", checked_entries,
               std::isfinite(worst_error_) ? fmt::format("{:.2g}", worst_error_) : std::string("not finite, out"),
               worst_error_ <= 1 ? "correct" : "WRONG");
  }
}

}  // namespace tessera::tools
