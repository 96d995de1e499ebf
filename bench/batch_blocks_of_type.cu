// Measures one type: batches of square problems, whose sizes are uniform up to each size of the table, computed by the
// blocks of every candidate. Their results must agree bit for bit.
// Compiled once per type, with TESSERA_BLOCKS_TYPE one of s, d, c, z.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/batch_blocks.hpp"
#include "bench/device_timer.hpp"
#include "bench/square_batch.hpp"
#include "kernels/cuda/product_kernel.cuh"
#include "kernels/plan/block_candidates.hpp"

namespace tessera::bench {
namespace {

using kernels::block::Operands;
using kernels::cuda::ProductLaunch;
using kernels::cuda::detail::Grids;
using kernels::plan::ProductBlocks;

template <Scalar T>
class Chooser {
  static constexpr ScalarType type = scalar_type_of<T>();
  static constexpr auto candidates = kernels::plan::block_candidates<type>();

 public:
  ProductBlocks best(index_t most) const {
    const SquareBatch<T> on(Routine::gemm, most, false);
    std::vector<unsigned char> first;
    ProductBlocks best{};
    double least = 1e9;
    for_each([&]<std::size_t at>() {
      constexpr ProductBlocks blocks = candidates[at];
      if (blocks.rows > 2 * most || blocks.columns > 2 * most) return;
      // There is no persistent grid of several problems per thread block.
      if (blocks.problems > 1 && kernels::plan::is_for_any_spread(kernels::plan::class_of_blocks(most))) return;
      using Setup =
          kernels::cuda::detail::SetupOfBlocks<kernels::block::PartOf<T>, kernels::block::parts_of<T>, blocks>;
      constexpr Grids grids = blocks.problems == 1 ? Grids::both : Grids::cut;
      check(kernels::cuda::detail::load<Setup, grids, Operands::plain>(), "load");
      ProductLaunch how;
      how.multiprocessors = multiprocessors_;
      how.most_blocks = kernels::block::pieces(most, blocks.rows) * kernels::block::pieces(most, blocks.columns);
      const auto launch = [&] {
        check(kernels::cuda::detail::launch<Setup, grids, Operands::plain>(on.batch(), how, nullptr), "launch");
      };
      on.clear();
      launch();
      const auto result = on.result();
      if (first.empty()) first = result;
      ProductLaunch persistent = how;
      if (grids == Grids::both) persistent.summed = summed_.get();
      const auto launch_persistent = [&] {
        check(kernels::cuda::detail::launch<Setup, grids, Operands::plain>(on.batch(), persistent, nullptr), "launch");
      };
      on.clear();
      launch_persistent();
      if (first != result || first != on.result()) throw std::runtime_error("results differ: " + text_of(blocks));
      const std::vector<double> seconds = timer_.seconds({{"cut", launch}, {"persistent", launch_persistent}});
      std::printf("%c %4d %-24s %9.2f us %9.1f GFLOP/s  persistent %9.1f\n", letter(type), static_cast<int>(most),
                  text_of(blocks).c_str(), seconds[0] * 1e6, on.flops() / seconds[0] * 1e-9,
                  on.flops() / seconds[1] * 1e-9);
      // With bounds that are this close the grid is cut by them.
      if (seconds[0] < least) least = seconds[0], best = blocks;
    });
    return best;
  }

  /// Products of one size by these blocks and by cuBLAS. @return whether that is sooner
  bool vendor_is_sooner(index_t size, const ProductBlocks& by) const {
    const SquareBatch<T> on(Routine::gemm, size, true);
    std::vector<double> seconds;
    for_each([&]<std::size_t at>() {
      constexpr ProductBlocks blocks = candidates[at];
      if (!(blocks == by) || !seconds.empty()) return;
      using Setup =
          kernels::cuda::detail::SetupOfBlocks<kernels::block::PartOf<T>, kernels::block::parts_of<T>, blocks>;
      constexpr Grids grids = blocks.problems == 1 ? Grids::both : Grids::cut;
      ProductLaunch how;
      how.most_blocks = kernels::block::pieces(size, blocks.rows) * kernels::block::pieces(size, blocks.columns);
      const auto launch = [&] {
        check(kernels::cuda::detail::launch<Setup, grids, Operands::plain>(on.batch(), how, nullptr), "launch");
      };
      const auto call = [&] { call_vendor(on.batch()); };
      seconds = timer_.seconds({{"own", launch}, {"cublas", call}});
    });
    std::printf("%c %4d one size: own %9.2f, cublas %9.2f us\n", letter(type), static_cast<int>(size),
                seconds.at(0) * 1e6, seconds.at(1) * 1e6);
    return seconds.at(1) < seconds.at(0);
  }

 private:
  template <class F>
  static void for_each(F&& f) {
    [&]<std::size_t... at>(std::index_sequence<at...>) { (f.template operator()<at>(), ...); }
    (std::make_index_sequence<candidates.size()>());
  }
  void call_vendor(const Level3Batch& batch) const {
    const T alpha = scalar_cast<T>(batch.common.alpha), beta = scalar_cast<T>(batch.common.beta);
    const auto n = static_cast<int>(batch.n.of_all), count = static_cast<int>(batch.count);
    const auto of = [&]<class Value>(auto function, Value) {
      const auto A = batch.A.as<Value>(), B = batch.B.as<Value>(), C = batch.C.as<Value>();
      check(function(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, reinterpret_cast<const Value*>(&alpha), A.of_each, n,
                     B.of_each, n, reinterpret_cast<const Value*>(&beta), C.of_each, n, count),
            "cuBLAS");
    };
    if constexpr (type == ScalarType::s) of(cublasSgemmBatched, float());
    if constexpr (type == ScalarType::d) of(cublasDgemmBatched, double());
    if constexpr (type == ScalarType::c) of(cublasCgemmBatched, cuComplex());
    if constexpr (type == ScalarType::z) of(cublasZgemmBatched, cuDoubleComplex());
  }
  static cublasHandle_t made_handle() {
    cublasHandle_t handle = nullptr;
    check(cublasCreate(&handle), "cublasCreate");
    return handle;
  }
  static int attribute_of_gpu(cudaDeviceAttr attribute) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, 0), "attribute");
    return value;
  }

  Timer timer_{nullptr, 0.002, 3};
  cublasHandle_t handle_ = made_handle();  // lives as long as the process
  const int multiprocessors_ = attribute_of_gpu(cudaDevAttrMultiProcessorCount);
  const DeviceArray<std::byte> summed_{kernels::cuda::summed_bytes(square_problems)};
};

}  // namespace

template <>
void choose_blocks<ScalarType::TESSERA_BLOCKS_TYPE>(std::ostream& table, std::ostream& vendor_table) {
  dispatch(ScalarType::TESSERA_BLOCKS_TYPE, [&]<Scalar T>(T) {
    if constexpr (scalar_type_of<T>() == ScalarType::TESSERA_BLOCKS_TYPE) {
      const Chooser<T> chooser;
      std::array<ProductBlocks, kernels::plan::block_sizes.size()> best{};
      const char* separator = "{{";
      for (std::size_t at = 0; at < best.size(); ++at) {
        best[at] = chooser.best(kernels::plan::block_sizes[at]);
        table << separator << text_of(best[at]);
        separator = ", ";
      }
      table << "}},\n";
      separator = "{";
      for (const index_t size : kernels::plan::batch_sizes) {
        const bool is_sooner = chooser.vendor_is_sooner(size, best[kernels::plan::class_of_blocks(size)]);
        vendor_table << separator << (is_sooner ? "true" : "false");
        separator = ", ";
      }
      vendor_table << "},\n";
    }
  });
}

}  // namespace tessera::bench
