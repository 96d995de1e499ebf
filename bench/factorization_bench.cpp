// Cholesky, LU, QR or LQ of one large matrix in host memory, through the runtime: seconds of each run, and whether the factors are some.
// Devices, memory and tracing are set by TESSERA_* as ever. One JSON object on standard output.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/frame/host_matrices.hpp"
#include "bench/frame/timing.hpp"
#include "routines/lapack.hpp"
#include "runtime/runtime.hpp"

namespace tessera::bench {
namespace {

using nlohmann::json;

struct Options : HostMatrixOptions {
  Options() : HostMatrixOptions{.n = {30000}, .runs = 5} {}

  std::string routine = "potrf";
  bool pageable = false;
  std::string uplo = "L";
  index_t tile = 0;

  void add_to(CLI::App& app) {
    HostMatrixOptions::add_to(app);
    add_name(app, "--routine", routine, {"potrf", "getrf", "geqrf", "gelqf"}, "");
    app.add_flag("--pageable", pageable, "memory as programs have it");
    add_name(app, "--uplo", uplo, {"L", "U"}, "");
    app.add_option("--tile", tile, "columns of a tile, 0: chosen");
  }
};

template <Scalar T>
class Problem {
 public:
  Problem(device::Device& device, index_t n, const Options& options)
      : n_(n),
        routine_(options.routine),
        uplo_(options.uplo == "U" ? Uplo::upper : Uplo::lower),
        ipiv_(at(n)),
        tau_(at(n)) {
    const auto bytes = static_cast<std::size_t>(n * n) * sizeof(T);
    memory_ = options.pageable ? std::make_unique<device::HostMemory>(bytes) : device.host_memory(bytes);
  }

  runtime::JobStatistics run(runtime::Runtime& runtime, index_t tile) {
    constexpr ScalarType type = scalar_type_of<T>();
    if (routine_ == "getrf") return routines::lu(runtime, {type, n_, n_, columns(), n_, ipiv_.data()}, tile);
    const ReflectorStorage storage = routine_ == "gelqf" ? ReflectorStorage::rows : ReflectorStorage::columns;
    if (!is_cholesky()) return routines::qr(runtime, {type, n_, n_, columns(), n_, tau_.data(), storage}, tile);
    return routines::cholesky(runtime, {.type = type, .uplo = uplo_, .n = n_, .A = columns(), .lda = n_}, tile);
  }

  /// Elements of the other triangle are NaN, since nobody reads them.
  void reset() {
    for_columns(at(n_), threads_for(at(n_)), [&](std::size_t c, std::size_t) {
      T* const column = columns() + c * at(n_);
      std::fill(column, column + n_, T(std::numeric_limits<RealPart<T>>::quiet_NaN()));
      for (std::size_t r = first_row(part(), c); r < last_row(part(), c, at(n_)); ++r) column[r] = element(r, c);
    });
  }

  /// ||A x - (factors) x||_1 / (n ||A||_1 ||x||_1 eps)
  double residual() const {
    const auto of_a = [this](std::size_t r, std::size_t c) { return element(r, c); };
    const Vector x = random_vector(n_);
    Vector expected = product(part(), of_a, x);
    for (std::size_t i = 0; routine_ == "getrf" && i < x.size(); ++i)
      std::swap(expected[i], expected[at(ipiv_[i] - 1)]);
    return distance1(times_factors(x), expected) / (static_cast<double>(n_) * norm1(part(), of_a, x.size()) * norm1(x) *
                                                    static_cast<double>(std::numeric_limits<RealPart<T>>::epsilon()));
  }

 private:
  bool is_cholesky() const { return routine_ == "potrf"; }
  Part part() const { return is_cholesky() ? hermitian_of(uplo_) : Part::whole; }
  /// Of a Hermitian matrix, and dominated by its diagonal; or of any.
  T element(std::size_t r, std::size_t c) const {
    return is_cholesky() && r == c ? T(static_cast<RealPart<T>>(n_))
                                   : element_at<T>(static_cast<index_t>(r), static_cast<index_t>(c), n_);
  }

  Vector times_factors(const Vector& x) const {
    const auto factors = elements_of(columns(), n_);
    if (is_cholesky()) {
      const bool lower = uplo_ == Uplo::lower;
      return product(triangle_of(uplo_), factors, product(triangle_of(uplo_), factors, x, lower), !lower);
    }
    if (routine_ == "gelqf") return product(Part::lower, factors, times_q_of_rows(x));
    Vector y = product(Part::upper, factors, x);
    return routine_ == "getrf" ? product(Part::unit_lower, factors, y) : times_q(std::move(y));
  }
  Vector times_q(Vector y) const {
    for (index_t c = n_ - 1; c >= 0; --c) {
      const T* const v = columns() + c * n_;
      AnyScalar sum = y[at(c)];
      for (index_t r = c + 1; r < n_; ++r) sum += std::conj(AnyScalar(v[r])) * y[at(r)];
      sum *= AnyScalar(tau_[at(c)]);
      y[at(c)] -= sum;
      for (index_t r = c + 1; r < n_; ++r) y[at(r)] -= AnyScalar(v[r]) * sum;
    }
    return y;
  }

  /// By the adjoints of the reflectors, the first one first. Their conjugates lie in rows.
  Vector times_q_of_rows(Vector y) const {
    for (index_t r = 0; r < n_; ++r) {
      const auto conjugate = [&](index_t c) { return AnyScalar(columns()[r + c * n_]); };
      AnyScalar sum = y[at(r)];
      for (index_t c = r + 1; c < n_; ++c) sum += conjugate(c) * y[at(c)];
      sum *= std::conj(AnyScalar(tau_[at(r)]));
      y[at(r)] -= sum;
      for (index_t c = r + 1; c < n_; ++c) y[at(c)] -= std::conj(conjugate(c)) * sum;
    }
    return y;
  }

  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  T* columns() const { return reinterpret_cast<T*>(memory_->data()); }

  index_t n_;
  std::string routine_;
  Uplo uplo_;
  std::vector<index_t> ipiv_;
  std::vector<T> tau_;
  std::unique_ptr<device::HostMemory> memory_;
};

template <Scalar T>
json run(runtime::Runtime& runtime, device::Device& device, index_t n, const Options& options) {
  Problem<T> problem(device, n, options);
  json result = {{"routine", letter(scalar_type_of<T>()) + options.routine},
                 {"n", n},
                 {"memory", options.pageable ? "pageable" : "page-locked"}};
  if (options.routine == "potrf") result["uplo"] = options.uplo;
  std::vector<double> seconds, job_seconds;  // of the call, and of what devices do of it
  for (int run = 0; run < options.runs; ++run) {
    problem.reset();
    runtime::JobStatistics statistics;
    seconds.push_back(seconds_of([&] { statistics = problem.run(runtime, options.tile); }));
    job_seconds.push_back(statistics.device_s);
    result["tile"] = statistics.tile_n;
    result["flops"] = statistics.flops;
    result["info"] = statistics.info;
    result["restarts"] = statistics.restarts;
    result["bytes_up"] = statistics.bytes_up();
    result["bytes_down"] = statistics.bytes_down();
    result["bytes_peer"] = statistics.bytes_peer();
    result["compulsory_bytes"] = statistics.compulsory_up;
  }
  result["seconds"] = seconds;
  result["job_seconds"] = job_seconds;
  result["residual"] = problem.residual();
  return result;
}

bool measure(const Options& options) {
  HostMatrixBench on(options);
  json report = {{"device", on.first_device().info().name}, {"devices", on.devices()}, {"results", json::array()}};
  const bool is_right = on.all([&]<Scalar T>(index_t n, T) {
    json result = run<T>(on.runtime(), on.first_device(), n, options);
    const bool is_good = result["info"] == 0 && result["residual"] < 30;
    report["results"].push_back(std::move(result));
    return is_good;
  });
  std::printf("%s\n", report.dump().c_str());
  return is_right;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Options>("factorization_bench", "Factorizations of matrices in host memory", argc, argv, measure);
}
