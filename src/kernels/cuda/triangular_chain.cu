// The thread blocks of trsm_chain.hpp and trsv_chain.hpp on a GPU: one link of one strip of right-hand sides per block.
#include "kernels/cuda/triangular_chain.hpp"

#include <cuda_runtime.h>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/trsm_chain.hpp"
#include "kernels/block/trsv_chain.hpp"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/cuda/strip_loading.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::Mark;

/// The contents of a chain's memory.
struct Chain {
  Mark launches;   ///< the number of launches so far
  unsigned begun;  ///< thread blocks of the current launch that have begun
  unsigned ended;
  Mark unused[6];
  Mark marks[plan::most_chain_marks];  ///< by strip
};
static_assert(sizeof(Chain) == chain_memory_bytes);

/// @tparam Link the work of a block: StripLink or VectorLink
template <template <class, class> class Link, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    solve_link(block::TriangularSystem<typename Shape::E> system, unsigned strips, Chain* chain) {
  using LinkOfShape = Link<Shape, GpuWarps>;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<typename LinkOfShape::Memory*>(bytes);
  // The first links of all strips begin first.
  __shared__ unsigned number;
  __shared__ Mark solved;
  if (threadIdx.x == 0) {
    number = atomicAdd(&chain->begun, 1);
    solved = chain->launches + 1;
  }
  __syncthreads();
  const int link = static_cast<int>(number / strips);
  const unsigned strip = number % strips;
  const index_t blocks = (system.order + Shape::rows_of_warp - 1) / Shape::rows_of_warp;
  const auto of_link = block::system_of_link<Shape>(system, link);
  LinkOfShape(of_link, memory, link, static_cast<index_t>(strip) * Shape::columns,
              block::SolvedBlocks(chain->marks + strip * blocks, solved), {})
      .run();
  // The last thread block to end prepares the memory for the next launch. All others have read `launches` before they
  // counted themselves.
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&chain->ended, 1) + 1 < gridDim.x) return;
  chain->begun = 0;
  chain->ended = 0;
  chain->launches = solved;
}

constexpr int rows_of_link = 128;

template <Scalar T, int columns>
using StripOf = block::StripShape<block::PartOf<T>, block::parts_of<T>, rows_of_link / block::rows_per_block, columns>;
/// The number of blocks of L in shared memory at a time: as many as fit.
template <Scalar T>
using VectorOf = block::VectorShape<block::PartOf<T>, block::parts_of<T>, rows_of_link / 32,
                                    sizeof(T) < 8    ? 4
                                    : sizeof(T) < 16 ? 3
                                                     : 2>;

/// Calls f.operator()<Link, Shape>() for strips of so many columns.
template <Scalar T, class F>
cudaError_t with_link(int columns, F&& f) {
  if (columns == 1) return f.template operator()<block::VectorLink, VectorOf<T>>();
  if (columns == 8) return f.template operator()<block::StripLink, StripOf<T, 8>>();
  return cudaErrorInvalidValue;
}

template <template <class, class> class Link, class Shape>
const void* kernel_of() {
  return reinterpret_cast<const void*>(solve_link<Link, Shape>);
}
template <template <class, class> class Link, class Shape>
constexpr std::size_t memory_of = sizeof(typename Link<Shape, GpuWarps>::Memory);

template <template <class, class> class Link, class Shape>
cudaError_t launch(const Level3& call, cudaStream_t stream, void* memory) {
  auto system = block::system_of<typename Shape::R, Shape::parts>(call);
  if (system.order < 1 || system.columns < 1) return cudaSuccess;
  if (!plan::fits_chain(system.order, system.columns, Shape::columns)) return cudaErrorInvalidValue;
  auto strips = static_cast<unsigned>((system.columns + Shape::columns - 1) / Shape::columns);
  const auto links = static_cast<unsigned>((system.order + Shape::rows - 1) / Shape::rows);
  auto* chain = static_cast<Chain*>(memory);
  void* arguments[] = {&system, &strips, &chain};
  return cudaLaunchKernel(kernel_of<Link, Shape>(), dim3(strips * links), dim3(Shape::threads), arguments,
                          memory_of<Link, Shape>, stream);
}

}  // namespace

cudaError_t submit_chain(const Level3& call, cudaStream_t stream, int strip_columns, void* memory) {
  return dispatch(call.type, [&]<Scalar T>(T) {
    return with_link<T>(strip_columns, [&]<template <class, class> class Link, class Shape>() {
      return launch<Link, Shape>(call, stream, memory);
    });
  });
}

cudaError_t load_chain_kernels(ChainStrips& strips) {
  return load_strips(plan::chain_strips, [&](ScalarType type, int columns, std::size_t shared_bytes) {
    return dispatch(type, [&]<Scalar T>(T) {
      return with_link<T>(columns, [&]<template <class, class> class Link, class Shape>() {
        if (memory_of < Link, Shape >> shared_bytes) return cudaSuccess;
        strips[static_cast<std::size_t>(type)].push_back(columns);
        return device::cuda::load_kernel(kernel_of<Link, Shape>(), memory_of<Link, Shape>);
      });
    });
  });
}

}  // namespace tessera::kernels::cuda
