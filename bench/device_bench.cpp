// Triangular solves and products in device memory: libtessera_device.so beside cuBLAS, the paper's method and the roof,
// on one GPU.
//
// Contestants take turns. Tessera works in place, without and with a workspace (tessera/device_blas.h). cuBLAS works in
// place, and its trmm also from one matrix to another. The recursion of KBLAS calls cuBLAS at its leaves of 128 rows
// (section 3.1 of the paper). The leaves of KBLAS itself are not measured here. cuBLAS's gemm of the same shape has
// twice the operations and is the roof. A time is that of calls that follow each other in a stream. It is the median
// over some groups of calls.
//
// Triangles have small elements beside a diagonal of one, so that calls can be repeated in place.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <complex>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/frame/device_libraries.hpp"
#include "calls/level3.hpp"
#include "kernels/plan/triangular_recursion.hpp"
#include "tessera/device_blas.h"

namespace tessera::bench {
namespace {

/// Tessera's function, and that of its workspace. The API differs between types by a letter and by how a scalar is passed.
template <Routine routine, class T>
constexpr auto own_routine = nullptr;
#define TESSERA_ROUTINE(routine, letter, T)         \
  template <>                                       \
  constexpr auto own_routine<Routine::routine, T> = \
      std::pair(&tessera_device_##letter##routine, &tessera_device_##letter##routine##_workspace);
#include "device_api/routines.def"

template <Scalar T>
constexpr auto own_routine_of(const Level3& c) {
  return c.routine == Routine::trsm ? own_routine<Routine::trsm, T> : own_routine<Routine::trmm, T>;
}

/// A triangular call in place.
template <Scalar T>
void call_own(const Libraries& to, const Level3& c) {
  const T alpha = scalar_cast<T>(c.alpha);
  const auto run = [&](auto function, auto scalar, auto* A, auto* B) {
    check(
        function(to.own, own(c.side), own(c.uplo), own(c.op_a), TESSERA_NON_UNIT, c.m, c.n, scalar, A, c.lda, B, c.ldc),
        "tessera");
  };
  const auto function = own_routine_of<T>(c).first;
  if constexpr (std::floating_point<T>)
    run(function, alpha, static_cast<const T*>(c.A), static_cast<T*>(c.C));
  else
    run(function, static_cast<const void*>(&alpha), c.A, c.C);
}

template <Scalar T>
std::size_t workspace_of(const Libraries& to, const Level3& c) {
  const auto function = own_routine_of<T>(c).second;
  std::size_t bytes = 0;
  check(function(to.own, own(c.side), own(c.uplo), own(c.op_a), TESSERA_NON_UNIT, c.m, c.n, &bytes), "workspace");
  return bytes;
}

struct Matrices {
  void* A;
  void* B;
  void* apart;  ///< as large as B: what is not in place, and the workspace
};

template <Scalar T>
std::vector<Contestant> contestants_for(const Libraries& to, const Level3& call, const Matrices& on) {
  constexpr index_t paper_leaf = 128;
  std::vector<Contestant> all;
  const std::size_t bytes = workspace_of<T>(to, call);
  all.push_back({"tessera", [=] {
                   check(tessera_device_set_workspace(to.own, nullptr, 0), "workspace");
                   call_own<T>(to, call);
                 }});
  if (bytes > 0) {
    all.push_back({"tessera_workspace", [=] {
                     check(tessera_device_set_workspace(to.own, on.apart, bytes), "workspace");
                     call_own<T>(to, call);
                   }});
  }
  all.push_back({"cublas", [=] { call_vendor<T>(to.vendor, call); }});
  if (call.routine == Routine::trmm) {
    Level3 apart = call;
    apart.C = on.apart;
    all.push_back({"cublas_apart", [=] { call_vendor<T>(to.vendor, apart); }});
  }
  all.push_back({"paper", [=] {
                   kernels::plan::run_in_parts(call, paper_leaf,
                                               [&](const Level3& part) { call_vendor<T>(to.vendor, part); });
                 }});
  Level3 gemm = call;
  gemm.routine = Routine::gemm;
  const bool left = call.side == Side::left;
  gemm.k = left ? call.m : call.n;
  gemm.A = left ? on.A : on.B;
  gemm.lda = left ? call.lda : call.ldc;
  gemm.B = left ? on.B : on.A;
  gemm.ldb = left ? call.ldc : call.lda;
  gemm.op_a = left ? call.op_a : Op::no_trans;
  gemm.op_b = left ? Op::no_trans : call.op_a;
  gemm.C = on.apart;
  all.push_back({"gemm", [=] { call_vendor<T>(to.vendor, gemm); }});
  return all;
}

struct Arguments : Measuring {
  std::vector<std::string> routines = {"trsm", "trmm"};
  std::string types = "sdcz";
  std::vector<index_t> orders = {256, 1024, 4096, 16384};
  std::vector<std::string> columns = {"1", "32", "128", "512", "2048", "M"};
  std::vector<std::string> sides = {"left"};
  Variant variant;

  void add_to(CLI::App& app) {
    group_s = 0.01;
    groups = 5;
    add_names(app, "--routines", routines, {"trsm", "trmm"}, "");
    app.add_option("--types", types, "letters of sdcz")->capture_default_str();
    add_numbers(app, "--orders", orders, "of the triangle");
    add_list(app, "--columns", columns, "right-hand sides; M: as many as the order");
    add_names(app, "--sides", sides, {"left", "right"}, "");
    variant.add_to(app);
    Measuring::add_to(app);
  }
};

class Bench : DeviceProgram {
 public:
  explicit Bench(const Arguments& arguments) : DeviceProgram(arguments, {"results"}), arguments_(arguments) {}

  bool run() {
    std::printf("%-6s %-5s %6s %6s %9s  TFLOP/s of each\n", "", "side", "order", "rhs", "us");
    for_types(arguments_.types, [&]<Scalar T>(char, T) { run_type<T>(); });
    return report_.finish();
  }

 private:
  static index_t columns_of(const std::string& text, index_t order) {
    return text == "M" ? order : static_cast<index_t>(std::stoll(text));
  }

  template <Scalar T>
  void run_type() {
    for (const index_t order : arguments_.orders) {
      index_t widest = 1;
      for (const std::string& columns : arguments_.columns) widest = std::max(widest, columns_of(columns, order));
      const auto elements_of_b = static_cast<std::size_t>(order * widest);
      const DeviceArray<T> A(static_cast<std::size_t>(order * order)), B(elements_of_b), apart(elements_of_b);
      fill<T>(A.get(), order, order * order);
      fill<T>(B.get(), 0, order * widest);
      for (const std::string& routine : arguments_.routines) {
        for (const std::string& side : arguments_.sides) {
          for (const std::string& columns : arguments_.columns)
            run_case<T>(routine, side, order, columns_of(columns, order), {A.get(), B.get(), apart.get()});
        }
      }
      check(cudaDeviceSynchronize(), "end");
    }
  }

  template <Scalar T>
  void run_case(const std::string& routine, const std::string& side, index_t order, index_t columns,
                const Matrices& on) {
    Level3 call{.routine = routine == "trsm" ? Routine::trsm : Routine::trmm, .type = scalar_type_of<T>()};
    const bool left = side == "left";
    call.side = left ? Side::left : Side::right;
    arguments_.variant.set(call);
    call.m = left ? order : columns;
    call.n = left ? columns : order;
    call.A = on.A;
    call.lda = order;
    call.C = on.B;
    call.ldc = call.m;
    if (call.routine == Routine::trmm) call.B = call.C, call.ldb = call.ldc;
    const auto measure = [&](nlohmann::json& result) {
      const std::vector<Contestant> contestants = contestants_for<T>(to_, call, on);
      const std::vector<double> seconds = timer_.seconds(contestants);
      for (std::size_t i = 0; i < contestants.size(); ++i) result["seconds"][contestants[i].name] = seconds[i];
    };
    const nlohmann::json described = {
        {"routine", name_of(call)},    {"side", side},   {"uplo", arguments_.variant.uplo},
        {"op", arguments_.variant.op}, {"order", order}, {"columns", columns},
        {"flops", flops_of(call)}};
    report_.add("results", described, measure, [&](const nlohmann::json& result) {
      const auto& seconds = result["seconds"];
      std::printf("%-6s %-5s %6lld %6lld %9.1f ", name_of(call).c_str(), side.c_str(), static_cast<long long>(order),
                  static_cast<long long>(columns), 1e6 * seconds["tessera"].get<double>());
      for (const auto& [who, time] : seconds.items())
        std::printf(" %s %.2f", who.c_str(),
                    (who == "gemm" ? 2 : 1) * flops_of(call) / time.template get<double>() * 1e-12);
    });
  }

  const Arguments& arguments_;
};

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Arguments>("device_bench", "triangular solves and products in device memory beside cuBLAS", argc,
                                argv, [](const Arguments& arguments) { return Bench(arguments).run(); });
}
