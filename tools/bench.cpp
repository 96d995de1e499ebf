// `tessera bench ROUTINE`: Tessera and its peers on the same matrices, in the same run, in turns. How to read it: docs/bench.md.
//
// For every routine, type and size, all contestants run once to warm up, then `repeats` times, one after the other within each
// repeat, so that what the machine does meanwhile touches all of them. Reported are medians.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "api_call.hpp"
#include "bench_machine.hpp"
#include "commands.hpp"
#include "contestants.hpp"
#include "core/level3.hpp"
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

constexpr int checked_entries = 400;
/// What a contestant leaves to its threads and the driver is over by then, and does not count against the next one.
constexpr auto pause_between_contestants = std::chrono::milliseconds(20);

struct BenchOptions {
  SettingsOptions settings;
  std::vector<std::string> routines;
  std::vector<std::string> types = {"d"};
  bool several = false;  ///< `bench all`: routines and types are lists, and what does not exist is left out
  std::vector<std::int64_t> n, m, k;
  std::string side = "L", uplo = "L", transa = "N", transb = "N", diag = "N";
  double alpha = 1.1, beta = 0.3;
  std::string host = "auto";
  int repeats = 5;
  std::vector<std::string> peers;
  std::vector<int> cublasxt_blocks = {2048, 4096};
  std::string json_file;
  bool check = false;
  bool in_core = false;

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

constexpr std::array<Routine, routine_count> all_routines = {
    Routine::gemm,  Routine::symm,  Routine::hemm, Routine::syrk, Routine::herk,
    Routine::syr2k, Routine::her2k, Routine::trmm, Routine::trsm, Routine::gemmt};

Routine routine_of(const std::string& name) {
  return *std::find_if(all_routines.begin(), all_routines.end(), [&](Routine one) { return name == name_of(one); });
}

ScalarType type_of(char type) {
  return type == 's' ? ScalarType::s : type == 'd' ? ScalarType::d : type == 'c' ? ScalarType::c : ScalarType::z;
}

Op op_of(const std::string& letter) {
  return letter == "N" ? Op::no_trans : letter == "T" ? Op::trans : Op::conj_trans;
}

// Which parameters a routine has.
bool has_side(const Level3& call) { return !call.has_k(); }
bool has_uplo(const Level3& call) { return call.routine != Routine::gemm; }
bool has_op_a(const Level3& call) { return call.has_k() || call.is_triangular(); }
bool has_op_b(const Level3& call) { return call.has_op_b(); }
bool has_diag(const Level3& call) { return call.is_triangular(); }
bool has_beta(const Level3& call) { return !call.is_triangular(); }
bool has_m(const Level3& call) { return !call.updates_triangle(); }

Level3 routine_call(Routine routine, ScalarType type = ScalarType::d) {
  Level3 call;
  call.routine = routine;
  call.type = type;
  return call;
}

/// One routine in one type, with all but sizes and matrices.
/// @throws UsageError if BLAS has no such thing
Level3 case_of(Routine routine, ScalarType type, const BenchOptions& options) {
  Level3 call = routine_call(routine, type);
  if (!exists(routine, type)) throw UsageError(fmt::format("--type: {} exists for c and z only", name_of(routine)));
  if (has_side(call)) call.side = options.side == "L" ? Side::left : Side::right;
  if (has_uplo(call)) call.uplo = options.uplo == "L" ? Uplo::lower : Uplo::upper;
  if (has_op_a(call)) call.op_a = op_of(options.transa);
  if (has_op_b(call)) call.op_b = op_of(options.transb);
  if (has_diag(call)) call.diag = options.diag == "U" ? Diag::unit : Diag::non_unit;
  if (call.is_rank_update() && is_complex(type)) {
    const Op wrong = call.is_hermitian() ? Op::trans : Op::conj_trans;
    if (call.op_a == wrong)
      throw UsageError(fmt::format("--transa: {} does not have {}", name_of(call), options.transa));
  }
  // The value that the type can hold.
  const auto factor = [type](double value) {
    return AnyScalar(type == ScalarType::s || type == ScalarType::c ? static_cast<float>(value) : value);
  };
  call.alpha = factor(options.alpha);
  if (has_beta(call)) call.beta = factor(options.beta);
  return call;
}

std::vector<Level3> cases_of(const BenchOptions& options) {
  std::vector<Level3> cases;
  for (const std::string& type_letter : options.types) {
    const ScalarType type = type_of(type_letter[0]);
    for (const std::string& name : options.routines) {
      const Routine routine = routine_of(name);
      const bool has_peers = routine != Routine::gemmt || !options.wants("cublasxt");
      if (options.several && (!exists(routine, type) || !has_peers)) continue;
      if (!has_peers) throw UsageError("--peer: cublasXt has no gemmt");
      cases.push_back(case_of(routine, type, options));
    }
  }
  if (cases.empty()) throw UsageError("--type: none of these routines exists for it");
  return cases;
}

std::vector<ScalarType> types_of(const std::vector<Level3>& cases) {
  std::vector<ScalarType> types;
  for (const Level3& one : cases) {
    if (std::find(types.begin(), types.end(), one.type) == types.end()) types.push_back(one.type);
  }
  return types;
}

/// What the bench keeps as B: of trmm and trsm the operand as it was before the call.
StoredShape kept_b(const Level3& call) { return call.is_triangular() ? StoredShape{call.m, call.n} : shape_of_b(call); }

std::size_t bytes_of(const Level3& call, const StoredShape& shape) {
  return static_cast<std::size_t>(shape.rows * shape.cols) * element_bytes(call.type);
}

Level3 with_size(Level3 call, const Size& size) {
  call.m = has_m(call) ? size.m : size.n;
  call.n = size.n;
  call.k = call.has_k() ? size.k : 0;
  call.lda = shape_of_a(call).rows;
  call.ldb = std::max<index_t>(1, kept_b(call).rows);
  call.ldc = call.m;
  return call;
}

/// The parameters as letters, in the order of the BLAS arguments: "NT", "LLNU".
std::string variant(const Level3& call) {
  constexpr char ops[] = "NTC";
  std::string text;
  if (has_side(call)) text += call.side == Side::left ? 'L' : 'R';
  if (has_uplo(call)) text += call.uplo == Uplo::lower ? 'L' : 'U';
  if (has_op_a(call)) text += ops[static_cast<std::size_t>(call.op_a)];
  if (has_op_b(call)) text += ops[static_cast<std::size_t>(call.op_b)];
  if (has_diag(call)) text += call.diag == Diag::unit ? 'U' : 'N';
  return text;
}

/// Names and values of the sizes that the routine has.
std::vector<std::pair<std::string, index_t>> dimensions(const Level3& call) {
  std::vector<std::pair<std::string, index_t>> result;
  if (has_m(call)) result.emplace_back("m", call.m);
  result.emplace_back("n", call.n);
  if (call.has_k()) result.emplace_back("k", call.k);
  return result;
}

/// "4096" if all sizes are the same, else "4096x8192x100".
std::string size_text(const Level3& call) {
  std::string text;
  bool same = true;
  for (const auto& [name, value] : dimensions(call)) {
    text += (text.empty() ? "" : "x") + fmt::to_string(value);
    same = same && value == call.n;
  }
  return same ? fmt::to_string(call.n) : text;
}

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

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        sizes_(sizes_of(options)),
        cases_(cases_of(options)),
        machine_(options.settings.config(), types_of(cases_), options.host == "pinned",
                 options.in_core             ? "--in-core"
                 : options.wants("cublasxt") ? "--peer cublasxt"
                                             : "") {
    if (options_.in_core) {  // before Tessera takes most of the memory
      for (const ScalarType type : types_of(cases_)) static_cast<void>(machine_.in_core_seconds(type, 1));
    }
    // Peers first: Tessera takes most of what memory the GPUs have left.
    if (options_.wants("cublasxt")) {
      for (const int block_size : options_.cublasxt_blocks) {
        contestants_.push_back(make_cublasxt_contestant(*machine_.cuda, machine_.ordinals, block_size, !pinned()));
      }
    }
    if (options_.wants("cpu")) contestants_.push_back(make_cpu_contestant(options_.settings.config().cpu_blas));
    std::string settings = options_.settings.text();
    if (settings.find("TESSERA_OFFLOAD=") == std::string::npos) settings += " TESSERA_OFFLOAD=always";
    contestants_.insert(contestants_.begin(), make_tessera_contestant(settings));
  }

  int run();

 private:
  /// The matrices of all calls, large enough for each.
  struct Matrices {
    HostMatrix A, B, C;
  };

  bool pinned() const { return options_.host == "pinned" || (options_.host == "auto" && !machine_.ordinals.empty()); }
  Matrices make_matrices() const;
  Level3 prepare(Level3 call, Matrices& matrices) const;
  /// What all contestants did, and what the kernels alone took, in turns with them.
  struct Measured {
    std::vector<Series> series;  ///< Tessera first
    std::vector<double> in_core_s;
  };
  Measured measure(const Level3& call, Matrices& matrices, ProgressBar& progress);
  json describe_case(const Level3& one) const;
  json report(const Level3& call, const Measured& measured, std::vector<std::string>& cells) const;
  json document(const json& documents) const;
  bool json_to_stdout() const { return options_.json_file == "-"; }
  bool json_to_regular_file() const;
  void save(const json& document) const;
  void print(std::FILE* out, const std::string& where, const TextTable& table, double worst_error) const;

  const BenchOptions& options_;
  std::vector<Size> sizes_;
  std::vector<Level3> cases_;
  BenchMachine machine_;
  std::vector<std::unique_ptr<Contestant>> contestants_;  ///< Tessera first
};

Bench::Matrices Bench::make_matrices() const {
  std::size_t a = 1, b = 1, c = 1;  // syrk has no B
  for (const Level3& one : cases_) {
    for (const Size& size : sizes_) {
      const Level3 call = with_size(one, size);
      a = std::max(a, bytes_of(call, shape_of_a(call)));
      b = std::max(b, bytes_of(call, kept_b(call)));
      c = std::max(c, bytes_of(call, {call.m, call.n}));
    }
  }
  const tessera_bench_cuda* locker = pinned() ? machine_.cuda : nullptr;
  return {HostMatrix(a, locker), HostMatrix(b, locker), HostMatrix(c, locker)};
}

/// Fills the matrices for a call and puts them into it.
Level3 Bench::prepare(Level3 call, Matrices& matrices) const {
  matrices.A.fill_random(call.type, bytes_of(call, shape_of_a(call)), 1);
  matrices.B.fill_random(call.type, bytes_of(call, kept_b(call)), 2);
  matrices.C.fill_random(call.type, bytes_of(call, {call.m, call.n}), 3);
  if (call.is_triangular()) matrices.A.condition_triangle(call.type, shape_of_a(call).rows);
  call.A = matrices.A.data();
  call.B = matrices.B.data();
  call.C = matrices.C.data();
  return call;
}

Bench::Measured Bench::measure(const Level3& call, Matrices& matrices, ProgressBar& progress) {
  std::optional<EntryCheck> check;
  if (options_.check) check.emplace(call, checked_entries);
  Level3 contested = call;
  if (call.is_triangular()) {  // in place, as BLAS has them
    contested.B = call.C;
    contested.ldb = call.ldc;
  }
  Measured measured{std::vector<Series>(contestants_.size()), {}};
  std::vector<Series>& series = measured.series;
  const auto prepare_next = [&] {
    if (call.is_triangular()) matrices.C.copy_from(matrices.B, bytes_of(call, {call.m, call.n}));
    if (contestants_.size() > 1) std::this_thread::sleep_for(pause_between_contestants);
  };
  const auto time_kernels = [&](int repeat) {
    prepare_next();
    const double seconds = machine_.in_core_seconds(call.type, flops_of(call));
    if (repeat > 0) measured.in_core_s.push_back(seconds);
  };
  for (int repeat = 0; repeat <= options_.repeats; ++repeat) {  // repeat 0 warms up
    // A GPU that has just waited for a slow contestant computes faster for a while, so the kernels alone go before Tessera or after it by turns.
    const bool kernels_first = repeat % 2 == 1;
    if (options_.in_core && kernels_first) time_kernels(repeat);
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      progress.begin(fmt::format("{} {} {}", name_of(call), size_text(call), contestants_[c]->name()));
      prepare_next();
      if (check) check->remember();
      Outcome outcome = contestants_[c]->run(contested);
      if (check) series[c].worst_error = std::max(series[c].worst_error, check->worst_error());
      if (c == 0 && repeat == 0 && options_.wants("cublasxt")) machine_.require_same_gpus(outcome.job);
      if (repeat > 0) series[c].runs.push_back(std::move(outcome));
      progress.advance();
      if (options_.in_core && !kernels_first && c == 0) time_kernels(repeat);
    }
  }
  return measured;
}

json Bench::describe_case(const Level3& one) const {
  json document;
  document["tessera_version"] = tessera_version();
  document["routine"] = name_of(one);
  if (has_side(one)) document["side"] = options_.side;
  if (has_uplo(one)) document["uplo"] = options_.uplo;
  if (has_op_a(one)) document["transa"] = options_.transa;
  if (has_op_b(one)) document["transb"] = options_.transb;
  if (has_diag(one)) document["diag"] = options_.diag;
  document["alpha"] = options_.alpha;
  if (has_beta(one)) document["beta"] = options_.beta;
  document["host_memory"] = pinned() ? "pinned" : "pageable";
  document["repeats"] = options_.repeats;
  document["settings"] = options_.settings.text();
  document["rates"] = machine_.rates.at(one.type).description;
  document["results"] = json::array();
  return document;
}

json Bench::report(const Level3& call, const Measured& measured, std::vector<std::string>& cells) const {
  const std::vector<Series>& series = measured.series;
  const double flops = flops_of(call);
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
  json result;
  for (const auto& [name, value] : dimensions(call)) result[name] = value;
  result["flops"] = flops;
  result["tessera"] = describe(own);
  for (const Outcome& run : own.runs) result["tessera"]["jobs"].push_back(run.job);
  if (options_.several) cells.push_back(name_of(call) + ' ' + variant(call));
  cells.push_back(size_text(call));
  cells.push_back(three_digits(flops / own.median_s() * 1e-12));

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
  const BenchMachine::Rates& machine = machine_.rates.at(call.type);
  const bool on_devices = !job.devices.empty();
  if (machine.known && on_devices) {
    const double bound_s = runtime::bound_seconds({flops, up, down}, machine.flops_per_s, machine.links);
    result["bound_s"] = bound_s;
    result["fraction_of_bound"] = bound_s / own.median_s();
    cells.push_back(percent_text(bound_s, own.median_s()));
  } else {
    cells.push_back("-");
  }
  if (options_.in_core) {
    const double kernels_s = median(measured.in_core_s);
    const double bound_s = std::max(kernels_s, runtime::bound_seconds({0, up, down}, 0, machine.links));
    result["in_core"] = {{"median_s", kernels_s},
                         {"tflops", flops / kernels_s * 1e-12},
                         {"bound_s", bound_s},
                         {"fraction_of_bound", bound_s / own.median_s()}};
    cells.push_back(three_digits(flops / kernels_s * 1e-12));
    cells.push_back(percent_text(bound_s, own.median_s()));
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
  return result;
}

/// What is written of the documents of all cases.
json Bench::document(const json& documents) const {
  if (!options_.several) return documents[0];
  return {{"tessera_version", tessera_version()}, {"runs", documents}};
}

/// A pipe or terminal gets one document, at the end.
bool Bench::json_to_regular_file() const {
  if (options_.json_file.empty() || json_to_stdout()) return false;
  return !std::filesystem::exists(options_.json_file) || std::filesystem::is_regular_file(options_.json_file);
}

/// Whoever opens the file, at any moment, finds a whole document.
void Bench::save(const json& document) const {
  namespace fs = std::filesystem;
  const fs::path target =
      json_to_regular_file() ? fs::weakly_canonical(options_.json_file) : fs::path(options_.json_file);
  const fs::path written = json_to_regular_file() ? fs::path(target.string() + ".part") : target;
  std::ofstream file(written);
  file << document.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error(options_.json_file + ": cannot be written");
  if (written != target) fs::rename(written, target);
}

int Bench::run() {
  Matrices matrices = make_matrices();

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

  // Sizes first: a run that is cut off has measured all routines at some sizes, and the file has them. The table is by routine.
  json documents = json::array();
  for (const Level3& one : cases_) documents.push_back(describe_case(one));
  std::vector<std::vector<std::vector<std::string>>> rows(cases_.size());
  double worst_error = 0;
  std::string where;
  {
    ProgressBar progress(static_cast<int>(cases_.size() * sizes_.size() * contestants_.size()) *
                         (options_.repeats + 1));
    for (const Size& size : sizes_) {
      for (std::size_t c = 0; c < cases_.size(); ++c) {
        const Level3 call = prepare(with_size(cases_[c], size), matrices);
        const Measured measured = measure(call, matrices, progress);
        documents[c]["results"].push_back(report(call, measured, rows[c].emplace_back()));
        for (const Series& each : measured.series) worst_error = std::max(worst_error, each.worst_error);
        where.clear();
        for (const DeviceRecord& device : measured.series[0].middle_job().devices) {
          where += (where.empty() ? "" : " ") + device.device;
        }
        documents[c]["devices"] = where;
        if (json_to_regular_file()) save(document(documents));
      }
    }
  }
  for (const auto& rows_of_case : rows) {
    for (const std::vector<std::string>& row : rows_of_case) table.add_row(row);
  }

  print(json_to_stdout() ? stderr : stdout, where, table, worst_error);
  if (json_to_stdout()) {
    fmt::print("{}\n", document(documents).dump(2));
  } else if (!options_.json_file.empty() && !json_to_regular_file()) {
    save(document(documents));
  }
  return worst_error <= 1 ? 0 : 1;
}

void Bench::print(std::FILE* out, const std::string& where, const TextTable& table, double worst_error) const {
  const std::string what =
      options_.several ? fmt::format("{} routine(s)", cases_.size()) : name_of(cases_[0]) + ' ' + variant(cases_[0]);
  fmt::print(out, "{}, {} host memory, median of {} run(s) after a warm-up, on {}\n", what,
             pinned() ? "page-locked" : "pageable", options_.repeats,
             where.empty() ? "the CPU BLAS: no devices" : where);
  const auto gigabytes = [](double rate) { return rate > 0 ? three_digits(rate * 1e-9) : std::string("unlimited"); };
  for (const auto& [type, machine] : machine_.rates) {
    if (!machine.known) continue;
    fmt::print(out, "rates ({}){}: {} TFLOP/s in-core; host links in GB/s: up {}, down {}, both ways {}\n",
               machine.description["source"].get<std::string>(),
               machine_.rates.size() > 1 ? fmt::format(" of {}", letter(type)) : "",
               three_digits(machine.flops_per_s * 1e-12), gigabytes(machine.links.up), gigabytes(machine.links.down),
               gigabytes(machine.links.both));
  }
  fmt::print(out, "\n{}", table.text());
  if (options_.check) {
    fmt::print(out, "\ncheck: {} entries after every run, worst error {} of its bound: {}\n", checked_entries,
               std::isfinite(worst_error) ? fmt::format("{:.2g}", worst_error) : std::string("not finite, out"),
               worst_error <= 1 ? "correct" : "WRONG");
  }
}

constexpr const char* formula_of(Routine routine) {
  switch (routine) {
    case Routine::gemm:
      return "C = alpha op(A) op(B) + beta C";
    case Routine::symm:
      return "C = alpha A B + beta C or alpha B A + beta C, A symmetric";
    case Routine::hemm:
      return "C = alpha A B + beta C or alpha B A + beta C, A Hermitian";
    case Routine::syrk:
      return "C = alpha op(A) op(A)^T + beta C, C symmetric";
    case Routine::herk:
      return "C = alpha op(A) op(A)^H + beta C, C Hermitian";
    case Routine::syr2k:
      return "C = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, C symmetric";
    case Routine::her2k:
      return "C = alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C, C Hermitian";
    case Routine::gemmt:
      return "C = alpha op(A) op(B) + beta C, a triangle of C";
    case Routine::trmm:
      return "B = alpha op(A) B or alpha B op(A), A triangular";
    case Routine::trsm:
      break;
  }
  return "solve op(A) X = alpha B or X op(A) = alpha B, A triangular";
}

void add_letter(CLI::App& app, const char* name, std::string& value, const std::vector<std::string>& letters,
                const char* help) {
  app.add_option(name, value, help)->check(CLI::IsMember(letters))->capture_default_str();
}

Command add_subcommand(CLI::App& bench, const char* name, const char* help, const std::vector<Routine>& routines) {
  CLI::App* app = bench.add_subcommand(name, help);
  auto options = std::make_shared<BenchOptions>();
  options->several = routines.size() > 1;
  for (const Routine routine : routines) options->routines.emplace_back(name_of(routine));
  const auto any = [&routines](bool (*has)(const Level3&)) {
    return std::any_of(routines.begin(), routines.end(), [has](Routine routine) { return has(routine_call(routine)); });
  };

  CLI::Option* type =
      app->add_option("--type", options->types, "s, d, c or z")->check(CLI::IsMember({"s", "d", "c", "z"}));
  if (options->several) {
    type->delimiter(',')->type_name("TYPE,...");
    app->add_option("--routines", options->routines, "which; without it all that exist for the type")
        ->delimiter(',')
        ->check(CLI::IsMember(options->routines))
        ->type_name("NAME,...");
  } else {
    type->expected(1);
  }
  const auto add_sizes = [app](const char* option, std::vector<std::int64_t>& values, const char* text,
                               const char* metavar) {
    return app->add_option(option, values, text)->delimiter(',')->check(CLI::PositiveNumber)->type_name(metavar);
  };
  add_sizes("--n", options->n, "sizes, separated by commas", "N,...")->required();
  if (any(has_m)) add_sizes("--m", options->m, "rows of C; as --n if not given", "M,...");
  if (any([](const Level3& call) { return call.has_k(); })) {
    add_sizes("--k", options->k, "inner size; as --n if not given", "K,...");
  }
  if (any(has_side)) add_letter(*app, "--side", options->side, {"L", "R"}, "side of A: L or R");
  if (any(has_uplo)) add_letter(*app, "--uplo", options->uplo, {"L", "U"}, "stored triangle: L or U");
  if (any(has_op_a)) add_letter(*app, "--transa", options->transa, {"N", "T", "C"}, "N, T or C");
  if (any(has_op_b)) add_letter(*app, "--transb", options->transb, {"N", "T", "C"}, "N, T or C");
  if (any(has_diag)) add_letter(*app, "--diag", options->diag, {"N", "U"}, "diagonal of A: N (as stored) or U (ones)");
  app->add_option("--alpha", options->alpha, "factor of the product")->capture_default_str();
  if (any(has_beta)) app->add_option("--beta", options->beta, "factor of the old C")->capture_default_str();
  app->add_option("--host", options->host, "pinned (page-locked), pageable, or auto: pinned if GPUs are used")
      ->check(CLI::IsMember({"auto", "pinned", "pageable"}));
  app->add_option("--repeats", options->repeats, "timed runs of each contestant")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--peer", options->peers, "cublasxt or cpu; may be repeated")
      ->delimiter(',')
      ->check(CLI::IsMember({"cublasxt", "cpu"}));
  app->add_option("--cublasxt-blocks", options->cublasxt_blocks, "block sizes of cublasXt; the best is in the table")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("B,...");
  app->add_option("--json", options->json_file,
                  "write everything to this file, as far as it is measured; - for standard output, at the end")
      ->type_name("FILE");
  app->add_flag("--in-core", options->in_core,
                "also what cuBLAS takes for as many operations in GPU memory, in turns, and the bound with it");
  app->add_flag("--check", options->check, "compare entries of the result with inner products in extended precision");
  options->settings.add_to(*app);
  return {app, [options] { return Bench(*options).run(); }};
}

}  // namespace

std::vector<Command> add_bench(CLI::App& bench) {
  std::vector<Command> commands;
  for (const Routine routine : all_routines) {
    commands.push_back(add_subcommand(bench, name_of(routine), formula_of(routine), {routine}));
  }
  commands.push_back(
      add_subcommand(bench, "all", "all routines, or some, in one table", {all_routines.begin(), all_routines.end()}));
  return commands;
}

}  // namespace tessera::tools
