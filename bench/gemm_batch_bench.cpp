// Batches of small products in pageable host memory: OpenBLAS in a loop that threads on all processors share, and
// tessera_dgemm_batch on devices, on the CPU, and where its own choice has it. Sizes are drawn from [least, most], each
// of m, n and k by itself. See host_batch_bench.hpp.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host_batch_bench.hpp"

namespace {

struct Options : bench::HostBatchOptions {
  double beta = 0;
  bool shares_a = false;
};

/// As many groups as products, of one each. Matrices lie behind each other, A, B and C each in memory of their own.
struct Batch {
  explicit Batch(const Options& options) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::int64_t> size(options.least, options.most);
    std::vector<std::size_t> a, b, c;
    std::size_t a_next = 0, b_next = 0, c_next = 0;
    for (std::int64_t i = 0; i < options.problems; ++i) {
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
    const auto count = static_cast<std::size_t>(options.problems);
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

using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                       int);

void multiply(Dgemm dgemm, const Batch& batch, double beta, std::size_t i) {
  const int m = static_cast<int>(batch.m[i]), n = static_cast<int>(batch.n[i]), k = static_cast<int>(batch.k[i]);
  dgemm(102, 111, 111, m, n, k, 1, batch.a_of[i], m, batch.b_of[i], k, beta, batch.c_of[i], m);
}

void run(const tessera::Context& context, const Batch& batch) {
  tessera::gemm_batch(context, TESSERA_COL_MAJOR, batch.none.data(), batch.none.data(), batch.m.data(), batch.n.data(),
                      batch.k.data(), batch.alphas.data(), batch.a_of.data(), batch.m.data(), batch.b_of.data(),
                      batch.k.data(), batch.betas.data(), batch.c_of.data(), batch.m.data(),
                      static_cast<std::int64_t>(batch.m.size()), batch.ones.data());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Batches of dgemm from pageable host memory, beside OpenBLAS in a parallel loop");
  options.add_to(app, "--products");
  app.add_option("--beta", options.beta, "factor of C");
  app.add_flag("--shared-a", options.shares_a, "64 neighbours have one A");
  CLI11_PARSE(app, argc, argv);
  return bench::run_contest("gemm_batch_bench", options, [&] {
    static Batch batch(options);
    static const bench::OpenBlas openblas(options.openblas);
    static const std::vector<double> begin = batch.C;
    const auto dgemm = openblas.find<Dgemm>("cblas_dgemm");
    const auto by_openblas = [&options, dgemm] {
      openblas.share_out(batch.m.size(), options.threads,
                         [&](std::size_t i) { multiply(dgemm, batch, options.beta, i); });
    };
    by_openblas();
    static const std::vector<double> expected = batch.C;
    return bench::HostBatchWork{.description = {{"bench", "gemm_batch"},
                                                {"products", options.problems},
                                                {"least", options.least},
                                                {"most", options.most},
                                                {"beta", options.beta},
                                                {"shares_a", options.shares_a}},
                                .flops = batch.flops,
                                .bytes = batch.bytes,
                                .reset = [] { batch.C = begin; },
                                .by_openblas = by_openblas,
                                .by_tessera = [](const tessera::Context& context) { run(context, batch); },
                                .difference = [] { return bench::largest_difference(batch.C, expected); },
                                .largest_difference = 1e-15 * 8 * static_cast<double>(options.most + 4)};
  });
}
