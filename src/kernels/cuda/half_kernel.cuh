// The thread blocks of half_block.hpp and half_tiny.hpp on a GPU, for many problems: kernels and launches by their shape.
// half_batch.cu has those that are chosen, bench/half_blocks those that they are chosen from.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/half_block.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_tiny.hpp"
#include "kernels/cuda/batch_grid.cuh"
#include "kernels/cuda/half_batch.hpp"
#include "kernels/cuda/half_warps.hpp"

namespace tessera::kernels::cuda::detail {

using block::HalfProduct;
using block::HalfProducts;

/// @pre is_good() has been asked for it; `good` is the answer
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

/// How thread blocks compute products: blocks of C, by so many of them at a time on a multiprocessor, each with as many
/// problems beside each other.
template <class Stored, plan::HalfBlocks blocks>
struct HalfSetup {
  using E = Stored;
  using Shape = block::HalfShape<E, blocks>;
  using Team = detail::Team<blocks.problems>;
  using Machine = HalfWarps<typename Team::Machine>;
  static constexpr int residents = blocks.residents, problems = blocks.problems;
  static constexpr int threads = problems * Shape::threads;
  static_assert(problems == 1 || Shape::warps == 1, "a warp has a problem of its own, or the thread block has one");

  /// Of a team. The problem lies in shared memory: in registers it would take those of the sums.
  struct alignas(16) Memory {
    block::HalfMemory<Shape> block;
    index_t words[HalfProducts<E>::words];
    alignas(16) unsigned char bytes_of_product[sizeof(HalfProduct<E>)];

    __device__ HalfProduct<E>& product() { return *reinterpret_cast<HalfProduct<E>*>(bytes_of_product); }
  };
};

/// By the first warp of a team. @param tells whether this thread block writes what is wrong
template <class E, class Memory>
__device__ void find_product(const HalfProducts<E>& batch, const Complaints& complaints, index_t number, bool tells,
                             Memory& memory) {
  load_words(batch, number, memory.words);
  __syncwarp();
  if (threadIdx.x % 32 > 0) return;
  const auto problem = HalfProducts<E>::problem_of(memory.words);
  memory.product() = product_if(complaints.is_good(batch, problem, number, tells), batch, problem);
}

/// A grid that is cut by bounds: grid_of(). Where a problem has more blocks, thread blocks take turns.
template <class Setup>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    multiply_blocks(const __grid_constant__ HalfProducts<typename Setup::E> batch, Complaints complaints) {
  using Team = typename Setup::Team;
  using Shape = typename Setup::Shape;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = reinterpret_cast<typename Setup::Memory*>(bytes)[Team::number()];
#pragma unroll 1
  for (index_t number = Team::first_problem(); number < batch.count; number += Team::next_problem()) {
    // The first thread block of a problem tells what is bad.
    if (Team::thread() < 32) find_product(batch, complaints, number, blockIdx.x == 0, memory);
    Team::meet();
    const HalfProduct<typename Setup::E>& product = memory.product();
    if (!product.does_nothing) {
      const auto down = static_cast<unsigned>((product.m + Shape::rows - 1) / Shape::rows);
      const auto across = static_cast<unsigned>((product.n + Shape::columns - 1) / Shape::columns);
#pragma unroll 1
      for (unsigned at = blockIdx.x; at < down * across; at += gridDim.x) {
        // Most have one column of blocks; division takes long.
        const unsigned column = at >= down ? at / down : 0, row = at - column * down;
        block::HalfBlock<Shape, typename Setup::Machine>(product, memory.block, index_t{row} * Shape::rows,
                                                         index_t{column} * Shape::columns, typename Setup::Machine())
            .run();
        Team::meet();  // before the next block takes its place
      }
    }
    Team::meet();
  }
}

inline constexpr int tiny_warps = 8;

/// @tparam is_of_one_size  numbers are the same for all: they need not be looked up
template <bool is_of_one_size, class E>
__device__ typename HalfProducts<E>::Problem tiny_problem(const HalfProducts<E>& batch, index_t number) {
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

/// Warps with as many problems each as they have room for, one behind the other.
/// @pre is_of_one_size: all of them are good
template <class Tiny, class E, bool is_of_one_size>
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
      problem = tiny_problem<is_of_one_size>(batch, number);
      if constexpr (!is_of_one_size) good = complaints.is_good(batch, problem, number, Tiny::is_first_of_problem(lane));
    }
    const HalfProduct<E> product = product_if(good, batch, problem);
    Tiny(product, HalfWarps<GpuWarp>()).run();
  }
}

template <class Setup>
inline constexpr auto shared_bytes_of = static_cast<std::size_t>(Setup::problems) * sizeof(typename Setup::Memory);

template <class Setup>
cudaError_t load_blocks() {
  return device::cuda::load_kernel(reinterpret_cast<const void*>(multiply_blocks<Setup>), shared_bytes_of<Setup>);
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

template <class Setup>
cudaError_t launch_blocks(const HalfBatch& batch, index_t most_blocks, cudaStream_t stream) {
  auto products = block::half_products<typename Setup::E>(batch);
  Complaints complaints = complaints_of(batch);
  void* arguments[] = {&products, &complaints};
  return cudaLaunchKernel(reinterpret_cast<const void*>(multiply_blocks<Setup>),
                          grid_of(most_blocks, products.count, Setup::problems), dim3(Setup::threads), arguments,
                          shared_bytes_of<Setup>, stream);
}
template <class Tiny, class E>
cudaError_t launch_tiny(const HalfBatch& batch, cudaStream_t stream) {
  auto products = block::half_products<E>(batch);
  Complaints complaints = complaints_of(batch);
  void* arguments[] = {&products, &complaints};
  constexpr index_t of_block = index_t{tiny_warps} * Tiny::problems, most = 0x7fffffff;
  const index_t blocks = (products.count + of_block - 1) / of_block;
  const bool is_of_one_size = !batch.products.has_sizes_of_each() && complaints.info == nullptr;
  const void* const kernel = is_of_one_size ? reinterpret_cast<const void*>(multiply_tiny<Tiny, E, true>)
                                            : reinterpret_cast<const void*>(multiply_tiny<Tiny, E, false>);
  return cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(32 * tiny_warps), arguments,
                          0, stream);
}

}  // namespace tessera::kernels::cuda::detail
