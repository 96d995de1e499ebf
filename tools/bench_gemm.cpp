// `tessera bench gemm`: Tessera and its peers on the same matrices, in the same run, in turns. How to read it: docs/bench.md.
//
// For every size, all contestants run once to warm up, then `repeats` times, one after the other within each repeat, so that
// what the machine does meanwhile touches all of them. Reported are medians.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "bench_bound.hpp"
#include "commands.hpp"
#include "contestants.hpp"
#include "core/error.hpp"
#include "cuda_module.hpp"
#include "entry_check.hpp"
#include "host_matrix.hpp"
#include "job_record.hpp"
#include "progress_bar.hpp"
#include "settings_options.hpp"
#include "tessera/tessera.h"
#include "text_table.hpp"

namespace tessera::tools {
namespace {

using json = nlohmann::ordered_json;

struct BenchOptions {
  SettingsOptions settings;
  std::string type = "d";
  std::vector<std::int64_t> n, m, k;
  std::string transa = "N", transb = "N";
  double alpha = 1.1, beta = 0.3;
  std::string host = "auto";
  int repeats = 5;
  std::vector<std::string> peers;
  std::string json_file;
  bool check = false;

  bool wants(const char* peer) const { return std::find(peers.begin(), peers.end(), peer) != peers.end(); }
};

struct Size {
  std::int64_t m = 0, n = 0, k = 0;
};

std::vector<Size> sizes_of(const BenchOptions& options) {
  const auto at = [&options](const std::vector<std::int64_t>& values, std::size_t index, const char* name) {
    if (values.empty()) return options.n[index];
    if (values.size() == 1) return values[0];
    if (values.size() != options.n.size()) {
      throw UsageError(fmt::format("{}: {} values for {} values of --n", name, values.size(), options.n.size()));
    }
    return values[index];
  };
  std::vector<Size> sizes;
  for (std::size_t index = 0; index < options.n.size(); ++index) {
    sizes.push_back({at(options.m, index, "--m"), options.n[index], at(options.k, index, "--k")});
  }
  return sizes;
}

ScalarType type_of(char type) {
  return type == 's' ? ScalarType::s : type == 'd' ? ScalarType::d : type == 'c' ? ScalarType::c : ScalarType::z;
}

/// alpha or beta as the type wants it.
struct TypedScalar {
  TypedScalar(char type, double value) {
    if (type == 's' || type == 'c') {
      single[0] = static_cast<float>(value);
    } else {
      twice[0] = value;
    }
    address = type == 's' || type == 'c' ? static_cast<const void*>(single) : static_cast<const void*>(twice);
  }
  TypedScalar(const TypedScalar&) = delete;
  TypedScalar& operator=(const TypedScalar&) = delete;
  float single[2] = {0, 0};
  double twice[2] = {0, 0};
  const void* address = nullptr;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// What one contestant did at one size.
struct Series {
  std::vector<Outcome> runs;
  double worst_error = 0;  ///< over its bound, of all runs

  double median_s() const {
    std::vector<double> seconds;
    for (const Outcome& run : runs) seconds.push_back(run.seconds);
    return median(seconds);
  }
  /// Statistics of the run in the middle.
  JobRecord middle_job() const {
    std::vector<const Outcome*> order;
    for (const Outcome& run : runs) order.push_back(&run);
    std::sort(order.begin(), order.end(), [](const Outcome* x, const Outcome* y) { return x->seconds < y->seconds; });
    return job_from_json(order[(order.size() - 1) / 2]->job);
  }
};

/// The devices that the settings lead to, and how fast they are.
struct Machine {
  const tessera_bench_cuda* cuda = nullptr;
  std::vector<int> ordinals;  ///< of the GPUs in use
  MachineRates rates;
  bool rates_known = false;
  json description;
};

Machine explore(const BenchOptions& options, const Config& config) {
  Machine machine;
  std::string why;
  if (config.devices == DeviceChoice::automatic || config.devices == DeviceChoice::cuda) {
    machine.cuda = cuda_module(why);
    if (machine.cuda == nullptr && config.devices == DeviceChoice::cuda) throw std::runtime_error("CUDA: " + why);
  } else if (options.host == "pinned") {
    machine.cuda = cuda_module(why);
  }
  if (machine.cuda != nullptr && config.devices != DeviceChoice::host && config.devices != DeviceChoice::none) {
    machine.ordinals = config.cuda_ordinals;
    if (machine.ordinals.empty()) {
      machine.ordinals.resize(static_cast<std::size_t>(machine.cuda->device_count()));
      std::iota(machine.ordinals.begin(), machine.ordinals.end(), 0);
    }
    tessera_bench_rates measured{};
    if (machine.cuda->measure_rates(machine.ordinals.data(), static_cast<int>(machine.ordinals.size()), options.type[0],
                                    &measured) != 0) {
      throw std::runtime_error(fmt::format("measuring the GPUs: {}", machine.cuda->last_error()));
    }
    const auto count = static_cast<double>(machine.ordinals.size());
    machine.rates = {count * measured.flops_per_s, measured.up_bytes_per_s, measured.down_bytes_per_s,
                     measured.both_bytes_per_s};
    machine.rates_known = true;
    machine.description = {{"source", "measured"}, {"cublas", machine.cuda->cublas_version()}};
  } else if (config.devices == DeviceChoice::host) {
    machine.rates_known = true;
    bool links_known = true;
    for (int device = 0; device < config.host_devices; ++device) {
      const HostDeviceSettings& settings = config.host_device_settings(device);
      machine.rates.flops_per_s += settings.flops_per_s;
      machine.rates.up_bytes_per_s += settings.link_bytes_per_s;
      if (settings.flops_per_s <= 0) machine.rates_known = false;
      if (settings.link_bytes_per_s <= 0) links_known = false;
    }
    if (!links_known) machine.rates.up_bytes_per_s = 0;  // one link without a limit: no limit to all
    machine.rates.down_bytes_per_s = machine.rates.up_bytes_per_s;
    machine.rates.both_bytes_per_s = 2 * machine.rates.up_bytes_per_s;
    machine.description = {{"source", "settings"}};
  }
  if (machine.rates_known) {
    machine.description["flops_per_s"] = machine.rates.flops_per_s;
    machine.description["up_bytes_per_s"] = machine.rates.up_bytes_per_s;
    machine.description["down_bytes_per_s"] = machine.rates.down_bytes_per_s;
    machine.description["both_bytes_per_s"] = machine.rates.both_bytes_per_s;
  }
  if (options.host == "pinned" && machine.cuda == nullptr) {
    throw std::runtime_error("page-locked memory needs CUDA: " + (why.empty() ? "no CUDA devices in use" : why));
  }
  if (options.wants("cublasxt") && machine.ordinals.empty()) {
    throw std::runtime_error("--peer cublasxt needs GPUs" + (why.empty() ? "" : ": " + why));
  }
  return machine;
}

/// A comparison is only one if both had the same GPUs.
void require_same_gpus(const json& job, const Machine& machine) {
  std::vector<std::string> used, expected;
  for (const DeviceRecord& device : job_from_json(job).devices) {
    if (device.device != "cpu") used.push_back(device.device);
  }
  for (const int ordinal : machine.ordinals) expected.push_back(fmt::format("cuda:{}", ordinal));
  std::sort(used.begin(), used.end());
  std::sort(expected.begin(), expected.end());
  if (used != expected) {
    throw std::runtime_error(fmt::format("Tessera used {} device(s) but cublasXt {}", used.size(), expected.size()));
  }
}

class GemmBench {
 public:
  explicit GemmBench(const BenchOptions& options)
      : options_(options),
        sizes_(sizes_of(options)),
        alpha_(options.type[0], options.alpha),
        beta_(options.type[0], options.beta),
        machine_(explore(options, options.settings.config())) {
    // Peers first: Tessera takes most of what memory the GPUs have left.
    if (options_.wants("cublasxt")) {
      for (const int block_size : {2048, 4096}) {
        contestants_.push_back(make_cublasxt_contestant(*machine_.cuda, machine_.ordinals, block_size, !pinned()));
      }
    }
    if (options_.wants("cpu")) contestants_.push_back(make_tessera_contestant("CPU BLAS", "TESSERA_DEVICES=none"));
    std::string settings = options_.settings.text();
    if (settings.find("TESSERA_OFFLOAD=") == std::string::npos) settings += " TESSERA_OFFLOAD=always";
    contestants_.insert(contestants_.begin(), make_tessera_contestant("Tessera", settings));
  }

  int run();

 private:
  bool pinned() const { return options_.host == "pinned" || (options_.host == "auto" && !machine_.ordinals.empty()); }
  tessera_bench_gemm_call call_for(const Size& size, const HostMatrix& A, const HostMatrix& B,
                                   const HostMatrix& C) const;
  std::vector<Series> measure(const tessera_bench_gemm_call& call, ProgressBar& progress);
  json report(const Size& size, const std::vector<Series>& series, TextTable& table) const;

  const BenchOptions& options_;
  std::vector<Size> sizes_;
  TypedScalar alpha_, beta_;
  Machine machine_;
  std::vector<std::unique_ptr<Contestant>> contestants_;  ///< Tessera first
};

tessera_bench_gemm_call GemmBench::call_for(const Size& size, const HostMatrix& A, const HostMatrix& B,
                                            const HostMatrix& C) const {
  tessera_bench_gemm_call call{};
  call.type = options_.type[0];
  call.transa = options_.transa[0];
  call.transb = options_.transb[0];
  call.m = size.m;
  call.n = size.n;
  call.k = size.k;
  call.alpha = alpha_.address;
  call.A = A.data();
  call.lda = call.transa == 'N' ? size.m : size.k;
  call.B = B.data();
  call.ldb = call.transb == 'N' ? size.k : size.n;
  call.beta = beta_.address;
  call.C = C.data();
  call.ldc = size.m;
  return call;
}

std::vector<Series> GemmBench::measure(const tessera_bench_gemm_call& call, ProgressBar& progress) {
  std::optional<EntryCheck> check;
  if (options_.check) check.emplace(call, 400);
  std::vector<Series> series(contestants_.size());
  for (int repeat = 0; repeat <= options_.repeats; ++repeat) {  // repeat 0 warms up
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      progress.begin(fmt::format("{}gemm {}x{}x{} {}", call.type, call.m, call.n, call.k, contestants_[c]->name()));
      if (check) check->remember(call);
      Outcome outcome = contestants_[c]->run(call);
      if (check) series[c].worst_error = std::max(series[c].worst_error, check->worst_error(call));
      if (c == 0 && repeat == 0 && options_.wants("cublasxt")) require_same_gpus(outcome.job, machine_);
      if (repeat > 0) series[c].runs.push_back(std::move(outcome));
      progress.advance();
    }
  }
  return series;
}

json GemmBench::report(const Size& size, const std::vector<Series>& series, TextTable& table) const {
  const bool complex = options_.type == "c" || options_.type == "z";
  const double flops =
      (complex ? 8.0 : 2.0) * static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  const auto describe = [&](const Series& one) {
    json entry;
    entry["median_s"] = one.median_s();
    entry["tflops"] = flops / one.median_s() * 1e-12;
    for (const Outcome& run : one.runs) entry["seconds"].push_back(run.seconds);
    if (options_.check) {
      entry["correct"] = one.worst_error <= 1;
      entry["worst_error_over_bound"] = std::isfinite(one.worst_error) ? json(one.worst_error) : json("not finite");
    }
    return entry;
  };

  const Series& own = series[0];
  const JobRecord job = own.middle_job();
  const DeviceRecord total = job.total();
  json result = {{"m", size.m}, {"n", size.n}, {"k", size.k}, {"flops", flops}, {"tessera", describe(own)}};
  for (const Outcome& run : own.runs) result["tessera"]["jobs"].push_back(run.job);
  std::vector<std::string> cells = {
      size.m == size.n && size.n == size.k ? fmt::to_string(size.n) : fmt::format("{}x{}x{}", size.m, size.n, size.k),
      three_digits(flops / own.median_s() * 1e-12)};

  double best_block_s = 0;
  for (std::size_t c = 1; c < contestants_.size(); ++c) {
    const std::string& name = contestants_[c]->name();
    const double seconds = series[c].median_s();
    if (name.starts_with("cublasXt ")) {
      const std::string block = name.substr(name.find(' ') + 1);
      result["cublasxt"]["block_sizes"][block] = describe(series[c]);
      if (best_block_s == 0 || seconds < best_block_s) {
        best_block_s = seconds;
        result["cublasxt"]["best_block_size"] = std::stoi(block);
      }
    } else {
      result["cpu"] = describe(series[c]);
    }
  }
  if (best_block_s > 0) {
    result["cublasxt"]["median_s"] = best_block_s;
    result["cublasxt"]["tflops"] = flops / best_block_s * 1e-12;
    result["cublasxt"]["ratio"] = best_block_s / own.median_s();
    cells.push_back(three_digits(flops / best_block_s * 1e-12));
    cells.push_back(ratio_text(best_block_s, own.median_s()));
  }
  if (result.contains("cpu")) {
    const double cpu_s = result["cpu"]["median_s"].get<double>();
    result["cpu"]["ratio"] = cpu_s / own.median_s();
    cells.push_back(three_digits(flops / cpu_s * 1e-12));
    cells.push_back(ratio_text(cpu_s, own.median_s()));
  }

  const auto up = static_cast<double>(job.compulsory_up), down = static_cast<double>(job.compulsory_down);
  const bool on_devices = !job.devices.empty();
  if (machine_.rates_known && on_devices) {
    const double bound_s = bound_seconds(machine_.rates, flops, up, down);
    result["bound_s"] = bound_s;
    result["fraction_of_bound"] = bound_s / own.median_s();
    cells.push_back(percent_text(bound_s, own.median_s()));
  } else {
    cells.push_back("-");
  }
  result["bytes"] = {{"up", total.bytes_up},
                     {"down", total.bytes_down},
                     {"peer", total.bytes_peer},
                     {"compulsory_up", job.compulsory_up},
                     {"compulsory_down", job.compulsory_down}};
  cells.push_back(ratio_text(static_cast<double>(total.bytes_up), up));
  cells.push_back(ratio_text(static_cast<double>(total.bytes_down), down));
  cells.push_back(ratio_text(static_cast<double>(total.bytes_peer), up));
  cells.push_back(on_devices ? fmt::to_string(job.tile_m) : "-");
  table.add_row(cells);
  return result;
}

int GemmBench::run() {
  std::int64_t elements_a = 0, elements_b = 0, elements_c = 0;
  for (const Size& size : sizes_) {
    elements_a = std::max(elements_a, size.m * size.k);
    elements_b = std::max(elements_b, size.k * size.n);
    elements_c = std::max(elements_c, size.m * size.n);
  }
  const ScalarType type = type_of(options_.type[0]);
  const std::size_t element = element_bytes(type);
  const tessera_bench_cuda* locker = pinned() ? machine_.cuda : nullptr;
  HostMatrix A(static_cast<std::size_t>(elements_a) * element, locker);
  HostMatrix B(static_cast<std::size_t>(elements_b) * element, locker);
  HostMatrix C(static_cast<std::size_t>(elements_c) * element, locker);
  A.fill_random(type, 1);
  B.fill_random(type, 2);
  C.fill_random(type, 3);

  std::vector<std::string> header = {"m=n=k", "Tessera TFLOP/s"};
  if (options_.wants("cublasxt")) header.insert(header.end(), {"cublasXt", "ratio"});
  if (options_.wants("cpu")) header.insert(header.end(), {"CPU BLAS", "ratio"});
  header.insert(header.end(), {"of bound", "up/compulsory", "down/compulsory", "peer/compulsory up", "tile"});
  TextTable table(header);

  json document;
  document["tessera_version"] = tessera_version();
  document["routine"] = options_.type + "gemm";
  document["transa"] = options_.transa;
  document["transb"] = options_.transb;
  document["alpha"] = options_.alpha;
  document["beta"] = options_.beta;
  document["host_memory"] = pinned() ? "pinned" : "pageable";
  document["repeats"] = options_.repeats;
  document["settings"] = options_.settings.text();
  document["rates"] = machine_.description;
  document["results"] = json::array();

  double worst_error = 0;
  std::string where;
  {
    ProgressBar progress(static_cast<int>(sizes_.size() * contestants_.size()) * (options_.repeats + 1));
    for (const Size& size : sizes_) {
      const std::vector<Series> series = measure(call_for(size, A, B, C), progress);
      document["results"].push_back(report(size, series, table));
      for (const Series& one : series) worst_error = std::max(worst_error, one.worst_error);
      where.clear();
      for (const DeviceRecord& device : series[0].middle_job().devices) where += ' ' + device.device;
    }
  }
  document["devices"] = where.empty() ? "" : where.substr(1);

  const bool json_to_stdout = options_.json_file == "-";
  std::FILE* out = json_to_stdout ? stderr : stdout;
  fmt::print(out, "{}gemm {}{}, {} host memory, median of {} run(s) after a warm-up, on{}\n", options_.type,
             options_.transa, options_.transb, pinned() ? "page-locked" : "pageable", options_.repeats,
             where.empty() ? " the CPU BLAS: no devices" : where);
  if (machine_.rates_known) {
    const auto gigabytes = [](double rate) { return rate > 0 ? three_digits(rate * 1e-9) : std::string("unlimited"); };
    fmt::print(out, "rates ({}): {} TFLOP/s in-core; host links in GB/s: up {}, down {}, both ways {}\n",
               machine_.description["source"].get<std::string>(), three_digits(machine_.rates.flops_per_s * 1e-12),
               gigabytes(machine_.rates.up_bytes_per_s), gigabytes(machine_.rates.down_bytes_per_s),
               gigabytes(machine_.rates.both_bytes_per_s));
  }
  fmt::print(out, "\n{}", table.text());
  if (options_.check) {
    fmt::print(out, "\ncheck: 400 entries after every run, worst error {} of its bound: {}\n",
               std::isfinite(worst_error) ? fmt::format("{:.2g}", worst_error) : std::string("not finite, out"),
               worst_error <= 1 ? "correct" : "WRONG");
  }
  if (json_to_stdout) {
    fmt::print("{}\n", document.dump(2));
  } else if (!options_.json_file.empty()) {
    std::ofstream file(options_.json_file);
    file << document.dump(2) << '\n';
    if (!file.flush()) throw std::runtime_error(options_.json_file + ": cannot be written");
  }
  return worst_error <= 1 ? 0 : 1;
}

}  // namespace

Command add_bench_gemm(CLI::App& bench) {
  CLI::App* gemm = bench.add_subcommand("gemm", "C = alpha op(A) op(B) + beta C");
  auto options = std::make_shared<BenchOptions>();
  gemm->add_option("--type", options->type, "s, d, c or z")->check(CLI::IsMember({"s", "d", "c", "z"}));
  gemm->add_option("--n", options->n, "sizes, separated by commas")
      ->delimiter(',')
      ->required()
      ->check(CLI::PositiveNumber)
      ->type_name("N,...");
  gemm->add_option("--m", options->m, "rows of C; as --n if not given")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->type_name("M,...");
  gemm->add_option("--k", options->k, "inner size; as --n if not given")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->type_name("K,...");
  gemm->add_option("--transa", options->transa, "N, T or C")->check(CLI::IsMember({"N", "T", "C"}));
  gemm->add_option("--transb", options->transb, "N, T or C")->check(CLI::IsMember({"N", "T", "C"}));
  gemm->add_option("--alpha", options->alpha, "factor of the product")->capture_default_str();
  gemm->add_option("--beta", options->beta, "factor of the old C")->capture_default_str();
  gemm->add_option("--host", options->host, "pinned (page-locked), pageable, or auto: pinned if GPUs are used")
      ->check(CLI::IsMember({"auto", "pinned", "pageable"}));
  gemm->add_option("--repeats", options->repeats, "timed runs of each contestant")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  gemm->add_option("--peer", options->peers, "cublasxt or cpu; may be repeated")
      ->delimiter(',')
      ->check(CLI::IsMember({"cublasxt", "cpu"}));
  gemm->add_option("--json", options->json_file, "write everything to this file; - for standard output")
      ->type_name("FILE");
  gemm->add_flag("--check", options->check, "compare entries of C with inner products in extended precision");
  options->settings.add_to(*gemm);
  return {gemm, [options] { return GemmBench(*options).run(); }};
}

}  // namespace tessera::tools
