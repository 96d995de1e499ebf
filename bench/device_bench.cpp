// Triangular solves and products in device memory: libtessera_device.so beside cuBLAS, the paper's method and the roof,
// on one GPU.
//
// Beside each other, in turns: Tessera in place, without and with a workspace (tessera/device_blas.h); cuBLAS in place,
// and its trmm from one matrix to another; the recursion of KBLAS with cuBLAS at its leaves of 128 rows (section 3.1 of
// the paper; its own leaves are not measured here); and cuBLAS's gemm of the same shape, which has twice the operations
// and is the roof. A time is that of calls that follow each other in a stream; the median of some groups of calls is
// taken.
//
// Triangles have small elements beside a diagonal of one, so that calls can be repeated in place.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/device_libraries.hpp"
#include "bench/device_timer.hpp"
#include "bench/measuring.hpp"
#include "core/level3.hpp"
#include "kernels/plan/triangular_recursion.hpp"
#include "tessera/device_blas.h"

namespace {

using tessera::index_t;
using tessera::Level3;
using tessera::Op;
using tessera::Routine;
using tessera::Side;
using tessera::Uplo;
using tessera::bench::call_vendor;
using tessera::bench::check;
using tessera::bench::Contestant;
using tessera::bench::Libraries;
using tessera::bench::own;
using tessera::bench::Timer;

/// The functions of one type. The API differs between types by a letter and by how a scalar is passed.
template <class T>
struct Api;
#define DEVICE_BENCH_API(T, letter)                                                 \
  template <>                                                                       \
  struct Api<T> {                                                                   \
    static constexpr auto trsm = tessera_device_##letter##trsm;                     \
    static constexpr auto trmm = tessera_device_##letter##trmm;                     \
    static constexpr auto trsm_workspace = tessera_device_##letter##trsm_workspace; \
    static constexpr auto trmm_workspace = tessera_device_##letter##trmm_workspace; \
  }
DEVICE_BENCH_API(float, s);
DEVICE_BENCH_API(double, d);
DEVICE_BENCH_API(std::complex<float>, c);
DEVICE_BENCH_API(std::complex<double>, z);
#undef DEVICE_BENCH_API

/// A triangular call in place.
template <tessera::Scalar T>
void call_own(const Libraries& to, const Level3& c) {
  const T alpha = tessera::scalar_cast<T>(c.alpha);
  const auto run = [&](auto function, auto scalar, auto* A, auto* B) {
    check(
        function(to.own, own(c.side), own(c.uplo), own(c.op_a), TESSERA_NON_UNIT, c.m, c.n, scalar, A, c.lda, B, c.ldc),
        "tessera");
  };
  const auto function = c.routine == Routine::trsm ? Api<T>::trsm : Api<T>::trmm;
  if constexpr (std::floating_point<T>)
    run(function, alpha, static_cast<const T*>(c.A), static_cast<T*>(c.C));
  else
    run(function, static_cast<const void*>(&alpha), c.A, c.C);
}

template <tessera::Scalar T>
std::size_t workspace_of(const Libraries& to, const Level3& c) {
  const auto function = c.routine == Routine::trsm ? Api<T>::trsm_workspace : Api<T>::trmm_workspace;
  std::size_t bytes = 0;
  check(function(to.own, own(c.side), own(c.uplo), own(c.op_a), TESSERA_NON_UNIT, c.m, c.n, &bytes), "workspace");
  return bytes;
}

struct Matrices {
  void* A;
  void* B;
  void* apart;  ///< as large as B: what is not in place, and the workspace
};

template <tessera::Scalar T>
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
                   tessera::kernels::plan::run_in_parts(call, paper_leaf,
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

struct Arguments : tessera::bench::Measuring {
  Arguments() {
    group_s = 0.01;
    groups = 5;
  }

  std::vector<std::string> routines = {"trsm", "trmm"};
  std::string types = "sdcz";
  std::vector<index_t> orders = {256, 1024, 4096, 16384};
  std::vector<std::string> columns = {"1", "32", "128", "512", "2048", "M"};
  std::vector<std::string> sides = {"left"};
  std::string uplo = "lower", op = "n";
};

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments), to_(tessera::bench::open_libraries()) {}

  nlohmann::json run() {
    nlohmann::json results = nlohmann::json::array();
    std::printf("%-6s %-5s %6s %6s %9s  TFLOP/s of each\n", "", "side", "order", "rhs", "us");
    for (const char letter : arguments_.types) {
      tessera::dispatch(tessera::bench::type_of(letter), [&]<tessera::Scalar T>(T) { run_type<T>(letter, results); });
    }
    return results;
  }

 private:
  static index_t columns_of(const std::string& text, index_t order) {
    return text == "M" ? order : static_cast<index_t>(std::stoll(text));
  }

  template <tessera::Scalar T>
  void run_type(char letter, nlohmann::json& results) {
    for (const index_t order : arguments_.orders) {
      index_t widest = 1;
      for (const std::string& columns : arguments_.columns) widest = std::max(widest, columns_of(columns, order));
      const auto elements_of_b = static_cast<std::size_t>(order * widest);
      const tessera::bench::DeviceArray<T> A(static_cast<std::size_t>(order * order)), B(elements_of_b),
          apart(elements_of_b);
      tessera::bench::fill<T>(A.get(), order, order * order);
      tessera::bench::fill<T>(B.get(), 0, order * widest);
      for (const std::string& routine : arguments_.routines) {
        for (const std::string& side : arguments_.sides) {
          for (const std::string& columns : arguments_.columns)
            run_case<T>(letter, routine, side, order, columns_of(columns, order), {A.get(), B.get(), apart.get()},
                        results);
        }
      }
      check(cudaDeviceSynchronize(), "end");
    }
  }

  template <tessera::Scalar T>
  void run_case(char letter, const std::string& routine, const std::string& side, index_t order, index_t columns,
                const Matrices& on, nlohmann::json& results) {
    Level3 call{.routine = routine == "trsm" ? Routine::trsm : Routine::trmm, .type = tessera::scalar_type_of<T>()};
    const bool left = side == "left";
    call.side = left ? Side::left : Side::right;
    call.uplo = arguments_.uplo == "lower" ? Uplo::lower : Uplo::upper;
    call.op_a = arguments_.op == "n" ? Op::no_trans : arguments_.op == "t" ? Op::trans : Op::conj_trans;
    call.m = left ? order : columns;
    call.n = left ? columns : order;
    call.A = on.A;
    call.lda = order;
    call.C = on.B;
    call.ldc = call.m;
    if (call.routine == Routine::trmm) call.B = call.C, call.ldb = call.ldc;
    const std::vector<Contestant> contestants = contestants_for<T>(to_, call, on);
    const std::vector<double> seconds = Timer(to_.stream, arguments_.group_s, arguments_.groups).seconds(contestants);
    const double flops = tessera::flops_of(call);
    std::printf("%c%-5s %-5s %6lld %6lld %9.1f ", letter, routine.c_str(), side.c_str(), static_cast<long long>(order),
                static_cast<long long>(columns), 1e6 * seconds[0]);
    nlohmann::json times;
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const bool is_gemm = contestants[i].name == "gemm";
      std::printf(" %s %.2f", contestants[i].name.c_str(), (is_gemm ? 2 : 1) * flops / seconds[i] * 1e-12);
      times[contestants[i].name] = seconds[i];
    }
    std::printf("\n");
    std::fflush(stdout);
    results.push_back({{"routine", std::string(1, letter) + routine},
                       {"side", side},
                       {"uplo", arguments_.uplo},
                       {"op", arguments_.op},
                       {"order", order},
                       {"columns", columns},
                       {"flops", flops},
                       {"seconds", times}});
  }

  const Arguments& arguments_;
  Libraries to_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"triangular solves and products in device memory beside cuBLAS"};
  app.add_option("--routines", arguments.routines, "trsm, trmm")->delimiter(',')->capture_default_str();
  app.add_option("--types", arguments.types, "letters of sdcz")->capture_default_str();
  app.add_option("--orders", arguments.orders, "of the triangle")->delimiter(',')->capture_default_str();
  app.add_option("--columns", arguments.columns, "right-hand sides; M: as many as the order")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--sides", arguments.sides, "left, right")->delimiter(',')->capture_default_str();
  app.add_option("--uplo", arguments.uplo)->check(CLI::IsMember({"lower", "upper"}))->capture_default_str();
  app.add_option("--op", arguments.op)->check(CLI::IsMember({"n", "t", "c"}))->capture_default_str();
  arguments.add_to(app);
  CLI11_PARSE(app, argc, argv);
  return tessera::bench::exit_status_of("device_bench", [&] {
    nlohmann::json report = tessera::bench::machine();
    report["results"] = Bench(arguments).run();
    if (!arguments.json.empty()) tessera::bench::write(report, arguments.json);
    return true;
  });
}
