// The thread blocks of gemm_block.hpp on a GPU, for many problems: kernels and launches by the shape of the blocks.
// product_batch.cu has the chosen ones, and bench/batch_blocks the candidates.
#pragma once

#include <cuda_runtime.h>

#include <cub/block/block_scan.cuh>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/gemm_block.hpp"
#include "kernels/block/product_batch.hpp"
#include "kernels/block/tile_schedule.hpp"
#include "kernels/cuda/batch_grid.cuh"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/cuda/product_batch.hpp"

namespace tessera::kernels::cuda::detail {

using block::BlockProduct;
using block::BlockRange;
using block::BlocksOfProduct;
using block::Element;
using block::GemmMemory;
using block::Operands;
using block::ProductBatch;
using block::SummedCosts;

/// The grids for which a kernel is compiled: cut by bounds, or that and a persistent one.
enum class Grids : unsigned char { cut, both };

/// The problem of a thread block, in shared memory: its registers are needed for the sums.
template <class E, Operands operands>
class FoundProblem {
  using Batch = ProductBatch<E>;

 public:
  /// Loads the problem. The first warp calls it. @param tells whether this thread block reports a bad argument
  __device__ void find(const Batch& batch, const Complaints& complaints, index_t number, bool tells) {
    load_words(batch, number, words_);
    __syncwarp();
    if (threadIdx.x % 32 > 0) return;
    const auto problem = Batch::problem_of(words_);
    product_ = block::product_of<operands>(batch.form, problem);
    if (!complaints.is_good(batch, problem, number, tells)) product_.does_nothing = true;
  }

  __device__ const BlockProduct<E>& product() const { return product_; }

 private:
  index_t words_[Batch::words];
  BlockProduct<E> product_;
};

template <class Shape, Operands operands>
struct alignas(16) ProductMemory {
  using Problem = FoundProblem<typename Shape::E, operands>;
  GemmMemory<Shape> stages;
  alignas(16) unsigned char bytes_of_problem[sizeof(Problem)];
  BlockRange range;  ///< in a persistent grid
  bool is_done;

  __device__ Problem& problem() { return *reinterpret_cast<Problem*>(bytes_of_problem); }

  template <class Machine>
  __device__ void compute(typename BlocksOfProduct<Shape::rows, Shape::columns>::Place place, Machine machine) {
    block::GemmBlock<Shape, Machine, operands>(problem().product(), stages, place.first_row, place.first_column,
                                               machine)
        .run();
  }
};

/// The parameters of a kernel of products: the shape of the blocks of C, the thread blocks that a multiprocessor runs
/// at a time, and the problems per thread block.
template <class ShapeOfBlock, int residents_of_multiprocessor, int problems_of_block>
struct ProductSetup {
  using Shape = ShapeOfBlock;
  using E = typename Shape::E;
  using Blocks = BlocksOfProduct<Shape::rows, Shape::columns>;
  using Team = detail::Team<problems_of_block>;
  static constexpr int residents = residents_of_multiprocessor, problems = problems_of_block;
  static constexpr int threads = problems * Shape::threads;
  static_assert(problems == 1 || Shape::warps == 1, "a warp has a problem of its own, or the thread block has one");
};
template <class R, int parts, plan::ProductBlocks blocks>
using SetupOfBlocks = ProductSetup<block::ShapeOfBlocks<R, parts, blocks>, blocks.residents, blocks.problems>;

/// Computes products with a grid that bounds have cut: grid_of().
template <class Setup, Operands operands>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    multiply(const __grid_constant__ ProductBatch<typename Setup::E> batch, Complaints complaints) {
  using Team = typename Setup::Team;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = reinterpret_cast<ProductMemory<typename Setup::Shape, operands>*>(bytes)[Team::number()];
#pragma unroll 1
  for (index_t number = Team::first_problem(); number < batch.count; number += Team::next_problem()) {
    // The first thread block of a problem reports a bad argument.
    if (Team::thread() < 32) memory.problem().find(batch, complaints, number, blockIdx.x == 0);
    Team::meet();
#pragma unroll 1
    for (index_t at = blockIdx.x;; at += gridDim.x) {
      typename Setup::Blocks::Place place;
      if (!Setup::Blocks::find(memory.problem().product(), at, place)) break;
      memory.compute(place, typename Team::Machine());
      Team::meet();  // the next block reuses the memory
    }
    Team::meet();
  }
}

/// Computes products with as many thread blocks as run at a time, each with its share of the work.
template <class Setup, Operands operands>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    multiply_shares(const __grid_constant__ ProductBatch<typename Setup::E> batch, Complaints complaints,
                    SummedCosts costs) {
  using Blocks = typename Setup::Blocks;
  static_assert(Setup::problems == 1);
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<ProductMemory<typename Setup::Shape, operands>*>(bytes);
  auto& problem = memory.problem();
  block::ShareOfWork share;  // of the first thread
  if (threadIdx.x == 0) share = block::ShareOfWork(costs, batch.count, blockIdx.x, gridDim.x);
  for (;;) {
    if (threadIdx.x < 32) {
      const index_t number = __shfl_sync(0xffffffffU, share.is_done() ? index_t{-1} : share.problem(), 0);
      // The kernel before has reported bad arguments.
      if (number >= 0) problem.find(batch, complaints, number, false);
      __syncwarp();
      if (threadIdx.x == 0) {
        memory.is_done = number < 0;
        if (number >= 0) {
          const Blocks blocks(problem.product());
          memory.range = share.take(blocks.count(), blocks.cost());
        }
      }
    }
    __syncthreads();
    if (memory.is_done) return;
#pragma unroll 1
    for (index_t at = memory.range.first; at < memory.range.end; at += memory.range.step) {
      memory.compute(Blocks(problem.product()).at(at), GpuWarps());
      __syncthreads();  // the next block reuses the memory
    }
    __syncthreads();
  }
}

constexpr int scan_threads = SummedCosts::problems_of_chunk;

template <class E, int rows, int columns>
__global__ void __launch_bounds__(scan_threads, 1)
    sum_costs(const __grid_constant__ ProductBatch<E> batch, Complaints complaints, SummedCosts costs) {
  using Scan = cub::BlockScan<index_t, scan_threads>;
  __shared__ typename Scan::TempStorage memory;
  const index_t number = static_cast<index_t>(blockIdx.x) * SummedCosts::problems_of_chunk + threadIdx.x;
  index_t cost = 0;
  if (number < batch.count) {
    const auto problem = batch.problem(number);
    cost = block::cost_of_problem(0, 0);
    if (complaints.is_good(batch, problem, number, true)) {
      const BlocksOfProduct<rows, columns> blocks(product_of(batch.form, problem));
      cost = block::cost_of_problem(blocks.count(), blocks.cost());
    }
  }
  index_t end = 0, all = 0;
  Scan(memory).InclusiveSum(cost, end, all);
  if (number < batch.count) costs.ends[number] = end;
  if (threadIdx.x == 0) costs.chunks[blockIdx.x] = all;
}

template <class Shape>
inline constexpr auto costs_of = sum_costs<typename Shape::E, Shape::rows, Shape::columns>;

/// A kernel and the shared memory that it needs.
struct ProductKernel {
  const void* function;
  int shared_bytes;
};
template <class Setup, Operands operands, Grids grids>
ProductKernel kernel_of(bool is_persistent) {
  constexpr auto bytes = static_cast<int>(Setup::problems * sizeof(ProductMemory<typename Setup::Shape, operands>));
  if constexpr (grids == Grids::both) {
    if (is_persistent) return {reinterpret_cast<const void*>(multiply_shares<Setup, operands>), bytes};
  }
  return {reinterpret_cast<const void*>(multiply<Setup, operands>), bytes};
}
/// @tparam most plain: there are no kernels for other operands
template <class Setup, Grids grids, Operands most>
ProductKernel kernel_of(Operands operands, bool is_persistent) {
  if (operands == Operands::plain) return kernel_of<Setup, Operands::plain, grids>(is_persistent);
  return kernel_of<Setup, most, grids>(is_persistent);
}

template <class Setup, Grids grids, Operands most = Operands::any>
cudaError_t load() {
  cudaError_t error = cudaSuccess;
  for (const bool is_persistent : {false, true}) {
    if (is_persistent && grids != Grids::both) continue;
    for (const Operands operands : {Operands::plain, Operands::any}) {
      const ProductKernel kernel = kernel_of<Setup, grids, most>(operands, is_persistent);
      if (error == cudaSuccess)
        error = device::cuda::load_kernel(kernel.function, static_cast<std::size_t>(kernel.shared_bytes));
    }
    if (is_persistent && error == cudaSuccess)
      error = device::cuda::load_kernel(reinterpret_cast<const void*>(costs_of<typename Setup::Shape>));
  }
  return error;
}

/// @pre how.summed == nullptr unless both grids are compiled; the form's operands are at most `most`
template <class Setup, Grids grids, Operands most = Operands::any>
cudaError_t launch(const Level3Batch& batch, const ProductLaunch& how, cudaStream_t stream) {
  using Shape = typename Setup::Shape;
  auto products = block::product_batch<typename Shape::R, Shape::parts>(batch);
  Complaints complaints{batch.info, batch.n.is_wide, batch.left_out};
  SummedCosts costs;
  const bool is_persistent = how.summed != nullptr;
  const ProductKernel kernel = kernel_of<Setup, grids, most>(block::operands_of(products.form), is_persistent);
  void* arguments[] = {&products, &complaints, &costs};
  dim3 grid = grid_of(how.most_blocks, batch.count, Setup::problems);
  if (is_persistent) {
    costs.ends = static_cast<index_t*>(how.summed);
    costs.chunks = costs.ends + batch.count;
    const index_t chunks = block::pieces(batch.count, SummedCosts::problems_of_chunk);
    const cudaError_t error =
        cudaLaunchKernel(reinterpret_cast<const void*>(costs_of<Shape>), dim3(static_cast<unsigned>(chunks)),
                         dim3(scan_threads), arguments, 0, stream);
    if (error != cudaSuccess) return error;
    grid = dim3(static_cast<unsigned>(how.multiprocessors * Setup::residents));
  }
  return cudaLaunchKernel(kernel.function, grid, dim3(Setup::threads), arguments,
                          static_cast<std::size_t>(kernel.shared_bytes), stream);
}

}  // namespace tessera::kernels::cuda::detail
