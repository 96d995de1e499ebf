// Measures how products with triangles are best computed on this GPU, and writes the table that plan/triangular_choice.hpp reads.
// usage: device_choices FILE    (src/kernels/plan/triangular_choices.inc)
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "bench/device_timer.hpp"
#include "core/level3.hpp"
#include "device/cuda/gpu_description.hpp"
#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/plan/triangular_choice.hpp"

namespace {

using namespace tessera;  // NOLINT(google-build-using-namespace): a program
using bench::check;
using kernels::cuda::Level3Kernels;
using kernels::cuda::Outcome;
using kernels::cuda::Submission;
using kernels::plan::ProductChoice;

void check(const Outcome& outcome, const char* what) {
  check(outcome.cublas, what);
  check(outcome.cuda, what);
}

/// A product in place of which one of two ways is taken only where it is clearly the quicker one: the other needs less.
constexpr double clearly = 0.98;

class Measurement {
 public:
  Measurement() {
    check(cudaFree(nullptr), "no GPU");
    check(kernels_.load(0, device::cuda::describe_device(0).profile), "kernels");
    check(cublasCreate(&to_.handle), "cublasCreate");
    check(cublasSetStream(to_.handle, to_.stream), "cublasSetStream");
  }

  template <Scalar T>
  void write(std::ostream& table) const {
    table << "// " << letter(scalar_type_of<T>()) << "\n{{\n";
    for (const index_t order : kernels::plan::chosen_orders) {
      const index_t widest = kernels::plan::chosen_columns.back();
      void *A = nullptr, *B = nullptr, *copy = nullptr;
      check(cudaMalloc(&A, static_cast<std::size_t>(order * order) * sizeof(T)), "cudaMalloc");
      check(cudaMalloc(&B, static_cast<std::size_t>(order * widest) * sizeof(T)), "cudaMalloc");
      check(cudaMalloc(&copy, static_cast<std::size_t>(order * widest) * sizeof(T)), "cudaMalloc");
      bench::fill<T>(A, order, order * order);
      bench::fill<T>(B, 0, order * widest);
      table << "    {{";
      for (const index_t columns : kernels::plan::chosen_columns) {
        const Level3 call{.routine = Routine::trmm,
                          .type = scalar_type_of<T>(),
                          .m = order,
                          .n = columns,
                          .A = A,
                          .lda = order,
                          .B = B,
                          .ldb = order,
                          .C = B,
                          .ldc = order};
        const ProductChoice choice = best(call, copy);
        table << (columns == kernels::plan::chosen_columns.front() ? "" : ", ") << "{" << choice.leaf_rows << ", "
              << (choice.without_copy ? "true" : "false") << "}";
        std::printf("%c %lld x %lld: %lld %s\n", letter(call.type), static_cast<long long>(order),
                    static_cast<long long>(columns), static_cast<long long>(choice.leaf_rows),
                    choice.without_copy ? "in place" : "");
      }
      table << "}},\n";
      std::fflush(stdout);
      for (void* const memory : {A, B, copy}) check(cudaFree(memory), "cudaFree");
    }
    table << "}},\n";
  }

 private:
  ProductChoice best(const Level3& call, void* copy) const {
    Level3 apart = call;
    apart.C = copy;
    std::vector<ProductChoice> ways;
    std::vector<bench::Contestant> contestants;
    const auto add = [&](const Level3& way, const ProductChoice& choice, const Submission& to) {
      contestants.push_back({"trmm", [=, this] { check(kernels_.multiply_triangle(way, choice, to), "trmm"); }});
    };
    for (const index_t leaf : kernels::plan::chosen_leaves) {
      if (leaf > 0 && leaf >= call.m) continue;
      ways.push_back({leaf, false});
      add(apart, ways.back(), to_);
    }
    std::vector<double> seconds = timer_.seconds(contestants);
    std::size_t quickest = 0;
    for (std::size_t i = 1; i < ways.size(); ++i) {
      if (seconds[i] < clearly * seconds[quickest]) quickest = i;
    }
    ProductChoice choice = ways[quickest];
    contestants.clear();
    Submission with_memory = to_;
    with_memory.workspace = copy;
    with_memory.workspace_bytes = static_cast<std::size_t>(call.m * call.n) * element_bytes(call.type);
    add(call, choice, with_memory);
    add(call, {0, true}, to_);
    seconds = timer_.seconds(contestants);
    choice.without_copy = seconds[1] < seconds[0] / clearly;
    return choice;
  }

  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
  }

  Level3Kernels kernels_;
  Submission to_{nullptr, make_stream(), nullptr, 0};
  bench::Timer timer_{to_.stream, 0.004, 3};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: device_choices FILE\n");
    return 2;
  }
  try {
    const Measurement measurement;
    std::ofstream table(argv[1]);
    measurement.write<float>(table);
    measurement.write<double>(table);
    measurement.write<std::complex<float>>(table);
    measurement.write<std::complex<double>>(table);
    if (!table.flush()) throw std::runtime_error(std::string("cannot write ") + argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_choices: %s\n", error.what());
    return 1;
  }
}
