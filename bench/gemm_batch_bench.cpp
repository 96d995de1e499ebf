// Batches of small products in pageable host memory: OpenBLAS in a loop that threads on all processors share, and
// tessera_dgemm_batch on devices, on the CPU, and where its own choice has it. Sizes are drawn from [least, most], each
// of m, n and k by itself. See host_batch_bench.hpp.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/host_batch_bench.hpp"

namespace tessera::bench {
namespace {

struct Options : HostBatchOptions {
  double beta = 0;
  bool shares_a = false;

  void add_to(CLI::App& app) {
    HostBatchOptions::add_to(app, "--products");
    app.add_option("--beta", beta, "factor of C");
    app.add_flag("--shared-a", shares_a, "64 neighbours have one A");
  }
};

using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                       int);

/// As many groups as products, of one each. Matrices lie behind each other, A, B and C each in memory of their own.
class Batch : public HostBatch {
 public:
  Batch(const Options& options, const OpenBlas& openblas) : dgemm_(openblas.find<Dgemm>("cblas_dgemm")) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::int64_t> size(options.least, options.most);
    for (std::int64_t i = 0; i < options.problems; ++i) {
      const bool shares = options.shares_a && i % 64 != 0;  // 64 neighbours have one A
      m_.push_back(shares ? m_.back() : size(random));
      k_.push_back(shares ? k_.back() : size(random));
      n_.push_back(size(random));
      shares ? A_.share() : A_.add(static_cast<std::size_t>(m_.back() * k_.back()));
      B_.add(static_cast<std::size_t>(k_.back() * n_.back()));
      C_.add(static_cast<std::size_t>(m_.back() * n_.back()));
      flops += 2.0 * static_cast<double>(m_.back()) * static_cast<double>(n_.back()) * static_cast<double>(k_.back());
    }
    std::uniform_real_distribution<double> value(-1, 1);
    for (Stacked<double>* const matrices : {&A_, &B_, &C_}) {
      matrices->place();
      std::generate(matrices->all.begin(), matrices->all.end(), [&] { return value(random); });
    }
    const auto count = static_cast<std::size_t>(options.problems);
    none_.assign(count, TESSERA_NO_TRANS);
    ones_.assign(count, 1);
    alphas_.assign(count, 1.0);
    betas_.assign(count, options.beta);
    description = {{"bench", "gemm_batch"}, {"products", options.problems}, {"least", options.least},
                   {"most", options.most},  {"beta", options.beta},         {"shares_a", options.shares_a}};
    bytes = 8.0 * static_cast<double>(A_.size() + B_.size() + (options.beta == 0 ? 1 : 2) * C_.size());
    written = {&C_};
    largest_difference = 1e-15 * 8 * static_cast<double>(options.most + 4);
  }

  void run(std::size_t i) override {
    const int m = static_cast<int>(m_[i]), n = static_cast<int>(n_[i]), k = static_cast<int>(k_[i]);
    dgemm_(102, 111, 111, m, n, k, 1, A_.each[i], m, B_.each[i], k, betas_[i], C_.each[i], m);
  }
  void run(const Context& context) override {
    gemm_batch(context, TESSERA_COL_MAJOR, none_.data(), none_.data(), m_.data(), n_.data(), k_.data(), alphas_.data(),
               A_.each.data(), m_.data(), B_.each.data(), k_.data(), betas_.data(), C_.each.data(), m_.data(),
               static_cast<std::int64_t>(m_.size()), ones_.data());
  }

 private:
  Dgemm dgemm_;
  std::vector<std::int64_t> m_, n_, k_, ones_;
  Stacked<double> A_, B_, C_;
  std::vector<double> alphas_, betas_;
  std::vector<tessera_transpose> none_;
};

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Options>("gemm_batch_bench",
                              "Batches of dgemm from pageable host memory, beside OpenBLAS in a parallel loop", argc,
                              argv, run_contest<Batch, Options>);
}
