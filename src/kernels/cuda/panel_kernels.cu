#include "kernels/cuda/panel_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::product;

constexpr int threads_per_block = 256;
constexpr int most_columns = static_cast<int>(most_panel_columns);

struct Pivots {
  std::int32_t *info, *pivots, *sources;
};

template <class T>
__device__ bool is_zero(const T& value) {
  bool zero = true;
  for (const auto part : value.part) zero = zero && part == 0;
  return zero;
}

// What moves to a row is found by going backwards through the interchanges, for all rows at once: one block, two rows a
// thread.
template <class T>
__global__ void __launch_bounds__(most_columns) complete(const T* A, index_t lda, int m, int n, Pivots tail) {
  __shared__ std::int32_t pivots[most_columns];
  __shared__ std::int32_t first_zero;
  const auto i = static_cast<int>(threadIdx.x);
  if (i == 0) first_zero = n + 1;
  __syncthreads();
  if (i < n) {
    const std::int32_t told = tail.pivots[i];
    const std::int32_t pivot = told > i && told <= m ? told : i + 1;
    if (pivot != told) tail.pivots[i] = pivot;
    pivots[i] = pivot - 1;
    if (is_zero(A[i + i * lda])) atomicMin(&first_zero, i + 1);
  }
  __syncthreads();
  if (i == 0) *tail.info = first_zero <= n ? first_zero : 0;
  if (i >= n) return;
  std::int32_t top = i, displaced = pivots[i];
  for (int k = n - 1; k >= 0; --k) {
    const std::int32_t other = pivots[k];
    top = top == k ? other : top == other ? k : top;
    displaced = displaced == k ? other : displaced == other ? k : displaced;
  }
  tail.sources[i] = top;
  tail.sources[n + i] = displaced;
}

// Columns are dealt to the blocks. All rows that move are read before any is written.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    interchange(T* C, index_t ldc, index_t columns, int n, const std::int32_t* pivots, const std::int32_t* sources) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* const moving = reinterpret_cast<T*>(memory);
  for (index_t j = blockIdx.x; j < columns; j += gridDim.x) {
    T* const column = C + j * ldc;
    for (int r = static_cast<int>(threadIdx.x); r < 2 * n; r += threads_per_block) moving[r] = column[sources[r]];
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.x); r < 2 * n; r += threads_per_block) {
      const std::int32_t row = r < n ? r : pivots[r - n] - 1;
      // Rows of the top are told of once; of two pivots that are the same row both tell the same.
      if (r < n || row >= n) column[row] = moving[r];
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) unit_lower(T* V, const T* A, index_t lda, int n) {
  for (int j = static_cast<int>(blockIdx.x); j < n; j += static_cast<int>(gridDim.x)) {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += threads_per_block) {
      T value{};
      if (i == j) value.part[0] = 1;
      if (i > j) value = A[i + j * lda];
      V[i + static_cast<index_t>(j) * n] = value;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) scaled_rows(T* G, T* to, const T* tau, int n) {
  for (int j = static_cast<int>(blockIdx.x); j < n; j += static_cast<int>(gridDim.x)) {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += threads_per_block) {
      const index_t at = i + static_cast<index_t>(j) * n;
      if (i < j) G[at] = product(G[at], tau[i]);
      to[at] = i == j ? tau[i] : T{};
    }
  }
}

template <Scalar T>
struct KernelsOf {
  using Value = block::ElementOf<T>;
  static const void* complete_kernel() { return reinterpret_cast<const void*>(complete<Value>); }
  static const void* interchange_kernel() { return reinterpret_cast<const void*>(interchange<Value>); }
  static const void* unit_lower_kernel() { return reinterpret_cast<const void*>(unit_lower<Value>); }
  static const void* scaled_rows_kernel() { return reinterpret_cast<const void*>(scaled_rows<Value>); }
};

dim3 one_each(index_t columns) { return dim3(static_cast<unsigned>(std::clamp<index_t>(columns, 1, 1024))); }

}  // namespace

cudaError_t complete_pivots(const Panel& panel, cudaStream_t stream) {
  if (panel.n > most_panel_columns) return cudaErrorInvalidValue;
  return dispatch(panel.type, [&]<Scalar T>(T) {
    const auto* A = static_cast<const block::ElementOf<T>*>(panel.A);
    index_t lda = panel.lda;
    int m = static_cast<int>(panel.m), n = static_cast<int>(panel.n);
    const PivotTail tail = pivot_tail(panel);
    Pivots pivots{tail.info, tail.pivots, tail.sources};
    void* arguments[] = {&A, &lda, &m, &n, &pivots};
    const unsigned threads = (static_cast<unsigned>(n) + 31) / 32 * 32;
    return cudaLaunchKernel(KernelsOf<T>::complete_kernel(), dim3(1), dim3(threads), arguments, 0, stream);
  });
}

cudaError_t interchange_rows(const PanelUpdate& update, cudaStream_t stream) {
  const Panel& panel = update.panel;
  return dispatch(panel.type, [&]<Scalar T>(T) {
    using Value = block::ElementOf<T>;
    auto* C = static_cast<Value*>(update.C);
    index_t ldc = update.ldc, columns = update.n;
    int n = static_cast<int>(panel.n);
    const PivotTail tail = pivot_tail(panel);
    const std::int32_t *pivots = tail.pivots, *sources = tail.sources;
    void* arguments[] = {&C, &ldc, &columns, &n, &pivots, &sources};
    const std::size_t shared = 2 * static_cast<std::size_t>(n) * sizeof(Value);
    return cudaLaunchKernel(KernelsOf<T>::interchange_kernel(), one_each(columns), dim3(threads_per_block), arguments,
                            shared, stream);
  });
}

cudaError_t copy_unit_lower(const Panel& panel, void* V, cudaStream_t stream) {
  return dispatch(panel.type, [&]<Scalar T>(T) {
    auto* to = static_cast<block::ElementOf<T>*>(V);
    const auto* A = static_cast<const block::ElementOf<T>*>(panel.A);
    index_t lda = panel.lda;
    int n = static_cast<int>(panel.n);
    void* arguments[] = {&to, &A, &lda, &n};
    return cudaLaunchKernel(KernelsOf<T>::unit_lower_kernel(), one_each(n), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t prepare_t(ScalarType type, index_t order, void* G, const void* factors, void* T_of, cudaStream_t stream) {
  return dispatch(type, [&]<Scalar T>(T) {
    using Value = block::ElementOf<T>;
    auto *triangle = static_cast<Value*>(G), *to = static_cast<Value*>(T_of);
    const auto* tau = static_cast<const Value*>(factors);
    int n = static_cast<int>(order);
    void* arguments[] = {&triangle, &to, &tau, &n};
    return cudaLaunchKernel(KernelsOf<T>::scaled_rows_kernel(), one_each(n), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t load_panel_kernels() {
  for (const ScalarType type : scalar_types) {
    const cudaError_t error = dispatch(type, []<Scalar T>(T) {
      using Kernels = KernelsOf<T>;
      cudaError_t loaded = cudaSuccess;
      for (const void* kernel : {Kernels::complete_kernel(), Kernels::interchange_kernel(),
                                 Kernels::unit_lower_kernel(), Kernels::scaled_rows_kernel()}) {
        if (loaded == cudaSuccess) loaded = device::cuda::load_kernel(kernel);
      }
      return loaded;
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::kernels::cuda
