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
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/frame/device_libraries.hpp"
#include "bench/frame/linear_maps.hpp"
#include "bench/half_planes.hpp"
#include "core/half.hpp"
#include "tessera/device_half.h"

namespace tessera::bench {
namespace {

struct Arguments : Measuring {
  std::vector<std::string> types = {"h", "hc", "bf", "bfc"};
  std::vector<index_t> sizes = {2,  3,  4,  5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
                                16, 20, 24, 28,  32,  33,  40,  48,  56,  63,  64,  65,  72,  80,
                                88, 96, 97, 100, 112, 120, 127, 128, 129, 160, 192, 224, 255, 256};
  std::vector<index_t> counts = {10, 100, 1000, 10000};
  index_t tiny_count = 100000;  ///< for 8 to 16; 0: none
  std::vector<std::string> shapes = {"square", "rank16"};

  void add_to(CLI::App& app) {
    add_names(app, "--types", types, types, "in the order in which they are measured");
    add_numbers(app, "--sizes", sizes, "rows and columns");
    add_numbers(app, "--counts", counts, "problems of a batch");
    app.add_option("--tiny-count", tiny_count, "problems of one more batch of squares of 8 to 16; 0: none")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    add_names(app, "--shapes", shapes, shapes, "");
    Measuring::add_to(app);
    add_time_budget_to(app);
  }
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
    bits = is_bfloat(type) ? rounded_to<BFloat16>(value).bits : rounded_to<Half>(value).bits;
  }
  return all;
}

float single(HalfType type, std::uint16_t bits) {
  return is_bfloat(type) ? to_single(BFloat16{bits}) : to_single(Half{bits});
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
    const std::size_t begin_bytes = std::min(bytes_, start_.size() * 2);
    check(cudaMemcpy(memory_.get(), start_.data(), begin_bytes, cudaMemcpyHostToDevice), "fill");
    repeat_to_fill(memory_.get(), begin_bytes, bytes_);
    check(cudaDeviceSynchronize(), "fill");  // later calls are in a stream that does not wait for these
  }
  Vector elements(index_t first, index_t count) const {
    const std::size_t parts = is_complex(type_) ? 2 : 1;
    std::vector<std::uint16_t> bits(parts * static_cast<std::size_t>(count));
    check(cudaMemcpy(bits.data(), memory_.get() + 2 * parts * static_cast<std::size_t>(first), bits.size() * 2,
                     cudaMemcpyDeviceToHost),
          "result");
    Vector values;
    for (std::size_t i = 0; i < bits.size(); i += parts)
      values.emplace_back(single(type_, bits[i]), parts == 2 ? single(type_, bits[i + 1]) : 0.0F);
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

class Bench : DeviceProgram {
 public:
  explicit Bench(const Arguments& arguments) : DeviceProgram(arguments, {"results"}), arguments_(arguments) {
    check(cublasLtCreate(&lt_), "cublasLtCreate");
    measure_copies();
    report_.json()["peak_flops"] = roof_.peak = measured_half_peak();
    std::printf("large product: %.0f TFLOP/s\n", roof_.peak * 1e-12);
  }

  /// @return whether all cases were right
  bool run() {
    for (const Case& one : cases()) run_case(one);
    return report_.finish();
  }

 private:
  static HalfType type_of(const std::string& letters_of_type) {
    for (const HalfType type : half_types) {
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
    const auto measured = [&](nlohmann::json& result) {
      std::printf("%-3s %-6s %4lld x %-6lld", letters(one.type), one.shape.c_str(), static_cast<long long>(of.n),
                  static_cast<long long>(of.count));
      const auto count = static_cast<double>(of.count);
      const double flops = flops_of_term(one.type) * count * static_cast<double>(of.m * of.n * of.k);
      const double bytes = static_cast<double>(element_bytes(one.type)) * count *
                           static_cast<double>(of.of_a() + of.of_b() + 2 * of.of_c());
      result.update({{"flops", flops}, {"bytes", bytes}, {"roof_s", roof_.seconds(flops, bytes)}});
      measure(Operands(one), result);
    };
    report_.add("results",
                {{"type", letters(one.type)}, {"shape", one.shape}, {"n", of.n}, {"k", of.k}, {"count", of.count}},
                measured, [](const nlohmann::json& result) {
                  const double own = result["seconds"]["tessera"], roof_s = result["roof_s"];
                  std::printf(" %9.1f us, %3.0f %% of the roof;", 1e6 * own, 100 * roof_s / own);
                  for (const auto& [who, time] : result["seconds"].items())
                    std::printf(" %s %.2f", who.c_str(), time.template get<double>() / own);
                });
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
    const bool in_planes = contestant.name == "planar" || contestant.name == "four";
    for (const index_t problem : {index_t{0}, of.count / 2, of.count - 1}) {
      on.C.refill();
      const Vector a = on.A.elements(problem * of.of_a(), of.of_a()), b = on.B.elements(problem * of.of_b(), of.of_b());
      const Vector before = on.C.elements(problem * of.of_c(), of.of_c());
      if (in_planes) planes->part(on.C.get(), to_.stream);
      contestant.call();
      if (in_planes) planes->merge(on.C.get(), to_.stream);
      check(cudaStreamSynchronize(to_.stream), contestant.name.c_str());
      compare(on, contestant.name, a, b, before, on.C.elements(problem * of.of_c(), of.of_c()));
    }
  }

  /// Elements one to three per row and column, up to 64.
  static void compare(const Operands& on, const std::string& name, const Vector& a, const Vector& b,
                      const Vector& before, const Vector& after) {
    const HalfShapes& of = on.of;
    const auto at = [](const Vector& elements, index_t i) { return elements[static_cast<std::size_t>(i)]; };
    const auto size = [](const AnyScalar& x) { return std::abs(x.real()) + std::abs(x.imag()); };
    // cublasHgemm may round each sum of some terms to half.
    const double unit = is_bfloat(on.type) ? 0x1p-8 : 0x1p-11, alpha = on.alpha, beta = Operands::beta;
    for (index_t sample = 0; sample < 64; ++sample) {
      const index_t row = sample * 7 % of.m, column = sample * 5 % of.n, place = row + column * of.m;
      AnyScalar sum = 0;
      double sizes = 0;
      for (index_t l = 0; l < of.k; ++l) {
        const AnyScalar x = at(a, row + l * of.m), y = at(b, l + column * of.k);
        sum += x * y;
        sizes += size(x) * size(y);
      }
      const AnyScalar difference = at(after, place) - (alpha * sum + beta * at(before, place));
      const double wrong = std::max(std::abs(difference.real()), std::abs(difference.imag()));
      const double bound = 2 * unit * (alpha * sizes + size(at(before, place)) + 1);
      if (!(wrong <= bound))
        throw std::runtime_error(name + " differs by " + std::to_string(wrong / bound) + " bounds");
    }
  }

  /// Operations per second of a large product of halves with sums in single.
  double measured_half_peak() const {
    const Operands on({HalfType::h, "peak", {8192, 8192, 8192, 1}});
    const double seconds = timer_.seconds({{"large", [&] { call_single_sums(to_.vendor, on); }}})[0];
    return 2.0 * 8192 * 8192 * 8192 / seconds;
  }

  const Arguments& arguments_;
  cublasLtHandle_t lt_ = nullptr;  // lives as long as the process
};

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Arguments>("half_batch_bench",
                                "batches of small products of 16-bit numbers in device memory beside cuBLAS", argc,
                                argv, [](const Arguments& arguments) { return Bench(arguments).run(); });
}
