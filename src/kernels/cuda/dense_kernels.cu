#include "kernels/cuda/dense_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int warp = 32;
constexpr int tile = 32, rows_at_once = 8;

// Nonnegative numbers are ordered as their bits are, and a NaN is larger than infinity.
__device__ unsigned long long bits_of(double value) {
  return static_cast<unsigned long long>(__double_as_longlong(fabs(value)));
}

// Columns are distributed over the blocks.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    largest_of(const T* A, index_t lda, index_t m, index_t n, Part part, bool real_diagonal, double* to) {
  unsigned long long largest = 0;
  for (index_t j = blockIdx.x; j < n; j += gridDim.x) {
    const index_t first = part == Part::lower ? j : 0, last = part == Part::upper ? j + 1 : m;
    for (index_t i = first + threadIdx.x; i < last; i += threads_per_block) {
      const T value = A[i + j * lda];
      for (int p = 0; p < T::part_count; ++p) {
        if (p > 0 && real_diagonal && i == j) continue;
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

// Copies a tile at a time through shared memory, so that both matrices are accessed along their columns.
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

// Columns are distributed over the blocks, here and below.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    copy_trapezoid_of(const T* A, index_t lda, index_t m, index_t n, Part part, index_t shift, bool is_unit, T* B,
                      index_t ldb) {
  for (index_t j = blockIdx.x; j < n; j += gridDim.x) {
    for (index_t i = threadIdx.x; i < m; i += threads_per_block) {
      const index_t below = i - j - shift;
      T value = {};
      if (below == 0 && is_unit)
        value.part[0] = 1;
      else if (below == 0 || (below > 0) == (part == Part::lower))
        value = A[i + j * lda];
      B[i + j * ldb] = value;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    divide_rows(T* B, index_t ldb, index_t m, index_t n, const typename T::Part* values, typename T::Part rcond,
                unsigned long long* rank) {
  const typename T::Part least = rcond * values[0];
  for (index_t j = blockIdx.x; j < n; j += gridDim.x) {
    for (index_t i = threadIdx.x; i < m; i += threads_per_block) {
      const bool counts = !(values[i] <= least);
      for (int p = 0; p < T::part_count; ++p) B[i + j * ldb].part[p] = counts ? B[i + j * ldb].part[p] / values[i] : 0;
      if (counts && j == 0) atomicAdd(rank, 1ULL);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    read_pivots_of(const T* A, index_t lda, index_t n, const void* ipiv, int bits, std::int64_t* wide, int* info) {
  const index_t i = static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= n) return;
  const std::int64_t pivot =
      bits == 64 ? static_cast<const std::int64_t*>(ipiv)[i] : static_cast<const std::int32_t*>(ipiv)[i];
  // A search among NaN may have found none.
  const bool is_row = pivot != 0 && -n <= pivot && pivot <= n;
  wide[i] = is_row ? pivot : i + 1;
  bool is_zero = true;
  for (int p = 0; p < T::part_count; ++p) is_zero = is_zero && A[i + i * lda].part[p] == 0;
  if (!is_row || (is_zero && pivot > 0)) *info = static_cast<int>(i + 1);
}

template <Scalar T>
struct KernelsOf {
  using Value = block::ElementOf<T>;
  static const void* largest_kernel() { return reinterpret_cast<const void*>(largest_of<Value>); }
  static const void* transpose_kernel() { return reinterpret_cast<const void*>(transpose_tiles<Value>); }
  static const void* trapezoid_kernel() { return reinterpret_cast<const void*>(copy_trapezoid_of<Value>); }
  static const void* quotient_kernel() { return reinterpret_cast<const void*>(divide_rows<Value>); }
  static const void* pivot_kernel() { return reinterpret_cast<const void*>(read_pivots_of<Value>); }
};

/// @param kernels_of(T{}) of a type
template <class F>
cudaError_t load(F kernels_of) {
  for (const ScalarType type : scalar_types) {
    for (const void* const kernel : dispatch(type, kernels_of)) {
      if (const cudaError_t error = device::cuda::load_kernel(kernel); error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

dim3 blocks_for(index_t columns) { return dim3(static_cast<unsigned>(std::min<index_t>(columns, 2048))); }

}  // namespace

cudaError_t find_largest(const DenseMatrix& matrix, Part part, bool real_diagonal, double* largest,
                         cudaStream_t stream) {
  if (matrix.m == 0 || matrix.n == 0) return cudaSuccess;
  return dispatch(matrix.type, [&]<Scalar T>(T) {
    const auto* A = static_cast<const block::ElementOf<T>*>(matrix.A);
    index_t lda = matrix.lda, m = matrix.m, n = matrix.n;
    void* arguments[] = {&A, &lda, &m, &n, &part, &real_diagonal, &largest};
    return cudaLaunchKernel(KernelsOf<T>::largest_kernel(), blocks_for(n), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t copy_trapezoid(const DenseMatrix& from, const Trapezoid& trapezoid, const DenseMatrix& to,
                           cudaStream_t stream) {
  if (from.m == 0 || from.n == 0) return cudaSuccess;
  return dispatch(from.type, [&]<Scalar T>(T) {
    const auto* A = static_cast<const block::ElementOf<T>*>(from.A);
    auto* B = static_cast<block::ElementOf<T>*>(to.A);
    index_t lda = from.lda, m = from.m, n = from.n, ldb = to.lda, shift = trapezoid.shift;
    Part part = trapezoid.part;
    bool is_unit = trapezoid.diag == Diag::unit;
    void* arguments[] = {&A, &lda, &m, &n, &part, &shift, &is_unit, &B, &ldb};
    return cudaLaunchKernel(KernelsOf<T>::trapezoid_kernel(), blocks_for(n), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t divide_by_values(const DenseMatrix& B, const void* values, double rcond, std::int64_t* rank,
                             cudaStream_t stream) {
  if (B.m == 0 || B.n == 0) return cudaSuccess;
  return dispatch(B.type, [&]<Scalar T>(T) {
    using Real = block::PartOf<T>;
    auto* matrix = static_cast<block::ElementOf<T>*>(B.A);
    index_t ldb = B.lda, m = B.m, n = B.n;
    const auto* divisors = static_cast<const Real*>(values);
    Real factor = effective_rcond<Real>(rcond);
    void* arguments[] = {&matrix, &ldb, &m, &n, &divisors, &factor, &rank};
    return cudaLaunchKernel(KernelsOf<T>::quotient_kernel(), blocks_for(n), dim3(threads_per_block), arguments, 0,
                            stream);
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

cudaError_t read_pivots(const DenseMatrix& A, const void* ipiv, int bits, std::int64_t* wide, int* info,
                        cudaStream_t stream) {
  return dispatch(A.type, [&]<Scalar T>(T) {
    const auto* elements = static_cast<const block::ElementOf<T>*>(A.A);
    index_t lda = A.lda, n = A.n;
    void* arguments[] = {&elements, &lda, &n, &ipiv, &bits, &wide, &info};
    const dim3 blocks(static_cast<unsigned>((n + threads_per_block - 1) / threads_per_block));
    return cudaLaunchKernel(KernelsOf<T>::pivot_kernel(), blocks, dim3(threads_per_block), arguments, 0, stream);
  });
}

cudaError_t load_copy_kernels() {
  return load([]<Scalar T>(T) {
    return std::array{KernelsOf<T>::transpose_kernel(), KernelsOf<T>::trapezoid_kernel()};
  });
}

cudaError_t load_dense_kernels() {
  const cudaError_t error = load_copy_kernels();
  if (error != cudaSuccess) return error;
  return load([]<Scalar T>(T) {
    return std::array{KernelsOf<T>::largest_kernel(), KernelsOf<T>::quotient_kernel(), KernelsOf<T>::pivot_kernel()};
  });
}

}  // namespace tessera::kernels::cuda
