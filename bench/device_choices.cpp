// Measures how triangular products and solves are best computed on this GPU, and writes the tables that
// plan/product_choice.hpp and plan/solve_choice.hpp read.
// usage: device_choices FOLDER [products | solves]    (src/kernels/plan)
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "bench/frame/device_libraries.hpp"
#include "bench/frame/options.hpp"
#include "calls/level3.hpp"
#include "device/cuda/gpu_description.hpp"
#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/plan/product_choice.hpp"

namespace tessera::bench {
namespace {

using bench::check;
using kernels::cuda::Level3Kernels;
using kernels::cuda::Outcome;
using kernels::cuda::Submission;
using kernels::plan::ProductChoice;
using kernels::plan::SolveChoice;

void check(const Outcome& outcome, const char* what) {
  check(outcome.cublas, what);
  check(outcome.cuda, what);
}

/// One of two ways is taken only where it is clearly the quicker one: the other needs less.
constexpr double clearly = 0.98;

struct Options {
  std::string folder;
  std::string only;

  void add_to(CLI::App& app) {
    app.add_option("folder", folder, "of the tables: src/kernels/plan")->required();
    app.add_option("only", only, "products or solves; without it both")->check(CLI::IsMember({"products", "solves"}));
  }
};

struct Matrices {
  void* A;
  void* B;
  void* copy;  ///< as large as B
};

class Measurement {
 public:
  Measurement() {
    check(cudaFree(nullptr), "no GPU");
    check(kernels_.load(0, device::cuda::describe_device(0).profile), "kernels");
    check(kernels_.load_chains(), "kernels");
    check(cublasCreate(&to_.handle), "cublasCreate");
    check(cublasSetStream(to_.handle, to_.stream), "cublasSetStream");
    check(cudaMalloc(&to_.chain_memory, kernels::cuda::chain_memory_bytes), "cudaMalloc");
    check(cudaMemsetAsync(to_.chain_memory, 0, kernels::cuda::chain_memory_bytes, to_.stream), "cudaMemset");
  }

  /// @param best (call, matrices): the text of the choice
  template <class Best>
  void write(const std::string& path, Routine routine, const char* fields, Best best) const {
    std::ofstream table(path);
    table << "// One " << machine()["gpu"].get<std::string>() << ", cuBLAS " << CUBLAS_VERSION
          << ". Rows: chosen_orders; columns: chosen_columns. " << fields << "\n";
    for (const ScalarType type : scalar_types) {
      table << "// " << letter(type) << "\n{{\n";
      for (const index_t order : kernels::plan::chosen_orders) {
        dispatch(type, [&]<Scalar T>(T) { write_order<T>(table, routine, order, best); });
      }
      table << "}},\n";
    }
    if (!table.flush()) throw std::runtime_error("cannot write " + path);
  }

  std::string best_product(const Level3& call, const Matrices& on) const {
    Level3 apart = call;
    apart.C = on.copy;
    std::vector<ProductChoice> ways;
    for (const index_t leaf : kernels::plan::chosen_leaves) {
      if (leaf < call.m) ways.push_back({leaf, false});
    }
    const auto multiply = [&](const Level3& way, const ProductChoice& choice, const Submission& to) {
      return Contestant{"trmm", [=, this] { check(kernels_.multiply_triangle(way, choice, to), "trmm"); }};
    };
    ProductChoice choice = quickest(ways, [&](const ProductChoice& way) { return multiply(apart, way, to_); });
    Submission with_memory = to_;
    with_memory.workspace = on.copy;
    with_memory.workspace_bytes = static_cast<std::size_t>(call.m * call.n) * element_bytes(call.type);
    const std::vector<double> seconds =
        timer_.seconds({multiply(call, choice, with_memory), multiply(call, {0, true}, to_)});
    choice.without_copy = seconds[1] < seconds[0] / clearly;
    return "{" + std::to_string(choice.leaf_rows) + ", " + (choice.without_copy ? "true" : "false") + "}";
  }

  std::string best_solve(const Level3& call) const {
    std::vector<SolveChoice> ways = {{0, 8}};
    for (const index_t rows : kernels::plan::chosen_chain_rows) {
      for (const int strip : kernels::plan::chain_strips) {
        const index_t of_launch = std::min(rows, call.m);
        if (rows < 2 * call.m && call.n <= widest_chain && kernels::plan::fits_chain(of_launch, call.n, strip))
          ways.push_back({rows, strip});
      }
    }
    const SolveChoice choice = quickest(ways, [&](const SolveChoice& way) {
      return Contestant{"trsm", [=, this] { check(kernels_.solve_triangle(call, way, to_), "trsm"); }};
    });
    return "{" + std::to_string(choice.chain_rows) + ", " + std::to_string(choice.chain_strip) + "}";
  }

 private:
  /// Every strip of a chain reads all of the triangle: that pays for few of them.
  static constexpr index_t widest_chain = 2048;

  template <Scalar T, class Best>
  void write_order(std::ostream& table, Routine routine, index_t order, Best best) const {
    const index_t widest = kernels::plan::chosen_columns.back();
    const auto elements = static_cast<std::size_t>(order * widest);
    const DeviceArray<T> A(static_cast<std::size_t>(order * order)), B(elements), copy(elements);
    const Matrices on = {A.get(), B.get(), copy.get()};
    fill<T>(on.A, order, order * order);
    fill<T>(on.B, 0, order * widest);
    table << "    {{";
    for (const index_t columns : kernels::plan::chosen_columns) {
      Level3 call{.routine = routine,
                  .type = scalar_type_of<T>(),
                  .m = order,
                  .n = columns,
                  .A = on.A,
                  .lda = order,
                  .C = on.B,
                  .ldc = order};
      if (routine == Routine::trmm) call.B = call.C, call.ldb = call.ldc;
      const std::string choice = best(call, on);
      table << (columns == kernels::plan::chosen_columns.front() ? "" : ", ") << choice;
      std::printf("%c%s %lld x %lld: %s\n", letter(call.type), name_of(routine), static_cast<long long>(order),
                  static_cast<long long>(columns), choice.c_str());
    }
    table << "}},  // " << order << "\n";
    std::fflush(stdout);
    check(cudaStreamSynchronize(to_.stream), "end");
  }

  /// The first of those that no later one clearly surpasses.
  template <class Choice, class Contest>
  Choice quickest(const std::vector<Choice>& ways, Contest contest) const {
    std::vector<Contestant> contestants;
    for (const Choice& way : ways) contestants.push_back(contest(way));
    const std::vector<double> seconds = timer_.seconds(contestants);
    std::size_t best = 0;
    for (std::size_t i = 1; i < ways.size(); ++i) {
      if (seconds[i] < clearly * seconds[best]) best = i;
    }
    return ways[best];
  }

  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
  }

  Level3Kernels kernels_;
  Submission to_{.stream = make_stream()};
  Timer timer_{to_.stream, 0.004, 3};
};

bool measure(const Options& options) {
  const Measurement measurement;
  if (options.only != "solves") {
    measurement.write(options.folder + "/product_choices.inc", Routine::trmm, "{leaf_rows, without_copy}",
                      [&](const Level3& call, const Matrices& on) { return measurement.best_product(call, on); });
  }
  if (options.only != "products") {
    measurement.write(options.folder + "/solve_choices.inc", Routine::trsm, "{chain_rows, chain_strip}",
                      [&](const Level3& call, const Matrices&) { return measurement.best_solve(call); });
  }
  return true;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Options>("device_choices", "Measures the tables of choices for this GPU", argc, argv, measure);
}
