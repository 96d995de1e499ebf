#include "kernels/cuda/panel_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

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

template <class T>
using RealOf = std::remove_cv_t<std::remove_reference_t<decltype(T{}.part[0])>>;

// Zero, or a number with an exponent in the middle half: products and quotients of two such numbers are normal numbers.
template <class T>
__device__ bool is_safe(const T& value) {
  constexpr bool is_double = sizeof(RealOf<T>) == sizeof(double);
  constexpr RealOf<T> least = is_double ? RealOf<T>(0x1p-511) : RealOf<T>(0x1p-63F);
  constexpr RealOf<T> limit = is_double ? RealOf<T>(0x1p512) : RealOf<T>(0x1p64F);
  bool is_below = true, is_above = false;
  for (const auto part : value.part) {
    is_below = is_below && abs(part) < limit;  // false for a NaN
    is_above = is_above || abs(part) >= least;
  }
  return is_below && (is_above || is_zero(value));
}

constexpr int rows_of_thread = 4, rows_of_piece = rows_of_thread * threads_per_block;

// Calls f(i, j, element) for all elements, and sets those to zero for which it returns false. Pieces of columns are
// distributed over the blocks.
template <class T, class F>
__device__ void for_each_element(T* A, index_t lda, int m, int n, F&& f) {
  const int pieces = (m + rows_of_piece - 1) / rows_of_piece;
  for (index_t at = blockIdx.x; at < static_cast<index_t>(pieces) * n; at += gridDim.x) {
    const index_t j = at / pieces;
    const int first = static_cast<int>(at % pieces) * rows_of_piece + static_cast<int>(threadIdx.x);
    T values[rows_of_thread];
#pragma unroll
    for (int r = 0; r < rows_of_thread; ++r) {
      const int i = first + r * threads_per_block;
      values[r] = i < m ? A[i + j * lda] : T{};
    }
#pragma unroll
    for (int r = 0; r < rows_of_thread; ++r) {
      const int i = first + r * threads_per_block;
      if (i < m && !f(i, j, values[r])) A[i + j * lda] = {};
    }
  }
}

// Unsafe numbers are replaced, because cuSOLVER is not prepared for them. Its results are not used then.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    copy_and_look(T* A, index_t lda, int m, int n, T* copy, PanelCopy::State* state) {
  bool all_safe = true;
  for_each_element(A, lda, m, n, [&](int i, index_t j, const T& value) {
    copy[i + j * m] = value;
    const bool safe = is_safe(value);
    all_safe = all_safe && safe;
    return safe;
  });
  if (!all_safe) state->is_unsafe = 1;  // all threads that write it write the same value
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    look_for_not_finite(T* A, index_t lda, int m, int n, PanelCopy::State* state) {
  int first = n;
  for_each_element(A, lda, m, n, [&](int, index_t j, const T& value) {
    bool finite = true;
    for (const auto part : value.part) finite = finite && isfinite(part);
    if (!finite) first = min(first, static_cast<int>(j));
    return finite;
  });
  if (first < n) atomicMax(&state->columns, n - first);
}

// One block, since only columns with such numbers cause work.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    fill_not_finite(T* A, index_t lda, int m, int n, T* tau, PanelCopy::State* state) {
  const int first = n - state->columns;
  T nan;
  for (auto& part : nan.part) part = NAN;
  for (int j = first; j < n; ++j) {
    for (int i = (j == first ? 0 : first) + static_cast<int>(threadIdx.x); i < m; i += threads_per_block)
      A[i + j * lda] = nan;
    if (threadIdx.x == 0) tau[j] = nan;
  }
  __syncthreads();
  if (threadIdx.x == 0) state->columns = 0;
}

template <class T>
__global__ void __launch_bounds__(most_columns)
    look_at_pivots(const T* A, index_t lda, int m, int n, PanelCopy::State* state) {
  const auto i = static_cast<int>(threadIdx.x);
  const bool is_unsafe = state->is_unsafe != 0 || (i < n && !is_safe(A[i + i * lda]));
  const bool is_exceptional = __syncthreads_or(is_unsafe) != 0;
  if (i == 0) *state = {is_exceptional ? m : 0, is_exceptional ? n : 0, 0, 0, 0};
}

// Finds the row that moves to each place, by going backwards through the interchanges, for all rows at once: one block,
// two rows per thread.
template <class T>
__global__ void __launch_bounds__(most_columns)
    complete(T* A, index_t lda, int m, int n, Pivots tail, const T* copy, const PanelCopy::State* state) {
  __shared__ std::int32_t pivots[most_columns];
  __shared__ std::int32_t first_zero;
  const auto i = static_cast<int>(threadIdx.x);
  for (int j = 0; j < state->n; ++j) {
    for (int row = i; row < m; row += static_cast<int>(blockDim.x))
      A[row + j * lda] = copy[row + static_cast<index_t>(j) * m];
  }
  if (i == 0) first_zero = n + 1;
  __syncthreads();
  if (i < n) {
    pivots[i] = tail.pivots[i] - 1;
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

// Columns are distributed over the blocks. All rows that move are read before any is written.
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
      // A row of the top has one entry. A row below it may be the pivot of two rows; both entries then hold the same
      // row.
      if (r < n || row >= n) column[row] = moving[r];
    }
    __syncthreads();
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
  static const void* copy_kernel() { return reinterpret_cast<const void*>(copy_and_look<Value>); }
  static const void* pivots_kernel() { return reinterpret_cast<const void*>(look_at_pivots<Value>); }
  static const void* look_kernel() { return reinterpret_cast<const void*>(look_for_not_finite<Value>); }
  static const void* fill_kernel() { return reinterpret_cast<const void*>(fill_not_finite<Value>); }
  static const void* complete_kernel() { return reinterpret_cast<const void*>(complete<Value>); }
  static const void* interchange_kernel() { return reinterpret_cast<const void*>(interchange<Value>); }
  static const void* scaled_rows_kernel() { return reinterpret_cast<const void*>(scaled_rows<Value>); }
};

index_t pieces_of(const Panel& panel) { return (panel.m + rows_of_piece - 1) / rows_of_piece * panel.n; }

unsigned threads_for_columns(int n) { return (static_cast<unsigned>(n) + 31) / 32 * 32; }

dim3 one_each(index_t parts) { return dim3(static_cast<unsigned>(std::clamp<index_t>(parts, 1, 1024))); }

}  // namespace

cudaError_t copy_panel(const Panel& panel, const PanelCopy& copy, cudaStream_t stream) {
  return dispatch(panel.type, [&]<Scalar T>(T) {
    auto* A = static_cast<block::ElementOf<T>*>(panel.A);
    auto* to = static_cast<block::ElementOf<T>*>(copy.A);
    index_t lda = panel.lda;
    int m = static_cast<int>(panel.m), n = static_cast<int>(panel.n);
    PanelCopy::State* state = copy.state;
    void* arguments[] = {&A, &lda, &m, &n, &to, &state};
    return cudaLaunchKernel(KernelsOf<T>::copy_kernel(), one_each(pieces_of(panel)), dim3(threads_per_block), arguments,
                            0, stream);
  });
}

cudaError_t find_exceptional(const Panel& panel, const PanelCopy& copy, cudaStream_t stream) {
  return dispatch(panel.type, [&]<Scalar T>(T) {
    const auto* A = static_cast<const block::ElementOf<T>*>(panel.A);
    index_t lda = panel.lda;
    int m = static_cast<int>(panel.m), n = static_cast<int>(panel.n);
    PanelCopy::State* state = copy.state;
    void* arguments[] = {&A, &lda, &m, &n, &state};
    return cudaLaunchKernel(KernelsOf<T>::pivots_kernel(), dim3(1), dim3(threads_for_columns(n)), arguments, 0, stream);
  });
}

cudaError_t complete_pivots(const Panel& panel, const PanelCopy& copy, cudaStream_t stream) {
  if (panel.n > most_panel_columns) return cudaErrorInvalidValue;
  return dispatch(panel.type, [&]<Scalar T>(T) {
    auto* A = static_cast<block::ElementOf<T>*>(panel.A);
    const auto* from = static_cast<const block::ElementOf<T>*>(copy.A);
    index_t lda = panel.lda;
    int m = static_cast<int>(panel.m), n = static_cast<int>(panel.n);
    const PivotTail tail = pivot_tail(panel);
    Pivots pivots{tail.info, tail.pivots, tail.sources};
    const PanelCopy::State* state = copy.state;
    void* arguments[] = {&A, &lda, &m, &n, &pivots, &from, &state};
    const unsigned threads = std::max(512U, threads_for_columns(n));  // threads that also copy
    return cudaLaunchKernel(KernelsOf<T>::complete_kernel(), dim3(1), dim3(threads), arguments, 0, stream);
  });
}

cudaError_t find_not_finite(const Panel& columns, PanelCopy::State* state, cudaStream_t stream) {
  return dispatch(columns.type, [&]<Scalar T>(T) {
    auto* A = static_cast<block::ElementOf<T>*>(columns.A);
    index_t lda = columns.lda;
    int m = static_cast<int>(columns.m), n = static_cast<int>(columns.n);
    void* arguments[] = {&A, &lda, &m, &n, &state};
    return cudaLaunchKernel(KernelsOf<T>::look_kernel(), one_each(pieces_of(columns)), dim3(threads_per_block),
                            arguments, 0, stream);
  });
}

cudaError_t spread_not_finite(const Panel& columns, void* tau, PanelCopy::State* state, cudaStream_t stream) {
  return dispatch(columns.type, [&]<Scalar T>(T) {
    auto* A = static_cast<block::ElementOf<T>*>(columns.A);
    auto* factors = static_cast<block::ElementOf<T>*>(tau);
    index_t lda = columns.lda;
    int m = static_cast<int>(columns.m), n = static_cast<int>(columns.n);
    void* arguments[] = {&A, &lda, &m, &n, &factors, &state};
    return cudaLaunchKernel(KernelsOf<T>::fill_kernel(), dim3(1), dim3(threads_per_block), arguments, 0, stream);
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
      for (const void* kernel :
           {Kernels::copy_kernel(), Kernels::pivots_kernel(), Kernels::look_kernel(), Kernels::fill_kernel(),
            Kernels::complete_kernel(), Kernels::interchange_kernel(), Kernels::scaled_rows_kernel()}) {
        if (loaded == cudaSuccess) loaded = device::cuda::load_kernel(kernel);
      }
      return loaded;
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::kernels::cuda
