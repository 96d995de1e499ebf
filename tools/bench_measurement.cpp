#include "bench_measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "entry_check.hpp"

namespace tessera::tools {
namespace {

/// After this pause the work that a contestant leaves to its threads and the driver has ended. So it does not slow down
/// the next one.
constexpr auto pause_between_contestants = std::chrono::milliseconds(20);

std::size_t bytes_of_c(const Level3& call) { return bytes_of(call, {call.m, call.n}, call.ldc); }

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Series::median_s() const {
  std::vector<double> seconds;
  for (const Outcome& run : runs) seconds.push_back(run.seconds);
  return median(seconds);
}

JobStatistics Series::middle_job() const {
  std::vector<const Outcome*> order;
  for (const Outcome& run : runs) order.push_back(&run);
  std::sort(order.begin(), order.end(), [](const Outcome* x, const Outcome* y) { return x->seconds < y->seconds; });
  return job_from_json(order[(order.size() - 1) / 2]->job);
}

Measurement::Measurement(const BenchOptions& options, const std::vector<Level3>& calls)
    : options_(options),
      machine_(options.settings.config(), types_of(calls), options.host == "pinned",
               options.in_core             ? "--in-core"
               : options.wants("cublasxt") ? "--peer cublasxt"
                                           : ""),
      contestants_(make_contestants(calls)),
      matrices_(make_matrices(calls)) {}

std::vector<std::unique_ptr<Contestant>> Measurement::make_contestants(const std::vector<Level3>& calls) {
  if (options_.in_core) {  // before Tessera takes most of the memory
    for (const ScalarType type : types_of(calls)) static_cast<void>(machine_.in_core_seconds(type, 1));
  }
  // Peers first: Tessera takes most of the GPUs' free memory.
  std::vector<std::unique_ptr<Contestant>> contestants;
  if (options_.wants("cublasxt")) {
    for (const int block_size : options_.cublasxt_blocks) {
      contestants.push_back(make_cublasxt_contestant(*machine_.cuda, machine_.ordinals, block_size, !pinned()));
    }
  }
  if (options_.wants("cpu")) contestants.push_back(make_cpu_contestant(options_.settings.config().cpu_blas));
  std::string settings = options_.settings.text();
  if (settings.find("TESSERA_OFFLOAD=") == std::string::npos) settings += " TESSERA_OFFLOAD=always";
  contestants.insert(contestants.begin(), make_tessera_contestant(settings));
  return contestants;
}

bool Measurement::pinned() const {
  return options_.host == "pinned" || (options_.host == "auto" && !machine_.ordinals.empty());
}

Measurement::Matrices Measurement::make_matrices(const std::vector<Level3>& calls) const {
  std::size_t a = 1, b = 1, c = 1;  // syrk has no B
  for (const Level3& call : calls) {
    a = std::max(a, bytes_of(call, shape_of_a(call), call.lda));
    b = std::max(b, bytes_of(call, kept_b(call), call.ldb));
    c = std::max(c, bytes_of_c(call));
  }
  const tessera_bench_cuda* locker = pinned() ? machine_.cuda : nullptr;
  return {HostMatrix(a, locker), HostMatrix(b, locker), HostMatrix(c, locker)};
}

// Fills the matrices for a call and puts them into it.
Level3 Measurement::prepare(Level3 call) {
  matrices_.A.fill_random(call.type, bytes_of(call, shape_of_a(call), call.lda), 1);
  matrices_.B.fill_random(call.type, bytes_of(call, kept_b(call), call.ldb), 2);
  matrices_.C.fill_random(call.type, bytes_of_c(call), 3);
  if (call.is_triangular()) matrices_.A.condition_triangle(call.type, shape_of_a(call).rows, call.lda);
  call.A = matrices_.A.data();
  call.B = matrices_.B.data();
  call.C = matrices_.C.data();
  return call;
}

Measured Measurement::measure(Level3 call, ProgressBar& progress) {
  call = prepare(call);
  std::optional<EntryCheck> check;
  if (options_.check) check.emplace(call, checked_entries);
  Level3 contested = call;
  if (call.is_triangular()) {  // in place, as in BLAS
    contested.B = call.C;
    contested.ldb = call.ldc;
  }
  Measured measured{std::vector<Series>(contestants_.size()), {}};
  std::vector<Series>& series = measured.series;
  const auto prepare_next = [&] {
    if (call.is_triangular()) matrices_.C.copy_from(matrices_.B, bytes_of_c(call));
    if (contestants_.size() > 1) std::this_thread::sleep_for(pause_between_contestants);
  };
  const auto time_kernels = [&](int repeat) {
    prepare_next();
    const double seconds = machine_.in_core_seconds(call.type, flops_of(call));
    if (repeat > 0) measured.in_core_s.push_back(seconds);
  };
  for (int repeat = 0; repeat <= options_.repeats; ++repeat) {  // repeat 0 is the warm-up
    // A GPU that has just waited for a slow contestant computes faster for a while. So the kernels alone run before
    // Tessera or after it in turns.
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

}  // namespace tessera::tools
