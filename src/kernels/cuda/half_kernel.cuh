// The thread blocks of half_block.hpp and half_tiny.hpp on a GPU, for many problems: kernels and launches by their
// shape. half_batch.cuh has the chosen kernels, and bench/half_blocks the candidates.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/half_block.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_tiny.hpp"
#include "kernels/cuda/batch_grid.cuh"
#include "kernels/cuda/half_batch.hpp"
#include "kernels/cuda/half_warps.hpp"

namespace tessera::kernels::cuda::detail {

using block::HalfMatrices;
using block::HalfProduct;
using block::HalfProducts;

/// @param good the result of is_good() for this problem
template <class E>
__device__ HalfProduct<E> product_if(bool good, const HalfProducts<E>& batch,
                                     const typename HalfProducts<E>::Problem& problem) {
  HalfProduct<E> product;
  if (good) {
    product = product_of(batch.form, problem);
  } else {
    product.does_nothing = true;
  }
  return product;
}

/// The parameters of a kernel of products: the blocks of C, the thread blocks that a multiprocessor runs at a time, and
/// the problems per thread block.
template <class Stored, plan::HalfBlocks blocks>
struct HalfSetup {
  using E = Stored;
  using Shape = block::HalfShape<E, blocks>;
  using Team = detail::Team<blocks.problems>;
  static constexpr int residents = blocks.residents, problems = blocks.problems;
  static constexpr int threads = problems * Shape::threads;
  static_assert(problems == 1 || Shape::warps == 1, "a warp has a problem of its own, or the thread block has one");
};

/// The product that a warp computes, in shared memory: its registers are needed for the sums.
template <class E>
struct ProductMemory {
  alignas(16) unsigned char bytes[sizeof(HalfProduct<E>)];
  __device__ HalfProduct<E>& product() { return *reinterpret_cast<HalfProduct<E>*>(bytes); }
};

/// @tparam is_of_one_size  sizes are the same for all problems: only addresses are read per problem
template <bool is_of_one_size, class E>
__device__ typename HalfProducts<E>::Problem problem_of(const HalfProducts<E>& batch, index_t number) {
  if constexpr (!is_of_one_size) return batch.problem(number);
  const auto& word = batch.word;
  const auto address = [&](int which) {
    const auto* const addresses = static_cast<const index_t*>(word[which].of_each);
    return addresses != nullptr ? addresses[number] : word[which].first + number * word[which].distance;
  };
  const index_t of_problem[HalfProducts<E>::words] = {word[0].first, word[1].first, word[2].first,
                                                      address(3),    word[4].first, address(5),
                                                      word[6].first, address(7),    word[8].first};
  return HalfProducts<E>::problem_of(of_problem);
}

/// Computes a warp's rectangles of a product. If the product has more blocks than the grid, each thread block computes
/// several.
/// @param down, blocks  blocks in a column of blocks, and in all
template <class Setup, class Index, bool left_by_lines, bool right_by_lines>
__device__ __forceinline__ void multiply_rectangles(const HalfProduct<typename Setup::E>& product,
                                                    const HalfMatrices<typename Setup::E>& matrices, int together,
                                                    unsigned down, unsigned blocks) {
  using Shape = typename Setup::Shape;
  using Machine = HalfWarps<GpuWarp>;
  const int warp = Setup::Team::thread() / 32;
#pragma unroll 1
  for (unsigned at = blockIdx.x; at < blocks; at += gridDim.x) {
    // Most products have one column of blocks, and a division is slow.
    const unsigned column = at >= down ? at / down : 0, row = at - column * down;
    const Index first_row = static_cast<Index>(row) * Shape::rows + warp / Shape::across * Shape::rows_of_warp;
    const Index first_column =
        static_cast<Index>(column) * Shape::columns + warp % Shape::across * Shape::columns_of_warp;
    if (first_row >= static_cast<Index>(product.m) || first_column >= static_cast<Index>(product.n)) continue;
    const auto run = [&]<int of_load>(std::integral_constant<int, of_load>) {
      block::HalfBlock<Shape, Machine, Index, left_by_lines, right_by_lines, of_load>(product, matrices, first_row,
                                                                                      first_column, Machine())
          .run();
    };
    if (together == 4)
      run(std::integral_constant<int, 4>());
    else if (together == 2)
      run(std::integral_constant<int, 2>());
    else
      run(std::integral_constant<int, 1>());
  }
}

/// Numbers of blocks of C: per column of blocks, and in all.
struct BlocksOfProduct {
  unsigned down = 0, all = 0;
};
template <class Setup>
__host__ __device__ BlocksOfProduct blocks_of(const HalfProduct<typename Setup::E>& product) {
  using Shape = typename Setup::Shape;
  const auto down = static_cast<unsigned>((product.m + Shape::rows - 1) / Shape::rows);
  return {down, down * static_cast<unsigned>((product.n + Shape::columns - 1) / Shape::columns)};
}

/// Computes products with a grid that bounds have shaped: grid_of().
/// @tparam left_by_lines, right_by_lines  how the operands lie
template <class Setup, bool left_by_lines, bool right_by_lines>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    multiply_blocks(const __grid_constant__ HalfProducts<typename Setup::E> batch, Complaints complaints) {
  using Team = typename Setup::Team;
  __shared__ ProductMemory<typename Setup::E> memory[Setup::threads / 32];
  const HalfProduct<typename Setup::E>& product = memory[threadIdx.x / 32].product();
#pragma unroll 1
  for (index_t number = Team::first_problem(); number < batch.count; number += Team::next_problem()) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      const auto problem = batch.is_of_one_size ? problem_of<true>(batch, number) : problem_of<false>(batch, number);
      // The first thread block of a problem reports a bad argument.
      const bool good = complaints.is_good(batch, problem, number, blockIdx.x == 0 && Team::thread() == 0);
      memory[threadIdx.x / 32].product() = product_if(good, batch, problem);
    }
    __syncwarp();
    if (product.does_nothing) continue;
    const auto matrices = matrices_of(product);
    const BlocksOfProduct blocks = blocks_of<Setup>(product);
    multiply_rectangles<Setup, index_t, left_by_lines, right_by_lines>(
        product, matrices, elements_together(product, bits_of_runs(product), matrices), blocks.down, blocks.all);
  }
}

/// Products that differ only in their addresses. The host has worked out the rest, which kernels read as parameters.
/// Deriving it in each warp took two thirds of the instructions of a product.
template <class Stored>
struct HalfProductsOfOneSize {
  using E = Stored;
  HalfProduct<E> product = {};  ///< for all problems, without addresses
  unsigned bits = 0;            ///< bits_of_runs()
  BlocksOfProduct blocks = {};
  index_t count = 0;
  WordOfEach left = {}, right = {}, C = {};

  __device__ HalfMatrices<E> matrices(index_t number) const {
    return {reinterpret_cast<const E*>(address(left, number)), reinterpret_cast<const E*>(address(right, number)),
            reinterpret_cast<E*>(address(C, number))};
  }

 private:
  static __device__ index_t address(const WordOfEach& word, index_t number) {
    const auto* const addresses = static_cast<const index_t*>(word.of_each);
    return addresses != nullptr ? addresses[number] : word.first + number * word.distance;
  }
};

template <class Setup, bool left_by_lines, bool right_by_lines>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    multiply_blocks_of_one_size(const __grid_constant__ HalfProductsOfOneSize<typename Setup::E> batch) {
  using Team = typename Setup::Team;
#pragma unroll 1
  for (index_t number = Team::first_problem(); number < batch.count; number += Team::next_problem()) {
    const auto matrices = batch.matrices(number);
    multiply_rectangles<Setup, int, left_by_lines, right_by_lines>(
        batch.product, matrices, elements_together(batch.product, batch.bits, matrices), batch.blocks.down,
        batch.blocks.all);
  }
}

inline constexpr int tiny_warps = 8;

/// Computes tiny products, several per warp beside each other, and one such group after the other.
/// @tparam all_are_good  and all have one size
template <class Tiny, class E, bool all_are_good>
__global__ void __launch_bounds__(32 * tiny_warps)
    multiply_tiny(const __grid_constant__ HalfProducts<E> batch, Complaints complaints) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const index_t warps = index_t{gridDim.x} * tiny_warps;
#pragma unroll 1
  for (index_t warp = index_t{blockIdx.x} * tiny_warps + threadIdx.x / 32; warp * Tiny::problems < batch.count;
       warp += warps) {
    const index_t number = warp * Tiny::problems + Tiny::problem_of(lane);
    typename HalfProducts<E>::Problem problem;
    bool good = number < batch.count;
    if (good) {
      problem = problem_of<all_are_good>(batch, number);
      if constexpr (!all_are_good) good = complaints.is_good(batch, problem, number, Tiny::is_first_of_problem(lane));
    }
    const HalfProduct<E> product = product_if(good, batch, problem);
    Tiny(product, HalfWarps<GpuWarp>()).run();
  }
}

/// Calls f.operator()<left_by_lines, right_by_lines>() with the batch's values as constants.
template <class F>
auto with_orientations(bool left_by_lines, bool right_by_lines, F&& f) {
  if (left_by_lines) return right_by_lines ? f.template operator()<true, true>() : f.template operator()<true, false>();
  return right_by_lines ? f.template operator()<false, true>() : f.template operator()<false, false>();
}
template <class Setup>
const void* blocks_kernel(bool left_by_lines, bool right_by_lines) {
  return with_orientations(left_by_lines, right_by_lines, [&]<bool left, bool right>() {
    return reinterpret_cast<const void*>(multiply_blocks<Setup, left, right>);
  });
}
template <class Setup>
const void* one_size_kernel(bool left_by_lines, bool right_by_lines) {
  return with_orientations(left_by_lines, right_by_lines, [&]<bool left, bool right>() {
    return reinterpret_cast<const void*>(multiply_blocks_of_one_size<Setup, left, right>);
  });
}

template <class Setup>
cudaError_t load_blocks() {
  cudaError_t error = cudaSuccess;
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      if (error == cudaSuccess) error = device::cuda::load_kernel(blocks_kernel<Setup>(left, right));
      if (error == cudaSuccess) error = device::cuda::load_kernel(one_size_kernel<Setup>(left, right));
    }
  }
  return error;
}
template <class Tiny, class E>
cudaError_t load_tiny() {
  const cudaError_t error = device::cuda::load_kernel(reinterpret_cast<const void*>(multiply_tiny<Tiny, E, true>));
  if (error != cudaSuccess) return error;
  return device::cuda::load_kernel(reinterpret_cast<const void*>(multiply_tiny<Tiny, E, false>));
}

inline Complaints complaints_of(const HalfBatch& batch) {
  return {batch.products.info, batch.products.n.is_wide, batch.products.left_out};
}

/// Whether the host knows everything about the problems but their addresses.
inline bool is_known(const HalfBatch& batch) {
  const Level3Batch& given = batch.products;
  return !given.has_sizes_of_each() && given.info == nullptr && given.left_out.of_each == nullptr;
}
/// Whether an int can hold every distance between two elements of a matrix, with some steps beyond it that are not
/// loaded.
/// @pre is_known()
inline bool has_short_distances(const HalfBatch& batch) {
  const Level3Batch& given = batch.products;
  const index_t longest = std::max({given.m.of_all, given.n.of_all, given.k.of_all});
  const index_t widest = std::max({given.lda.of_all, given.ldb.of_all, given.ldc.of_all});
  constexpr index_t beyond = 256;
  return longest + beyond < std::numeric_limits<int>::max() / (widest + 1);
}

/// @param kernel multiply_blocks_of_one_size() of the setup, for operands that lie as those of the batch
/// @pre is_known(), has_short_distances()
template <class Setup>
cudaError_t launch_one_size(const void* kernel, const HalfBatch& batch, index_t most_blocks, cudaStream_t stream) {
  using E = typename Setup::E;
  const auto products = block::half_products<E>(batch);
  HalfProductsOfOneSize<E> one;
  one.product = product_of(products.form, products.common_problem());
  if (one.product.does_nothing) return cudaSuccess;
  one.bits = bits_of_runs(one.product);
  one.blocks = blocks_of<Setup>(one.product);
  one.count = products.count;
  one.left = products.word[HalfProducts<E>::A];
  one.right = products.word[HalfProducts<E>::B];
  one.C = products.word[HalfProducts<E>::C];
  void* arguments[] = {&one};
  return cudaLaunchKernel(kernel, grid_of(most_blocks, one.count, Setup::problems), dim3(Setup::threads), arguments, 0,
                          stream);
}
template <class Setup>
cudaError_t launch_blocks(const HalfBatch& batch, index_t most_blocks, cudaStream_t stream) {
  const auto& common = batch.products.common;
  const bool left_by_lines = common.op_a == Op::no_trans, right_by_lines = common.op_b != Op::no_trans;
  if (is_known(batch) && has_short_distances(batch))
    return launch_one_size<Setup>(one_size_kernel<Setup>(left_by_lines, right_by_lines), batch, most_blocks, stream);
  auto products = block::half_products<typename Setup::E>(batch);
  Complaints complaints = complaints_of(batch);
  void* arguments[] = {&products, &complaints};
  return cudaLaunchKernel(blocks_kernel<Setup>(left_by_lines, right_by_lines),
                          grid_of(most_blocks, products.count, Setup::problems), dim3(Setup::threads), arguments, 0,
                          stream);
}
template <class Tiny, class E>
cudaError_t launch_tiny(const HalfBatch& batch, cudaStream_t stream) {
  auto products = block::half_products<E>(batch);
  Complaints complaints = complaints_of(batch);
  void* arguments[] = {&products, &complaints};
  constexpr index_t of_block = index_t{tiny_warps} * Tiny::problems, most = 0x7fffffff;
  const index_t blocks = (products.count + of_block - 1) / of_block;
  const bool all_are_good = is_known(batch);
  const void* const kernel = all_are_good ? reinterpret_cast<const void*>(multiply_tiny<Tiny, E, true>)
                                          : reinterpret_cast<const void*>(multiply_tiny<Tiny, E, false>);
  return cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(32 * tiny_warps), arguments,
                          0, stream);
}

}  // namespace tessera::kernels::cuda::detail
