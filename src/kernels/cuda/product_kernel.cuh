// The thread blocks of gemm_block.hpp on a GPU, for many problems: kernels and launches by the shape of the blocks.
// product_batch.cu has those that are chosen, bench/batch_blocks those that they are chosen from.
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

/// What a thread block computes next. One thread finds it, and all see it in shared memory, where it takes no registers
/// from the sums.
template <class Shape>
class Work {
  using E = typename Shape::E;
  using Blocks = BlocksOfProduct<Shape::rows, Shape::columns>;

 public:
  /// Before the first block. Of the grid: grid_of() or, with costs, persistent.
  __device__ void begin(const ProductBatch<E>& batch, const SummedCosts& costs) {
    is_persistent_ = costs.ends != nullptr;
    if (is_persistent_)
      share_ = block::ShareOfWork(costs, batch.count, blockIdx.x, gridDim.x);
    else
      next_ = first_problem();
    range_ = {};
  }

  /// Goes on to the next block. @return whether there is one
  __device__ bool advance(const ProductBatch<E>& batch, const Complaints& complaints) {
    range_.first += range_.step;
    while (range_.first >= range_.end) {
      if (is_persistent_ ? share_.is_done() : next_ >= batch.count) return false;
      const index_t number = is_persistent_ ? share_.problem() : next_;
      next_ += next_problem();
      if (!is_persistent_ && has_nothing_of(batch, number)) continue;
      const auto problem = batch.problem(number);
      // In a persistent grid the kernel before it has told what is bad.
      const bool is_good = complaints.is_good(batch, problem, number, !is_persistent_ && blockIdx.x == 0);
      product = product_of(batch.form, problem);
      if (!is_good) product.does_nothing = true;
      blocks_ = Blocks(product);
      const index_t count = blocks_.count();
      range_ = is_persistent_ ? share_.take(count, blocks_.cost()) : BlockRange{blockIdx.x, count, gridDim.x};
    }
    place = blocks_.at(range_.first);
    return true;
  }

  BlockProduct<E> product;
  typename Blocks::Place place;
  bool is_done;

 private:
  /// Most thread blocks of a grid that is cut by bounds: it is found out before anything else. The first one of a
  /// problem tells what is bad.
  __device__ static bool has_nothing_of(const ProductBatch<E>& batch, index_t number) {
    if (blockIdx.x == 0) return false;
    const index_t n = batch.n.of(number), m = batch.form.square ? n : batch.m.of(number);
    return blockIdx.x >= block::pieces(m, Shape::rows) * block::pieces(n, Shape::columns);
  }

  bool is_persistent_;
  block::ShareOfWork share_;
  index_t next_;
  Blocks blocks_;
  BlockRange range_;
};

template <class Shape>
struct ProductMemory {
  GemmMemory<Shape> stages;
  alignas(16) unsigned char work[sizeof(Work<Shape>)];
};

template <class Shape, int residents, Operands operands>
__global__ void __launch_bounds__(Shape::threads, residents)
    multiply(const __grid_constant__ ProductBatch<typename Shape::E> batch, Complaints complaints, SummedCosts costs) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<ProductMemory<Shape>*>(bytes);
  auto& work = *reinterpret_cast<Work<Shape>*>(memory.work);
  if (threadIdx.x == 0) work.begin(batch, costs);
  for (;;) {
    if (threadIdx.x == 0) work.is_done = !work.advance(batch, complaints);
    __syncthreads();
    if (work.is_done) return;
    block::GemmBlock<Shape, GpuWarps, operands>(work.product, memory.stages, work.place.first_row,
                                                work.place.first_column, {})
        .run();
    __syncthreads();  // before the next block takes its place
  }
}

constexpr int scan_threads = SummedCosts::problems_of_chunk;

template <class E, int rows, int columns>
__global__ void __launch_bounds__(scan_threads, 1)
    sum_costs(const __grid_constant__ ProductBatch<E> batch, Complaints complaints, SummedCosts costs) {
  using Scan = cub::BlockScan<index_t, scan_threads>;
  __shared__ typename Scan::TempStorage memory;
  const index_t number = blockIdx.x * SummedCosts::problems_of_chunk + threadIdx.x;
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

template <class Shape, int residents>
const void* kernel_of(Operands operands) {
  return operands == Operands::plain ? reinterpret_cast<const void*>(multiply<Shape, residents, Operands::plain>)
                                     : reinterpret_cast<const void*>(multiply<Shape, residents, Operands::any>);
}
template <class Shape, int residents>
cudaError_t load(Operands operands) {
  const cudaError_t error = device::cuda::load_kernel(reinterpret_cast<const void*>(costs_of<Shape>));
  if (error != cudaSuccess) return error;
  return device::cuda::load_kernel(kernel_of<Shape, residents>(operands), sizeof(ProductMemory<Shape>));
}

template <class Shape, int residents>
cudaError_t launch(const Level3Batch& batch, const ProductLaunch& how, cudaStream_t stream) {
  auto products = block::product_batch<typename Shape::R, Shape::parts>(batch);
  const Operands operands = block::operands_of(products.form);
  Complaints complaints{batch.info, batch.n.is_wide};
  SummedCosts costs;
  dim3 grid;
  if (how.summed != nullptr) {
    costs.ends = static_cast<index_t*>(how.summed);
    costs.chunks = costs.ends + batch.count;
    const index_t chunks = block::pieces(batch.count, SummedCosts::problems_of_chunk);
    void* arguments[] = {&products, &complaints, &costs};
    const cudaError_t error =
        cudaLaunchKernel(reinterpret_cast<const void*>(costs_of<Shape>), dim3(static_cast<unsigned>(chunks)),
                         dim3(scan_threads), arguments, 0, stream);
    if (error != cudaSuccess) return error;
    grid = dim3(static_cast<unsigned>(how.multiprocessors * residents));
  } else {
    grid = grid_of(how.most_blocks, batch.count);
  }
  void* arguments[] = {&products, &complaints, &costs};
  return cudaLaunchKernel(kernel_of<Shape, residents>(operands), grid, dim3(Shape::threads), arguments,
                          sizeof(ProductMemory<Shape>), stream);
}

}  // namespace tessera::kernels::cuda::detail
