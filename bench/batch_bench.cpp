// Batches in device memory: libtessera_device.so beside cuBLAS and the roof, on one GPU.
//
// Variable sizes, as the paper on batches of different sizes measures them (its Figures 12 to 16): square problems with
// orders drawn from [1, x], and shapes with one size fixed. Contestants take turns. Tessera has bounds and a workspace,
// bounds only, or a workspace only. cuBLAS has its grouped product with a group per problem. It also has a loop of
// calls over several streams, by the host's clock from the first call until the device is idle. The loop also runs as a
// CUDA graph that was captured once. One size: Tessera beside cuBLAS's batched gemm and trsm.
//
// Before a case is measured, Tessera's results are compared with those of cuBLAS's calls. A case that differs, or
// fails, has no times.
//
// So that calls can be repeated in place, triangles have small elements beside a diagonal of one, and products are added
// to C (beta = 1), which grows by as much each time.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/batch_calls.hpp"
#include "bench/batch_problems.hpp"
#include "bench/frame/device_libraries.hpp"

namespace tessera::bench {
namespace {

template <class T>
using RealOf = decltype(std::abs(T()));

struct Arguments : Measuring {
  std::vector<std::string> routines = {"gemm", "gemmt", "symm",  "hemm", "syrk",
                                       "herk", "syr2k", "her2k", "trmm", "trsm"};
  std::string types = "dszc";
  std::vector<index_t> sizes = {32, 64, 128, 256, 512};
  std::vector<std::string> panels = {"gemm:k=16", "syrk:k=32", "herk:k=32", "trsm:n=32"};
  index_t count = 2000;
  std::uint32_t seed = 1;
  std::vector<std::size_t> streams = {16, 32};
  std::vector<index_t> fixed = {4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512};
  std::vector<std::string> without;
  Variant variant;
  index_t ld_multiple = 1;

  bool has(const char* part) const { return std::find(without.begin(), without.end(), part) == without.end(); }
  void add_to(CLI::App& app) {
    time_budget_s = 120;
    add_names(app, "--routines", routines, routines, "");
    app.add_option("--types", types, "letters of sdcz, in the order in which they are measured")->capture_default_str();
    add_numbers(app, "--sizes", sizes, "orders are drawn between 1 and each of these");
    add_list(app, "--panels", panels, "routines measured also with one size fixed, and that size");
    add_number(app, "--count", count, "problems of different sizes");
    app.add_option("--seed", seed, "of the orders")->capture_default_str();
    add_numbers(app, "--streams", streams, "of cuBLAS's loops; the graph is of the last");
    add_numbers(app, "--fixed", fixed, "orders of problems of one size (gemm and trsm)");
    add_names(app, "--without", without, {"square", "panels", "fixed", "bounds", "grouped", "loops", "graphs"},
              "what is left out");
    variant.add_to(app);
    add_number(app, "--ld-multiple", ld_multiple, "leading dimensions are multiples of it");
    Measuring::add_to(app);
    add_time_budget_to(app);
  }
};

using Graph = std::unique_ptr<CUgraphExec_st, decltype(&cudaGraphExecDestroy)>;

class Bench : DeviceProgram {
 public:
  explicit Bench(const Arguments& arguments)
      : DeviceProgram(arguments, {"variable", "fixed"}),
        arguments_(arguments),
        streams_(arguments.streams.empty() ? 1
                                           : *std::max_element(arguments.streams.begin(), arguments.streams.end())) {
    report_.json().update(
        {{"count", arguments.count}, {"seed", arguments.seed}, {"ld_multiple", arguments.ld_multiple}});
    measure_copies();
  }

  /// @return whether all cases were right
  bool run() {
    for_types(arguments_.types, [&]<Scalar T>(char letter, T) { run_type<T>(letter); });
    return report_.finish();
  }

 private:
  // -- what is measured --

  /// Factors that make repeated calls neither overflow nor vanish, and an op that the routine has in this type.
  Level3 variant(Routine routine, ScalarType type) const {
    Level3 call{.routine = routine, .type = type};
    arguments_.variant.set(call);
    if (routine == Routine::herk || routine == Routine::her2k) {
      if (call.op_a == Op::trans) call.op_a = Op::conj_trans;
    } else if (call.is_rank_update() || routine == Routine::gemmt) {
      if (call.op_a == Op::conj_trans) call.op_a = Op::trans;
    }
    // cuBLAS computes gemmt by syrkx, which transposes exactly one of A and B.
    if (routine == Routine::gemmt) call.op_b = call.op_a == Op::no_trans ? Op::trans : Op::no_trans;
    if (!call.is_triangular()) {
      const bool has_complex_alpha = is_complex(type) && routine != Routine::herk;
      call.alpha = has_complex_alpha ? AnyScalar(0.25, 0.125) : AnyScalar(0.25);
      call.beta = 1;
    }
    return call;
  }

  std::vector<Sizes> drawn(index_t x) const {
    std::mt19937 random(arguments_.seed);
    std::vector<Sizes> all;
    for (index_t i = 0; i < arguments_.count; ++i) {
      const index_t order = 1 + static_cast<index_t>(random()) % x;
      all.push_back({order, order, order});
    }
    return all;
  }

  std::vector<Case> cases_of(ScalarType type) const {
    std::vector<Case> cases;
    for (const Routine routine : level3_routines) {
      const std::string name = name_of(routine);
      if (!exists(routine, type) ||
          std::find(arguments_.routines.begin(), arguments_.routines.end(), name) == arguments_.routines.end())
        continue;
      if (arguments_.has("square")) {
        for (const index_t x : arguments_.sizes) cases.push_back({variant(routine, type), "square", x, drawn(x)});
      }
      for (const std::string& panel : arguments_.has("panels") ? arguments_.panels : std::vector<std::string>()) {
        if (panel.rfind(name + ":", 0) == 0) add_panels(panel.substr(name.size() + 1), variant(routine, type), cases);
      }
      if (arguments_.has("fixed") && (routine == Routine::gemm || routine == Routine::trsm)) {
        for (const index_t n : arguments_.fixed) {
          const std::size_t count = n <= 32 ? 10000 : n <= 256 ? 2000 : 1000;
          cases.push_back({variant(routine, type), Case::one_size, n, std::vector<Sizes>(count, {n, n, n})});
        }
      }
    }
    return cases;
  }

  /// @param shape  "k=16"
  void add_panels(const std::string& shape, Level3 common, std::vector<Case>& cases) const {
    const std::size_t which = shape.size() > 2 && shape[1] == '=' ? std::string("mnk").find(shape[0]) : 3;
    if (which > 2) throw std::runtime_error("not a shape: " + shape);
    const index_t size = std::stoll(shape.substr(2));
    if (!common.has_k() && which == 1) {  // A is the small matrix: as in Cholesky factorizations, X A^H = B
      common.side = Side::right;
      if (common.is_triangular()) common.op_a = Op::conj_trans;
    }
    for (const index_t x : arguments_.sizes) {
      std::vector<Sizes> sizes = drawn(x);
      for (Sizes& of_one : sizes) of_one[which] = size;
      cases.push_back({common, shape, x, std::move(sizes)});
    }
  }

  template <Scalar T>
  void run_type(char letter) {
    const std::vector<Case> cases = cases_of(scalar_type_of<T>());
    if (cases.empty()) return;
    measure_peak<T>(letter);
    Sizes elements = {};
    index_t largest = 1;
    for (const Case& one : cases) {
      const Layout layout = laid_out(one, arguments_.ld_multiple);
      for (std::size_t i = 0; i < 3; ++i) elements[i] = std::max(elements[i], layout.elements[i]);
      for (const Sizes& sizes : one.sizes) largest = std::max({largest, sizes[0], sizes[1]});
    }
    const Memory<T> memory(elements, scale_beside_ones(largest));
    for (const Case& one : cases) run_case<T>(one, memory);
    check(cudaDeviceSynchronize(), "end");
  }

  template <Scalar T>
  void run_case(const Case& one, const Memory<T>& memory) {
    const std::string name = name_of(one.common);
    const auto measured = [&](nlohmann::json& result) {
      std::printf("%-7s %-8s %4lld ", name.c_str(), one.shape.c_str(), static_cast<long long>(one.x));
      const Problems problems = placed(laid_out(one, arguments_.ld_multiple), memory);
      double flops = 0, bytes = 0;
      for (const Level3& call : problems.calls) {
        flops += flops_of(call);
        bytes += compulsory_bytes(call);
      }
      const double roof_s = roof_.seconds(flops, bytes);
      result.update({{"count", problems.count()}, {"flops", flops}, {"bytes", bytes}, {"roof_s", roof_s}});
      measure(one, problems, memory, result);
    };
    report_.add(one.is_one_size() ? "fixed" : "variable", {{"routine", name}, {"shape", one.shape}, {"x", one.x}},
                measured, [](const nlohmann::json& result) {
                  const double own = result["seconds"]["tessera"], flops = result["flops"], roof_s = result["roof_s"];
                  std::printf("%9.1f us, %3.0f %% of the roof, on the host %6.1f us; GFLOP/s:", 1e6 * own,
                              100 * roof_s / own, 1e6 * result["host_seconds"]["tessera"].get<double>());
                  for (const auto& [who, time] : result["seconds"].items())
                    std::printf(" %s %.1f", who.c_str(), flops / time.template get<double>() * 1e-9);
                });
  }

  template <Scalar T>
  void measure(const Case& one, const Problems& problems, const Memory<T>& memory, nlohmann::json& result) {
    fill_a(problems, memory);
    std::size_t bytes = 0;
    check(tessera_device_batch_workspace(to_.own, problems.count(), &bytes), "workspace");
    const DeviceArray<char> workspace(bytes);
    std::vector<Contestant> contestants = own_contestants<T>(one, problems, workspace.get(), bytes);
    const std::vector<Level3> by_vendor = vendor_calls(problems, memory);
    verify(contestants, one, problems, by_vendor, memory);
    Graph graph(nullptr, cudaGraphExecDestroy);
    if (one.is_one_size())
      contestants.push_back({"cublas", [&] { call_vendor_batched<T>(to_.vendor, problems); }});
    else
      add_vendor<T>(problems, by_vendor, graph, contestants, result);
    const std::vector<double> seconds = timer_.seconds(contestants);
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      result["seconds"][contestants[i].name] = seconds[i];
      if (!contestants[i].until_idle) result["host_seconds"][contestants[i].name] = host_seconds(contestants[i]);
    }
  }

  template <Scalar T>
  std::vector<Contestant> own_contestants(const Case& one, const Problems& problems, char* workspace,
                                          std::size_t bytes) const {
    const auto with = [&](const char* name, std::size_t size, auto form) {
      return Contestant{name, [this, form, memory = size > 0 ? workspace : nullptr, size] {
                          check(tessera_device_set_workspace(to_.own, memory, size), "workspace");
                          call_own<T>(to_.own, form);
                        }};
    };
    if (one.is_one_size()) return {with("tessera", bytes, OneSize{problems})};
    std::vector<Contestant> all = {with("tessera", bytes, DifferentSizes{problems, true})};
    if (arguments_.has("bounds")) {
      all.push_back(with("tessera_bounds", 0, DifferentSizes{problems, true}));
      all.push_back(with("tessera_workspace", bytes, DifferentSizes{problems, false}));
    }
    return all;
  }

  /// Different sizes by cuBLAS. @param graph  gets the one that is launched
  template <Scalar T>
  void add_vendor(const Problems& problems, const std::vector<Level3>& calls, Graph& graph,
                  std::vector<Contestant>& contestants, nlohmann::json& result) const {
    if constexpr (std::floating_point<T>) {
      if (problems.common().routine == Routine::gemm && arguments_.has("grouped"))
        contestants.push_back({"grouped", [&, grouped = Grouped<T>(problems)] { grouped.call(to_.vendor); }});
    }
    for (const std::size_t streams : arguments_.has("loops") ? arguments_.streams : std::vector<std::size_t>()) {
      contestants.push_back(
          {"loop_" + std::to_string(streams), [&, streams] { streams_.loop<T>(calls, streams); }, true});
    }
    if (!arguments_.has("graphs") || arguments_.streams.empty()) return;
    const std::size_t streams = arguments_.streams.back();
    try {
      graph.reset(streams_.captured<T>(to_.stream, calls, streams));
      contestants.push_back(
          {"graph_" + std::to_string(streams), [&] { check(cudaGraphLaunch(graph.get(), to_.stream), "graph"); }});
    } catch (const std::exception& error) {  // cuBLAS does not promise that it can be captured
      result["without_graph"] = error.what();
    }
  }

  /// How long a call takes to return, while the device is busy with the one before.
  double host_seconds(const Contestant& contestant) const {
    std::vector<double> seconds(9);  // fewer than the queue of a stream holds, so that none has to wait
    check(cudaStreamSynchronize(to_.stream), "before");
    for (double& of_one : seconds) of_one = seconds_of(contestant.call);
    check(cudaStreamSynchronize(to_.stream), contestant.name.c_str());
    return median(seconds);
  }

  // -- matrices --

  template <class T>
  void copy(T* to, const T* from, index_t elements) const {
    check(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(elements) * sizeof(T), cudaMemcpyDeviceToDevice, to_.stream),
        "copy");
  }

  template <Scalar T>
  void fill_a(const Problems& problems, const Memory<T>& memory) const {
    const bool is_triangular = problems.common().is_triangular();
    copy<T>(memory.A.get(), is_triangular ? memory.triangles.get() : memory.B.get() + Memory<T>::shift,
            problems.elements[in_a]);
    // Libraries need not agree on a Hermitian matrix whose diagonal is not real.
    if (is_triangular || problems.common().routine == Routine::hemm) {
      const index_t longest = std::max(problems.bounds[0], problems.bounds[1]);
      const DeviceArray<T> ones(std::vector<T>(static_cast<std::size_t>(longest), T(1)));
      for (std::size_t i = 0; i < problems.calls.size(); ++i) {
        const Level3& call = problems.calls[i];
        check(cudaMemcpy2DAsync(memory.A.get() + problems.begins[in_a][i],
                                static_cast<std::size_t>(call.lda + 1) * sizeof(T), ones.get(), sizeof(T), sizeof(T),
                                static_cast<std::size_t>(shape_of_a(call).rows), cudaMemcpyDeviceToDevice, to_.stream),
              "diagonal");
      }
      check(cudaStreamSynchronize(to_.stream), "diagonal");
    }
  }

  /// cuBLAS's trmm writes to another matrix: in place it would have to copy first.
  template <Scalar T>
  static std::vector<Level3> vendor_calls(const Problems& problems, const Memory<T>& memory) {
    std::vector<Level3> calls = problems.calls;
    if (problems.common().routine == Routine::trmm) {
      for (std::size_t i = 0; i < calls.size(); ++i) calls[i].C = memory.apart.get() + problems.begins[in_c][i];
    }
    return calls;
  }

  // -- right? --

  /// Frobenius norms of parts of a memory that lie one behind the other. @param begins of the parts
  template <Scalar T>
  std::vector<RealOf<T>> norms(const T* memory, const std::vector<index_t>& begins, index_t end) const {
    const DeviceArray<RealOf<T>> results(begins.size());
    check(cublasSetPointerMode(to_.vendor, CUBLAS_POINTER_MODE_DEVICE), "pointer mode");
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const index_t elements = (i + 1 < begins.size() ? begins[i + 1] : end) - begins[i];
      check(Vendor<T>::norm(to_.vendor, elements, vendor_elements(memory + begins[i]), 1, results.get() + i), "norm");
    }
    check(cublasSetPointerMode(to_.vendor, CUBLAS_POINTER_MODE_HOST), "pointer mode");
    std::vector<RealOf<T>> norms(begins.size());
    check(cudaStreamSynchronize(to_.stream), "norm");
    check(cudaMemcpy(norms.data(), results.get(), norms.size() * sizeof(RealOf<T>), cudaMemcpyDeviceToHost), "norm");
    return norms;
  }

  /// Compares each contestant once with cuBLAS, problem by problem; problems of one size all at once. Leaves C as it
  /// begins. @throws std::runtime_error if one is wrong
  template <Scalar T>
  void verify(const std::vector<Contestant>& contestants, const Case& one, const Problems& problems,
              const std::vector<Level3>& by_vendor, const Memory<T>& memory) const {
    T* const C = memory.C.get();
    T* const apart = memory.apart.get();
    const index_t end = problems.elements[in_c];
    const std::vector<index_t> begins = one.is_one_size() ? std::vector<index_t>{0} : problems.begins[in_c];
    const auto restore = [&] { copy<T>(C, memory.start.get(), end); };
    restore();
    copy<T>(apart, memory.start.get(), end);
    if (one.is_one_size()) {
      call_vendor_batched<T>(to_.vendor, problems);
    } else {
      check(cudaStreamSynchronize(to_.stream), "before cublas");
      streams_.loop<T>(by_vendor, arguments_.streams.empty() ? 1 : arguments_.streams.back());
      check(cudaDeviceSynchronize(), "cublas");
    }
    if (by_vendor.front().C == problems.common().C) copy<T>(apart, C, end);
    const std::vector<RealOf<T>> expected = norms(apart, begins, end);

    // Rounding errors of sums of so many products, with a margin. Elements of C began between -1/2 and 1/2: where few
    // happen to cancel, they are what the errors are measured by.
    const index_t terms = *std::max_element(problems.bounds.begin(), problems.bounds.end());
    const double bound = 8 * std::numeric_limits<RealOf<T>>::epsilon() * std::sqrt(static_cast<double>(terms) + 8);
    for (const Contestant& contestant : contestants) {
      restore();
      check(cudaMemsetAsync(problems.info.get(), 0xff, problems.calls.size() * sizeof(int), to_.stream), "info");
      contestant.call();
      const T minus_one = T(-1);
      check(Vendor<T>::axpy(to_.vendor, end, vendor_elements(&minus_one), vendor_elements(static_cast<const T*>(apart)),
                            1, vendor_elements(C), 1),
            "difference");
      const std::vector<RealOf<T>> differences = norms<T>(C, begins, end);
      for (std::size_t i = 0; i < begins.size(); ++i) {
        const auto elements = static_cast<double>((i + 1 < begins.size() ? begins[i + 1] : end) - begins[i]);
        const double relative = differences[i] / (expected[i] + std::sqrt(elements / 12));
        if (!(relative <= bound)) {
          const Sizes& sizes = one.sizes[i];
          throw std::runtime_error(contestant.name + ": problem " + std::to_string(i) + " (" +
                                   std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " +
                                   std::to_string(sizes[2]) + ") differs from cuBLAS by " +
                                   std::to_string(relative / bound) + " times the bound");
        }
      }
      if (!one.is_one_size()) {
        std::vector<int> info(problems.calls.size());
        check(cudaMemcpy(info.data(), problems.info.get(), info.size() * sizeof(int), cudaMemcpyDeviceToHost), "info");
        if (std::any_of(info.begin(), info.end(), [](int of_one) { return of_one != 0; }))
          throw std::runtime_error(contestant.name + ": info is not 0");
      }
    }
    restore();
    check(cudaStreamSynchronize(to_.stream), "after");
  }

  const Arguments& arguments_;
  Streams streams_;
};

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Arguments>("batch_bench", "batches of small problems in device memory beside cuBLAS", argc, argv,
                                [](const Arguments& arguments) { return Bench(arguments).run(); });
}
