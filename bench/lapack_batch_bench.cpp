// LAPACK on batches in device memory: libtessera_device.so beside cuBLAS, cuSOLVER and MAGMA, and beside the roof, on one GPU.
//
// Routines work in place, so a batch is there in several copies. Before a group of calls that is timed, as many copies as
// it has calls begin anew, outside the timed part; each call then has a copy of its own. Contestants take turns.
//
// Before a case is measured, some problems of each contestant's result are copied to the host and checked there
// (lapack_batch_check.hpp). Who is wrong has no times, and the program ends with status 1.
//
// The roof is the time of the compulsory traffic at the rate of a copy in device memory, or of the operations at that of a
// large gemm, whichever is more. All copies of a small batch may fit into the L2 cache, and then be beyond the roof.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/device_libraries.hpp"
#include "bench/device_timer.hpp"
#include "bench/lapack_batch_cases.hpp"
#include "bench/lapack_batch_check.hpp"
#include "bench/lapack_batch_contestants.hpp"
#include "bench/lapack_batch_memory.hpp"
#include "bench/lapack_batch_own.hpp"
#include "bench/lapack_batch_peers.hpp"
#include "bench/measuring.hpp"

namespace {

using namespace tessera::bench;  // all of it is this program's
using tessera::index_t;
using tessera::Level3;
using tessera::Routine;
using tessera::Scalar;
using tessera::ScalarType;
using tessera::Uplo;

struct Arguments : tessera::bench::Measuring {
  std::vector<std::string> routines = {batch_routine_names.begin(), batch_routine_names.end()};
  std::string types = "dszc";
  std::vector<index_t> sizes = default_sizes();
  std::vector<index_t> batches;  ///< none: those of the size
  index_t nrhs = 1;
  std::string library, cusolver, magma;
  double memory_gb = 20;
  double time_budget_s = 540;
  bool quick = false;
};

/// What is in the JSON for the model (lapack_batch_model.py).
nlohmann::json attributes_of_device() {
  const std::map<const char*, cudaDeviceAttr> attributes = {
      {"multiprocessors", cudaDevAttrMultiProcessorCount},
      {"clock_khz", cudaDevAttrClockRate},
      {"registers_per_multiprocessor", cudaDevAttrMaxRegistersPerMultiprocessor},
      {"shared_bytes_per_multiprocessor", cudaDevAttrMaxSharedMemoryPerMultiprocessor},
      {"shared_bytes_per_block", cudaDevAttrMaxSharedMemoryPerBlockOptin},
      {"reserved_shared_bytes_per_block", cudaDevAttrReservedSharedMemoryPerBlock},
      {"threads_per_multiprocessor", cudaDevAttrMaxThreadsPerMultiProcessor},
      {"blocks_per_multiprocessor", cudaDevAttrMaxBlocksPerMultiprocessor},
      {"l2_bytes", cudaDevAttrL2CacheSize},
  };
  nlohmann::json values;
  for (const auto& [name, attribute] : attributes) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, 0), name);
    values[name] = value;
  }
  return values;
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        library_(own_library(arguments.library)),
        to_(stream_and_cublas()),
        own_(library_, to_.stream),
        cusolver_(arguments.cusolver, to_.stream),
        magma_(arguments.magma, to_.stream) {
    if (!library_.is_open() && arguments.library != "none") throw std::runtime_error(library_.why_not());
    check(cudaEventCreate(&begin_of_group_), "event");
    check(cudaEventCreate(&end_of_group_), "event");
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "memory");
    report_ = machine();
    report_["device"] = attributes_of_device();
    report_["tessera"] =
        library_.is_open() ? std::filesystem::path(library_.name()).filename().string() : library_.why_not();
    report_["cusolver"] = cusolver_.library().is_open() ? cusolver_.library().name() : cusolver_.library().why_not();
    report_["magma"] = magma_.why_not().empty() ? magma_.name() : "none: " + magma_.why_not();
    report_["copy_bytes_per_s"] = copy_rate_ = measured_copy_rate(timer(), to_.stream);
    report_["results"] = nlohmann::json::array();
    // Matrices of random elements and the large gemm are beside it.
    arena_ = std::make_unique<Arena>(
        static_cast<std::size_t>(std::min(arguments.memory_gb * 1e9, 0.9 * static_cast<double>(free) - 4e9)));
  }

  /// @return whether all was right
  bool run() {
    std::printf("copy in device memory: %.0f GB/s, read and written; MAGMA: %s\n", copy_rate_ * 1e-9,
                report_["magma"].get<std::string>().c_str());
    for (const char letter : arguments_.types) {
      tessera::dispatch(type_of(letter), [&]<Scalar T>(T) { run_type<T>(letter); });
    }
    if (!arguments_.json.empty()) write(report_, arguments_.json);
    std::printf("%.0f s in all", seconds_since(begin_));
    if (left_out_ > 0) std::printf(", %d cases left out for lack of time (--time-budget)", left_out_);
    if (failed_ > 0) std::printf(", %d cases FAILED", failed_);
    std::printf("\n");
    return failed_ == 0;
  }

 private:
  // -- what is measured --

  static Libraries stream_and_cublas() {
    Libraries to;
    check(cudaStreamCreateWithFlags(&to.stream, cudaStreamNonBlocking), "stream");
    check(cublasCreate(&to.vendor), "cublasCreate");
    check(cublasSetStream(to.vendor, to.stream), "cublasSetStream");
    return to;
  }

  std::vector<LapackCase> cases_of(ScalarType type) const {
    std::vector<LapackCase> cases;
    for (const std::string& name : arguments_.routines) {
      LapackCase one{.routine = batch_routine(name), .type = type, .nrhs = arguments_.nrhs};
      const bool both = one.is(BatchRoutine::potrf);
      for (const Uplo uplo : both ? std::vector{Uplo::lower, Uplo::upper} : std::vector{Uplo::lower}) {
        for (const index_t n : arguments_.sizes) {
          for (const index_t count :
               arguments_.batches.empty() ? default_batches(n, arguments_.quick) : arguments_.batches) {
            one.uplo = uplo, one.n = n, one.count = count;
            cases.push_back(one);
          }
        }
      }
    }
    return cases;
  }

  template <Scalar T>
  void run_type(char letter) {
    peak_ = measured_peak<T>();
    report_["peak_flops"][std::string(1, letter)] = peak_;
    std::printf("large %cgemm: %.1f TFLOP/s\n", letter, peak_ * 1e-12);
    const Noise<T> noise(to_);
    const OwnLapack<T> own(library_);
    for (const LapackCase& one : cases_of(tessera::scalar_type_of<T>())) {
      if (arguments_.time_budget_s > 0 && seconds_since(begin_) > arguments_.time_budget_s)
        ++left_out_;
      else
        run_case<T>(one, noise, own);
    }
    check(cudaDeviceSynchronize(), "end");
  }

  /// As many copies as a group has calls, and as there is memory for; fewer problems where not even one copy fits.
  template <Scalar T>
  std::size_t fitted(LapackCase& c, std::size_t& workspace, const OwnLapack<T>& own) const {
    constexpr std::size_t most_copies = 16;
    constexpr std::size_t bytes_of_copies = std::size_t{4} << 30;
    const auto bytes = [&](std::size_t copies) {
      workspace = own_workspace<T>(c, own_, own);
      return LapackProblems<T>::bytes(c, copies) + Arena::rounded(workspace);
    };
    while (bytes(1) > arena_->bytes()) {
      if (c.count == 1) throw std::runtime_error("not even one problem fits into the memory");
      const auto fits =
          static_cast<double>(c.count) * static_cast<double>(arena_->bytes()) / static_cast<double>(bytes(1));
      c.count = std::clamp<index_t>(static_cast<index_t>(fits), 1, c.count - 1);
    }
    std::size_t copies = 1;
    while (copies < most_copies && bytes(copies + 1) <= std::min(arena_->bytes(), bytes_of_copies)) ++copies;
    return copies;
  }

  template <Scalar T>
  void run_case(LapackCase one, const Noise<T>& noise, const OwnLapack<T>& own) {
    nlohmann::json result = {{"routine", one.name()}, {"uplo", one.uplo_name()}, {"n", one.n}, {"asked", one.count}};
    try {
      std::size_t workspace_bytes = 0;
      const std::size_t copies = fitted<T>(one, workspace_bytes, own);
      arena_->clear();
      const LapackProblems<T> problems(*arena_, one, copies);
      char* const workspace = arena_->take<char>(workspace_bytes);
      const double flops = flops_of(one), bytes = compulsory_bytes(one);
      result.update({{"nrhs", one.solves() ? one.nrhs : 0},
                     {"batch", one.count},
                     {"copies", copies},
                     {"flops", flops},
                     {"bytes", bytes},
                     {"memory_roof_s", bytes / copy_rate_},
                     {"roof_s", std::max(bytes / copy_rate_, flops / peak_)}});
      noise.fill(problems);
      LapackContestants contestants;
      contestants.add("tessera", [&] {
        LapackContestant contestant = own_contestant(problems, own_, own);
        own_.set_workspace(workspace_bytes > 0 ? workspace : nullptr, workspace_bytes);
        return contestant;
      });
      contestants.add("cublas", [&] { return vendor_contestant(problems, to_.vendor, cusolver_); });
      if (one.is(BatchRoutine::getri))
        contestants.add("cublas_matinv", [&] { return vendor_matinv(problems, to_.vendor); });
      if (magma_.why_not().empty()) contestants.add("magma", [&] { return magma_contestant(problems, magma_); });
      measure(problems, contestants, result);
      for (const auto& [name, why] : contestants.without) result["without"][name] = why;
    } catch (const std::exception& error) {
      result["error"] = error.what();
    }
    tell(one, result);
    report_["results"].push_back(result);
    // Every few seconds: a machine that is lent for some minutes may be gone at the end.
    if (!arguments_.json.empty() && seconds_since(written_) > 3) {
      write(report_, arguments_.json);
      written_ = Clock::now();
    }
  }

  void tell(const LapackCase& one, const nlohmann::json& result) {
    std::printf("%-12s %-5s n=%-4lld x%-6lld ", one.name().c_str(), one.uplo_name(), static_cast<long long>(one.n),
                static_cast<long long>(one.count));
    const nlohmann::json seconds = result.value("seconds", nlohmann::json::object());
    const double flops = result.value("flops", 0.0), ours = seconds.value("tessera", 0.0);
    if (ours > 0) {
      std::printf("%9.1f GFLOP/s %5.0f GB/s, %3.0f %% of the roof;", flops / ours * 1e-9,
                  result["bytes"].get<double>() / ours * 1e-9, 100 * result["roof_s"].get<double>() / ours);
    }
    for (const auto& [who, time] : seconds.items()) {
      if (who == "tessera") continue;
      const auto theirs = time.template get<double>();
      std::printf(" %s %.1f", who.c_str(), flops / theirs * 1e-9);
      if (ours > 0) std::printf(" (x%.2f)", theirs / ours);
    }
    const nlohmann::json without = result.value("without", nlohmann::json::object());
    if (without.contains("tessera")) std::printf(" [%s]", without["tessera"].get<std::string>().c_str());
    const nlohmann::json wrong = result.value("wrong", nlohmann::json::object());
    for (const auto& [who, why] : wrong.items())
      std::printf(" WRONG: %s, %s", who.c_str(), why.template get<std::string>().c_str());
    if (result.contains("error")) std::printf(" FAILED: %s", result["error"].get<std::string>().c_str());
    std::printf("\n");
    std::fflush(stdout);
    if (result.contains("error") || result.contains("wrong")) ++failed_;
  }

  // -- right? --

  /// The largest residual of some problems after a call on the first copy. @throws std::runtime_error if it is too large
  template <Scalar T>
  double verified(const LapackProblems<T>& p, const LapackContestant& contestant) const {
    const LapackCase& c = p.what;
    check(cudaMemsetAsync(p.info, 0, static_cast<std::size_t>(c.count) * sizeof(int), to_.stream), "info");
    p.restore(1, to_.stream);
    contestant.call(0);
    check(cudaStreamSynchronize(to_.stream), contestant.name.c_str());
    std::vector<int> info(static_cast<std::size_t>(c.count));
    check(cudaMemcpy(info.data(), p.info, info.size() * sizeof(int), cudaMemcpyDeviceToHost), "info");
    if (std::any_of(info.begin(), info.end(), [](int of_one) { return of_one != 0; }))
      throw std::runtime_error("info is not 0");
    const auto n = static_cast<std::size_t>(c.n), last = static_cast<std::size_t>(c.count - 1);
    double largest = 0;
    for (const std::size_t i : n <= 512 ? std::vector{std::size_t{0}, last / 2, last} : std::vector{last}) {
      const std::vector<T> B = p.B.problem(p.B.start, i), X = p.B.problem(p.B.first(0), i);
      CheckedProblem problem{
          .what = c,
          .A = {p.A.problem(p.A.start, i), n},
          .result = contestant.result_in_b ? Stored(X, n) : Stored(p.A.problem(p.A.first(0), i), n),
          .pivots = c.has_pivots() ? p.pivots.problem(p.pivots.first(0), i) : std::vector<int>(),
          .inverts_matrix = contestant.inverts_matrix,
      };
      if (c.solves()) problem.B.assign(B.begin(), B.end()), problem.X.assign(X.begin(), X.end());
      largest = std::max(largest, lapack_residual(problem));
    }
    if (!(largest < lapack_bound)) throw std::runtime_error("the residual is " + std::to_string(largest));
    return largest;
  }

  // -- times --

  template <Scalar T>
  void measure(const LapackProblems<T>& p, const LapackContestants& contestants, nlohmann::json& result) {
    std::vector<const LapackContestant*> right;
    for (const LapackContestant& contestant : contestants.all) {
      if (p.what.has_pivots()) p.pivots.restore(p.copies, to_.stream);
      try {
        result["residual"][contestant.name] = verified(p, contestant);
        right.push_back(&contestant);
      } catch (const std::exception& error) {
        result["wrong"][contestant.name] = error.what();
        check(cudaStreamSynchronize(to_.stream), "after an error");
      }
    }
    std::vector<std::size_t> calls;
    std::vector<std::vector<double>> times(right.size());
    for (const LapackContestant* contestant : right) {
      const double once = group(p, *contestant, 1);
      calls.push_back(std::clamp<std::size_t>(static_cast<std::size_t>(arguments_.group_s / once), 1, p.copies));
    }
    for (int g = 0; g < arguments_.groups; ++g) {
      for (std::size_t i = 0; i < right.size(); ++i) times[i].push_back(group(p, *right[i], calls[i]));
    }
    for (std::size_t i = 0; i < right.size(); ++i) {
      std::sort(times[i].begin(), times[i].end());
      result["seconds"][right[i]->name] = times[i][times[i].size() / 2];
    }
  }

  /// Seconds of one of so many calls, each on a copy that begins anew.
  template <Scalar T>
  double group(const LapackProblems<T>& p, const LapackContestant& contestant, std::size_t calls) const {
    p.restore(calls, to_.stream);
    check(cudaEventRecord(begin_of_group_, to_.stream), "event");
    for (std::size_t i = 0; i < calls; ++i) contestant.call(i);
    check(cudaEventRecord(end_of_group_, to_.stream), "event");
    check(cudaEventSynchronize(end_of_group_), contestant.name.c_str());
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_of_group_, end_of_group_), "event");
    return milliseconds * 1e-3 / static_cast<double>(calls);
  }

  // -- the roof --

  /// Operations per second of a large gemm.
  template <Scalar T>
  double measured_peak() const {
    const index_t n = sizeof(T) == 16 ? 4096 : 8192;
    const auto elements = static_cast<std::size_t>(n * n);
    const DeviceArray<T> A(elements), B(elements), C(elements);
    for (const DeviceArray<T>* matrix : {&A, &B}) fill_random<T>(matrix->get(), n * n, 1, true);
    check(cudaDeviceSynchronize(), "gemm");
    Level3 call{.routine = Routine::gemm, .type = tessera::scalar_type_of<T>(), .m = n, .n = n, .k = n};
    call.A = A.get(), call.B = B.get(), call.C = C.get();
    call.lda = call.ldb = call.ldc = n;
    return flops_of(call) / timer().seconds({{"gemm", [&] { call_vendor<T>(to_.vendor, call); }}})[0];
  }

  Timer timer() const { return Timer(to_.stream, arguments_.group_s, arguments_.groups); }

  const Arguments& arguments_;
  Clock::time_point begin_ = Clock::now(), written_ = begin_;
  OpenedLibrary library_;
  Libraries to_;
  OwnDevice own_;
  Cusolver cusolver_;
  Magma magma_;
  std::unique_ptr<Arena> arena_;
  cudaEvent_t begin_of_group_ = nullptr, end_of_group_ = nullptr;
  nlohmann::json report_;
  double copy_rate_ = 0, peak_ = 0;
  int failed_ = 0, left_out_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"LAPACK on batches in device memory beside cuBLAS, cuSOLVER and MAGMA"};
  app.add_option("--routines", arguments.routines)
      ->delimiter(',')
      ->check(CLI::IsMember(Arguments().routines))
      ->capture_default_str();
  auto* const types =
      app.add_option("--types", arguments.types, "letters of sdcz, in the order in which they are measured")
          ->capture_default_str();
  auto* const sizes = app.add_option("--sizes", arguments.sizes, "orders of the matrices")
                          ->delimiter(',')
                          ->check(CLI::PositiveNumber)
                          ->capture_default_str();
  app.add_option("--batches", arguments.batches,
                 "problems; without it 1000, 10000 and 100000 up to n = 64, 1000 up to 1024, and 64 above")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--nrhs", arguments.nrhs, "right-hand sides")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--library", arguments.library,
                 "libtessera_device.so; without it the one of this build, `none`: peers only");
  app.add_option("--cusolver", arguments.cusolver, "libcusolver.so, if not where the loader looks");
  app.add_option("--magma", arguments.magma, "a library that has magma_dgetrf_batched and the like");
  app.add_option("--memory-gb", arguments.memory_gb, "of a case; where a batch does not fit, it has fewer problems")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  arguments.add_to(app);
  app.add_option("--time-budget", arguments.time_budget_s, "seconds after which no case begins; 0: no limit")
      ->capture_default_str();
  app.add_flag("--quick", arguments.quick, "d only, sizes 8, 16, 32, 64, 256 and 1024, 10000 or 1000 problems");
  CLI11_PARSE(app, argc, argv);
  if (arguments.quick) {
    if (types->empty()) arguments.types = "d";
    if (sizes->empty()) arguments.sizes = {8, 16, 32, 64, 256, 1024};
  }
  return tessera::bench::exit_status_of("lapack_batch_bench", [&] { return Bench(arguments).run(); });
}
