// Measures one type: batches of square problems, whose sizes are uniform up to each size of the table, computed by the
// blocks of every candidate. Their results must agree bit for bit.
// Compiled once per type, with TESSERA_BLOCKS_TYPE one of s, d, c, z.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/batch_blocks.hpp"
#include "bench/device_timer.hpp"
#include "kernels/cuda/product_kernel.cuh"
#include "kernels/plan/block_candidates.hpp"

namespace tessera::bench {
namespace {

using kernels::Level3Batch;
using kernels::block::Operands;
using kernels::cuda::ProductLaunch;
using kernels::cuda::detail::Grids;
using kernels::plan::ProductBlocks;

constexpr int problems = 2000;

/// Square products of sizes uniform in [1, most], beta = 1.
template <Scalar T>
class Problems {
 public:
  explicit Problems(index_t most, ScalarType type)
      : most_(most), sizes_(sizes(most)), elements_(count(sizes_)), A_(elements_), B_(elements_), C_(elements_) {
    fill<T>(A_.get(), 0, elements_);
    fill<T>(B_.get(), 0, elements_);
    clear();
    batch_.common = {.routine = Routine::gemm, .type = type, .m = most, .n = most, .k = most, .alpha = 1e-3, .beta = 1};
    batch_.count = problems;
    for (auto* const number : {&batch_.m, &batch_.n, &batch_.k, &batch_.lda, &batch_.ldb, &batch_.ldc})
      number->of_each = sizes_on_device_.get();
    batch_.A.of_each = pointers_[0].get();
    batch_.B.of_each = pointers_[1].get();
    batch_.C.of_each = pointers_[2].get();
  }

  const Level3Batch& batch() const { return batch_; }
  index_t most() const { return most_; }
  double flops() const {
    double sum = 0;
    for (const int n : sizes_) sum += (is_complex(batch_.common.type) ? 8.0 : 2.0) * n * n * n;
    return sum;
  }
  void clear() const { check(cudaMemset(C_.get(), 0, static_cast<std::size_t>(elements_) * sizeof(T)), "memset"); }
  std::vector<unsigned char> result() const {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(elements_) * sizeof(T));
    check(cudaMemcpy(bytes.data(), C_.get(), bytes.size(), cudaMemcpyDeviceToHost), "result");
    return bytes;
  }

 private:
  static std::vector<int> sizes(index_t most) {
    std::mt19937 random(1);
    std::vector<int> sizes(problems);
    for (int& n : sizes) n = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    return sizes;
  }
  static index_t count(const std::vector<int>& sizes) {
    index_t sum = 0;
    for (const index_t n : sizes) sum += n * n;
    return sum;
  }
  std::vector<T*> pointers(T* first) const {
    std::vector<T*> all;
    for (const index_t n : sizes_) {
      all.push_back(first);
      first += n * n;
    }
    return all;
  }

  const index_t most_;
  const std::vector<int> sizes_;
  const index_t elements_;
  DeviceArray<T> A_, B_, C_;
  DeviceArray<int> sizes_on_device_{sizes_};
  DeviceArray<T*> pointers_[3] = {DeviceArray<T*>(pointers(A_.get())), DeviceArray<T*>(pointers(B_.get())),
                                  DeviceArray<T*>(pointers(C_.get()))};
  Level3Batch batch_;
};

template <Scalar T>
class Chooser {
  static constexpr ScalarType type = scalar_type_of<T>();
  static constexpr auto candidates = kernels::plan::block_candidates<type>();

 public:
  std::string best(index_t most) const {
    const Problems<T> on(most, type);
    std::vector<unsigned char> first;
    ProductBlocks best{};
    double least = 1e9;
    for_each([&]<std::size_t at>() {
      constexpr ProductBlocks blocks = candidates[at];
      if (blocks.rows > 2 * most || blocks.columns > 2 * most) return;
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
    return text_of(best);
  }

 private:
  template <class F>
  static void for_each(F&& f) {
    [&]<std::size_t... at>(std::index_sequence<at...>) { (f.template operator()<at>(), ...); }
    (std::make_index_sequence<candidates.size()>());
  }
  static int attribute_of_gpu(cudaDeviceAttr attribute) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, 0), "attribute");
    return value;
  }

  Timer timer_{nullptr, 0.002, 3};
  const int multiprocessors_ = attribute_of_gpu(cudaDevAttrMultiProcessorCount);
  const DeviceArray<std::byte> summed_{kernels::cuda::summed_bytes(problems)};
};

}  // namespace

template <>
void choose_blocks<ScalarType::TESSERA_BLOCKS_TYPE>(std::ostream& table) {
  dispatch(ScalarType::TESSERA_BLOCKS_TYPE, [&]<Scalar T>(T) {
    if constexpr (scalar_type_of<T>() == ScalarType::TESSERA_BLOCKS_TYPE) {
      const Chooser<T> chooser;
      table << "{{";
      const char* separator = "";
      for (const index_t size : kernels::plan::block_sizes) {
        table << separator << chooser.best(size);
        separator = ", ";
      }
      table << "}},\n";
    }
  });
}

}  // namespace tessera::bench
