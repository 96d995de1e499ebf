// Batches of products of 16-bit numbers in device memory: libtessera_device.so beside cuBLAS and the roof, on one GPU, as
// the paper on half and half-complex batches measures them (its Figures 10 to 15, 18 and 19): squares, and updates of rank
// 16.
//
// Beside each other, in turns, all on problems of one size:
//   real      Tessera by pointers and by strides; cublasHgemmBatched and cublasHgemmStridedBatched (half; these sum up in
//             half if they like), and cublasGemmBatchedEx with sums in single, as Tessera has them
//   complex   Tessera by pointers and by strides, on interleaved numbers; cublasLt on planes; the same with what parts and
//             merges interleaved numbers; four real products of planes
//
// Before a case is measured, some elements of each contestant's result are compared with sums in double. Where Tessera
// differs, or fails, the case has no times, and is a failure; another contestant is left out, and why is told.
//
// So that calls can be repeated in place, C is C / 2 plus a product that is scaled to about 1.
//
// The roof is the time of the compulsory traffic at the rate of a copy in device memory, or of the operations at that of
// a large product, whichever is more. What repeats on less than the L2 cache holds may go beyond it.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_libraries.hpp"
#include "bench/device_timer.hpp"
#include "bench/half_planes.hpp"
#include "bench/measuring.hpp"
#include "core/half.hpp"
#include "tessera/device_half.h"

namespace {

using tessera::HalfType;
using tessera::index_t;
using tessera::bench::check;
using tessera::bench::Clock;
using tessera::bench::Contestant;
using tessera::bench::DeviceArray;
using tessera::bench::HalfShapes;
using tessera::bench::Libraries;
using tessera::bench::PlanarProduct;
using tessera::bench::Planes;
using tessera::bench::seconds_since;
using tessera::bench::Timer;

struct Arguments : tessera::bench::Measuring {
  std::vector<std::string> types = {"h", "hc", "bf", "bfc"};
  std::vector<index_t> sizes = {2,  3,  4,  5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
                                16, 20, 24, 28,  32,  33,  40,  48,  56,  63,  64,  65,  72,  80,
                                88, 96, 97, 100, 112, 120, 127, 128, 129, 160, 192, 224, 255, 256};
  std::vector<index_t> counts = {10, 100, 1000, 10000};
  index_t tiny_count = 100000;  ///< for 8 to 16; 0: none
  std::vector<std::string> shapes = {"square", "rank16"};
  double time_budget_s = 0;
};

struct Case {
  HalfType type;
  std::string shape;
  HalfShapes shapes;
};

constexpr bool is_bfloat(HalfType type) { return type == HalfType::bf || type == HalfType::bfc; }
constexpr double flops_of_term(HalfType type) { return is_complex(type) ? 8 : 2; }
constexpr cudaDataType_t real_type(HalfType type) { return is_bfloat(type) ? CUDA_R_16BF : CUDA_R_16F; }
constexpr cudaDataType_t complex_type(HalfType type) { return is_bfloat(type) ? CUDA_C_16BF : CUDA_C_16F; }

/// Numbers in [-1/2, 1/2), which repeat after a while.
std::vector<std::uint16_t> random_numbers(HalfType type, index_t count, std::uint32_t seed) {
  std::vector<std::uint16_t> all(static_cast<std::size_t>(count));
  std::uint32_t state = seed;
  for (std::uint16_t& bits : all) {
    state = state * 1664525U + 1013904223U;
    const float value = static_cast<float>(state >> 8) / (1U << 24) - 0.5F;
    bits = is_bfloat(type) ? tessera::rounded_to<tessera::BFloat16>(value).bits
                           : tessera::rounded_to<tessera::Half>(value).bits;
  }
  return all;
}

float single(HalfType type, std::uint16_t bits) {
  return is_bfloat(type) ? tessera::to_single(tessera::BFloat16{bits}) : tessera::to_single(tessera::Half{bits});
}

/// The matrices of all problems, one behind the other, and arrays of their addresses.
class Matrices {
 public:
  Matrices(HalfType type, index_t elements, index_t count, std::uint32_t seed)
      : type_(type), bytes_(static_cast<std::size_t>(elements * count) * element_bytes(type)), memory_(bytes_) {
    const index_t numbers = static_cast<index_t>(bytes_ / 2), some = std::min<index_t>(numbers, (index_t{1} << 22) - 3);
    start_ = random_numbers(type, some, seed);
    refill();
    std::vector<void*> addresses;
    for (index_t i = 0; i < count; ++i)
      addresses.push_back(memory_.get() + static_cast<std::size_t>(i * elements) * element_bytes(type));
    addresses_ = DeviceArray<void*>(addresses);
  }

  void* get() const { return memory_.get(); }
  void* const* addresses() const { return addresses_.get(); }

  void refill() const {
    std::size_t done = std::min(bytes_, start_.size() * 2);
    check(cudaMemcpy(memory_.get(), start_.data(), done, cudaMemcpyHostToDevice), "fill");
    while (done < bytes_) {
      const std::size_t more = std::min(done, bytes_ - done);
      check(cudaMemcpy(memory_.get() + done, memory_.get(), more, cudaMemcpyDeviceToDevice), "fill");
      done += more;
    }
    check(cudaDeviceSynchronize(), "fill");  // what follows is in a stream that does not wait for these
  }
  /// Numbers, from this one on.
  std::vector<float> numbers(index_t first, index_t count) const {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
    check(cudaMemcpy(bits.data(), memory_.get() + 2 * first, bits.size() * 2, cudaMemcpyDeviceToHost), "result");
    std::vector<float> values;
    for (const std::uint16_t one : bits) values.push_back(single(type_, one));
    return values;
  }

 private:
  HalfType type_;
  std::size_t bytes_;
  DeviceArray<char> memory_;
  std::vector<std::uint16_t> start_;
  DeviceArray<void*> addresses_;
};

/// The operands of a case, and the factors of all contestants.
struct Operands {
  Operands(const Case& one)
      : of(one.shapes),
        type(one.type),
        A(one.type, of.of_a(), of.count, 1),
        B(one.type, of.of_b(), of.count, 2),
        C(one.type, of.of_c(), of.count, 3),
        alpha(1.0F / std::sqrt(static_cast<float>(of.k))) {}

  HalfShapes of;
  HalfType type;
  Matrices A, B, C;
  float alpha;
  static constexpr float beta = 0.5F;
};

#define TESSERA_OWN_CALLS(letters, factor)                                                                           \
  if (strided)                                                                                                       \
    return check(tessera_device_##letters##gemm_strided_batched(                                                     \
                     handle, TESSERA_NO_TRANS, TESSERA_NO_TRANS, of.m, of.n, of.k, factor(alpha), on.A.get(), of.m,  \
                     of.of_a(), on.B.get(), of.k, of.of_b(), factor(beta), on.C.get(), of.m, of.of_c(), of.count),   \
                 "tessera");                                                                                         \
  return check(tessera_device_##letters##gemm_batched(handle, TESSERA_NO_TRANS, TESSERA_NO_TRANS, of.m, of.n, of.k,  \
                                                      factor(alpha), on.A.addresses(), of.m, on.B.addresses(), of.k, \
                                                      factor(beta), on.C.addresses(), of.m, of.count),               \
               "tessera")
#define TESSERA_BY_VALUE(factor) factor[0]
#define TESSERA_BY_ADDRESS(factor) factor
void call_own(tessera_device_handle handle, const Operands& on, bool strided) {
  const HalfShapes& of = on.of;
  const float alpha[2] = {on.alpha, 0}, beta[2] = {Operands::beta, 0};
  switch (on.type) {
    case HalfType::h:
      TESSERA_OWN_CALLS(h, TESSERA_BY_VALUE);
    case HalfType::hc:
      TESSERA_OWN_CALLS(hc, TESSERA_BY_ADDRESS);
    case HalfType::bf:
      TESSERA_OWN_CALLS(bf, TESSERA_BY_VALUE);
    case HalfType::bfc:
      TESSERA_OWN_CALLS(bfc, TESSERA_BY_ADDRESS);
  }
}

void call_hgemm(cublasHandle_t handle, const Operands& on, bool strided) {
  const HalfShapes& of = on.of;
  const __half alpha = __float2half(on.alpha), beta = __float2half(Operands::beta);
  const auto of_all = [](void* const* addresses) { return reinterpret_cast<__half* const*>(addresses); };
  const auto of_first = [](void* address) { return static_cast<__half*>(address); };
  if (strided)
    return check(cublasHgemmStridedBatched_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, of.m, of.n, of.k, &alpha,
                                              of_first(on.A.get()), of.m, of.of_a(), of_first(on.B.get()), of.k,
                                              of.of_b(), &beta, of_first(on.C.get()), of.m, of.of_c(), of.count),
                 "cublasHgemmStridedBatched");
  check(cublasHgemmBatched_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, of.m, of.n, of.k, &alpha, of_all(on.A.addresses()),
                              of.m, of_all(on.B.addresses()), of.k, &beta, of_all(on.C.addresses()), of.m, of.count),
        "cublasHgemmBatched");
}

void call_single_sums(cublasHandle_t handle, const Operands& on) {
  const HalfShapes& of = on.of;
  const cudaDataType_t type = real_type(on.type);
  check(cublasGemmBatchedEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, of.m, of.n, of.k, &on.alpha, on.A.addresses(), type,
                               of.m, on.B.addresses(), type, of.k, &Operands::beta, on.C.addresses(), type, of.m,
                               of.count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmBatchedEx");
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        to_(tessera::bench::open_libraries()),
        timer_(to_.stream, arguments.group_s, arguments.groups) {
    check(cublasLtCreate(&lt_), "cublasLtCreate");
    report_ = tessera::bench::machine();
    report_["copy_bytes_per_s"] = copy_rate_ = measured_copy_rate(timer_, to_.stream);
    report_["peak_flops"] = peak_ = measured_peak();
    report_["results"] = nlohmann::json::array();
  }

  /// @return whether all cases were right
  bool run() {
    std::printf("copy in device memory: %.0f GB/s, read and written; large product: %.0f TFLOP/s\n", copy_rate_ * 1e-9,
                peak_ * 1e-12);
    for (const Case& one : cases()) {
      if (arguments_.time_budget_s > 0 && seconds_since(begin_) > arguments_.time_budget_s)
        ++left_out_;
      else
        run_case(one);
    }
    std::printf("%.0f s in all, %d cases left out for lack of time, %d FAILED\n", seconds_since(begin_), left_out_,
                failed_);
    return failed_ == 0;
  }

 private:
  static HalfType type_of(const std::string& letters_of_type) {
    for (const HalfType type : tessera::half_types) {
      if (letters_of_type == letters(type)) return type;
    }
    throw std::runtime_error("no type " + letters_of_type);
  }

  std::vector<Case> cases() const {
    std::vector<Case> all;
    for (const std::string& type : arguments_.types) {
      for (const std::string& shape : arguments_.shapes) {
        for (const index_t n : arguments_.sizes) {
          std::vector<index_t> counts = arguments_.counts;
          if (shape == "square" && arguments_.tiny_count > 0 && n >= 8 && n <= 16)
            counts.push_back(arguments_.tiny_count);
          for (const index_t count : counts)
            all.push_back({type_of(type), shape, {n, n, shape == "square" ? n : 16, count}});
        }
      }
    }
    return all;
  }

  void run_case(const Case& one) {
    const HalfShapes& of = one.shapes;
    nlohmann::json result = {
        {"type", letters(one.type)}, {"shape", one.shape}, {"n", of.n}, {"k", of.k}, {"count", of.count}};
    std::printf("%-3s %-6s %4lld x %-6lld", letters(one.type), one.shape.c_str(), static_cast<long long>(of.n),
                static_cast<long long>(of.count));
    const auto count = static_cast<double>(of.count);
    const double flops = flops_of_term(one.type) * count * static_cast<double>(of.m * of.n * of.k);
    const double bytes = static_cast<double>(element_bytes(one.type)) * count *
                         static_cast<double>(of.of_a() + of.of_b() + 2 * of.of_c());
    const double roof_s = std::max(bytes / copy_rate_, flops / peak_);
    result.update({{"flops", flops}, {"bytes", bytes}, {"roof_s", roof_s}});
    try {
      const Operands on(one);
      measure(on, result);
      const double seconds = result["seconds"]["tessera"];
      std::printf(" %9.1f us, %3.0f %% of the roof;", 1e6 * seconds, 100 * roof_s / seconds);
      for (const auto& [who, time] : result["seconds"].items())
        std::printf(" %s %.2f", who.c_str(), time.template get<double>() / seconds);
      std::printf("\n");
    } catch (const std::exception& error) {
      ++failed_;
      result["error"] = error.what();
      std::printf(" FAILED: %s\n", error.what());
    }
    std::fflush(stdout);
    report_["results"].push_back(result);
    // After each case: a machine that is lent for some minutes may be gone at the end.
    if (!arguments_.json.empty()) tessera::bench::write(report_, arguments_.json);
  }

  void measure(const Operands& on, nlohmann::json& result) const {
    std::vector<Contestant> contestants = {{"tessera", [&] { call_own(to_.own, on, false); }},
                                           {"tessera_strided", [&] { call_own(to_.own, on, true); }}};
    std::optional<Planes> A, B, C;
    std::unique_ptr<PlanarProduct> planar;
    if (!is_complex(on.type)) {
      if (!is_bfloat(on.type)) {
        contestants.push_back({"cublas", [&] { call_hgemm(to_.vendor, on, false); }});
        contestants.push_back({"cublas_strided", [&] { call_hgemm(to_.vendor, on, true); }});
      }
      contestants.push_back({"cublas_single", [&] { call_single_sums(to_.vendor, on); }});
    } else {
      A.emplace(on.of.of_a() * on.of.count);
      B.emplace(on.of.of_b() * on.of.count);
      C.emplace(on.of.of_c() * on.of.count);
      A->part(on.A.get(), to_.stream);
      B->part(on.B.get(), to_.stream);
      add_planar(on, *A, *B, *C, planar, contestants, result);
    }
    leave_out_wrong_ones(on, contestants, C, result);
    for (std::size_t i = 0; const double seconds : timer_.seconds(contestants))
      result["seconds"][contestants[i++].name] = seconds;
  }

  void add_planar(const Operands& on, const Planes& A, const Planes& B, const Planes& C,
                  std::unique_ptr<PlanarProduct>& planar, std::vector<Contestant>& contestants,
                  nlohmann::json& result) const {
    contestants.push_back(
        {"four", [&] { multiply_planes(to_.vendor, on.of, real_type(on.type), on.alpha, A, B, Operands::beta, C); }});
    try {
      planar = std::make_unique<PlanarProduct>(lt_, on.of, complex_type(on.type), A, B, C);
    } catch (const std::exception& error) {
      result["without_planar"] = error.what();
      return;
    }
    const auto multiply = [&] { planar->run({on.alpha, 0}, A, B, {Operands::beta, 0}, C, to_.stream); };
    contestants.push_back({"planar", multiply});
    contestants.push_back({"planar_converted", [&, multiply] {
                             A.part(on.A.get(), to_.stream);
                             B.part(on.B.get(), to_.stream);
                             C.part(on.C.get(), to_.stream);
                             multiply();
                             C.merge(on.C.get(), to_.stream);
                           }});
  }

  void leave_out_wrong_ones(const Operands& on, std::vector<Contestant>& contestants,
                            const std::optional<Planes>& planes, nlohmann::json& result) const {
    std::erase_if(contestants, [&](const Contestant& contestant) {
      try {
        verify(on, contestant, planes);
        return false;
      } catch (const std::exception& error) {
        if (contestant.name.rfind("tessera", 0) == 0) throw;
        result["without_" + contestant.name] = error.what();
        return true;
      }
    });
    on.C.refill();
  }

  /// Some elements of some problems. @param planes of contestants that leave their results there
  /// @throws std::runtime_error if one is wrong
  void verify(const Operands& on, const Contestant& contestant, const std::optional<Planes>& planes) const {
    const HalfShapes& of = on.of;
    const index_t parts = is_complex(on.type) ? 2 : 1;
    const bool in_planes = contestant.name == "planar" || contestant.name == "four";
    for (const index_t problem : {index_t{0}, of.count / 2, of.count - 1}) {
      on.C.refill();
      const auto a = on.A.numbers(parts * problem * of.of_a(), parts * of.of_a());
      const auto b = on.B.numbers(parts * problem * of.of_b(), parts * of.of_b());
      const auto before = on.C.numbers(parts * problem * of.of_c(), parts * of.of_c());
      if (in_planes) planes->part(on.C.get(), to_.stream);
      contestant.call();
      if (in_planes) planes->merge(on.C.get(), to_.stream);
      check(cudaStreamSynchronize(to_.stream), contestant.name.c_str());
      const auto after = on.C.numbers(parts * problem * of.of_c(), parts * of.of_c());
      compare(on, contestant.name, a, b, before, after);
    }
  }

  /// Elements one to three per row and column, up to 64.
  static void compare(const Operands& on, const std::string& name, const std::vector<float>& a,
                      const std::vector<float>& b, const std::vector<float>& before, const std::vector<float>& after) {
    const HalfShapes& of = on.of;
    const bool is_complex_type = is_complex(on.type);
    const auto at = [&](const std::vector<float>& numbers, index_t element) {
      const auto i = static_cast<std::size_t>(element);
      return is_complex_type ? std::pair<double, double>(numbers[2 * i], numbers[2 * i + 1])
                             : std::pair<double, double>(numbers[i], 0.0);
    };
    for (index_t sample = 0; sample < 64; ++sample) {
      const index_t row = sample * 7 % of.m, column = sample * 5 % of.n;
      double re = 0, im = 0, sizes = 0;
      for (index_t l = 0; l < of.k; ++l) {
        const auto [ar, ai] = at(a, row + l * of.m);
        const auto [br, bi] = at(b, l + column * of.k);
        re += ar * br - ai * bi;
        im += ar * bi + ai * br;
        sizes += (std::abs(ar) + std::abs(ai)) * (std::abs(br) + std::abs(bi));
      }
      const auto [cr, ci] = at(before, row + column * of.m);
      const auto [xr, xi] = at(after, row + column * of.m);
      const double wrong = std::max(std::abs(xr - (on.alpha * re + Operands::beta * cr)),
                                    std::abs(xi - (on.alpha * im + Operands::beta * ci)));
      // cublasHgemm may round each sum of some terms to half.
      const double unit = is_bfloat(on.type) ? 0x1p-8 : 0x1p-11;
      const double bound = 2 * unit * (on.alpha * sizes + std::abs(cr) + std::abs(ci) + 1);
      if (!(wrong <= bound))
        throw std::runtime_error(name + " differs by " + std::to_string(wrong / bound) + " bounds");
    }
  }

  // -- the roof --

  /// Operations per second of a large product of halves with sums in single.
  double measured_peak() const {
    const Operands on({HalfType::h, "peak", {8192, 8192, 8192, 1}});
    const double seconds = timer_.seconds({{"large", [&] { call_single_sums(to_.vendor, on); }}})[0];
    return 2.0 * 8192 * 8192 * 8192 / seconds;
  }

  const Arguments& arguments_;
  Clock::time_point begin_ = Clock::now();
  Libraries to_;
  cublasLtHandle_t lt_ = nullptr;  // lives as long as the process
  Timer timer_;
  nlohmann::json report_;
  double copy_rate_ = 0, peak_ = 0;
  int failed_ = 0, left_out_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"batches of small products of 16-bit numbers in device memory beside cuBLAS"};
  app.add_option("--types", arguments.types, "of h, hc, bf, bfc, in the order in which they are measured")
      ->delimiter(',')
      ->check(CLI::IsMember(Arguments().types))
      ->capture_default_str();
  app.add_option("--sizes", arguments.sizes, "rows and columns")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--counts", arguments.counts, "problems of a batch")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tiny-count", arguments.tiny_count, "problems of one more batch of squares of 8 to 16; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--shapes", arguments.shapes)
      ->delimiter(',')
      ->check(CLI::IsMember({"square", "rank16"}))
      ->capture_default_str();
  arguments.add_to(app);
  app.add_option("--time-budget", arguments.time_budget_s, "seconds after which no case begins; 0: no limit")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return tessera::bench::exit_status_of("half_batch_bench", [&] { return Bench(arguments).run(); });
}
