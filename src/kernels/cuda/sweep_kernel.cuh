// The thread blocks of triangular_sweep.hpp on a GPU, for many problems: kernels and launches by the shape of strips.
// triangular_batch.cu has those of the table.
#pragma once

#include <cuda_runtime.h>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/triangular_batch.hpp"
#include "kernels/block/triangular_sweep.hpp"
#include "kernels/cuda/batch_grid.cuh"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/cuda/triangular_batch.hpp"

namespace tessera::kernels::cuda::detail {

template <class Shape, bool is_solve, bool has_one_leaf>
using Sweep = block::TriangularSweep<Shape, GpuWarps, is_solve, has_one_leaf>;

/// What alpha == 0 leaves of a strip.
template <class Shape>
__device__ void clear(const block::TriangularSystem<typename Shape::E>& system, index_t first_column) {
  const index_t left = system.columns - first_column;
  const index_t columns = left < Shape::columns ? left : Shape::columns;
  for (index_t at = threadIdx.x; at < system.order * columns; at += Shape::threads) {
    const index_t i = at % system.order, j = first_column + at / system.order;
    system.X[i * system.x_row + j * system.x_col] = {};
  }
}

/// What one thread finds out, and all see: in shared memory it takes no registers from the sums.
template <class Shape, bool has_one_leaf>
struct SweepMemory {
  alignas(16) unsigned char sweep[sizeof(typename Sweep<Shape, true, has_one_leaf>::Memory)];
  block::TriangularSystem<typename Shape::E> system;
};

template <class Shape, int residents, bool is_solve, bool has_one_leaf>
__global__ void __launch_bounds__(Shape::threads, residents)
    sweep(const __grid_constant__ block::TriangularBatch<typename Shape::E> batch, Complaints complaints) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<SweepMemory<Shape, has_one_leaf>*>(bytes);
  auto& system = memory.system;
  for (index_t number = first_problem(); number < batch.count; number += next_problem()) {
    if (threadIdx.x == 0) {
      const auto problem = batch.problem(number);
      system.order = 0;
      const bool is_good = complaints.is_good(batch, problem, number, blockIdx.x == 0);
      if (is_good && order_of(batch.form, problem) > 0) system = system_of(batch.form, problem);
    }
    __syncthreads();
    const index_t columns = system.order > 0 ? system.columns : 0;
    for (index_t column = static_cast<index_t>(blockIdx.x) * Shape::columns; column < columns;
         column += static_cast<index_t>(gridDim.x) * Shape::columns) {
      if (batch.form.alpha_is_zero) {
        clear<Shape>(system, column);
      } else {
        using OfStrip = Sweep<Shape, is_solve, has_one_leaf>;
        OfStrip(system, *reinterpret_cast<typename OfStrip::Memory*>(memory.sweep), column, {}).run();
      }
    }
    __syncthreads();  // before the next problem takes its place
  }
}

template <class Shape, int residents, bool has_one_leaf>
const void* sweep_of(Routine routine) {
  return routine == Routine::trsm ? reinterpret_cast<const void*>(sweep<Shape, residents, true, has_one_leaf>)
                                  : reinterpret_cast<const void*>(sweep<Shape, residents, false, has_one_leaf>);
}

template <class Shape, int residents, bool has_one_leaf>
cudaError_t load_sweep(Routine routine) {
  return device::cuda::load_kernel(sweep_of<Shape, residents, has_one_leaf>(routine),
                                   sizeof(SweepMemory<Shape, has_one_leaf>));
}

template <class Shape, int residents, bool has_one_leaf>
cudaError_t launch_sweep(const Level3Batch& batch, const SweepLaunch& how, cudaStream_t stream) {
  auto triangles = block::triangular_batch<typename Shape::R, Shape::parts>(batch);
  Complaints complaints{batch.info, batch.n.is_wide};
  void* arguments[] = {&triangles, &complaints};
  return cudaLaunchKernel(sweep_of<Shape, residents, has_one_leaf>(batch.common.routine),
                          grid_of(how.strips, batch.count), dim3(Shape::threads), arguments,
                          sizeof(SweepMemory<Shape, has_one_leaf>), stream);
}

}  // namespace tessera::kernels::cuda::detail
