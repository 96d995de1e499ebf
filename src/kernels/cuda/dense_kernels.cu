#include "kernels/cuda/dense_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int warp = 32;
constexpr int tile = 32, rows_at_once = 8;

// The order of numbers that are not negative is that of their bits, and NaN is beyond infinity.
__device__ unsigned long long bits_of(double value) {
  return static_cast<unsigned long long>(__double_as_longlong(fabs(value)));
}

// Columns are dealt to the blocks.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    largest_of(const T* A, index_t lda, index_t m, index_t n, Part part, double* to) {
  unsigned long long largest = 0;
  for (index_t j = blockIdx.x; j < n; j += gridDim.x) {
    const index_t first = part == Part::lower ? j : 0, last = part == Part::upper ? j + 1 : m;
    for (index_t i = first + threadIdx.x; i < last; i += threads_per_block) {
      const T value = A[i + j * lda];
      for (int p = 0; p < T::part_count; ++p) {
        // Imaginary parts of a Hermitian diagonal are not looked at.
        if (p > 0 && part != Part::full && i == j) continue;
        const unsigned long long bits = bits_of(static_cast<double>(value.part[p]));
        largest = bits > largest ? bits : largest;
      }
    }
  }
  for (int distance = warp / 2; distance > 0; distance /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffU, largest, distance);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % warp == 0) atomicMax(reinterpret_cast<unsigned long long*>(to), largest);
}

// A tile at a time by way of shared memory, so that both matrices are touched along their columns.
template <class T>
__global__ void __launch_bounds__(tile* rows_at_once)
    transpose_tiles(const T* A, index_t lda, index_t m, index_t n, T* B, index_t ldb) {
  __shared__ T elements[tile][tile + 1];
  const index_t i0 = static_cast<index_t>(blockIdx.x) * tile;
  for (index_t j0 = static_cast<index_t>(blockIdx.y) * tile; j0 < n; j0 += static_cast<index_t>(gridDim.y) * tile) {
    for (int r = threadIdx.y; r < tile; r += rows_at_once) {
      if (i0 + threadIdx.x < m && j0 + r < n) elements[r][threadIdx.x] = A[i0 + threadIdx.x + (j0 + r) * lda];
    }
    __syncthreads();
    for (int r = threadIdx.y; r < tile; r += rows_at_once) {
      if (i0 + r >= m || j0 + threadIdx.x >= n) continue;
      T value = elements[threadIdx.x][r];
      if constexpr (T::part_count == 2) value.part[1] = -value.part[1];
      B[j0 + threadIdx.x + (i0 + r) * ldb] = value;
    }
    __syncthreads();
  }
}

template <Scalar T>
struct KernelsOf {
  using Value = block::ElementOf<T>;
  static const void* largest_kernel() { return reinterpret_cast<const void*>(largest_of<Value>); }
  static const void* transpose_kernel() { return reinterpret_cast<const void*>(transpose_tiles<Value>); }
};

}  // namespace

cudaError_t find_largest(const DenseMatrix& matrix, Part part, double* largest, cudaStream_t stream) {
  if (matrix.m == 0 || matrix.n == 0) return cudaSuccess;
  return dispatch(matrix.type, [&]<Scalar T>(T) {
    const auto* A = static_cast<const block::ElementOf<T>*>(matrix.A);
    index_t lda = matrix.lda, m = matrix.m, n = matrix.n;
    void* arguments[] = {&A, &lda, &m, &n, &part, &largest};
    const dim3 blocks(static_cast<unsigned>(std::min<index_t>(n, 2048)));
    return cudaLaunchKernel(KernelsOf<T>::largest_kernel(), blocks, dim3(threads_per_block), arguments, 0, stream);
  });
}

cudaError_t transpose(const DenseMatrix& from, const DenseMatrix& to, cudaStream_t stream) {
  if (from.m == 0 || from.n == 0) return cudaSuccess;
  return dispatch(from.type, [&]<Scalar T>(T) {
    const auto* A = static_cast<const block::ElementOf<T>*>(from.A);
    auto* B = static_cast<block::ElementOf<T>*>(to.A);
    index_t lda = from.lda, m = from.m, n = from.n, ldb = to.lda;
    void* arguments[] = {&A, &lda, &m, &n, &B, &ldb};
    constexpr index_t most_blocks = 65535;
    const dim3 blocks(static_cast<unsigned>((m + tile - 1) / tile),
                      static_cast<unsigned>(std::min<index_t>((n + tile - 1) / tile, most_blocks)));
    return cudaLaunchKernel(KernelsOf<T>::transpose_kernel(), blocks, dim3(tile, rows_at_once), arguments, 0, stream);
  });
}

cudaError_t load_dense_kernels() {
  for (const ScalarType type : scalar_types) {
    const cudaError_t error = dispatch(type, []<Scalar T>(T) {
      const cudaError_t loaded = device::cuda::load_kernel(KernelsOf<T>::largest_kernel());
      return loaded != cudaSuccess ? loaded : device::cuda::load_kernel(KernelsOf<T>::transpose_kernel());
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::kernels::cuda
