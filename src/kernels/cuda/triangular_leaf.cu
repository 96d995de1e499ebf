// The thread blocks of trsm_strip.hpp and trmm_strip.hpp on a GPU: one strip of right-hand sides per block.
#include "kernels/cuda/triangular_leaf.hpp"

#include <cuda_runtime.h>

#include <array>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/trmm_strip.hpp"
#include "kernels/block/trsm_strip.hpp"
#include "kernels/cuda/gpu_warps.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::StripMemory;

template <class Shape>
__global__ void __launch_bounds__(Shape::threads) solve_strips(block::TriangularSystem<typename Shape::E> system) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<StripMemory<Shape>*>(bytes);
  const index_t first_column = static_cast<index_t>(blockIdx.x) * Shape::columns;
  block::StripSolver<Shape, GpuWarps>(system, memory, first_column, {}).run();
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads) multiply_strips(block::TriangularSystem<typename Shape::E> system) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<StripMemory<Shape>*>(bytes);
  const index_t first_column = static_cast<index_t>(blockIdx.x) * Shape::columns;
  block::StripMultiplier<Shape, GpuWarps>(system, memory, first_column, {}).run();
}

template <Scalar T, int columns>
using ShapeOf =
    block::StripShape<block::PartOf<T>, block::parts_of<T>,
                      static_cast<int>(triangular_leaf_rows(scalar_type_of<T>()) / block::rows_per_block), columns>;

/// Wide strips take a little longer than narrow ones, but half as many multiprocessors: 20 and 17 us in double, 25 and 20 in complex double
/// (H200). Complex single has too few registers for them (61 and 37 us). So narrow ones where few columns leave multiprocessors idle anyway,
/// and where a block cannot have the 104 KiB of shared memory that wide ones take in double (sm_86, sm_89).
constexpr int narrow_strip = 16;
constexpr int wide_strip = 32;
template <Scalar T>
constexpr bool has_wide_strips = scalar_type_of<T>() != ScalarType::c;

template <class Shape>
const void* kernel_of(Routine routine) {
  return routine == Routine::trsm ? reinterpret_cast<const void*>(solve_strips<Shape>)
                                  : reinterpret_cast<const void*>(multiply_strips<Shape>);
}

template <class Shape>
constexpr bool fits(int shared_bytes) {
  return sizeof(StripMemory<Shape>) <= static_cast<std::size_t>(shared_bytes);
}

template <class Shape>
cudaError_t load() {
  for (const Routine routine : {Routine::trsm, Routine::trmm}) {
    const cudaError_t error = device::cuda::load_kernel(kernel_of<Shape>(routine), sizeof(StripMemory<Shape>));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <class Shape>
cudaError_t launch(const Level3& call, cudaStream_t stream) {
  auto system = block::system_of<typename Shape::R, Shape::parts>(call);
  if (system.order < 1 || system.columns < 1) return cudaSuccess;
  if (system.order > Shape::rows) return cudaErrorInvalidValue;
  // Strips are counted along x, the one dimension of a grid that reaches 2^31 - 1.
  const index_t strips = (system.columns + Shape::columns - 1) / Shape::columns;
  if (strips > 0x7fffffff) return cudaErrorInvalidValue;
  void* arguments[] = {&system};
  return cudaLaunchKernel(kernel_of<Shape>(call.routine), dim3(static_cast<unsigned>(strips)), dim3(Shape::threads),
                          arguments, sizeof(StripMemory<Shape>), stream);
}

}  // namespace

cudaError_t submit_leaf(const Level3& call, cudaStream_t stream, int shared_bytes, index_t most_narrow_columns) {
  const index_t columns = call.side == Side::left ? call.n : call.m;
  return dispatch(call.type, [&]<Scalar T>(T) {
    if constexpr (has_wide_strips<T>) {
      using Wide = ShapeOf<T, wide_strip>;
      if (columns > most_narrow_columns && fits<Wide>(shared_bytes)) return launch<Wide>(call, stream);
    }
    return launch<ShapeOf<T, narrow_strip>>(call, stream);
  });
}

cudaError_t load_leaf_kernels(int& shared_bytes) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  for (const ScalarType type : scalar_types) {
    if (error != cudaSuccess) return error;
    error = dispatch(type, [&]<Scalar T>(T) {
      if constexpr (has_wide_strips<T>) {
        using Wide = ShapeOf<T, wide_strip>;
        const cudaError_t wide = fits<Wide>(shared_bytes) ? load<Wide>() : cudaSuccess;
        if (wide != cudaSuccess) return wide;
      }
      return load<ShapeOf<T, narrow_strip>>();
    });
  }
  return error;
}

}  // namespace tessera::kernels::cuda
