// The thread block of trsm_strip.hpp on a GPU: one strip of right-hand sides per block.
#include "kernels/cuda/trsm.hpp"

#include <cuda_runtime.h>

#include <complex>
#include <type_traits>

#include "device/cuda/cuda_context.hpp"
#include "kernels/cuda/trsm_strip.hpp"

namespace tessera::kernels::cuda {
namespace {

#if __CUDA_ARCH__ < 900
__device__ void multiply_8x4x8(double (&c)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1])
               : "d"(a), "d"(b));
}
#endif

/// The threads of a block. Barriers 1 and 2 of the hardware; 0 is __syncthreads().
struct GpuWarps {
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32; }
  __device__ void sync_warp() const { __syncwarp(); }
  // Numbers of barriers are constants, else the compiler reserves all 16 for every block.
  __device__ void arrive(int barrier, int warps) const {
    // What the warp has written is seen by who has waited; less than __threadfence_block(), which also orders all else.
    asm volatile("fence.acq_rel.cta;" ::: "memory");
    if (barrier == 0) {
      asm volatile("bar.arrive 1, %0;" ::"r"(32 * warps) : "memory");
    } else {
      asm volatile("bar.arrive 2, %0;" ::"r"(32 * warps) : "memory");
    }
  }
  __device__ void await(int barrier, int warps) const {
    __syncwarp();
    if (barrier == 0) {
      asm volatile("bar.sync 1, %0;" ::"r"(32 * warps) : "memory");
    } else {
      asm volatile("bar.sync 2, %0;" ::"r"(32 * warps) : "memory");
    }
  }
  template <class R>
  __device__ R shuffle(R value, int lane) const {
    return __shfl_sync(0xffffffffU, value, lane);
  }
  __device__ bool any(bool value) const { return __any_sync(0xffffffffU, value) != 0; }
  __device__ void multiply(double (&upper)[2], double (&lower)[2], const double (&a)[2][4],
                           const double (&b)[4]) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(upper[0]), "+d"(upper[1]), "+d"(lower[0]), "+d"(lower[1])
        : "d"(a[0][0]), "d"(a[1][0]), "d"(a[0][1]), "d"(a[1][1]), "d"(a[0][2]), "d"(a[1][2]), "d"(a[0][3]),
          "d"(a[1][3]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      multiply_8x4x8(upper, a[0][s], b[s]);
      multiply_8x4x8(lower, a[1][s], b[s]);
    }
#endif
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads) solve_strips(TriangularSystem<typename Shape::E> system) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<StripMemory<Shape>*>(bytes);
  const index_t first_column = static_cast<index_t>(blockIdx.x) * Shape::columns;
  StripSolver<Shape, GpuWarps>(system, memory, first_column, {}).run();
}

template <Scalar T>
inline constexpr int parts_of = is_complex(scalar_type_of<T>()) ? 2 : 1;
template <Scalar T>
using RealOf = std::conditional_t<sizeof(T) / parts_of<T> == sizeof(float), float, double>;

template <Scalar T, int columns>
using ShapeOf =
    StripShape<RealOf<T>, parts_of<T>, static_cast<int>(trsm_leaf_rows(scalar_type_of<T>()) / rows_per_block), columns>;

/// Wide strips take a little longer than narrow ones, but half as many multiprocessors: 20 and 17 us in double, 25 and 20 in complex double
/// (H200). Complex single has too few registers for them (61 and 37 us). So narrow ones where few columns leave multiprocessors idle anyway,
/// and where a block cannot have the 104 KiB of shared memory that wide ones take in double (sm_86, sm_89).
constexpr int narrow_strip = 16;
constexpr int wide_strip = 32;
template <Scalar T>
constexpr bool has_wide_strips = scalar_type_of<T>() != ScalarType::c;

template <class Shape>
const void* kernel_of() {
  return reinterpret_cast<const void*>(solve_strips<Shape>);
}

template <class Shape>
constexpr bool fits(int shared_bytes) {
  return sizeof(StripMemory<Shape>) <= static_cast<std::size_t>(shared_bytes);
}

template <class Shape>
cudaError_t load() {
  return device::cuda::load_kernel(kernel_of<Shape>(), sizeof(StripMemory<Shape>));
}

template <class Shape>
cudaError_t launch(const Level3& call, cudaStream_t stream) {
  auto system = system_of<typename Shape::R, Shape::parts>(call);
  if (system.order < 1 || system.columns < 1) return cudaSuccess;
  if (system.order > Shape::rows) return cudaErrorInvalidValue;
  // Strips are counted along x, the one dimension of a grid that reaches 2^31 - 1.
  const index_t strips = (system.columns + Shape::columns - 1) / Shape::columns;
  if (strips > 0x7fffffff) return cudaErrorInvalidValue;
  void* arguments[] = {&system};
  return cudaLaunchKernel(kernel_of<Shape>(), dim3(static_cast<unsigned>(strips)), dim3(Shape::threads), arguments,
                          sizeof(StripMemory<Shape>), stream);
}

}  // namespace

cudaError_t solve_leaf(const Level3& call, cudaStream_t stream, int shared_bytes, index_t most_narrow_columns) {
  const index_t columns = call.side == Side::left ? call.n : call.m;
  return dispatch(call.type, [&]<Scalar T>(T) {
    if constexpr (has_wide_strips<T>) {
      using Wide = ShapeOf<T, wide_strip>;
      if (columns > most_narrow_columns && fits<Wide>(shared_bytes)) return launch<Wide>(call, stream);
    }
    return launch<ShapeOf<T, narrow_strip>>(call, stream);
  });
}

cudaError_t load_trsm_kernels(int& shared_bytes) {
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
