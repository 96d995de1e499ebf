#include "bench/interleaved_layout.hpp"

#include <utility>

#include "kernels/block/element.hpp"
#include "kernels/block/reciprocal.hpp"

namespace tessera::bench {
namespace {

using kernels::block::Element;
using kernels::block::fused;
using kernels::block::Root;
using kernels::block::root_of;
using kernels::block::ScaledReciprocal;

constexpr int warp = 32;
/// Of a thread block: so few that a kernel may have all registers that a thread can have.
constexpr int factor_threads = 64, convert_threads = 256;

// --- factors ---

/// A thread's columns of one matrix, in registers: part, part + threads and so on. The threads of a matrix are in one
/// warp, those with the same part side by side, so that a warp reads 32 / threads neighbours at a time.
template <class R, int n, int threads, bool is_lower>
class Columns {
 public:
  static constexpr int count = (n + threads - 1) / threads;
  static constexpr int matrices_of_warp = warp / threads;

  __device__ __forceinline__ Columns() {
    const index_t thread = index_t{blockIdx.x} * factor_threads + threadIdx.x;
    const int lane = static_cast<int>(threadIdx.x) % warp;
    matrix_ = thread / warp * matrices_of_warp + lane % matrices_of_warp;
    part_ = lane / matrices_of_warp;
  }

  __device__ __forceinline__ index_t matrix() const { return matrix_; }
  __device__ __forceinline__ bool owns(int column) const { return part_ == column % threads; }
  /// The number of the thread's column c; it may be behind the last one.
  __device__ __forceinline__ int number(int c) const { return c * threads + part_; }
  /// Where that is known before the kernel runs, no code is left of it.
  __device__ __forceinline__ bool has(int i, int c) const {
    const int first = c * threads, last = first + threads - 1;
    if (is_lower && i < first) return false;
    const bool is_inside = last < n || number(c) < n;
    return is_inside && (!is_lower || i >= last || i >= number(c));
  }

  __device__ __forceinline__ void load(const R* A, index_t stride) {
    for_each_address(A, stride, [&](R& element, const R* at) { element = *at; });
  }
  __device__ __forceinline__ void store(R* A, index_t stride) {
    for_each_address(A, stride, [](R& element, R* at) { *at = element; });
  }

  /// A value of the thread that has the column. All of the warp.
  template <class V>
  __device__ __forceinline__ V from_owner(V value, int column) const {
    if constexpr (threads == 1) return value;
    const int lane = static_cast<int>(threadIdx.x) % warp;
    return __shfl_sync(~0U, value, column % threads * matrices_of_warp + lane % matrices_of_warp);
  }

  R a[count][n] = {};

 private:
  /// One address after the other: all at once would fill the registers.
  template <class Address, class F>
  __device__ __forceinline__ void for_each_address(Address at, index_t stride, F f) {
    at += matrix_ + part_ * n * stride;
    TESSERA_UNROLL
    for (int c = 0; c < count; ++c) {
      TESSERA_UNROLL
      for (int i = 0; i < n; ++i) {
        if (has(i, c)) f(a[c][i], at);
        asm volatile("" : "+l"(stride));  // of which the compiler then knows nothing
        at += i + 1 < n ? stride : stride * (n * (threads - 1) + 1);
      }
    }
  }

  index_t matrix_;
  int part_;
};

/// f.operator()<k>() for all columns in turn, where the compiler would not unroll a loop: there are long ones in it.
template <int n, class F>
__device__ __forceinline__ void for_each_column(F f) {
  [&]<int... k>(std::integer_sequence<int, k...>) { (f.template operator()<k>(), ...); }
  (std::make_integer_sequence<int, n>());
}

/// The row of the largest element of column k from the diagonal on: the topmost one of several, a NaN where it is on
/// the diagonal.
template <int k, class R, int n, int threads>
__device__ __forceinline__ int pivot_of(const Columns<R, n, threads, false>& m) {
  int pivot = k;
  R largest = fabs(m.a[k / threads][k]);
  TESSERA_UNROLL
  for (int i = k + 1; i < n; ++i) {
    const R size = fabs(m.a[k / threads][i]);
    if (size > largest) {
      largest = size;
      pivot = i;
    }
  }
  return m.from_owner(pivot, k);
}

/// Registers have no index at run time: each row below k changes places with it, or does not.
template <int k, class R, int n, int threads>
__device__ __forceinline__ void interchange(Columns<R, n, threads, false>& m, int pivot) {
  TESSERA_UNROLL
  for (int i = k + 1; i < n; ++i) {
    const bool is_pivot = i == pivot;
    TESSERA_UNROLL
    for (int c = 0; c < m.count; ++c) {
      const R above = m.a[c][k], below = m.a[c][i];
      m.a[c][k] = is_pivot ? below : above;
      m.a[c][i] = is_pivot ? above : below;
    }
  }
}

/// Column k and what it changes to its right. @return whether its pivot is zero
template <int k, class R, int n, int threads>
__device__ __forceinline__ bool eliminate(Columns<R, n, threads, false>& m) {
  constexpr int own = k / threads, first_behind = (k + 1) / threads;
  Element<R, 1> pivot{{m.from_owner(m.a[own][k], k)}};
  const bool is_zero = pivot.part[0] == 0;
  if (is_zero) pivot.part[0] = 1;  // LAPACK goes on with the column as it is
  const ScaledReciprocal<R, 1> inverse(pivot);
  TESSERA_UNROLL
  for (int i = k + 1; i < n; ++i) {
    const R factor = m.from_owner(m.a[own][i] * inverse.inverse.part[0] * inverse.scale, k);
    if (m.owns(k)) m.a[own][i] = factor;
    TESSERA_UNROLL
    for (int c = first_behind; c < m.count; ++c) {
      if (c > own || m.number(c) > k) m.a[c][i] = fused(-factor, m.a[c][k], m.a[c][i]);
    }
  }
  return is_zero;
}

/// LAPACK's ?getf2, with products by reciprocals of pivots.
template <class R, int n, int threads>
__global__ void __launch_bounds__(factor_threads) lu(R* A, int* pivots, int* info, index_t stride) {
  Columns<R, n, threads, false> m;
  if (m.matrix() >= stride) return;  // whole warps
  m.load(A, stride);
  int first_zero = 0;
  for_each_column<n>([&]<int k>() {
    const int pivot = pivot_of<k>(m);
    if (m.owns(k)) pivots[k * stride + m.matrix()] = pivot + 1;
    interchange<k>(m, pivot);
    if (eliminate<k>(m) && first_zero == 0) first_zero = k + 1;
  });
  m.store(A, stride);
  if (m.owns(0)) info[m.matrix()] = first_zero;
}

/// The element of the thread's column c among those of a row that all threads have.
template <class R, int n, int threads>
__device__ __forceinline__ R own_element(const Columns<R, n, threads, true>& m, const R (&row)[n], int c) {
  R element = row[c * threads];
  TESSERA_UNROLL
  for (int p = 1; p < threads; ++p) {
    if (c * threads + p < n && m.owns(p)) element = row[c * threads + p];
  }
  return element;
}

/// Column k of the factor, and what it changes to its right.
template <int k, class R, int n, int threads>
__device__ __forceinline__ void eliminate(Columns<R, n, threads, true>& m, const Root<R>& pivot) {
  constexpr int own = k / threads, first_behind = (k + 1) / threads;
  R factors[n] = {};
  TESSERA_UNROLL
  for (int i = k + 1; i < n; ++i) {
    factors[i] = m.from_owner(m.a[own][i] * pivot.inverse, k);
    if (m.owns(k)) m.a[own][i] = factors[i];
  }
  if (m.owns(k)) m.a[own][k] = pivot.root;
  TESSERA_UNROLL
  for (int c = first_behind; c < m.count; ++c) {
    const R minus = -own_element(m, factors, c);
    TESSERA_UNROLL
    for (int i = k + 1; i < n; ++i) {
      if (i >= c * threads && (c > own || m.number(c) > k)) m.a[c][i] = fused(minus, factors[i], m.a[c][i]);
    }
  }
}

/// LAPACK's ?potf2 of a lower triangle. What follows a minor that is not positive is undefined.
template <class R, int n, int threads>
__global__ void __launch_bounds__(factor_threads) cholesky(R* A, int* info, index_t stride) {
  Columns<R, n, threads, true> m;
  if (m.matrix() >= stride) return;  // whole warps
  m.load(A, stride);
  int failed = 0;
  for_each_column<n>([&]<int k>() {
    const R pivot = m.from_owner(m.a[k / threads][k], k);
    if (failed == 0 && !(pivot > 0)) failed = k + 1;
    eliminate<k>(m, root_of(pivot));
  });
  m.store(A, stride);
  if (m.owns(0)) info[m.matrix()] = failed;
}

// --- between the layouts ---

/// What a thread block moves at a time: some elements of some problems, which lie side by side in both layouts.
/// @tparam elements  of a problem, one behind the other in the usual layout
template <int elements>
struct Tile {
  static constexpr int most = 64;
  static constexpr int length = elements < most ? elements : most;
  static constexpr int problems = warp * (most / length);
  static constexpr int pieces = (elements + length - 1) / length;
};

/// Whether the element is on or below the diagonal of a matrix of that order; 0: all are wanted.
template <int triangle>
__device__ __forceinline__ bool is_wanted(int element) {
  if constexpr (triangle == 0) return true;
  return element % (triangle > 0 ? triangle : 1) >= element / (triangle > 0 ? triangle : 1);
}

/// From problem after problem to element after element, or back.
template <class E, int elements, int triangle, bool is_back>
__global__ void __launch_bounds__(convert_threads) convert(E* to, const E* from, index_t stride, index_t count) {
  using Shape = Tile<elements>;
  constexpr int places = Shape::problems * Shape::length;
  __shared__ E tile[Shape::problems][Shape::length | 1];  // odd, so that threads read from different banks
  const index_t first = index_t{blockIdx.x} * Shape::problems;
  const int first_element = static_cast<int>(blockIdx.y) * Shape::length;
  /// move(place in shared memory, number in global memory) with neighbours in that layout for neighbouring threads.
  const auto for_each_place = [&](bool is_usual, auto move) {
    TESSERA_UNROLL
    for (int step = 0; step * convert_threads < places; ++step) {
      const int t = step * convert_threads + static_cast<int>(threadIdx.x);
      const int p = is_usual ? t / Shape::length : t % Shape::problems;
      const int e = is_usual ? t % Shape::length : t / Shape::problems;
      const int element = first_element + e;
      if (t < places && first + p < count && element < elements && is_wanted<triangle>(element))
        move(tile[p][e], is_usual ? (first + p) * elements + element : element * stride + first + p);
    }
  };
  for_each_place(!is_back, [&](E& place, index_t at) { place = from[at]; });
  __syncthreads();
  for_each_place(is_back, [&](const E& place, index_t at) { to[at] = place; });
}

template <class E, int elements, int triangle, bool is_back>
cudaError_t start_conversion(E* to, const E* from, index_t stride, index_t count, cudaStream_t stream) {
  using Shape = Tile<elements>;
  const dim3 grid(static_cast<unsigned>((count + Shape::problems - 1) / Shape::problems), Shape::pieces);
  convert<E, elements, triangle, is_back><<<grid, convert_threads, 0, stream>>>(to, from, stride, count);
  return cudaGetLastError();
}

// --- by numbers that are known when the program runs ---

/// f.operator()<at>() with the place of a value in an array.
template <std::size_t size, class F>
cudaError_t with_place(const std::array<int, size>& values, int value, F f) {
  cudaError_t error = cudaErrorInvalidValue;
  [&]<std::size_t... at>(std::index_sequence<at...>) {
    static_cast<void>(((values[at] == value && (error = f.template operator()<at>(), true)) || ...));
  }
  (std::make_index_sequence<size>());
  return error;
}

/// f.operator()<n, threads>()
template <class F>
cudaError_t with_team(int n, int threads, F f) {
  return with_place(interleaved_orders, n, [&]<std::size_t order>() {
    return with_place(interleaved_teams, threads, [&]<std::size_t team>() {
      return f.template operator()<interleaved_orders[order], interleaved_teams[team]>();
    });
  });
}

template <class R, bool is_back>
cudaError_t convert_matrices(BatchRoutine routine, int n, R* to, const R* from, index_t stride, index_t count,
                             cudaStream_t stream) {
  return with_place(interleaved_orders, n, [&]<std::size_t at>() {
    constexpr int order = interleaved_orders[at];
    return routine == BatchRoutine::potrf
               ? start_conversion<R, order * order, order, is_back>(to, from, stride, count, stream)
               : start_conversion<R, order * order, 0, is_back>(to, from, stride, count, stream);
  });
}

}  // namespace

template <class R>
cudaError_t factor_interleaved(BatchRoutine routine, int n, int threads, const InterleavedBatch<R>& batch,
                               cudaStream_t stream) {
  return with_team(n, threads, [&]<int order, int team>() {
    const auto blocks = static_cast<unsigned>((batch.stride * team + factor_threads - 1) / factor_threads);
    if (routine == BatchRoutine::potrf)
      cholesky<R, order, team><<<blocks, factor_threads, 0, stream>>>(batch.A, batch.info, batch.stride);
    else
      lu<R, order, team><<<blocks, factor_threads, 0, stream>>>(batch.A, batch.pivots, batch.info, batch.stride);
    return cudaGetLastError();
  });
}

template <class R>
cudaError_t resources_of_factor(BatchRoutine routine, int n, int threads, cudaFuncAttributes* resources) {
  return with_team(n, threads, [&]<int order, int team>() {
    return routine == BatchRoutine::potrf ? cudaFuncGetAttributes(resources, cholesky<R, order, team>)
                                          : cudaFuncGetAttributes(resources, lu<R, order, team>);
  });
}

template <class R>
cudaError_t interleave(BatchRoutine routine, int n, R* to, index_t stride, const R* from, index_t count,
                       cudaStream_t stream) {
  return convert_matrices<R, false>(routine, n, to, from, stride, count, stream);
}

template <class R>
cudaError_t put_back(BatchRoutine routine, int n, R* to, const R* from, index_t stride, index_t count,
                     cudaStream_t stream) {
  return convert_matrices<R, true>(routine, n, to, from, stride, count, stream);
}

cudaError_t put_back_pivots(int n, int* to, const int* from, index_t stride, index_t count, cudaStream_t stream) {
  return with_place(interleaved_orders, n, [&]<std::size_t at>() {
    return start_conversion<int, interleaved_orders[at], 0, true>(to, from, stride, count, stream);
  });
}

#define TESSERA_INTERLEAVED(R)                                                                               \
  template cudaError_t factor_interleaved(BatchRoutine, int, int, const InterleavedBatch<R>&, cudaStream_t); \
  template cudaError_t resources_of_factor<R>(BatchRoutine, int, int, cudaFuncAttributes*);                  \
  template cudaError_t interleave(BatchRoutine, int, R*, index_t, const R*, index_t, cudaStream_t);          \
  template cudaError_t put_back(BatchRoutine, int, R*, const R*, index_t, index_t, cudaStream_t)
TESSERA_INTERLEAVED(float);
TESSERA_INTERLEAVED(double);
#undef TESSERA_INTERLEAVED

}  // namespace tessera::bench
