// Shared by the kernels of LAPACK batches: a thread block's problem, in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "device/cuda/cuda_context.hpp"

#include "kernels/block/gemm_block.hpp"
#include "kernels/block/lapack_problems.hpp"
#include "kernels/block/tile_schedule.hpp"
#include "kernels/cuda/batch_grid.cuh"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/plan/lapack_choice.hpp"

namespace tessera::kernels::cuda::detail {

template <class E>
struct FoundLapackProblem {
  using Problems = block::LapackProblems<E>;
  index_t words[Problems::words];
  block::LapackProblem<E> problem;
  bool is_good;

  /// Loads and checks the problem. The first warp calls it; other threads may read the result after a meeting with it.
  /// A caller with `checks` reports a bad argument in info, where later launches find it.
  __device__ void find(const Problems& problems, index_t number, bool checks) {
    load_words(problems, number, words);
    __syncwarp();
    if (threadIdx.x % 32 > 0) return;
    problem = problems.problem_of(words);
    is_good = true;
    if (checks && problems.info.at != nullptr) {
      const int bad = bad_argument(problems, problem);
      is_good = bad == 0;
      problems.info.set(number, -bad);
    } else if (problems.info.at != nullptr) {
      is_good = problems.info.get(number) >= 0;
    }
  }
};

/// Teams of so many threads with a problem each: parts of warps, several per thread block, or a thread block of several
/// warps.
template <int threads_of_team>
struct SmallTeams {
  static constexpr int count = threads_of_team <= 32 ? 128 / threads_of_team : 1;
  static constexpr int threads = count * threads_of_team;
  static constexpr int lanes = threads_of_team <= 32 ? threads_of_team : 32;
  using Machine = std::conditional_t<threads_of_team <= 32, GpuLanes<lanes>, MeetingWarps>;

  /// Thread blocks for which a multiprocessor must have registers: those of a row, and some for the computation.
  /// Without this bound the compiler loads all operands of a column in advance.
  static constexpr int residents(int bytes_of_row) {
    const int registers = bytes_of_row / 4 + 36;
    const int most = 65536 / (threads * registers);
    return most < 1 ? 1 : most > 12 ? 12 : most;
  }

  /// The number of a thread's team in its thread block.
  static __device__ int number() { return count == 1 ? 0 : static_cast<int>(threadIdx.x) / threads_of_team; }
};

/// One thread block per problem, as far as the grid's limit allows.
inline dim3 grid_of_problems(index_t problems) {
  constexpr index_t most = 0x7fffffff;
  return dim3(static_cast<unsigned>(problems < most ? problems : most));
}

/// The blocks of C for updates behind a panel.
template <Scalar T>
struct UpdateSetup {
  static constexpr plan::ProductBlocks blocks =
      plan::product_blocks(scalar_type_of<T>(), plan::class_of_blocks(plan::block_sizes.back()));
  static constexpr int residents = blocks.residents;
  using Shape = block::GemmShape<block::PartOf<T>, block::parts_of<T>, blocks.rows, blocks.columns, blocks.warps_down,
                                 blocks.warps_across, blocks.stages>;
};
template <Scalar T>
using UpdateShape = typename UpdateSetup<T>::Shape;
template <Scalar T>
inline constexpr int update_residents = UpdateSetup<T>::residents;

template <class Shape>
struct UpdateMemory {
  block::GemmMemory<Shape> stages;
  alignas(16) unsigned char product[sizeof(block::BlockProduct<typename Shape::E>)];
  FoundLapackProblem<typename Shape::E> found;
};

/// The loop of update kernels over all problems. All thread blocks call it.
/// @param make (problem, whether it is good, number): returns the product; one thread calls it
template <class Shape, block::Result result, class Make>
__device__ void update_all(const block::LapackProblems<typename Shape::E>& problems, UpdateMemory<Shape>& memory,
                           Make make) {
  using Blocks = block::BlocksOfProduct<Shape::rows, Shape::columns>;
  auto& product = *reinterpret_cast<block::BlockProduct<typename Shape::E>*>(memory.product);
  const index_t layer = blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y;
  for (index_t number = layer; number < problems.count; number += static_cast<index_t>(gridDim.y) * gridDim.z) {
    if (threadIdx.x < 32) memory.found.find(problems, number, false);
    if (threadIdx.x == 0) product = make(memory.found.problem, memory.found.is_good, number);
    __syncthreads();
#pragma unroll 1
    for (index_t at = blockIdx.x;; at += gridDim.x) {
      typename Blocks::Place place;
      if (!Blocks::find(product, at, place)) break;
      block::GemmBlock<Shape, GpuWarps, block::Operands::plain, result>(product, memory.stages, place.first_row,
                                                                        place.first_column, {})
          .run();
      __syncthreads();
    }
    __syncthreads();
  }
}

/// Thread blocks per problem: as many as it has work for, within the limit of a grid, where each computes several
/// blocks.
/// @param work 0: not known
inline index_t blocks_for(index_t work, index_t of_block) {
  constexpr index_t most = index_t{1} << 20;
  return work <= 0 ? 1 : work > most * of_block ? most : block::pieces(work, of_block);
}

/// The number of blocks that cross the lower triangle of a matrix.
template <int rows, int columns>
index_t blocks_of_triangle(index_t order) {
  block::BlockProduct<block::Element<float, 1>> product;
  product.m = product.n = order;
  product.updated = block::Region::lower;
  return block::BlocksOfProduct<rows, columns>(product).count();
}

/// Calls f.operator()<number>() for each number of a sequence.
template <class F, std::size_t... at>
cudaError_t with_number(std::size_t number, std::index_sequence<at...>, F&& f) {
  cudaError_t error = cudaErrorInvalidValue;
  static_cast<void>(((at == number && (error = f.template operator()<at>(), true)) || ...));
  return error;
}

/// Calls f.operator()<number>() with the class of plan::small_factorizations, or with each class that the type has.
template <Scalar T, class F>
cudaError_t with_small_class(std::size_t number, F&& f) {
  return with_number(number, std::make_index_sequence<plan::small_factorizations.size()>(), [&]<std::size_t at>() {
    if constexpr (plan::is_small_factorization(scalar_type_of<T>(), at)) return f.template operator()<at>();
    return cudaErrorInvalidValue;
  });
}
template <Scalar T, class F>
void for_each_small_class(F&& f) {
  for (std::size_t i = 0; i < plan::small_factorizations.size(); ++i)
    static_cast<void>(with_small_class<T>(i, [&]<std::size_t at>() {
      f.template operator()<at>();
      return cudaSuccess;
    }));
}

template <class Kernel, class... Arguments>
cudaError_t launch(Kernel* kernel, dim3 grid, int threads, std::size_t bytes, cudaStream_t stream,
                   Arguments... arguments) {
  void* all[] = {&arguments...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(static_cast<unsigned>(threads)), all, bytes,
                          stream);
}
template <class Kernel>
cudaError_t load(Kernel* kernel, std::size_t bytes = 0) {
  return device::cuda::load_kernel(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace tessera::kernels::cuda::detail
