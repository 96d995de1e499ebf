// Measures one type: batches of squares of some sizes, computed by the blocks of every candidate, whose results must agree
// bit for bit; tiny ones in every way; and cuBLAS.
// Compiled once per type, with TESSERA_BLOCKS_TYPE one of h, hc.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_timer.hpp"
#include "bench/half_blocks.hpp"
#include "kernels/cuda/half_kernel.cuh"
#include "kernels/plan/half_candidates.hpp"
#include "kernels/plan/vendor_batches.hpp"

namespace tessera::bench {
namespace {

using kernels::HalfBatch;
using kernels::plan::HalfBlocks;
using kernels::plan::TinyWay;
namespace detail = kernels::cuda::detail;

/// So many squares of one order, C = A B / order + C / 2.
template <class E>
class Squares {
 public:
  Squares(index_t order, index_t count) : order_(order), count_(count) {
    clear();
    auto& products = batch_.products;
    batch_.stored = half_type_of<E>();
    products.common = {.routine = Routine::gemm, .type = kernels::sums_of(batch_.stored), .m = order, .n = order};
    products.common.k = order;
    products.common.alpha = 1.0 / static_cast<double>(order);
    products.common.beta = 0.5;
    products.count = count;
    for (auto* const each : {&products.m, &products.n, &products.k, &products.lda, &products.ldb, &products.ldc})
      each->of_all = order;
    products.A.of_each = addresses_[0].get();
    products.B.of_each = addresses_[1].get();
    products.C.of_each = addresses_[2].get();
  }

  const HalfBatch& batch() const { return batch_; }
  // Of all problems, one behind the other.
  const E* A() const { return A_.get(); }
  const E* B() const { return B_.get(); }
  E* C() const { return C_.get(); }
  double flops() const {
    const auto n = static_cast<double>(order_);
    return (E::parts == 2 ? 8 : 2) * n * n * n * static_cast<double>(count_);
  }
  void clear() const {
    check(cudaMemcpy(C_.get(), A_.get(), elements() * sizeof(E), cudaMemcpyDeviceToDevice), "clear");
  }
  /// Of the first problems.
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>(order_ * order_ * std::min<index_t>(count_, 20)) *
                                       E::parts);
    check(cudaMemcpy(numbers.data(), C_.get(), numbers.size() * 2, cudaMemcpyDeviceToHost), "result");
    return numbers;
  }

 private:
  std::size_t elements() const { return static_cast<std::size_t>(order_ * order_ * count_); }
  std::vector<E> random(std::uint32_t state) const {
    std::vector<E> numbers(elements());
    for (E& number : numbers) {
      for (auto& part : number.part) {
        state = state * 1664525U + 1013904223U;
        part = rounded_to<typename E::R>(static_cast<float>(state >> 8) / (1U << 24) - 0.5F);
      }
    }
    return numbers;
  }
  std::vector<E*> addresses(E* first) const {
    std::vector<E*> all;
    for (index_t i = 0; i < count_; ++i) all.push_back(first + i * order_ * order_);
    return all;
  }

  const index_t order_, count_;
  DeviceArray<E> A_{random(12345)}, B_{random(54321)}, C_{elements()};
  DeviceArray<E*> addresses_[3] = {DeviceArray<E*>(addresses(A_.get())), DeviceArray<E*>(addresses(B_.get())),
                                   DeviceArray<E*>(addresses(C_.get()))};
  HalfBatch batch_;
};

template <HalfType type>
class Chooser {
  using E = StoredAs<type>;
  static constexpr auto candidates = kernels::plan::half_candidates<type>();

 public:
  HalfTables tables() const {
    HalfTables all = present_tables(type);
    // For each class sizes on and beside multiples of sixteen.
    constexpr index_t sizes[][4] = {{9, 12, 15, 16},  {20, 24, 31, 32},    {36, 40, 47, 48},
                                    {52, 56, 63, 64}, {80, 100, 127, 128}, {160, 192, 250, 256}};
    for (std::size_t at = 0; at < all.blocks.size(); ++at) all.blocks[at] = best(sizes[at]);
    constexpr index_t tiny_sizes[][4] = {{2, 3, 4, 4}, {5, 6, 7, 8}, {9, 12, 15, 16}};
    all.tiny = {best_way<4>(tiny_sizes[0], all.blocks[0]), best_way<8>(tiny_sizes[1], all.blocks[0]),
                best_way<16>(tiny_sizes[2], all.blocks[0])};
    if constexpr (E::parts == 1) {
      for (const index_t size : kernels::plan::batch_sizes) show_beside_vendor(size, all);
    }
    return all;
  }

 private:
  /// f.operator()<index>() for all candidates.
  template <class F>
  static void for_each(F&& f) {
    [&]<std::size_t... at>(std::index_sequence<at...>) { (f.template operator()<at>(), ...); }
    (std::make_index_sequence<candidates.size()>());
  }
  template <std::size_t at>
  using Setup = detail::HalfSetup<E, candidates[at]>;

  static index_t blocks_of(index_t size, const HalfBlocks& blocks) {
    return ((size + blocks.rows - 1) / blocks.rows) * ((size + blocks.columns - 1) / blocks.columns);
  }
  static index_t count_of(index_t size) { return size <= 16 ? 50000 : size <= 32 ? 10000 : size <= 128 ? 2000 : 1000; }

  /// The candidate that loses least to the best ones at these sizes.
  HalfBlocks best(const index_t (&sizes)[4]) const {
    std::vector<double> losses(candidates.size());
    for (const index_t size : sizes) {
      const Squares<E> on(size, count_of(size));
      std::vector<double> seconds(candidates.size(), std::numeric_limits<double>::infinity());
      std::vector<std::uint16_t> first;
      for_each([&]<std::size_t at>() {
        if (candidates[at].rows >= 4 * size || 4 * candidates[at].rows < size) return;
        seconds[at] = seconds_of<at>(size, on, first);
      });
      const double least = *std::min_element(seconds.begin(), seconds.end());
      for (std::size_t at = 0; at < losses.size(); ++at) losses[at] += seconds[at] / least;
    }
    return candidates[static_cast<std::size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin())];
  }

  template <std::size_t at>
  double seconds_of(index_t size, const Squares<E>& on, std::vector<std::uint16_t>& first) const {
    // Neither operand is transposed.
    const void* const kernel =
        reinterpret_cast<const void*>(detail::multiply_blocks_of_one_size<Setup<at>, true, false>);
    check(device::cuda::load_kernel(kernel), "load");
    const auto launch = [&] {
      check(detail::launch_one_size<Setup<at>>(kernel, on.batch(), blocks_of(size, candidates[at]), nullptr), "launch");
    };
    on.clear();
    launch();
    const auto result = on.result();
    if (first.empty()) first = result;
    if (first != result) throw std::runtime_error("results differ at candidate " + std::to_string(at));
    const double seconds = timer_.seconds({{"blocks", launch}})[0];
    const HalfBlocks& b = candidates[at];
    std::printf("%-2s %4d {%d, %d, %d, %d, %d, %d, %d, %d} %9.2f us %9.1f GFLOP/s\n", letters(type),
                static_cast<int>(size), b.rows, b.columns, b.depth, b.warps_down, b.warps_across, b.c_ahead ? 1 : 0,
                b.residents, b.problems, seconds * 1e6, on.flops() / seconds * 1e-9);
    return seconds;
  }

  /// launch() of the blocks that have been chosen.
  double seconds_of(index_t size, const Squares<E>& on, const HalfBlocks& by) const {
    double seconds = 0;
    for_each([&]<std::size_t at>() {
      std::vector<std::uint16_t> first;
      if (candidates[at] == by) seconds = seconds_of<at>(size, on, first);
    });
    return seconds;
  }

  template <template <class, int, class> class Way, int places>
  double seconds_of_tiny(const Squares<E>& on) const {
    using Tiny = Way<E, places, kernels::cuda::HalfWarps<kernels::cuda::GpuWarp>>;
    check((detail::load_tiny<Tiny, E>()), "load");
    return timer_.seconds({{"tiny", [&] { check((detail::launch_tiny<Tiny, E>(on.batch(), nullptr)), "launch"); }}})[0];
  }

  template <int places>
  std::map<TinyWay, double> seconds_of_ways(index_t size, const Squares<E>& on, const HalfBlocks& blocks) const {
    return {{TinyWay::blocks, seconds_of(size, on, blocks)},
            {TinyWay::tensor_cores, seconds_of_tiny<kernels::block::TinyByTensorCores, places>(on)},
            {TinyWay::lanes, seconds_of_tiny<kernels::block::TinyByLanes, places>(on)}};
  }
  static double least(const std::map<TinyWay, double>& seconds) {
    return std::min({seconds.at(TinyWay::blocks), seconds.at(TinyWay::tensor_cores), seconds.at(TinyWay::lanes)});
  }

  template <int places>
  TinyWay best_way(const index_t (&sizes)[4], const HalfBlocks& blocks) const {
    std::map<TinyWay, double> losses;
    for (const index_t size : sizes) {
      const Squares<E> on(size, 50000);
      const auto seconds = seconds_of_ways<places>(size, on, blocks);
      for (const auto& [way, time] : seconds) losses[way] += time / least(seconds);
      std::printf("%-2s %4d blocks %9.2f, tensor cores %9.2f, lanes %9.2f us\n", letters(type), static_cast<int>(size),
                  seconds.at(TinyWay::blocks) * 1e6, seconds.at(TinyWay::tensor_cores) * 1e6,
                  seconds.at(TinyWay::lanes) * 1e6);
    }
    return std::min_element(losses.begin(), losses.end(),
                            [](const auto& one, const auto& other) { return one.second < other.second; })
        ->first;
  }

  void show_beside_vendor(index_t size, const HalfTables& tables) const {
    const Squares<E> on(size, count_of(size));
    const auto& of = on.batch().products;
    const auto n = static_cast<int>(size);
    const float alpha = static_cast<float>(of.common.alpha.real()), beta = 0.5F;
    const cudaDataType_t number = type == HalfType::h ? CUDA_R_16F : CUDA_R_16BF;
    const auto apart = static_cast<long long>(size * size);
    const auto call = [&] {
      check(cublasGemmStridedBatchedEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, on.A(), number, n, apart,
                                       on.B(), number, n, apart, &beta, on.C(), number, n, apart,
                                       static_cast<int>(of.count), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cuBLAS");
    };
    const HalfBlocks& blocks = tables.blocks[kernels::plan::class_of_half(size)];
    const double own = size > 16  ? seconds_of(size, on, blocks)
                       : size > 8 ? least(seconds_of_ways<16>(size, on, blocks))
                       : size > 4 ? least(seconds_of_ways<8>(size, on, blocks))
                                  : least(seconds_of_ways<4>(size, on, blocks));
    const double vendor = timer_.seconds({{"cublas", call}})[0];
    std::printf("%-2s %4d one size: own %9.2f, cublas %9.2f us\n", letters(type), n, own * 1e6, vendor * 1e6);
  }

  static cublasHandle_t made_handle() {
    cublasHandle_t handle = nullptr;
    check(cublasCreate(&handle), "cublasCreate");
    return handle;
  }

  Timer timer_{nullptr, 0.001, 3};
  cublasHandle_t handle_ = made_handle();  // lives as long as the process
};

}  // namespace

template <>
HalfTables measured_tables<HalfType::TESSERA_BLOCKS_TYPE>() {
  return Chooser<HalfType::TESSERA_BLOCKS_TYPE>().tables();
}

}  // namespace tessera::bench
