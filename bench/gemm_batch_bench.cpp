// Batches of small products in pageable host memory: OpenBLAS in a loop that threads on all processors share, and
// tessera_dgemm_batch on devices, on the CPU, and where its own choice has it. Sizes are drawn from [least, most], each
// of m, n and k by itself.
//
// Every contestant computes once before it is measured, so that devices are open and memory has been touched; what the
// choice did from its first call on is listed, since it has to learn. Results are compared with those of the loop. One
// line of JSON per contestant.
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
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/tessera.hpp"

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::int64_t products = 100000;
  std::int64_t least = 1;
  std::int64_t most = 64;
  double beta = 0;
  bool shares_a = false;
  int repeats = 7;
  int threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  std::string openblas = "libopenblas.so.0";
  std::string devices = "auto";
  std::vector<std::string> contestants = {"openblas", "devices", "cpu", "auto"};
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// As many groups as products, of one each. Matrices lie behind each other, A, B and C each in memory of their own.
struct Batch {
  explicit Batch(const Options& options) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::int64_t> size(options.least, options.most);
    std::vector<std::size_t> a, b, c;
    std::size_t a_next = 0, b_next = 0, c_next = 0;
    for (std::int64_t i = 0; i < options.products; ++i) {
      const bool shares = options.shares_a && i % 64 != 0;  // 64 neighbours have one A
      m.push_back(shares ? m.back() : size(random));
      k.push_back(shares ? k.back() : size(random));
      n.push_back(size(random));
      a.push_back(shares ? a.back() : std::exchange(a_next, a_next + static_cast<std::size_t>(m.back() * k.back())));
      b.push_back(std::exchange(b_next, b_next + static_cast<std::size_t>(k.back() * n.back())));
      c.push_back(std::exchange(c_next, c_next + static_cast<std::size_t>(m.back() * n.back())));
      flops += 2.0 * static_cast<double>(m.back()) * static_cast<double>(n.back()) * static_cast<double>(k.back());
    }
    A.resize(a_next), B.resize(b_next), C.resize(c_next);
    std::uniform_real_distribution<double> value(-1, 1);
    for (std::vector<double>* const values : {&A, &B, &C})
      std::generate(values->begin(), values->end(), [&] { return value(random); });
    bytes = 8.0 * static_cast<double>(a_next + b_next + (options.beta == 0 ? 1 : 2) * c_next);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a_of.push_back(A.data() + a[i]);
      b_of.push_back(B.data() + b[i]);
      c_of.push_back(C.data() + c[i]);
    }
    const auto count = static_cast<std::size_t>(options.products);
    none.assign(count, TESSERA_NO_TRANS);
    ones.assign(count, 1);
    alphas.assign(count, 1.0);
    betas.assign(count, options.beta);
  }

  std::vector<std::int64_t> m, n, k, ones;
  std::vector<double> A, B, C, alphas, betas;
  std::vector<const double*> a_of, b_of;
  std::vector<double*> c_of;
  std::vector<tessera_transpose> none;
  double flops = 0;
  double bytes = 0;  ///< read and written
};

/// OpenBLAS by itself.
class OpenBlas {
 public:
  explicit OpenBlas(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    multiply_ = find<Dgemm>("cblas_dgemm");
    threads_ = find<int (*)()>("openblas_get_num_threads");
    set_threads_ = find<void (*)(int)>("openblas_set_num_threads");
  }

  /// Products are drawn by threads, each of which computes them alone.
  void run(const Batch& batch, double beta, int threads) const {
    const int before = threads_();
    set_threads_(1);
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      constexpr std::size_t at_once = 32;
      for (;;) {
        const std::size_t first = next.fetch_add(at_once);
        if (first >= batch.m.size()) return;
        for (std::size_t i = first; i < std::min(first + at_once, batch.m.size()); ++i) {
          const int m = static_cast<int>(batch.m[i]), n = static_cast<int>(batch.n[i]),
                    k = static_cast<int>(batch.k[i]);
          multiply_(102, 111, 111, m, n, k, 1, batch.a_of[i], m, batch.b_of[i], k, beta, batch.c_of[i], m);
        }
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
    set_threads_(before);
  }

 private:
  using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                         int);
  template <class Function>
  Function find(const char* name) const {
    void* const address = dlsym(library_, name);
    if (address == nullptr) throw std::runtime_error(std::string(name) + " is missing: no OpenBLAS");
    return reinterpret_cast<Function>(address);
  }

  void* library_;
  Dgemm multiply_;
  int (*threads_)();
  void (*set_threads_)(int);
};

void run(const tessera::Context& context, const Batch& batch) {
  tessera::gemm_batch(context, TESSERA_COL_MAJOR, batch.none.data(), batch.none.data(), batch.m.data(), batch.n.data(),
                      batch.k.data(), batch.alphas.data(), batch.a_of.data(), batch.m.data(), batch.b_of.data(),
                      batch.k.data(), batch.betas.data(), batch.c_of.data(), batch.m.data(),
                      static_cast<std::int64_t>(batch.m.size()), batch.ones.data());
}

double largest_difference(const std::vector<double>& one, const std::vector<double>& other) {
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) largest = std::max(largest, std::abs(one[i] - other[i]));
  return largest;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), batch_(options), begin_(batch_.C), openblas_(options.openblas) {
    openblas_.run(batch_, options.beta, options.threads);
    expected_ = batch_.C;
  }

  void measure(const std::string& name) {
    Json line = {{"bench", "gemm_batch"},         {"contestant", name},    {"products", options_.products},
                 {"least", options_.least},       {"most", options_.most}, {"beta", options_.beta},
                 {"shares_a", options_.shares_a}, {"flops", batch_.flops}, {"bytes", batch_.bytes},
                 {"threads", options_.threads}};
    if (name == "openblas") {
      times(
          line, [&] { openblas_.run(batch_, options_.beta, options_.threads); }, [] { return "cpu"; });
    } else {
      const std::string rule = name == "devices" ? "always" : name == "cpu" ? "never" : "auto";
      const tessera::Context context("TESSERA_DEVICES=" + options_.devices + " TESSERA_OFFLOAD=" + rule);
      if (name == "devices") tessera_warm_up(context.handle());
      times(
          line, [&] { run(context, batch_); },
          [&] { return context.last_job_stats().devices > 0 ? "devices" : "cpu"; });
      if (name == "devices") line["devices"] = context.devices();
    }
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }

 private:
  /// @param where the last run was
  void times(Json& line, const std::function<void()>& compute, const std::function<const char*()>& where) {
    std::vector<double> seconds;
    std::vector<std::string> places;
    double difference = 0;
    for (int run = 0; run <= options_.repeats; ++run) {
      batch_.C = begin_;
      const double begin_s = now_s();
      compute();
      seconds.push_back(now_s() - begin_s);
      places.emplace_back(where());
      difference = std::max(difference, largest_difference(batch_.C, expected_));
    }
    std::vector<double> settled(seconds.begin() + 1, seconds.end());
    std::sort(settled.begin(), settled.end());
    line["first_s"] = seconds.front();
    line["best_s"] = settled.front();
    line["median_s"] = settled[settled.size() / 2];
    line["gflops"] = batch_.flops / settled[settled.size() / 2] * 1e-9;
    line["gbytes_per_s"] = batch_.bytes / settled[settled.size() / 2] * 1e-9;
    line["ran_on"] = places;
    line["largest_difference"] = difference;
    line["good"] = difference <= 1e-15 * 8 * static_cast<double>(options_.most + 4);
  }

  const Options& options_;
  Batch batch_;
  std::vector<double> begin_;
  OpenBlas openblas_;
  std::vector<double> expected_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Batches of dgemm from pageable host memory, beside OpenBLAS in a parallel loop");
  app.add_option("--products", options.products, "number of products")->check(CLI::PositiveNumber);
  app.add_option("--least", options.least, "smallest size")->check(CLI::PositiveNumber);
  app.add_option("--most", options.most, "largest size")->check(CLI::Range(1, 4096));
  app.add_option("--beta", options.beta, "factor of C");
  app.add_flag("--shared-a", options.shares_a, "64 neighbours have one A");
  app.add_option("--repeats", options.repeats, "measured runs of each contestant")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "of the loop over OpenBLAS")->check(CLI::PositiveNumber);
  app.add_option("--openblas", options.openblas, "file of OpenBLAS");
  app.add_option("--devices", options.devices, "TESSERA_DEVICES: cuda:0, auto, host:1, ...");
  app.add_option("--contestants", options.contestants, "openblas, devices, cpu, auto")
      ->check(CLI::IsMember({"openblas", "devices", "cpu", "auto"}));
  CLI11_PARSE(app, argc, argv);
  if (options.least > options.most) return std::fprintf(stderr, "--least exceeds --most\n"), 1;
  try {
    Bench bench(options);
    for (const std::string& contestant : options.contestants) bench.measure(contestant);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm_batch_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
