// One thread per element of a column, one block row per column in a grid-stride loop. These kernels are rare, so they
// are not tuned.
#include "kernels/cuda/elementwise.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::fused;
using block::product;
using block::real_part;

constexpr int threads_per_block = 256;

template <class T>
struct Matrix {
  T* elements;
  index_t ld, m, n;
  Part part;
  bool real_diagonal;  ///< the diagonal and the factor are real
};

template <class T>
__global__ void __launch_bounds__(threads_per_block) scale_elements(Matrix<T> matrix, T factor, bool to_zero) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t j = blockIdx.y; j < matrix.n; j += gridDim.y) {
    const index_t begin = matrix.part == Part::lower ? j : 0;
    const index_t end = matrix.part == Part::upper ? min(j + 1, matrix.m) : matrix.m;
    for (index_t i = begin + static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < end; i += step) {
      T& element = matrix.elements[i + j * matrix.ld];
      if (to_zero) {
        element = T{};
        continue;
      }
      T value = element;
      // An imaginary part that counts as zero must not spoil the real one, even if it is a NaN.
      if (matrix.real_diagonal && i == j) value = real_part(value);
      value = matrix.real_diagonal ? product(value, factor.part[0]) : product(value, factor);
      if (matrix.real_diagonal && i == j) value = real_part(value);
      element = value;
    }
  }
}

// Columns are distributed over block rows, and the elements of a column over the threads. Accesses are coalesced, and
// there are enough blocks to fill the GPU.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    add_elements(Matrix<T> matrix, const T* __restrict__ X, index_t ldx, T factor) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t j = blockIdx.y; j < matrix.n; j += gridDim.y) {
    const index_t begin = matrix.part == Part::lower ? j : 0;
    const index_t end = matrix.part == Part::upper ? min(j + 1, matrix.m) : matrix.m;
    for (index_t i = begin + static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < end; i += step) {
      T x = X[i + j * ldx];
      if (matrix.real_diagonal && i == j) x = real_part(x);
      T& element = matrix.elements[i + j * matrix.ld];
      element = fused(x, factor, element);
    }
  }
}

// A block copies 32 x 32 elements of the stored triangle at a time and transposes them in shared memory, so that both
// triangles are accessed along columns.
constexpr int mirrored = 32;
constexpr int mirrored_columns = threads_per_block / mirrored;

template <class R, int parts>
__device__ block::Element<R, parts> conjugate(block::Element<R, parts> a) {
  if constexpr (parts == 2) a.part[1] = -a.part[1];
  return a;
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    mirror_elements(T* A, index_t ld, index_t n, bool lower, bool hermitian) {
  __shared__ T block[mirrored][mirrored + 1];
  const int across = static_cast<int>(threadIdx.x) % mirrored;
  const int first = static_cast<int>(threadIdx.x) / mirrored;
  const index_t blocks = (n + mirrored - 1) / mirrored;
  for (index_t q = blockIdx.y; q < blocks; q += gridDim.y) {
    for (index_t p = q + blockIdx.x; p < blocks; p += gridDim.x) {
      const index_t row = (lower ? p : q) * mirrored;
      const index_t column = (lower ? q : p) * mirrored;
      for (int j = first; j < mirrored; j += mirrored_columns) {
        const index_t r = row + across;
        const index_t c = column + j;
        if (r < n && c < n && (lower ? r >= c : r <= c)) block[j][across] = A[r + c * ld];
      }
      __syncthreads();
      for (int j = first; j < mirrored; j += mirrored_columns) {
        const index_t r = column + across;
        const index_t c = row + j;
        if (r >= n || c >= n || (lower ? r > c : r < c)) continue;
        const T stored = block[across][j];
        if (r != c) {
          A[r + c * ld] = hermitian ? conjugate(stored) : stored;
        } else if (hermitian) {
          A[r + c * ld] = real_part(stored);
        }
      }
      __syncthreads();
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) clear_imaginary_diagonal(T* elements, index_t ld, index_t n) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t i = static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < n; i += step) {
    elements[i + i * ld] = real_part(elements[i + i * ld]);
  }
}

template <Scalar T>
const void* kernel_for() {
  return reinterpret_cast<const void*>(scale_elements<block::ElementOf<T>>);
}

/// Copies the columns of a matrix in units: elements, or 16 bytes of a column.
template <class Unit>
__global__ void __launch_bounds__(threads_per_block)
    copy_columns(Unit* __restrict__ to, const Unit* __restrict__ from, index_t ld, unsigned m, index_t count) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t at = static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; at < count; at += step) {
    // A division of 32-bit numbers takes a tenth of the time of a 64-bit one.
    const index_t j = at <= 0xffffffffU ? static_cast<unsigned>(at) / m : at / m;
    to[at] = from[at - j * m + j * ld];
  }
}

template <class Unit>
cudaError_t launch_copy(void* to, const Level3& call, cudaStream_t stream) {
  const auto element = static_cast<index_t>(element_bytes(call.type));
  const auto unit = static_cast<index_t>(sizeof(Unit));
  auto* target = static_cast<Unit*>(to);
  const auto* source = static_cast<const Unit*>(call.C);
  index_t ld = call.ldc * element / unit;
  const index_t rows = call.m * element / unit;
  if (rows > 0xffffffffU) return cudaErrorInvalidValue;
  auto m = static_cast<unsigned>(rows);
  index_t count = rows * call.n;
  constexpr index_t most_blocks = 8192;
  const auto blocks =
      static_cast<unsigned>(std::clamp<index_t>((count + threads_per_block - 1) / threads_per_block, 1, most_blocks));
  void* arguments[] = {&target, &source, &ld, &m, &count};
  return cudaLaunchKernel(reinterpret_cast<const void*>(copy_columns<Unit>), dim3(blocks), dim3(threads_per_block),
                          arguments, 0, stream);
}

unsigned blocks_for(index_t elements) {
  return static_cast<unsigned>(std::clamp<index_t>((elements + threads_per_block - 1) / threads_per_block, 1, 64));
}

template <Scalar T>
const void* diagonal_kernel_for() {
  return reinterpret_cast<const void*>(clear_imaginary_diagonal<block::ElementOf<T>>);
}

template <Scalar T>
const void* mirror_kernel_for() {
  return reinterpret_cast<const void*>(mirror_elements<block::ElementOf<T>>);
}

template <Scalar T>
const void* addition_kernel_for() {
  return reinterpret_cast<const void*>(add_elements<block::ElementOf<T>>);
}

dim3 grid_for(index_t m, index_t n) {
  return dim3(blocks_for(m), static_cast<unsigned>(std::clamp<index_t>(n, 1, 1024)));
}

template <Scalar T>
cudaError_t launch(const Level3& call, cudaStream_t stream) {
  using Value = block::ElementOf<T>;
  const T beta = scalar_cast<T>(call.beta);
  Matrix<Value> matrix{static_cast<Value*>(call.C), call.ldc, call.m, call.n, Part::full, false};
  if (call.updates_triangle()) {
    matrix.m = call.n;
    matrix.part = call.uplo == Uplo::lower ? Part::lower : Part::upper;
    matrix.real_diagonal = call.is_hermitian();
  }
  Value factor = block::element_from(beta);
  bool to_zero = call.is_triangular() || beta == T(0);
  void* arguments[] = {&matrix, &factor, &to_zero};
  return cudaLaunchKernel(kernel_for<T>(), grid_for(call.m, call.n), dim3(threads_per_block), arguments, 0, stream);
}

}  // namespace

cudaError_t scale(const Level3& call, cudaStream_t stream) {
  if (call.m <= 0 || call.n <= 0) return cudaSuccess;
  if (!call.is_triangular() && call.beta == AnyScalar(1)) return cudaSuccess;
  return dispatch(call.type, [&]<Scalar T>(T) { return launch<T>(call, stream); });
}

cudaError_t make_diagonal_real(const Level3& call, cudaStream_t stream) {
  return dispatch(call.type, [&]<Scalar T>(T) {
    auto* elements = static_cast<block::ElementOf<T>*>(call.C);
    index_t ld = call.ldc;
    index_t n = call.n;
    void* arguments[] = {&elements, &ld, &n};
    return cudaLaunchKernel(diagonal_kernel_for<T>(), dim3(blocks_for(n)), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t add(const Addition& a, cudaStream_t stream) {
  return dispatch(a.type, [&]<Scalar T>(T) {
    using Value = block::ElementOf<T>;
    Matrix<Value> matrix{static_cast<Value*>(a.C), a.ldc, a.m, a.n, a.part, a.hermitian};
    const Value* X = static_cast<const Value*>(a.X);
    index_t ldx = a.ldx;
    Value factor = block::element_from(scalar_cast<T>(a.factor));
    void* arguments[] = {&matrix, &X, &ldx, &factor};
    return cudaLaunchKernel(addition_kernel_for<T>(), grid_for(a.m, a.n), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t mirror(const Mirroring& tile, cudaStream_t stream) {
  return dispatch(tile.type, [&]<Scalar T>(T) {
    auto* A = static_cast<block::ElementOf<T>*>(tile.A);
    index_t ld = tile.lda;
    index_t n = tile.n;
    bool lower = tile.stored == Part::lower;
    bool hermitian = tile.hermitian;
    void* arguments[] = {&A, &ld, &n, &lower, &hermitian};
    constexpr index_t most_blocks = 512;  // in each dimension
    const auto blocks = static_cast<unsigned>(std::clamp<index_t>((n + mirrored - 1) / mirrored, 1, most_blocks));
    return cudaLaunchKernel(mirror_kernel_for<T>(), dim3(blocks, blocks), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t copy_to(void* to, const Level3& call, cudaStream_t stream) {
  const auto element = static_cast<index_t>(element_bytes(call.type));
  if ((reinterpret_cast<std::uintptr_t>(call.C) | static_cast<std::uintptr_t>(call.m * element) |
       static_cast<std::uintptr_t>(call.ldc * element)) %
          sizeof(uint4) ==
      0)
    return launch_copy<uint4>(to, call, stream);
  if (element == 4) return launch_copy<std::uint32_t>(to, call, stream);
  if (element == 8) return launch_copy<std::uint64_t>(to, call, stream);
  return launch_copy<uint4>(to, call, stream);
}

cudaError_t load_elementwise_kernels() {
  for (const void* kernel : {reinterpret_cast<const void*>(copy_columns<std::uint32_t>),
                             reinterpret_cast<const void*>(copy_columns<std::uint64_t>),
                             reinterpret_cast<const void*>(copy_columns<uint4>)}) {
    if (const cudaError_t error = device::cuda::load_kernel(kernel); error != cudaSuccess) return error;
  }
  for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
    const cudaError_t error = dispatch(type, []<Scalar T>(T) {
      cudaError_t loaded = cudaSuccess;
      for (const void* kernel :
           {kernel_for<T>(), diagonal_kernel_for<T>(), addition_kernel_for<T>(), mirror_kernel_for<T>()}) {
        if (loaded == cudaSuccess) loaded = device::cuda::load_kernel(kernel);
      }
      return loaded;
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::kernels::cuda
