// What benchmarks of batches in pageable host memory have in common: their options, OpenBLAS in a loop that threads on
// all processors share, and the contestants, which are measured one after the other.
//
// Every contestant computes once before it is measured, so that devices are open and memory has been touched; what the
// choice did from its first call on is listed, since it has to learn. Results are compared with those of the loop. One
// line of JSON per contestant.
#pragma once

#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
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

#include "tessera/tessera.hpp"

namespace bench {

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
  void add_to(CLI::App& app, const std::string& count) {
    app.add_option(count, problems, "number of problems")->check(CLI::PositiveNumber);
    app.add_option("--least", least, "smallest size")->check(CLI::PositiveNumber);
    app.add_option("--most", most, "largest size")->check(CLI::Range(1, 4096));
    app.add_option("--repeats", repeats, "measured runs of each contestant")->check(CLI::PositiveNumber);
    app.add_option("--threads", threads, "of the loop over OpenBLAS")->check(CLI::PositiveNumber);
    app.add_option("--openblas", openblas, "file of OpenBLAS");
    app.add_option("--devices", devices, "TESSERA_DEVICES: cuda:0, auto, host:1, ...");
    app.add_option("--contestants", contestants, "openblas, devices, cpu, auto")
        ->check(CLI::IsMember({"openblas", "devices", "cpu", "auto"}));
  }
};

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// OpenBLAS by itself.
class OpenBlas {
 public:
  explicit OpenBlas(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    threads_ = find<int (*)()>("openblas_get_num_threads");
    set_threads_ = find<void (*)(int)>("openblas_set_num_threads");
  }

  /// @throws std::runtime_error if there is no such function
  template <class Function>
  Function find(const char* name) const {
    void* const address = dlsym(library_, name);
    if (address == nullptr) throw std::runtime_error(std::string(name) + " is missing: no OpenBLAS");
    return reinterpret_cast<Function>(address);
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
  void* library_;
  int (*threads_)();
  void (*set_threads_)(int);
};

inline double largest_difference(const std::vector<double>& one, const std::vector<double>& other) {
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double difference = std::abs(one[i] - other[i]);
    if (!(difference <= largest)) largest = difference;  // nor is NaN
  }
  return largest;
}

/// What is measured.
struct HostBatchWork {
  Json description;  ///< of the line
  double flops = 0;
  double bytes = 0;  ///< read and written
  std::function<void()> reset;
  std::function<void()> by_openblas;
  std::function<void(const tessera::Context&)> by_tessera;
  std::function<double()> difference;  ///< from what OpenBLAS has computed
  double largest_difference = 0;       ///< that is good
};

class HostBatchContest {
 public:
  HostBatchContest(const HostBatchOptions& options, HostBatchWork work) : options_(options), work_(std::move(work)) {}

  void measure(const std::string& name) const {
    Json line = work_.description;
    line["contestant"] = name;
    line["flops"] = work_.flops;
    line["bytes"] = work_.bytes;
    line["threads"] = options_.threads;
    if (name == "openblas") {
      times(line, work_.by_openblas, [] { return "cpu"; });
    } else {
      const std::string rule = name == "devices" ? "always" : name == "cpu" ? "never" : "auto";
      const tessera::Context context("TESSERA_DEVICES=" + options_.devices + " TESSERA_OFFLOAD=" + rule);
      if (name == "devices") context.warm_up();
      times(
          line, [&] { work_.by_tessera(context); },
          [&] { return context.last_job_stats().devices > 0 ? "devices" : "cpu"; });
      if (name == "devices") line["devices"] = context.devices();
    }
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }

 private:
  /// @param where the last run was
  void times(Json& line, const std::function<void()>& compute, const std::function<const char*()>& where) const {
    std::vector<double> seconds;
    std::vector<std::string> places;
    double difference = 0;
    for (int run = 0; run <= options_.repeats; ++run) {
      work_.reset();
      const double begin_s = now_s();
      compute();
      seconds.push_back(now_s() - begin_s);
      places.emplace_back(where());
      difference = std::max(difference, work_.difference());
    }
    std::vector<double> settled(seconds.begin() + 1, seconds.end());
    std::sort(settled.begin(), settled.end());
    const double median_s = settled[settled.size() / 2];
    line["first_s"] = seconds.front();
    line["best_s"] = settled.front();
    line["median_s"] = median_s;
    line["gflops"] = work_.flops / median_s * 1e-9;
    line["gbytes_per_s"] = work_.bytes / median_s * 1e-9;
    line["ran_on"] = places;
    line["largest_difference"] = difference;
    line["good"] = difference <= work_.largest_difference;
  }

  const HostBatchOptions& options_;
  HostBatchWork work_;
};

/// The whole of a program. @param prepare the work, once the options are known
template <class Prepare>
int run_contest(const char* program, const HostBatchOptions& options, const Prepare& prepare) {
  if (options.least > options.most) return std::fprintf(stderr, "--least exceeds --most\n"), 1;
  try {
    const HostBatchContest contest(options, prepare());
    for (const std::string& contestant : options.contestants) contest.measure(contestant);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
  return 0;
}

}  // namespace bench
