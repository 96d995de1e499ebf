// Batches of LAPACK's routines on small matrices in pageable host memory, in double precision: OpenBLAS in a loop that
// threads on all processors share, and tessera_d..._batch on devices, on the CPU, and where its own choice has it.
// Orders are drawn from [least, most]. Matrices are symmetric and dominated by their diagonals, so that they serve all
// routines; what reads factors gets those that OpenBLAS has made. See host_batch_bench.hpp.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/host_batch_bench.hpp"
#include "bench/lapack_batch_cases.hpp"
#include "tessera/lapack_batch.hpp"

namespace tessera::bench {
namespace {

struct Options : HostBatchOptions {
  std::string routine = "gesv";
  std::int64_t nrhs = 1;

  void add_to(CLI::App& app) {
    HostBatchOptions::add_to(app, "--problems");
    add_name(app, "--routine", routine, {"potrf", "potrs", "posv", "potri", "getrf", "getrs", "gesv", "getri"}, "");
    add_number(app, "--nrhs", nrhs, "right-hand sides of each");
  }
};

using Length = std::size_t;  // of a character argument

/// Calls a routine of the Fortran interface.
template <class... Arguments>
void call(void* routine, Arguments... arguments) {
  reinterpret_cast<void (*)(Arguments...)>(routine)(arguments...);
}

/// As many groups as problems, of one each. Matrices lie behind each other.
class Batch : public HostBatch {
 public:
  Batch(const Options& options, const OpenBlas& openblas)
      : case_{.routine = measured_routine(options.routine), .nrhs = options.nrhs},
        by_openblas_(openblas.find<void*>((case_.name() + "_").c_str())),
        factor_by_openblas_(openblas.find<void*>(case_.is_cholesky() ? "dpotrf_" : "dgetrf_")) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::int64_t> size(options.least, options.most);
    for (std::int64_t i = 0; i < options.problems; ++i) {
      n_.push_back(size(random));
      const auto n = static_cast<std::size_t>(n_.back());
      A_.add(n * n);
      B_.add(n * static_cast<std::size_t>(options.nrhs));
      pivots_.add(n);
      case_.n = n_.back();
      flops += flops_of(case_);
    }
    A_.place(), B_.place(), pivots_.place();
    for (std::size_t i = 0; i < n_.size(); ++i) fill(A_.each[i], n_[i], random);
    std::uniform_real_distribution<double> value(-1, 1);
    std::generate(B_.all.begin(), B_.all.end(), [&] { return value(random); });
    const auto count = static_cast<std::size_t>(options.problems);
    info_.resize(count);
    lower_.assign(count, TESSERA_LOWER);
    none_.assign(count, TESSERA_NO_TRANS);
    ones_.assign(count, 1);
    nrhs_of_.assign(count, options.nrhs);
    description = {{"bench", "lapack_host"}, {"routine", case_.name()}, {"problems", options.problems},
                   {"least", options.least}, {"most", options.most},    {"nrhs", options.nrhs}};
    bytes = 8.0 * static_cast<double>((case_.writes_a() ? 2 : 1) * A_.size() + (case_.solves() ? 2 * B_.size() : 0));
    written = {&A_, &B_};
    // Elements of factors are n at most.
    largest_difference = 1e-15 * 8 * static_cast<double>(options.most * (options.most + 4));
  }

  /// Replaces what a routine reads as factors.
  void prepare(std::size_t i) override {
    const int n = static_cast<int>(n_[i]);
    if (!case_.begins_with_factors()) return;
    if (case_.is_cholesky())
      call(factor_by_openblas_, "L", &n, A_.each[i], &n, &info_[i], Length{1});
    else
      call(factor_by_openblas_, &n, &n, A_.each[i], &n, pivots_.each[i], &info_[i]);
  }

  void run(std::size_t i) override {
    const int n = static_cast<int>(n_[i]), nrhs = static_cast<int>(case_.nrhs);
    double *const A = A_.each[i], *const B = B_.each[i];
    int *const p = pivots_.each[i], *const info = &info_[i];
    switch (case_.routine) {
      using enum Routine;
      case potrf:
      case potri:
        return call(by_openblas_, "L", &n, A, &n, info, Length{1});
      case potrs:
      case posv:
        return call(by_openblas_, "L", &n, &nrhs, A, &n, B, &n, info, Length{1});
      case getrf:
        return call(by_openblas_, &n, &n, A, &n, p, info);
      case getrs:
        return call(by_openblas_, "N", &n, &nrhs, A, &n, p, B, &n, info, Length{1});
      case gesv:
        return call(by_openblas_, &n, &nrhs, A, &n, p, B, &n, info);
      default:  // getri
        thread_local std::vector<double> work;
        work.resize(static_cast<std::size_t>(32 * n));
        const int size = 32 * n;
        return call(by_openblas_, &n, A, &n, p, work.data(), &size, info);
    }
  }

  void run(const Context& c) override {
    double *const *const A = A_.each.data(), *const *const B = B_.each.data();
    int* const* const p = pivots_.each.data();
    int* const info = info_.data();
    const std::int64_t *const n = n_.data(), *const r = nrhs_of_.data(), *const size = ones_.data();
    const auto count = static_cast<std::int64_t>(n_.size());
    const tessera_uplo* const uplo = lower_.data();
    const std::string routine = name_of(case_.routine);
    if (routine == "potrf") potrf_batch<double>(c, uplo, n, A, n, info, count, size);
    if (routine == "potri") potri_batch<double>(c, uplo, n, A, n, info, count, size);
    if (routine == "potrs") potrs_batch<double>(c, uplo, n, r, A, n, B, n, info, count, size);
    if (routine == "posv") posv_batch<double>(c, uplo, n, r, A, n, B, n, info, count, size);
    if (routine == "getrf") getrf_batch<double>(c, n, n, A, n, p, info, count, size);
    if (routine == "getrs") getrs_batch<double>(c, none_.data(), n, r, A, n, p, B, n, info, count, size);
    if (routine == "gesv") gesv_batch<double>(c, n, r, A, n, p, B, n, info, count, size);
    if (routine == "getri") getri_batch<double>(c, n, A, n, p, info, count, size);
  }

 private:
  static void fill(double* A, std::int64_t n, std::mt19937_64& random) {
    std::uniform_real_distribution<double> value(-1, 1);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = j; i < n; ++i)
        A[i + j * n] = A[j + i * n] = i == j ? static_cast<double>(n) + value(random) : value(random);
    }
  }

  LapackCase case_;  // of one problem
  void *by_openblas_, *factor_by_openblas_;
  std::vector<std::int64_t> n_, ones_, nrhs_of_;
  Stacked<double> A_, B_;
  Stacked<int> pivots_;
  std::vector<int> info_;
  std::vector<tessera_uplo> lower_;
  std::vector<tessera_transpose> none_;
};

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Options>(
      "lapack_host_bench", "Batches of LAPACK's routines from pageable host memory, beside OpenBLAS in a parallel loop",
      argc, argv, run_contest<Batch, Options>);
}
