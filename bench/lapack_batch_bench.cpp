// LAPACK on batches in device memory: libtessera_device.so beside cuBLAS, cuSOLVER and MAGMA, and beside the roof, on one GPU.
//
// Routines work in place, so a batch is there in several copies. Each call of a timed group has a copy of its own. The
// copies are restored before the group, outside the timed part. Contestants take turns.
//
// Before a case is measured, some problems of each contestant's result are copied to the host and checked there
// (lapack_batch_check.hpp). A contestant with a wrong result has no times, and the program ends with status 1.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/frame/device_libraries.hpp"
#include "bench/lapack_batch_cases.hpp"
#include "bench/lapack_batch_check.hpp"
#include "bench/lapack_batch_contestants.hpp"
#include "bench/lapack_batch_memory.hpp"
#include "bench/lapack_batch_peers.hpp"

namespace tessera::bench {
namespace {

struct Arguments : Measuring {
  std::vector<std::string> routines = measured_routine_names();
  std::string types = "dszc";
  std::vector<index_t> sizes = {4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 3072};
  std::vector<index_t> batches;  ///< none: those of the size
  index_t nrhs = 1;
  std::string cusolver, magma;
  double memory_gb = 20;
  bool quick = false;

  void add_to(CLI::App& app) {
    time_budget_s = 540;
    add_names(app, "--routines", routines, routines, "");
    const auto* const of_types =
        app.add_option("--types", types, "letters of sdcz, in the order in which they are measured")
            ->capture_default_str();
    const auto* const of_sizes = add_numbers(app, "--sizes", sizes, "orders of the matrices");
    add_numbers(app, "--batches", batches,
                "problems; without it 1000, 10000 and 100000 up to n = 64, 1000 up to 1024, and 64 above");
    add_number(app, "--nrhs", nrhs, "right-hand sides");
    app.add_option("--cusolver", cusolver, "libcusolver.so, if not where the loader looks");
    app.add_option("--magma", magma, "a library that has magma_dgetrf_batched and the like");
    add_number(app, "--memory-gb", memory_gb, "of a case; where a batch does not fit, it has fewer problems");
    Measuring::add_to(app);
    add_time_budget_to(app);
    app.add_flag("--quick", quick, "d only, sizes 8, 16, 32, 64, 256 and 1024, 10000 or 1000 problems");
    app.parse_complete_callback([=, this] {
      if (quick && of_types->empty()) types = "d";
      if (quick && of_sizes->empty()) sizes = {8, 16, 32, 64, 256, 1024};
    });
  }
};

class Bench : DeviceProgram {
 public:
  explicit Bench(const Arguments& arguments)
      : DeviceProgram(arguments, {"results"}),
        arguments_(arguments),
        cusolver_(arguments.cusolver, to_.stream),
        magma_(arguments.magma, to_.stream) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "memory");
    nlohmann::json& head = report_.json();
    head["cusolver"] = cusolver_.library().is_open() ? cusolver_.library().name() : cusolver_.library().why_not();
    head["magma"] = magma_.why_not().empty() ? magma_.name() : "none: " + magma_.why_not();
    std::printf("MAGMA: %s\n", head["magma"].get<std::string>().c_str());
    measure_copies();
    // Matrices of random elements and the large gemm are beside it.
    arena_ = std::make_unique<Arena>(
        static_cast<std::size_t>(std::min(arguments.memory_gb * 1e9, 0.9 * static_cast<double>(free) - 4e9)));
  }

  /// @return whether all was right
  bool run() {
    for_types(arguments_.types, [&]<Scalar T>(char letter, T) { run_type<T>(letter); });
    return report_.finish();
  }

 private:
  // -- what is measured --

  std::vector<LapackCase> cases_of(ScalarType type) const {
    std::vector<LapackCase> cases;
    for (const std::string& name : arguments_.routines) {
      LapackCase one{.routine = measured_routine(name), .type = type, .nrhs = arguments_.nrhs};
      const bool both = one.is(Routine::potrf);
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
    measure_peak<T>(letter);
    const Noise<T> noise(to_);
    for (const LapackCase& one : cases_of(scalar_type_of<T>())) run_case<T>(one, noise);
    check(cudaDeviceSynchronize(), "end");
  }

  /// As many copies as a group has calls, and as there is memory for; fewer problems where not even one copy fits.
  template <Scalar T>
  std::size_t fitted(LapackCase& c, std::size_t& workspace) const {
    constexpr std::size_t most_copies = 16;
    constexpr std::size_t bytes_of_copies = std::size_t{4} << 30;
    const auto bytes = [&](std::size_t copies) {
      workspace = own_workspace<T>(c, to_.own);
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
  void run_case(LapackCase one, const Noise<T>& noise) {
    const nlohmann::json described = {
        {"routine", one.name()}, {"uplo", one.uplo_name()}, {"n", one.n}, {"asked", one.count}};
    const auto measured = [&](nlohmann::json& result) {
      std::printf("%-12s %-5s n=%-4lld ", one.name().c_str(), one.uplo_name(), static_cast<long long>(one.n));
      std::size_t workspace_bytes = 0;
      const std::size_t copies = fitted<T>(one, workspace_bytes);
      arena_->clear();
      const LapackProblems<T> problems(*arena_, one, copies);
      char* const workspace = arena_->take<char>(workspace_bytes);
      const double flops = flops_of(one), bytes = compulsory_bytes(one);
      std::printf("x%-6lld ", static_cast<long long>(one.count));
      result.update({{"nrhs", one.solves() ? one.nrhs : 0},
                     {"batch", one.count},
                     {"copies", copies},
                     {"flops", flops},
                     {"bytes", bytes},
                     {"memory_roof_s", roof_.memory_s(bytes)},
                     {"roof_s", roof_.seconds(flops, bytes)}});
      noise.fill(problems);
      LapackContestants contestants;
      contestants.add("tessera", [&] {
        check(tessera_device_set_workspace(to_.own, workspace_bytes > 0 ? workspace : nullptr, workspace_bytes),
              "workspace");
        return own_contestant(problems, to_.own);
      });
      contestants.add("cublas", [&] { return vendor_contestant(problems, to_.vendor, cusolver_); });
      if (one.is(Routine::getri)) contestants.add("cublas_matinv", [&] { return vendor_matinv(problems, to_.vendor); });
      if (magma_.why_not().empty()) contestants.add("magma", [&] { return magma_contestant(problems, magma_); });
      measure(problems, contestants, result);
      for (const auto& [name, why] : contestants.without) result["without"][name] = why;
    };
    report_.add("results", described, measured, tell);
  }

  static void tell(const nlohmann::json& result) {
    const auto part = [&](const char* name) { return result.value(name, nlohmann::json::object()); };
    const nlohmann::json seconds = part("seconds"), without = part("without");
    const double flops = result["flops"], ours = seconds.value("tessera", 0.0);
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
    if (without.contains("tessera")) std::printf(" [%s]", without["tessera"].get<std::string>().c_str());
    for (const auto& [who, why] : part("wrong").items())
      std::printf(" WRONG: %s, %s", who.c_str(), why.template get<std::string>().c_str());
  }

  // -- right, and how quick? --

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

  /// Of those that are right, in turns; each call of a group works on a copy that begins anew.
  template <Scalar T>
  void measure(const LapackProblems<T>& p, const LapackContestants& contestants, nlohmann::json& result) const {
    std::vector<Contestant> right;
    std::size_t next = 0;  // copy
    for (const LapackContestant& contestant : contestants.all) {
      if (p.what.has_pivots()) p.pivots.restore(p.copies, to_.stream);
      try {
        result["residual"][contestant.name] = verified(p, contestant);
        right.push_back({.name = contestant.name,
                         .call = [&contestant, &next] { contestant.call(next++); },
                         .restore =
                             [&p, &next, stream = to_.stream](int calls) {
                               next = 0;
                               p.restore(static_cast<std::size_t>(calls), stream);
                             },
                         .most_calls = static_cast<int>(p.copies)});
      } catch (const std::exception& error) {
        result["wrong"][contestant.name] = error.what();
        check(cudaStreamSynchronize(to_.stream), "after an error");
      }
    }
    for (std::size_t i = 0; const double seconds : timer_.seconds(right)) result["seconds"][right[i++].name] = seconds;
  }

  const Arguments& arguments_;
  Cusolver cusolver_;
  Magma magma_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Arguments>("lapack_batch_bench",
                                "LAPACK on batches in device memory beside cuBLAS, cuSOLVER and MAGMA", argc, argv,
                                [](const Arguments& arguments) { return Bench(arguments).run(); });
}
