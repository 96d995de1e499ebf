// Batches of LAPACK's routines on small matrices in pageable host memory, in double precision: OpenBLAS in a loop that
// threads on all processors share, and tessera_d..._batch on devices, on the CPU, and where its own choice has it.
// Orders are drawn from [least, most]. Matrices are symmetric and dominated by their diagonals, so that they serve all
// routines; what reads factors gets those that OpenBLAS has made. See host_batch_bench.hpp.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host_batch_bench.hpp"
#include "tessera/lapack_batch.hpp"

namespace {

struct Options : bench::HostBatchOptions {
  std::string routine = "gesv";
  std::int64_t nrhs = 1;
};

/// The Fortran interface of OpenBLAS.
struct Lapack {
  explicit Lapack(const bench::OpenBlas& blas)
      : potrf(blas.find<Cholesky>("dpotrf_")),
        potri(blas.find<Cholesky>("dpotri_")),
        potrs(blas.find<CholeskySolve>("dpotrs_")),
        posv(blas.find<CholeskySolve>("dposv_")),
        getrf(blas.find<Getrf>("dgetrf_")),
        getrs(blas.find<Getrs>("dgetrs_")),
        gesv(blas.find<Gesv>("dgesv_")),
        getri(blas.find<Getri>("dgetri_")) {}

  using Cholesky = void (*)(const char*, const int*, double*, const int*, int*, std::size_t);
  using CholeskySolve = void (*)(const char*, const int*, const int*, double*, const int*, double*, const int*, int*,
                                 std::size_t);
  using Getrf = void (*)(const int*, const int*, double*, const int*, int*, int*);
  using Getrs = void (*)(const char*, const int*, const int*, const double*, const int*, const int*, double*,
                         const int*, int*, std::size_t);
  using Gesv = void (*)(const int*, const int*, double*, const int*, int*, double*, const int*, int*);
  using Getri = void (*)(const int*, double*, const int*, const int*, double*, const int*, int*);
  Cholesky potrf, potri;
  CholeskySolve potrs, posv;
  Getrf getrf;
  Getrs getrs;
  Gesv gesv;
  Getri getri;
};

/// As many groups as problems, of one each. Matrices lie behind each other.
class Batch {
 public:
  explicit Batch(const Options& options) : routine_(options.routine), nrhs_(options.nrhs) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::int64_t> size(options.least, options.most);
    std::vector<std::size_t> a, b, p;
    std::size_t a_next = 0, b_next = 0, p_next = 0;
    for (std::int64_t i = 0; i < options.problems; ++i) {
      n_.push_back(size(random));
      const auto n = static_cast<std::size_t>(n_.back());
      a.push_back(std::exchange(a_next, a_next + n * n));
      b.push_back(std::exchange(b_next, b_next + n * static_cast<std::size_t>(nrhs_)));
      p.push_back(std::exchange(p_next, p_next + n));
      flops_ += flops_of(static_cast<double>(n));
    }
    A_.resize(a_next), B_.resize(b_next), pivots_.resize(p_next);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a_of_.push_back(A_.data() + a[i]);
      b_of_.push_back(B_.data() + b[i]);
      p_of_.push_back(pivots_.data() + p[i]);
      fill(a_of_[i], n_[i], random);
    }
    std::uniform_real_distribution<double> value(-1, 1);
    std::generate(B_.begin(), B_.end(), [&] { return value(random); });
    const auto count = static_cast<std::size_t>(options.problems);
    info_.resize(count);
    lower_.assign(count, TESSERA_LOWER);
    none_.assign(count, TESSERA_NO_TRANS);
    ones_.assign(count, 1);
    nrhs_of_.assign(count, nrhs_);
    const bool only_solves = routine_ == "potrs" || routine_ == "getrs";
    bytes_ = 8.0 * static_cast<double>((only_solves ? 1 : 2) * a_next + (has_b() ? 2 * b_next : 0));
  }

  /// What the matrices are before a run.
  void keep() { before_a_ = A_, before_b_ = B_; }
  void reset() { A_ = before_a_, B_ = before_b_; }
  void expect() { expected_a_ = A_, expected_b_ = B_; }
  double difference() const {
    return std::max(bench::largest_difference(A_, expected_a_), bench::largest_difference(B_, expected_b_));
  }
  double flops() const { return flops_; }
  double bytes() const { return bytes_; }
  std::size_t size() const { return n_.size(); }

  /// Replaces what a routine reads as factors.
  void factor(const Lapack& lapack, std::size_t i) {
    const int n = static_cast<int>(n_[i]);
    if (routine_ == "potrs" || routine_ == "potri") lapack.potrf("L", &n, a_of_[i], &n, &info_[i], 1);
    if (routine_ == "getrs" || routine_ == "getri") lapack.getrf(&n, &n, a_of_[i], &n, p_of_[i], &info_[i]);
  }

  void run(const Lapack& lapack, std::size_t i) {
    const int n = static_cast<int>(n_[i]), nrhs = static_cast<int>(nrhs_);
    double *const A = a_of_[i], *const B = b_of_[i];
    int *const p = p_of_[i], *const info = &info_[i];
    if (routine_ == "potrf") lapack.potrf("L", &n, A, &n, info, 1);
    if (routine_ == "potri") lapack.potri("L", &n, A, &n, info, 1);
    if (routine_ == "potrs") lapack.potrs("L", &n, &nrhs, A, &n, B, &n, info, 1);
    if (routine_ == "posv") lapack.posv("L", &n, &nrhs, A, &n, B, &n, info, 1);
    if (routine_ == "getrf") lapack.getrf(&n, &n, A, &n, p, info);
    if (routine_ == "getrs") lapack.getrs("N", &n, &nrhs, A, &n, p, B, &n, info, 1);
    if (routine_ == "gesv") lapack.gesv(&n, &nrhs, A, &n, p, B, &n, info);
    if (routine_ == "getri") {
      thread_local std::vector<double> work;
      work.resize(static_cast<std::size_t>(32 * n));
      const int size = 32 * n;
      lapack.getri(&n, A, &n, p, work.data(), &size, info);
    }
  }

  void run(const tessera::Context& c) {
    double *const *const A = a_of_.data(), *const *const B = b_of_.data();
    int* const* const p = p_of_.data();
    int* const info = info_.data();
    const std::int64_t *const n = n_.data(), *const r = nrhs_of_.data(), *const size = ones_.data();
    const auto count = static_cast<std::int64_t>(n_.size());
    const tessera_uplo* const uplo = lower_.data();
    if (routine_ == "potrf") tessera::potrf_batch<double>(c, uplo, n, A, n, info, count, size);
    if (routine_ == "potri") tessera::potri_batch<double>(c, uplo, n, A, n, info, count, size);
    if (routine_ == "potrs") tessera::potrs_batch<double>(c, uplo, n, r, A, n, B, n, info, count, size);
    if (routine_ == "posv") tessera::posv_batch<double>(c, uplo, n, r, A, n, B, n, info, count, size);
    if (routine_ == "getrf") tessera::getrf_batch<double>(c, n, n, A, n, p, info, count, size);
    if (routine_ == "getrs") tessera::getrs_batch<double>(c, none_.data(), n, r, A, n, p, B, n, info, count, size);
    if (routine_ == "gesv") tessera::gesv_batch<double>(c, n, r, A, n, p, B, n, info, count, size);
    if (routine_ == "getri") tessera::getri_batch<double>(c, n, A, n, p, info, count, size);
  }

 private:
  bool has_b() const { return routine_ == "potrs" || routine_ == "posv" || routine_ == "getrs" || routine_ == "gesv"; }
  /// Leading terms (LAPACK Working Note 41).
  double flops_of(double n) const {
    const double solve = 2 * n * n * static_cast<double>(nrhs_), cube = n * n * n;
    if (routine_ == "potrf") return cube / 3;
    if (routine_ == "potri") return 2 * cube / 3;
    if (routine_ == "posv") return cube / 3 + solve;
    if (routine_ == "getrf") return 2 * cube / 3;
    if (routine_ == "gesv") return 2 * cube / 3 + solve;
    if (routine_ == "getri") return 4 * cube / 3;
    return solve;
  }
  static void fill(double* A, std::int64_t n, std::mt19937_64& random) {
    std::uniform_real_distribution<double> value(-1, 1);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = j; i < n; ++i)
        A[i + j * n] = A[j + i * n] = i == j ? static_cast<double>(n) + value(random) : value(random);
    }
  }

  std::string routine_;
  std::int64_t nrhs_;
  std::vector<std::int64_t> n_, ones_, nrhs_of_;
  std::vector<double> A_, B_, before_a_, before_b_, expected_a_, expected_b_;
  std::vector<int> pivots_, info_;
  std::vector<double*> a_of_, b_of_;
  std::vector<int*> p_of_;
  std::vector<tessera_uplo> lower_;
  std::vector<tessera_transpose> none_;
  double flops_ = 0;
  double bytes_ = 0;  ///< read and written
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Batches of LAPACK's routines from pageable host memory, beside OpenBLAS in a parallel loop");
  options.add_to(app, "--problems");
  app.add_option("--routine", options.routine, "potrf, potrs, posv, potri, getrf, getrs, gesv, getri")
      ->check(CLI::IsMember({"potrf", "potrs", "posv", "potri", "getrf", "getrs", "gesv", "getri"}));
  app.add_option("--nrhs", options.nrhs, "right-hand sides of each")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return bench::run_contest("lapack_host_bench", options, [&] {
    static Batch batch(options);
    static const bench::OpenBlas openblas(options.openblas);
    static const Lapack lapack(openblas);
    openblas.share_out(batch.size(), options.threads, [](std::size_t i) { batch.factor(lapack, i); });
    batch.keep();
    const auto by_openblas = [&options] {
      openblas.share_out(batch.size(), options.threads, [](std::size_t i) { batch.run(lapack, i); });
    };
    by_openblas();
    batch.expect();
    return bench::HostBatchWork{
        .description = {{"bench", "lapack_host"},
                        {"routine", "d" + options.routine},
                        {"problems", options.problems},
                        {"least", options.least},
                        {"most", options.most},
                        {"nrhs", options.nrhs}},
        .flops = batch.flops(),
        .bytes = batch.bytes(),
        .reset = [] { batch.reset(); },
        .by_openblas = by_openblas,
        .by_tessera = [](const tessera::Context& context) { batch.run(context); },
        .difference = [] { return batch.difference(); },
        // Elements of factors are n at most.
        .largest_difference = 1e-15 * 8 * static_cast<double>(options.most * (options.most + 4))};
  });
}
