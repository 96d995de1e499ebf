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

/// Sets a strip to zero, which is the result for alpha == 0.
template <class Shape>
__device__ void clear(const block::TriangularSystem<typename Shape::E>& system, index_t first_column, int thread) {
  const index_t left = system.columns - first_column;
  const index_t columns = left < Shape::columns ? left : Shape::columns;
  for (index_t at = thread; at < system.order * columns; at += Shape::threads) {
    const index_t i = at % system.order, j = first_column + at / system.order;
    system.X[i * system.x_row + j * system.x_col] = {};
  }
}

/// The parameters of a kernel of sweeps: the shape of the strips, the thread blocks that a multiprocessor runs at a
/// time, and the problems per thread block.
template <class ShapeOfStrip, int residents_of_multiprocessor, int problems_of_block, bool triangles_are_one_leaf>
struct SweepSetup {
  using Shape = ShapeOfStrip;
  using Team = detail::Team<problems_of_block>;
  static constexpr int residents = residents_of_multiprocessor, problems = problems_of_block;
  static constexpr bool has_one_leaf = triangles_are_one_leaf;
  static constexpr int threads = problems * Shape::threads;
  static_assert(problems == 1 || Shape::warps == 1, "a warp has a problem of its own, or the thread block has one");
  template <bool is_solve>
  using Sweep = block::TriangularSweep<Shape, typename Team::Machine, is_solve, has_one_leaf>;
};

/// @tparam at the class of sizes of the strips
template <Scalar T, plan::SweepStrips strips, std::size_t at>
using SetupOfStrips =
    SweepSetup<block::StripShape<block::PartOf<T>, block::parts_of<T>, strips.warps, strips.columns>, strips.residents,
               strips.problems, at != plan::any_sweep && block::rows_per_block * strips.warps >= plan::block_sizes[at]>;

/// Results that one thread computes for all. In shared memory they take no registers from the sums.
template <class Setup>
struct alignas(16) SweepMemory {
  using E = typename Setup::Shape::E;
  alignas(16) unsigned char sweep[sizeof(typename Setup::template Sweep<true>::Memory)];
  block::TriangularSystem<E> system;
  index_t words[block::TriangularBatch<E>::words];

  /// Loads the problem. The first warp calls it.
  __device__ void find(const block::TriangularBatch<E>& batch, const Complaints& complaints, index_t number,
                       bool tells) {
    load_words(batch, number, words);
    __syncwarp();
    if (threadIdx.x % 32 > 0) return;
    const auto problem = batch.problem_of(words);
    system.order = 0;
    const bool is_good = complaints.is_good(batch, problem, number, tells);
    if (is_good && order_of(batch.form, problem) > 0) system = system_of(batch.form, problem);
  }
};

template <class Setup, bool is_solve>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    sweep(const __grid_constant__ block::TriangularBatch<typename Setup::Shape::E> batch, Complaints complaints) {
  using Shape = typename Setup::Shape;
  using Team = typename Setup::Team;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = reinterpret_cast<SweepMemory<Setup>*>(bytes)[Team::number()];
  auto& system = memory.system;
  for (index_t number = Team::first_problem(); number < batch.count; number += Team::next_problem()) {
    if (Team::thread() < 32) memory.find(batch, complaints, number, blockIdx.x == 0);
    Team::meet();
    const index_t columns = system.order > 0 ? system.columns : 0;
    for (index_t column = static_cast<index_t>(blockIdx.x) * Shape::columns; column < columns;
         column += static_cast<index_t>(gridDim.x) * Shape::columns) {
      if (batch.form.alpha_is_zero) {
        clear<Shape>(system, column, Team::thread());
      } else {
        using OfStrip = typename Setup::template Sweep<is_solve>;
        OfStrip(system, *reinterpret_cast<typename OfStrip::Memory*>(memory.sweep), column, {}).run();
      }
    }
    Team::meet();  // the next problem reuses the memory
  }
}

template <class Setup>
inline constexpr std::size_t sweep_bytes = Setup::problems * sizeof(SweepMemory<Setup>);

template <class Setup, bool is_solve>
cudaError_t load_sweep() {
  return device::cuda::load_kernel(reinterpret_cast<const void*>(sweep<Setup, is_solve>), sweep_bytes<Setup>);
}

template <class Setup, bool is_solve>
cudaError_t launch_sweep(const Level3Batch& batch, const SweepLaunch& how, cudaStream_t stream) {
  using Shape = typename Setup::Shape;
  auto triangles = block::triangular_batch<typename Shape::R, Shape::parts>(batch);
  Complaints complaints{batch.info, batch.n.is_wide, batch.left_out};
  void* arguments[] = {&triangles, &complaints};
  return cudaLaunchKernel(reinterpret_cast<const void*>(sweep<Setup, is_solve>),
                          grid_of(how.strips, batch.count, Setup::problems), dim3(Setup::threads), arguments,
                          sweep_bytes<Setup>, stream);
}

}  // namespace tessera::kernels::cuda::detail
