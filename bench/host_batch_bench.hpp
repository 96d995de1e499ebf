// The common part of benchmarks of batches in pageable host memory: options, a loop of OpenBLAS calls, and the
// contestants. Threads on all processors share the loop. Contestants are measured one after the other.
//
// Every contestant computes once before it is measured, so that devices are open and memory has been touched. The
// report lists where each run of the automatic choice computed, from the first one on, since it has to learn. Results
// are compared with those of the loop. One line of JSON per contestant.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/frame/opened_library.hpp"
#include "bench/frame/options.hpp"
#include "bench/frame/timing.hpp"
#include "tessera/tessera.hpp"

namespace tessera::bench {

using Json = nlohmann::ordered_json;

struct HostBatchOptions {
  std::int64_t problems = 100000;
  std::int64_t least = 1;
  std::int64_t most = 64;
  int repeats = 7;
  int threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  std::string openblas = "libopenblas.so.0";
  std::string devices = "auto";
  std::vector<std::string> contestants = {"openblas", "devices", "cpu", "auto"};

  /// @param count "--products"
  void add_to(CLI::App& app, const char* count) {
    add_number(app, count, problems, "number of problems");
    add_number(app, "--least", least, "smallest size");
    app.add_option("--most", most, "largest size")->check(CLI::Range(1, 4096))->capture_default_str();
    add_number(app, "--repeats", repeats, "measured runs of each contestant");
    add_number(app, "--threads", threads, "of the loop over OpenBLAS");
    app.add_option("--openblas", openblas, "file of OpenBLAS")->capture_default_str();
    app.add_option("--devices", devices, "TESSERA_DEVICES: cuda:0, auto, host:1, ...")->capture_default_str();
    app.add_option("--contestants", contestants)
        ->check(CLI::IsMember({"openblas", "devices", "cpu", "auto"}))
        ->capture_default_str();
  }
};

/// OpenBLAS by itself.
class OpenBlas {
 public:
  explicit OpenBlas(const std::string& path) : library_(path) {}

  /// @throws std::runtime_error if there is no such function
  template <class Function>
  Function find(const char* name) const {
    return library_.get<Function>(name);
  }

  /// compute(i) for i < count, drawn by threads, each of which computes alone.
  template <class Compute>
  void share_out(std::size_t count, int threads, const Compute& compute) const {
    const int before = threads_();
    set_threads_(1);
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      constexpr std::size_t at_once = 32;
      for (;;) {
        const std::size_t first = next.fetch_add(at_once);
        if (first >= count) return;
        for (std::size_t i = first; i < std::min(first + at_once, count); ++i) compute(i);
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
    set_threads_(before);
  }

 private:
  OpenedLibrary library_;
  int (*threads_)() = find<int (*)()>("openblas_get_num_threads");
  void (*set_threads_)(int) = find<void (*)(int)>("openblas_set_num_threads");
};

/// Matrices of all problems, one behind the other, and where each of them begins.
template <class Element>
class Stacked {
 public:
  /// The next problem's matrix.
  void add(std::size_t elements) { offsets_.push_back(std::exchange(next_, next_ + elements)); }
  /// The next problem has the matrix of the one before.
  void share() { offsets_.push_back(offsets_.back()); }
  /// Gives them memory, once all are there.
  void place() {
    all.resize(next_);
    for (const std::size_t offset : offsets_) each.push_back(all.data() + offset);
  }
  std::size_t size() const { return next_; }

  void keep() { before_ = all; }
  void reset() { all = before_; }
  void expect() { expected_ = all; }
  double difference() const {
    double largest = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double of_one = std::abs(all[i] - expected_[i]);
      if (!(of_one <= largest)) largest = of_one;  // nor is NaN
    }
    return largest;
  }

  std::vector<Element> all;
  std::vector<Element*> each;

 private:
  std::vector<Element> before_, expected_;
  std::vector<std::size_t> offsets_;
  std::size_t next_ = 0;
};

/// The batch that a program measures.
struct HostBatch {
  virtual ~HostBatch() = default;
  /// A problem's operands as they have to be before a run.
  virtual void prepare(std::size_t /*i*/) {}
  /// A problem by OpenBLAS.
  virtual void run(std::size_t i) = 0;
  virtual void run(const Context& context) = 0;

  Json description;  ///< of the line
  double flops = 0;
  double bytes = 0;                       ///< read and written
  std::vector<Stacked<double>*> written;  ///< by a run
  double largest_difference = 0;          ///< that is good
};

class HostBatchContest {
 public:
  HostBatchContest(const HostBatchOptions& options, const OpenBlas& openblas, HostBatch& batch)
      : options_(options), openblas_(openblas), batch_(batch) {
    openblas_.share_out(count(), options_.threads, [&](std::size_t i) { batch_.prepare(i); });
    for (auto* const operand : batch_.written) operand->keep();
    run_by_openblas();
    for (auto* const operand : batch_.written) operand->expect();
  }

  void measure(const std::string& name) const {
    Json line = batch_.description;
    line["contestant"] = name;
    line["flops"] = batch_.flops;
    line["bytes"] = batch_.bytes;
    line["threads"] = options_.threads;
    if (name == "openblas") {
      times(
          line, [&] { run_by_openblas(); }, [] { return "cpu"; });
    } else {
      const std::string rule = name == "devices" ? "always" : name == "cpu" ? "never" : "auto";
      const Context context("TESSERA_DEVICES=" + options_.devices + " TESSERA_OFFLOAD=" + rule);
      if (name == "devices") context.warm_up();
      times(
          line, [&] { batch_.run(context); }, [&] { return context.last_job_stats().devices > 0 ? "devices" : "cpu"; });
      if (name == "devices") line["devices"] = context.devices();
    }
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(options_.problems); }
  void run_by_openblas() const {
    openblas_.share_out(count(), options_.threads, [&](std::size_t i) { batch_.run(i); });
  }

  /// @param where the last run was
  void times(Json& line, const std::function<void()>& compute, const std::function<const char*()>& where) const {
    std::vector<double> seconds;
    std::vector<std::string> places;
    double difference = 0;
    for (int run = 0; run <= options_.repeats; ++run) {
      for (auto* const operand : batch_.written) operand->reset();
      seconds.push_back(seconds_of(compute));
      places.emplace_back(where());
      for (const auto* const operand : batch_.written) difference = std::max(difference, operand->difference());
    }
    const std::vector<double> settled(seconds.begin() + 1, seconds.end());
    const double median_s = median(settled);
    line["first_s"] = seconds.front();
    line["best_s"] = *std::min_element(settled.begin(), settled.end());
    line["median_s"] = median_s;
    line["gflops"] = batch_.flops / median_s * 1e-9;
    line["gbytes_per_s"] = batch_.bytes / median_s * 1e-9;
    line["ran_on"] = places;
    line["largest_difference"] = difference;
    line["good"] = difference <= batch_.largest_difference;
  }

  const HostBatchOptions& options_;
  const OpenBlas& openblas_;
  HostBatch& batch_;
};

/// Measures all contestants. @tparam Batch a HostBatch, made of the options and OpenBLAS
template <class Batch, class Options>
bool run_contest(const Options& options) {
  if (options.least > options.most) throw std::invalid_argument("--least exceeds --most");
  const OpenBlas openblas(options.openblas);
  Batch batch(options, openblas);
  const HostBatchContest contest(options, openblas, batch);
  for (const std::string& contestant : options.contestants) contest.measure(contestant);
  return true;
}

}  // namespace tessera::bench
