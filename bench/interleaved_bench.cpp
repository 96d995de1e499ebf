// LU and Cholesky of small matrices in the interleaved layout, with one thread or a few for each, beside
// libtessera_device.so on the usual layout, on one GPU: alone, and with the ways there and back.
//
// All work in place, each call of a group on a copy of its own, which begins anew outside the timed part. Before a case
// is measured, pivots, info and factors of every contestant are compared with those of libtessera_device.so; who is
// wrong has no times, and the program ends with status 1.
//
// Roofs are times of traffic at the rate of a copy in device memory: what is compulsory, as in lapack_batch_bench (of
// Cholesky a triangle), and 2 n^2 elements.
#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/device_libraries.hpp"
#include "bench/device_timer.hpp"
#include "bench/interleaved_layout.hpp"
#include "bench/lapack_batch_cases.hpp"
#include "bench/lapack_batch_own.hpp"
#include "bench/measuring.hpp"

namespace {

using namespace tessera::bench;  // all of it is this program's
using tessera::index_t;

struct Arguments : tessera::bench::Measuring {
  Arguments() { groups = 5; }

  std::vector<std::string> routines = {"getrf", "potrf"};
  std::string types = "ds";
  std::vector<int> sizes = {interleaved_orders.begin(), interleaved_orders.end()};
  index_t batch = 100000;
  std::string library;
};

/// Tessera's functions on matrices that lie one behind the other.
template <class R>
struct StridedLapack;
#define TESSERA_STRIDED(R, x)                                                          \
  template <>                                                                          \
  struct StridedLapack<R> {                                                            \
    using Getrf = decltype(&tessera_device_##x##getrf_strided_batched);                \
    using Potrf = decltype(&tessera_device_##x##potrf_strided_batched);                \
    static constexpr const char* getrf = "tessera_device_" #x "getrf_strided_batched"; \
    static constexpr const char* potrf = "tessera_device_" #x "potrf_strided_batched"; \
  }
TESSERA_STRIDED(float, s);
TESSERA_STRIDED(double, d);
#undef TESSERA_STRIDED

template <class E>
std::vector<E> host_copy(const E* device, std::size_t elements) {
  std::vector<E> host(elements);
  check(cudaMemcpy(host.data(), device, elements * sizeof(E), cudaMemcpyDeviceToHost), "to the host");
  return host;
}

/// Matrices on which calls work in place: as they begin, and a copy for each call of a group.
template <class R>
class Matrices {
 public:
  Matrices(std::size_t elements, int copies)
      : elements_(elements), copies_(copies), start_(elements), work_(elements * static_cast<std::size_t>(copies)) {}

  R* start() const { return start_.get(); }
  int copies() const { return copies_; }
  void restore(int calls, cudaStream_t stream) {
    next_ = 0;
    for (int i = 0; i < calls; ++i)
      check(cudaMemcpyAsync(copy(i), start(), elements_ * sizeof(R), cudaMemcpyDeviceToDevice, stream), "restore");
  }
  R* take() { return copy(next_++); }
  /// Of the first copy.
  std::vector<R> result() const { return host_copy(copy(0), elements_); }

 private:
  R* copy(int i) const { return work_.get() + static_cast<std::size_t>(i) * elements_; }

  std::size_t elements_;
  int copies_, next_ = 0;
  DeviceArray<R> start_, work_;
};

/// What a routine leaves of all problems, in the usual layout.
template <class R>
struct Results {
  std::vector<R> A;
  std::vector<int> pivots, info;
};

/// One routine on one type and size of matrices, in both layouts.
template <class R>
class Case {
 public:
  Case(const LapackCase& what, const OpenedLibrary& library, const OwnDevice& device, cudaStream_t stream)
      : what_(what),
        library_(library),
        device_(device),
        stream_(stream),
        stride_((what.count + 31) / 32 * 32),
        usual_(problems() * elements(), copies()),
        interleaved_(static_cast<std::size_t>(stride_) * elements(), copies()),
        scratch_(static_cast<std::size_t>(stride_) * elements()),
        pivots_(problems() * order()),
        interleaved_pivots_(static_cast<std::size_t>(stride_) * order()),
        info_(static_cast<std::size_t>(stride_)) {
    const std::vector<R> all = random_matrices();
    check(cudaMemcpyAsync(usual_.start(), all.data(), all.size() * sizeof(R), cudaMemcpyHostToDevice, stream_),
          "start");
    // Matrices behind the last one.
    for (R* const matrices : {interleaved_.start(), scratch_.get()})
      fill_bytes(matrices, static_cast<std::size_t>(stride_) * elements(), 0);
    convert(interleaved_.start(), usual_.start());
    check(cudaStreamSynchronize(stream_), "conversion");
    verify_layout(all);
  }

  // -- contestants --

  Contestant tessera() {
    return on(usual_, "tessera", [this](R* A) { call_tessera(A); });
  }
  Contestant interleaved(int threads) {
    return on(interleaved_, name_of(threads), [this, threads](R* A) { factor(threads, A); });
  }
  /// From the usual layout and back, with the factorization between them. Calls share the place for interleaved
  /// matrices.
  Contestant converted(int threads) {
    return on(usual_, "converted", [this, threads](R* A) {
      convert(scratch_.get(), A);
      factor(threads, scratch_.get());
      convert_back(A, scratch_.get());
    });
  }
  Contestant to_interleaved() {
    return on(usual_, "to_interleaved", [this](R* A) { convert(scratch_.get(), A); });
  }
  Contestant to_usual() {
    return on(usual_, "to_usual", [this](R* A) { convert_back(A, scratch_.get()); });
  }
  static std::string name_of(int threads) { return "interleaved_" + std::to_string(threads); }

  // -- right? --

  Results<R> results_of(const Contestant& contestant) {
    fill_bytes(info_.get(), problems(), 255);
    fill_bytes(pivots_.get(), problems() * order(), 255);
    contestant.restore(1);
    contestant.call();
    check(cudaStreamSynchronize(stream_), contestant.name.c_str());
    return {usual_.result(), host_copy(pivots_.get(), problems() * order()), host_copy(info_.get(), problems())};
  }

  /// The largest difference of factors, in units of n eps times the largest factor of the matrix.
  /// @throws std::runtime_error if it is too large, or pivots or info differ
  double difference(const Results<R>& got, const Results<R>& wanted) const {
    constexpr double most = 16;
    if (got.info != wanted.info) throw std::runtime_error("info differs");
    if (!is_cholesky() && got.pivots != wanted.pivots) throw std::runtime_error("pivots differ");
    double largest = 0;
    for (std::size_t b = 0; b < problems(); ++b) {
      const R* const mine = got.A.data() + b * elements();
      const R* const theirs = wanted.A.data() + b * elements();
      const bool ended = is_cholesky() && wanted.info[b] > 0;
      const double of_one =
          difference_of_factors(mine, theirs, ended ? static_cast<std::size_t>(wanted.info[b] - 1) : order());
      if (!(of_one <= most))
        throw std::runtime_error("matrix " + std::to_string(b) + " differs by " + std::to_string(of_one) + " n eps");
      largest = std::max(largest, of_one);
    }
    return largest;
  }

  nlohmann::json resources(int threads) const {
    cudaFuncAttributes of_kernel{};
    check(resources_of_factor<R>(what_.routine, static_cast<int>(what_.n), threads, &of_kernel), "attributes");
    return {{"registers", of_kernel.numRegs}, {"local_bytes", of_kernel.localSizeBytes}};
  }

 private:
  std::size_t problems() const { return static_cast<std::size_t>(what_.count); }
  std::size_t order() const { return static_cast<std::size_t>(what_.n); }
  std::size_t elements() const { return order() * order(); }
  bool is_cholesky() const { return what_.is_cholesky(); }
  /// So many that the caches have lost a copy when its turn comes.
  int copies() const {
    constexpr double bytes_of_copies = 2e9;
    const double of_one = static_cast<double>(problems() * elements() * sizeof(R));
    return static_cast<int>(std::clamp(bytes_of_copies / of_one, 2.0, 128.0));
  }

  template <class E>
  void fill_bytes(E* to, std::size_t elements, int byte) const {
    check(cudaMemsetAsync(to, byte, elements * sizeof(E), stream_), "fill");
  }
  template <class Call>
  Contestant on(Matrices<R>& matrices, const std::string& name, Call call) {
    return {.name = name,
            .call = [&matrices, call] { call(matrices.take()); },
            .restore = [&matrices, this](int calls) { matrices.restore(calls, stream_); },
            .most_calls = matrices.copies()};
  }

  void call_tessera(R* A) const {
    using Api = StridedLapack<R>;
    const tessera_device_handle to = device_.handle();
    const index_t n = what_.n;
    if (is_cholesky()) {
      const auto potrf = library_.get<typename Api::Potrf>(Api::potrf);
      device_.check(potrf(to, TESSERA_LOWER, n, A, n, n * n, info_.get(), what_.count), Api::potrf);
    } else {
      const auto getrf = library_.get<typename Api::Getrf>(Api::getrf);
      device_.check(getrf(to, n, n, A, n, n * n, pivots_.get(), n, info_.get(), what_.count), Api::getrf);
    }
  }
  void factor(int threads, R* A) const {
    const InterleavedBatch<R> batch{stride_, A, interleaved_pivots_.get(), info_.get()};
    check(factor_interleaved(what_.routine, static_cast<int>(what_.n), threads, batch, stream_), "interleaved");
  }
  void convert(R* to, const R* from) const {
    check(interleave(what_.routine, static_cast<int>(what_.n), to, stride_, from, what_.count, stream_), "interleave");
  }
  void convert_back(R* to, const R* from) const {
    const int n = static_cast<int>(what_.n);
    check(put_back(what_.routine, n, to, from, stride_, what_.count, stream_), "back");
    if (!is_cholesky())
      check(put_back_pivots(n, pivots_.get(), interleaved_pivots_.get(), stride_, what_.count, stream_), "pivots");
  }

  /// LU: uniform elements; Cholesky: a dominant diagonal besides, and NaNs where nobody should look. Two are of their
  /// own: in one all candidates for a pivot are as large as each other, the other is singular or not definite from its
  /// middle on.
  std::vector<R> random_matrices() const {
    std::vector<R> all(problems() * elements());
    std::uint32_t state = 12345;
    for (R& x : all) {
      state = state * 1664525U + 1013904223U;
      x = static_cast<R>(static_cast<double>(state >> 8) / (1U << 24) - 0.5);
    }
    for (std::size_t b = 0; b < problems(); ++b) {
      for (std::size_t j = 0; j < order(); ++j) {
        R* const column = all.data() + b * elements() + j * order();
        if (is_cholesky()) {
          std::fill(column, column + j, std::numeric_limits<R>::quiet_NaN());
          column[j] += static_cast<R>(b == with_bad_column && j == order() / 2 ? -what_.n : what_.n);
        } else if (b == with_ties) {  // Wilkinson's matrix, whose factors are whole numbers
          for (std::size_t i = 0; i < order(); ++i) column[i] = i > j ? R(-1) : R(i == j || j + 1 == order() ? 1 : 0);
        } else if (b == with_bad_column && j == order() / 2) {
          std::fill(column, column + order(), R(0));
        }
      }
    }
    return all;
  }

  void verify_layout(const std::vector<R>& all) const {
    const std::vector<R> got = host_copy(interleaved_.start(), static_cast<std::size_t>(stride_) * elements());
    for (std::size_t b = 0; b < problems(); ++b) {
      for (std::size_t e = 0; e < elements(); ++e) {
        if (is_cholesky() && e % order() < e / order()) continue;
        if (got[e * static_cast<std::size_t>(stride_) + b] != all[b * elements() + e])
          throw std::runtime_error("matrix " + std::to_string(b) + " is not where it should be");
      }
    }
  }

  /// Of the first `rows` rows and columns, as difference() tells it.
  double difference_of_factors(const R* mine, const R* theirs, std::size_t rows) const {
    double largest = 0, apart = 0;
    for (std::size_t j = 0; j < rows; ++j) {
      for (std::size_t i = is_cholesky() ? j : 0; i < rows; ++i) {
        const double x = mine[i + j * order()], y = theirs[i + j * order()];
        if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
        largest = std::max(largest, std::abs(y));
        apart = std::max(apart, std::abs(x - y));
      }
    }
    const double unit = static_cast<double>(what_.n) * std::numeric_limits<R>::epsilon() * largest;
    return apart == 0 ? 0 : apart / unit;
  }

  static constexpr std::size_t with_ties = 1, with_bad_column = 2;

  const LapackCase& what_;
  const OpenedLibrary& library_;
  const OwnDevice& device_;
  cudaStream_t stream_;
  index_t stride_;
  Matrices<R> usual_, interleaved_;
  DeviceArray<R> scratch_;
  DeviceArray<int> pivots_, interleaved_pivots_, info_;
};

class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        library_(own_library(arguments.library)),
        stream_(new_stream()),
        own_(library_, stream_),
        timer_(stream_, arguments.group_s, arguments.groups) {
    if (!library_.is_open()) throw std::runtime_error(library_.why_not());
    report_ = machine();
    report_["tessera"] = std::filesystem::path(library_.name()).filename().string();
    report_["copy_bytes_per_s"] = copy_rate_ = measured_copy_rate(timer_, stream_);
    report_["results"] = nlohmann::json::array();
  }

  /// @return whether all was right
  bool run() {
    std::printf("%s, copy in device memory: %.0f GB/s, read and written; %lld problems, times in us\n",
                report_["gpu"].get<std::string>().c_str(), copy_rate_ * 1e-9, static_cast<long long>(arguments_.batch));
    for (const char letter : arguments_.types) {
      for (const std::string& routine : arguments_.routines) {
        tell_head();
        for (const int n : arguments_.sizes) {
          const LapackCase one{
              .routine = batch_routine(routine), .type = type_of(letter), .n = n, .count = arguments_.batch};
          letter == 'd' ? run_case<double>(one) : run_case<float>(one);
        }
      }
    }
    if (!arguments_.json.empty()) write(report_, arguments_.json);
    if (failed_ > 0) std::printf("%d cases FAILED\n", failed_);
    return failed_ == 0;
  }

 private:
  static cudaStream_t new_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
  }

  template <class R>
  void run_case(const LapackCase& one) {
    const auto n = static_cast<double>(one.n);
    const double square_bytes = 2 * n * n * sizeof(R) * static_cast<double>(one.count);
    nlohmann::json result = {{"routine", one.name()},
                             {"n", one.n},
                             {"batch", one.count},
                             {"flops", flops_of(one)},
                             {"bytes", compulsory_bytes(one)},
                             {"roof_s", compulsory_bytes(one) / copy_rate_},
                             {"square_roof_s", square_bytes / copy_rate_}};
    try {
      Case<R> on(one, library_, own_, stream_);
      measure(on, result);
    } catch (const std::exception& error) {
      result["error"] = error.what();
    }
    tell(result);
    if (result.contains("error") || result.contains("wrong")) ++failed_;
    report_["results"].push_back(result);
  }

  template <class R>
  void measure(Case<R>& on, nlohmann::json& result) {
    const Results<R> wanted = on.results_of(on.tessera());
    std::vector<Contestant> contestants = {on.tessera(), on.to_interleaved(), on.to_usual()};
    std::vector<int> right;
    for (const int threads : interleaved_teams) {
      const std::string name = on.name_of(threads);
      result["resources"][name] = on.resources(threads);
      try {
        result["difference"][name] = on.difference(on.results_of(on.converted(threads)), wanted);
        contestants.push_back(on.interleaved(threads));
        right.push_back(threads);
      } catch (const std::exception& error) {
        result["wrong"][name] = error.what();
      }
    }
    const std::size_t before = contestants.size() - right.size();
    const std::vector<double> seconds = timer_.seconds(contestants);
    for (std::size_t i = 0; i < contestants.size(); ++i) result["seconds"][contestants[i].name] = seconds[i];
    if (right.empty()) return;
    const auto best = std::min_element(seconds.begin() + static_cast<std::ptrdiff_t>(before), seconds.end());
    const int threads = right[static_cast<std::size_t>(best - seconds.begin()) - before];
    result["best_threads"] = threads;
    result["seconds"]["converted"] = timer_.seconds({on.converted(threads)})[0];
  }

  static void tell_head() {
    std::printf("%-7s %2s %7s %7s | %8s %6s |", "", "n", "roof", "2 n^2", "tessera", "% roof");
    for (const int threads : interleaved_teams) std::printf(" %11d thread%c |", threads, threads > 1 ? 's' : ' ');
    std::printf(" %6s %7s | %7s %7s %7s %7s\n", "% roof", "x faster", "there", "back", "in all", "x faster");
  }

  /// Times in microseconds; in brackets registers and bytes of local memory of a thread. Behind them the best number of
  /// threads: how many times as quick it is as Tessera on the usual layout, alone and with both conversions.
  static void tell(const nlohmann::json& result) {
    const double roof = result["roof_s"].get<double>();
    std::printf("%-7s %2d %7.1f %7.1f |", result["routine"].get<std::string>().c_str(), result["n"].get<int>(),
                roof * 1e6, result["square_roof_s"].get<double>() * 1e6);
    const nlohmann::json none = nlohmann::json::object(), seconds = result.value("seconds", none),
                         resources = result.value("resources", none), wrong = result.value("wrong", none);
    const auto of = [&](const std::string& who) { return seconds.value(who, 0.0); };
    const double ours = of("tessera");
    if (ours > 0) std::printf(" %8.1f %6.0f |", ours * 1e6, 100 * roof / ours);
    for (const auto& [name, of_kernel] : resources.items()) {
      std::printf(" %8.1f [%3d, %4d] |", of(name) * 1e6, of_kernel["registers"].template get<int>(),
                  of_kernel["local_bytes"].template get<int>());
    }
    if (result.contains("best_threads")) {
      const double best = of("interleaved_" + std::to_string(result["best_threads"].get<int>()));
      std::printf(" %6.0f %7.2f | %7.1f %7.1f %7.1f %7.2f", 100 * roof / best, ours / best, of("to_interleaved") * 1e6,
                  of("to_usual") * 1e6, of("converted") * 1e6, ours / of("converted"));
    }
    for (const auto& [name, why] : wrong.items())
      std::printf(" WRONG: %s, %s", name.c_str(), why.template get<std::string>().c_str());
    if (result.contains("error")) std::printf(" FAILED: %s", result["error"].get<std::string>().c_str());
    std::printf("\n");
    std::fflush(stdout);
  }

  const Arguments& arguments_;
  OpenedLibrary library_;
  cudaStream_t stream_;
  OwnDevice own_;
  Timer timer_;
  nlohmann::json report_;
  double copy_rate_ = 0;
  int failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"LU and Cholesky in the interleaved layout beside libtessera_device.so on the usual one"};
  app.add_option("--routines", arguments.routines)
      ->delimiter(',')
      ->check(CLI::IsMember(Arguments().routines))
      ->capture_default_str();
  app.add_option("--types", arguments.types, "letters of sd, in the order in which they are measured")
      ->check([](const std::string& letters) {
        return letters.find_first_not_of("sd") == std::string::npos ? "" : "s and d only";
      })
      ->capture_default_str();
  app.add_option("--sizes", arguments.sizes, "orders of the matrices")
      ->delimiter(',')
      ->check(CLI::IsMember(Arguments().sizes))
      ->capture_default_str();
  app.add_option("--batch", arguments.batch, "problems")->check(CLI::Range(3, 10000000))->capture_default_str();
  app.add_option("--library", arguments.library, "libtessera_device.so; without it the one of this build");
  arguments.add_to(app);
  CLI11_PARSE(app, argc, argv);
  return tessera::bench::exit_status_of("interleaved_bench", [&] { return Bench(arguments).run(); });
}
