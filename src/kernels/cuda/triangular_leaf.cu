// The thread blocks of trsm_strip.hpp and trmm_strip.hpp on a GPU: one strip of right-hand sides per block.
#include "kernels/cuda/triangular_leaf.hpp"

#include <cuda_runtime.h>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/trmm_strip.hpp"
#include "kernels/block/trsm_strip.hpp"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/cuda/strip_loading.hpp"
#include "kernels/plan/strip_choice.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::StripMemory;

/// @tparam Work the work of a block on its strip: StripSolver or StripMultiplier
template <template <class, class> class Work, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) take_strips(block::TriangularSystem<typename Shape::E> system) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<StripMemory<Shape>*>(bytes);
  const index_t first_column = static_cast<index_t>(blockIdx.x) * Shape::columns;
  Work<Shape, GpuWarps>(system, memory, first_column, {}).run();
}

template <Scalar T, int columns>
using ShapeOf =
    block::StripShape<block::PartOf<T>, block::parts_of<T>,
                      static_cast<int>(triangular_leaf_rows(scalar_type_of<T>(), columns) / block::rows_per_block),
                      columns>;

/// Calls f.operator()<Shape>() for strips of so many columns. In complex single precision a strip of 32 columns would
/// need too many registers.
template <Scalar T, class F>
cudaError_t with_shape(int columns, F&& f) {
  if (columns == 8) return f.template operator()<ShapeOf<T, 8>>();
  if (columns == 16) return f.template operator()<ShapeOf<T, 16>>();
  if constexpr (plan::widest_strip(scalar_type_of<T>()) == 32) {
    if (columns == 32) return f.template operator()<ShapeOf<T, 32>>();
  }
  return cudaErrorInvalidValue;
}

template <class Shape>
const void* kernel_of(Routine routine) {
  return routine == Routine::trsm ? reinterpret_cast<const void*>(take_strips<block::StripSolver, Shape>)
                                  : reinterpret_cast<const void*>(take_strips<block::StripMultiplier, Shape>);
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
  // Strips lie along x, the only dimension of a grid that reaches 2^31 - 1.
  const index_t strips = (system.columns + Shape::columns - 1) / Shape::columns;
  if (strips > 0x7fffffff) return cudaErrorInvalidValue;
  void* arguments[] = {&system};
  return cudaLaunchKernel(kernel_of<Shape>(call.routine), dim3(static_cast<unsigned>(strips)), dim3(Shape::threads),
                          arguments, sizeof(StripMemory<Shape>), stream);
}

}  // namespace

cudaError_t submit_leaf(const Level3& call, cudaStream_t stream, int strip_columns) {
  return dispatch(call.type, [&]<Scalar T>(T) {
    return with_shape<T>(strip_columns, [&]<class Shape>() { return launch<Shape>(call, stream); });
  });
}

cudaError_t load_leaf_kernels(WidestStrips& widest) {
  return load_strips(plan::strip_widths, [&](ScalarType type, int columns, std::size_t shared_bytes) {
    if (columns > plan::widest_strip(type)) return cudaSuccess;
    return dispatch(type, [&]<Scalar T>(T) {
      return with_shape<T>(columns, [&]<class Shape>() {
        if (sizeof(StripMemory<Shape>) > shared_bytes) return cudaSuccess;
        widest[static_cast<std::size_t>(type)] = columns;
        return load<Shape>();
      });
    });
  });
}

}  // namespace tessera::kernels::cuda
