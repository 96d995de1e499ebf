// Cholesky, LU or QR of one large matrix in host memory, through the runtime: seconds of each run, and whether the factors are some.
// Devices, memory and tracing are set by TESSERA_* as ever. One JSON object on standard output.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/host_matrices.hpp"
#include "bench/measuring.hpp"
#include "core/side_by_side.hpp"
#include "routines/lapack.hpp"
#include "runtime/runtime.hpp"

namespace {

using namespace tessera;
using bench::element_at;
using bench::RealPart;
using nlohmann::json;

struct Options : bench::HostMatrixOptions {
  Options() : HostMatrixOptions{.n = {30000}, .runs = 5} {}

  std::string routine = "potrf";
  bool pageable = false;
  std::string uplo = "L";
  index_t tile = 0;
};

template <Scalar T>
T conjugate(T value) {
  return scalar_cast<T>(std::conj(AnyScalar(value)));
}

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
    if (routine_ == "geqrf") return routines::qr(runtime, {type, n_, n_, columns(), n_, tau_.data()}, tile);
    return routines::cholesky(runtime, {.type = type, .uplo = uplo_, .n = n_, .A = columns(), .lda = n_}, tile);
  }

  void reset() {
    for_columns([&](index_t c, std::size_t) {
      T* const column = columns() + c * n_;
      std::fill(column, column + n_, T(std::numeric_limits<RealPart<T>>::quiet_NaN()));
      for (index_t r = first(c); r < last(c); ++r) column[r] = element(r, c);
    });
  }

  /// ||A x - (factors) x||_1 / (n ||A||_1 ||x||_1 eps)
  double residual() const {
    std::vector<AnyScalar> x(at(n_));
    for (index_t i = 0; i < n_; ++i) x[at(i)] = AnyScalar(element_at<double>(i, n_, n_));
    auto product = sum_of_columns([&](index_t c, std::vector<AnyScalar>& y) {
      for (index_t r = first(c); r < last(c); ++r) {
        const AnyScalar v(element(r, c));
        y[at(r)] += v * x[at(c)];
        if (is_cholesky() && r != c) y[at(c)] += std::conj(v) * x[at(r)];
      }
    });
    const auto norms = sum_of_columns([&](index_t c, std::vector<AnyScalar>& y) {
      for (index_t r = first(c); r < last(c); ++r) {
        const double size = std::abs(AnyScalar(element(r, c)));
        y[at(c)] += size;
        if (is_cholesky() && r != c) y[at(r)] += size;
      }
    });
    std::vector<AnyScalar> whole;
    if (is_cholesky())
      whole = times_cholesky(x);
    else
      whole = routine_ == "getrf" ? times_lu(x) : times_qr(x);
    for (index_t i = 0; routine_ == "getrf" && i < n_; ++i) std::swap(product[at(i)], product[at(ipiv_[at(i)] - 1)]);
    double difference = 0, norm = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += std::abs(product[i] - whole[i]);
      norm = std::max(norm, norms[i].real());
      size += std::abs(x[i]);
    }
    return difference /
           (static_cast<double>(n_) * norm * size * static_cast<double>(std::numeric_limits<RealPart<T>>::epsilon()));
  }

 private:
  bool is_cholesky() const { return routine_ == "potrf"; }
  /// Of a Hermitian matrix, and dominated by its diagonal; or of any.
  T element(index_t r, index_t c) const {
    return is_cholesky() && r == c ? T(static_cast<RealPart<T>>(n_)) : element_at<T>(r, c, n_);
  }

  std::vector<AnyScalar> times_cholesky(const std::vector<AnyScalar>& x) const {
    const bool lower = uplo_ == Uplo::lower;
    const auto half = sum_of_columns([&](index_t c, std::vector<AnyScalar>& z) {
      for (index_t r = first(c); r < last(c); ++r) {
        const AnyScalar v(columns()[r + c * n_]);
        lower ? z[at(c)] += std::conj(v) * x[at(r)] : z[at(r)] += v * x[at(c)];
      }
    });
    return sum_of_columns([&](index_t c, std::vector<AnyScalar>& y) {
      for (index_t r = first(c); r < last(c); ++r) {
        const AnyScalar v(columns()[r + c * n_]);
        lower ? y[at(r)] += v * half[at(c)] : y[at(c)] += std::conj(v) * half[at(r)];
      }
    });
  }

  /// The upper triangle, with its diagonal.
  std::vector<AnyScalar> times_upper(const std::vector<AnyScalar>& x) const {
    return sum_of_columns([&](index_t c, std::vector<AnyScalar>& z) {
      for (index_t r = 0; r <= c; ++r) z[at(r)] += AnyScalar(columns()[r + c * n_]) * x[at(c)];
    });
  }
  std::vector<AnyScalar> times_lu(const std::vector<AnyScalar>& x) const {
    const std::vector<AnyScalar> half = times_upper(x);
    return sum_of_columns([&](index_t c, std::vector<AnyScalar>& y) {
      y[at(c)] += half[at(c)];
      for (index_t r = c + 1; r < n_; ++r) y[at(r)] += AnyScalar(columns()[r + c * n_]) * half[at(c)];
    });
  }
  std::vector<AnyScalar> times_qr(const std::vector<AnyScalar>& x) const {
    std::vector<AnyScalar> y = times_upper(x);
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

  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  index_t first(index_t c) const { return is_cholesky() && uplo_ == Uplo::lower ? c : 0; }
  index_t last(index_t c) const { return is_cholesky() && uplo_ == Uplo::upper ? c + 1 : n_; }
  T* columns() const { return reinterpret_cast<T*>(memory_->data()); }

  /// f(column, thread), on all processors.
  template <class F>
  void for_columns(F f) const {
    const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
    side_by_side(threads, [&](std::size_t thread) {
      for (auto c = static_cast<index_t>(thread); c < n_; c += static_cast<index_t>(threads)) f(c, thread);
    });
  }
  template <class F>
  std::vector<AnyScalar> sum_of_columns(F f) const {
    std::vector<std::vector<AnyScalar>> parts(std::max(1u, std::thread::hardware_concurrency()));
    for (auto& part : parts) part.resize(at(n_));
    for_columns([&](index_t c, std::size_t thread) { f(c, parts[thread]); });
    std::vector<AnyScalar> sum(at(n_));
    for (const auto& part : parts) std::transform(sum.begin(), sum.end(), part.begin(), sum.begin(), std::plus());
    return sum;
  }

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
    const double begin_s = device::now_seconds();
    const runtime::JobStatistics statistics = problem.run(runtime, options.tile);
    seconds.push_back(device::now_seconds() - begin_s);
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
  bench::HostMatrixBench on(options);
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

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Factorizations of matrices in host memory");
  options.add_to(app);
  app.add_option("--routine", options.routine, "potrf, getrf or geqrf")
      ->check(CLI::IsMember({"potrf", "getrf", "geqrf"}));
  app.add_flag("--pageable", options.pageable, "memory as programs have it");
  app.add_option("--uplo", options.uplo, "L or U")->check(CLI::IsMember({"L", "U"}));
  app.add_option("--tile", options.tile, "columns of a tile, 0: chosen");
  CLI11_PARSE(app, argc, argv);
  return bench::exit_status_of("factorization_bench", [&] { return measure(options); });
}
